//! Runs a component: a fresh instance, one call, and everything of it dropped after.

mod code;
mod tool;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::grants::Grants;
use clawhost_core::limits::GUEST_STARTUP_MS;
use clawhost_core::reply::ToolReply;
use clawhost_core::shell::Refusal;
use clawhost_core::violation::Violation;
use wasmtime::Store;
use wasmtime::component::ResourceTableError;

use crate::engine::{self, LoadError, Loaded};
use crate::gate::{Admitted, Nest};
use crate::recording::{End, Recording, Tape};
use crate::sandbox::clock::{CallClock, Exceeded, watch};
use crate::sandbox::fs::RootError;
use crate::sandbox::{CallState, ProgressSink, Sandbox};
use code::Code;

/// What a run costs and touched, for the record.
#[derive(Debug, Default, Clone)]
pub struct Usage {
    /// Fuel used, host calls included.
    pub fuel: u64,
    /// Time in the guest and in host calls it made.
    pub guest: Duration,
    /// Where its requests were let out to.
    pub egress: Vec<String>,
    /// What the guest tried and was refused.
    pub violations: Vec<Violation>,
    /// It says that it failed, and its last exchange over HTTP broke off.
    pub broke_off: bool,
    /// What was recorded of it, or why nothing was; absent where nothing was to be.
    pub recording: Option<Result<Recording, String>>,
}

/// What is run: a tool of a component, with what the guest is given, and what it may touch.
struct Job<'a> {
    name: &'a String,
    arguments: &'a String,
    grants: &'a Grants,
}

/// A recorded call, run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// What it came to.
    pub end: End,
    /// Where it parted from what was recorded, if it did.
    pub parted: Option<String>,
}

/// What came back in good order: a result and its size in bytes, or a failure that the tool tells of.
type Answer = Result<(ToolReply, usize), Box<ToolReply>>;

/// What is left of an instance that was entered.
struct Entered {
    store: Store<CallState>,
    answer: wasmtime::Result<Answer>,
    guest: Duration,
    fuel: u64,
}

/// Runs `admitted` in a fresh instance of `loaded`.
///
/// # Errors
/// It could not be begun. Of its answer: -32014 at the deadline or out of fuel, -32010 at another
/// limit or after a refused attempt. A tool-error, trap, panic or exit is a reply with `is_error`.
pub(super) async fn run(
    loaded: &Arc<Loaded>,
    mut admitted: Admitted,
    progress: Option<ProgressSink>,
) -> Result<(Result<ToolReply, CallError>, Usage), CallError> {
    let (component, timeout) = ready(loaded, admitted.timeout()).await?;
    let (nest, given) = (admitted.take_nest(), admitted.take_arguments());
    let name = &admitted.resolved().tool().definition.name;
    let mut state = state(&admitted, nest, progress)?;
    let arguments = match arguments(&admitted, given) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            let violation = format!("shell: {refusal}");
            let error = refused(&admitted, &violation);
            let violations = vec![violation.into()];
            return Ok((Err(error), Usage { violations, ..Usage::default() }));
        }
    };
    let grants = admitted.resolved().grants();
    state.tape.begin(&arguments, timeout);
    let job = Job { name, arguments: &arguments, grants };
    let code = match Code::of(component, &job, &mut state) {
        Ok(code) => code,
        Err(failed) => return Ok((Ok(*failed), Usage::default())),
    };
    let entered = entered(component, code, stored(component, state)?, timeout).await;
    let usage = entered.usage(loaded);
    Ok((conclude(entered.answer, &entered.store, &admitted, &usage), usage))
}

/// Returns the code of `loaded`, which the first call has to load, and how much is left of its time.
///
/// # Errors
/// It is not there `within` that time: compiling it goes on, for the calls that come then.
async fn ready(
    loaded: &Arc<Loaded>,
    within: Duration,
) -> Result<(&engine::Code, Duration), CallError> {
    if let Some(code) = loaded.code_at_hand() {
        return Ok((code, within));
    }
    let began = Instant::now();
    let late = |_| Err(LoadError::Passing("it is being compiled; try again".to_owned()));
    // Rare, so that no other call has room for it in its own future.
    let loading = Box::pin(tokio::time::timeout(within, loaded.code()));
    let code = loading.await.unwrap_or_else(late);
    let left = within.saturating_sub(began.elapsed());
    code.map(|code| (code, left)).map_err(|error| missing(&error))
}

fn missing(error: &LoadError) -> CallError {
    let kind = match error {
        LoadError::Unusable(_) => ErrorKind::Internal,
        LoadError::Passing(_) => ErrorKind::Overloaded,
    };
    let why = "the component's code is not there";
    let error = CallError::new(kind, format!("{why}: {error}")).with("stage", "code");
    if kind == ErrorKind::Overloaded { error.with_limit(Limit::Code) } else { error }
}

/// Returns what the guest of a call can reach.
fn state(
    admitted: &Admitted,
    nest: Option<Nest>,
    progress: Option<ProgressSink>,
) -> Result<CallState, CallError> {
    let (startup, resolved) = (Duration::from_millis(GUEST_STARTUP_MS), admitted.resolved());
    let mut state =
        resolved.sandbox().enter(&resolved.tool().definition.name, startup, progress)?;
    state.called_by(admitted.principal());
    if let Some(nest) = nest {
        state.calling_by(Arc::new(nest));
    }
    Ok(state)
}

/// Runs a recorded call of `loaded` again: nothing is granted, and the recording answers in the host's place.
///
/// # Errors
/// It cannot be begun.
pub async fn again(loaded: &Arc<Loaded>, recording: Recording) -> Result<Again, CallError> {
    let (name, arguments) = (recording.tool.clone(), recording.arguments.clone());
    let (grants, tape) = (recording.grants(), Tape::playing(recording));
    let sandbox = Sandbox::playing(grants.clone(), tape.clone());
    let (component, _) = ready(loaded, grants.limits.timeout).await?;
    let mut state = sandbox.enter(&name, Duration::from_millis(GUEST_STARTUP_MS), None)?;
    let job = Job { name: &name, arguments: &arguments, grants: &grants };
    let code = Code::of(component, &job, &mut state).map_err(|failed| {
        let why = failed.texts().collect::<String>();
        CallError::new(ErrorKind::InvalidArguments, why)
    })?;
    let store = stored(component, state)?;
    let entered = entered(component, code, store, grants.limits.timeout).await;
    let left = || match tape.unasked() {
        0 => None,
        left => Some(format!("{left} more answers were asked for then")),
    };
    Ok(Again { end: entered.end(), parted: tape.parted().or_else(left) })
}

/// Returns the store of one call, before anything waits: what waits is moved about, with all that it holds.
///
/// # Errors
/// None can be made.
fn stored(component: &engine::Code, state: CallState) -> Result<Store<CallState>, CallError> {
    state.into_store(component.pre.engine()).map_err(|error| internal(&error))
}

/// Enters a fresh instance of `component`.
async fn entered(
    component: &engine::Code,
    code: Code<'_>,
    mut store: Store<CallState>,
    timeout: Duration,
) -> Entered {
    let mut guest = Duration::ZERO;
    let answer = execute(&mut store, component, timeout, code, &mut guest).await;
    let fuel = store.data().clock.fuel_used(store.get_fuel().unwrap_or(0));
    Entered { store, answer, guest, fuel }
}

impl Entered {
    fn usage(&self, loaded: &Loaded) -> Usage {
        let state = self.store.data();
        Usage {
            guest: self.guest,
            fuel: self.fuel,
            egress: state.egress(),
            violations: state.violations(),
            broke_off: matches!(self.answer, Ok(Err(_))) && state.broke_off(),
            recording: state.tape.kept(&loaded.digest, || self.end()),
        }
    }

    /// Says what the guest came to, whatever the host makes of it.
    fn end(&self) -> End {
        let (outcome, reply) = match &self.answer {
            Ok(Ok((reply, _))) => ("ok".to_owned(), Some(reply)),
            Ok(Err(failed)) => ("tool-error".to_owned(), Some(&**failed)),
            Err(error) => (
                exceeded(error)
                    .map_or_else(|| error.root_cause().to_string(), |limit| limit.to_string()),
                None,
            ),
        };
        let result_digest = reply.map(|reply| digest::of_json(&reply.result()));
        End { outcome, result_digest, fuel: self.fuel }
    }
}

/// Returns what the guest is given: the arguments of the call, of a script what is allowed of it.
fn arguments(admitted: &Admitted, given: String) -> Result<String, Refusal> {
    let resolved = admitted.resolved();
    match resolved.is_shell() {
        true => resolved.sandbox().script(&given, Instant::now() + admitted.timeout()),
        false => Ok(given),
    }
}

/// Instantiates, then starts the call's clock and calls. An error leaves the store unusable.
async fn execute(
    store: &mut Store<CallState>,
    component: &engine::Code,
    timeout: Duration,
    code: Code<'_>,
    spent: &mut Duration,
) -> wasmtime::Result<Answer> {
    let startup = store.data().clock.ends_at();
    let starting = watch(startup, component.pre.instantiate_async(&mut *store)).await;
    let instance = match starting.map_err(wasmtime::Error::from).flatten() {
        // Out of time or fuel before the call's own clock: the bound of start-up ended it.
        Err(error) if matches!(exceeded(&error), Some(Exceeded::Time | Exceeded::Fuel)) => {
            return Err(Exceeded::Startup.into());
        }
        started => started?,
    };
    let clock = CallClock::start(timeout);
    CallState::start_clock(store, clock)?;
    // Less than a millisecond buys no fuel: its time is over before any of it is used.
    if clock.fuel_budget() == 0 {
        return Err(Exceeded::Time.into());
    }
    let started = Instant::now();
    let answer = watch(clock.ends_at(), code.call(store, &instance)).await;
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
        Ok(Ok((reply, bytes))) => return within_output(reply, bytes, admitted),
        Ok(Err(failed)) => *failed,
        Err(error) => fault(&error, store, admitted)?,
    };
    if let Some(quota) = store.data().exceeded_quota() {
        let error = sandbox(admitted, &format!("the sandbox's limit {quota} was reached"));
        return Err(error.with_limit(quota).with_internal(text_of(&failed)));
    }
    // The guest may hide a refusal behind any error of its own: a failed tool that was refused
    // something was refused.
    if let Some(violation) = usage.violations.first() {
        let told = violation.told.as_ref().unwrap_or(&violation.text);
        return Err(refused(admitted, told).with_internal(text_of(&failed)));
    }
    // So was one that needed a completion, or a place for a program, and got none.
    match store.data().backend_failure() {
        Some(error) => Err(error.clone()),
        None => Ok(failed),
    }
}

/// Returns `reply` where it is no larger than the profile allows.
///
/// # Errors
/// -32010.
pub(super) fn within_output(
    reply: ToolReply,
    bytes: usize,
    admitted: &Admitted,
) -> Result<ToolReply, CallError> {
    let max = admitted.resolved().grants().limits.output_bytes;
    if bytes as u64 > max {
        let reason = format!("the result is {bytes} bytes; the profile allows {max}");
        return Err(sandbox(admitted, &reason)
            .with_limit(Exceeded::Output.limit())
            .with("actual_bytes", bytes));
    }
    Ok(reply)
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
    if error.downcast_ref::<RootError>().is_some() {
        // Where that is, the record says.
        let closed = sandbox(admitted, "a folder of the profile can be neither made nor opened");
        return Err(closed.with_internal(format!("{error:#}")));
    }
    if error.downcast_ref::<wasmtime::PoolConcurrencyLimitError>().is_some() {
        let error =
            CallError::new(ErrorKind::Overloaded, "no room for another instance; try again");
        return Err(error.with("stage", "pool").with_limit(Limit::CallsRunning));
    }
    let why = store.data().log.explanation();
    let (kind, text) = match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        Some(exit) => {
            ("exit", format!("the tool exited with code {} instead of answering", exit.0))
        }
        None => ("trap", crash(error, why.as_deref().unwrap_or_default()).to_owned()),
    };
    let internal = format!("{error:#}; {}", why.as_deref().unwrap_or("it said nothing"));
    Ok(ToolReply { internal: Some(internal), ..ToolReply::error(kind, text) })
}

/// Says how a guest crashed that `said` this of it. What a caller gives can use up stack and
/// memory, so these two are told: it can give less.
fn crash(error: &wasmtime::Error, said: &str) -> &'static str {
    if error.downcast_ref::<wasmtime::Trap>() == Some(&wasmtime::Trap::StackOverflow) {
        return "the tool crashed: it ran out of stack, by calls or data nested too deeply";
    }
    // What the standard library of guests says of a size that no memory has.
    if said.contains("capacity overflow") {
        return "the tool crashed: it asked for more memory at once than there can be";
    }
    "the tool crashed"
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
    // The engine's types for these are private; their texts are all there is.
    match error.root_cause().to_string() {
        text if text.contains("fuel allocated for hostcalls") => Some(Exceeded::Output),
        text if text.starts_with("requested len") => Some(Exceeded::Random),
        _ => None,
    }
}

fn over_limit(exceeded: Exceeded, cause: &wasmtime::Error, admitted: &Admitted) -> CallError {
    let tool = &admitted.resolved().tool().definition.name;
    let error = match exceeded {
        Exceeded::Time => CallError::too_late(tool, admitted.timeout()),
        Exceeded::Fuel => {
            let ms = admitted.timeout().as_millis();
            let text = format!(
                "`{tool}` did as much as {ms} ms allow before they were over, and was stopped"
            );
            CallError::new(ErrorKind::Timeout, text)
        }
        Exceeded::Startup => CallError::new(
            ErrorKind::Timeout,
            format!("`{tool}` did not start within {GUEST_STARTUP_MS} ms and was stopped"),
        ),
        _ => sandbox(admitted, &format!("`{tool}` exceeded {} and was stopped", exceeded.limit())),
    };
    error.with_limit(exceeded.limit()).with_internal(format!("{cause:#}"))
}

fn refused(admitted: &Admitted, violation: &str) -> CallError {
    sandbox(admitted, &format!("the sandbox refused it: {violation}"))
}

pub(super) fn sandbox(admitted: &Admitted, reason: &str) -> CallError {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_not_there_yet_is_asked_for_again() {
        let passing = LoadError::Passing("it is being compiled; try again".to_owned());
        let refused = missing(&passing);
        assert_eq!((refused.kind, &refused.data["limit"]), (ErrorKind::Overloaded, &"code".into()));
        assert_eq!(missing(&LoadError::Unusable("no".to_owned())).kind, ErrorKind::Internal);
    }

    #[test]
    fn a_bound_that_only_a_text_of_the_engine_tells_is_named() {
        let asked = wasmtime::format_err!("requested len 65537 exceeds limit 65536");
        assert_eq!(exceeded(&asked.context("in a guest")), Some(Exceeded::Random));
        assert_eq!(exceeded(&wasmtime::format_err!("another reason")), None);
    }

    #[test]
    fn a_crash_for_want_of_stack_or_memory_is_told_as_that() {
        let of = |trap: wasmtime::Trap, said| crash(&wasmtime::Error::from(trap), said);
        let panic = wasmtime::Trap::UnreachableCodeReached;
        assert_eq!(of(panic, "panicked at lib.rs:1: no"), "the tool crashed");
        assert!(of(panic, "panicked at raw_vec.rs:28: capacity overflow").contains("memory"));
        assert!(of(wasmtime::Trap::StackOverflow, "").contains("out of stack"));
    }
}
