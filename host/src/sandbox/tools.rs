//! `claw:host/tools`: calls of other tools, where the profile grants any. Each goes the whole path of a
//! call, and this one waits for it.
//!
//! Deliberately absent: any decision about what may be called, which is the gate's, and calls beside
//! each other, as a guest makes one host call at a time.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::json;
use clawhost_core::limits::{TOOL_CALLS_REFUSED_MAX, TOOL_OUTPUT_BYTES_MAX};
use clawhost_core::reply::ToolReply;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::bindings::claw::host::tools;
use super::state::CallState;
use crate::offload;

/// Above this, reading arguments or writing a result takes a good part of a millisecond.
const LONG_BYTES: usize = 65_536;

/// Makes the calls of one guest.
pub trait CallTools: Send + Sync + std::fmt::Debug {
    /// Calls `tool`, for no longer than `timeout`.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        timeout: Option<Duration>,
    ) -> BoxFuture<'a, Result<ToolReply, CallError>>;

    /// Records a call of `tool` that is refused before it is looked at, and returns `why`.
    fn refuse<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        why: CallError,
    ) -> BoxFuture<'a, Result<ToolReply, CallError>>;

    /// Returns the tools that may be called.
    fn offered(&self) -> Vec<Arc<Tool>>;
}

/// What one call may call.
pub(super) struct ToolsCtx {
    /// Nothing where no call is granted, or nobody made this one.
    caller: Option<Arc<dyn CallTools>>,
    granted: usize,
    made: usize,
    work: u64,
    /// How many calls over those were tried, and what was said of the first.
    refused: (usize, Option<String>),
}

impl ToolsCtx {
    pub(super) fn new(granted: usize) -> Self {
        Self { caller: None, granted, made: 0, work: 0, refused: (0, None) }
    }

    pub(super) fn set_caller(&mut self, caller: Arc<dyn CallTools>) {
        self.caller = Some(caller).filter(|_| self.granted > 0);
    }

    /// Returns what the call tried and was refused: calling at all, or once too often.
    pub(super) fn violation(&self) -> Option<&String> {
        self.refused.1.as_ref()
    }

    /// Says whether it went on calling for too long after it might not: each refusal is recorded.
    pub(super) fn is_spent(&self) -> bool {
        self.refused.0 >= TOOL_CALLS_REFUSED_MAX
    }

    /// Returns the bytes moved for the guest since the last look, and starts anew.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn refuse(&mut self, reason: &str) -> CallError {
        let (times, first) = &mut self.refused;
        *times += 1;
        first.get_or_insert_with(|| format!("tools: {reason}"));
        let error = CallError::new(ErrorKind::Sandbox, reason).with("stage", "nesting");
        error.with("limit", "tool_calls_max")
    }

    fn take(&mut self) -> Result<(), CallError> {
        if self.made >= self.granted {
            let reason = format!("one call may make {} others under its profile", self.granted);
            return Err(self.refuse(&reason));
        }
        self.made += 1;
        Ok(())
    }

    async fn call(
        &mut self,
        name: &str,
        arguments: &str,
        timeout: Option<Duration>,
    ) -> Result<String, tools::CallError> {
        let Some(caller) = self.caller.clone() else {
            return Err(self.refuse("the profile does not grant calls of other tools").into());
        };
        self.work += arguments.len() as u64;
        let is_long = arguments.len() > LONG_BYTES;
        let read = offload::blocking(is_long, || json::parse(arguments.as_bytes()));
        let read = read.map_err(|error| {
            let text = format!("the arguments cannot be read: {error}");
            CallError::new(ErrorKind::InvalidArguments, text).with("stage", "schema")
        });
        let reply = match self.take().and(read) {
            Ok(arguments) => caller.call(name, arguments, timeout).await?,
            Err(why) => caller.refuse(name, arguments.into(), why).await?,
        };
        if reply.is_error {
            return Err(failed(&reply));
        }
        let is_long = reply.bytes() > LONG_BYTES;
        let result = offload::blocking(is_long, || reply.into_value().to_string());
        self.work += result.len() as u64;
        Ok(result)
    }
}

/// A tool that ran and failed.
fn failed(reply: &ToolReply) -> tools::CallError {
    let message = reply.texts().collect::<Vec<_>>().join("\n");
    let kind = reply.error_kind.unwrap_or("execution-failed").to_owned();
    tools::CallError { code: None, kind, message }
}

impl From<CallError> for tools::CallError {
    fn from(error: CallError) -> Self {
        let code = Some(error.kind.code());
        Self { code, kind: error.kind.name().to_owned(), message: error.message }
    }
}

/// What stands for an answer that is lost.
fn lost(message: String) -> tools::CallError {
    tools::CallError { code: None, kind: String::new(), message }
}

impl tools::Host for CallState {
    async fn list(&mut self) -> Vec<tools::Tool> {
        self.tape.now("tools.list", Vec::new(), || {
            let tools =
                self.tools.caller.as_ref().map(|caller| caller.offered()).unwrap_or_default();
            let mut left = TOOL_OUTPUT_BYTES_MAX;
            let listed = tools.iter().map_while(|tool| {
                let definition = &tool.definition;
                let (name, description) = (definition.name.clone(), definition.description.clone());
                let input_schema = definition.input_schema.to_string();
                left = left.checked_sub(name.len() + description.len() + input_schema.len())?;
                Some(tools::Tool { name, description, input_schema })
            });
            let listed = listed.collect();
            self.tools.work += (TOOL_OUTPUT_BYTES_MAX - left) as u64;
            listed
        })
    }

    async fn call(
        &mut self,
        name: String,
        arguments: String,
        timeout_ms: Option<u32>,
    ) -> Result<String, tools::CallError> {
        let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        let call = async |state: &mut Self| state.tools.call(&name, &arguments, timeout).await;
        self.taped("tools.call", lost, call).await
    }
}
