//! A `tools/call` whose call waits for a person.
//!
//! In the older revisions the request stays open until the call has ended, and where the operator
//! allowed it the client's own user is asked meanwhile. The stateless revision has no request to a
//! client: there the call is parked, and the answer `input_required` carries a ticket to it, and
//! the question where the client's user may be asked and can be shown all of it. Who is asked
//! nothing holds the request for
//! [`APPROVAL_HOLD_MS`] before such an answer, so that coming back is no busy wait. A client that
//! gave a progress token hears that its call waits. What a bridged server asks the client goes the same
//! two ways. One call may make others, so several may ask at once: each question is shown, and what comes back
//! answers the one that went out with the ticket, never another. Deliberately absent: deciding anything.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::limits::{APPROVAL_HOLD_MS, APPROVAL_REPORT_INTERVAL_MS};
use clawhost_core::reply::ToolReply;
use rmcp::RoleServer;
use rmcp::model::{InputRequests, InputRequiredResult, InputResponses};
use rmcp::service::Peer;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::calls::host_failed;
use super::progress::Told;
use super::{elicit, questions};
use crate::approvals::{Approvals, OpenQuestions, ParkedCall, Pending, Posed};
use crate::dialogue::{Asking, ServerQuestion};

pub(super) type Outcome = Result<ToolReply, CallError>;

pub(super) enum Turn {
    /// The call has ended.
    Done(Outcome),
    /// The client has to come back.
    Waits(InputRequiredResult),
}

pub(super) struct OpenCall {
    pub(super) call: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// The ids of the questions on which it waits.
    pub(super) questions: OpenQuestions,
    /// What its server asks the client, where that can be asked anything.
    pub(super) asks: Option<Asking>,
    /// Cancelled when the request that began it is answered: it reports no more progress.
    pub(super) answered: CancellationToken,
    /// So many its arguments have.
    pub(super) bytes: usize,
}

/// The client of one request.
pub(super) struct Client<'a> {
    /// Where its call waits.
    pub(super) approvals: &'a Approvals,
    pub(super) principal: &'a str,
    pub(super) peer: &'a Peer<RoleServer>,
    /// It speaks an older revision, in which it is asked while its request is open.
    pub(super) is_older: bool,
    /// What it was told of the call's progress, where it wants to hear of it.
    pub(super) told: Option<Arc<Told>>,
    /// Whether its user may be asked, and it can ask.
    pub(super) elicits: bool,
}

impl Client<'_> {
    /// Waits for the call to end. A client of an older revision is asked meanwhile.
    pub(super) async fn see_through(&self, mut underway: OpenCall) -> Outcome {
        let questions = underway.questions;
        tokio::select! {
            biased;
            outcome = &mut underway.call => outcome,
            never = self.report(questions.clone()) => match never {},
            never = self.ask_user(questions), if self.is_older && self.elicits => match never {},
            never = self.ask_for_server(underway.asks) => match never {},
        }
    }

    /// Waits for the call to end or to ask, as the stateless revision has it. Its tool and arguments have
    /// this `digest`.
    pub(super) async fn begin(&self, mut underway: OpenCall, digest: &str) -> Turn {
        let (mut questions, mut asks) = (underway.questions.clone(), underway.asks.clone());
        tokio::select! {
            biased;
            outcome = &mut underway.call => return Turn::Done(outcome),
            _ = self.question(&mut questions, &[]) => {}
            _ = open(&mut asks) => {}
        }
        let parking = self.approvals.parking();
        let Some(place) = parking.place(underway.bytes) else {
            // Without a place to park there is only waiting.
            return Turn::Done(self.see_through(underway).await);
        };
        underway.answered.cancel();
        let call = parking.park(place, (underway.questions, underway.asks), underway.call);
        self.hold(call, digest, self.elicits).await
    }

    /// Takes up a call that this client left; nothing where the ticket is not good for it and that `digest`.
    pub(super) async fn resume(
        &self,
        (ticket, digest): (&str, &str),
        responses: Option<&InputResponses>,
    ) -> Option<Turn> {
        let (call, posed) = self.approvals.parking().redeem(ticket, self.principal, digest)?;
        let is_answered = match (posed, responses) {
            (Some(posed), Some(responses)) => self.answer(posed, responses).await,
            // What nobody was shown has no answer.
            _ => false,
        };
        Some(self.hold(call, digest, is_answered).await)
    }

    /// Answers what the client was shown, whatever its call asks by now. Says whether that waits no more.
    async fn answer(&self, posed: Posed, responses: &InputResponses) -> bool {
        let id = match posed {
            Posed::Approval(id) => id,
            Posed::ByServer(asked) => {
                asked.answer(serde_json::to_value(responses).ok());
                return true;
            }
        };
        // Somebody else may have been faster.
        let Some(pending) = self.approvals.find(&id) else { return true };
        match elicit::input_response(responses).filter(|_| self.elicits) {
            Some(answer) => elicit::pass_on(self.approvals, &pending, answer).await,
            None => false,
        }
    }

    /// Waits for a parked call for a while, or not at all where a question of its own goes out `at_once`.
    async fn hold(&self, call: Arc<ParkedCall>, digest: &str, at_once: bool) -> Turn {
        let (questions, mut asks) = (call.questions(), call.asks());
        if !at_once || self.form(&questions).is_none() {
            tokio::select! {
                biased;
                outcome = call.outcome() => return Turn::Done(outcome.unwrap_or_else(|| Err(host_failed()))),
                never = self.report(questions.clone()) => match never {},
                () = self.patience(&questions) => {}
                _ = open(&mut asks) => {}
            }
        }
        let (requests, posed) = self.pose(&call);
        match self.approvals.parking().ticket(call, posed, self.principal, digest) {
            Ok(ticket) => Turn::Waits(InputRequiredResult::new(requests, Some(ticket))),
            Err(error) => Turn::Done(Err(error)),
        }
    }

    /// Returns what the client is shown of what its call asks, and by what that is known when it comes back.
    fn pose(&self, call: &ParkedCall) -> (Option<InputRequests>, Option<Posed>) {
        if let Some(asked) = call.asked() {
            let Some(requests) = questions::input_requests(&asked) else {
                // What no client could read has no answer.
                asked.answer(None);
                return (None, None);
            };
            return (Some(requests), Some(Posed::ByServer(asked)));
        }
        self.form(&call.questions()).unzip()
    }

    /// Returns the oldest question that the client's user can be shown.
    fn form(&self, questions: &OpenQuestions) -> Option<(InputRequests, Posed)> {
        if !self.elicits {
            return None;
        }
        let open = questions.borrow();
        let mut pending = open.iter().filter_map(|id| self.approvals.find(id));
        pending.find_map(|it| Some((elicit::input_requests(&it)?, Posed::Approval(it.id))))
    }

    /// Ends when the request was held long enough and its call still waits for a person; one that
    /// runs by now has a deadline of its own.
    async fn patience(&self, questions: &OpenQuestions) {
        loop {
            sleep(Duration::from_millis(APPROVAL_HOLD_MS)).await;
            if questions.borrow().iter().any(|id| self.approvals.find(id).is_some()) {
                return;
            }
        }
    }

    /// Asks the client's user about each question of the call, one after the other.
    async fn ask_user(&self, mut questions: OpenQuestions) -> Infallible {
        let mut asked: Vec<String> = Vec::new();
        loop {
            let pending = self.question(&mut questions, &asked).await;
            tokio::select! {
                () = elicit::ask(self.peer, self.approvals, &pending) => {}
                // Somebody else was faster: the next one does not wait for this form.
                () = ended(&mut questions, &pending.id) => {}
            }
            asked.push(pending.id);
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
    async fn report(&self, mut questions: OpenQuestions) -> Infallible {
        let Some(told) = &self.told else {
            return pending().await;
        };
        loop {
            self.question(&mut questions, &[]).await;
            if !told.wait("waiting for approval").await {
                return pending().await;
            }
            sleep(Duration::from_millis(APPROVAL_REPORT_INTERVAL_MS)).await;
        }
    }

    /// Waits until the call waits on a question that is none of `known`, and returns the oldest of these;
    /// never where there will be none.
    async fn question(&self, questions: &mut OpenQuestions, known: &[String]) -> Pending {
        loop {
            let open = questions.borrow_and_update().clone();
            let mut new = open.iter().filter(|id| !known.contains(id));
            if let Some(pending) = new.find_map(|id| self.approvals.find(id)) {
                return pending;
            }
            if questions.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}

/// Waits until a server asks something that is not answered yet, and returns it; never where none will.
pub(super) async fn open(asks: &mut Option<Asking>) -> Arc<ServerQuestion> {
    let is_open =
        |asked: &Option<Arc<ServerQuestion>>| asked.as_ref().is_some_and(|it| it.is_open());
    let asked = match asks {
        Some(asks) => asks.wait_for(is_open).await.ok().and_then(|asked| asked.clone()),
        None => None,
    };
    match asked {
        Some(asked) => asked,
        None => pending().await,
    }
}

/// Waits until a call no longer waits on the question `id`.
async fn ended(questions: &mut OpenQuestions, id: &str) {
    // Where the call has ended, so have its questions.
    let _ = questions.wait_for(|open| open.iter().all(|other| other != id)).await;
}

#[cfg(test)]
mod tests;
