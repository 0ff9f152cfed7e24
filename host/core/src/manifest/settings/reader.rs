//! From a checked tree to [`Settings`]: what the tables of `shapes` cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::shapes::{BOUNDS, FILE, FILE_VERSION};
use super::{AgentSettings, LimitSettings, ProfileSettings, Settings};
use crate::limits::TOOL_NAME_BYTES_MAX;
use crate::manifest::node::{self, Entry, Node};
use crate::manifest::problem::{Problems, Source};
use crate::manifest::sandbox::tidy;
use crate::manifest::shape::{self, shown};
use crate::uri::is_declared_name;

/// Collects what the file and then the variables say.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) settings: Settings,
    pub(super) problems: Problems,
}

impl Reader {
    pub(super) fn file(&mut self, path: &Path, bytes: &[u8]) {
        let (source, root) = match node::parse(path, bytes) {
            Ok(read) => read,
            Err(problem) => return self.problems.push(*problem),
        };
        if !shape::check(&source, &root, &FILE, "", &mut self.problems) {
            return;
        }
        self.check_version(&source, &root);
        let base = path.parent().unwrap_or_else(|| Path::new(""));
        self.take(&source, &root, base);
    }

    fn check_version(&mut self, source: &Source, root: &Node) {
        let Some(version) = root.get(&["version"]) else {
            return;
        };
        if root.number(&["version"]) != Some(FILE_VERSION) {
            let help = format!("this host reads `version: {FILE_VERSION}`");
            self.problems.invalid(source, version.at, "the runtime file has another version", help);
        }
    }

    /// Takes over every key that a checked tree has.
    pub(super) fn take(&mut self, source: &Source, root: &Node, base: &Path) {
        if let Some(state) = root.text(&["state"]) {
            self.settings.state = Some(tidy(&base.join(state)));
        }
        if let Some(directory) = root.text(&["tools", "directory"]) {
            self.settings.tools.directory = Some(tidy(&base.join(directory)));
        }
        self.take_names(source, root);
        self.take_limits(source, root);
        self.take_http(source, root);
        self.take_agents(source, root);
        self.take_audit(source, root, base);
        self.take_providers(source, root);
        self.take_registries(source, root);
        if let Some(profiles) = root.get(&["profiles"]) {
            self.settings.profiles.clear();
            profiles.entries().iter().for_each(|entry| self.take_profile(source, entry));
        }
    }

    fn take_names(&mut self, source: &Source, root: &Node) {
        if root.get(&["tools", "replace_builtins"]).is_none() {
            return;
        }
        let mut names = BTreeSet::new();
        for (node, name) in root.texts(&["tools", "replace_builtins"]) {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.bytes().all(fits) {
                let reason = format!("`{}` is no tool name", shown(name));
                self.problems.invalid(
                    source,
                    node.at,
                    reason,
                    "write a built-in tool's name: `read_file`",
                );
            }
            names.insert(name.to_owned());
        }
        self.settings.tools.replace_builtins = names;
    }

    fn take_limits(&mut self, source: &Source, root: &Node) {
        for (key, ceiling, _) in BOUNDS {
            let path = ["limits", key];
            let (Some(number), Some(node)) = (root.number(&path), root.get(&path)) else {
                continue;
            };
            if number > ceiling {
                let reason = format!("`limits.{key}` is {number}");
                self.problems.invalid(
                    source,
                    node.at,
                    reason,
                    format!("the most it may be is {ceiling}"),
                );
            } else {
                self.settings.limits.set(key, number);
            }
        }
    }

    fn take_http(&mut self, source: &Source, root: &Node) {
        if let Some(node) = root.get(&["http", "address"]) {
            match node.as_text().unwrap_or_default().parse() {
                Ok(address) => self.settings.http.address = Some(address),
                Err(_) => {
                    let help = "write an address and a port: 127.0.0.1:8080 or [::1]:8080";
                    self.problems.invalid(
                        source,
                        node.at,
                        "`http.address` is no socket address",
                        help,
                    );
                }
            }
        }
        if root.get(&["http", "allowed_hosts"]).is_some() {
            let help = "write `name` or `name:port`";
            self.settings.http.allowed_hosts =
                self.take_list(source, root, "allowed_hosts", help, is_host);
        }
        if root.get(&["http", "allowed_origins"]).is_some() {
            let help = "write `https://name` or `https://name:port`, without a path";
            self.settings.http.allowed_origins =
                self.take_list(source, root, "allowed_origins", help, is_origin);
        }
    }

    fn take_list(
        &mut self,
        source: &Source,
        root: &Node,
        key: &str,
        help: &str,
        fits: fn(&str) -> bool,
    ) -> Vec<String> {
        let items = root.texts(&["http", key]);
        let checked = items.inspect(|(node, text)| {
            if !fits(text) {
                let reason = format!("`{}` does not belong into `http.{key}`", shown(text));
                self.problems.invalid(source, node.at, reason, help);
            }
        });
        checked.map(|(_, text)| text.to_owned()).collect()
    }

    fn take_agents(&mut self, source: &Source, root: &Node) {
        let Some(agents) = root.get(&["agents"]) else {
            return;
        };
        self.settings.agents.clear();
        for agent in agents.items() {
            let name = agent.text(&["name"]).unwrap_or_default().to_owned();
            let at = agent.get(&["name"]).map_or(agent.at, |node| node.at);
            let reason = format!("the agent name `{}`", shown(&name));
            if !is_declared_name(&name) {
                let help = "1 to 63 letters, digits and hyphens, the first a letter or digit";
                self.problems.invalid(source, at, format!("{reason} is not allowed"), help);
            }
            if self.settings.agents.iter().any(|other| other.name == name) {
                self.problems.invalid(
                    source,
                    at,
                    format!("{reason} is there twice"),
                    "name each agent once",
                );
            }
            let elicitation = agent.flag(&["elicitation"]).unwrap_or(false);
            self.settings.agents.push(AgentSettings { name, elicitation });
        }
    }

    fn take_profile(&mut self, source: &Source, entry: &Entry) {
        let ports = entry.node.get(&["ports"]).map(|ports| self.take_ports(source, ports));
        let mut env = BTreeMap::new();
        for variable in entry.node.get(&["env"]).map(Node::entries).unwrap_or_default() {
            let value = variable.node.as_text().unwrap_or_default();
            if !is_variable(&variable.key) || value.contains('\0') {
                let reason = format!("`{}` is no environment variable", shown(&variable.key));
                let help =
                    "letters, digits and `_`, the first no digit; the value without a zero byte";
                self.problems.invalid(source, variable.at, reason, help);
            }
            env.insert(variable.key.clone(), value.to_owned());
        }

        let provider = entry.node.flag(&["provider"]).unwrap_or(false);
        let secrets = entry.node.get(&["secrets"]).map(|list| self.take_secrets(source, list));
        let secrets = secrets.unwrap_or_default();
        let (source, at) = (source.clone(), entry.at);
        let settings = ProfileSettings { env, ports, provider, secrets, source, at };
        self.settings.profiles.insert(entry.key.clone(), settings);
    }

    fn take_ports(&mut self, source: &Source, ports: &Node) -> Vec<u16> {
        let mut list = Vec::new();
        for node in ports.items() {
            match node.number(&[]).map(u16::try_from) {
                Some(Ok(port)) => list.push(port),
                _ => self.problems.invalid(
                    source,
                    node.at,
                    "not a port",
                    "write a number from 1 to 65535",
                ),
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

pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
