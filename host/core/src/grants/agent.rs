//! What of the host's own a call may use for the agent that makes it.

use std::collections::BTreeSet;

/// What of the host's own a call may use. All of it is from the runtime file, never from a document,
/// but for the built-in profile `memory`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentGrants {
    /// Whether keys and values are kept for its agent.
    pub memory: bool,
    /// Whether it is told what completions cost every agent, where it may ask providers at all;
    /// otherwise what they cost its own.
    pub all_costs: bool,
    /// The channels it may send messages to.
    pub channels: BTreeSet<String>,
}

impl AgentGrants {
    /// Returns what these and `other` both grant.
    pub(super) fn within(self, other: &Self) -> Self {
        Self {
            memory: self.memory && other.memory,
            all_costs: self.all_costs && other.all_costs,
            channels: self.channels.intersection(&other.channels).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_grant_is_left() {
        let grants = |memory, all_costs, channels: &[&str]| AgentGrants {
            memory,
            all_costs,
            channels: channels.iter().map(|name| (*name).to_owned()).collect(),
        };
        let own = || grants(true, true, &["a", "b"]);
        assert_eq!(own().within(&own()), own());
        assert_eq!(own().within(&grants(false, true, &["b"])), grants(false, true, &["b"]));
        assert_eq!(own().within(&AgentGrants::default()), AgentGrants::default());
    }
}
