//! From a checked tree to [`Settings`]: what the tables of `shapes` cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::agents::OWN_PRINCIPALS;
use super::governance::take_governance;
use super::providers::take_providers;
use super::shapes::FILE;
use super::{AgentSettings, AuditSettings, HttpSettings, ProfileSettings, Settings, ToolSettings};
use crate::catalog::is_tool_name;
use crate::egress::HostPattern;
use crate::grants::is_variable_name;
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::Problems;
use crate::manifest::sandbox::{read_host, tidy};
use crate::manifest::shape::{self, shown};

/// Collects what the file says, with the variables over it.
#[derive(Default)]
pub(super) struct Reader {
    /// Where the relative paths of the file start.
    base: PathBuf,
    pub(super) root: Node,
    pub(super) problems: Problems,
}

impl Reader {
    pub(super) fn file(&mut self, path: &Path, bytes: &[u8]) {
        if let Some(root) = shape::parsed(&mut self.problems, path, bytes, &FILE) {
            self.base = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
            self.root = root;
        }
    }

    /// Says whether a tree has the right shape; otherwise that is reported.
    pub(super) fn fits(&mut self, root: &Node) -> bool {
        shape::check(&mut self.problems, root, &FILE, "")
    }

    pub(super) fn refuse(
        &mut self,
        at: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.invalid(at, reason, help);
    }

    /// Returns where the relative paths of `node` start.
    pub(super) fn base_of(&self, node: &Node) -> PathBuf {
        if node.at.source.is_variable { PathBuf::new() } else { self.base.clone() }
    }

    /// Returns the path that is written in `node`.
    pub(super) fn path(&self, node: &Node) -> Option<PathBuf> {
        Some(tidy(&self.base_of(node).join(node.as_text()?)))
    }

    /// Returns what all of it says.
    pub(super) fn settings(&mut self) -> Settings {
        let root = &std::mem::take(&mut self.root);
        Settings {
            tools: self.take_tools(root.below("tools")),
            limits: root.read(&["limits"]).unwrap_or_default(),
            state: self.path(root.below("state")),
            http: self.take_http(root.below("http")),
            audit: AuditSettings {
                webhook: root.read(&["audit", "webhook"]),
                syslog: self.path(root.below("audit").below("syslog")),
            },
            channels: self.take_channels(root.below("channels")),
            filters: self.take_filters(root.below("filters")),
            agents: self.take_agents(root.below("agents")),
            registries: self.take_registries(root.below("registries")),
            releases: root.get(&["registry"]).map(|registry| self.take_releases(registry)),
            oci: self.take_oci(root.below("oci")),
            profiles: self.take_profiles(root.below("profiles")),
            providers: take_providers(root.below("providers")),
            proxy: self.take_proxy(root.below("proxy")),
            governance: take_governance(root),
            definitions: self.take_definitions(root),
        }
    }

    fn take_tools(&mut self, tools: &Node) -> ToolSettings {
        let replaced =
            self.take_list(tools, "tools.", "replace_builtins", "read_file", is_tool_name);
        ToolSettings {
            directory: self.path(tools.below("directory")),
            replace_builtins: replaced.into_iter().collect(),
            signed_by: self.take_keys(tools, &["signed_by"]),
            mcp_servers: self.take_mcp_servers(tools.below("mcp_servers")),
            pins: tools.read(&["pins"]).unwrap_or_default(),
            catalog: tools.read(&["catalog"]).unwrap_or_default(),
            web: self.take_web(tools),
            services: self.take_services(tools.below("services")),
            directory_at: tools.below("directory").at.clone(),
            replace_at: tools.below("replace_builtins").at.clone(),
        }
    }

    fn take_http(&mut self, http: &Node) -> HttpSettings {
        let origin = "https://name` or `https://name:port";
        HttpSettings {
            address: http.read(&["address"]),
            allowed_hosts: self
                .take_list(http, "http.", "allowed_hosts", "name` or `name:port", is_host),
            allowed_origins: self.take_list(http, "http.", "allowed_origins", origin, is_origin),
            console: http.flag(&["console"]),
            metrics: http.read(&["metrics"]),
        }
    }

    /// Returns the texts under a key, of which each has to fit; `right` is what would.
    fn take_list(
        &mut self,
        node: &Node,
        above: &str,
        key: &str,
        right: &str,
        fits: fn(&str) -> bool,
    ) -> Vec<String> {
        let checked = node.texts(&[key]).inspect(|(node, text)| {
            if !fits(text) {
                let reason = format!("`{}` does not belong into `{above}{key}`", shown(text));
                self.refuse(&node.at, reason, format!("write `{right}`"));
            }
        });
        checked.map(|(_, text)| text.to_owned()).collect()
    }

    /// Returns the hosts at a path.
    pub(super) fn take_hosts(&mut self, root: &Node, path: &[&str]) -> Vec<HostPattern> {
        let read = |(node, host): (&Node, &str)| match read_host(host) {
            Ok(pattern) => Some(pattern),
            Err((reason, help)) => {
                self.refuse(&node.at, reason, help);
                None
            }
        };
        root.texts(path).filter_map(read).collect()
    }

    /// Returns the name of one entry of a list, which no entry before it may have.
    pub(super) fn take_name(
        &mut self,
        what: &str,
        item: &Node,
        seen: &mut BTreeSet<String>,
    ) -> String {
        let name = item.text(&["name"]).unwrap_or_default();
        let (at, reason) = (item.place(&["name"]), format!("the {what} name `{}`", shown(name)));
        if !seen.insert(name.to_owned()) {
            self.refuse(at, format!("{reason} is there twice"), format!("name each {what} once"));
        }
        name.to_owned()
    }

    /// An agent that is called like one of the host's own callers would be that caller.
    fn take_agent_name(&mut self, agent: &Node, seen: &mut BTreeSet<String>) -> String {
        let name = self.take_name("agent", agent, seen);
        if OWN_PRINCIPALS.contains(&name.as_str()) {
            let reason = format!("the agent name `{name}` is the host's own");
            self.refuse(agent.place(&["name"]), reason, "name the agent otherwise");
        }
        name
    }

    fn take_agents(&mut self, agents: &Node) -> Vec<AgentSettings> {
        let mut seen = BTreeSet::new();
        let agents = agents.items().iter();
        let agent = |agent: &Node| AgentSettings {
            name: self.take_agent_name(agent, &mut seen),
            elicitation: agent.flag(&["elicitation"]).unwrap_or(false),
            identity: agent.read(&["identity"]),
            skills: agent
                .list(&["skills"])
                .iter()
                .filter_map(|item| Some((self.path(item)?, item.at.clone())))
                .collect(),
            at: agent.place(&["identity"]).clone(),
        };
        agents.map(agent).collect()
    }

    fn take_profiles(&mut self, profiles: &Node) -> BTreeMap<String, ProfileSettings> {
        let profiles = profiles.entries().iter();
        profiles.map(|entry| (entry.key.clone(), self.take_profile(entry))).collect()
    }

    fn take_profile(&mut self, entry: &Entry) -> ProfileSettings {
        let node = &entry.node;
        for variable in node.get(&["env"]).map(Node::entries).unwrap_or_default() {
            let value = variable.node.as_text().unwrap_or_default();
            if !is_variable_name(&variable.key) || value.contains('\0') {
                let reason = format!("`{}` is no environment variable", shown(&variable.key));
                let help =
                    "letters, digits and `_`, the first no digit; the value without a zero byte";
                self.refuse(&variable.at, reason, help);
            }
        }
        self.take_list(node, "", "programs", "rg` or `/opt/tools/rg", is_program);
        ProfileSettings {
            secrets: self.take_secrets(node.list(&["secrets"])),
            signed_by: self.take_keys(node, &["signed_by"]),
            at: entry.at.clone(),
            ..node.read(&[]).unwrap_or_default()
        }
    }
}

/// A name, or an absolute path.
fn is_program(text: &str) -> bool {
    Path::new(text).is_absolute() || !(text.is_empty() || text.contains(['/', '\0']))
}

fn is_host(text: &str) -> bool {
    let parsed = url::Url::parse(&format!("http://{text}/"));
    !text.is_empty()
        && !text.contains(['/', '@', '?', '#', '*', '\\'])
        && parsed.is_ok_and(|url| url.host_str().is_some() && url.path() == "/")
}

fn is_origin(text: &str) -> bool {
    let parsed = url::Url::parse(text);
    parsed.is_ok_and(|url| url.origin().is_tuple() && url.origin().ascii_serialization() == text)
}
