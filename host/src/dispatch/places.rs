//! How many calls run and how many wait: places among the running ones, and a queue with an end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{CALLS_PER_AGENT_PERMILLE, SHARES_KEPT_MAX};
use clawhost_core::manifest::LimitSettings;
use parking_lot::Mutex;
use tokio::sync::{
    AcquireError, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, SemaphorePermit,
};

use crate::gate::Nesting;

/// The places of one host.
#[derive(Debug)]
pub(super) struct Places {
    running: Semaphore,
    /// What each agent that has calls may have of them; of some that had.
    shares: Mutex<HashMap<String, Arc<Share>>>,
    share: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// What one agent may have.
#[derive(Debug)]
pub(super) struct Share {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Places {
    pub(super) fn new(limits: &LimitSettings) -> Self {
        Self {
            running: Semaphore::new(limits.calls_running_max),
            shares: Mutex::default(),
            share: limits
                .calls_running_per_agent_max
                .unwrap_or_else(|| share_of(limits.calls_running_max)),
            waiting: AtomicUsize::new(0),
            waiting_max: limits.calls_waiting_max,
        }
    }

    /// Returns a place of `agent`, if one is free. A nested call has that of its parent first.
    fn free(&self, agent: &str, nested: Option<&Nesting>) -> Option<Place<'_>> {
        let parents = nested.map(|nested| Arc::clone(&nested.place).try_lock_owned());
        if let Some(Ok(place)) = parents {
            return Some(Place::Parents(place));
        }
        let share = self.share_of(agent);
        let part = Arc::clone(&share.running).try_acquire_owned().ok()?;
        let permit = self.running.try_acquire().ok()?;
        Some(Place::Own(permit, part, share))
    }

    /// Waits for a place of `agent`, unless too many do already. A nested call waits for nobody but those beside
    /// it: so no number of nested calls can stand still. Says as well whether it waited.
    pub(super) async fn enter(
        &self,
        agent: &str,
        nested: Option<&Nesting>,
    ) -> Result<(Place<'_>, bool), CallError> {
        if let Some(place) = self.free(agent, nested) {
            return Ok((place, false));
        }
        let place = match nested {
            Some(nested) => Place::Parents(Arc::clone(&nested.place).lock_owned().await),
            None => self.wait(self.share_of(agent)).await?,
        };
        Ok((place, true))
    }

    async fn wait(&self, share: Arc<Share>) -> Result<Place<'_>, CallError> {
        let own = Queued::enter(&share.waiting, share_of(self.waiting_max))?;
        let _all = Queued::enter(&self.waiting, self.waiting_max)?;
        let closed = |_: AcquireError| {
            CallError::new(ErrorKind::Overloaded, "the host is shutting down")
                .with("stage", "queue")
                .with_limit(Limit::Shutdown)
        };
        // In this order: whoever waits for a part of the own share keeps nobody else waiting.
        let part = Arc::clone(&share.running).acquire_owned().await.map_err(closed)?;
        let permit = self.running.acquire().await.map_err(closed)?;
        drop(own);
        Ok(Place::Own(permit, part, share))
    }

    fn share_of(&self, agent: &str) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(agent) {
            return Arc::clone(share);
        }
        if shares.len() >= SHARES_KEPT_MAX {
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let running = Arc::new(Semaphore::new(self.share));
        let share = Arc::new(Share { running, waiting: AtomicUsize::new(0) });
        shares.insert(agent.to_owned(), Arc::clone(&share));
        share
    }
}

/// Returns what one agent may have of so many.
const fn share_of(all: usize) -> usize {
    let share = all * CALLS_PER_AGENT_PERMILLE / 1_000;
    if share == 0 { 1 } else { share }
}

/// A place among the running calls, given back when the call ends however it ends.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, not read")]
pub(super) enum Place<'a> {
    /// One of the host's, and of the agent's share.
    Own(SemaphorePermit<'a>, OwnedSemaphorePermit, Arc<Share>),
    /// Its parent's.
    Parents(OwnedMutexGuard<()>),
}

/// A place in the queue, given back when the wait ends however it ends.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(waiting: &'a AtomicUsize, waiting_max: usize) -> Result<Self, CallError> {
        let queued = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= waiting_max {
            let error = CallError::new(
                ErrorKind::Overloaded,
                "too many calls are waiting; try again later",
            );
            return Err(error.with("stage", "queue").with_limit(Limit::CallsWaiting));
        }
        Ok(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agent_that_wants_all_places_leaves_the_others_theirs() {
        let limits = LimitSettings {
            calls_running_max: 4,
            calls_waiting_max: 3,
            ..LimitSettings::default()
        };
        let places = Places::new(&limits);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(places.enter("greedy", None).await.unwrap());
        }
        let mut fourth = polled(places.enter("greedy", None));
        let mut fifth = polled(places.enter("greedy", None));
        assert!(fourth().is_none() && fifth().is_none(), "there is a place, but not for it");
        let refused = places.enter("greedy", None).await.unwrap_err();
        assert_eq!(
            (refused.kind, &refused.data["stage"]),
            (ErrorKind::Overloaded, &"queue".into())
        );
        let other = places.enter("other", None).await.unwrap();
        held.pop();
        let fourth = fourth().unwrap().unwrap();
        assert!(fifth().is_none());
        drop((other, held, fourth));
        assert!(fifth().unwrap().is_ok());
    }

    #[tokio::test]
    async fn who_has_no_calls_is_forgotten_where_there_are_many() {
        let places = Places::new(&LimitSettings::default());
        let _held = places.enter("busy", None).await.unwrap();
        for agent in 0..2 * SHARES_KEPT_MAX {
            drop(places.enter(&agent.to_string(), None).await.unwrap());
        }
        let shares = places.shares.lock();
        assert!(shares.len() <= SHARES_KEPT_MAX && shares.contains_key("busy"), "{}", shares.len());
    }

    /// Returns what polls `work` once.
    fn polled<F: Future>(work: F) -> impl FnMut() -> Option<F::Output> {
        let mut work = Box::pin(work);
        move || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match work.as_mut().poll(&mut context) {
                std::task::Poll::Ready(done) => Some(done),
                std::task::Poll::Pending => None,
            }
        }
    }
}
