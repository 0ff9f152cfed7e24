//! Asking a person, and the records of it.

use std::time::Instant;

use clawhost_core::catalog::Tool;
use clawhost_core::digest;
use clawhost_core::error::CallError;
use serde_json::{Value, json};

use super::decide::Ask;
use super::{Gate, Request};
use crate::approvals::{Approved, Asked};
use crate::audit::CallSpan;

impl Gate {
    /// Asks a person, unless an earlier attempt of the call did, and returns the digest of what
    /// is allowed, still after that.
    pub(super) async fn ask(
        &self,
        tool: &Tool,
        arguments: &Value,
        ask: &Ask,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<String, CallError> {
        self.rates_left(request.principal, request.context)?;
        let digest = digest::of_json(&json!({"tool": tool.digest, "arguments": arguments}));
        if request.approved != Some(digest.as_str()) {
            let asked = Asked {
                call: span.call().to_owned(),
                request_id: request.context.request_id.clone(),
                principal: request.principal.to_owned(),
                tool: tool.ckp_name.clone(),
                tool_digest: tool.digest.clone(),
                digest: digest.clone(),
                arguments: self.sides.secrets.redactor().json(arguments.clone()),
                rule: ask.rule.clone(),
                reason: ask.reason.clone(),
                terms: ask.terms,
            };
            self.put(asked, request, span).await?;
        }
        // Minutes may have passed: what was spent meanwhile counts.
        self.decide(tool, Some(arguments), request.context)?;
        Ok(digest)
    }

    /// Puts a question, and notes how it was answered, by whom, and how long that took.
    async fn put(
        &self,
        asked: Asked,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<(), CallError> {
        let began = Instant::now();
        let answer = self.recorded(asked, request, span).await;
        span.waited = Some(began.elapsed());
        let approved = answer?;
        span.note("approved", approved.how);
        span.note("approved_by", approved.by);
        Ok(())
    }

    /// Asks, between two records of their own where a policy wants them.
    async fn recorded(
        &self,
        asked: Asked,
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
            Ok(approved) => span.approval_answered(true, &approved.by, approved.how),
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
