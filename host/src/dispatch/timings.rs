//! Where a call's time went, stage by stage.

use std::time::{Duration, Instant};

/// How long each stage of one call took. A stage that was not reached took none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Digest of the arguments, opening and closing record.
    pub audit: Duration,
    /// Look-up, schema, policy, sandbox admission.
    pub gate: Duration,
    /// Waiting for a place among the running calls.
    pub wait: Duration,
    /// Making the store and the instance, and dropping both.
    pub instantiate: Duration,
    /// The guest itself, and what the host did for it.
    pub guest: Duration,
    /// Result schemas and the size cap.
    pub filter: Duration,
}

/// Measures one stage after the other.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns when the stage that is measured now began.
    pub(super) fn begun(&self) -> Instant {
        self.0
    }

    /// Returns the time since the start or the last lap.
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now.duration_since(self.0);
        self.0 = now;
        lap
    }
}
