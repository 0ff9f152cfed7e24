//! Swarms: agents that give each other work, with this host between them.
//!
//! An agent takes part by connecting: who has a [`Subscription`] gets tasks, reports and messages.
//! A task waits until an agent that may take it is ready, and stays with the one that took it,
//! also where that one is disconnected and comes back. Tasks live as long as the host does.
//! Deliberately absent: starting agents, other hosts, and combining results: whoever gave a task
//! gets each report.

mod board;
mod post;
mod routes;
mod task;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{SWARM_LOOK_MS, SWARM_NAME_BYTES_MAX, SWARM_VALUE_BYTES_MAX};
use clawhost_core::manifest::SwarmPlan;
use clawhost_core::truncate;
use clawhost_core::uri::{ClawUri, Kind, LocalUri};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use self::board::{Board, Now};
use self::post::Post;
pub use self::task::{KeptValue, Peer, PeerStatus, Report, Status, SwarmEvent, Task};
use crate::clock::Clock;
use crate::telemetry::{Event, Telemetry};

/// The swarms of a host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Swarm(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The identity that the host itself runs.
    own: String,
    state: Mutex<State>,
    telemetry: Telemetry,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    boards: Vec<Board>,
    post: Post,
}

impl Swarm {
    /// Returns the swarms of `plans`; `own` is the identity the host itself runs. Where tasks have
    /// a time limit, they are looked after on the runtime of the caller.
    pub(crate) fn new(
        plans: Vec<SwarmPlan>,
        own: &str,
        telemetry: Telemetry,
        clock: Clock,
    ) -> Self {
        let timed = plans.iter().any(|plan| plan.duration_max.is_some());
        let boards = plans.into_iter().map(Board::new).collect();
        let state = Mutex::new(State { boards, post: Post::default() });
        let swarm = Self(Arc::new(Shared { own: own.to_owned(), state, telemetry, clock }));
        if timed {
            tokio::spawn(look_after(Arc::downgrade(&swarm.0)));
        }
        swarm
    }

    /// Takes `task` from the agent `from`. It is acknowledged once it waits or runs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArguments`] for a swarm that does not exist, a task that has not ended
    /// and values that are too large, [`ErrorKind::PeerUnreachable`] where no agent may ever take
    /// it or too many tasks wait, [`ErrorKind::Overloaded`] where the swarm's tokens are spent.
    pub fn delegate(&self, from: &str, task: Task) -> Result<(), CallError> {
        let (swarm, id) = (short(&task.swarm), short(&task.task_id));
        let outcome = self.take_task(from, task);
        self.emit("delegate", from, (swarm, Some(id)), outcome_name(&outcome));
        outcome
    }

    fn take_task(&self, from: &str, task: Task) -> Result<(), CallError> {
        check_name("task_id", &task.task_id)?;
        check_size("description", task.description.len())?;
        check_size("input", task.input.as_ref().map_or(0, KeptValue::bytes))?;
        let mut state = self.0.state.lock();
        // A report names its task only: it has to be clear which of all swarms' it is.
        if state.boards.iter().any(|board| board.has(&task.task_id)) {
            let text = "a task of this id has not ended yet";
            return Err(CallError::new(ErrorKind::InvalidArguments, text)
                .with("task_id", task.task_id.as_str()));
        }
        let State { boards, post } = &mut *state;
        let now = Now { ms: self.0.clock.now_ms(), post };
        find(boards, &task.swarm)?.delegate(from, task, now)?;
        state.deliver();
        Ok(())
    }

    /// Takes a report about a task, from the one who has it or gave it. Says whether there is such
    /// a task.
    ///
    /// # Errors
    /// Values that are too large.
    pub fn report(&self, from: &str, report: Report) -> Result<bool, CallError> {
        check_size("result", report.result.bytes())?;
        let (id, status) = (report.task_id.clone(), report.status.name());
        let mut state = self.0.state.lock();
        let State { boards, post } = &mut *state;
        let Some(board) = boards.iter_mut().find(|board| board.has(&id)) else {
            return Ok(false);
        };
        let name = board.plan().name.clone();
        let known = board.report(from, report, Now { ms: self.0.clock.now_ms(), post });
        state.deliver();
        drop(state);
        if known {
            self.emit("report", from, (name, Some(id)), status);
        }
        Ok(known)
    }

    /// Tells `message` to every member of `swarm` that is connected, but for the sender.
    ///
    /// # Errors
    /// A swarm that does not exist, a message that is too large.
    pub fn broadcast(&self, from: &str, swarm: &str, message: &Value) -> Result<(), CallError> {
        let message = KeptValue::from(message);
        check_size("message", message.bytes())?;
        let mut state = self.0.state.lock();
        let names = find(&mut state.boards, swarm)?.members();
        let event = SwarmEvent::Message { swarm: swarm.to_owned(), from: from.to_owned(), message };
        for name in names.iter().filter(|name| *name != from) {
            state.post.put_each(name, &event);
        }
        drop(state);
        self.emit("broadcast", from, (swarm.to_owned(), None), "ok");
        Ok(())
    }

    /// Returns the agents of `swarm`, else those of all, each once.
    ///
    /// # Errors
    /// A swarm that does not exist.
    pub fn discover(&self, swarm: Option<&str>) -> Result<Vec<Peer>, CallError> {
        let mut state = self.0.state.lock();
        let State { boards, post } = &mut *state;
        let now = Now { ms: self.0.clock.now_ms(), post };
        let boards = match swarm {
            Some(swarm) => std::slice::from_ref(find(boards, swarm)?),
            None => boards.as_slice(),
        };
        let mut peers: Vec<Peer> = Vec::new();
        for board in boards {
            for name in board.members() {
                if peers.iter().all(|peer| peer.identity != name) {
                    let status = board.status(&name, now, name == self.0.own);
                    peers.push(Peer { uri: uri(&name), identity: name, status });
                }
            }
        }
        Ok(peers)
    }

    /// Connects a session of `identity`, until what is returned is dropped.
    pub fn subscribe(&self, identity: &str) -> Subscription {
        let mut state = self.0.state.lock();
        // Another session that is still there has the tasks, or will be told of them.
        let is_first = !state.post.is_present(identity);
        let (session, wake) = state.post.join(identity);
        state.each(self.0.clock.now_ms(), |board, now| {
            if is_first {
                board.came_back(identity);
            }
            board.tick(now);
        });
        drop(state);
        Subscription { shared: Arc::clone(&self.0), identity: identity.to_owned(), session, wake }
    }

    fn emit(
        &self,
        operation: &'static str,
        from: &str,
        (swarm, task): (String, Option<String>),
        outcome: &'static str,
    ) {
        let identity = from.to_owned();
        self.0.telemetry.emit(Event::Swarm { operation, identity, swarm, task, outcome });
    }
}

/// A session of one identity: it counts as connected as long as this lives.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    identity: String,
    session: u64,
    wake: Arc<Notify>,
}

impl Subscription {
    /// Waits for the next event. Dropping the future loses none.
    pub async fn next(&mut self) -> SwarmEvent {
        let wake = Arc::clone(&self.wake);
        loop {
            let woken = wake.notified();
            tokio::pin!(woken);
            // Before looking, so that what comes meanwhile wakes it.
            woken.as_mut().enable();
            if let Some(event) = self.try_next() {
                return event;
            }
            woken.await;
        }
    }

    /// Returns the next event, if there is one.
    pub fn try_next(&mut self) -> Option<SwarmEvent> {
        let mut state = self.shared.state.lock();
        loop {
            let event = state.post.take(&self.identity, self.session)?;
            let SwarmEvent::Task { task, .. } = &event else { return Some(event) };
            let mut boards = state.boards.iter_mut();
            if boards.any(|board| board.take(&task.task_id, &self.identity, self.session)) {
                return Some(event);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.post.leave(&self.identity, self.session);
        // Where no session stays, whoever comes back is told.
        let stays = state.post.is_present(&self.identity).then_some(self.identity.as_str());
        state.boards.iter_mut().for_each(|board| board.left(self.session, stays));
        state.deliver();
    }
}

impl State {
    /// Works on all swarms and tells what is to be told.
    fn each(&mut self, now_ms: i64, mut work: impl FnMut(&mut Board, Now<'_>)) {
        for board in &mut self.boards {
            work(board, Now { ms: now_ms, post: &self.post });
        }
        self.deliver();
    }

    fn deliver(&mut self) {
        for board in &mut self.boards {
            for (name, event) in board.take_outbox() {
                self.post.put(&name, event);
            }
        }
    }
}

/// Ends attempts that are out of time, as long as the swarm lives.
async fn look_after(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(Duration::from_millis(SWARM_LOOK_MS)).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.state.lock().each(shared.clock.now_ms(), Board::tick);
    }
}

fn find<'a>(boards: &'a mut [Board], swarm: &str) -> Result<&'a mut Board, CallError> {
    let unknown = || {
        let name = short(swarm);
        CallError::new(ErrorKind::InvalidArguments, format!("there is no swarm {name:?}"))
            .with("swarm", name)
    };
    boards.iter_mut().find(|board| board.plan().name == swarm).ok_or_else(unknown)
}

/// Returns a name as it is told: whoever calls may have sent anything.
fn short(name: &str) -> String {
    truncate::text(name, SWARM_NAME_BYTES_MAX).to_owned()
}

fn uri(identity: &str) -> String {
    let uri = LocalUri { kind: Kind::Identity, name: identity.to_owned(), version: None };
    ClawUri::Local(uri).to_string()
}

fn check_name(what: &str, name: &str) -> Result<(), CallError> {
    if !name.is_empty() && name.len() <= SWARM_NAME_BYTES_MAX {
        return Ok(());
    }
    let text = format!("`{what}` needs 1 to {SWARM_NAME_BYTES_MAX} bytes");
    Err(CallError::new(ErrorKind::InvalidArguments, text))
}

fn check_size(what: &str, bytes: usize) -> Result<(), CallError> {
    if bytes <= SWARM_VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("`{what}` has {bytes} bytes; at most {SWARM_VALUE_BYTES_MAX} are taken");
    Err(CallError::new(ErrorKind::InvalidArguments, text).with_limit(Limit::SwarmValueBytes))
}

fn outcome_name(outcome: &Result<(), CallError>) -> &'static str {
    outcome.as_ref().map_or_else(|error| error.kind.name(), |()| "ok")
}
