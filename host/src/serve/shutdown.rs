//! How serving ends.

use std::time::Duration;

use clawhost_core::limits::SHUTDOWN_GRACE_MS;
use tokio_util::sync::CancellationToken;

/// How serving ends: when it is told, and what running calls then get.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Cancelled to begin it.
    pub told: CancellationToken,
    /// How long running calls may take to end.
    pub grace: Duration,
}

impl From<CancellationToken> for Shutdown {
    /// Gives running calls [`SHUTDOWN_GRACE_MS`].
    fn from(told: CancellationToken) -> Self {
        Self { told, grace: Duration::from_millis(SHUTDOWN_GRACE_MS) }
    }
}
