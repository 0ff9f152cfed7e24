//! Copies of the chain: none is waited for, and the chain says what is missing in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::outbox::Outbox;

/// The chain's end of the way to one copy. What goes there is one record with its newline.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) name: &'static str,
    pub(crate) outbox: Outbox<Arc<str>>,
    /// Records that are missing there and not yet said to be.
    pub(crate) missing: Arc<AtomicU64>,
}

/// All copies of one chain.
#[derive(Debug)]
pub(super) struct Copies(Vec<Copy>);

impl Copies {
    pub(super) fn new(copies: Vec<Copy>) -> Self {
        Self(copies)
    }

    /// Hands a record to every copy that has room.
    pub(super) fn take(&self, line: &str) {
        if self.0.is_empty() {
            return;
        }
        let line: Arc<str> = line.into();
        for copy in &self.0 {
            if !copy.outbox.put(Arc::clone(&line)) {
                copy.missing.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes the counts of what is missing in copies that have room again: one note for a while
    /// of losses, not one for each record.
    pub(super) fn gaps(&self) -> Vec<(&'static str, u64)> {
        self.0.iter().filter(|copy| copy.outbox.has_room()).filter_map(Copy::gap).collect()
    }

    /// Takes the counts of what is missing anywhere.
    pub(super) fn all_gaps(&self) -> Vec<(&'static str, u64)> {
        self.0.iter().filter_map(Copy::gap).collect()
    }

    pub(super) async fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        for copy in &self.0 {
            if timeout_at(until, copy.outbox.flush()).await.is_err() {
                tracing::warn!("the copy of the audit log in {} is not complete.", copy.name);
            }
        }
    }
}

impl Copy {
    fn gap(&self) -> Option<(&'static str, u64)> {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        (missing > 0).then_some((self.name, missing))
    }
}
