//! A program whose messages are only passed on, for a transport that decides nothing about them.
//!
//! It is kept going like every other server; ids are this host's own, and known secrets are taken out of what
//! it says. Deliberately absent: any look at its tools.

use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::Instant;

use clawhost_core::json::put;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::timeout_at;
use tracing::debug;

use super::failure::Failure;
use super::message;
use super::session::{ServerSession, Wire, within};
use super::waiting::Outcome;
use super::{Server, ServerParts, ServerPlan};
use crate::dialogue::Caller;
use crate::offload;
use crate::secrets::Secrets;

/// Where the parameters of a request say which reports of progress are its own.
pub(crate) const PROGRESS_TOKEN: &str = "/_meta/progressToken";

/// How long a program that ended is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The first time; it doubles with each end.
    pub first_ms: u64,
    /// The longest such wait, before the circuit opens.
    pub ceiling_ms: u64,
}

/// One life of a program, from its `initialize` to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramLife(Weak<ServerSession>);

/// Why a message that was passed on has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoResult {
    /// What the program itself says: the `error` of JSON-RPC, without secrets.
    Error(Value),
    /// This life of it is over.
    Over,
    /// It is not there, or does not answer: what of it a caller may know.
    Silent(&'static str),
}

impl Server {
    /// Starts the program of `plan`, to pass messages on to it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn relayed(plan: ServerPlan, parts: ServerParts, restart: Restart) -> Self {
        Self::kept(plan, parts, Some(restart))
    }

    /// Says whether `life` still lasts.
    pub(crate) fn is_in(&self, life: &ProgramLife) -> bool {
        self.living(life).is_ok()
    }

    /// Says whether the program can be asked.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.session.borrow().is_some()
    }

    /// Returns what the program answered to `initialize`, and the life in which it did; waits until `deadline`
    /// while it is being started. One that has ended, and is left alone for a while, is not waited for.
    pub(crate) async fn met(&self, deadline: Instant) -> Result<(ProgramLife, Value), NoResult> {
        let session = self.session(deadline).await.map_err(|failure| self.no_result(failure))?;
        let met = session.met.get().cloned().unwrap_or_default();
        Ok((ProgramLife(Arc::downgrade(&session)), self.cleaned(met)))
    }

    /// Passes a request on for `caller`. The time that its client is waited for does not count. Dropping the future
    /// cancels it.
    pub(crate) async fn relay(
        &self,
        life: &ProgramLife,
        method: &str,
        params: Option<Value>,
        deadline: Instant,
        caller: Caller,
    ) -> Result<Value, NoResult> {
        let session = self.living(life)?;
        if let Some(asks) = caller.asks() {
            let secrets = self.0.secrets.clone();
            asks.cleaned_by(move |asked| Some(cleaned(&secrets, asked)), Some);
        }
        match session.relay(method, params, deadline, caller).await {
            Ok(result) => Ok(self.cleaned(result)),
            Err(failure) => Err(self.no_result(failure)),
        }
    }

    /// Passes a notification on. Until it is written it counts as one of the requests that wait.
    pub(crate) async fn relay_told(
        &self,
        life: &ProgramLife,
        method: &str,
        params: Option<Value>,
        deadline: Instant,
    ) -> Result<(), NoResult> {
        let told = self.living(life)?;
        let told = timeout_at(deadline.into(), told.relay_told(method, params)).await;
        told.unwrap_or(Err(Failure::Timeout)).map_err(|failure| self.no_result(failure))
    }

    /// Returns what the program says unasked from now on, as long as `life` lasts.
    pub(crate) fn unasked(
        &self,
        life: &ProgramLife,
    ) -> Result<broadcast::Receiver<Value>, NoResult> {
        match &self.living(life)?.wire {
            Wire::Pipe(pipe) => pipe.unasked().ok_or(NoResult::Over),
            Wire::Web(_) => Err(NoResult::Over),
        }
    }

    fn living(&self, life: &ProgramLife) -> Result<Arc<ServerSession>, NoResult> {
        let now = self.0.session.borrow().clone();
        now.filter(|now| Arc::as_ptr(now) == life.0.as_ptr()).ok_or(NoResult::Over)
    }

    fn cleaned(&self, value: Value) -> Value {
        cleaned(&self.0.secrets, value)
    }

    fn no_result(&self, failure: Failure) -> NoResult {
        let redactor = self.0.secrets.redactor();
        debug!(server = self.0.name, "no result: {}", failure.told(&redactor));
        match failure {
            Failure::Refused { code, message, data } => {
                let mut error = json!({"code": code, "message": message});
                put(&mut error, "data", data);
                NoResult::Error(self.cleaned(error))
            }
            Failure::Busy => NoResult::Silent("too many requests wait for the server"),
            Failure::Timeout => NoResult::Silent("the server did not answer in time"),
            Failure::Wrong(_) => {
                NoResult::Silent("the server gave no answer that can be passed on")
            }
            _ => NoResult::Silent("the server is not there"),
        }
    }
}

impl ServerSession {
    async fn relay(
        &self,
        method: &str,
        mut params: Option<Value>,
        deadline: Instant,
        caller: Caller,
    ) -> Outcome {
        let Wire::Pipe(pipe) = &self.wire else { return Err(no_program()) };
        let (_place, id) = self.place()?;
        if let Some(token) = params.as_mut().and_then(|it| it.pointer_mut(PROGRESS_TOKEN)) {
            // Two clients may have the same.
            *token = id.into();
        }
        let line = message::line(Some(id), method, params.as_ref().map(|it| it as &dyn Display));
        drop(params);
        let asks = caller.asks();
        within(deadline, asks.as_deref(), pipe.ask(id, line, true, caller)).await?
    }

    async fn relay_told(&self, method: &str, params: Option<Value>) -> Result<(), Failure> {
        let Wire::Pipe(pipe) = &self.wire else { return Err(no_program()) };
        let _place = self.place()?;
        let line = message::line(None, method, params.as_ref().map(|it| it as &dyn Display));
        drop(params);
        pipe.tell(line).await
    }
}

/// Returns what a program says without secrets.
fn cleaned(secrets: &Secrets, value: Value) -> Value {
    offload::redacted(&secrets.redactor(), value)
}

fn no_program() -> Failure {
    Failure::Gone("it is no program".to_owned())
}
