//! The variables `CLAWHOST_MCP_SERVERS`, `…_MCP_ENV_<NAME>` and `…_MCP_ENDPOINTS_<NAME>` (or the same
//! with `CRUVERO_`) say the same in one line: `name=program|argument;;name2=https://…`, `KEY=value,…`
//! and a list of the only addresses that the server may have. A backslash takes from the character
//! behind it any meaning that it has there. `<NAME>` is the server's in capitals, with `_` for `-`.
//!
//! Deliberately absent: secrets. These texts hold none.

use super::super::reader::Reader;
use super::super::variables::{entry, list, map, node_of, start, text};
use super::Servers;
use crate::grants::is_variable_name;
use crate::manifest::node::{Entry, Value};
use crate::manifest::shape::shown;
use crate::manifest::{McpEndpoint, McpReach, McpServer, McpValue};

/// What these variables begin with.
pub(in super::super) const MCP_PREFIXES: [&str; 2] = ["CLAWHOST_MCP_", "CRUVERO_MCP_"];

impl Reader {
    /// Adds the servers that variables say in one line.
    pub(in super::super) fn add_servers(&mut self, variables: &[(String, String)]) {
        let named = variables.iter().filter(|(name, _)| form(name) == Some(Form::Servers));
        for (name, value) in named {
            let lines = split(value, ";;").into_iter().filter(|one| !one.trim().is_empty());
            for mut entry in lines.map(server_node) {
                entry.node.stands_in(&start(name).source);
                self.root.put(&["tools", "mcp_servers", &entry.key], entry.node);
            }
        }
    }

    /// Reads the variables that are for one of `servers`.
    pub(in super::super) fn take_mcp_variables(
        &mut self,
        variables: &[(String, String)],
        servers: &mut Servers,
    ) {
        for (name, value) in variables {
            let wrong = match form(name) {
                Some(Form::Env(server)) => set_env(servers, server, value).err(),
                Some(Form::Endpoints(server)) => set_endpoints(servers, server, value).err(),
                Some(Form::Servers) | None => None,
            };
            if let Some((reason, help)) = wrong {
                self.refuse(&start(name), reason, help);
            }
        }
    }
}

/// What is wrong, and what would be right.
type Wrong = (String, &'static str);

fn set_env(servers: &mut Servers, server: &str, value: &str) -> Result<(), Wrong> {
    let mut pairs = Vec::new();
    for pair in split(value, ",").into_iter().filter(|pair| !pair.trim().is_empty()) {
        let halves = split(pair, "=");
        let name = unescaped(halves.first().copied().unwrap_or_default().trim());
        if halves.len() < 2 || !is_variable_name(&name) {
            let help = "put `\\` before a `,` that belongs to a value";
            return Err(("this is no `KEY=value` pair".to_owned(), help));
        }
        let rest = unescaped(&halves.get(1..).unwrap_or_default().join("="));
        pairs.push((name, McpValue::Literal(rest)));
    }
    match &mut meant(servers, server)?.reach {
        McpReach::Program { env, .. } => {
            env.retain(|(name, _)| !pairs.iter().any(|(other, _)| other == name));
            env.extend(pairs);
            Ok(())
        }
        McpReach::Url { .. } => {
            Err(("the server is a URL".to_owned(), "only a program has variables"))
        }
    }
}

fn set_endpoints(servers: &mut Servers, server: &str, value: &str) -> Result<(), Wrong> {
    let texts = split(value, ",").into_iter().map(str::trim).filter(|text| !text.is_empty());
    let endpoints = texts.map(|text| McpEndpoint::parse(&unescaped(text)));
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    meant(servers, server)?.pinned = Some(endpoints);
    Ok(())
}

/// Returns the server that a variable means.
fn meant<'s>(servers: &'s mut Servers, wanted: &str) -> Result<&'s mut McpServer, Wrong> {
    let is_it = |name: &str| name.to_ascii_uppercase().replace('-', "_") == wanted;
    let found = servers.iter_mut().find(|(name, _)| is_it(name));
    let reason = || format!("there is no MCP server `{}`", shown(wanted));
    let found = found.ok_or_else(|| (reason(), "declare it under `tools.mcp_servers`"))?;
    Ok(&mut found.1.server)
}

/// What a variable that is no key's own says.
#[derive(Debug, PartialEq, Eq)]
enum Form<'a> {
    Servers,
    Env(&'a str),
    Endpoints(&'a str),
}

fn form(variable: &str) -> Option<Form<'_>> {
    let rest = MCP_PREFIXES.iter().find_map(|prefix| variable.strip_prefix(prefix))?;
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
