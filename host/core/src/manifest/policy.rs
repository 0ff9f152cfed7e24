//! `kind: Policy`: the rules a call has to pass, read into [`crate::policy`].
//!
//! Closed as the protocol has it, with one documented extension: `match.name`, a tool's name or
//! a prefix followed by `*`. `conditions`, which the protocol leaves open, knows `path_within`
//! alone. Whatever a rule promises and this version does not do is refused: a protection that is
//! written down but absent is worse than none. The blocks beside the rules are in `blocks`.

mod blocks;
mod folders;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use self::blocks::notes;
pub(crate) use self::folders::check as check_folders;
pub(crate) use self::folders::note as folder_note;

use super::node::Node;
use super::primitive::Document;
use super::problem::Problems;
use super::shape::shown;
use crate::policy::{Action, ApprovalTerms, Folder, Match, Policy, Rule};
use crate::uri::is_name;

const PATH_WITHIN: &[&str] = &["conditions", "path_within"];

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Document, report: &mut Problems) {
    let mut ids = BTreeMap::new();
    for rule in rules(&of.spec) {
        let id = rule.text(&["id"]).unwrap_or_default();
        if let Some(first) = ids.insert(id, rule.at.to_string()) {
            let reason = format!("a second rule `{}`: the first is {first}", shown(id));
            report.invalid(&rule.at, reason, "give each rule an `id` of its own");
        }
        check_scope(rule, report);
        check_name(rule, report);
        check_conditions(rule, report);
    }
}

/// Returns the policy a checked document holds.
pub(crate) fn read(of: &Document) -> Policy {
    Policy {
        name: of.name.clone(),
        rules: rules(&of.spec).iter().map(read_rule).collect(),
        screen: blocks::screen(&of.spec),
        rates: blocks::rates(&of.spec),
        audit: blocks::audit(&of.spec),
    }
}

fn read_rule(rule: &Node) -> Rule {
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
        at: rule.at.to_string(),
    }
}

fn rules(spec: &Node) -> &[Node] {
    spec.list(&["rules"])
}

/// A scope that promises a condition has to have it: `scope: tool` without one would be `all`. That is what the
/// protocol's own rule for the day's spending means, which tightens for every tool once its `rate_limit` is reached.
fn check_scope(rule: &Node, report: &mut Problems) {
    let has = |key: &str| rule.get(&["match", key]).is_some_and(|node| !is_empty(node));
    let (named, scope) = (has("name") || has("annotations"), rule.text(&["scope"]));
    let tightens = rule.read(&["action"]).is_some_and(Action::tightens);
    let is_for_all = tightens && rule.entry("rate_limit").is_some();
    let (reason, help) = match scope {
        Some("tool") if !named && !has("category") && !is_for_all => (
            "`scope: tool` is for the tools that `match` tells, and it tells none",
            "add `match: { name: <tool> }`, or `annotations` or `category` in its place",
        ),
        Some("category") if !has("category") => (
            "`scope: category` is for the category that `match` tells, and it tells none",
            if named {
                "write `scope: tool`, or add `category: <category>` to `match`"
            } else {
                "add `match: { category: <category> }`"
            },
        ),
        _ => return,
    };
    report.invalid(rule.entry("scope").map_or(&rule.at, |scope| &scope.at), reason, help);
}

fn is_empty(node: &Node) -> bool {
    node.entries().is_empty() && node.as_text().is_none_or(str::is_empty)
}

fn check_name(rule: &Node, report: &mut Problems) {
    let Some(name) = rule.get(&["match", "name"]) else {
        return;
    };
    let text = name.as_text().unwrap_or_default();
    let fixed = text.strip_suffix('*').unwrap_or(text);
    if !(is_name(fixed) || (fixed.is_empty() && text == "*")) {
        let reason = format!("`match.name` is `{}`, which can be no tool's name", shown(text));
        let right = text.replace('_', "-");
        let help = match is_name(&right) {
            true => format!("write `{right}`: names in documents have hyphens"),
            false => "write the name of a tool (read-file), or how names begin and `*` (read-*)"
                .to_owned(),
        };
        report.invalid(&name.at, reason, help);
    }
}

/// A condition that says nothing is a mistake: its author meant to say something.
fn check_conditions(rule: &Node, report: &mut Problems) {
    for (key, help) in [
        ("conditions", "add `path_within: /<folder>`, or take `conditions` out"),
        ("rate_limit", "add `tokens_per_day` or `cost_per_day_usd`, or take `rate_limit` out"),
    ] {
        if let Some(entry) = rule.entry(key).filter(|entry| entry.node.entries().is_empty()) {
            report.invalid(&entry.at, format!("`{key}` is empty, so it restricts nothing"), help);
        }
    }
    if let Some(node) = rule.get(PATH_WITHIN)
        && let Err(reason) = Folder::parse(node.as_text().unwrap_or_default())
    {
        let text = node.as_text().unwrap_or_default();
        let climbs = |part: &&str| matches!(*part, "" | "." | "..");
        let right: Vec<&str> = text.split('/').filter(|part| !climbs(part)).collect();
        let right = match right.is_empty() || !text.contains("..") {
            true => "/<name>".to_owned(),
            false => format!("/{}", shown(&right.join("/"))),
        };
        let help = format!(
            "write `{right}`: `/` is all of the first folder that the sandbox grants, `/<name>` a folder in it or another one granted"
        );
        let reason = format!("`path_within: \"{}\"` cannot be used: {reason}", shown(text));
        report.invalid(&node.at, reason, help);
    }
}
