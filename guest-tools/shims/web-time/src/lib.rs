//! The part of `web-time` that the Python interpreter uses, with the host's clock.
//!
//! On `wasm32-unknown-unknown` the real one asks the JavaScript around it, which a component
//! does not have.

use std::time::Duration;

use claw_tool::bindings::wasi::clocks::monotonic_clock;

/// A moment of the host's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// Returns the present moment.
    #[must_use]
    pub fn now() -> Self {
        Self(monotonic_clock::now())
    }

    /// Returns the time since this moment.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_clock::now().saturating_sub(self.0))
    }
}
