//! The escape lab: hostile guests run against the profiles of a manifest, and oracles tell from
//! outside whether anything got out.
//!
//! A profile is tried with its own grants and bounds on folders of the lab: nothing of the user's
//! is mounted, no secret of the user's is looked up, and requests go only to addresses that have to
//! be refused.
//!
//! Deliberately absent: what callers, servers and documents can do wrong; tests hold that.

mod corpus;
mod finding;
mod ground;
mod guest;
mod judge;
mod lab;
mod oracles;

pub use corpus::{Attack, all, attacks};
pub use finding::{Finding, Outcome};
pub use guest::{Case, Expected, Guest};
pub use judge::{judge, refusal};
pub use lab::run;
pub use oracles::{CANARY, Snapshot};
