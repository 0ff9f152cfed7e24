//! From a checked tree to [`Settings`]: what the tables of `shapes` cannot say.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::shapes::{FILE, LIMITS};
use super::{AgentSettings, LimitSettings, OWN_PRINCIPALS, ProfileSettings, Settings};
use crate::egress::HostPattern;
use crate::grants::is_variable_name;
use crate::limits::TOOL_NAME_BYTES_MAX;
use crate::manifest::node::{self, Entry, Node, Place};
use crate::manifest::problem::{Problems, Source};
use crate::manifest::sandbox::{read_host, tidy};
use crate::manifest::shape::{self, shown};

/// Collects what the file and then the variables say.
pub(super) struct Reader {
    /// What is being read, for messages.
    pub(super) source: Arc<Source>,
    pub(super) settings: Settings,
    pub(super) problems: Problems,
}

impl Default for Reader {
    fn default() -> Self {
        let source = Source::new(Path::new(""), "");
        Self { source, settings: Settings::default(), problems: Problems::default() }
    }
}

impl Reader {
    pub(super) fn file(&mut self, path: &Path, bytes: &[u8]) {
        match node::parse(path, bytes) {
            Ok(root) => {
                self.source = Arc::clone(&root.at.source);
                self.take(&root, path.parent().unwrap_or_else(|| Path::new("")));
            }
            Err(problem) => self.problems.push(*problem),
        }
    }

    pub(super) fn refuse(
        &mut self,
        at: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.invalid(at, reason, help);
    }

    /// Takes over every key that a tree has, if it has the right shape.
    pub(super) fn take(&mut self, root: &Node, base: &Path) {
        if !shape::check(&mut self.problems, root, &FILE, "") {
            return;
        }
        if let Some(state) = root.text(&["state"]) {
            self.settings.state = Some(tidy(&base.join(state)));
        }
        self.take_tools(root, base);
        self.take_limits(root);
        self.take_http(root);
        self.take_proxy(root);
        self.take_audit(root, base);
        self.take_governance(root, base);
        if let Some(agents) = root.get(&["agents"]) {
            self.settings.agents = self.take_agents(agents, base);
        }
        if let Some(channels) = root.get(&["channels"]) {
            self.settings.channels = self.take_channels(channels, base);
        }
        if let Some(filters) = root.get(&["filters"]) {
            self.settings.filters = self.take_filters(filters);
        }
        if let Some(providers) = root.get(&["providers"]) {
            self.settings.providers = self.take_providers(providers);
        }
        if let Some(oci) = root.get(&["oci"]) {
            self.settings.oci = self.take_oci(oci);
        }
        if let Some(registries) = root.get(&["registries"]) {
            self.settings.registries = self.take_registries(registries);
        }
        if let Some(registry) = root.get(&["registry"]) {
            self.take_releases(registry, base);
        }
        if let Some(profiles) = root.get(&["profiles"]) {
            let profiles = profiles.entries().iter();
            self.settings.profiles =
                profiles.map(|entry| (entry.key.clone(), self.take_profile(entry))).collect();
        }
    }

    fn take_tools(&mut self, root: &Node, base: &Path) {
        let Some(tools) = root.get(&["tools"]) else { return };
        if let Some(directory) = tools.text(&["directory"]) {
            self.settings.tools.directory = Some(tidy(&base.join(directory)));
            self.settings.tools.directory_at = tools.place(&["directory"]).clone();
        }
        if tools.get(&["replace_builtins"]).is_some() {
            let names = self.take_list(root, &["tools", "replace_builtins"], "read_file", is_tool);
            self.settings.tools.replace_builtins = names.into_iter().collect();
            self.settings.tools.replace_at = tools.place(&["replace_builtins"]).clone();
        }
        if tools.get(&["signed_by"]).is_some() {
            self.settings.tools.signed_by = self.take_keys(tools, &["signed_by"]);
        }
        if let Some(servers) = tools.get(&["mcp_servers"]) {
            self.settings.tools.mcp_servers = self.take_mcp_servers(servers, base);
        }
        if let Some(services) = tools.get(&["services"]) {
            self.settings.tools.services = self.take_services(services, base);
        }
        if let Some(catalog) = tools.read(&["catalog"]) {
            self.settings.tools.catalog = catalog;
        }
        if let Some(pins) = tools.read(&["pins"]) {
            self.settings.tools.pins = pins;
        }
        self.take_web(tools);
    }

    fn take_limits(&mut self, root: &Node) {
        for key in shape::keys(&LIMITS) {
            if let Some(number) = root.number(&["limits", key]) {
                self.settings.limits.set(key, number);
            }
        }
    }

    fn take_http(&mut self, root: &Node) {
        if let Some(address) = self.take_address(root, "address") {
            self.settings.http.address = Some(address);
        }
        if let Some(address) = self.take_address(root, "metrics") {
            self.settings.http.metrics = Some(address);
        }
        if root.get(&["http", "allowed_hosts"]).is_some() {
            let right = "name` or `name:port";
            self.settings.http.allowed_hosts =
                self.take_list(root, &["http", "allowed_hosts"], right, is_host);
        }
        if let Some(console) = root.flag(&["http", "console"]) {
            self.settings.http.console = Some(console);
        }
        if root.get(&["http", "allowed_origins"]).is_some() {
            let right = "https://name` or `https://name:port";
            self.settings.http.allowed_origins =
                self.take_list(root, &["http", "allowed_origins"], right, is_origin);
        }
    }

    fn take_address(&mut self, root: &Node, key: &str) -> Option<SocketAddr> {
        let node = root.get(&["http", key])?;
        let address = node.as_text().unwrap_or_default().parse().ok();
        if address.is_none() {
            let help = "write an address and a port: 127.0.0.1:8080 or [::1]:8080";
            self.refuse(&node.at, format!("`http.{key}` is no socket address"), help);
        }
        address
    }

    /// Returns the texts at a path, of which each has to fit; `right` is what would.
    fn take_list(
        &mut self,
        root: &Node,
        path: &[&str],
        right: &str,
        fits: fn(&str) -> bool,
    ) -> Vec<String> {
        let checked = root.texts(path).inspect(|(node, text)| {
            if !fits(text) {
                let reason = format!("`{}` does not belong into `{}`", shown(text), path.join("."));
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

    fn take_agents(&mut self, agents: &Node, base: &Path) -> Vec<AgentSettings> {
        let mut seen = BTreeSet::new();
        let agents = agents.items().iter();
        let agent = |agent: &Node| AgentSettings {
            name: self.take_agent_name(agent, &mut seen),
            elicitation: agent.flag(&["elicitation"]).unwrap_or(false),
            identity: agent.text(&["identity"]).map(str::to_owned),
            skills: agent
                .texts(&["skills"])
                .map(|(item, file)| (tidy(&base.join(file)), item.at.clone()))
                .collect(),
            at: agent.place(&["identity"]).clone(),
        };
        agents.map(agent).collect()
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
        self.take_list(node, &["programs"], "rg` or `/opt/tools/rg", is_program);
        ProfileSettings {
            secrets: self.take_secrets(node.list(&["secrets"])),
            signed_by: self.take_keys(node, &["signed_by"]),
            at: entry.at.clone(),
            ..node.read(&[]).unwrap_or_default()
        }
    }
}

impl LimitSettings {
    pub(super) fn set(&mut self, key: &str, number: u64) {
        let size = usize::try_from(number).unwrap_or(usize::MAX);
        match key {
            "arguments_bytes_max" => self.arguments_bytes_max = size,
            "calls_running_max" => self.calls_running_max = size,
            "calls_running_per_agent_max" => self.calls_running_per_agent_max = Some(size),
            "calls_waiting_max" => self.calls_waiting_max = size,
            "reply_bytes_max" => self.reply_bytes_max = size,
            _ => self.shutdown_grace_ms = number,
        }
    }
}

fn is_tool(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !text.is_empty() && text.len() <= TOOL_NAME_BYTES_MAX && text.bytes().all(fits)
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
