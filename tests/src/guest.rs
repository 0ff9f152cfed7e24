//! Hostile guests: the corpus of the escape lab.

use std::path::PathBuf;

pub use clawhost::attack::{Attack, Case, Expected, Guest, all, attacks};

/// Returns the folder of the guests.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests")
}
