//! What a session's manifest may state: what every call is held to, and what only describes.
//! Anything else is refused: whoever sends a restriction has to be able to rely on it.
//!
//! It is a list of what is allowed, so that a field which the protocol adds is refused until
//! something here holds it. What the host's own manifest says as well is no restriction of the
//! session's, and is let through.

use std::path::{Component, Path};

use serde_json::Value;

use super::{SessionErrors, SessionProblem};
use crate::manifest::Manifest;
use crate::manifest::claw::KEYS;
use crate::manifest::problem::{INVALID_PARAMS, MANIFEST_INVALID};
use crate::manifest::shape::shown;
use crate::policy::{Destination, Policy};

/// What a session may state in the specifications below each key of its Claw, with spaces between;
/// a name stands for all that is below it. A key that is not here is refused as a whole.
const ALLOWED: [(&str, &str); 6] = [
    ("identity", "autonomy capabilities context_files locale personality"),
    (
        "policies",
        "audit.log_approvals audit.log_inputs audit.log_outputs input_validation name \
         prompt_injection rate_limits.tool_calls_per_minute rules secret_scanning",
    ),
    (
        "providers",
        "auth capabilities endpoint fallback hints model name protocol retry streaming \
         transport",
    ),
    (
        "sandbox",
        "capabilities.filesystem capabilities.network capabilities.secrets.injection \
         capabilities.shell level resource_limits.max_open_files \
         resource_limits.max_output_bytes resource_limits.max_processes \
         resource_limits.memory_mb resource_limits.timeout_ms runtime",
    ),
    ("skills", "description estimates input_schema instruction name output_schema tools_required"),
    (
        "tools",
        "annotations description input_schema name output_schema policy_ref \
         sandbox_ref timeout_ms",
    ),
];

/// The specification of one entry of a Claw, and where it stands.
struct Entry<'a> {
    key: &'static str,
    index: usize,
    at: String,
    spec: &'a Value,
}

/// Refuses what `value` states and nothing holds; `own` is what it was read into.
pub(super) fn check(value: &Value, own: &Manifest, base: &Manifest) -> Result<(), SessionErrors> {
    let entries = entries(value);
    let paths: Vec<_> = entries.iter().flat_map(paths).collect();
    let (code, mut problems) = if paths.is_empty() {
        let beyond = entries.iter().flat_map(|entry| beyond(entry, own, base));
        (MANIFEST_INVALID, beyond.collect())
    } else {
        (INVALID_PARAMS, paths)
    };
    problems.truncate(super::PROBLEMS_MAX);
    if problems.is_empty() { Ok(()) } else { Err(SessionErrors { code, problems }) }
}

/// Returns every specification; the short form of a tool has none, and all it says is held.
fn entries(value: &Value) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    for (key, _, many) in KEYS {
        let at = format!("/spec/{key}");
        let entry = value.pointer(&at);
        let items = match (many, entry) {
            (true, Some(Value::Array(items))) => items.as_slice(),
            (_, entry) => entry.map(std::slice::from_ref).unwrap_or_default(),
        };
        for (index, item) in items.iter().enumerate() {
            let at = if many { format!("{at}/{index}") } else { at.clone() };
            let spec = ["inline", "spec"].into_iter().find_map(|form| {
                let spec = item.get(form)?;
                Some(Entry { key, index, at: format!("{at}/{form}"), spec })
            });
            found.extend(spec);
        }
    }
    found
}

/// Returns what an entry states beyond what is allowed, and beyond what the host says too.
fn beyond(entry: &Entry<'_>, own: &Manifest, base: &Manifest) -> Vec<SessionProblem> {
    let allowed = ALLOWED.iter().find(|(key, _)| *key == entry.key);
    let allowed = allowed.map(|(_, allowed)| allowed.split(' ').collect::<Vec<_>>());
    let mut found = Vec::new();
    match &allowed {
        Some(allowed) => fields(entry.spec, "", allowed, &mut found),
        None => found.push(String::new()),
    }
    found.retain(|field| !says_too(base, own, entry, field));
    found.into_iter().map(|field| problem(entry, &field, allowed.as_deref())).collect()
}

/// Finds the fields below `value` that are not among the allowed ones.
fn fields(value: &Value, above: &str, allowed: &[&str], found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let field = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        let is_above = |one: &&str| one.strip_prefix(&field).is_some_and(|it| it.starts_with('.'));
        if allowed.iter().any(is_above) {
            fields(value, &field, allowed, found);
        } else if !allowed.contains(&field.as_str()) {
            found.push(field);
        }
    }
}

fn problem(entry: &Entry<'_>, field: &str, allowed: Option<&[&str]>) -> SessionProblem {
    let (key, at) = (entry.key, &entry.at);
    let (at, what, help) = match allowed {
        None => (at.clone(), format!("`{key}`"), "leave it out".to_owned()),
        Some(allowed) => (
            format!("{at}/{}", field.replace('.', "/")),
            format!("`{field}` in `{key}`"),
            format!("leave it out; a session may state {} there", allowed.join(", ")),
        ),
    };
    let reason = format!("no call of a session is held to its {what}: the host's manifest says it");
    SessionProblem { at, reason, help: Some(help) }
}

/// Says whether the host's manifest says the same, or more strictly.
fn says_too(base: &Manifest, own: &Manifest, entry: &Entry<'_>, field: &str) -> bool {
    match (entry.key, field) {
        ("memory", _) => own.memory == base.memory,
        ("policies", field) => own
            .policies
            .policies()
            .get(entry.index)
            .is_some_and(|policy| is_within(base, policy, field)),
        ("providers", "limits") => own.providers.get(entry.index).is_some_and(|one| {
            base.providers.iter().any(|its| (&its.name, its.limits) == (&one.name, one.limits))
        }),
        ("swarm", _) => own.swarms == base.swarms,
        ("telemetry", _) => own.telemetry == base.telemetry,
        ("tools", "composite") => own.tools.get(entry.index).is_some_and(|one| one.skill.is_none()),
        ("tools", "retry") => own.tools.get(entry.index).is_some_and(|one| {
            base.tools.iter().any(|its| (&its.name, its.retry) == (&one.name, one.retry))
        }),
        _ => false,
    }
}

/// Says whether the host's policies together are as strict as this one about a field.
fn is_within(base: &Manifest, policy: &Policy, field: &str) -> bool {
    let (rates, audit) = (base.policies.rates(), base.policies.audit());
    match field {
        "rate_limits.tokens_per_hour" => {
            rates.and(policy.rates).tokens_per_hour == rates.tokens_per_hour
        }
        "rate_limits.cost_per_day_usd" => {
            rates.and(policy.rates).cost_per_day_usd == rates.cost_per_day_usd
        }
        "audit.retention" => policy.audit.retention == audit.retention,
        // Every record is in a file.
        "audit.destination" => policy
            .audit
            .destinations
            .iter()
            .all(|it| *it == Destination::File || audit.destinations.contains(it)),
        _ => false,
    }
}

/// Returns the paths of a sandbox that only mean something beside a document in a folder, or that
/// would have to be looked up to say where they lead.
fn paths(entry: &Entry<'_>) -> Vec<SessionProblem> {
    let lists = [("mount_paths", "/path"), ("denied_paths", "")];
    let mut found = Vec::new();
    for (list, below) in lists.into_iter().filter(|_| entry.key == "sandbox") {
        let at = format!("/capabilities/filesystem/{list}");
        let items = entry.spec.pointer(&at).and_then(Value::as_array).into_iter().flatten();
        for (index, item) in items.enumerate() {
            let path = item.pointer(below).and_then(Value::as_str).unwrap_or_default();
            if !is_plain(path) {
                let at = format!("{}{at}/{index}{below}", entry.at);
                let reason = format!("the path `{}` is relative, or climbs", shown(path));
                let help = "write the absolute path of the host, without `..`: what is sent lies in no folder";
                found.push(SessionProblem { at, reason, help: Some(help.to_owned()) });
            }
        }
    }
    found
}

fn is_plain(path: &str) -> bool {
    let path = Path::new(path);
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}
