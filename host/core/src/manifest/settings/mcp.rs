//! `tools.mcp_servers`: the MCP servers that a host may bridge, and how each is reached.

mod auth;
mod line;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::line::{MCP_PREFIXES, is_mcp_variable};
use super::reader::Reader;
use crate::egress::check_request;
use crate::exposed::{ExposedKind, Exposure};
use crate::grants::{is_secret_name, is_variable_name};
use crate::limits::{MCP_SERVER_NAME_BYTES_MAX, MCP_SERVERS_MAX};
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::shown;
use crate::manifest::{Manifest, McpEndpoint, McpReach, McpServer, McpValue, PROFILE_NONE};

/// What messages call a variable.
const VARIABLE: &str = "environment variable";

/// One of `tools.mcp_servers`, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerSettings {
    /// What it says.
    pub server: McpServer,
    at: Place,
}

/// All of `tools.mcp_servers`, by name.
pub(super) type Servers = BTreeMap<String, McpServerSettings>;

/// Returns what of a server is served beside its tools. Which words there are, the shape says.
fn exposed(node: &Node) -> Exposure {
    let is_named = |name: &str| node.texts(&["expose"]).any(|(_, text)| text == name);
    let kinds = ExposedKind::ALL.into_iter().filter(|kind| is_named(kind.name())).collect();
    Exposure { kinds, questions: is_named("questions") }
}

impl Reader {
    pub(super) fn take_mcp_servers(&mut self, servers: &Node) -> Servers {
        let servers = servers.entries().iter();
        servers.filter_map(|entry| Some((entry.key.clone(), self.take_server(entry)?))).collect()
    }

    fn take_server(&mut self, entry: &Entry) -> Option<McpServerSettings> {
        let (node, name) = (&entry.node, &entry.key);
        if !is_server_name(name) {
            let reason = format!("the server name `{}` is not allowed", shown(name));
            let help = format!(
                "1 to {MCP_SERVER_NAME_BYTES_MAX} letters, digits, `-` and `_`; the first and the last no `_`, and no two `_` together"
            );
            self.refuse(&entry.at, reason, help);
        }
        let stated = |key| node.text(&[key]).filter(|text| !text.is_empty());
        let reach = match (stated("command"), stated("url")) {
            (Some(command), None) => self.take_program(node, command),
            (None, Some(url)) => self.take_url(node, url)?,
            _ => {
                let reason = format!("the server `{}` is not reached in one way", shown(name));
                self.refuse(&entry.at, reason, "write one of `command: PROGRAM` and `url: URL`");
                return None;
            }
        };
        let server = McpServer {
            name: name.clone(),
            reach,
            endpoint: stated("endpoint")
                .and_then(|text| self.take_endpoint(node, "endpoint", text)),
            pinned: None,
            internal_only: node.flag(&["internal_only"]).unwrap_or(true),
            expose: exposed(node),
            sandbox: stated("sandbox").unwrap_or(PROFILE_NONE).to_owned(),
            policy: stated("policy").map(str::to_owned),
            at: entry.at.to_string(),
        };
        Some(McpServerSettings { server, at: entry.at.clone() })
    }

    fn take_endpoint(&mut self, node: &Node, key: &str, text: &str) -> Option<McpEndpoint> {
        let read = McpEndpoint::parse(text);
        read.map_err(|(reason, help)| self.refuse(node.place(&[key]), reason, help)).ok()
    }

    fn take_program(&mut self, node: &Node, command: &str) -> McpReach {
        for key in ["headers", "bearer", "auth"] {
            if let Some(entry) = node.entry(key) {
                self.refuse(
                    &entry.at,
                    format!("`{key}` for a program"),
                    "only a `url` is sent any",
                );
            }
        }
        let is_path = command.contains('/') && !command.starts_with('/');
        let path = self.path(node.below("command")).filter(|_| is_path);
        let command = path.map_or_else(|| command.to_owned(), |path| path.display().to_string());
        let args: Vec<String> = node.texts(&["args"]).map(|(_, text)| text.to_owned()).collect();
        if args.iter().chain([&command]).any(|text| text.contains('\0')) {
            self.refuse(&node.at, "a zero byte in a command line", "take it out");
        }
        let env = self.take_values(node, "env", "env");
        self.check_names(node, &env, is_variable_name, VARIABLE);
        McpReach::Program { command, args, env }
    }

    fn take_url(&mut self, node: &Node, url: &str) -> Option<McpReach> {
        for key in ["args", "env"] {
            let entry = node.entry(key).filter(|entry| {
                !(entry.node.items().is_empty() && entry.node.entries().is_empty())
            });
            if let Some(entry) = entry {
                self.refuse(
                    &entry.at,
                    format!("`{key}` for a URL"),
                    "only a `command` is given any",
                );
            }
        }
        let mut headers = self.take_values(node, "headers", "header");
        if let Some(name) = node.text(&["bearer"]) {
            self.check_secret_name(name, node.place(&["bearer"]));
            headers.push(("Authorization".to_owned(), McpValue::Bearer(name.to_owned())));
        }
        self.check_names(node, &headers, is_header, "header that may be sent");
        let auth = node.get(&["auth"]).map(|auth| self.take_auth(auth, &headers));
        Some(McpReach::Url { url: self.take_endpoint(node, "url", url)?, headers, auth })
    }

    /// Returns what stands in words under `plain`, and the secrets that go into the same place.
    fn take_values(&mut self, node: &Node, plain: &str, place: &str) -> Vec<(String, McpValue)> {
        let words = node.get(&[plain]).map(Node::entries).unwrap_or_default().iter();
        let words = words.map(|entry| {
            let text = entry.node.as_text().unwrap_or_default().to_owned();
            (entry.key.clone(), McpValue::Literal(text))
        });
        let mut values: Vec<_> = words.collect();
        for item in node.list(&["secrets"]) {
            let name = item.text(&["name"]).unwrap_or_default();
            self.check_secret_name(name, &item.at);
            let other = if place == "env" { "header" } else { "env" };
            let into = item.text(&[place]).or_else(|| (place == "env").then_some(name));
            if let (None, Some(into)) = (item.entry(other), into) {
                values.push((into.to_owned(), McpValue::Secret(name.to_owned())));
            } else {
                let reason = format!("the secret `{}` goes nowhere", shown(name));
                self.refuse(&item.at, reason, format!("write `{place}: NAME`"));
            }
        }
        values
    }

    fn check_secret_name(&mut self, name: &str, at: &Place) {
        if !is_secret_name(name) {
            let reason = format!("`{}` is no name of a secret", shown(name));
            self.refuse(at, reason, "write the name under which `clawhost secrets` has it");
        }
    }

    /// Every name can be one, has a value that can stand there, and is there once.
    fn check_names(
        &mut self,
        node: &Node,
        values: &[(String, McpValue)],
        fits: fn(&str) -> bool,
        what: &str,
    ) {
        let mut seen = BTreeSet::new();
        for (name, value) in values {
            let is_variable = what == VARIABLE;
            let wrong: &[char] = if is_variable { &['\0'] } else { &['\0', '\r', '\n'] };
            let is_fine = !matches!(value, McpValue::Literal(text) if text.contains(wrong));
            if !fits(name) || !is_fine {
                let reason = format!("`{}` is no {what}", shown(name));
                self.refuse(&node.at, reason, "look at its name, and for line breaks in its value");
            } else if !seen.insert(name.to_ascii_lowercase()) && !is_variable {
                let reason = format!("the header `{}` is there twice", shown(name));
                self.refuse(&node.at, reason, "send each header once");
            }
        }
    }
}

impl super::Settings {
    /// Gives the manifest its servers, each under a profile and a policy that are there.
    pub(super) fn apply_servers(&self, manifest: &mut Manifest, problems: &mut Problems) {
        let servers = &self.tools.mcp_servers;
        let mut seen = BTreeMap::new();
        for (name, McpServerSettings { server, at }) in servers {
            let key = name.to_ascii_lowercase().replace('_', "-");
            if let Some(first) = seen.insert(key, name) {
                let reason = format!("the servers `{first}` and `{name}` are called alike");
                problems.invalid(at, reason, "tools and policies could not tell them apart");
            }
            if !manifest.profiles.contains_key(&server.sandbox) {
                let reason = format!("there is no sandbox profile `{}`", shown(&server.sandbox));
                let help = choices(&server.sandbox, manifest.profiles.keys().map(String::as_str));
                problems.missing(at, reason, help);
            }
            let mut policies = manifest.policies.policies().iter().map(|policy| &policy.name);
            if let Some(policy) =
                server.policy.as_ref().filter(|name| policies.all(|one| one != *name))
            {
                let reason = format!("there is no policy `{}`", shown(policy));
                problems.missing(at, reason, "name one of the manifest's policies");
            }
        }
        if let Some(last) = servers.values().nth(MCP_SERVERS_MAX) {
            let reason = format!("more than {MCP_SERVERS_MAX} MCP servers");
            problems.invalid(&last.at, reason, "name fewer");
        }
        manifest.mcp_pins = self.tools.pins;
        manifest.mcp_servers = servers.values().map(|one| one.server.clone()).collect();
    }
}

/// Tools are called `<server>__<tool>`: where the server ends has to be plain to see.
fn is_server_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=MCP_SERVER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with('_')
        && !name.contains("__")
}

/// What the host itself says in each request of the protocol is not the operator's to say.
fn is_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let own = ["accept", "content-length", "content-type", "last-event-id"];
    !own.contains(&lower.as_str())
        && !lower.starts_with("mcp-")
        && check_request("POST", [(name, &b""[..])]).is_ok()
}
