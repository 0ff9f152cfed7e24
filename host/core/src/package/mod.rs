//! Components that come from elsewhere: where they are, what an artifact of a registry holds, which
//! digest a reference had, and whose signature a component carries.
//!
//! Deliberately absent: fetching and writing, which the host does.

pub mod artifact;
mod challenge;
mod lock;
mod reference;
mod signature;

pub use challenge::{Challenge, bearer};
pub use lock::{Lock, Locked};
pub(crate) use reference::read_registry;
pub use reference::{ComponentName, OciReference, Reference, Version, WebReference};
pub use signature::{SIGNATURE_ENDING, VerifyingKey, signers};
