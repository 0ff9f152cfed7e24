//! From a checked tree to [`Settings`]: what the tables of `shapes` cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::shapes::{BOUNDS, FILE, FILE_VERSION};
use super::{AgentSettings, LimitSettings, ProfileSettings, Settings};
use crate::grants::is_variable_name;
use crate::limits::TOOL_NAME_BYTES_MAX;
use crate::manifest::node::{self, Entry, Node, Place};
use crate::manifest::problem::{Problems, Source};
use crate::manifest::sandbox::tidy;
use crate::manifest::shape::{self, shown};
use crate::uri::is_declared_name;

/// Collects what the file and then the variables say.
pub(super) struct Reader {
    /// What is being read, for messages.
    pub(super) source: Source,
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
            Ok((source, root)) => {
                self.source = source;
                self.take(&root, path.parent().unwrap_or_else(|| Path::new("")));
            }
            Err(problem) => self.problems.push(*problem),
        }
    }

    pub(super) fn refuse(&mut self, at: Place, reason: impl Into<String>, help: impl Into<String>) {
        self.problems.invalid(&self.source, at, reason, help);
    }

    /// Takes over every key that a tree has, if it has the right shape.
    pub(super) fn take(&mut self, root: &Node, base: &Path) {
        if !shape::check(&mut self.problems.of(&self.source), root, &FILE, "") {
            return;
        }
        if root.number(&["version"]) != Some(FILE_VERSION) {
            let help = format!("this host reads `version: {FILE_VERSION}`");
            self.refuse(root.place(&["version"]), "the runtime file has another version", help);
        }
        if let Some(state) = root.text(&["state"]) {
            self.settings.state = Some(tidy(&base.join(state)));
        }
        if let Some(directory) = root.text(&["tools", "directory"]) {
            self.settings.tools.directory = Some(tidy(&base.join(directory)));
        }
        self.take_names(root);
        self.take_limits(root);
        self.take_http(root);
        self.take_audit(root, base);
        if let Some(agents) = root.get(&["agents"]) {
            self.settings.agents = self.take_agents(agents);
        }
        if let Some(providers) = root.get(&["providers"]) {
            self.settings.providers = self.take_providers(providers);
        }
        if let Some(registries) = root.get(&["registries"]) {
            self.settings.registries = self.take_registries(registries);
        }
        if let Some(profiles) = root.get(&["profiles"]) {
            let profiles = profiles.entries().iter();
            self.settings.profiles =
                profiles.map(|entry| (entry.key.clone(), self.take_profile(entry))).collect();
        }
    }

    fn take_names(&mut self, root: &Node) {
        if root.get(&["tools", "replace_builtins"]).is_none() {
            return;
        }
        let mut names = BTreeSet::new();
        for (node, name) in root.texts(&["tools", "replace_builtins"]) {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.bytes().all(fits) {
                let reason = format!("`{}` is no tool name", shown(name));
                self.refuse(node.at, reason, "write a built-in tool's name: `read_file`");
            }
            names.insert(name.to_owned());
        }
        self.settings.tools.replace_builtins = names;
    }

    fn take_limits(&mut self, root: &Node) {
        for (key, ceiling, _) in BOUNDS {
            let path = ["limits", key];
            let Some(number) = root.number(&path) else { continue };
            if number > ceiling {
                let help = format!("the most it may be is {ceiling}");
                self.refuse(root.place(&path), format!("`limits.{key}` is {number}"), help);
            } else {
                self.settings.limits.set(key, number);
            }
        }
    }

    fn take_http(&mut self, root: &Node) {
        if let Some(node) = root.get(&["http", "address"]) {
            match node.as_text().unwrap_or_default().parse() {
                Ok(address) => self.settings.http.address = Some(address),
                Err(_) => {
                    let help = "write an address and a port: 127.0.0.1:8080 or [::1]:8080";
                    self.refuse(node.at, "`http.address` is no socket address", help);
                }
            }
        }
        if root.get(&["http", "allowed_hosts"]).is_some() {
            let help = "write `name` or `name:port`";
            self.settings.http.allowed_hosts = self.take_list(root, "allowed_hosts", help, is_host);
        }
        if root.get(&["http", "allowed_origins"]).is_some() {
            let help = "write `https://name` or `https://name:port`, without a path";
            self.settings.http.allowed_origins =
                self.take_list(root, "allowed_origins", help, is_origin);
        }
    }

    fn take_list(
        &mut self,
        root: &Node,
        key: &str,
        help: &str,
        fits: fn(&str) -> bool,
    ) -> Vec<String> {
        let checked = root.texts(&["http", key]).inspect(|(node, text)| {
            if !fits(text) {
                let reason = format!("`{}` does not belong into `http.{key}`", shown(text));
                self.refuse(node.at, reason, help);
            }
        });
        checked.map(|(_, text)| text.to_owned()).collect()
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
        if !is_declared_name(name) {
            let help = "1 to 63 letters, digits and hyphens, the first a letter or digit";
            self.refuse(at, format!("{reason} is not allowed"), help);
        } else if !seen.insert(name.to_owned()) {
            self.refuse(at, format!("{reason} is there twice"), format!("name each {what} once"));
        }
        name.to_owned()
    }

    fn take_agents(&mut self, agents: &Node) -> Vec<AgentSettings> {
        let mut seen = BTreeSet::new();
        let agents = agents.items().iter();
        let agent = |agent: &Node| AgentSettings {
            name: self.take_name("agent", agent, &mut seen),
            elicitation: agent.flag(&["elicitation"]).unwrap_or(false),
            identity: agent.text(&["identity"]).map(str::to_owned),
            source: self.source.clone(),
            at: agent.place(&["identity"]),
        };
        agents.map(agent).collect()
    }

    fn take_profile(&mut self, entry: &Entry) -> ProfileSettings {
        let ports = entry.node.get(&["ports"]).map(|ports| self.take_ports(ports));
        let mut env = BTreeMap::new();
        for variable in entry.node.get(&["env"]).map(Node::entries).unwrap_or_default() {
            let value = variable.node.as_text().unwrap_or_default();
            if !is_variable_name(&variable.key) || value.contains('\0') {
                let reason = format!("`{}` is no environment variable", shown(&variable.key));
                let help =
                    "letters, digits and `_`, the first no digit; the value without a zero byte";
                self.refuse(variable.at, reason, help);
            }
            env.insert(variable.key.clone(), value.to_owned());
        }

        let provider = entry.node.flag(&["provider"]).unwrap_or(false);
        let secrets = entry.node.get(&["secrets"]).map(|list| self.take_secrets(list));
        let secrets = secrets.unwrap_or_default();
        let (source, at) = (self.source.clone(), entry.at);
        ProfileSettings { env, ports, provider, secrets, source, at }
    }

    fn take_ports(&mut self, ports: &Node) -> Vec<u16> {
        let mut list = Vec::new();
        for node in ports.items() {
            match node.number(&[]).map(u16::try_from) {
                Some(Ok(port)) => list.push(port),
                _ => self.refuse(node.at, "not a port", "write a number from 1 to 65535"),
            }
        }
        list
    }
}

impl LimitSettings {
    pub(super) fn set(&mut self, key: &str, number: u64) {
        let size = usize::try_from(number).unwrap_or(usize::MAX);
        match key {
            "arguments_bytes_max" => self.arguments_bytes_max = size,
            "calls_running_max" => self.calls_running_max = size,
            "calls_waiting_max" => self.calls_waiting_max = size,
            "reply_bytes_max" => self.reply_bytes_max = size,
            _ => self.shutdown_grace_ms = number,
        }
    }
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
