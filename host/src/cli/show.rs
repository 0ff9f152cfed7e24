//! Printing: tables for people, JSON for programs, and what a tool may touch in words.

use std::io::Write as _;

use clawhost_core::egress::HostRules;
use clawhost_core::grants::{Access, Grants, Shell};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// Prints a line to standard output. A closed pipe is the reader's wish, not an error.
pub(super) fn line(text: &str) {
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Prints a JSON value, indented.
pub(super) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Returns an empty table under `header`.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

/// Says in words what a tool may touch.
pub(super) fn touches(grants: &Grants) -> String {
    let mut parts: Vec<String> = grants
        .mounts
        .iter()
        .map(|mount| match mount.access {
            Access::ReadOnly => format!("reads {}", mount.host.display()),
            Access::ReadWrite => format!("reads and writes {}", mount.host.display()),
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
    parts.extend(match grants.shell {
        Shell::Deny => None,
        Shell::Full => Some("runs programs in the jail".to_owned()),
        Shell::Restricted => Some("restricted shell (not served yet: refused)".to_owned()),
    });
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}
