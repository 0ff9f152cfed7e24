//! The path: every call, whoever sends it and whatever runs it, goes through [`Dispatch::call`].

mod filter;
mod timings;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::TOOL_NAME_BYTES_MAX;
use clawhost_core::manifest::LimitSettings;
use clawhost_core::reply::ToolReply;
use clawhost_core::truncate;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::audit::{AuditLog, CallSpan};
use crate::engine::Engine;
use crate::exec;
use crate::gate::{Admitted, CallContext, Gate};
use crate::registry::Shelf;
use crate::sandbox::ProgressSink;
use timings::Stopwatch;
pub use timings::Timings;

/// The longest a name from a caller may be in a record: a URI of a tool, with room.
const RECORDED_NAME_BYTES_MAX: usize = 4 * TOOL_NAME_BYTES_MAX;

/// Who calls: the agent whose token, or whose parent process, sent it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub String);

/// A call as it arrives: an allegation, nothing in it is trusted.
#[derive(Clone)]
pub struct ToolCall {
    /// Who calls.
    pub principal: Principal,
    /// The tool's MCP name, CKP name, or `claw://local/tool/<name>`.
    pub tool: String,
    /// The arguments; anything but an object is refused.
    pub arguments: Value,
    /// The time the caller gives it; the tool's and the profile's bind too.
    pub timeout: Option<Duration>,
    /// Where progress goes.
    pub progress: Option<ProgressSink>,
    /// What else the caller says; it can only narrow.
    pub context: CallContext,
}

impl ToolCall {
    /// Returns a call that says no more than it has to.
    pub fn new(principal: Principal, tool: impl Into<String>, arguments: Value) -> Self {
        let context = CallContext::default();
        Self { principal, tool: tool.into(), arguments, timeout: None, progress: None, context }
    }
}

impl std::fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCall")
            .field("principal", &self.principal)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

/// What a call goes through, in order: record, catalog, gate, executor, filter, record.
#[derive(Debug)]
pub struct Dispatch {
    engine: Arc<Engine>,
    shelf: Arc<Shelf>,
    gate: Gate,
    audit: Arc<AuditLog>,
    running: Semaphore,
    waiting: AtomicUsize,
    call_ids: AtomicU64,
    limits: LimitSettings,
}

impl Dispatch {
    /// Returns a path over these parts, within `limits`.
    pub fn new(
        engine: Arc<Engine>,
        shelf: Arc<Shelf>,
        gate: Gate,
        audit: Arc<AuditLog>,
        limits: LimitSettings,
    ) -> Self {
        Self {
            engine,
            shelf,
            gate,
            audit,
            running: Semaphore::new(limits.calls_running_max),
            waiting: AtomicUsize::new(0),
            call_ids: AtomicU64::new(0),
            limits,
        }
    }

    /// Returns the gate, which listing asks too.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Carries out one call, whatever becomes of it, between its two records.
    ///
    /// Dropping the future cancels the call; it is recorded as cancelled.
    ///
    /// # Errors
    /// See [`ErrorKind`]; a tool that ran and failed is a reply with `is_error`.
    pub async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        self.call_timed(call).await.0
    }

    /// As [`Dispatch::call`], and says where the time went.
    pub async fn call_timed(&self, call: ToolCall) -> (Result<ToolReply, CallError>, Timings) {
        let mut timings = Timings::default();
        let outcome = self.recorded(call, &mut timings).await;
        (outcome, timings)
    }

    async fn recorded(
        &self,
        call: ToolCall,
        timings: &mut Timings,
    ) -> Result<ToolReply, CallError> {
        let mut watch = Stopwatch::start();
        let id = self.call_ids.fetch_add(1, Ordering::Relaxed).to_string();
        let name = truncate::text(&call.tool, RECORDED_NAME_BYTES_MAX);
        let arguments_digest = digest::of_json(&call.arguments);
        let mut span = CallSpan::open(&self.audit, &id, &call.principal.0, name, &arguments_digest)
            .map_err(|error| unrecorded(&error))?;
        timings.audit = watch.lap();
        let outcome = self.admit_and_run(call, &mut span, timings).await;
        watch.lap();
        span.close(&outcome).map_err(|error| unrecorded(&error))?;
        timings.audit += watch.lap();
        outcome
    }

    async fn admit_and_run(
        &self,
        call: ToolCall,
        span: &mut CallSpan,
        timings: &mut Timings,
    ) -> Result<ToolReply, CallError> {
        let mut watch = Stopwatch::start();
        let resolved = self.shelf.resolve(&call.tool).ok_or_else(|| unknown(&call.tool))?;
        let tool = Arc::clone(resolved.tool());
        span.note("digest", tool.digest.as_str());
        span.note("profile", tool.grants.profile.as_str());
        let admitted = self.gate.admit(resolved, &call.arguments, call.timeout)?;
        span.note("policy", admitted.rule().policy.as_str());
        span.note("rule_id", admitted.rule().id.as_str());
        timings.gate = watch.lap();
        let reply = self.run(admitted, call.progress, span, timings).await?;
        watch.lap();
        let reply = filter::apply(&tool, reply, self.limits.reply_bytes_max);
        timings.filter = watch.lap();
        Ok(reply)
    }

    async fn run(
        &self,
        admitted: Admitted,
        progress: Option<ProgressSink>,
        span: &mut CallSpan,
        timings: &mut Timings,
    ) -> Result<ToolReply, CallError> {
        let mut watch = Stopwatch::start();
        // Waiting for a place comes before the call's clock.
        let _place = self.place().await?;
        timings.wait = watch.lap();
        let (outcome, usage) = exec::wasm::run(self.engine.wasmtime(), admitted, progress).await;
        timings.guest = usage.guest;
        timings.instantiate = watch.lap().saturating_sub(usage.guest);
        span.note("fuel", usage.fuel);
        if !usage.violations.is_empty() {
            span.note("violations", usage.violations);
        }
        outcome
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>, CallError> {
        if let Ok(permit) = self.running.try_acquire() {
            return Ok(permit);
        }
        let _queued = Queued::enter(&self.waiting, self.limits.calls_waiting_max)?;
        self.running
            .acquire()
            .await
            .map_err(|_| CallError::new(ErrorKind::Overloaded, "the host is shutting down"))
    }
}

/// A place in the queue, given back when the wait ends however it ends.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(waiting: &'a AtomicUsize, waiting_max: usize) -> Result<Self, CallError> {
        let queued = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= waiting_max {
            let error = CallError::new(
                ErrorKind::Overloaded,
                "too many calls are waiting; try again later",
            );
            return Err(error.with("stage", "queue").with("limit", "calls_waiting_max"));
        }
        Ok(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn unknown(name: &str) -> CallError {
    let name = truncate::text(name, RECORDED_NAME_BYTES_MAX);
    CallError::new(ErrorKind::UnknownTool, format!("unknown tool {name:?}")).with("tool", name)
}

/// No record, no call: what cannot be accounted for does not happen.
fn unrecorded(error: &std::io::Error) -> CallError {
    CallError::new(ErrorKind::Internal, "the call could not be recorded, so it is refused")
        .with_internal(error.to_string())
}
