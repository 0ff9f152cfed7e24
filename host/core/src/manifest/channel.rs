//! `kind: Channel`: a way to reach the agent. Checked here; used by no part of this version.

use super::node::Node;
use super::problem::Report;
use super::shape::{FLAG, POSITIVE, STRING, STRINGS, Shape, TEXT, opt, req};

const PAIRING: Shape =
    Shape::Record(&[req("code_expiry_minutes", &POSITIVE), req("max_pending", &POSITIVE)]);

const ROLE: Shape =
    Shape::Record(&[req("id", &STRING), req("role", &Shape::OneOf(&["admin", "user", "viewer"]))]);

const ACCESS: Shape = Shape::Record(&[
    req("mode", &Shape::OneOf(&["open", "allowlist", "pairing", "role-based"])),
    opt("allowed_ids", &STRINGS),
    opt("pairing", &PAIRING),
    opt("roles", &Shape::List { of: &ROLE, min: 0 }),
]);

const PROCESSING: Shape = Shape::Record(&[
    opt("max_message_length", &POSITIVE),
    opt(
        "rate_limit",
        &Shape::Record(&[opt("messages_per_minute", &POSITIVE), opt("burst", &POSITIVE)]),
    ),
    opt("typing_indicator", &FLAG),
    opt("read_receipts", &FLAG),
]);

const FEATURES: Shape = Shape::Record(&[
    opt("voice", &FLAG),
    opt("files", &FLAG),
    opt("reactions", &FLAG),
    opt("threads", &FLAG),
    opt("inline_images", &FLAG),
]);

const TRIGGER: Shape = Shape::Record(&[
    opt("schedule", &TEXT),
    opt("queue_name", &TEXT),
    opt("mailbox", &TEXT),
    opt("table", &TEXT),
    opt("events", &Shape::List { of: &Shape::OneOf(&["INSERT", "UPDATE", "DELETE"]), min: 1 }),
    opt("max_parallel", &POSITIVE),
    opt("overlap_policy", &Shape::OneOf(&["skip", "queue", "allow"])),
]);

const TYPES: Shape = Shape::OneOf(&[
    "telegram",
    "discord",
    "whatsapp",
    "slack",
    "email",
    "webhook",
    "cli",
    "voice",
    "web",
    "lark",
    "matrix",
    "line",
    "wechat",
    "qq",
    "dingtalk",
    "cron",
    "queue",
    "imap",
    "db-trigger",
    "custom",
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("type", &TYPES),
    req("transport", &Shape::OneOf(&["polling", "webhook", "websocket", "stdio"])),
    req("auth", &Shape::Record(&[req("secret_ref", &TEXT)])),
    opt("access_control", &ACCESS),
    opt("processing", &PROCESSING),
    opt("features", &FEATURES),
    opt("trigger", &TRIGGER),
]);

/// What each access mode needs; the other modes' keys are then out of place.
const MODE_KEYS: [(&str, &str); 3] =
    [("allowlist", "allowed_ids"), ("pairing", "pairing"), ("role-based", "roles")];

/// What each event-driven type needs in `trigger`.
const TRIGGER_KEYS: [(&str, &str); 4] =
    [("cron", "schedule"), ("queue", "queue_name"), ("imap", "mailbox"), ("db-trigger", "table")];

/// Checks what the shape cannot say: keys that depend on `type` and on `access_control.mode`.
pub(crate) fn check(spec: &Node, report: &mut Report<'_>) {
    check_trigger(spec, report);
    check_access(spec, report);
}

fn check_trigger(spec: &Node, report: &mut Report<'_>) {
    let kind = spec.text(&["type"]).unwrap_or_default();
    let needed = TRIGGER_KEYS.iter().find(|(name, _)| *name == kind).map(|(_, key)| *key);
    if let Some(key) = needed.filter(|key| spec.get(&["trigger", key]).is_none()) {
        let reason = format!("`spec.trigger.{key}` is missing");
        report.invalid(spec.at, reason, format!("`type: {kind}` needs it"));
    }
}

fn check_access(spec: &Node, report: &mut Report<'_>) {
    let Some(access) = spec.entry("access_control") else {
        return;
    };
    let mode = access.node.text(&["mode"]).unwrap_or_default();
    for (owner, key) in MODE_KEYS {
        match access.node.entry(key) {
            None if owner == mode => {
                let reason = format!("`spec.access_control.{key}` is missing");
                report.invalid(access.node.at, reason, format!("`mode: {mode}` needs it"));
            }
            Some(entry) if excludes(mode, key) => {
                let reason = format!("`{key}` does not go with `mode: {mode}`");
                report.invalid(entry.at, reason, format!("leave `{key}` out"));
            }
            _ => {}
        }
    }
}

fn excludes(mode: &str, key: &str) -> bool {
    matches!((mode, key), ("allowlist", "roles") | ("role-based", "allowed_ids"))
}
