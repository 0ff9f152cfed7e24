//! `x-claw.mcp-stdio`: a service that is an MCP server on standard input and output, and no container of its own.

use std::path::Path;

use super::services::{is_program, secret_of, variables};
use super::{CLAW, parsed};
use crate::grants::is_variable_name;
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::{STRING, Shape, TEXT, opt, req, shape, shown};
use crate::manifest::{DocumentError, McpReach, McpServer, McpValue};

/// The key of such a service.
pub(super) const STDIO: &str = "mcp-stdio";
/// What such a service cannot be as well: one process has no agent of its own, and is there once.
const NOT_WITH: [&str; 3] = ["agent", "cllama", "count"];

shape! { pub(super) MCP_STDIO = { command!: TEXT, args: [STRING] } }

/// Reports a service that is a program and something else.
pub(super) fn check(service: &Entry, problems: &mut Problems) {
    let Some(claw) = service.node.get(&[CLAW]).filter(|_| is_program(&service.node)) else {
        return;
    };
    for other in NOT_WITH.iter().filter_map(|key| claw.entry(key)) {
        let reason = format!("`{}` beside `{STDIO}`", other.key);
        problems.invalid(&other.at, reason, format!("take it out, or `{STDIO}`"));
    }
}

/// Returns the service `name` of a pod as a server of this host's own, whose program runs under `sandbox` and gets the
/// variables that the pod states for it.
///
/// # Errors
/// Every problem of the pod; it has no such service, or nothing says which program that is.
pub fn pod_server(
    file: &Path,
    bytes: &[u8],
    name: &str,
    sandbox: &str,
) -> Result<McpServer, Vec<DocumentError>> {
    parsed(file, bytes, |root, problems| read(root, name, sandbox, problems))
}

fn read(root: &Node, name: &str, sandbox: &str, problems: &mut Problems) -> Option<McpServer> {
    let services = root.get(&["services"])?;
    let Some(service) = services.entry(name) else {
        let names = services.entries().iter().map(|entry| entry.key.as_str());
        let reason = format!("the pod has no service `{}`", shown(name));
        problems.missing(&services.at, reason, choices(name, names));
        return None;
    };
    check(service, problems);
    let Some(stdio) = service.node.get(&[CLAW, STDIO]) else {
        let reason = format!("nothing says which program `{}` is", shown(name));
        problems.missing(&service.at, reason, format!("add `{CLAW}.{STDIO}` with `command`"));
        return None;
    };
    let args = stdio.texts(&["args"]).map(|(_, text)| text.to_owned()).collect();
    let command = stdio.text(&["command"])?.to_owned();
    let env = variables(&service.node);
    let env = env.into_iter().filter_map(|one| variable(one, problems)).collect();
    let reach = McpReach::Program { command, args, env };
    Some(McpServer::new(name, reach, sandbox, &service.at.to_string()))
}

/// Returns a variable of a program. What Compose would take from its own environment, as nothing or another name
/// stands for it, is a secret here.
fn variable(
    (at, name, text): (&Place, &str, Option<String>),
    problems: &mut Problems,
) -> Option<(String, McpValue)> {
    let secret = secret_of(name, text.as_deref()).map(str::to_owned);
    let text = text.unwrap_or_default();
    let (wrong, help) = if !is_variable_name(name) || text.contains('\0') {
        ("is no variable", "letters, digits and `_`, the first no digit; no zero byte in its value")
    } else if secret.is_none() && text.contains('$') {
        ("has a `$` in its value", "write `${NAME}` alone, for the secret of that name")
    } else {
        return Some((name.to_owned(), secret.map_or(McpValue::Literal(text), McpValue::Secret)));
    };
    problems.invalid(at, format!("`{}` {wrong}", shown(name)), help);
    None
}
