//! The path: every call, whoever sends it and whatever runs it, goes through [`Dispatch::call`].

mod attempts;
mod call;
mod filter;
mod governed;
mod meanwhile;
mod nested;
mod places;
mod timings;
mod told;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use clawhost_core::catalog::Tool;
use clawhost_core::digest;
use clawhost_core::error::CallError;
use clawhost_core::limits::{SCREENED_AT_ONCE_BYTES_MAX, TOOL_NAME_BYTES_MAX};
use clawhost_core::manifest::{CatalogMode, LimitSettings};
use clawhost_core::policy::PolicySet;
use clawhost_core::reply::{Content, ToolReply, json_bytes};
use clawhost_core::visible;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::audit::{AuditLog, CallSpan};
use crate::engine::Engine;
use crate::exec::{self, Desk, Usage};
use crate::gate::{Admitted, CallContext, Gate};
use crate::offload;
use crate::recording::{Recording, Recordings};
use crate::registry::{OwnTool, Shelf, ToolCode, Watcher};
use crate::results::Results;
use crate::secrets::Secrets;
use crate::telemetry::Telemetry;
use attempts::Attempts;
pub use call::{Principal, ToolCall};
use filter::{Filter, Filtered, Schemas};
use governed::Ran;
use places::Places;
use timings::Stopwatch;
pub use timings::Timings;
use told::Told;

/// The longest a name from a caller may be in a record: a URI of a tool, with room.
const RECORDED_NAME_BYTES_MAX: usize = 4 * TOOL_NAME_BYTES_MAX;

/// What decides about calls, all of one manifest: a call sees one of these and no mixture.
#[derive(Debug)]
pub struct Terms {
    /// Finds tools.
    pub shelf: Arc<Shelf>,
    /// Admits calls.
    pub gate: Gate,
    /// Keeps the shelf in step with what is outside.
    pub watcher: Option<Watcher>,
}

/// What a path is made of.
#[derive(Debug)]
pub struct Parts {
    /// Runs components.
    pub engine: Arc<Engine>,
    /// Decides, until others take its place.
    pub terms: ArcSwap<Terms>,
    /// Records them.
    pub audit: Arc<AuditLog>,
    /// Keeps what is cut, where its profile says so.
    pub results: Results,
    /// Keeps what is recorded, where its profile says so.
    pub recordings: Recordings,
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
    watch: Stopwatch,
    timings: &'a mut Timings,
    attempts: Attempts,
    /// The tool failed as what it asked for over HTTP broke off.
    broke_off: bool,
    /// The result belongs into the record.
    detailed: bool,
    /// It was admitted.
    ran: Option<Ran>,
    /// The result as a record may have it, where it left as it was: of a nested call.
    masked: Option<ToolReply>,
}

impl Underway<'_> {
    /// Notes that a stage ends now, the next one beginning, and adds the time that it took to what `part` is.
    fn lap(&mut self, stage: &'static str, part: impl FnOnce(&mut Timings) -> &mut Duration) {
        *part(self.timings) += self.told.stage(stage, self.watch.lap());
    }
}

/// What a call goes through, in order: record, catalog, gate, executor, filter, record.
#[derive(Debug)]
pub struct Dispatch {
    parts: Parts,
    places: Places,
    running: TaskTracker,
    call_ids: AtomicU64,
    /// Itself, for the calls that tools make.
    own: Weak<Self>,
}

impl Dispatch {
    /// Returns a path over these parts.
    pub fn new(parts: Parts) -> Arc<Self> {
        let places = Places::new(&parts.limits);
        let running = TaskTracker::new();
        // Waiting for it ends when no call runs; new ones are counted all the same.
        running.close();
        let call_ids = AtomicU64::new(0);
        Arc::new_cyclic(|own| Self { parts, places, running, call_ids, own: Weak::clone(own) })
    }

    /// Counts the calls that are under way, between their two records.
    pub const fn running(&self) -> &TaskTracker {
        &self.running
    }

    /// Returns what decides now. Listing asks it too.
    pub fn terms(&self) -> Arc<Terms> {
        self.parts.terms.load_full()
    }

    /// Lets `terms` decide about every attempt that begins from now on.
    pub fn settle(&self, terms: Terms) {
        self.parts.terms.store(Arc::new(terms));
    }

    /// Carries out one call, whatever becomes of it, between its two records.
    ///
    /// Dropping the future cancels the call; it is recorded as cancelled.
    ///
    /// # Errors
    /// See [`ErrorKind`](clawhost_core::error::ErrorKind); a tool that ran and failed is a reply with `is_error`.
    pub async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        self.call_timed(call).await.0
    }

    /// As [`Dispatch::call`], and says where the time went.
    pub async fn call_timed(&self, call: ToolCall) -> (Result<ToolReply, CallError>, Timings) {
        let mut timings = Timings::default();
        let call = meant(&self.parts.terms.load(), call);
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
        let span = self.opened(call, &id)?;
        let mut told = Told::new(&self.parts, call, id, watch.begun());
        timings.audit = told.stage("record", watch.lap());
        let mut underway = Underway {
            call,
            span,
            told,
            watch,
            timings,
            attempts: Attempts::default(),
            broke_off: false,
            detailed: false,
            ran: None,
            masked: None,
        };
        let outcome = self.in_time(&mut underway).await;
        let outcome = outcome.map_err(|error| self.cleaned(error, &call.context));
        let outcome = underway.learn(outcome).await;
        self.closed(underway, outcome)
    }

    /// Opens the record of a call.
    fn opened(&self, call: &ToolCall, id: &str) -> Result<CallSpan, CallError> {
        let name = self.name_of(call);
        let arguments = digest::of_json(&call.arguments);
        let within = nested::within(call.context.nested.as_ref());
        let log = &self.parts.audit;
        let span = CallSpan::open(log, id, &call.principal.0, &name, &arguments, &within);
        let mut span = span.map_err(|error| unrecorded(&error))?;
        if let Some(request) = &call.context.request_id {
            span.note("request", self.parts.secrets.short(request, RECORDED_NAME_BYTES_MAX));
        }
        Ok(span)
    }

    /// Closes the record of a call, then tells how it ended.
    fn closed(
        &self,
        mut underway: Underway<'_>,
        outcome: Result<ToolReply, CallError>,
    ) -> Result<ToolReply, CallError> {
        underway.watch.lap();
        let Underway { call, mut span, mut told, mut watch, timings, .. } = underway;
        let Underway { attempts, detailed, masked, .. } = underway;
        if attempts.made() > 1 {
            span.note("attempts", attempts.made());
        }
        if let (true, Ok(reply)) = (detailed, &outcome) {
            let result = masked.as_ref().unwrap_or(reply).result();
            span.note_outputs(&self.terms().gate.shown(&result, &call.context));
        }
        let closed = span.close(&outcome).map_err(|error| unrecorded(&error));
        timings.audit += told.stage("record", watch.lap());
        let outcome = closed.and(outcome);
        told.end(&outcome, masked.as_ref());
        outcome
    }

    async fn run(
        &self,
        mut admitted: Admitted,
        (terms, tool): (&Terms, &Tool),
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        let Underway { call, span, told, .. } = underway;
        self.let_call(&mut admitted, call, &told.id);
        span.note_grants(admitted.resolved().sandbox().touches());
        let desk = Desk {
            gate: &terms.gate,
            shelf: &terms.shelf,
            results: &self.parts.results,
            context: &call.context,
            reply_bytes_max: self.parts.limits.reply_bytes_max,
        };
        let (outcome, usage) = tokio::select! {
            // In this order: whoever is done at once waits for no switch.
            biased;
            ran = exec::run(desk, admitted, self.caller(call, span.found())) => ran,
            cut = terms.gate.switches().cut(&tool.ckp_name) => (Err(cut), Usage::default()),
        };
        underway.lap("run", |timings| &mut timings.instantiate);
        let Timings { instantiate, guest, .. } = &mut *underway.timings;
        (*instantiate, *guest) = (instantiate.saturating_sub(usage.guest), *guest + usage.guest);
        underway.broke_off = usage.broke_off;
        self.note_usage(usage, &mut underway.span);
        outcome
    }

    /// Notes what a run used, what it touched, and what it was refused.
    fn note_usage(&self, usage: Usage, span: &mut CallSpan) {
        span.note("fuel", usage.fuel);
        let lacks = usage.violations.iter().filter_map(|one| one.lacks.as_ref());
        let lacks = lacks.map(|lack| json!(lack)).collect::<Vec<_>>();
        let violations = usage.violations.into_iter().map(|one| one.text.into()).collect();
        let egress = usage.egress.into_iter().map(Value::from).collect();
        for (what, all) in [("egress", egress), ("violations", violations), ("lacks", lacks)] {
            if !all.is_empty() {
                span.note(what, all);
            }
        }
        if let Some(recorded) = usage.recording {
            span.note("recording", self.kept(recorded));
        }
    }

    /// Returns the recordings of calls.
    pub(crate) fn recordings(&self) -> &Recordings {
        &self.parts.recordings
    }

    /// Keeps what was recorded of a call, and says where, or why there is nothing.
    fn kept(&self, recorded: Result<Recording, String>) -> String {
        let keep = |recording| self.parts.recordings.keep(&recording);
        let keep = |recording| offload::blocking(true, || keep(recording));
        let kept = recorded.and_then(|recording| keep(recording).map_err(|e| e.to_string()));
        kept.unwrap_or_else(|why| format!("none: {why}"))
    }

    /// Returns what the record calls the tool: the catalog's name, or what the caller says, made safe.
    fn name_of(&self, call: &ToolCall) -> String {
        let known = self.parts.terms.load().shelf.catalog();
        let said = || visible::line(&self.parts.secrets.short(&call.tool, RECORDED_NAME_BYTES_MAX));
        known.find(&call.tool).map_or_else(said, |tool| tool.definition.name.clone())
    }

    /// Takes out of an error what results and records may not hold.
    fn cleaned(&self, error: CallError, context: &CallContext) -> CallError {
        let (terms, tokens) = (self.terms(), self.parts.secrets.tokens());
        let clean = |error, policies: &PolicySet| policies.screens().error(error, tokens);
        offload::blocking(is_long(&error), || {
            let error = self.parts.secrets.redactor().error(error);
            terms.gate.lists(context).fold(error, clean)
        })
    }

    async fn filtered(
        &self,
        terms: &Terms,
        tool: &Tool,
        reply: ToolReply,
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        let filter = Filter {
            redactor: self.parts.secrets.redactor(),
            tokens: *self.parts.secrets.tokens(),
            bytes_max: self.parts.limits.reply_bytes_max,
            keeps: terms.gate.manifest().keeps.contains(&tool.grants.profile),
            is_nested: underway.call.context.nested.is_some(),
        };
        let policies: Vec<&PolicySet> = terms.gate.lists(&underway.call.context).collect();
        let context = &underway.call.context;
        let session = context.narrowing(tool).and_then(|session| session.output.as_ref());
        let schemas = Schemas { own: &tool.output, session };
        let (filtered, findings) = filter.apply(schemas, reply, &policies);
        underway.span.note_findings(&findings);
        let Filtered { mut reply, whole, masked } = filtered?;
        underway.masked = masked;
        if let Some(whole) = whole {
            let kept = Box::pin(self.parts.results.keep(&underway.call.principal.0, whole)).await;
            reply.content.push(Content::Text(kept_as(kept)));
        }
        Ok(reply)
    }
}

/// Returns the call that is meant: what `call_tool` is asked to call is called, and nothing else.
fn meant(terms: &Terms, call: ToolCall) -> ToolCall {
    if terms.gate.manifest().catalog != CatalogMode::Search {
        return call;
    }
    let by = terms.shelf.resolve(&call.tool).filter(|by| {
        matches!(by.code(), ToolCode::Own(OwnTool::CallTool))
            && terms.gate.offers(by.tool(), &call.principal.0)
            && call.context.has(&by.tool().ckp_name)
    });
    // The gate says what is wrong with it.
    let Some((by, (name, arguments))) = by.zip(given(&call.arguments)) else { return call };
    let meant = terms.shelf.resolve(name).map(|meant| (meant, arguments));
    // Whatever else is wanted of `call_tool` itself, the gate says of `call_tool`.
    if !terms.gate.stands_for((by, &call.arguments), meant, &call.context) {
        return call;
    }
    ToolCall { tool: name.to_owned(), arguments: arguments.clone(), ..call }
}

/// Returns which tool `call_tool` is to call, and with what.
fn given(arguments: &Value) -> Option<(&str, &Value)> {
    let given = arguments.as_object().filter(|given| given.len() == 2)?;
    Some((given.get("name")?.as_str()?, given.get("arguments")?))
}

/// Says where the rest of a result is.
fn kept_as(kept: Result<String, CallError>) -> String {
    match kept {
        Ok(id) => {
            format!("[the whole result is kept for a while: read_result {{\"id\": \"{id}\"}}]")
        }
        Err(error) => format!("[the whole result could not be kept: {}]", error.message),
    }
}

/// No record, no call: what cannot be accounted for does not happen.
fn unrecorded(error: &std::io::Error) -> CallError {
    CallError::unrecorded("the call could not be recorded, so it is refused", error)
}

/// Says whether searching an error takes long: what a server asks of a person is in it as it came, and so are the
/// names of the functions in which a component broke off.
fn is_long(error: &CallError) -> bool {
    let internal = error.internal.as_ref().map_or(0, String::len);
    let data: usize = error.data.values().map(json_bytes).sum();
    data.saturating_add(internal) > SCREENED_AT_ONCE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use clawhost_core::error::ErrorKind;

    use super::*;

    #[test]
    fn an_error_is_long_by_whatever_part_of_it_is() {
        let long = "x".repeat(SCREENED_AT_ONCE_BYTES_MAX);
        let error = || CallError::new(ErrorKind::Sandbox, "no");
        assert!(!is_long(&error().with("stage", "run").with_internal("why")));
        assert!(is_long(&error().with("asked", long.as_str())));
        assert!(is_long(&error().with_internal(format!("{long}x"))));
    }
}
