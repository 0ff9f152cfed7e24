//! Whose turn it is to search: an agent that asks a lot waits for itself.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use clawhost_core::limits::MEMORY_QUERIES_PER_AGENT_MAX;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of every agent that searches now.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, Weak<Semaphore>>>);

/// One agent's turn, until it is dropped.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    _own: Arc<Semaphore>,
}

impl Turns {
    pub(super) async fn take(&self, principal: &str) -> Turn {
        let own = self.of(principal);
        // The semaphore is never closed.
        let permit = Arc::clone(&own).acquire_owned().await.ok();
        Turn { _permit: permit, _own: own }
    }

    fn of(&self, principal: &str) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        if let Some(own) = turns.get(principal).and_then(Weak::upgrade) {
            return own;
        }
        turns.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(MEMORY_QUERIES_PER_AGENT_MAX));
        turns.insert(principal.to_owned(), Arc::downgrade(&own));
        own
    }
}
