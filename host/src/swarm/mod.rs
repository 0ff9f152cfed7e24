//! Swarms: agents that give each other work, with this host between them.
//!
//! An agent takes part by connecting: who has a [`Subscription`] gets tasks, reports and messages.
//! A task waits until an agent that may take it is ready, and stays with the one that took it,
//! also where that one is disconnected and comes back. Deliberately absent: starting agents,
//! other hosts, and combining results: whoever gave a task gets each report.

mod board;
mod health;
mod post;
mod routes;
mod store;
mod task;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{SWARM_LOOK_MS, SWARM_NAME_BYTES_MAX, SWARM_VALUE_BYTES_MAX};
use clawhost_core::manifest::SwarmPlan;
use clawhost_core::uri::{ClawUri, Kind, LocalUri};
use serde_json::Value;
use tokio::sync::Notify;

use self::board::{Board, Held, Now};
use self::post::Post;
pub use self::store::MIGRATIONS;
pub use self::task::{Peer, PeerStatus, Report, Status, SwarmEvent, Task};
use crate::clock::now_ms;
use crate::state::{Database, DatabaseError};
use crate::telemetry::{Event, Telemetry};

/// Says what time it is, in milliseconds since 1970.
type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The swarms of a host. Cheap to clone.
#[derive(Clone)]
pub struct Swarm(Arc<Shared>);

struct Shared {
    /// The identity that the host itself runs.
    own: String,
    state: Mutex<State>,
    /// One change at a time, so that what is kept is what is.
    turn: tokio::sync::Mutex<()>,
    database: Database,
    telemetry: Telemetry,
    clock: Clock,
}

struct State {
    boards: Vec<Board>,
    post: Post,
}

impl Swarm {
    /// Returns the swarms of `plans`, with the tasks that an earlier host left in `database`.
    /// `own` is the identity the host itself runs.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        plans: Vec<SwarmPlan>,
        own: &str,
        database: Database,
        telemetry: Telemetry,
    ) -> Result<Self, DatabaseError> {
        Self::with_clock(plans, own, database, telemetry, Arc::new(now_ms)).await
    }

    async fn with_clock(
        plans: Vec<SwarmPlan>,
        own: &str,
        database: Database,
        telemetry: Telemetry,
        clock: Clock,
    ) -> Result<Self, DatabaseError> {
        let timed =
            plans.iter().any(|plan| plan.duration_max.is_some() || plan.failure.breaker.is_some());
        let mut boards = Vec::new();
        for plan in plans {
            let kept = if plan.durable {
                store::load(&database, plan.name.clone()).await?
            } else {
                Vec::new()
            };
            let mut board = Board::new(plan);
            kept.into_iter().for_each(|held| board.restore(held));
            boards.push(board);
        }
        let state = Mutex::new(State { boards, post: Post::default() });
        let turn = tokio::sync::Mutex::new(());
        let own = own.to_owned();
        let swarm = Self(Arc::new(Shared { own, state, turn, database, telemetry, clock }));
        if timed {
            tokio::spawn(look_after(Arc::downgrade(&swarm.0)));
        }
        Ok(swarm)
    }

    /// Takes `task` from the agent `from`. It is acknowledged once it waits or runs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArguments`] for a swarm that does not exist, a task that has not ended
    /// and values that are too large, [`ErrorKind::PeerUnreachable`] where no agent may ever take
    /// it or too many tasks wait, [`ErrorKind::Overloaded`] where the swarm's tokens are spent.
    pub async fn delegate(&self, from: &str, task: Task) -> Result<bool, CallError> {
        let (swarm, id) = (task.swarm.clone(), task.task_id.clone());
        let outcome = self.take_task(from, task).await;
        self.emit("delegate", swarm, Some(id), outcome_name(&outcome));
        outcome.map(|()| true)
    }

    async fn take_task(&self, from: &str, task: Task) -> Result<(), CallError> {
        check_name("task_id", &task.task_id)?;
        check_size("description", task.description.len())?;
        check_value("input", task.input.as_ref().unwrap_or(&Value::Null))?;
        let _turn = self.0.turn.lock().await;
        let (name, id) = (task.swarm.clone(), task.task_id.clone());
        let changed = self.0.change(&name, |board, now| board.delegate(from, task, now))?;
        if let Err(error) = self.0.save(&name, changed).await {
            // What could not be kept was never taken.
            self.0.lock().board(&name)?.forget(&id);
            return Err(error);
        }
        self.0.deliver();
        Ok(())
    }

    /// Takes a report about a task, from the one who has it or gave it. Says whether there is such
    /// a task.
    ///
    /// # Errors
    /// Values that are too large; the store fails.
    pub async fn report(&self, from: &str, report: Report) -> Result<bool, CallError> {
        check_value("result", &report.result)?;
        let (id, status) = (report.task_id.clone(), report.status.name());
        let _turn = self.0.turn.lock().await;
        let Some(name) = self.0.lock().swarm_of(&id) else { return Ok(false) };
        let mut known = false;
        let changed = self.0.change(&name, |board, now| {
            known = board.report(from, report, now);
            Ok(())
        })?;
        let kept = self.0.save(&name, changed).await;
        self.0.deliver();
        kept?;
        if known {
            self.emit("report", name, Some(id), status);
        }
        Ok(known)
    }

    /// Tells `message` to every member of `swarm` that is connected, but for the sender.
    ///
    /// # Errors
    /// A swarm that does not exist, a message that is too large.
    pub fn broadcast(&self, from: &str, swarm: &str, message: Value) -> Result<(), CallError> {
        check_value("message", &message)?;
        let mut state = self.0.lock();
        let names = state.board(swarm)?.members();
        let event = SwarmEvent::Message { swarm: swarm.to_owned(), from: from.to_owned(), message };
        for name in names.iter().filter(|name| *name != from) {
            state.post.put_each(name, &event);
        }
        drop(state);
        self.emit("broadcast", swarm.to_owned(), None, "ok");
        Ok(())
    }

    /// Returns the agents of `swarm`, else those of all, each once.
    ///
    /// # Errors
    /// A swarm that does not exist.
    pub fn discover(&self, swarm: Option<&str>) -> Result<Vec<Peer>, CallError> {
        let mut state = self.0.lock();
        if let Some(swarm) = swarm {
            state.board(swarm)?;
        }
        let mut peers: Vec<Peer> = Vec::new();
        let now_ms = (self.0.clock)();
        for board in &state.boards {
            if swarm.is_some_and(|swarm| swarm != board.plan().name) {
                continue;
            }
            for name in board.members() {
                if peers.iter().all(|peer| peer.identity != name) {
                    let present = |name: &str| state.post.is_present(name);
                    let now = Now { ms: now_ms, present: &present };
                    let status = board.status(&name, now, name == self.0.own);
                    peers.push(Peer { uri: uri(&name), identity: name, status });
                }
            }
        }
        Ok(peers)
    }

    /// Connects a session of `identity`, until what is returned is dropped.
    pub fn subscribe(&self, identity: &str) -> Subscription {
        let (session, wake) = self.0.lock().post.join(identity);
        self.0.all(|board, now| board.joined(identity, now));
        Subscription { shared: Arc::clone(&self.0), identity: identity.to_owned(), session, wake }
    }

    /// Returns the tasks of `swarm` that failed for good, where its document keeps them.
    ///
    /// # Errors
    /// A swarm that does not exist.
    pub fn dead_letters(&self, swarm: &str) -> Result<Vec<Task>, CallError> {
        Ok(self.0.lock().board(swarm)?.dead_letters())
    }

    fn emit(
        &self,
        operation: &'static str,
        swarm: String,
        task: Option<String>,
        outcome: &'static str,
    ) {
        self.0.telemetry.emit(Event::Swarm { operation, swarm, task, outcome });
    }
}

/// A session of one identity: it counts as connected as long as this lives.
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
        self.shared.lock().post.take(&self.identity, self.session)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.lock().post.leave(&self.identity, self.session);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes one swarm; returns what of it has to be kept. Nothing is told yet.
    fn change(
        &self,
        swarm: &str,
        work: impl FnOnce(&mut Board, Now<'_>) -> Result<(), CallError>,
    ) -> Result<Changed, CallError> {
        let mut state = self.lock();
        let State { boards, post } = &mut *state;
        let board = find(boards, swarm)?;
        let present = |name: &str| post.is_present(name);
        work(board, Now { ms: (self.clock)(), present: &present })?;
        Ok(board.take_changed())
    }

    /// Changes all swarms and tells what is to be told.
    fn all(&self, mut work: impl FnMut(&mut Board, Now<'_>)) {
        let mut state = self.lock();
        let State { boards, post } = &mut *state;
        let now_ms = (self.clock)();
        for board in boards.iter_mut() {
            let present = |name: &str| post.is_present(name);
            work(board, Now { ms: now_ms, present: &present });
        }
        state.deliver();
    }

    fn deliver(&self) {
        self.lock().deliver();
    }

    async fn save(&self, swarm: &str, changed: Changed) -> Result<(), CallError> {
        let durable = self.lock().board(swarm)?.plan().durable;
        if !durable || changed.is_empty() {
            return Ok(());
        }
        store::save(&self.database, swarm.to_owned(), changed).await
    }
}

type Changed = Vec<(String, Option<Held>)>;

impl State {
    fn board(&mut self, swarm: &str) -> Result<&mut Board, CallError> {
        find(&mut self.boards, swarm)
    }

    fn swarm_of(&self, task: &str) -> Option<String> {
        let board = self.boards.iter().find(|board| board.has(task))?;
        Some(board.plan().name.clone())
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
        shared.all(Board::tick);
        let names: Vec<String> =
            shared.lock().boards.iter().map(|board| board.plan().name.clone()).collect();
        for name in names {
            let _turn = shared.turn.lock().await;
            let Ok(changed) = shared.change(&name, |_, _| Ok(())) else { continue };
            if let Err(error) = shared.save(&name, changed).await {
                tracing::warn!("the tasks of a swarm could not be kept: {error}");
            }
        }
    }
}

fn find<'a>(boards: &'a mut [Board], swarm: &str) -> Result<&'a mut Board, CallError> {
    let unknown = || {
        let name = clawhost_core::truncate::text(swarm, SWARM_NAME_BYTES_MAX);
        CallError::new(ErrorKind::InvalidArguments, format!("there is no swarm {name:?}"))
            .with("swarm", name)
    };
    boards.iter_mut().find(|board| board.plan().name == swarm).ok_or_else(unknown)
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

fn check_value(what: &str, value: &Value) -> Result<(), CallError> {
    check_size(what, value.to_string().len())
}

fn check_size(what: &str, bytes: usize) -> Result<(), CallError> {
    if bytes <= SWARM_VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("`{what}` has {bytes} bytes; at most {SWARM_VALUE_BYTES_MAX} are taken");
    Err(CallError::new(ErrorKind::InvalidArguments, text).with("limit", "swarm_value_bytes_max"))
}

fn outcome_name(outcome: &Result<(), CallError>) -> &'static str {
    outcome.as_ref().map_or_else(|error| error.kind.name(), |()| "ok")
}

impl fmt::Debug for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swarm").field("own", &self.0.own).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("identity", &self.identity).finish_non_exhaustive()
    }
}
