//! `proxy`: how completions are served to agents whose clients ask this host for them.

use super::reader::Reader;
use super::{AgentSettings, Settings};
use crate::manifest::node::Node;
use crate::mediate::{Policy, Repeat};

/// `proxy`: how completions are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Whether `run` serves them over HTTP too.
    pub enabled: bool,
    /// Whether turns are written down, with all that was said.
    pub history: bool,
    /// How much a turn may take.
    pub policy: Policy,
    /// What models begin with, as `provider/model`, whose smallest optional numbers mean nothing.
    pub prune_sentinels: Vec<String>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        let (policy, prune_sentinels) = (Policy::default(), Vec::new());
        Self { enabled: false, history: true, policy, prune_sentinels }
    }
}

impl Reader {
    pub(super) fn take_proxy(&mut self, node: &Node) -> ProxySettings {
        let (default, prune) = (ProxySettings::default(), node.texts(&["prune_sentinels"]));
        ProxySettings {
            enabled: node.flag(&["enabled"]).unwrap_or(default.enabled),
            history: node.flag(&["history"]).unwrap_or(default.history),
            policy: Policy {
                bounds: default.policy.bounds.with(node, &mut self.problems),
                repeat: match node.text(&["repeated_calls"]) {
                    Some("replay") => Repeat::Replay,
                    Some(_) => Repeat::Reject,
                    None => default.policy.repeat,
                },
                strict: node
                    .text(&["spent_budget"])
                    .map_or(default.policy.strict, |word| word == "fail"),
            },
            prune_sentinels: prune.map(|(_, text)| text.to_owned()).collect(),
        }
    }
}

impl Settings {
    /// Lets these agents call as well, each with a token of its own.
    pub fn admit(&mut self, agents: impl IntoIterator<Item = String>) {
        for name in agents {
            if self.agents.iter().all(|agent| agent.name != name) {
                self.agents.push(AgentSettings { name, ..AgentSettings::default() });
            }
        }
    }
}
