//! What definitions of the operator want of a result, and what a call teaches about its tool.

use std::sync::Arc;

use clawhost_core::catalog::Tool;
use clawhost_core::contract::broken;
use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::manifest::PostconditionMode;
use clawhost_core::quarantine::anomaly;
use clawhost_core::reply::{Content, ToolReply};
use serde_json::Value;

use super::{Terms, Underway};
use crate::audit::CallSpan;
use crate::gate::Admitted;
use crate::offload;
use crate::quarantine::{Failure, Trial};

/// A call that was admitted, for what is learnt from how it ends.
pub(super) struct Ran {
    pub(super) tool: Arc<Tool>,
    pub(super) terms: Arc<Terms>,
    pub(super) trial: Option<Trial>,
    /// The caller gave no less time than the tool has.
    pub(super) had_its_time: bool,
}

impl Underway<'_> {
    /// Takes note of an attempt that was admitted and has its place: it begins. The clock of the first one starts.
    pub(super) fn begin(&mut self, terms: &Arc<Terms>, tool: &Arc<Tool>, admitted: &mut Admitted) {
        admitted.begin();
        self.attempts.start_clock(admitted.timeout());
        let had_its_time = admitted.timeout() >= tool.timeout();
        self.ran = Some(Ran {
            tool: Arc::clone(tool),
            terms: Arc::clone(terms),
            trial: admitted.take_trial(),
            had_its_time: self.ran.as_ref().map_or(had_its_time, |first| first.had_its_time),
        });
        self.attempts.share().into_iter().for_each(|share| admitted.shorten(share));
        if let Some(hint) = tool.governed.as_ref().and_then(|own| own.cost_hint.clone()) {
            self.span.note("cost_hint", hint);
        }
        self.detailed = admitted.is_detailed();
        let call = self.call;
        self.told.takes(|| terms.gate.shown(&call.arguments, &call.context).into_owned());
    }

    /// Learns from how the call ended, and returns that with what helps, where somebody said so.
    pub(super) async fn learn(
        &mut self,
        outcome: Result<ToolReply, CallError>,
    ) -> Result<ToolReply, CallError> {
        let Some(ran) = self.ran.take() else { return outcome };
        ran.learn(outcome, &self.call.principal.0, &self.call.arguments, &mut self.span).await
    }
}

impl Ran {
    async fn learn(
        self,
        mut outcome: Result<ToolReply, CallError>,
        principal: &str,
        arguments: &Value,
        span: &mut CallSpan,
    ) -> Result<ToolReply, CallError> {
        let Self { tool, terms, trial, had_its_time } = self;
        let (immune, quarantine) =
            (&terms.gate.manifest().governance.immune, terms.gate.quarantine());
        let Some(anomaly) = anomaly(&outcome, had_its_time) else {
            // What kept a trial from running says nothing about the tool.
            if let (Some(trial), Ok(_)) = (trial, &outcome) {
                Box::pin(quarantine.passed(trial)).await;
            }
            return outcome;
        };
        let failure = Failure {
            tool: &tool.ckp_name,
            principal,
            threshold: immune.threshold(&tool),
            anomaly: &anomaly,
            arguments,
            is_trial: trial.is_some(),
        };
        let learnt = Box::pin(quarantine.learn(failure, immune)).await;
        if let Some(lesson) = learnt {
            span.note("anomaly", lesson.signature);
            lesson.procedure.iter().for_each(|procedure| hint(&mut outcome, procedure));
        }
        outcome
    }
}

/// Tells the caller what helps.
fn hint(outcome: &mut Result<ToolReply, CallError>, procedure: &str) {
    match outcome {
        Ok(reply) => reply.content.push(Content::Text(format!("[what helps: {procedure}]"))),
        Err(error) => drop(error.data.insert("hint".to_owned(), procedure.into())),
    }
}

/// Holds a result against the postconditions of its tool. What they want is noted where it is not so.
pub(super) fn promised(
    mode: PostconditionMode,
    tool: &Tool,
    reply: ToolReply,
    span: &mut CallSpan,
) -> ToolReply {
    let own = tool.governed.as_ref().filter(|_| !reply.is_error);
    let conditions = own.map(|own| own.contract.postconditions.as_slice()).unwrap_or_default();
    if conditions.is_empty() {
        return reply;
    }
    let is_long = reply.bytes() > SCREENED_AT_ONCE_BYTES_MAX;
    let Some(condition) = offload::blocking(is_long, || broken(conditions, &reply.result())) else {
        return reply;
    };
    span.note("postcondition", condition.to_string());
    if mode == PostconditionMode::Warn {
        return reply;
    }
    let text = format!("the tool's result does not meet the condition `{condition}`");
    ToolReply::error("postcondition", text)
}
