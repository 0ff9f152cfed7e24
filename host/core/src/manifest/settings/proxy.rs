//! `proxy`: how completions are served to agents whose clients ask this host for them.

use super::reader::Reader;
use super::{AgentSettings, Settings};
use crate::manifest::node::Node;
use crate::mediate::{Policy, Repeat};

/// `proxy`: how completions are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxySettings {
    /// Whether `run` serves them over HTTP too.
    pub enabled: bool,
    /// Whether turns are written down, with all that was said.
    pub history: bool,
    /// How much a turn may take.
    pub policy: Policy,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self { enabled: false, history: true, policy: Policy::default() }
    }
}

impl Reader {
    /// Takes over each key that is there.
    pub(super) fn take_proxy(&mut self, root: &Node) {
        let Some(node) = root.get(&["proxy"]) else {
            return;
        };
        let proxy = &mut self.settings.proxy;
        proxy.enabled = node.flag(&["enabled"]).unwrap_or(proxy.enabled);
        proxy.history = node.flag(&["history"]).unwrap_or(proxy.history);
        let Policy { bounds, repeat, strict } = &mut proxy.policy;
        *bounds = bounds.with(node, &mut self.problems);
        match node.text(&["repeated_calls"]) {
            Some("replay") => *repeat = Repeat::Replay,
            Some(_) => *repeat = Repeat::Reject,
            None => {}
        }
        *strict = node.text(&["spent_budget"]).map_or(*strict, |word| word == "fail");
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
