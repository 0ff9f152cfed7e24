//! The variables `CLAWHOST_MCP_SERVERS`, `…_MCP_ENV_<NAME>` and `…_MCP_ENDPOINTS_<NAME>` (or the same
//! with `CRUVERO_`) say the same in one line: `name=program|argument;;name2=https://…`, `KEY=value,…`
//! and a list of the only addresses that the server may have. A backslash takes from the character
//! behind it any meaning that it has there. `<NAME>` is the server's in capitals, with `_` for `-`.
//!
//! Deliberately absent: secrets. These texts hold none.

use std::path::Path;

use super::super::reader::Reader;
use super::super::variables::{entry, list, map, node_of, text};
use super::super::{Place, shown};
use crate::grants::is_variable_name;
use crate::manifest::node::{Entry, Value};
use crate::manifest::problem::Source;
use crate::manifest::{McpEndpoint, McpReach, McpServer, McpValue};

impl Reader {
    /// Reads the variables that say servers in one line, the servers before what is for one.
    pub(in super::super) fn take_mcp_variables(&mut self, variables: &[(String, String)]) {
        for (name, value) in variables.iter().filter(|(name, _)| form(name) == Some(Form::Servers))
        {
            self.source = Source::new(Path::new(name), "");
            let servers = split(value, ";;").into_iter().filter(|one| !one.trim().is_empty());
            let mut servers = map(servers.map(server_node).collect());
            servers.stands_in(&self.source);
            let servers = self.take_mcp_servers(&servers, Path::new(""));
            self.settings.tools.mcp_servers.extend(servers);
        }
        for (name, value) in variables {
            self.source = Source::new(Path::new(name), "");
            match form(name) {
                Some(Form::Env(server)) => self.take_env_variable(server, value),
                Some(Form::Endpoints(server)) => self.take_endpoints_variable(server, value),
                Some(Form::Servers) | None => {}
            }
        }
    }

    fn take_env_variable(&mut self, server: &str, value: &str) {
        let mut pairs = Vec::new();
        for pair in split(value, ",").into_iter().filter(|pair| !pair.trim().is_empty()) {
            let halves = split(pair, "=");
            let name = unescaped(halves.first().copied().unwrap_or_default().trim());
            if halves.len() < 2 || !is_variable_name(&name) {
                self.refuse(
                    &Place::start(&self.source),
                    "this is no `KEY=value` pair",
                    "put `\\` before a `,` that belongs to a value",
                );
                return;
            }
            let rest = unescaped(&halves.get(1..).unwrap_or_default().join("="));
            pairs.push((name, McpValue::Literal(rest)));
        }
        match self.meant(server).map(|server| &mut server.reach) {
            Some(McpReach::Program { env, .. }) => {
                env.retain(|(name, _)| !pairs.iter().any(|(other, _)| other == name));
                env.extend(pairs);
            }
            Some(McpReach::Url { .. }) => {
                self.refuse(
                    &Place::start(&self.source),
                    "the server is a URL",
                    "only a program has variables",
                );
            }
            None => {}
        }
    }

    fn take_endpoints_variable(&mut self, server: &str, value: &str) {
        let mut endpoints = Vec::new();
        for text in split(value, ",").into_iter().map(str::trim).filter(|text| !text.is_empty()) {
            match McpEndpoint::parse(&unescaped(text)) {
                Ok(endpoint) => endpoints.push(endpoint),
                Err((reason, help)) => {
                    return self.refuse(&Place::start(&self.source), reason, help);
                }
            }
        }
        if let Some(server) = self.meant(server) {
            server.pinned = Some(endpoints);
        }
    }

    /// Returns the server that a variable means; one that nobody declares is reported.
    fn meant(&mut self, wanted: &str) -> Option<&mut McpServer> {
        let key = |name: &str| name.to_ascii_uppercase().replace('-', "_");
        let mut names = self.settings.tools.mcp_servers.keys();
        let Some(name) = names.find(|name| key(name) == wanted).cloned() else {
            let reason = format!("there is no MCP server `{}`", shown(wanted));
            self.refuse(
                &Place::start(&self.source),
                reason,
                "declare it under `tools.mcp_servers`",
            );
            return None;
        };
        self.settings.tools.mcp_servers.get_mut(&name).map(|entry| &mut entry.server)
    }
}

/// What a variable that is no key's own says.
#[derive(Debug, PartialEq, Eq)]
enum Form<'a> {
    Servers,
    Env(&'a str),
    Endpoints(&'a str),
}

fn form(variable: &str) -> Option<Form<'_>> {
    let prefixes = ["CLAWHOST_MCP_", "CRUVERO_MCP_"];
    let rest = prefixes.iter().find_map(|prefix| variable.strip_prefix(prefix))?;
    match rest {
        "SERVERS" => Some(Form::Servers),
        _ => rest
            .strip_prefix("ENV_")
            .map(Form::Env)
            .or_else(|| rest.strip_prefix("ENDPOINTS_").map(Form::Endpoints)),
    }
}

/// Says whether a variable is one of those that say servers in one line.
pub(in super::super) fn is_mcp_variable(name: &str) -> bool {
    form(name).is_some()
}

/// Returns what `name=program|argument` says, as the file would. Who names a server here wants its
/// tools: they are served.
fn server_node(text: &str) -> Entry {
    let halves = split(text, "=");
    let name = unescaped(halves.first().copied().unwrap_or_default().trim());
    let line = halves.get(1..).unwrap_or_default().join("=");
    let mut words = split(&line, "|").into_iter().map(|word| unescaped(word.trim()));
    let first = words.next().unwrap_or_default();
    let is_url = first.starts_with("https://") || first.starts_with("http://");
    let words: Vec<String> = words.collect();
    let mut entries = vec![
        entry(if is_url { "url" } else { "command" }, self::text(&first)),
        entry("internal_only", node_of(Value::Flag(false))),
    ];
    if !words.is_empty() {
        entries.push(entry("args", list(words.iter().map(|word| self::text(word)))));
    }
    entry(&name, map(entries))
}

/// Splits at each `separator` that no backslash stands before; what is escaped stays so.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(separator) {
            parts.push(text.get(start..at).unwrap_or_default());
            at += separator.len();
            start = at;
            continue;
        }
        let taken = if rest.starts_with('\\') { 2 } else { 1 };
        at += rest.chars().take(taken).map(char::len_utf8).sum::<usize>();
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    plain
}
