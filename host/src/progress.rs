//! Progress of a call, from whoever runs it to whoever waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::limits::{GUEST_LOG_LINE_BYTES_MAX, PROGRESS_PAUSE_MS};
use clawhost_core::truncate;

/// Takes the progress of a call: how far, of how much, and a word about it.
pub type ProgressSink = Arc<dyn Fn(f64, Option<f64>, Option<String>) + Send + Sync>;

const PROGRESS_PAUSE: Duration = Duration::from_millis(PROGRESS_PAUSE_MS);

/// Forwards a call's progress: growing values only, and not too many.
pub(crate) struct Progress {
    sink: ProgressSink,
    last: Option<(Instant, f64)>,
}

impl Progress {
    /// Reports to `sink`.
    pub(crate) fn new(sink: ProgressSink) -> Self {
        Self { sink, last: None }
    }

    /// Says whether a report of `progress` would be forwarded now: what costs something to say is said
    /// only then.
    pub(crate) fn is_due(&self, progress: f64) -> bool {
        self.last.is_none_or(|(at, value)| at.elapsed() >= PROGRESS_PAUSE && progress > value)
    }

    /// Forwards a report, unless it comes too soon or says nothing new.
    pub(crate) fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let is_number = progress.is_finite() && total.is_none_or(f64::is_finite);
        if self.is_due(progress) && is_number {
            self.last = Some((Instant::now(), progress));
            (self.sink)(
                progress,
                total,
                message.map(|text| truncate::text(&text, GUEST_LOG_LINE_BYTES_MAX).to_owned()),
            );
        }
    }
}

clawhost_core::shows!(Progress { last });
