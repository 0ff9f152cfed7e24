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

pub use self::board::Approvals;
pub use self::leases::{Leased, MIGRATIONS};
pub use self::parked::{ParkedCall, Parking, ParkingPlace, Posed};
pub use self::question::{Answer, Approved, Approver, How, Lease, Pending, Question, Until};
pub use self::reach::{Reach, Reachable};
pub use self::shown::Shown;

/// Is told when a call starts to wait for a person, and when it no longer does: one call may make others,
/// each with a question of its own.
pub type WaitingSink = tokio::sync::watch::Sender<Vec<String>>;
/// The ids of the questions on which a call waits, oldest first.
pub type OpenQuestions = tokio::sync::watch::Receiver<Vec<String>>;
