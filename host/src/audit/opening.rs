//! What the first record of a chain says, of that chain and of those before it.

use cap_std::fs::Dir;
use serde_json::Value;

use super::files::{chains, first_record};
use super::head::End;

/// The chain's name.
pub(super) const CHAIN: &str = "chain";
/// The key that signs the chain.
pub(super) const SIGNED_WITH: &str = "signed_with";
/// The end of the newest chain before it, which may still grow.
pub(super) const PREVIOUS: &str = "previous_chain";
/// The ends of others that ended and that no signed record named.
pub(super) const ENDED: &str = "ended_chains";
/// The last chain that was removed as old.
pub(super) const REMOVED_THROUGH: &str = "removed_through";

/// A first record; one that cannot be read says nothing.
#[derive(Debug)]
pub(super) struct Opening {
    pub chain: String,
    /// It says that it is of another chain than its file.
    pub is_moved: bool,
    pub signed_with: Option<String>,
    pub ends: Vec<End>,
    pub removed_through: Option<String>,
}

impl Opening {
    /// Reads that of every chain, oldest first.
    pub(super) fn all(dir: &Dir) -> std::io::Result<Vec<Self>> {
        Ok(chains(dir)?.into_iter().map(|chain| Self::read(dir, chain)).collect())
    }

    fn read(dir: &Dir, chain: String) -> Self {
        let first = first_record(dir, &chain).unwrap_or_default();
        let text = |fact| first.get(fact).and_then(Value::as_str).map(str::to_owned);
        let ended = first.get(ENDED).and_then(Value::as_array).into_iter().flatten();
        let ends = first.get(PREVIOUS).into_iter().chain(ended).filter_map(End::read).collect();
        let (signed_with, removed_through) = (text(SIGNED_WITH), text(REMOVED_THROUGH));
        let is_moved = text(CHAIN).is_some_and(|own| own != chain);
        Self { chain, is_moved, signed_with, ends, removed_through }
    }
}
