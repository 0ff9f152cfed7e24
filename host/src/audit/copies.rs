//! The way from the chain to its copies: bounded, never waited for, and what is lost is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawhost_core::limits::AUDIT_COPY_QUEUE_MAX;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// What goes to a copy.
#[derive(Debug)]
pub enum Line {
    /// Everything before this has to be handed over; then this is told.
    Flush(oneshot::Sender<()>),
    /// One record, with its newline.
    Record(Arc<str>),
}

/// The chain's end of the way to one copy.
#[derive(Debug)]
pub struct Copy {
    name: &'static str,
    queue: mpsc::Sender<Line>,
    missing: Arc<AtomicU64>,
}

/// Returns both ends of the way to the copy `name`: the chain's, and that of who takes the lines
/// away, with the count of records that are missing there, to which it adds what it loses.
pub fn copy(name: &'static str) -> (Copy, mpsc::Receiver<Line>, Arc<AtomicU64>) {
    let (queue, lines) = mpsc::channel(AUDIT_COPY_QUEUE_MAX);
    let missing = Arc::new(AtomicU64::new(0));
    (Copy { name, queue, missing: Arc::clone(&missing) }, lines, missing)
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
            if copy.queue.try_send(Line::Record(Arc::clone(&line))).is_err() {
                copy.missing.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes the counts of what is missing in copies that have room again: one note for a while
    /// of losses, not one for each record.
    pub(super) fn gaps(&self) -> Vec<(&'static str, u64)> {
        let has_room = |copy: &&Copy| copy.queue.capacity() > AUDIT_COPY_QUEUE_MAX / 2;
        self.0.iter().filter(has_room).filter_map(Copy::gap).collect()
    }

    /// Takes the counts of what is missing anywhere.
    pub(super) fn all_gaps(&self) -> Vec<(&'static str, u64)> {
        self.0.iter().filter_map(Copy::gap).collect()
    }

    pub(super) async fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        for copy in &self.0 {
            let (done, flushed) = oneshot::channel();
            let flush = async {
                if copy.queue.send(Line::Flush(done)).await.is_ok() {
                    // Who is gone takes nothing more.
                    let _ = flushed.await;
                }
            };
            if timeout_at(until, flush).await.is_err() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditLog, Event, records, verify};
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use serde_json::Map;

    #[tokio::test]
    async fn a_copy_that_nobody_takes_away_loses_records_and_the_chain_says_how_many() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let (there, mut lines, _) = copy("webhook");
        let log = AuditLog::open_with(&dir, None, vec![there]).unwrap();
        // The queue has taken the chain's first record, and takes all but five of these.
        for _ in 0..AUDIT_COPY_QUEUE_MAX + 4 {
            log.append(Event::Received, Map::new()).unwrap();
        }
        while lines.try_recv().is_ok() {}
        log.append(Event::Finished, Map::new()).unwrap();
        let last = records(&dir).unwrap().pop().unwrap();
        assert_eq!((&last["event"], &last["missing"]), (&"copy.incomplete".into(), &5.into()));
        assert!(verify(&dir).unwrap()[0].broken.is_none());
        let Line::Record(line) = lines.recv().await.unwrap() else { panic!() };
        assert!(line.contains("call.finished") && line.ends_with('\n'), "{line}");
    }
}
