//! Runs a component: a fresh instance, one call, and everything of it dropped after.

use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{ERROR_TEXT_BYTES_MAX, GUEST_STARTUP_MS};
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use clawhost_core::truncate;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceTableError;

use crate::gate::Admitted;
use crate::sandbox::bindings::exports::claw::tool::tool::{self, ToolError};
use crate::sandbox::clock::{CallClock, Exceeded, watch};
use crate::sandbox::{CallState, ProgressSink};

/// What a run costs and touched, for the record.
#[derive(Debug, Default, Clone)]
pub struct Usage {
    /// Fuel used, host calls included.
    pub fuel: u64,
    /// Time in the guest and in host calls it made.
    pub guest: Duration,
    /// What the guest tried and was refused.
    pub violations: Vec<String>,
}

type Answer = Result<tool::Output, ToolError>;

/// Runs `admitted` in a fresh instance.
///
/// # Errors
/// -32014 at the deadline or out of fuel, -32010 at another limit or after a refused
/// attempt. A tool-error, trap, panic or exit is a reply with `is_error`.
pub async fn run(
    engine: &wasmtime::Engine,
    admitted: Admitted,
    progress: Option<ProgressSink>,
) -> (Result<ToolReply, CallError>, Usage) {
    let name = admitted.resolved().tool().definition.name.clone();
    let startup = Duration::from_millis(GUEST_STARTUP_MS);
    let state = match admitted.resolved().sandbox().enter(&name, startup, progress) {
        Ok(state) => state.called_by(admitted.principal()),
        Err(error) => return (Err(error), Usage::default()),
    };
    let mut store = match state.into_store(engine) {
        Ok(store) => store,
        Err(error) => return (Err(internal(&error)), Usage::default()),
    };
    let mut guest = Duration::ZERO;
    let answer = execute(&mut store, &admitted, &name, &mut guest).await;
    let usage = Usage {
        guest,
        fuel: store.data().clock.fuel_used(store.get_fuel().unwrap_or(0)),
        violations: store.data().violations(),
    };
    (conclude(answer, &store, &admitted, &usage), usage)
}

/// Instantiates, then starts the call's clock and calls. An error leaves the store unusable.
async fn execute(
    store: &mut Store<CallState>,
    admitted: &Admitted,
    name: &str,
    spent: &mut Duration,
) -> wasmtime::Result<Answer> {
    let pre = &admitted.resolved().loaded().pre;
    let startup = store.data().clock.ends_at();
    let starting = watch(startup, pre.instantiate_async(&mut *store)).await;
    let guest = match starting.map_err(wasmtime::Error::from).flatten() {
        // Out of time or fuel before the call's own clock: the bound of start-up ended it.
        Err(error) if matches!(exceeded(&error), Some(Exceeded::Time | Exceeded::Fuel)) => {
            return Err(Exceeded::Startup.into());
        }
        started => started?,
    };
    let clock = CallClock::start(admitted.timeout());
    CallState::start_clock(store, clock)?;
    let started = Instant::now();
    let (name, arguments) = (name.to_owned(), admitted.arguments().to_owned());
    let call = guest.claw_tool_tool().call_call(store, &name, &arguments);
    let answer = watch(clock.ends_at(), call).await;
    *spent = started.elapsed();
    answer?
}

fn conclude(
    answer: wasmtime::Result<Answer>,
    store: &Store<CallState>,
    admitted: &Admitted,
    usage: &Usage,
) -> Result<ToolReply, CallError> {
    let failed = match answer {
        Ok(Ok(output)) => return reply(output, admitted),
        Ok(Err(error)) => tool_error(error),
        Err(error) => fault(&error, store, admitted)?,
    };
    if let Some(quota) = store.data().exceeded_quota() {
        let error = sandbox(admitted, &format!("the sandbox's limit {quota} was reached"));
        return Err(error.with("limit", quota).with_internal(text_of(&failed)));
    }
    // The guest may hide a refusal behind any error of its own: a failed tool that was refused
    // something was refused.
    if let Some(violation) = usage.violations.first() {
        let error = sandbox(admitted, &format!("the sandbox refused it: {violation}"));
        return Err(error.with_internal(text_of(&failed)));
    }
    // So was one that needed a completion, or a place for a program, and got none.
    match store.data().backend_failure() {
        Some(error) => Err(error.clone()),
        None => Ok(failed),
    }
}

fn reply(output: tool::Output, admitted: &Admitted) -> Result<ToolReply, CallError> {
    let bytes = size_of(&output);
    let max = admitted.resolved().grants().limits.output_bytes;
    if bytes as u64 > max {
        let reason = format!("the result is {bytes} bytes; the profile allows {max}");
        return Err(sandbox(admitted, &reason)
            .with("limit", Exceeded::Output.name())
            .with("actual_bytes", bytes));
    }
    let structured = match output.structured.as_deref().map(parse_structured).transpose() {
        Ok(structured) => structured,
        Err(reason) => return Ok(ToolReply::error("invalid-result", reason)),
    };
    let content = output.content.into_iter().map(block).collect();
    Ok(ToolReply { content, structured, ..ToolReply::default() })
}

fn parse_structured(text: &str) -> Result<Value, String> {
    clawhost_core::json::parse(text.as_bytes())
        .map_err(|error| format!("the tool's structured result is no JSON: {error}"))
}

fn size_of(output: &tool::Output) -> usize {
    let blocks: usize = output.content.iter().map(size_of_block).sum();
    blocks + output.structured.as_ref().map_or(0, String::len)
}

fn size_of_block(block: &tool::Content) -> usize {
    match block {
        tool::Content::Text(text) => text.len(),
        tool::Content::Image(blob) | tool::Content::Audio(blob) => {
            blob.data.len() + blob.mime_type.len()
        }
        tool::Content::Resource(resource) => {
            let body = match &resource.body {
                tool::ResourceBody::Text(text) => text.len(),
                tool::ResourceBody::Bytes(bytes) => bytes.len(),
            };
            body + resource.uri.len() + resource.mime_type.as_ref().map_or(0, String::len)
        }
    }
}

fn block(block: tool::Content) -> Content {
    match block {
        tool::Content::Text(text) => Content::Text(text),
        tool::Content::Image(blob) => Content::Image { data: blob.data, mime_type: blob.mime_type },
        tool::Content::Audio(blob) => Content::Audio { data: blob.data, mime_type: blob.mime_type },
        tool::Content::Resource(resource) => Content::Resource {
            uri: resource.uri,
            mime_type: resource.mime_type,
            body: match resource.body {
                tool::ResourceBody::Text(text) => ResourceBody::Text(text),
                tool::ResourceBody::Bytes(bytes) => ResourceBody::Bytes(bytes),
            },
        },
    }
}

fn tool_error(error: ToolError) -> ToolReply {
    let (kind, text) = match error {
        ToolError::NotFound(text) => ("not-found", text),
        ToolError::InvalidArgs(text) => ("invalid-args", text),
        ToolError::ExecutionFailed(text) => ("execution-failed", text),
        ToolError::PermissionDenied(text) => ("permission-denied", text),
        ToolError::FileNotFound(text) => ("file-not-found", text),
        ToolError::InvalidPath(text) => ("invalid-path", text),
        ToolError::Timeout(text) => ("timeout", text),
    };
    let short = format!("{kind}: {}", truncate::text(&text, ERROR_TEXT_BYTES_MAX));
    ToolReply { internal: Some(text), ..ToolReply::error(kind, short) }
}

/// Tells a limit (an error of the call) from a trap, panic or exit (the tool's own failure).
fn fault(
    error: &wasmtime::Error,
    store: &Store<CallState>,
    admitted: &Admitted,
) -> Result<ToolReply, CallError> {
    if let Some(exceeded) = exceeded(error) {
        return Err(over_limit(exceeded, error, admitted));
    }
    if error.downcast_ref::<wasmtime::PoolConcurrencyLimitError>().is_some() {
        let error =
            CallError::new(ErrorKind::Overloaded, "no room for another instance; try again");
        return Err(error.with("stage", "pool").with("limit", "calls_running_max"));
    }
    let (kind, text) = match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        Some(exit) => {
            ("exit", format!("the tool exited with code {} instead of answering", exit.0))
        }
        None => ("trap", "the tool crashed".to_owned()),
    };
    let why = store.data().log.explanation();
    let internal = format!("{error:#}; {}", why.as_deref().unwrap_or("it said nothing"));
    Ok(ToolReply { internal: Some(internal), ..ToolReply::error(kind, text) })
}

fn exceeded(error: &wasmtime::Error) -> Option<Exceeded> {
    if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
        return Some(*exceeded);
    }
    if error.downcast_ref::<wasmtime::Trap>() == Some(&wasmtime::Trap::OutOfFuel) {
        return Some(Exceeded::Fuel);
    }
    if matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full)) {
        return Some(Exceeded::Handles);
    }
    // The engine's type for this is private; its text is all there is.
    error
        .root_cause()
        .to_string()
        .contains("fuel allocated for hostcalls")
        .then_some(Exceeded::Output)
}

fn over_limit(exceeded: Exceeded, cause: &wasmtime::Error, admitted: &Admitted) -> CallError {
    let tool = &admitted.resolved().tool().definition.name;
    let error = match exceeded {
        Exceeded::Time | Exceeded::Fuel => CallError::new(
            ErrorKind::Timeout,
            format!(
                "`{tool}` did not end within {} ms and was stopped",
                admitted.timeout().as_millis()
            ),
        ),
        Exceeded::Startup => CallError::new(
            ErrorKind::Timeout,
            format!("`{tool}` did not start within {GUEST_STARTUP_MS} ms and was stopped"),
        ),
        _ => sandbox(admitted, &format!("`{tool}` exceeded {} and was stopped", exceeded.name())),
    };
    error.with("limit", exceeded.name()).with_internal(format!("{cause:#}"))
}

fn sandbox(admitted: &Admitted, reason: &str) -> CallError {
    CallError::new(ErrorKind::Sandbox, reason)
        .with("stage", "run")
        .with("profile", admitted.resolved().grants().profile.as_str())
}

fn internal(error: &wasmtime::Error) -> CallError {
    CallError::new(ErrorKind::Internal, "the host could not make an instance")
        .with_internal(format!("{error:#}"))
}

fn text_of(reply: &ToolReply) -> String {
    reply.internal.clone().unwrap_or_default()
}
