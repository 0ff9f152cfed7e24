//! The host's clocks.

use std::time::Duration;

use claw_tool::bindings::wasi::clocks::{monotonic_clock, wall_clock};

/// Returns the time since some moment that stays the same during a call.
#[must_use]
pub fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_clock::now())
}

/// Returns the time since the Unix epoch.
#[must_use]
pub fn wall() -> Duration {
    let now = wall_clock::now();
    Duration::new(now.seconds, now.nanoseconds)
}
