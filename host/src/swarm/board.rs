//! One swarm's tasks: who has which, who is free, what failed.
//!
//! Deliberately absent: connections, clocks and files. Who is connected and what time it is are
//! arguments; what has to be told to whom is the answer.

use std::collections::{BTreeMap, VecDeque};

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    SWARM_OUTSIDE_PERMILLE, SWARM_PARALLEL_MAX, SWARM_TASKS_BYTES_MAX, SWARM_TASKS_MAX,
};
use clawhost_core::manifest::{SwarmPlan, Topology};
use serde_json::json;

use super::post::Post;
use super::routes::candidates;
use super::task::{PeerStatus, Report, Status, SwarmEvent, Task};

/// What has to be told to whom.
pub(super) type Outbox = Vec<(String, SwarmEvent)>;

/// The tasks of one swarm.
#[derive(Debug)]
pub(super) struct Board {
    plan: SwarmPlan,
    tasks: BTreeMap<String, HeldTask>,
    waiting: VecDeque<String>,
    running: BTreeMap<String, usize>,
    /// Tasks that somebody has.
    active: usize,
    turn: usize,
    tokens: u64,
    outbox: Outbox,
}

/// A task that has not ended.
#[derive(Debug)]
struct HeldTask {
    task: Task,
    from: String,
    /// Times it failed.
    failures: u64,
    /// Who has it now.
    assigned: Vec<String>,
    /// The sessions, of those that are open, which took it.
    takers: Vec<u64>,
    /// Since when they do, in milliseconds.
    since_ms: i64,
    /// Who had it last; somebody else goes first.
    last: Option<String>,
}

impl HeldTask {
    fn is_of(&self, name: &str) -> bool {
        self.assigned.iter().any(|own| own == name)
    }

    /// Returns it as whoever gets it is told.
    fn told(&self) -> SwarmEvent {
        SwarmEvent::Task { from: self.from.clone(), task: self.task.clone() }
    }
}

/// Who is connected, and what time it is.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) ms: i64,
    pub(super) post: &'a Post,
}

impl Board {
    pub(super) fn new(plan: SwarmPlan) -> Self {
        Self {
            plan,
            tasks: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            active: 0,
            turn: 0,
            tokens: 0,
            outbox: Outbox::new(),
        }
    }

    pub(super) fn plan(&self) -> &SwarmPlan {
        &self.plan
    }

    /// Returns the names of its agents, each once.
    pub(super) fn members(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for agent in &self.plan.agents {
            if !names.contains(&agent.identity) {
                names.push(agent.identity.clone());
            }
        }
        names
    }

    /// Says whether a task of this id has not ended.
    pub(super) fn has(&self, id: &str) -> bool {
        self.tasks.contains_key(id)
    }

    /// Returns what has to be told since the last time.
    pub(super) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }

    /// Takes a task. It goes to the first agent that is ready; until one is, it waits.
    pub(super) fn delegate(
        &mut self,
        from: &str,
        task: Task,
        now: Now<'_>,
    ) -> Result<(), CallError> {
        self.check(from, task.bytes())?;
        let id = task.task_id.clone();
        let held = HeldTask {
            task,
            from: from.to_owned(),
            failures: 0,
            assigned: Vec::new(),
            takers: Vec::new(),
            since_ms: 0,
            last: None,
        };
        self.tasks.insert(id.clone(), held);
        self.waiting.push_back(id);
        self.assign(now);
        Ok(())
    }

    fn check(&self, from: &str, bytes: usize) -> Result<(), CallError> {
        if self.plan.tokens_max.is_some_and(|max| self.tokens >= max) {
            let text = "the swarm has spent its tokens";
            return Err(CallError::new(ErrorKind::Overloaded, text)
                .with("stage", "quota")
                .with_limit(Limit::SwarmTokens));
        }
        if candidates(&self.plan, from).is_empty() {
            return Err(self.unreachable("no agent of the swarm can take the task"));
        }
        self.check_room(bytes, |_| true, 1_000)?;
        // Any agent of the host may give tasks; the swarm's own go on giving each other theirs.
        let is_outside = |name: &str| self.plan.agents.iter().all(|agent| agent.identity != name);
        if is_outside(from) {
            return self.check_room(bytes, is_outside, SWARM_OUTSIDE_PERMILLE);
        }
        Ok(())
    }

    /// Refuses a task of so many bytes where those of givers who are `of` a kind would take more than so much of
    /// the room.
    fn check_room(
        &self,
        bytes: usize,
        of: impl Fn(&str) -> bool,
        permille: usize,
    ) -> Result<(), CallError> {
        let held: Vec<_> = self.tasks.values().filter(|held| of(&held.from)).collect();
        let all = held.iter().map(|held| held.task.bytes()).sum::<usize>().saturating_add(bytes);
        let full =
            |limit| Err(self.unreachable("too many tasks wait in the swarm").with_limit(limit));
        if held.len() >= SWARM_TASKS_MAX * permille / 1_000 {
            return full(Limit::SwarmTasks);
        }
        if all > SWARM_TASKS_BYTES_MAX * permille / 1_000 {
            return full(Limit::SwarmTasksBytes);
        }
        Ok(())
    }

    fn unreachable(&self, text: &str) -> CallError {
        CallError::new(ErrorKind::PeerUnreachable, text).with("swarm", self.plan.name.as_str())
    }

    /// Takes a report, from one who has the task or gave it. Says whether there is such a task.
    pub(super) fn report(&mut self, from: &str, report: Report, now: Now<'_>) -> bool {
        let Some(held) = self.tasks.get(&report.task_id) else { return false };
        let works = held.is_of(from);
        if !works && (held.from != from || report.status == Status::Partial) {
            return false;
        }
        // Whoever only gave it spent nothing on it, and may be nobody of the swarm.
        let spent = report.token_usage.filter(|_| works).unwrap_or(0);
        self.tokens = self.tokens.saturating_add(spent);
        match report.status {
            Status::Partial => self.tell_giver(from, report),
            Status::Failed if works => self.failed(from, report),
            Status::Completed | Status::Failed => self.close(from, &report, !works),
        }
        self.assign(now);
        true
    }

    /// Ends attempts that are out of time, and gives waiting tasks to those who are ready.
    pub(super) fn tick(&mut self, now: Now<'_>) {
        for (id, name) in self.late(now.ms) {
            let report = Report {
                task_id: id,
                status: Status::Failed,
                result: (&json!({ "error": "timeout", "agent": name })).into(),
                token_usage: None,
                duration_ms: None,
            };
            self.failed(&name, report);
        }
        self.assign(now);
    }

    fn late(&self, now_ms: i64) -> Vec<(String, String)> {
        let Some(max) = self.plan.duration_max else { return Vec::new() };
        let max = i64::try_from(max.as_millis()).unwrap_or(i64::MAX);
        let late = self.tasks.iter().filter(|(_, held)| now_ms.saturating_sub(held.since_ms) > max);
        late.flat_map(|(id, held)| held.assigned.iter().map(|name| (id.clone(), name.clone())))
            .collect()
    }

    /// Tells an agent that came back what it still has to do.
    pub(super) fn came_back(&mut self, name: &str) {
        for held in self.tasks.values().filter(|held| held.is_of(name)) {
            self.outbox.push((name.to_owned(), held.told()));
        }
    }

    /// Takes note of the session that takes a task for `name`. Says whether it may: not where the task has ended or
    /// gone to somebody else since it was told, nor twice.
    pub(super) fn take(&mut self, id: &str, name: &str, session: u64) -> bool {
        let is_to_be_taken =
            |held: &&mut HeldTask| held.is_of(name) && !held.takers.contains(&session);
        let held = self.tasks.get_mut(id).filter(is_to_be_taken);
        held.map(|held| held.takers.push(session)).is_some()
    }

    /// Takes note that a session has ended. What it took and `name` still has to do is told to `name` again.
    pub(super) fn left(&mut self, session: u64, name: Option<&str>) {
        for held in self.tasks.values_mut().filter(|held| held.takers.contains(&session)) {
            held.takers.retain(|taker| *taker != session);
            if let Some(name) = name.filter(|name| held.is_of(name)) {
                self.outbox.push((name.to_owned(), held.told()));
            }
        }
    }

    /// Returns whether `name` takes work now; `at_home` are those the host itself runs.
    pub(super) fn status(&self, name: &str, now: Now<'_>, at_home: bool) -> PeerStatus {
        if !(at_home || now.post.is_present(name)) {
            PeerStatus::Unavailable
        } else if self.is_full() || self.running_of(name) >= self.capacity(name) {
            PeerStatus::Busy
        } else {
            PeerStatus::Ready
        }
    }

    fn assign(&mut self, now: Now<'_>) {
        for _ in 0..self.waiting.len() {
            if self.is_full() {
                return;
            }
            let Some(id) = self.waiting.pop_front() else { return };
            if !self.assign_one(&id, now) {
                self.waiting.push_back(id);
            }
        }
    }

    fn assign_one(&mut self, id: &str, now: Now<'_>) -> bool {
        let Some(held) = self.tasks.get(id) else { return true };
        let chosen = self.choose(held, now);
        let Some(held) = self.tasks.get_mut(id).filter(|_| !chosen.is_empty()) else {
            return false;
        };
        self.turn = self.turn.wrapping_add(1);
        self.active += 1;
        held.since_ms = now.ms;
        held.assigned.clone_from(&chosen);
        held.takers.clear();
        for name in chosen {
            *self.running.entry(name.clone()).or_default() += 1;
            self.outbox.push((name, held.told()));
        }
        true
    }

    /// Returns who gets a task: in turn, and whoever had it last comes last.
    fn choose(&self, held: &HeldTask, now: Now<'_>) -> Vec<String> {
        let ready = |name: &&str| self.status(name, now, false) == PeerStatus::Ready;
        let mut ready: Vec<&str> =
            candidates(&self.plan, &held.from).into_iter().filter(ready).collect();
        if self.plan.topology == Topology::Broadcast {
            return ready.into_iter().map(str::to_owned).collect();
        }
        if !ready.is_empty() {
            let first = self.turn % ready.len();
            ready.rotate_left(first);
        }
        ready.sort_by_key(|name| held.last.as_deref() == Some(name));
        ready.first().map(|name| vec![(*name).to_owned()]).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        let max = self.plan.parallel_max.unwrap_or(SWARM_PARALLEL_MAX);
        self.active >= max.min(SWARM_PARALLEL_MAX)
    }

    fn capacity(&self, name: &str) -> usize {
        let of_name = self.plan.agents.iter().filter(|agent| agent.identity == name);
        let count = of_name.map(|agent| agent.count).sum();
        if self.plan.sequential { count } else { SWARM_PARALLEL_MAX }
    }

    fn running_of(&self, name: &str) -> usize {
        self.running.get(name).copied().unwrap_or(0)
    }

    /// One attempt failed: others may still be at it, or may try.
    fn failed(&mut self, name: &str, report: Report) {
        let retries = self.plan.retries;
        let Some(held) = self.tasks.get_mut(&report.task_id) else { return };
        held.assigned.retain(|own| own != name);
        let left = !held.assigned.is_empty();
        held.last = Some(name.to_owned());
        if !left {
            held.failures += 1;
        }
        let again = held.failures <= retries;
        self.released(name);
        if left {
            return;
        }
        self.active = self.active.saturating_sub(1);
        if again {
            self.waiting.push_back(report.task_id);
        } else {
            self.close(name, &report, false);
        }
    }

    /// Ends a task, and tells all who have to do with it but the one who says so.
    fn close(&mut self, from: &str, report: &Report, by_giver: bool) {
        let swarm = self.plan.name.clone();
        let Some(held) = self.end(&report.task_id) else { return };
        let others = held.assigned.into_iter().filter(|name| name != from);
        let mut told: Vec<String> = others.collect();
        if !by_giver {
            told.push(held.from);
        }
        for name in told {
            let (swarm, from, report) = (swarm.clone(), from.to_owned(), report.clone());
            self.outbox.push((name, SwarmEvent::Report { swarm, from, report }));
        }
    }

    fn tell_giver(&mut self, from: &str, report: Report) {
        let Some(held) = self.tasks.get(&report.task_id) else { return };
        let swarm = self.plan.name.clone();
        let event = SwarmEvent::Report { swarm, from: from.to_owned(), report };
        self.outbox.push((held.from.clone(), event));
    }

    fn end(&mut self, id: &str) -> Option<HeldTask> {
        let held = self.tasks.remove(id)?;
        self.waiting.retain(|waiting| waiting != id);
        held.assigned.iter().for_each(|name| self.released(name));
        if !held.assigned.is_empty() {
            self.active = self.active.saturating_sub(1);
        }
        Some(held)
    }

    fn released(&mut self, name: &str) {
        if let Some(count) = self.running.get_mut(name) {
            *count = count.saturating_sub(1);
        }
    }
}
