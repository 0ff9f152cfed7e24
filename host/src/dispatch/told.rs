//! What telemetry is told of a call, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::catalog::Tool;
use clawhost_core::error::CallError;
use clawhost_core::limits::CALL_STAGES_MAX;
use clawhost_core::reply::ToolReply;
use serde_json::Value;

use super::{Parts, ToolCall};
use crate::telemetry::{CallEvent, Event, Stage, bounded};

/// What telemetry calls a tool that nobody offers: names of callers are without number.
const UNKNOWN_TOOL: &str = "unknown";

/// A call that telemetry has not heard the end of. Dropped before, it was cancelled.
pub(super) struct Told<'a> {
    parts: &'a Parts,
    call: &'a ToolCall,
    pub(super) id: String,
    started: Instant,
    /// The tool, once it is found.
    pub(super) tool: Option<Arc<Tool>>,
    /// The arguments, where they are wanted.
    arguments: Option<Value>,
    stages: Vec<Stage>,
    ended: bool,
}

impl<'a> Told<'a> {
    /// Returns what is told of a call that came in at `started`.
    pub(super) fn new(parts: &'a Parts, call: &'a ToolCall, id: String, started: Instant) -> Self {
        let (tool, arguments, stages) = (None, None, Vec::new());
        Self { parts, call, id, started, tool, arguments, stages, ended: false }
    }

    /// Notes that a stage has just ended after `duration`, and returns that.
    pub(super) fn stage(&mut self, stage: &'static str, duration: Duration) -> Duration {
        if self.parts.telemetry.takes_stages() && self.stages.len() < CALL_STAGES_MAX {
            let after = self.started.elapsed().saturating_sub(duration);
            self.stages.push(Stage { stage, after, duration });
        }
        duration
    }

    /// Tells how the call ended, with the result `masked` where it left as it was.
    pub(super) fn end(
        mut self,
        outcome: &Result<ToolReply, CallError>,
        masked: Option<&ToolReply>,
    ) {
        self.ended = true;
        self.emit(|told| {
            let mut event = CallEvent::ended(told.names(), outcome, told.started.elapsed());
            if let (true, Ok(reply)) = (told.parts.telemetry.takes_results(), outcome) {
                let (terms, result) = (told.parts.terms.load(), masked.unwrap_or(reply).result());
                event.result = Some(terms.gate.shown(&result, &told.call.context).into_owned());
            }
            event
        });
    }

    /// Takes the arguments that were admitted, as records may have them.
    pub(super) fn takes(&mut self, arguments: impl FnOnce() -> Value) {
        if self.parts.telemetry.takes_arguments() {
            // Bounded here already: before that is done where events are emitted, each of the call's has them
            // searched for secrets, on a thread that serves.
            self.arguments = Some(bounded(arguments()));
        }
    }

    fn names(&self) -> (&str, &str, &str) {
        let tool = self.tool.as_ref().map_or(UNKNOWN_TOOL, |tool| &tool.ckp_name);
        (&self.id, &self.call.principal.0, tool)
    }

    /// Emits what `event` makes, where somebody takes it.
    fn emit(&mut self, event: impl FnOnce(&Self) -> CallEvent) {
        if self.parts.telemetry.is_off() {
            return;
        }
        let mut event = event(self);
        let context = &self.call.context;
        event.request_id.clone_from(&context.request_id);
        event.trace = context.trace;
        if let Some(nested) = &context.nested {
            (event.parent, event.root) = (Some(nested.parent.clone()), Some(nested.root.clone()));
        }
        event.stages = std::mem::take(&mut self.stages);
        let redactor = self.parts.secrets.redactor();
        event.arguments = self.arguments.clone().map(|arguments| redactor.json(arguments));
        self.parts.telemetry.emit(Event::Call(Box::new(event)));
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.emit(|told| CallEvent::cancelled(told.names(), told.started.elapsed()));
        }
    }
}
