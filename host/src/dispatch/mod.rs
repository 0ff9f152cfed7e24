//! The path: every call, whoever sends it and whatever runs it, goes through [`Dispatch::call`].

mod attempts;
mod call;
mod filter;
mod governed;
mod nested;
mod places;
mod timings;
mod told;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use clawhost_core::catalog::{Tool, ckp_name};
use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::TOOL_NAME_BYTES_MAX;
use clawhost_core::manifest::{CatalogMode, LimitSettings};
use clawhost_core::policy::PolicySet;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::{truncate, visible};
use tokio_util::task::TaskTracker;

use crate::audit::{AuditLog, CallSpan};
use crate::engine::Engine;
use crate::exec::{self, Desk, Usage};
use crate::gate::{Admitted, Gate, Request};
use crate::random;
use crate::registry::{Code, OwnTool, Shelf, Watcher};
use crate::results::Results;
use crate::secrets::Secrets;
use crate::telemetry::Telemetry;
use attempts::Attempts;
pub use call::{Principal, ToolCall};
use filter::{Filter, Filtered, Schemas};
use governed::{Ran, promised};
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
    /// It was admitted.
    ran: Option<Ran>,
    /// The result as a record may have it, where it left as it was: of a nested call.
    masked: Option<ToolReply>,
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
        let LimitSettings { calls_running_max, calls_waiting_max, .. } = parts.limits;
        let places = Places::new(calls_running_max, calls_waiting_max);
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
    /// See [`ErrorKind`]; a tool that ran and failed is a reply with `is_error`.
    pub async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        self.call_timed(call).await.0
    }

    /// As [`Dispatch::call`], and says where the time went.
    pub async fn call_timed(&self, call: ToolCall) -> (Result<ToolReply, CallError>, Timings) {
        let mut timings = Timings::default();
        let call = meant(&self.terms(), call);
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
        let name = self.name_of(call);
        let arguments = digest::of_json(&call.arguments);
        let log = &self.parts.audit;
        let within = nested::within(call.context.nested.as_ref());
        let span = CallSpan::open(log, &id, &call.principal.0, &name, &arguments, &within);
        let mut span = span.map_err(|error| unrecorded(&error))?;
        if let Some(request) = &call.context.request_id {
            span.note("request", truncate::text(request, RECORDED_NAME_BYTES_MAX));
        }
        timings.audit = watch.lap();
        let told = Told::new(&self.parts, call, id);
        let attempts = Attempts::default();
        let (ran, masked) = (None, None);
        let mut underway =
            Underway { call, span, told, timings, attempts, detailed: false, ran, masked };
        let outcome = self.in_time(&mut underway).await;
        let mut outcome = outcome.map_err(|error| self.cleaned(error, call));
        let Underway { mut span, told, timings, detailed, ran, masked, attempts, .. } = underway;
        if let Some(ran) = ran {
            let who = call.principal.0.as_str();
            outcome = ran.learn(outcome, who, &call.arguments, &mut span).await;
        }
        if attempts.made() > 1 {
            span.note("attempts", attempts.made());
        }
        watch.lap();
        if let (true, Ok(reply)) = (detailed, &outcome) {
            let result = masked.as_ref().unwrap_or(reply).result();
            span.note_outputs(&self.terms().gate.shown(&result, &call.context));
        }
        let closed = span.close(&outcome).map_err(|error| unrecorded(&error));
        timings.audit += watch.lap();
        let outcome = closed.and(outcome);
        told.end(&outcome, masked.as_ref());
        outcome
    }

    /// Tries the call as often as its tool's plan says.
    async fn attempts(&self, underway: &mut Underway<'_>) -> Result<ToolReply, CallError> {
        loop {
            let error = match self.attempt(underway).await {
                Err(error) => error,
                done => return done,
            };
            // A trial is one attempt.
            let is_trial = underway.ran.as_ref().is_some_and(|ran| ran.trial.is_some());
            let wait = underway.attempts.next_in(&error, random::permille());
            let Some(wait) = wait.filter(|_| !is_trial) else {
                let made = underway.attempts.made();
                // Whatever refused the last one, an earlier one may have run.
                return Err(if made > 1 { error.with("attempts", made) } else { error });
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self, underway: &mut Underway<'_>) -> Result<ToolReply, CallError> {
        let mut watch = Stopwatch::start();
        let Underway { call, span, told, timings, attempts, detailed, ran, .. } = underway;
        if let Some(refused) = &call.context.refused {
            return Err(refused.clone());
        }
        let terms = self.terms();
        let resolved = terms.shelf.resolve(&call.tool).ok_or_else(|| absent(&terms, call))?;
        let tool = Arc::clone(resolved.tool());
        call.context.nested.as_ref().map_or(Ok(()), |nested| nested.check(&tool.ckp_name))?;
        span.note("digest", tool.digest.as_str());
        span.note("profile", tool.grants.profile.as_str());
        span.note(
            "schema_digest",
            tool.input.iter().map(|schema| schema.digest()).collect::<Vec<_>>(),
        );
        resolved.release().into_iter().for_each(|version| span.note("registry_version", version));
        told.tool = Some(tool.ckp_name.clone());
        let session = call.context.narrowing(&tool);
        let governance = &terms.gate.manifest().governance;
        let plan = governance.retry(&tool);
        let plan = nested::planned(call, plan, || governance.may_retry(&tool));
        attempts.begin(session.map_or(plan, |session| session.retry(plan)));
        let request = Request {
            principal: &call.principal.0,
            arguments: &call.arguments,
            timeout: attempts.time_left(call.timeout),
            approved: attempts.approved.as_deref(),
            context: &call.context,
        };
        let admitted = terms.gate.admit(resolved, request, span).await;
        let mut admitted = admitted.map_err(|error| refused_tool(error, &tool))?;
        attempts.approved = admitted.take_approval();
        if !Arc::ptr_eq(&terms, &self.terms()) {
            // Other documents came into service while somebody was asked: they decide as well.
            attempts.unbegin();
            return Box::pin(self.attempt(underway)).await;
        }
        attempts.start_clock(admitted.timeout());
        let had_its_time = admitted.timeout() >= tool.timeout();
        *ran = Some(Ran {
            tool: Arc::clone(&tool),
            manifest: Arc::clone(terms.gate.manifest()),
            quarantine: terms.gate.quarantine().clone(),
            trial: admitted.take_trial(),
            had_its_time: ran.as_ref().map_or(had_its_time, |first| first.had_its_time),
        });
        attempts.share().into_iter().for_each(|share| admitted.shorten(share));
        if let Some(hint) = governance.of(&tool).and_then(|own| own.cost_hint.clone()) {
            span.note("cost_hint", hint);
        }
        *detailed = admitted.is_detailed();
        told.takes(|| terms.gate.shown(&call.arguments, &call.context).into_owned());
        timings.gate += watch.lap();
        let reply = self.run(admitted, &terms, underway).await?;
        watch.lap();
        let reply = promised(governance, &tool, reply, &mut underway.span);
        let reply = self.filtered(&terms, &tool, reply, underway).await;
        underway.timings.filter += watch.lap();
        reply
    }

    async fn run(
        &self,
        mut admitted: Admitted,
        terms: &Terms,
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        let Underway { call, span, told, timings, .. } = underway;
        let mut watch = Stopwatch::start();
        // Waiting for a place comes before the call's clock.
        let _place = self.places.enter(call.context.nested.as_deref()).await?;
        timings.wait += watch.lap();
        terms.gate.switches().check(&admitted.resolved().tool().ckp_name)?;
        self.let_call(&mut admitted, call, &told.id);
        let engine = self.parts.engine.wasmtime();
        let name = admitted.resolved().tool().ckp_name.clone();
        let desk = Desk {
            gate: &terms.gate,
            shelf: &terms.shelf,
            results: &self.parts.results,
            reply_bytes_max: self.parts.limits.reply_bytes_max,
        };
        let (outcome, usage) = tokio::select! {
            biased;
            cut = terms.gate.switches().cut(&name) => (Err(cut), Usage::default()),
            ran = exec::run(engine, desk, admitted, call.caller()) => ran,
        };
        timings.guest += usage.guest;
        timings.instantiate += watch.lap().saturating_sub(usage.guest);
        span.note("fuel", usage.fuel);
        for (what, all) in [("egress", usage.egress), ("violations", usage.violations)] {
            if !all.is_empty() {
                span.note(what, all);
            }
        }
        outcome
    }

    /// Returns what the record calls the tool: the catalog's name, or what the caller says, made safe.
    fn name_of(&self, call: &ToolCall) -> String {
        let known = self.terms().shelf.catalog();
        let said = || {
            let clean = self.parts.secrets.redactor().text(&call.tool).into_owned();
            visible::line(truncate::text(&clean, RECORDED_NAME_BYTES_MAX))
        };
        known.find(&call.tool).map_or_else(said, |tool| tool.definition.name.clone())
    }

    /// Takes out of an error what results and records may not hold.
    fn cleaned(&self, error: CallError, call: &ToolCall) -> CallError {
        let (terms, tokens) = (self.terms(), self.parts.secrets.tokens());
        let error = self.parts.secrets.redactor().error(error);
        let clean = |error, policies: &PolicySet| policies.screens().error(error, tokens);
        terms.gate.lists(&call.context).fold(error, clean)
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
            let kept = self.parts.results.keep(&underway.call.principal.0, whole).await;
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
    // Whatever is wanted of `call_tool` itself beyond a plain yes, the gate says of `call_tool`.
    let by = terms.shelf.resolve(&call.tool).filter(|by| {
        matches!(by.code(), Code::Own(OwnTool::CallTool))
            && terms.gate.offers(by.tool(), &call.principal.0)
            && call.context.has(&by.tool().ckp_name)
            && terms.gate.allows(by.clone(), &call.arguments, &call.context)
    });
    let given = by.and_then(|_| call.arguments.as_object().filter(|given| given.len() == 2));
    let name = given.and_then(|given| given.get("name")?.as_str());
    let arguments = given.and_then(|given| given.get("arguments"));
    match (name, arguments) {
        (Some(name), Some(arguments)) => {
            ToolCall { tool: name.to_owned(), arguments: arguments.clone(), ..call }
        }
        // The gate says what is wrong with it.
        _ => call,
    }
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

/// Says why a tool is not served: a known one was refused when it was loaded.
fn absent(terms: &Terms, call: &ToolCall) -> CallError {
    let name = truncate::text(&call.tool, RECORDED_NAME_BYTES_MAX);
    let catalog = terms.shelf.catalog();
    let refused = catalog.refused_as(name).filter(|_| call.context.has(&ckp_name(name)));
    let error = match refused {
        None => CallError::new(ErrorKind::UnknownTool, format!("unknown tool {name:?}")),
        // Why may name folders of this machine: that is for the record.
        Some(refused) => {
            CallError::new(ErrorKind::Sandbox, format!("{name:?} was refused when it was loaded"))
                .with("stage", "load")
                .with_internal(refused.reason.as_str())
        }
    };
    error.with("tool", visible::line(name))
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
