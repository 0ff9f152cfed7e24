//! Approvals: calls that wait for a person's word.
//!
//! The gate asks; whoever is not the caller answers: the operator through the control socket or
//! with the operator's credential, the person at a terminal, the parent process of a host that
//! speaks the Claw Kernel Protocol, and an agent's own user only where the operator allowed it.
//! Every question ends exactly once. Deliberately absent: who has to be asked when (policy and
//! gate), and every transport.

mod board;
mod leases;
mod parked;
mod question;
mod reach;
mod shown;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use self::board::Approvals;
pub use self::leases::{Leased, MIGRATIONS};
pub use self::parked::{ParkedCall, Parking};
pub use self::question::{Answer, Approved, Approver, Asked, Lease, Pending, Until};
pub use self::reach::{Reach, Reachable};
pub use self::shown::Shown;

/// Who is told the id of the question when a call starts to wait for a person.
#[derive(Clone)]
pub struct WaitingSink(Arc<dyn Fn(&str) + Send + Sync>);

impl WaitingSink {
    /// Returns a sink that hands the id of the question to `told`, which must not block.
    pub fn new(told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// Tells it.
    pub fn tell(&self, id: &str) {
        (self.0)(id);
    }
}

impl fmt::Debug for WaitingSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingSink")
    }
}
