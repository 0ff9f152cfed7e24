//! `claw:host/tools`: calls of other tools, where the profile grants any. Each goes the whole path of a
//! call, and this one waits for it.
//!
//! Deliberately absent: any decision about what may be called, which is the gate's, and a guest that goes on
//! while its calls run: it makes one host call at a time, which may stand for several calls.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::json;
use clawhost_core::limits::{
    COMPOSITE_VALUES_BYTES_MAX, TOOL_CALLS_AT_ONCE_MAX, TOOL_CALLS_REFUSED_MAX,
    TOOL_OUTPUT_BYTES_MAX,
};
use clawhost_core::reply::ToolReply;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

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
    /// The guest's store runs tasks beside each other.
    is_beside: bool,
    granted: usize,
    made: usize,
    pub(super) work: u64,
    /// How many calls over those were tried, and what was said of the first.
    refused: (usize, Option<String>),
}

impl ToolsCtx {
    pub(super) fn new(granted: usize) -> Self {
        Self { caller: None, is_beside: false, granted, made: 0, work: 0, refused: (0, None) }
    }

    pub(super) fn set_caller(&mut self, caller: Arc<dyn CallTools>) {
        self.caller = Some(caller);
    }

    /// Has each call run on a task of its own: the engine polls what such a guest waits for in its event loop,
    /// and panics where another one begins in that.
    #[cfg(any(test, feature = "wasi-p3"))]
    pub(super) fn run_beside(&mut self) {
        self.is_beside = true;
    }

    /// Returns what the call tried and was refused: calling at all, or once too often.
    pub(super) fn violation(&self) -> Option<&String> {
        self.refused.1.as_ref()
    }

    /// Says whether it went on calling for too long after it might not: each refusal is recorded.
    pub(super) fn is_spent(&self) -> bool {
        self.refused.0 >= TOOL_CALLS_REFUSED_MAX
    }

    fn refuse(&mut self, reason: &str) -> CallError {
        let (times, first) = &mut self.refused;
        *times += 1;
        first.get_or_insert_with(|| format!("tools: {reason}"));
        let error = CallError::new(ErrorKind::Sandbox, reason).with("stage", "nesting");
        error.with_limit(Limit::ToolCalls)
    }

    fn take(&mut self) -> Result<(), CallError> {
        if self.made >= self.granted {
            let reason = format!("one call may make {} others under its profile", self.granted);
            return Err(self.refuse(&reason));
        }
        self.made += 1;
        Ok(())
    }

    /// Sends a call on its way. What it takes of the guest's bounds, it takes at once.
    fn begin(
        &mut self,
        caller: &Arc<dyn CallTools>,
        (name, arguments): &(String, String),
        timeout: Option<Duration>,
    ) -> BoxFuture<'static, Result<ToolReply, CallError>> {
        self.work += arguments.len() as u64;
        let given = self.take().and_then(|()| parsed(arguments));
        let given = given.map_err(|why| (why, Value::from(arguments.as_str())));
        let (caller, name) = (Arc::clone(caller), name.clone());
        let call = async move {
            match given {
                Ok(given) => caller.call(&name, given, timeout).await,
                Err((why, given)) => caller.refuse(&name, given, why).await,
            }
        };
        if self.is_beside { Box::pin(apart(call)) } else { Box::pin(call) }
    }

    /// Makes a few calls side by side, and the next few once those are done, until their results are more than is
    /// held at once or the guest is to end. Returns what came of each.
    async fn call(
        &mut self,
        calls: &[(String, String)],
        timeout: Option<Duration>,
    ) -> Vec<Result<String, tools::CallError>> {
        let Some(caller) = self.caller.clone() else {
            let none = "the profile does not grant calls of other tools";
            let told = calls.iter().take(TOOL_CALLS_REFUSED_MAX);
            return told.map(|_| Err(self.refuse(none).into())).collect();
        };
        let (mut answers, mut bytes) = (Vec::new(), 0);
        for few in calls.chunks(TOOL_CALLS_AT_ONCE_MAX) {
            if self.is_spent() {
                break;
            }
            if bytes > COMPOSITE_VALUES_BYTES_MAX {
                let text =
                    format!("all results together are over {COMPOSITE_VALUES_BYTES_MAX} bytes");
                let error = CallError::new(ErrorKind::Sandbox, text);
                answers.extend(few.iter().map(|_| Err(error.clone().into())));
                continue;
            }
            let begun: Vec<_> = few.iter().map(|call| self.begin(&caller, call, timeout)).collect();
            for reply in join_all(begun).await {
                let answer = told(reply);
                bytes += answer.as_ref().map_or_else(|error| error.message.len(), String::len);
                answers.push(answer);
            }
        }
        self.work += bytes as u64;
        answers
    }
}

/// Runs `call` on a task of its own, which ends with the future that waits for it.
async fn apart(
    call: impl Future<Output = Result<ToolReply, CallError>> + Send + 'static,
) -> Result<ToolReply, CallError> {
    let call = AbortOnDropHandle::new(tokio::spawn(call.in_current_span()));
    let died = |error: JoinError| {
        let died = CallError::new(ErrorKind::Internal, "the call within it ended");
        Err(died.with_internal(error.to_string()))
    };
    call.await.unwrap_or_else(died)
}

fn parsed(arguments: &str) -> Result<Value, CallError> {
    let is_long = arguments.len() > LONG_BYTES;
    let read = offload::blocking(is_long, || json::parse(arguments.as_bytes()));
    read.map_err(|error| {
        let text = format!("the arguments cannot be read: {error}");
        CallError::new(ErrorKind::InvalidArguments, text).with("stage", "schema")
    })
}

/// Returns what a guest is told of a reply.
fn told(reply: Result<ToolReply, CallError>) -> Result<String, tools::CallError> {
    let reply = reply?;
    if reply.is_error {
        return Err(failed(&reply));
    }
    let is_long = reply.bytes() > LONG_BYTES;
    Ok(offload::blocking(is_long, || reply.into_value().to_string()))
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
        let calls = [(name, arguments)];
        let call = async |state: &mut Self| {
            let answer = state.tools.call(&calls, timeout).await.pop();
            answer.unwrap_or_else(|| Err(lost("it was not made".to_owned())))
        };
        self.taped("tools.call", lost, call).await
    }

    async fn call_all(
        &mut self,
        calls: Vec<(String, String)>,
        timeout_ms: Option<u32>,
    ) -> Vec<Result<String, tools::CallError>> {
        let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        let call = async |state: &mut Self| Ok(state.tools.call(&calls, timeout).await);
        self.taped("tools.call-all", lost, call).await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;
    use tokio::sync::Barrier;
    use tokio::task::Id;

    use super::*;

    /// Answers as many calls at once as it was made for.
    #[derive(Debug)]
    struct Together {
        calls: Barrier,
        running: AtomicUsize,
        most: AtomicUsize,
        /// Those that the calls ran on.
        tasks: Mutex<Vec<Option<Id>>>,
        result_bytes: usize,
        fails: bool,
    }

    impl Together {
        fn new(calls: usize, result_bytes: usize) -> Arc<Self> {
            Arc::new(Self::of(calls, result_bytes))
        }

        fn of(calls: usize, result_bytes: usize) -> Self {
            let calls = Barrier::new(calls);
            let (running, most, tasks) = Default::default();
            Self { calls, running, most, tasks, result_bytes, fails: false }
        }
    }

    impl CallTools for Together {
        fn call<'a>(
            &'a self,
            tool: &'a str,
            _: Value,
            _: Option<Duration>,
        ) -> BoxFuture<'a, Result<ToolReply, CallError>> {
            Box::pin(async move {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(running, Ordering::SeqCst);
                self.tasks.lock().push(tokio::task::try_id());
                self.calls.wait().await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                let text = tool.to_owned() + &" ".repeat(self.result_bytes);
                if self.fails {
                    return Ok(ToolReply::error("unavailable", text));
                }
                let result = Some(Value::from(text));
                Ok(ToolReply { structured: result, ..ToolReply::default() })
            })
        }

        fn refuse<'a>(
            &'a self,
            _: &'a str,
            _: Value,
            why: CallError,
        ) -> BoxFuture<'a, Result<ToolReply, CallError>> {
            Box::pin(async move { Err(why) })
        }

        fn offered(&self) -> Vec<Arc<Tool>> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn calls_run_side_by_side_and_those_beyond_the_grant_are_refused_in_their_places() {
        let mut ctx = ToolsCtx::new(TOOL_CALLS_AT_ONCE_MAX * 2);
        let caller = Together::new(TOOL_CALLS_AT_ONCE_MAX, 0);
        ctx.set_caller(Arc::clone(&caller) as Arc<dyn CallTools>);
        let calls: Vec<_> = (0..TOOL_CALLS_AT_ONCE_MAX * 2 + 1)
            .map(|at| (format!("t{at}"), "{}".to_owned()))
            .collect();
        let answers = ctx.call(&calls, None).await;
        let (refused, made) = answers.split_last().unwrap();
        let names = made.iter().map(|answer| answer.as_ref().unwrap().trim_matches('"'));
        assert!(names.eq(calls.iter().map(|(name, _)| name).take(made.len())), "{answers:?}");
        assert!(refused.as_ref().unwrap_err().message.contains("one call may make"));
        assert_eq!(caller.most.load(Ordering::SeqCst), TOOL_CALLS_AT_ONCE_MAX);
        assert!(ctx.violation().is_some());
        let many = vec![calls[0].clone(); TOOL_CALLS_REFUSED_MAX * 3];
        assert!(ctx.call(&many, None).await.len() < TOOL_CALLS_REFUSED_MAX * 2);
    }

    #[tokio::test]
    async fn calls_have_tasks_of_their_own_only_where_the_guest_runs_some_beside_each_other() {
        let caller = Together::new(1, 0);
        let mut ctx = ToolsCtx::new(2);
        ctx.set_caller(Arc::clone(&caller) as Arc<dyn CallTools>);
        let calls = [("t".to_owned(), "{}".to_owned())];
        assert!(ctx.call(&calls, None).await[0].is_ok());
        ctx.run_beside();
        assert!(ctx.call(&calls, None).await[0].is_ok());
        // A test is no task itself.
        assert!(matches!(caller.tasks.lock()[..], [None, Some(_)]));
    }

    #[tokio::test]
    async fn once_results_are_more_than_is_held_the_next_calls_are_not_made() {
        let few = TOOL_CALLS_AT_ONCE_MAX;
        for fails in [false, true] {
            let mut ctx = ToolsCtx::new(few * 2);
            let caller = Together::of(few, COMPOSITE_VALUES_BYTES_MAX / few);
            ctx.set_caller(Arc::new(Together { fails, ..caller }));
            let calls = vec![("long".to_owned(), "{}".to_owned()); few * 2];
            let answers = ctx.call(&calls, None).await;
            let (made, left) = answers.split_at(few);
            assert!(made.iter().all(|answer| answer.is_err() == fails) && left.len() == few);
            for answer in left {
                assert!(answer.as_ref().unwrap_err().message.contains("all results together"));
            }
            assert_eq!(ctx.made, few);
        }
    }
}
