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
                copy.miss(1);
            }
        }
    }

    /// Takes the counts of what is missing in copies that have room again: one note for a while
    /// of losses, not one for each record.
    pub(super) fn gaps(&self) -> Vec<(&Copy, u64)> {
        self.0.iter().filter(|copy| copy.outbox.has_room()).filter_map(Copy::gap).collect()
    }

    /// Takes the counts of what is missing anywhere.
    pub(super) fn all_gaps(&self) -> Vec<(&Copy, u64)> {
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
    fn gap(&self) -> Option<(&Self, u64)> {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        (missing > 0).then_some((self, missing))
    }

    /// Counts records that are missing there, and that nothing says yet.
    pub(super) fn miss(&self, records: u64) {
        self.missing.fetch_add(records, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{Carrier, Failure, Terms};

    /// A place that takes all.
    struct Anywhere;

    impl Carrier for Anywhere {
        type Item = Arc<str>;

        fn name(&self) -> String {
            "the way to a copy".to_owned()
        }

        async fn take(&mut self, _: &[Arc<str>]) -> Result<(), Failure> {
            Ok(())
        }

        fn lost(&self, _: u64) {}
    }

    impl Copy {
        /// Returns one in a place that takes all, where so many are missing so far.
        pub(in crate::audit) fn anywhere(missing: u64) -> Self {
            let terms = Terms {
                queue_max: 8,
                batch_max: 1,
                interval: Duration::ZERO,
                hands_over_empty: false,
                patience: Duration::from_secs(1),
                retries_max: 0,
                flush_retries_max: 0,
                retry: Duration::ZERO,
                retry_max: Duration::ZERO,
            };
            let outbox = Outbox::start(Anywhere, terms);
            Self { name: "syslog", outbox, missing: Arc::new(AtomicU64::new(missing)) }
        }
    }
}
