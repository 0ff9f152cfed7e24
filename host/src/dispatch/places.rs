//! How many calls run and how many wait: places among the running ones, and a queue with an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clawhost_core::error::{CallError, ErrorKind};
use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};

use crate::gate::Nesting;

/// The places of one host.
#[derive(Debug)]
pub(super) struct Places {
    running: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Places {
    pub(super) fn new(running_max: usize, waiting_max: usize) -> Self {
        let (running, waiting) = (Semaphore::new(running_max), AtomicUsize::new(0));
        Self { running, waiting, waiting_max }
    }

    /// Waits for a place, unless too many do already. A nested call has that of its parent, else a free
    /// one, and waits for nobody but those beside it: so no number of nested calls can stand still.
    pub(super) async fn enter(&self, nested: Option<&Nesting>) -> Result<Place<'_>, CallError> {
        let parents = nested.map(|nested| &nested.place);
        if let Some(Ok(place)) = parents.map(|place| Arc::clone(place).try_lock_owned()) {
            return Ok(Place::Parents(place));
        }
        if let Ok(permit) = self.running.try_acquire() {
            return Ok(Place::Own(permit));
        }
        match parents {
            Some(place) => Ok(Place::Parents(Arc::clone(place).lock_owned().await)),
            None => self.wait().await.map(Place::Own),
        }
    }

    async fn wait(&self) -> Result<SemaphorePermit<'_>, CallError> {
        let _queued = Queued::enter(&self.waiting, self.waiting_max)?;
        self.running
            .acquire()
            .await
            .map_err(|_| CallError::new(ErrorKind::Overloaded, "the host is shutting down"))
    }
}

/// A place among the running calls, given back when the call ends however it ends.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, not read")]
pub(super) enum Place<'a> {
    /// One of the host's.
    Own(SemaphorePermit<'a>),
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
            return Err(error.with("stage", "queue").with("limit", "calls_waiting_max"));
        }
        Ok(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
