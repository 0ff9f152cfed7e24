//! What of the host's own a call may use for the agent that makes it.

use std::collections::BTreeSet;

/// What of the host's own a call may use. All of it is from the runtime file, never from a document,
/// but for the built-in profiles `memory` and `tools`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentGrants {
    /// Whether keys and values are kept for its agent.
    pub memory: bool,
    /// Whether it is told what completions cost every agent, where it may ask providers at all;
    /// otherwise what they cost its own.
    pub all_costs: bool,
    /// The channels it may send messages to.
    pub channels: BTreeSet<String>,
    /// How many calls of other tools one call may make.
    pub tool_calls: usize,
}

impl AgentGrants {
    /// Returns what these and `other` both grant.
    pub(super) fn within(self, other: &Self) -> Self {
        Self {
            memory: self.memory && other.memory,
            all_costs: self.all_costs && other.all_costs,
            channels: self.channels.intersection(&other.channels).cloned().collect(),
            tool_calls: self.tool_calls.min(other.tool_calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_grant_is_left() {
        let grants = |memory, all_costs, channels: &[&str], tool_calls| AgentGrants {
            memory,
            all_costs,
            channels: channels.iter().map(|name| (*name).to_owned()).collect(),
            tool_calls,
        };
        let own = || grants(true, true, &["a", "b"], 9);
        assert_eq!(own().within(&own()), own());
        assert_eq!(own().within(&grants(false, true, &["b"], 3)), grants(false, true, &["b"], 3));
        assert_eq!(own().within(&AgentGrants::default()), AgentGrants::default());
    }
}
