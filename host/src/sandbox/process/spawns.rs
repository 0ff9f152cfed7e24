//! How many programs each agent runs without a shell.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::limits::SPAWNS_MAX;
use parking_lot::Mutex;

/// The count of one host. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Spawns(Arc<Mutex<BTreeMap<String, usize>>>);

/// A place among the programs of one agent; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    spawns: Spawns,
    principal: String,
}

impl Spawns {
    /// Takes a place for `principal`; none where all of its places are taken.
    pub(super) fn take(&self, principal: &str) -> Option<Permit> {
        let mut counts = self.0.lock();
        let count = counts.entry(principal.to_owned()).or_default();
        if *count >= SPAWNS_MAX {
            return None;
        }
        *count += 1;
        Some(Permit { spawns: self.clone(), principal: principal.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.spawns.0.lock();
        match counts.get_mut(&self.principal) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.principal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_its_own_places_and_gets_them_back() {
        let spawns = Spawns::default();
        let mut held: Vec<Permit> =
            std::iter::from_fn(|| spawns.take("a")).take(SPAWNS_MAX + 9).collect();
        assert_eq!(held.len(), SPAWNS_MAX);
        assert!(spawns.take("b").is_some());
        held.pop();
        assert!(spawns.take("a").is_some());
        drop(held);
        assert!(spawns.0.lock().is_empty(), "nothing is kept of an agent that runs nothing");
    }
}
