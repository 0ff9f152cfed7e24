//! `claw.tool.approve` and `claw.tool.deny`: the operator's word about a call that waits.
//!
//! Whoever calls tools is never who approves: on standard input the parent process speaks for the
//! operator, over HTTP only the operator's own credential does. The protocol does not say when a
//! call begins to wait, so a word about a call that was sent just before waits for its question.

use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::APPROVAL_EARLY_MS;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::session::{Authority, ClawSession};
use crate::approvals::{Answer, Approver};
use crate::serve::calls::Calls;
use crate::serve::message::{Fault, Outcome};
use crate::serve::params::Params;

/// What the operator says about a call.
#[derive(Debug, Clone)]
pub(super) struct Word {
    request_id: String,
    answer: Answer,
}

impl Word {
    fn read(params: Params<'_>, approves: bool) -> Result<Self, Fault> {
        let request_id = params.request_id("request_id")?.to_ascii_lowercase();
        let reason = params.text_or_none("reason")?.map(str::to_owned);
        let answer =
            if approves { Answer::Approve { lease: None } } else { Answer::Deny { reason } };
        Ok(Self { request_id, answer })
    }

    async fn say<C: Calls>(&self, calls: &C, within: Option<&str>) -> bool {
        let (id, answer) = (self.request_id.as_str(), self.answer.clone());
        calls.services().approvals.answer(id, within, answer, &Approver::Operator).await
    }
}

impl<C: Calls> ClawSession<C> {
    pub(super) fn word(
        &self,
        params: Params<'_>,
        approves: bool,
    ) -> Result<super::session::Answer, Fault> {
        let word = Word::read(params, approves)?;
        self.life().has_begun()?;
        if self.inner().authority != Authority::Operator {
            return Err(not_the_operator());
        }
        let session = self.clone();
        Ok(super::session::Answer::Later(Box::pin(async move {
            let said = session.say(word).await;
            (Ok(acknowledged(said)), None)
        })))
    }

    /// Says it at once, or when the call that is on its way asks.
    async fn say(&self, word: Word) -> bool {
        let calls = &self.inner().calls;
        let within = Some(self.inner().principal.0.as_str());
        let deadline = Instant::now() + Duration::from_millis(APPROVAL_EARLY_MS);
        let mut running = self.running();
        let mut questions = calls.services().approvals.changes();
        loop {
            running.borrow_and_update();
            questions.borrow_and_update();
            if word.say(calls, within).await {
                return true;
            }
            if !self.runs(&word.request_id) {
                return false;
            }
            let news = async {
                tokio::select! {
                    _ = questions.changed() => {}
                    _ = running.changed() => {}
                }
            };
            if timeout_at(deadline, news).await.is_err() {
                return false;
            }
        }
    }
}

/// Answers the operator, who has no session.
pub(crate) async fn operator<C: Calls>(
    calls: &C,
    params: Option<&Value>,
    approves: bool,
) -> Outcome {
    let word = Word::read(Params::of(params), approves)?;
    Ok(acknowledged(word.say(calls, None).await))
}

/// True where a call waited and now does not. An id that nobody waits under is no error: the
/// answer says that nothing came of it.
fn acknowledged(was_pending: bool) -> Value {
    json!({"acknowledged": was_pending})
}

fn not_the_operator() -> Fault {
    let text = "who calls tools cannot approve calls: that takes the operator's credential";
    CallError::new(ErrorKind::Policy, text).with("stage", "approval").into()
}
