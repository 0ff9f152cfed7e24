//! Calls whose client is away: it was told to come back for the answer.
//!
//! The stateless revision of MCP has no request to a client, so a call that waits for a person
//! goes on in a task of its own while its client holds a ticket: random, for one use, worth
//! something only to the principal and the call it was given for. What a ticket stands for stays
//! here, so there is nothing in it to tamper with. Deliberately absent: what a ticket looks like
//! on the wire.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::limits::{
    APPROVALS_PARKED_BYTES_MAX, APPROVALS_PARKED_MAX, APPROVALS_PARKED_SHORT_BYTES_MAX,
    PARKED_KEPT_MS,
};
use clawhost_core::reply::ToolReply;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::OpenQuestions;
use crate::dialogue::{Asking, ServerQuestion};
use crate::random;

/// Random bytes of a ticket's name.
const TICKET_BYTES: usize = 32;

/// What a call comes to.
type Outcome = Result<ToolReply, CallError>;

/// The calls that are parked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Parking {
    tickets: Arc<Mutex<HashMap<String, Ticket>>>,
    places: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// A place for one parked call, and what its arguments, where they are long, take of the room for those of all.
#[derive(Debug)]
pub struct ParkingPlace {
    _one: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

/// What a ticket stands for.
#[derive(Debug)]
struct Ticket {
    principal: String,
    digest: String,
    call: Arc<ParkedCall>,
    posed: Option<Posed>,
    _forget: AbortOnDropHandle<()>,
}

/// What went out with a ticket, which is all that whoever brings it back can answer: by then the call may ask
/// something else, that nobody was shown.
#[derive(Debug, Clone)]
pub enum Posed {
    /// The question of this id, whether the call may run.
    Approval(String),
    /// What its server asks.
    ByServer(Arc<ServerQuestion>),
}

/// A call that goes on by itself. Dropping the last handle to one that still runs ends it: nobody
/// could come back for it.
#[derive(Debug)]
pub struct ParkedCall {
    outcome: watch::Receiver<Option<Outcome>>,
    questions: OpenQuestions,
    asks: Option<Asking>,
    _task: AbortOnDropHandle<()>,
    // Held until the answer is fetched, as answers take room too.
    _place: ParkingPlace,
}

impl ParkedCall {
    /// Returns what the call came to; nothing where its task is gone without a word.
    pub async fn outcome(&self) -> Option<Outcome> {
        let mut outcome = self.outcome.clone();
        outcome.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Returns a receiver of what its server asks the client.
    pub fn asks(&self) -> Option<Asking> {
        self.asks.clone()
    }

    /// Returns what its server asks the client and has no answer to yet.
    pub fn asked(&self) -> Option<Arc<ServerQuestion>> {
        self.asks.as_ref()?.borrow().clone().filter(|asked| asked.is_open())
    }

    /// Returns a receiver of the ids of the questions on which the call waits.
    pub fn questions(&self) -> OpenQuestions {
        self.questions.clone()
    }
}

impl Default for Parking {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(APPROVALS_PARKED_MAX));
        let bytes = Arc::new(Semaphore::new(APPROVALS_PARKED_BYTES_MAX));
        Self { tickets: Arc::default(), places, bytes }
    }
}

impl Parking {
    /// Returns a place for one parked call whose arguments have so many `bytes`, where there is room for it. Short
    /// ones take none of the bytes, so that long ones of others are not in their way.
    pub fn place(&self, bytes: usize) -> Option<ParkingPlace> {
        let one = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let long = if bytes > APPROVALS_PARKED_SHORT_BYTES_MAX { bytes } else { 0 };
        let long = u32::try_from(long).ok()?;
        let long = Arc::clone(&self.bytes).try_acquire_many_owned(long).ok()?;
        Some(ParkingPlace { _one: one, _bytes: long })
    }

    /// Lets `call` go on in a task of its own; `questions` holds the ids of those on which it waits, and
    /// `asks` what its server asks the client.
    pub fn park(
        &self,
        place: ParkingPlace,
        (questions, asks): (OpenQuestions, Option<Asking>),
        call: impl Future<Output = Outcome> + Send + 'static,
    ) -> Arc<ParkedCall> {
        let (sender, outcome) = watch::channel(None);
        let task = tokio::spawn(async move {
            sender.send_replace(Some(call.await));
        });
        let task = AbortOnDropHandle::new(task);
        Arc::new(ParkedCall { outcome, questions, asks, _task: task, _place: place })
    }

    /// Returns a new ticket for `call`, which is `principal`'s and has this digest; `posed` goes out with it.
    ///
    /// # Errors
    /// -32603 where the system has no random numbers.
    pub fn ticket(
        &self,
        call: Arc<ParkedCall>,
        posed: Option<Posed>,
        principal: &str,
        digest: &str,
    ) -> Result<String, CallError> {
        let name = random::hex::<TICKET_BYTES>()?;
        let forget = tokio::spawn(self.clone().forget(name.clone(), call.outcome.clone()));
        let (principal, digest) = (principal.to_owned(), digest.to_owned());
        let forget = AbortOnDropHandle::new(forget);
        let ticket = Ticket { principal, digest, call, posed, _forget: forget };
        self.tickets.lock().insert(name.clone(), ticket);
        Ok(name)
    }

    /// Takes a ticket back and returns its call, and what went out with it. Whoever shows one that is not
    /// theirs, or for another call, gets nothing, and the ticket stays good for its owner.
    pub fn redeem(
        &self,
        name: &str,
        principal: &str,
        digest: &str,
    ) -> Option<(Arc<ParkedCall>, Option<Posed>)> {
        let mut tickets = self.tickets.lock();
        let ticket = tickets.get(name)?;
        if ticket.principal != principal || ticket.digest != digest {
            return None;
        }
        tickets.remove(name).map(|ticket| (ticket.call, ticket.posed))
    }

    /// Keeps the answer for a while; then whoever left it here does not come back.
    async fn forget(self, name: String, mut outcome: watch::Receiver<Option<Outcome>>) {
        // An error means that the call is gone, and its ticket with it.
        let _ = outcome.wait_for(Option::is_some).await;
        drop(outcome);
        sleep(Duration::from_millis(PARKED_KEPT_MS)).await;
        self.tickets.lock().remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn parked(parking: &Parking) -> (Arc<ParkedCall>, oneshot::Sender<()>) {
        let (release, released) = oneshot::channel::<()>();
        let call = async move {
            let _ = released.await;
            Ok(ToolReply::error("done", "done"))
        };
        let (_, questions) = watch::channel(Vec::new());
        (parking.park(parking.place(0).unwrap(), (questions, None), call), release)
    }

    #[tokio::test]
    async fn a_ticket_is_for_one_use_by_its_owner_for_its_call() {
        let parking = Parking::default();
        let (call, release) = parked(&parking);
        let posed = Some(Posed::Approval("q".to_owned()));
        let ticket = parking.ticket(call, posed, "a", "d").unwrap();
        for (name, principal, digest) in
            [("x", "a", "d"), (ticket.as_str(), "b", "d"), (ticket.as_str(), "a", "e")]
        {
            assert!(parking.redeem(name, principal, digest).is_none());
        }
        let (call, posed) = parking.redeem(&ticket, "a", "d").unwrap();
        assert!(matches!(posed, Some(Posed::Approval(id)) if id == "q"));
        assert!(parking.redeem(&ticket, "a", "d").is_none(), "used twice");
        let again = parking.ticket(Arc::clone(&call), None, "a", "d").unwrap();
        assert_ne!(again, ticket);
        release.send(()).unwrap();
        assert_eq!(call.outcome().await, Some(Ok(ToolReply::error("done", "done"))));
    }

    #[tokio::test]
    async fn a_call_that_nobody_can_come_back_for_ends() {
        let parking = Parking::default();
        let (call, mut release) = parked(&parking);
        drop(call);
        release.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_fetches_is_kept_for_a_while() {
        let parking = Parking::default();
        let (call, release) = parked(&parking);
        let _ticket = parking.ticket(Arc::clone(&call), None, "a", "d").unwrap();
        release.send(()).unwrap();
        call.outcome().await;
        sleep(Duration::from_millis(PARKED_KEPT_MS / 2)).await;
        assert_eq!(parking.tickets.lock().len(), 1);
        sleep(Duration::from_millis(PARKED_KEPT_MS)).await;
        assert!(parking.tickets.lock().is_empty());
    }

    #[tokio::test]
    async fn a_ticket_that_came_back_leaves_nothing_behind() {
        let parking = Parking::default();
        let (call, _release) = parked(&parking);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..9 {
            let ticket = parking.ticket(Arc::clone(&call), None, "a", "d").unwrap();
            parking.redeem(&ticket, "a", "d").unwrap();
        }
        let gone = async {
            while tasks() > before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    }

    #[tokio::test]
    async fn places_are_bounded_and_come_back() {
        let parking = Parking::default();
        let places: Vec<_> = std::iter::from_fn(|| parking.place(0)).collect();
        assert_eq!(places.len(), APPROVALS_PARKED_MAX);
        drop(places);
        let half = APPROVALS_PARKED_BYTES_MAX / 2;
        let long: Vec<_> = std::iter::from_fn(|| parking.place(half)).collect();
        assert_eq!(long.len(), 2);
        assert!(parking.place(APPROVALS_PARKED_SHORT_BYTES_MAX + 1).is_none());
        assert!(parking.place(APPROVALS_PARKED_SHORT_BYTES_MAX).is_some());
        drop(long);
        assert!(parking.place(half).is_some());
    }
}
