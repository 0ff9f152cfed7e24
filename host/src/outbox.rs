//! The way to one place outside: bounded, never waited for, and what is lost on it is counted.
//!
//! One worker a place collects a batch, hands it over and tries again for a while. What comes
//! while the queue is full is refused at once. Deliberately absent: the places, and what becomes
//! of the counts.

use std::fmt;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Why something was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Trying again would not help.
    pub(crate) is_final: bool,
    /// How long the place asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn passing(reason: impl fmt::Display) -> Self {
        Self { reason: format!("{reason}"), is_final: false, retry_after: None }
    }

    pub(crate) fn lasting(reason: impl fmt::Display) -> Self {
        Self { is_final: true, ..Self::passing(reason) }
    }
}

/// Who takes batches to a place.
pub(crate) trait Carrier: Send + 'static {
    /// What is handed over.
    type Item: Send + Sync + 'static;

    /// Returns what goes where, for the log: it begins a sentence.
    fn name(&self) -> String;

    /// Hands a batch over, in order. It may be dropped halfway.
    fn take(&mut self, batch: &[Self::Item]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Counts what is lost for good.
    fn lost(&self, count: u64);
}

/// How patient the worker of a place is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Items that wait for the worker.
    pub(crate) queue_max: usize,
    /// Items of one batch.
    pub(crate) batch_max: usize,
    /// Time a batch has to fill.
    pub(crate) interval: Duration,
    /// Whether an empty batch is handed over as well when that time is over.
    pub(crate) hands_over_empty: bool,
    /// Time the place has for one batch.
    pub(crate) patience: Duration,
    /// Times a batch is tried again; then it is lost.
    pub(crate) retries_max: u32,
    /// As `retries_max`, while somebody waits for what is left to be handed over.
    pub(crate) flush_retries_max: u32,
    /// Time before a batch is tried again; it doubles with each try.
    pub(crate) retry: Duration,
    /// The longest such time, also where the place asks for more.
    pub(crate) retry_max: Duration,
}

/// The near end of the way. Dropped, what is left is handed over, and the worker ends.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    queue: mpsc::Sender<T>,
    flushes: mpsc::Sender<oneshot::Sender<()>>,
}

impl<T: Send + Sync + 'static> Outbox<T> {
    /// Starts the worker of `place`, on the runtime of the caller.
    pub(crate) fn start(place: impl Carrier<Item = T>, terms: Terms) -> Self {
        let (queue, items) = mpsc::channel(terms.queue_max);
        let (flushes, flushing) = mpsc::channel(1);
        let pending = Vec::new();
        let worker = Worker { place, terms, items, pending, tries: 0, complained: false };
        tokio::spawn(worker.run(flushing));
        Self { queue, flushes }
    }

    /// Takes `item` if there is room.
    #[must_use]
    pub(crate) fn put(&self, item: T) -> bool {
        self.queue.try_send(item).is_ok()
    }

    /// Says whether at least half of the queue is free.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.capacity() > self.queue.max_capacity() / 2
    }

    /// Waits until what was taken so far is handed over, or lost.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.flushes.send(done).await.is_ok() {
            // A worker that is gone has nothing left to hand over.
            let _ = flushed.await;
        }
    }
}

struct Worker<P: Carrier> {
    place: P,
    terms: Terms,
    items: mpsc::Receiver<P::Item>,
    pending: Vec<P::Item>,
    /// Times the pending batch failed.
    tries: u32,
    complained: bool,
}

impl<P: Carrier> Worker<P> {
    /// Works until the outbox is gone.
    async fn run(mut self, mut flushes: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut due = Instant::now() + self.terms.interval;
        loop {
            let has_room = self.pending.len() < self.terms.batch_max;
            let has_work = self.terms.hands_over_empty || !self.pending.is_empty();
            tokio::select! {
                biased;
                Some(done) = flushes.recv() => {
                    self.flush().await;
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(());
                }
                item = self.items.recv(), if has_room => {
                    let Some(item) = item else { return self.flush().await };
                    self.pending.push(item);
                    if self.pending.len() >= self.terms.batch_max && self.tries == 0 {
                        due = Instant::now();
                    }
                }
                () = sleep_until(due), if has_work => {
                    let again = self.hand_over(self.terms.retries_max).await;
                    due = Instant::now() + again.unwrap_or(self.terms.interval);
                }
            }
        }
    }

    /// Hands everything over that waits.
    async fn flush(&mut self) {
        loop {
            while self.pending.len() < self.terms.batch_max
                && let Ok(item) = self.items.try_recv()
            {
                self.pending.push(item);
            }
            while let Some(pause) = self.hand_over(self.terms.flush_retries_max).await {
                sleep(pause).await;
            }
            if self.items.is_empty() {
                return;
            }
        }
    }

    /// Hands the batch over; returns the time until it is tried again, nothing where it is settled.
    async fn hand_over(&mut self, retries_max: u32) -> Option<Duration> {
        if self.pending.is_empty() && !self.terms.hands_over_empty {
            return None;
        }
        let taken = timeout(self.terms.patience, self.place.take(&self.pending)).await;
        let Err(failure) = taken.unwrap_or_else(|_| Err(Failure::passing("it takes too long")))
        else {
            self.complained = false;
            self.settle();
            return None;
        };
        self.complain(&failure);
        self.tries += 1;
        if failure.is_final || self.tries > retries_max {
            if !self.pending.is_empty() {
                self.place.lost(self.pending.len() as u64);
            }
            self.settle();
            return None;
        }
        let own = self.terms.retry * (1 << (self.tries - 1).min(16));
        Some(own.max(failure.retry_after.unwrap_or_default()).min(self.terms.retry_max))
    }

    fn settle(&mut self) {
        self.pending.clear();
        self.tries = 0;
    }

    /// Says it once, until it works again.
    fn complain(&mut self, failure: &Failure) {
        if !self.complained {
            tracing::warn!("{} fails: {}", self.place.name(), failure.reason);
        }
        self.complained = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A place that fails as it is told, then takes everything.
    struct Moody {
        failures: VecDeque<Failure>,
        taken: Arc<Mutex<Vec<u32>>>,
        lost: Arc<AtomicU64>,
    }

    impl Carrier for Moody {
        type Item = u32;

        fn name(&self) -> String {
            "the way to a moody place".to_owned()
        }

        async fn take(&mut self, batch: &[u32]) -> Result<(), Failure> {
            match self.failures.pop_front() {
                Some(failure) => Err(failure),
                None => {
                    self.taken.lock().unwrap().extend_from_slice(batch);
                    Ok(())
                }
            }
        }

        fn lost(&self, count: u64) {
            self.lost.fetch_add(count, Ordering::SeqCst);
        }
    }

    const TERMS: Terms = Terms {
        queue_max: 8,
        batch_max: 2,
        interval: Duration::from_secs(3_600),
        hands_over_empty: false,
        patience: Duration::from_secs(1),
        retries_max: 1,
        flush_retries_max: 0,
        retry: Duration::from_secs(1),
        retry_max: Duration::from_secs(2),
    };

    /// Puts 0 to 4 in and flushes; returns what was taken in order, and how many were lost.
    async fn five(failures: Vec<Failure>, flush_retries_max: u32) -> (Vec<u32>, u64) {
        let (taken, lost) = (Arc::default(), Arc::default());
        let place =
            Moody { failures: failures.into(), taken: Arc::clone(&taken), lost: Arc::clone(&lost) };
        let outbox = Outbox::start(place, Terms { flush_retries_max, ..TERMS });
        (0..5).for_each(|item| assert!(outbox.put(item)));
        outbox.flush().await;
        let taken = taken.lock().unwrap().clone();
        (taken, lost.load(Ordering::SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_tried_again_as_often_as_the_terms_say_and_its_loss_is_counted() {
        let busy = || Failure { retry_after: Some(Duration::MAX), ..Failure::passing("busy") };
        let all = vec![0, 1, 2, 3, 4];
        assert_eq!(five(vec![], 0).await, (all.clone(), 0));
        assert_eq!(five(vec![busy(), busy()], 2).await, (all, 0));
        assert_eq!(five(vec![busy(), busy()], 1).await, (vec![2, 3, 4], 2));
        assert_eq!(five(vec![busy()], 0).await, (vec![2, 3, 4], 2));
        assert_eq!(five(vec![Failure::lasting("no")], 9).await, (vec![2, 3, 4], 2));
    }

    #[tokio::test]
    async fn what_finds_no_room_is_refused() {
        let place =
            Moody { failures: VecDeque::new(), taken: Arc::default(), lost: Arc::default() };
        let outbox = Outbox::start(place, Terms { queue_max: 2, ..TERMS });
        // The worker has no turn before this test waits for something.
        assert_eq!([1, 2, 3].map(|item| outbox.put(item)), [true, true, false]);
        outbox.flush().await;
        assert!(outbox.has_room() && outbox.put(4));
    }
}
