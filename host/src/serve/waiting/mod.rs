//! A `tools/call` whose call waits for a person.
//!
//! In the older revisions the request stays open until the call has ended, and where the operator
//! allowed it the client's own user is asked meanwhile. The stateless revision has no request to a
//! client: there the call is parked, and the answer `input_required` carries a ticket to it, and
//! the question where the client's user may be asked. Who may not be asked holds the request for
//! [`APPROVAL_HOLD_MS`] before such an answer, so that coming back is no busy wait. A client that
//! gave a progress token hears that its call waits. Deliberately absent: deciding anything.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::limits::{APPROVAL_HOLD_MS, APPROVAL_REPORT_INTERVAL_MS};
use clawhost_core::reply::ToolReply;
use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, InputResponses, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::calls::host_failed;
use super::elicit;
use crate::approvals::{Approvals, ParkedCall, Pending};

/// What a call comes to.
pub(super) type Outcome = Result<ToolReply, CallError>;

/// What one request comes to.
pub(super) enum Turn {
    /// The call has ended.
    Done(Outcome),
    /// The client has to come back.
    Waits(InputRequiredResult),
}

/// A call under way.
pub(super) struct Underway {
    /// The call itself.
    pub(super) call: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// The id of the last question it had to ask.
    pub(super) question: watch::Receiver<Option<String>>,
    /// Cancelled when the request that began it is answered: it reports no more progress.
    pub(super) answered: CancellationToken,
}

/// The client of one request.
pub(super) struct Client<'a> {
    /// Where its call waits.
    pub(super) approvals: &'a Approvals,
    /// Whose call it is.
    pub(super) principal: &'a str,
    /// The digest of the request's tool and arguments.
    pub(super) digest: String,
    /// The way to it.
    pub(super) peer: &'a Peer<RoleServer>,
    /// Under which it wants to hear of progress.
    pub(super) token: Option<ProgressToken>,
    /// Whether its user may be asked, and it can ask.
    pub(super) elicits: bool,
}

impl Client<'_> {
    /// Waits for the call to end, as the older revisions have it; `asks` the client's user
    /// meanwhile.
    pub(super) async fn see_through(&self, mut underway: Underway, asks: bool) -> Outcome {
        let question = underway.question;
        tokio::select! {
            biased;
            outcome = &mut underway.call => outcome,
            never = self.report(question.clone()) => match never {},
            never = self.ask_user(question), if asks => match never {},
        }
    }

    /// Waits for the call to end or to ask, as the stateless revision has it.
    pub(super) async fn begin(&self, mut underway: Underway) -> Turn {
        let mut question = underway.question.clone();
        tokio::select! {
            biased;
            outcome = &mut underway.call => return Turn::Done(outcome),
            _ = asked(&mut question) => {}
        }
        let parking = self.approvals.parking();
        let Some(place) = parking.place() else {
            // Without a place to park there is only waiting.
            return Turn::Done(self.see_through(underway, false).await);
        };
        underway.answered.cancel();
        let call = parking.park(place, underway.question, underway.call);
        self.hold(call, self.elicits).await
    }

    /// Takes up a call that this client left; nothing where the ticket is not good for it.
    pub(super) async fn resume(
        &self,
        ticket: &str,
        responses: Option<&InputResponses>,
    ) -> Option<Turn> {
        let call = self.approvals.parking().redeem(ticket, self.principal, &self.digest)?;
        let answer = responses.and_then(elicit::input_response).filter(|_| self.elicits);
        if let (Some(answer), Some(pending)) = (answer, self.pending(call.question())) {
            // Somebody else may have been faster; the call knows.
            elicit::pass_on(self.approvals, &pending, answer).await;
        }
        Some(self.hold(call, false).await)
    }

    /// Waits for a parked call for a while, or not at all where its question goes out `at_once`.
    async fn hold(&self, call: Arc<ParkedCall>, at_once: bool) -> Turn {
        if !at_once || self.pending(call.question()).is_none() {
            tokio::select! {
                biased;
                outcome = call.outcome() => return Turn::Done(outcome.unwrap_or_else(|| Err(host_failed()))),
                never = self.report(call.questions()) => match never {},
                () = self.patience(&call) => {}
            }
        }
        let pending = self.pending(call.question()).filter(|_| self.elicits);
        let requests = pending.as_ref().and_then(elicit::input_requests);
        match self.approvals.parking().ticket(call, self.principal, &self.digest) {
            Ok(ticket) => Turn::Waits(InputRequiredResult::new(requests, Some(ticket))),
            Err(error) => Turn::Done(Err(error)),
        }
    }

    /// Ends when the request was held long enough and its call still waits for a person; one that
    /// runs by now has a deadline of its own.
    async fn patience(&self, call: &ParkedCall) {
        loop {
            sleep(Duration::from_millis(APPROVAL_HOLD_MS)).await;
            if self.pending(call.question()).is_some() {
                return;
            }
        }
    }

    /// Asks the client's user about each question of the call.
    async fn ask_user(&self, mut question: watch::Receiver<Option<String>>) -> Infallible {
        loop {
            if let Some(pending) = self.pending(asked(&mut question).await) {
                elicit::ask(self.peer, self.approvals, &pending).await;
            }
            changed(&mut question).await;
        }
    }

    /// Says again and again that the call waits, as long as it does.
    async fn report(&self, mut question: watch::Receiver<Option<String>>) -> Infallible {
        let Some(token) = &self.token else {
            return pending().await;
        };
        let mut progress = 0.0;
        loop {
            let question_id = asked(&mut question).await;
            while self.pending(question_id.clone()).is_some() {
                let report = ProgressNotificationParam::new(token.clone(), progress)
                    .with_message("waiting for approval");
                if self.peer.notify_progress(report).await.is_err() {
                    return pending().await;
                }
                progress += WAITING_STEP;
                sleep(Duration::from_millis(APPROVAL_REPORT_INTERVAL_MS)).await;
            }
            changed(&mut question).await;
        }
    }

    fn pending(&self, question: Option<String>) -> Option<Pending> {
        self.approvals.find(&question?)
    }
}

/// Progress has to grow: of a call that waited, the tool's own counts from here on.
pub(super) const WAITING_ENDS_AT: f64 = 0.001;
/// A person's longest time has fewer reports than would reach the end.
const WAITING_STEP: f64 = 1e-7;

/// Waits until a question was asked and returns its id; never where none will be.
async fn asked(question: &mut watch::Receiver<Option<String>>) -> Option<String> {
    let id = question.wait_for(Option::is_some).await.ok().and_then(|id| id.clone());
    match id {
        Some(id) => Some(id),
        None => pending().await,
    }
}

/// Waits until another question was asked; never where none will be.
async fn changed(question: &mut watch::Receiver<Option<String>>) {
    if question.changed().await.is_err() {
        pending().await
    }
}

#[cfg(test)]
mod tests;
