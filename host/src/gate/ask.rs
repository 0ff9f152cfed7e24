//! Asking a person, and the records of it.

use std::time::Instant;

use clawhost_core::catalog::Tool;
use clawhost_core::digest;
use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::policy::ApprovalTerms;
use clawhost_core::reply::json_bytes;
use serde_json::json;

use super::decide::Ask;
use super::{Gate, Request};
use crate::approvals::{Approved, How, Question};
use crate::audit::CallSpan;
use crate::offload;
use crate::quarantine::Trial;

/// What was allowed for a call, which later attempts of it bring along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The digest of tool and arguments.
    digest: String,
    how: How,
}

impl Allowed {
    /// Says whether it allows the call of this digest where `terms` ask about it: a person's word does. Silence
    /// does where it would still, and whether there is a lease still is looked up.
    fn holds(&self, digest: &str, terms: ApprovalTerms) -> bool {
        let counts = match self.how {
            How::Operator => true,
            How::Silence => terms.allow_on_timeout,
            How::Lease => false,
        };
        counts && self.digest == digest
    }
}

impl Gate {
    /// Asks a person, unless an earlier attempt of the call did, and returns what is allowed, still
    /// after that.
    pub(super) async fn ask(
        &self,
        tool: &Tool,
        ask: &Ask,
        request: Request<'_>,
        trial: &mut Option<Trial>,
        span: &mut CallSpan,
    ) -> Result<Allowed, CallError> {
        let asked = self.question(tool, ask, request, span.call());
        let digest = asked.digest.clone();
        let earlier = request.approved.filter(|earlier| earlier.holds(&digest, ask.terms));
        let how = match earlier {
            Some(earlier) => earlier.how,
            None => self.put(asked, request, span).await?,
        };
        // Minutes may have passed.
        self.decide_again(tool, request, trial)?;
        Ok(Allowed { digest, how })
    }

    /// Says whether what an earlier attempt was allowed by would allow the call still, without asking anybody.
    pub(super) async fn still_allowed(
        &self,
        tool: &Tool,
        ask: &Ask,
        request: Request<'_>,
        call: &str,
    ) -> bool {
        let Some(earlier) = request.approved else { return false };
        let asked = self.question(tool, ask, request, call);
        earlier.holds(&asked.digest, ask.terms)
            || (earlier.how == How::Lease && self.sides.approvals.is_leased(&asked).await)
    }

    /// Returns what a person is asked about `call`.
    fn question(&self, tool: &Tool, ask: &Ask, request: Request<'_>, call: &str) -> Question {
        let Request { arguments, principal, context, .. } = request;
        let is_long = json_bytes(arguments) > SCREENED_AT_ONCE_BYTES_MAX;
        let redactor = self.sides.secrets.redactor();
        let shown = offload::blocking(is_long, || redactor.json(arguments.clone()));
        Question {
            call: call.to_owned(),
            request_id: context.request_id.clone(),
            principal: principal.to_owned(),
            tool: tool.ckp_name.clone(),
            tool_digest: tool.digest.clone(),
            digest: digest::of_json(&json!({"tool": tool.digest, "arguments": arguments})),
            arguments: shown,
            rule: ask.rule.clone(),
            reason: ask.reason.clone(),
            terms: ask.terms,
        }
    }

    /// Puts a question, and notes how it was answered, by whom, and how long that took.
    async fn put(
        &self,
        asked: Question,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<How, CallError> {
        let began = Instant::now();
        let answer = self.recorded(asked, request, span).await;
        span.waited = Some(began.elapsed());
        let approved = answer?;
        span.note("approved", approved.how.name());
        span.note("approved_by", approved.by);
        Ok(approved.how)
    }

    /// Asks, between two records of their own where a policy wants them.
    async fn recorded(
        &self,
        asked: Question,
        request: Request<'_>,
        span: &CallSpan,
    ) -> Result<Approved, CallError> {
        let waiting = request.context.waiting.as_ref();
        if !self.logs(request.context, |terms| terms.log_approvals) {
            return self.sides.approvals.ask(asked, waiting).await;
        }
        span.approval_asked(&asked.reason).map_err(|error| unrecorded(&error))?;
        let answer = self.sides.approvals.ask(asked, waiting).await;
        let written = match &answer {
            Ok(approved) => span.approval_answered(true, &approved.by, approved.how.name()),
            Err(error) => {
                let by = error.internal.as_deref().unwrap_or("nobody");
                span.approval_answered(false, by, error.kind.name())
            }
        };
        written.map_err(|error| unrecorded(&error))?;
        answer
    }
}

/// No record, no call.
fn unrecorded(error: &std::io::Error) -> CallError {
    CallError::unrecorded("the approval could not be recorded, so it does not count", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_leases_count_again_only_where_they_would_allow_the_call_still() {
        let under = |allow_on_timeout| ApprovalTerms { allow_on_timeout, ..Default::default() };
        for (how, strict, lax) in
            [(How::Operator, true, true), (How::Silence, false, true), (How::Lease, false, false)]
        {
            let allowed = Allowed { digest: "a".to_owned(), how };
            assert_eq!(allowed.holds("a", under(false)), strict, "{how:?}");
            assert_eq!(allowed.holds("a", under(true)), lax, "{how:?}");
            assert!(!allowed.holds("b", under(true)), "{how:?}");
        }
    }
}
