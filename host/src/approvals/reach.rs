//! Who can answer questions now: a question that nobody can see is refused rather than posted.
//!
//! Deliberately absent: the answers themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

/// The ways to people that are open. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Reach(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Open ways, by the principal whose questions they show; those of everybody under `None`.
    open: BTreeMap<Option<String>, usize>,
    /// Agents whose own client may put questions to its user.
    elicitors: BTreeSet<String>,
}

/// An open way to a person, until it is dropped.
#[derive(Debug)]
pub struct Reachable {
    reach: Reach,
    of: Option<String>,
}

impl Reach {
    /// Opens a way on which every question can be answered: a control socket, a terminal, the
    /// parent process.
    pub fn open(&self) -> Reachable {
        self.add(None)
    }

    /// Opens a way on which the questions about `principal`'s own calls can be answered.
    pub fn open_for(&self, principal: &str) -> Reachable {
        self.add(Some(principal.to_owned()))
    }

    /// Lets the clients of these agents put questions to their users, and of no others.
    pub fn allow_elicitation(&self, agents: BTreeSet<String>) {
        self.0.lock().elicitors = agents;
    }

    /// Says whether the operator lets this agent's client put questions to its user.
    pub fn may_elicit(&self, agent: &str) -> bool {
        self.0.lock().elicitors.contains(agent)
    }

    /// Says whether somebody can answer a question about a call of `principal`.
    pub fn reaches(&self, principal: &str) -> bool {
        let state = self.0.lock();
        state.open.contains_key(&None) || state.open.contains_key(&Some(principal.to_owned()))
    }

    fn add(&self, of: Option<String>) -> Reachable {
        *self.0.lock().open.entry(of.clone()).or_default() += 1;
        Reachable { reach: self.clone(), of }
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let mut state = self.reach.0.lock();
        if let Some(count) = state.open.get_mut(&self.of) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.open.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_open_until_its_last_holder_lets_go() {
        let reach = Reach::default();
        assert!(!reach.reaches("a"));
        let (one, two) = (reach.open_for("a"), reach.open_for("a"));
        drop(one);
        assert!(reach.reaches("a") && !reach.reaches("b"));
        drop(two);
        assert!(!reach.reaches("a"));
        let all = reach.open();
        assert!(reach.reaches("b"));
        drop(all);
        assert!(!reach.reaches("b"));
    }
}
