//! `network_policy`: the hosts that the calls of one tool are kept to, of those that its profile
//! opens.

use url::Url;

use super::Reader;
use crate::egress::{EgressDenied, EgressRules, HostPattern, HostRules, Schemes};
use crate::grants::Grants;
use crate::manifest::node::Node;
use crate::manifest::sandbox::read_host;
use crate::manifest::shape::{FLAG, STRINGS, Shape, opt, req, shape};

const PORT: Shape = Shape::Int { min: 1, max: u16::MAX as u64 };

shape! { pub(super) NETWORK = {
    mode!: ["none" | "allowlist"],
    block_private: FLAG,
    hosts: STRINGS,
    ports: [+ PORT],
    schemes: [+ ["http" | "https"]],
}}

/// What the calls of one tool may reach, whatever its profile grants. It opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// None under the mode `none`.
    hosts: Vec<HostPattern>,
    /// Those of the profile where this is absent.
    ports: Option<Vec<u16>>,
    schemes: Schemes,
    block_private: bool,
}

impl NetworkPolicy {
    /// Decides on an address before anything is resolved.
    ///
    /// # Errors
    /// It is outside of the policy.
    pub fn check(&self, url: &Url) -> Result<(), EgressDenied> {
        let own = url.port_or_known_default().into_iter().collect();
        self.rules(own).check_url(url).map(drop)
    }

    /// Takes out of what a tool is granted what the policy does not have.
    pub fn narrow(&self, grants: &mut Grants) {
        if let Some(network) = &mut grants.network {
            *network = network.within(&self.rules(network.ports.clone()));
        }
    }

    fn rules(&self, ports: Vec<u16>) -> EgressRules {
        EgressRules {
            block_private: self.block_private,
            ports: self.ports.clone().unwrap_or(ports),
            schemes: self.schemes,
            ..EgressRules::of(HostRules::Only(self.hosts.clone()))
        }
    }
}

impl Reader<'_> {
    pub(super) fn network(&mut self, policy: &Node) -> NetworkPolicy {
        let is_none = policy.text(&["mode"]) == Some("none");
        let listed: Vec<_> =
            policy.texts(&["hosts"]).filter_map(|(node, host)| self.host(node, host)).collect();
        let at = || policy.place(&["mode"]);
        if is_none && !listed.is_empty() {
            self.0.invalid(at(), "`mode: none` has `hosts`", "take them out, or write `allowlist`");
        } else if !is_none && policy.list(&["hosts"]).is_empty() {
            self.0.invalid(at(), "`mode: allowlist` has no `hosts`", "add them, or write `none`");
        }
        let has = |name| policy.texts(&["schemes"]).any(|(_, scheme)| scheme == name);
        let stated = Schemes { http: has("http"), https: has("https") };
        NetworkPolicy {
            hosts: listed,
            ports: policy.read(&["ports"]),
            schemes: policy.get(&["schemes"]).map_or(Schemes::ALL, |_| stated),
            block_private: policy.flag(&["block_private"]).unwrap_or(false),
        }
    }

    fn host(&mut self, node: &Node, host: &str) -> Option<HostPattern> {
        let pattern = read_host(host);
        pattern.map_err(|(reason, help)| self.0.invalid(&node.at, reason, help)).ok()
    }
}
