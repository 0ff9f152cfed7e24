//! Quarantine: which failures are a tool's own, when there are too many of one kind, and for how long
//! the tool then rests.
//!
//! What is told as the caller's mistake, what policy refused and what the host itself did wrong never
//! count. Arguments can make a tool fail all the same, so failures are counted for each caller, and a tool
//! rests for who met them: nobody takes it from another. Deliberately absent: keeping anything, and the
//! time, which is an argument.

mod anomaly;
mod hits;
mod settings;
mod signature;

pub use self::anomaly::{Anomaly, anomaly};
pub use self::hits::HitsByCaller;
pub use self::settings::{ImmuneSettings, after_failed_trial};
pub use self::signature::{normalised, signature};
