//! The path: every call, whoever sends it and whatever runs it, goes through [`Dispatch::call`].

mod attempts;
mod call;
mod filter;
mod places;
mod timings;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clawhost_core::catalog::{Tool, ckp_name};
use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::TOOL_NAME_BYTES_MAX;
use clawhost_core::manifest::LimitSettings;
use clawhost_core::policy::PolicySet;
use clawhost_core::reply::ToolReply;
use clawhost_core::truncate;
use tokio_util::task::TaskTracker;

use crate::audit::{AuditLog, CallSpan};
use crate::engine::Engine;
use crate::exec;
use crate::gate::{Admitted, CallContext, Gate, Request};
use crate::registry::Shelf;
use crate::secrets::Secrets;
use crate::telemetry::{Telemetry, result_of};
use attempts::Attempts;
pub use call::{Principal, ToolCall};
use filter::Filter;
use places::Places;
use timings::Stopwatch;
pub use timings::Timings;
use told::Told;

/// The longest a name from a caller may be in a record: a URI of a tool, with room.
const RECORDED_NAME_BYTES_MAX: usize = 4 * TOOL_NAME_BYTES_MAX;

/// What a path is made of.
#[derive(Debug)]
pub struct Parts {
    /// Runs components.
    pub engine: Arc<Engine>,
    /// Finds tools.
    pub shelf: Arc<Shelf>,
    /// Admits calls.
    pub gate: Gate,
    /// Records them.
    pub audit: Arc<AuditLog>,
    /// Knows what may not leave.
    pub secrets: Secrets,
    /// Is told how calls ended.
    pub telemetry: Telemetry,
    /// How much of everything.
    pub limits: LimitSettings,
}

/// A call between its two records.
struct Underway<'a> {
    call: &'a ToolCall,
    span: CallSpan,
    told: Told<'a>,
    timings: &'a mut Timings,
    attempts: Attempts,
    /// The result belongs into the record.
    detailed: bool,
}

/// What a call goes through, in order: record, catalog, gate, executor, filter, record.
#[derive(Debug)]
pub struct Dispatch {
    parts: Parts,
    places: Places,
    running: TaskTracker,
    call_ids: AtomicU64,
}

impl Dispatch {
    /// Returns a path over these parts.
    pub fn new(parts: Parts) -> Self {
        let LimitSettings { calls_running_max, calls_waiting_max, .. } = parts.limits;
        let places = Places::new(calls_running_max, calls_waiting_max);
        let running = TaskTracker::new();
        // Waiting for it ends when no call runs; new ones are counted all the same.
        running.close();
        Self { parts, places, running, call_ids: AtomicU64::new(0) }
    }

    /// Counts the calls that are under way, between their two records.
    pub const fn running(&self) -> &TaskTracker {
        &self.running
    }

    /// Returns the gate, which listing asks too.
    pub fn gate(&self) -> &Gate {
        &self.parts.gate
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
        let outcome = self.recorded(&call, &mut timings).await;
        (outcome, timings)
    }

    async fn recorded(
        &self,
        call: &ToolCall,
        timings: &mut Timings,
    ) -> Result<ToolReply, CallError> {
        let _counted = self.running.token();
        let mut watch = Stopwatch::start();
        let id = self.call_ids.fetch_add(1, Ordering::Relaxed).to_string();
        let name = truncate::text(&call.tool, RECORDED_NAME_BYTES_MAX);
        let arguments = digest::of_json(&call.arguments);
        let log = &self.parts.audit;
        let span = CallSpan::open(log, &id, &call.principal.0, name, &arguments)
            .map_err(|error| unrecorded(&error))?;
        timings.audit = watch.lap();
        let told = Told::new(&self.parts, call, id);
        let attempts = Attempts::default();
        let mut underway = Underway { call, span, told, timings, attempts, detailed: false };
        let outcome = self.attempts(&mut underway).await;
        let outcome = outcome.map_err(|error| self.parts.secrets.redactor().error(error));
        let Underway { mut span, told, timings, detailed, .. } = underway;
        watch.lap();
        if let (true, Ok(reply)) = (detailed, &outcome) {
            span.note_outputs(&result_of(reply));
        }
        let closed = span.close(&outcome).map_err(|error| unrecorded(&error));
        timings.audit += watch.lap();
        let outcome = closed.and(outcome);
        told.end(&outcome);
        outcome
    }

    /// Tries the call as often as its tool's plan says.
    async fn attempts(&self, underway: &mut Underway<'_>) -> Result<ToolReply, CallError> {
        loop {
            let error = match self.attempt(underway).await {
                Err(error) => error,
                done => return done,
            };
            let Some(wait) = underway.attempts.next_in(&error) else {
                return Err(error);
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self, underway: &mut Underway<'_>) -> Result<ToolReply, CallError> {
        let mut watch = Stopwatch::start();
        let Underway { call, span, told, timings, attempts, detailed } = underway;
        if let Some(refused) = &call.context.refused {
            return Err(refused.clone());
        }
        let resolved = self.parts.shelf.resolve(&call.tool).ok_or_else(|| self.absent(call))?;
        let tool = Arc::clone(resolved.tool());
        span.note("digest", tool.digest.as_str());
        span.note("profile", tool.grants.profile.as_str());
        told.tool = Some(tool.ckp_name.clone());
        let session = call.context.narrowing(&tool);
        attempts.begin(session.map_or(tool.retry, |session| session.retry(tool.retry)));
        let request = Request {
            principal: &call.principal.0,
            arguments: &call.arguments,
            timeout: attempts.time_left(call.timeout),
            approved: attempts.approved.as_deref(),
            context: &call.context,
        };
        let admitted = self.gate().admit(resolved, request, span).await;
        let mut admitted = admitted.map_err(|error| refused_tool(error, &tool))?;
        attempts.approved = admitted.take_approval();
        attempts.start_clock(admitted.timeout());
        *detailed = admitted.is_detailed();
        told.takes(admitted.arguments());
        timings.gate += watch.lap();
        let reply = self.run(admitted, underway).await?;
        watch.lap();
        let context = &underway.call.context;
        let reply = self.filtered(&tool, reply, context, &mut underway.span);
        underway.timings.filter += watch.lap();
        reply
    }

    /// Says why a tool is not served: a known one was refused when it was loaded.
    fn absent(&self, call: &ToolCall) -> CallError {
        let name = truncate::text(&call.tool, RECORDED_NAME_BYTES_MAX);
        let catalog = self.parts.shelf.catalog();
        let refused = catalog.refused_as(name).filter(|_| call.context.has(&ckp_name(name)));
        let error = match refused {
            None => CallError::new(ErrorKind::UnknownTool, format!("unknown tool {name:?}")),
            // Why may name folders of this machine: that is for the record.
            Some(refused) => CallError::new(
                ErrorKind::Sandbox,
                format!("{name:?} was refused when it was loaded"),
            )
            .with("stage", "load")
            .with_internal(refused.reason.as_str()),
        };
        error.with("tool", name)
    }

    async fn run(
        &self,
        admitted: Admitted,
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        let Underway { call, span, timings, .. } = underway;
        let mut watch = Stopwatch::start();
        // Waiting for a place comes before the call's clock.
        let _place = self.places.enter().await?;
        timings.wait += watch.lap();
        let engine = self.parts.engine.wasmtime();
        let (outcome, usage) = exec::run(engine, admitted, call.progress.clone()).await;
        timings.guest += usage.guest;
        timings.instantiate += watch.lap().saturating_sub(usage.guest);
        span.note("fuel", usage.fuel);
        if !usage.violations.is_empty() {
            span.note("violations", usage.violations);
        }
        outcome
    }

    fn filtered(
        &self,
        tool: &Tool,
        reply: ToolReply,
        context: &CallContext,
        span: &mut CallSpan,
    ) -> Result<ToolReply, CallError> {
        let filter = Filter {
            redactor: self.parts.secrets.redactor(),
            bytes_max: self.parts.limits.reply_bytes_max,
        };
        let policies: Vec<&PolicySet> = self.gate().lists(context).collect();
        let session = context.narrowing(tool).and_then(|session| session.output.as_ref());
        let schemas = tool.output.iter().map(AsRef::as_ref).chain(session).collect::<Vec<_>>();
        let (reply, findings) = filter.apply(&schemas, reply, &policies);
        span.note_findings(&findings);
        reply
    }
}

/// Says which tool policy refuses (CKP 0.3.0, section 9.4).
fn refused_tool(error: CallError, tool: &Tool) -> CallError {
    match error.kind {
        ErrorKind::Policy => error.with("tool", tool.ckp_name.as_str()).with("action", "deny"),
        _ => error,
    }
}

/// No record, no call: what cannot be accounted for does not happen.
fn unrecorded(error: &std::io::Error) -> CallError {
    CallError::new(ErrorKind::Internal, "the call could not be recorded, so it is refused")
        .with("stage", "audit")
        .with_internal(error.to_string())
}
