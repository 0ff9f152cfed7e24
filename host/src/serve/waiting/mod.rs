//! A `tools/call` whose call waits for a person.
//!
//! In the older revisions the request stays open until the call has ended, and where the operator
//! allowed it the client's own user is asked meanwhile. The stateless revision has no request to a
//! client: there the call is parked, and the answer `input_required` carries a ticket to it, and
//! the question where the client's user may be asked. Who may not be asked holds the request for
//! [`APPROVAL_HOLD_MS`] before such an answer, so that coming back is no busy wait. A client that
//! gave a progress token hears that its call waits. What a bridged server asks the client goes the same
//! two ways. Deliberately absent: deciding anything.

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
use super::{elicit, questions};
use crate::approvals::{Approvals, ParkedCall, Pending};
use crate::dialogue::{Asked, Asking};

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
    /// What its server asks the client, where that can be asked anything.
    pub(super) asks: Option<Asking>,
    /// Cancelled when the request that began it is answered: it reports no more progress.
    pub(super) answered: CancellationToken,
}

/// The client of one request.
pub(super) struct Client<'a> {
    /// Where its call waits.
    pub(super) approvals: &'a Approvals,
    /// Whose call it is.
    pub(super) principal: &'a str,
    /// The way to it.
    pub(super) peer: &'a Peer<RoleServer>,
    /// It speaks an older revision, in which it is asked while its request is open.
    pub(super) is_older: bool,
    /// Under which it wants to hear of progress.
    pub(super) token: Option<ProgressToken>,
    /// Whether its user may be asked, and it can ask.
    pub(super) elicits: bool,
}

impl Client<'_> {
    /// Waits for the call to end. A client of an older revision is asked meanwhile.
    pub(super) async fn see_through(&self, mut underway: Underway) -> Outcome {
        let question = underway.question;
        tokio::select! {
            biased;
            outcome = &mut underway.call => outcome,
            never = self.report(question.clone()) => match never {},
            never = self.ask_user(question), if self.is_older && self.elicits => match never {},
            never = self.ask_for_server(underway.asks) => match never {},
        }
    }

    /// Waits for the call to end or to ask, as the stateless revision has it. Its tool and arguments have
    /// this `digest`.
    pub(super) async fn begin(&self, mut underway: Underway, digest: &str) -> Turn {
        let (mut question, mut asks) = (underway.question.clone(), underway.asks.clone());
        tokio::select! {
            biased;
            outcome = &mut underway.call => return Turn::Done(outcome),
            _ = asked(&mut question) => {}
            _ = open(&mut asks) => {}
        }
        let parking = self.approvals.parking();
        let Some(place) = parking.place() else {
            // Without a place to park there is only waiting.
            return Turn::Done(self.see_through(underway).await);
        };
        underway.answered.cancel();
        let call = parking.park(place, (underway.question, underway.asks), underway.call);
        self.hold(call, digest, self.elicits).await
    }

    /// Takes up a call that this client left; nothing where the ticket is not good for it and that `digest`.
    pub(super) async fn resume(
        &self,
        (ticket, digest): (&str, &str),
        responses: Option<&InputResponses>,
    ) -> Option<Turn> {
        let call = self.approvals.parking().redeem(ticket, self.principal, digest)?;
        if let (Some(asked), Some(responses)) = (call.asked(), responses) {
            asked.answer(serde_json::to_value(responses).ok());
        }
        let answer = responses.and_then(elicit::input_response).filter(|_| self.elicits);
        if let (Some(answer), Some(pending)) = (answer, self.pending(call.question())) {
            // Somebody else may have been faster; the call knows.
            elicit::pass_on(self.approvals, &pending, answer).await;
        }
        Some(self.hold(call, digest, false).await)
    }

    /// Waits for a parked call for a while, or not at all where its question goes out `at_once`.
    async fn hold(&self, call: Arc<ParkedCall>, digest: &str, at_once: bool) -> Turn {
        let mut asks = call.asks();
        if !at_once || self.pending(call.question()).is_none() {
            tokio::select! {
                biased;
                outcome = call.outcome() => return Turn::Done(outcome.unwrap_or_else(|| Err(host_failed()))),
                never = self.report(call.questions()) => match never {},
                () = self.patience(&call) => {}
                _ = open(&mut asks) => {}
            }
        }
        let pending = self.pending(call.question()).filter(|_| self.elicits);
        let requests = match call.asked() {
            Some(asked) => {
                let requests = questions::input_requests(&asked);
                if requests.is_none() {
                    // What no client could read has no answer.
                    asked.answer(None);
                }
                requests
            }
            None => pending.as_ref().and_then(elicit::input_requests),
        };
        match self.approvals.parking().ticket(call, self.principal, digest) {
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

    /// Asks the client of an older revision what the server of its call asks; another has no answer here.
    async fn ask_for_server(&self, mut asks: Option<Asking>) -> Infallible {
        loop {
            let asked = open(&mut asks).await;
            let answers = match self.is_older {
                true => questions::answers(self.peer, &asked).await,
                false => None,
            };
            asked.answer(answers);
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

/// Waits until a server asks something that is not answered yet, and returns it; never where none will.
pub(super) async fn open(asks: &mut Option<Asking>) -> Arc<Asked> {
    let is_open = |asked: &Option<Arc<Asked>>| asked.as_ref().is_some_and(|it| it.is_open());
    let asked = match asks {
        Some(asks) => asks.wait_for(is_open).await.ok().and_then(|asked| asked.clone()),
        None => None,
    };
    match asked {
        Some(asked) => asked,
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
