//! The board of questions: each waits until it is answered, withdrawn or out of time, and gets
//! exactly one end.
//!
//! Taking a question off the board is what decides: whoever takes it ends it. Deliberately absent:
//! whether a call has to be asked about at all (the gate knows), and how an answer arrives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    APPROVAL_REASON_BYTES_MAX, APPROVAL_TIMEOUT_CEILING_MS, APPROVAL_TIMEOUT_MS,
    APPROVALS_PENDING_MAX, APPROVALS_PENDING_PER_PRINCIPAL_MAX,
};
use clawhost_core::policy::ApprovalTerms;
use clawhost_core::truncate;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::leases::{Leased, Leases};
use super::parked::Parking;
use super::question::{Answer, Approved, Approver, How, Lease, Pending, Question};
use super::{Reach, WaitingSink};
use crate::clock::Clock;
use crate::random;
use crate::state::{Database, DatabaseError};

/// All questions of one host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Approvals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    board: Mutex<Board>,
    changes: watch::Sender<u64>,
    leases: Leases,
    reach: Reach,
    parking: Parking,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Board {
    waiting: BTreeMap<String, Waiting>,
    /// Questions so far: several may come in one millisecond.
    posted: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    /// Which question it is, from the first.
    number: u64,
    pending: Pending,
    end: oneshot::Sender<Result<Approved, CallError>>,
}

impl Approvals {
    /// Returns an empty board whose leases are kept in `database`, which has to have
    /// [`MIGRATIONS`](super::MIGRATIONS).
    pub(crate) fn new(database: Database, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            board: Mutex::default(),
            changes: watch::Sender::new(0),
            leases: Leases::new(database),
            reach: Reach::default(),
            parking: Parking::default(),
            clock,
        }))
    }

    /// Returns who can be reached, and takes note of who can.
    pub fn reach(&self) -> &Reach {
        &self.0.reach
    }

    /// Returns the calls whose clients are away while they wait.
    pub fn parking(&self) -> &Parking {
        &self.0.parking
    }

    /// Asks a person and waits for the answer, unless a lease covers the call. `waiting` holds the
    /// question's id while it waits. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// -32012 where nobody answered in time, -32013 where somebody said no or the host stops;
    /// -32011 where nobody can answer at all, or too many questions wait.
    pub async fn ask(
        &self,
        asked: Question,
        waiting: Option<&WaitingSink>,
    ) -> Result<Approved, CallError> {
        if let Some(lease) = self.lease_for(&asked).await {
            let by = format!("lease {} of {}", lease.id, lease.granted_by);
            return Ok(Approved { by, how: How::Lease });
        }
        let asked = Arc::new(asked);
        self.require_reachable(&asked)?;
        let wait = wait(&asked);
        let (id, mut end) = self.post(&asked, wait)?;
        let withdrawn = Withdrawn { approvals: self, id: &id, waiting };
        if let Some(waiting) = waiting {
            waiting.send_modify(|open| open.push(id.clone()));
        }
        match timeout(wait, &mut end).await {
            Ok(end) => ended(&asked, end),
            // Somebody took it at the last moment: their word counts.
            Err(_) if self.take_off(&id).is_none() => ended(&asked, end.await),
            Err(_) => {
                drop(withdrawn);
                silence(&asked, wait)
            }
        }
    }

    /// Answers the question `which`: its id, or the caller's request id where only one question
    /// has it. With `within`, only a question about a call of that principal.
    ///
    /// Returns whether there was such a question, `by` may answer it, and this answer ended it.
    /// Whoever gets `false` has changed nothing.
    pub async fn answer(
        &self,
        which: &str,
        within: Option<&str>,
        answer: Answer,
        by: &Approver,
    ) -> bool {
        let Some(waiting) = self.take(which, within, by) else {
            return false;
        };
        // It is off the board, so it has to end, even where whoever answers does not wait for that.
        let (board, by) = (self.clone(), by.clone());
        tokio::spawn(async move { board.end(waiting, answer, &by).await }).await.unwrap_or(false)
    }

    async fn end(&self, waiting: Waiting, answer: Answer, by: &Approver) -> bool {
        let asked = &waiting.pending.asked;
        if waiting.end.is_closed() {
            return false;
        }
        let mut is_leased = false;
        let end = match answer {
            Answer::Approve { lease } => {
                if let Some(lease) = lease.filter(|_| may_lease(by)) {
                    is_leased = self.grant(asked, lease, by).await;
                }
                Ok(Approved { by: by.to_string(), how: How::Operator })
            }
            Answer::Deny { reason } => {
                let reason = reason.as_deref();
                let reason = reason.map(|text| truncate::text(text, APPROVAL_REASON_BYTES_MAX));
                Err(asked.denied(reason).with_internal(format!("denied by {by}")))
            }
        };
        // Whoever called may have gone meanwhile; a lease is there all the same.
        waiting.end.send(end).is_ok() || is_leased
    }

    /// Returns the questions that wait, oldest first.
    pub fn pending(&self) -> Vec<Pending> {
        let board = self.0.board.lock();
        let mut waiting: Vec<_> = board.waiting.values().collect();
        waiting.sort_by_key(|waiting| waiting.number);
        waiting.into_iter().map(|waiting| waiting.pending.clone()).collect()
    }

    /// Returns the questions that `which` names: one with that id, or all with that request id of
    /// their callers.
    pub fn named(&self, which: &str) -> Vec<Pending> {
        let by_id = self.find(which).map(|pending| vec![pending]);
        by_id.unwrap_or_else(|| {
            let mut named = self.pending();
            named.retain(|pending| pending.asked.request_id.as_deref() == Some(which));
            named
        })
    }

    /// Returns the question `id`, while it waits.
    pub fn find(&self, id: &str) -> Option<Pending> {
        self.0.board.lock().waiting.get(id).map(|waiting| waiting.pending.clone())
    }

    /// Returns a receiver that changes whenever a question or a lease comes or goes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns every lease in force, oldest first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn leases(&self) -> Result<Vec<Leased>, DatabaseError> {
        self.0.leases.list(self.0.clock.now_ms()).await
    }

    /// Ends a lease; says whether there was one.
    ///
    /// # Errors
    /// [`DatabaseError`]: it may still be in force.
    pub async fn revoke(&self, id: &str) -> Result<bool, DatabaseError> {
        let was_there = self.0.leases.revoke(id).await?;
        self.changed();
        Ok(was_there)
    }

    /// Denies every question that waits, and every later one: the host stops.
    pub fn close(&self) {
        let waiting = {
            let mut board = self.0.board.lock();
            board.closed = true;
            std::mem::take(&mut board.waiting)
        };
        self.deny(waiting.into_values(), STOPPING);
    }

    /// Denies every question about a call of `principal`: its client has gone.
    pub fn leave(&self, principal: &str) {
        let theirs =
            |_: &String, waiting: &mut Waiting| waiting.pending.asked.principal == principal;
        let waiting: Vec<_> = self.0.board.lock().waiting.extract_if(.., theirs).collect();
        self.deny(waiting.into_iter().map(|(_, waiting)| waiting), GONE);
    }

    fn deny(&self, questions: impl Iterator<Item = Waiting>, reason: &str) {
        for waiting in questions {
            // Who does not wait any more needs no answer.
            let _ = waiting.end.send(Err(waiting.pending.asked.denied(Some(reason))));
        }
        self.changed();
    }

    /// Says whether a lease covers the call, so that nobody is asked about it.
    pub(crate) async fn is_leased(&self, asked: &Question) -> bool {
        self.lease_for(asked).await.is_some()
    }

    /// A store that does not answer covers nothing: a person is asked.
    async fn lease_for(&self, asked: &Question) -> Option<Leased> {
        let found = self.0.leases.find(asked, self.0.clock.now_ms()).await;
        found
            .inspect_err(|error| tracing::warn!(%error, "leases cannot be read: a person is asked"))
            .ok()
            .flatten()
    }

    /// The call at hand is approved in any case; only the later ones are asked about again where this says that there
    /// is no lease.
    async fn grant(&self, asked: &Question, lease: Lease, by: &Approver) -> bool {
        let now = self.0.clock.now_ms();
        let granted = async {
            let id = random::uuid().map_err(|error| error.to_string())?;
            self.0.leases.grant(id, asked, lease, by.to_string(), now).await
        };
        let granted = granted.await.inspect_err(|error| {
            tracing::warn!(%error, tool = asked.tool, "the call is approved, without its lease");
        });
        self.changed();
        granted.is_ok()
    }

    /// Says whether a question about a call of `principal` may end well: somebody can be asked, or silence allows,
    /// where waiting in vain is what the rule's author wants.
    pub(crate) fn may_allow(&self, principal: &str, terms: ApprovalTerms) -> bool {
        terms.allow_on_timeout || self.0.reach.reaches(principal)
    }

    fn require_reachable(&self, asked: &Question) -> Result<(), CallError> {
        if self.may_allow(&asked.principal, asked.terms) {
            return Ok(());
        }
        let text = format!("{}, and nobody can be asked here", asked.reason);
        Err(asked.refused(ErrorKind::Policy, text))
    }

    /// Puts a question on the board, within the bounds.
    fn post(&self, asked: &Arc<Question>, wait: Duration) -> Result<(String, End), CallError> {
        let id = random::uuid()?;
        let pending = Pending::new(id.clone(), Arc::clone(asked), self.0.clock.now_ms(), wait);
        let (end, receiver) = oneshot::channel();
        {
            let mut board = self.0.board.lock();
            board.has_room_for(asked)?;
            board.posted += 1;
            let waiting = Waiting { number: board.posted, pending, end };
            board.waiting.insert(id.clone(), waiting);
        }
        self.changed();
        Ok((id, receiver))
    }

    fn take(&self, which: &str, within: Option<&str>, by: &Approver) -> Option<Waiting> {
        let taken = {
            let mut board = self.0.board.lock();
            let waiting = board.named(which, within)?;
            if !self.may_answer(by, &waiting.pending) {
                return None;
            }
            let id = waiting.pending.id.clone();
            board.waiting.remove(&id)
        };
        self.changed();
        taken
    }

    fn may_answer(&self, by: &Approver, pending: &Pending) -> bool {
        match by {
            Approver::Operator | Approver::Terminal => true,
            Approver::Elicited { agent } => {
                *agent == pending.asked.principal && self.0.reach.may_elicit(agent)
            }
        }
    }

    fn take_off(&self, id: &str) -> Option<Waiting> {
        let taken = self.0.board.lock().waiting.remove(id);
        if taken.is_some() {
            self.changed();
        }
        taken
    }

    fn changed(&self) {
        self.0.changes.send_modify(|version| *version = version.wrapping_add(1));
    }
}

type End = oneshot::Receiver<Result<Approved, CallError>>;

/// What the callers of a stopping host read.
const STOPPING: &str = "the host is stopping";
/// What nobody reads, but the record says.
const GONE: &str = "the client that called has gone";

impl Board {
    fn has_room_for(&self, asked: &Question) -> Result<(), CallError> {
        if self.closed {
            return Err(asked.denied(Some(STOPPING)));
        }
        if self.waiting.len() >= APPROVALS_PENDING_MAX {
            return Err(full(asked, Limit::ApprovalsPending));
        }
        let same = |waiting: &&Waiting| waiting.pending.asked.principal == asked.principal;
        if self.waiting.values().filter(same).count() >= APPROVALS_PENDING_PER_PRINCIPAL_MAX {
            return Err(full(asked, Limit::ApprovalsPendingPerPrincipal));
        }
        Ok(())
    }

    /// Returns the one question that is meant. Two principals may use the same request id, so an
    /// ambiguous one means none.
    fn named(&self, which: &str, within: Option<&str>) -> Option<&Waiting> {
        let allowed =
            |waiting: &&Waiting| within.is_none_or(|name| waiting.pending.asked.principal == name);
        if let Some(waiting) = self.waiting.get(which) {
            return Some(waiting).filter(allowed);
        }
        let mut meant = self
            .waiting
            .values()
            .filter(allowed)
            .filter(|waiting| waiting.pending.asked.request_id.as_deref() == Some(which));
        let first = meant.next()?;
        meant.next().is_none().then_some(first)
    }
}

/// Takes a question off the board when nobody waits for its answer any more.
struct Withdrawn<'a> {
    approvals: &'a Approvals,
    id: &'a str,
    waiting: Option<&'a WaitingSink>,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.approvals.take_off(self.id);
        if let Some(waiting) = self.waiting {
            waiting.send_modify(|open| open.retain(|id| id != self.id));
        }
    }
}

fn ended(
    asked: &Question,
    end: Result<Result<Approved, CallError>, oneshot::error::RecvError>,
) -> Result<Approved, CallError> {
    // An answer that was lost on its way is none.
    end.unwrap_or_else(|_| Err(asked.denied(Some("the answer was withdrawn"))))
}

fn silence(asked: &Question, waited: Duration) -> Result<Approved, CallError> {
    if !asked.terms.allow_on_timeout {
        return Err(asked.unanswered(waited));
    }
    tracing::warn!(
        tool = asked.tool,
        principal = asked.principal,
        rule = asked.rule.as_ref().map(tracing::field::display),
        "nobody answered in time: the rule lets the call run all the same"
    );
    Ok(Approved { by: "nobody".to_owned(), how: How::Silence })
}

fn wait(asked: &Question) -> Duration {
    let wait = asked.terms.timeout.unwrap_or(Duration::from_millis(APPROVAL_TIMEOUT_MS));
    wait.min(Duration::from_millis(APPROVAL_TIMEOUT_CEILING_MS))
}

/// A caller's own client may say yes to one call, never to those that come later.
fn may_lease(by: &Approver) -> bool {
    !matches!(by, Approver::Elicited { .. })
}

fn full(asked: &Question, limit: Limit) -> CallError {
    let text = "too many calls wait for a person; try again later";
    asked.refused(ErrorKind::Overloaded, text).with_limit(limit)
}
