//! One exporter at work: collects a batch, hands it over, tries again for a while.
//!
//! Nobody waits for it. What comes while its queue is full is dropped by whoever emits.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{
    TELEMETRY_EXPORT_MS, TELEMETRY_RETRIES_MAX, TELEMETRY_RETRY_AFTER_MS, TELEMETRY_RETRY_MS,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::metrics::Metrics;
use super::record::Record;
use super::sink::{Batch, Failure, Sink};

/// What one exporter needs to work.
pub(super) struct Worker {
    pub(super) queue: mpsc::Receiver<Arc<Record>>,
    pub(super) flushes: mpsc::Receiver<oneshot::Sender<()>>,
    pub(super) sink: Sink,
    pub(super) metrics: Arc<Metrics>,
    pub(super) batch_max: usize,
    pub(super) flush_interval: Duration,
}

struct State {
    pending: Vec<Arc<Record>>,
    /// When the batch is handed over.
    due: Instant,
    tries: u32,
    /// The measurements that were handed over last.
    exported: u64,
    complained: bool,
}

impl Worker {
    /// Works until the last handle of the telemetry is gone.
    pub(super) async fn run(mut self) {
        let mut state = State {
            pending: Vec::new(),
            due: Instant::now() + self.flush_interval,
            tries: 0,
            exported: 0,
            complained: false,
        };
        loop {
            let has_room = state.pending.len() < self.batch_max;
            tokio::select! {
                biased;
                Some(done) = self.flushes.recv() => {
                    self.flush(&mut state).await;
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(());
                }
                record = self.queue.recv(), if has_room => match record {
                    Some(record) => self.push(&mut state, record),
                    None => return self.flush(&mut state).await,
                },
                () = sleep_until(state.due) => self.turn(&mut state).await,
            }
        }
    }

    fn push(&self, state: &mut State, record: Arc<Record>) {
        state.pending.push(record);
        if state.pending.len() >= self.batch_max && state.tries == 0 {
            state.due = Instant::now();
        }
    }

    /// Hands the batch over, or says when to try again.
    async fn turn(&self, state: &mut State) {
        let outcome = self.export(state).await;
        let now = Instant::now();
        match outcome {
            Ok(()) => {
                state.settle();
                state.complained = false;
                state.due = now + self.flush_interval;
            }
            Err(failure) => {
                self.complain(state, &failure);
                state.tries += 1;
                if failure.is_final || state.tries > TELEMETRY_RETRIES_MAX {
                    self.give_up(state);
                    state.due = now + self.flush_interval;
                } else {
                    state.due = now + pause(state.tries, failure.retry_after);
                }
            }
        }
    }

    /// Hands everything over that waits; what is refused now is lost.
    async fn flush(&mut self, state: &mut State) {
        loop {
            while state.pending.len() < self.batch_max
                && let Ok(record) = self.queue.try_recv()
            {
                state.pending.push(record);
            }
            if let Err(failure) = self.export(state).await {
                self.complain(state, &failure);
                self.give_up(state);
            }
            state.settle();
            if self.queue.is_empty() {
                return;
            }
        }
    }

    async fn export(&self, state: &mut State) -> Result<(), Failure> {
        let version = self.metrics.version();
        let metrics = if version == state.exported { None } else { self.metrics.collect() };
        if state.pending.is_empty() && metrics.is_none() {
            return Ok(());
        }
        let batch = Batch { records: &state.pending, metrics: metrics.as_ref() };
        let time = Duration::from_millis(TELEMETRY_EXPORT_MS);
        let outcome = timeout(time, self.sink.export(batch)).await;
        outcome.unwrap_or_else(|_| Err(Failure::passing("it takes too long")))?;
        state.exported = version;
        Ok(())
    }

    fn give_up(&self, state: &mut State) {
        if !state.pending.is_empty() {
            self.metrics.record_dropped(state.pending.len() as u64);
        }
        state.settle();
    }

    /// Says it once, until it works again.
    fn complain(&self, state: &mut State, failure: &Failure) {
        if !state.complained {
            tracing::warn!("telemetry to {} fails: {}", self.sink.name(), failure.reason);
        }
        state.complained = true;
    }
}

impl State {
    fn settle(&mut self) {
        self.pending.clear();
        self.tries = 0;
    }
}

fn pause(tries: u32, asked: Option<Duration>) -> Duration {
    let own = Duration::from_millis(TELEMETRY_RETRY_MS << tries.saturating_sub(1).min(16));
    let asked = asked.unwrap_or_default();
    own.max(asked).min(Duration::from_millis(TELEMETRY_RETRY_AFTER_MS))
}
