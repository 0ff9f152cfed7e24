//! Printing: tables for people, JSON for programs, and what a tool may touch in words.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use clawhost_core::catalog::Tool;
use clawhost_core::egress::HostRules;
use clawhost_core::grants::{Access, Grants, Injection, NATIVE, Shell};
use clawhost_core::manifest::Manifest;
use clawhost_core::visible;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// Tables are never narrower than this.
const COLUMNS_MIN: u16 = 80;

/// Prints text to standard output: as it is into a pipe, made safe on a terminal, as much of
/// what is shown was written by others. A closed pipe is the reader's wish, not an error.
pub(super) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let shown =
        if out.is_terminal() { Cow::Owned(visible::block(text)) } else { Cow::Borrowed(text) };
    drop(writeln!(out, "{shown}"));
}

/// Prints a JSON value, indented.
pub(super) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Returns an empty table under `header`.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    // Some terminals say they have no columns; one letter a line helps nobody.
    if table.width().is_some_and(|columns| columns < COLUMNS_MIN) {
        table.set_width(COLUMNS_MIN);
    }
    table
}

/// Says in words what a tool may touch.
pub(super) fn touches(grants: &Grants) -> String {
    if grants.native {
        return NATIVE.to_owned();
    }
    let mut parts: Vec<String> = grants
        .mounts
        .iter()
        .map(|mount| match mount.access {
            Access::ReadOnly => format!("reads {}", near(&mount.host)),
            Access::ReadWrite => format!("reads and writes {}", near(&mount.host)),
        })
        .collect();
    parts.extend(grants.network.as_ref().map(|rules| {
        let inside = if rules.block_private { " outside private networks" } else { "" };
        match &rules.hosts {
            HostRules::Any => format!("any host{inside}"),
            HostRules::Only(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                format!("the hosts {}{inside}", hosts.join(", "))
            }
        }
    }));
    parts.extend(grants.secrets.iter().map(|secret| match secret.injection {
        Injection::HostBoundary => {
            let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
            format!("sends the secret {} to {}, unseen", secret.name, hosts.join(", "))
        }
        Injection::Environment | Injection::FileMount => {
            format!("reads the secret {}", secret.name)
        }
    }));
    parts.extend(grants.provider.then(|| "asks the manifest's language models".to_owned()));
    parts.extend(grants.agent.memory.then(|| "keeps keys and values for its agent".to_owned()));
    let channels: Vec<&str> = grants.agent.channels.iter().map(String::as_str).collect();
    if !channels.is_empty() {
        parts.push(format!("sends messages to {}", channels.join(", ")));
    }
    parts.extend(match grants.shell {
        Shell::Deny => None,
        Shell::Full => Some("runs programs in the jail".to_owned()),
        Shell::Restricted => Some("runs listed programs in the jail".to_owned()),
    });
    let has_shell = grants.wasm_shell != Shell::Deny;
    parts.extend(has_shell.then(|| "runs scripts without starting a program".to_owned()));
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

/// Says what a tool calls, where it is made of others: that is all it touches.
pub(super) fn calls(manifest: &Manifest, tool: &Tool) -> Option<String> {
    let composite = manifest.governance.of(tool)?.composite.as_ref()?;
    let tools: Vec<&str> = composite.steps.iter().map(|step| step.tool.as_str()).collect();
    Some(format!("calls {}", tools.join(", ")))
}

/// Shortens a path below the current directory.
fn near(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(&here) {
        Ok(below) if !here.as_os_str().is_empty() => format!("./{}", below.display()),
        _ => path.display().to_string(),
    }
}
