//! Keys that depend on the value of another key, for all kinds: one table each.

use super::primitive::Document;
use super::problem::Problems;
use crate::uri::Kind;
use crate::uri::Kind::{Channel, Provider, Telemetry};

/// A kind, and the way to a mapping in its spec, through a list where there is one.
type At = (Kind, &'static [&'static str]);

const ACCESS: At = (Channel, &["access_control"]);
const AUTH: At = (Provider, &["auth"]);
const EXPORTER: At = (Telemetry, &["exporters"]);
const TYPE: At = (Channel, &[]);
const SECRET: &str = "secret_ref: <name of a secret>`, or write `type: none";

/// A key and a value of it, the way to what that needs in the same mapping, and what to write.
const NEEDS: [(At, [&str; 2], &[&str], &str); 14] = [
    (TYPE, ["type", "cron"], &["trigger", "schedule"], "trigger: { schedule: \"0 9 * * *\" }"),
    (TYPE, ["type", "queue"], &["trigger", "queue_name"], "trigger: { queue_name: <name> }"),
    (TYPE, ["type", "imap"], &["trigger", "mailbox"], "trigger: { mailbox: INBOX }"),
    (TYPE, ["type", "db-trigger"], &["trigger", "table"], "trigger: { table: <name> }"),
    (ACCESS, ["mode", "allowlist"], &["allowed_ids"], "allowed_ids: [<who may write>]"),
    (
        ACCESS,
        ["mode", "pairing"],
        &["pairing"],
        "pairing: { code_expiry_minutes: 10, max_pending: 3 }",
    ),
    (ACCESS, ["mode", "role-based"], &["roles"], "roles: [{ id: <who>, role: user }]"),
    (AUTH, ["type", "bearer"], &["secret_ref"], SECRET),
    (AUTH, ["type", "api-key-header"], &["secret_ref"], SECRET),
    (AUTH, ["type", "oauth2"], &["secret_ref"], SECRET),
    (EXPORTER, ["type", "otlp"], &["endpoint"], "endpoint: http://localhost:4318"),
    (EXPORTER, ["type", "webhook"], &["endpoint"], "endpoint: https://example.com/events"),
    (EXPORTER, ["type", "file"], &["path"], "path: telemetry.jsonl"),
    (EXPORTER, ["type", "sqlite"], &["path"], "path: telemetry.db"),
];

/// What does not go with an access mode, and the mode that it belongs to.
const EXCLUDED: [(&str, &str, &str); 2] =
    [("allowlist", "roles", "role-based"), ("role-based", "allowed_ids", "allowlist")];

/// Reports what is missing for what a document says, and what contradicts it.
pub(crate) fn check(of: &Document, report: &mut Problems) {
    for ((kind, at), [key, value], needs, example) in NEEDS {
        let nodes = of.spec.each(at).iter().filter(|_| of.is(kind));
        for node in nodes.filter(|node| node.text(&[key]) == Some(value)) {
            if node.get(needs).is_none_or(|node| node.as_text() == Some("")) {
                let reason = format!("`{}` is missing", needs.join("."));
                let help = format!("`{key}: {value}` needs it: add `{example}`");
                report.invalid(node.place(&[key]), reason, help);
            }
        }
    }
    let access = of.spec.get(&["access_control"]).filter(|_| of.is(Channel));
    for (mode, key, other) in EXCLUDED {
        let access = access.filter(|access| access.text(&["mode"]) == Some(mode));
        if let Some(entry) = access.and_then(|access| access.entry(key)) {
            let reason = format!("`{key}` does not go with `mode: {mode}`");
            report.invalid(
                &entry.at,
                reason,
                format!("take `{key}` out, or write `mode: {other}`"),
            );
        }
    }
}
