//! The inert interfaces of `claw:host`: log, progress, cancellation.

use std::time::{Duration, Instant};

use clawhost_core::limits::{GUEST_LOG_LINE_BYTES_MAX, PROGRESS_PAUSE_MS};
use clawhost_core::truncate;

use super::bindings::claw::host::{cancellation, log, progress};
use super::state::{CallState, ProgressSink};

const PROGRESS_PAUSE: Duration = Duration::from_millis(PROGRESS_PAUSE_MS);

impl log::Host for CallState {
    async fn log(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Trace => tracing::Level::TRACE,
            log::Level::Debug => tracing::Level::DEBUG,
            log::Level::Info => tracing::Level::INFO,
            log::Level::Warn => tracing::Level::WARN,
            log::Level::Error => tracing::Level::ERROR,
        };
        self.log.line(level, &message);
    }
}

/// Forwards a call's progress: growing values only, and not too many.
pub(super) struct Progress {
    sink: ProgressSink,
    last: Option<(Instant, f64)>,
}

impl Progress {
    pub(super) fn new(sink: ProgressSink) -> Self {
        Self { sink, last: None }
    }

    fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let now = Instant::now();
        let is_due = self
            .last
            .is_none_or(|(at, value)| now.duration_since(at) >= PROGRESS_PAUSE && progress > value);
        let is_number = progress.is_finite() && total.is_none_or(f64::is_finite);
        if is_due && is_number {
            self.last = Some((now, progress));
            (self.sink)(
                progress,
                total,
                message.map(|text| truncate::text(&text, GUEST_LOG_LINE_BYTES_MAX).to_owned()),
            );
        }
    }
}

impl progress::Host for CallState {
    async fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let message = message.map(|text| self.log.redacted(&text).into_owned());
        if let Some(forward) = &mut self.progress {
            forward.report(progress, total, message);
        }
    }
}

impl cancellation::Host for CallState {
    /// A cancelled call is dropped from outside, so a guest that still runs was not.
    async fn is_cancelled(&mut self) -> bool {
        false
    }
}
