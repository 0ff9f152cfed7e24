//! `kind: Policy`: the rules a call has to pass, read into [`crate::policy`].
//!
//! Closed as the protocol has it, with one documented extension: `match.name`, a tool's name or
//! a prefix followed by `*`. Whatever a rule promises and this version does not do is refused:
//! a protection that is written down but absent is worse than none.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node::Node;
use super::primitive::Primitive;
use super::problem::Problems;
use super::shape::{COUNT, DURATION, FLAG, NUMBER, POSITIVE, STRING, Shape, TEXT, opt, req, shown};
use super::tool::{ANNOTATIONS, check_hints};
use crate::policy::{Action, ApprovalTerms, Match, Policy, Rule};
use crate::uri::is_name;

const MATCH: Shape = Shape::Record(&[
    opt("annotations", &ANNOTATIONS),
    opt("category", &STRING),
    opt("name", &TEXT),
]);

const APPROVAL: Shape = Shape::Record(&[
    opt("timeout_seconds", &POSITIVE),
    opt("default_if_timeout", &Shape::OneOf(&["deny", "allow"])),
]);

const RULE: Shape = Shape::Record(&[
    req("id", &TEXT),
    req("action", &Shape::OneOf(&["allow", "deny", "require-approval", "audit-only"])),
    req("scope", &Shape::OneOf(&["tool", "category", "all"])),
    opt("match", &MATCH),
    opt("reason", &STRING),
    opt("approval", &APPROVAL),
    opt("conditions", &Shape::OpenRecord(&[opt("path_within", &STRING)])),
    opt(
        "rate_limit",
        &Shape::Record(&[opt("cost_per_day_usd", &NUMBER), opt("tokens_per_day", &COUNT)]),
    ),
]);

const INJECTION: Shape = Shape::Record(&[
    opt("detection", &Shape::OneOf(&["pattern", "llm-based", "hybrid", "none"])),
    opt("pattern_engine", &STRING),
    opt("pattern_count", &COUNT),
    opt("action", &Shape::OneOf(&["block-and-log", "warn", "log-only", "ignore"])),
]);

const SCANNING: Shape = Shape::Record(&[
    opt("enabled", &FLAG),
    opt("scope", &Shape::OneOf(&["input", "output", "both"])),
    opt("patterns", &COUNT),
    opt("action", &Shape::OneOf(&["redact", "block", "warn"])),
]);

const VALIDATION: Shape = Shape::Record(&[
    opt("max_size_bytes", &COUNT),
    opt("null_byte_detection", &FLAG),
    opt("whitespace_analysis", &FLAG),
    opt("encoding", &STRING),
]);

const RATES: Shape = Shape::Record(&[
    opt("tool_calls_per_minute", &COUNT),
    opt("tokens_per_hour", &COUNT),
    opt("cost_per_day_usd", &NUMBER),
]);

const AUDIT: Shape = Shape::Record(&[
    opt("log_inputs", &FLAG),
    opt("log_outputs", &FLAG),
    opt("log_approvals", &FLAG),
    opt("retention", &DURATION),
    opt("destination", &Shape::OneOf(&["file", "sqlite", "webhook", "syslog"])),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("rules", &Shape::List { of: &RULE, min: 1 }),
    opt("prompt_injection", &INJECTION),
    opt("secret_scanning", &SCANNING),
    opt("input_validation", &VALIDATION),
    opt("rate_limits", &RATES),
    opt("audit", &AUDIT),
]);

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Primitive, problems: &mut Problems) {
    let mut ids = BTreeSet::new();
    for rule in rules(&of.spec) {
        let id = rule.text(&["id"]).unwrap_or_default();
        if !ids.insert(id) {
            let reason = format!("rule `{}` is there twice", shown(id));
            problems.invalid(&of.source, rule.at, reason, "give each rule an id of its own");
        }
        check_scope(of, rule, problems);
        check_name(of, rule, problems);
        if let Some(annotations) = rule.get(&["match", "annotations"]) {
            check_hints(&of.source, annotations, problems);
        }
        check_served(of, rule, problems);
    }
    check_blocks_served(of, problems);
}

/// Returns the policy a checked document holds.
pub(crate) fn read(of: &Primitive) -> Policy {
    Policy {
        name: of.name.clone(),
        rules: rules(&of.spec).iter().map(|rule| read_rule(of, rule)).collect(),
    }
}

fn read_rule(of: &Primitive, rule: &Node) -> Rule {
    let annotations = rule.get(&["match", "annotations"]).map(Node::to_json);
    Rule {
        id: rule.text(&["id"]).unwrap_or_default().to_owned(),
        action: action(rule),
        matches: Match {
            name: rule.text(&["match", "name"]).map(str::to_owned),
            category: rule.text(&["match", "category"]).map(str::to_owned),
            annotations: annotations
                .as_ref()
                .and_then(|value| value.as_object())
                .cloned()
                .unwrap_or_default(),
        },
        reason: rule.text(&["reason"]).map(str::to_owned),
        approval: ApprovalTerms {
            timeout: rule.number(&["approval", "timeout_seconds"]).map(Duration::from_secs),
            allow_on_timeout: rule.text(&["approval", "default_if_timeout"]) == Some("allow"),
        },
        at: of.source.location(rule.at),
    }
}

/// Whatever is not plainly one of the relaxing actions denies.
fn action(rule: &Node) -> Action {
    match rule.text(&["action"]) {
        Some("allow") => Action::Allow,
        Some("audit-only") => Action::AuditOnly,
        Some("require-approval") => Action::RequireApproval,
        _ => Action::Deny,
    }
}

fn rules(spec: &Node) -> &[Node] {
    spec.get(&["rules"]).map(Node::items).unwrap_or_default()
}

/// A scope that promises a condition has to have it: `scope: tool` without one would be `all`.
fn check_scope(of: &Primitive, rule: &Node, problems: &mut Problems) {
    let has = |key: &str| rule.get(&["match", key]).is_some_and(|node| !is_empty(node));
    let help = match rule.text(&["scope"]) {
        Some("tool") if !has("name") && !has("annotations") && !has("category") => {
            "add `match.name` (or `match.annotations`), or write `scope: all`"
        }
        Some("category") if !has("category") => "add `match.category`, or write `scope: all`",
        _ => return,
    };
    let at = rule.entry("scope").map_or(rule.at, |scope| scope.at);
    problems.invalid(&of.source, at, "the rule's scope has nothing to match", help);
}

fn is_empty(node: &Node) -> bool {
    node.entries().is_empty() && node.as_text().is_none_or(str::is_empty)
}

fn check_name(of: &Primitive, rule: &Node, problems: &mut Problems) {
    let Some(name) = rule.get(&["match", "name"]) else {
        return;
    };
    let text = name.as_text().unwrap_or_default();
    let fixed = text.strip_suffix('*').unwrap_or(text);
    if !(is_name(fixed) || (fixed.is_empty() && text == "*")) {
        let reason = format!("`match.name` is `{}`", shown(text));
        let help = "write a tool's name as it is in claw://local/tool/<name> (read-file), or a prefix and `*` (read-*)";
        problems.invalid(&of.source, name.at, reason, help);
    }
}

fn check_served(of: &Primitive, rule: &Node, problems: &mut Problems) {
    for key in ["conditions", "rate_limit"] {
        if let Some(entry) = rule.entry(key) {
            let reason = format!("`{key}` of a rule is not served by this version");
            let help = "take it out: a rule that ignored it would mean something else";
            problems.invalid(&of.source, entry.at, reason, help);
        }
    }
}

fn check_blocks_served(of: &Primitive, problems: &mut Problems) {
    let spec = &of.spec;
    let off = [
        ("prompt_injection", spec.text(&["prompt_injection", "detection"]) == Some("none")),
        ("secret_scanning", spec.flag(&["secret_scanning", "enabled"]) == Some(false)),
        ("input_validation", false),
        ("rate_limits", false),
        ("audit", audit_is_served(spec)),
    ];
    for (key, harmless) in off {
        if let Some(entry) = spec.entry(key).filter(|_| !harmless) {
            let reason = format!("`spec.{key}` is not served by this version");
            let help = match key {
                "prompt_injection" => "take it out, or write `detection: none`",
                "secret_scanning" => "take it out, or write `enabled: false`",
                "audit" => {
                    "every call is recorded in the state folder: only `destination: file` and `log_…: true` are possible"
                }
                _ => "take it out: nothing would enforce it",
            };
            problems.invalid(&of.source, entry.at, reason, help);
        }
    }
}

fn audit_is_served(spec: &Node) -> bool {
    let logs = ["log_inputs", "log_outputs", "log_approvals"];
    spec.get(&["audit", "retention"]).is_none()
        && spec.text(&["audit", "destination"]).is_none_or(|to| to == "file")
        && logs.iter().all(|key| spec.flag(&["audit", key]) != Some(false))
}
