//! `kind: Policy`: the rules a call has to pass, read into [`crate::policy`].
//!
//! Closed as the protocol has it, with one documented extension: `match.name`, a tool's name or
//! a prefix followed by `*`. `conditions`, which the protocol leaves open, knows `path_within`
//! alone. Whatever a rule promises and this version does not do is refused: a protection that is
//! written down but absent is worse than none. The blocks beside the rules are in `blocks`.

mod blocks;
mod folders;

use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) use self::blocks::notes;
pub(crate) use self::folders::check as check_folders;
pub(crate) use self::folders::note as folder_note;

use super::node::Node;
use super::primitive::Primitive;
use super::problem::Report;
use super::shape::{COUNT, NUMBER, POSITIVE, STRING, Shape, TEXT, opt, req, shown};
use super::tool::{ANNOTATIONS, check_hints};
use crate::policy::{Action, ApprovalTerms, Folder, Match, Policy, Rule};
use crate::uri::is_name;

const MATCH: Shape = Shape::Record(&[
    opt("annotations", &ANNOTATIONS),
    opt("category", &STRING),
    opt("name", &TEXT),
]);

const PATH_WITHIN: &[&str] = &["conditions", "path_within"];

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
    opt("conditions", &Shape::Record(&[opt("path_within", &STRING)])),
    opt(
        "rate_limit",
        &Shape::Record(&[opt("cost_per_day_usd", &NUMBER), opt("tokens_per_day", &COUNT)]),
    ),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("rules", &Shape::List { of: &RULE, min: 1 }),
    opt("prompt_injection", &blocks::INJECTION),
    opt("secret_scanning", &blocks::SCANNING),
    opt("input_validation", &blocks::VALIDATION),
    opt("rate_limits", &blocks::RATES),
    opt("audit", &blocks::AUDIT),
]);

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Primitive, report: &mut Report<'_>) {
    let mut ids = BTreeSet::new();
    for rule in rules(&of.spec) {
        let id = rule.text(&["id"]).unwrap_or_default();
        if !ids.insert(id) {
            let reason = format!("rule `{}` is there twice", shown(id));
            report.invalid(rule.at, reason, "give each rule an id of its own");
        }
        check_scope(rule, report);
        check_name(rule, report);
        if let Some(annotations) = rule.get(&["match", "annotations"]) {
            check_hints(annotations, report);
        }
        check_conditions(rule, report);
    }
    blocks::check(&of.spec, report);
}

/// Returns the policy a checked document holds.
pub(crate) fn read(of: &Primitive) -> Policy {
    Policy {
        name: of.name.clone(),
        rules: rules(&of.spec).iter().map(|rule| read_rule(of, rule)).collect(),
        screen: blocks::screen(&of.spec),
        rates: blocks::rates(&of.spec),
        audit: blocks::audit(&of.spec),
    }
}

fn read_rule(of: &Primitive, rule: &Node) -> Rule {
    Rule {
        id: rule.text(&["id"]).unwrap_or_default().to_owned(),
        // Whatever is not plainly one of the relaxing actions denies.
        action: rule.read(&["action"]).unwrap_or(Action::Deny),
        matches: Match {
            name: rule.text(&["match", "name"]).map(str::to_owned),
            category: rule.text(&["match", "category"]).map(str::to_owned),
            annotations: rule.read(&["match", "annotations"]).unwrap_or_default(),
        },
        path_within: rule.text(PATH_WITHIN).and_then(|path| Folder::parse(path).ok()),
        rate_limit: rule.read(&["rate_limit"]),
        reason: rule.text(&["reason"]).map(str::to_owned),
        approval: ApprovalTerms {
            timeout: rule.number(&["approval", "timeout_seconds"]).map(Duration::from_secs),
            allow_on_timeout: rule.text(&["approval", "default_if_timeout"]) == Some("allow"),
        },
        at: of.source.location(rule.at),
    }
}

fn rules(spec: &Node) -> &[Node] {
    spec.list(&["rules"])
}

/// A scope that promises a condition has to have it: `scope: tool` without one would be `all`.
fn check_scope(rule: &Node, report: &mut Report<'_>) {
    let has = |key: &str| rule.get(&["match", key]).is_some_and(|node| !is_empty(node));
    let help = match rule.text(&["scope"]) {
        Some("tool") if !has("name") && !has("annotations") && !has("category") => {
            "add `match.name` (or `match.annotations`), or write `scope: all`"
        }
        Some("category") if !has("category") => "add `match.category`, or write `scope: all`",
        _ => return,
    };
    let at = rule.entry("scope").map_or(rule.at, |scope| scope.at);
    report.invalid(at, "the rule's scope has nothing to match", help);
}

fn is_empty(node: &Node) -> bool {
    node.entries().is_empty() && node.as_text().is_none_or(str::is_empty)
}

fn check_name(rule: &Node, report: &mut Report<'_>) {
    let Some(name) = rule.get(&["match", "name"]) else {
        return;
    };
    let text = name.as_text().unwrap_or_default();
    let fixed = text.strip_suffix('*').unwrap_or(text);
    if !(is_name(fixed) || (fixed.is_empty() && text == "*")) {
        let reason = format!("`match.name` is `{}`", shown(text));
        let help = "write a tool's name as it is in claw://local/tool/<name> (read-file), or a prefix and `*` (read-*)";
        report.invalid(name.at, reason, help);
    }
}

/// A condition that says nothing is a mistake: its author meant to say something.
fn check_conditions(rule: &Node, report: &mut Report<'_>) {
    for (key, help) in [
        ("conditions", "add `path_within`, or take it out"),
        ("rate_limit", "add `tokens_per_day` or `cost_per_day_usd`, or take it out"),
    ] {
        if let Some(entry) = rule.entry(key).filter(|entry| entry.node.entries().is_empty()) {
            report.invalid(entry.at, format!("`{key}` of a rule says nothing"), help);
        }
    }
    if let Some(node) = rule.get(PATH_WITHIN)
        && let Err(reason) = Folder::parse(node.as_text().unwrap_or_default())
    {
        let help =
            "write a folder as tools see it: `/` is the first granted folder, `/<name>` another";
        report.invalid(node.at, format!("`path_within`: {reason}"), help);
    }
}
