//! `tools` of an agent and of a pod: lists in which each list may take another one in.

use super::ENTRY;
use super::services::Services;
use crate::manifest::node::{Entry, Node, Place, Value};
use crate::manifest::problem::Problems;
use crate::manifest::shape::{self, shown};

/// What stands for the pod's defaults.
const SPLICE: &str = "...";
/// What stands for every tool.
const ALL: &str = "all";
/// What an entry may be.
const HELP: &str =
    "write `- service`, `- {service: NAME, allow: all}` or `- {service: NAME, allow: [TOOL]}`";

/// Tools of one service.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) service: String,
    pub(super) at: Place,
    pub(super) allowed: Allowed,
}

/// Which of them.
#[derive(Debug, Clone)]
pub(super) enum Allowed {
    All,
    Names(Vec<(String, Place)>),
}

/// Reads a list as it is written; nothing stands for an empty one.
pub(super) fn read(
    entry: &Entry,
    defaults: Option<&[Grant]>,
    services: &mut Services<'_>,
    problems: &mut Problems,
) -> Vec<Grant> {
    let mut granted = Vec::new();
    let items = match &entry.node.value {
        Value::List(items) => items.as_slice(),
        Value::Null => &[],
        _ => {
            let reason = format!("`{}` is {}", entry.key, entry.node.describe());
            problems.invalid(&entry.at, reason, HELP);
            &[]
        }
    };
    for item in items {
        match (item.as_text(), defaults) {
            (Some(SPLICE), Some(defaults)) => granted.extend_from_slice(defaults),
            (Some(SPLICE), None) => {
                let help = "write `tools-defaults` under the pod's own `x-claw`, or take `...` out";
                problems.invalid(&item.at, "`...` where there are no defaults", help);
            }
            (Some(service), _) => granted.push(Grant {
                service: service.to_owned(),
                at: item.at.clone(),
                allowed: Allowed::All,
            }),
            (None, _) => granted.extend(one(item, &entry.key, services, problems)),
        }
    }
    granted
}

fn one(
    item: &Node,
    path: &str,
    services: &mut Services<'_>,
    problems: &mut Problems,
) -> Option<Grant> {
    if !matches!(item.value, Value::Map(_)) {
        problems.invalid(&item.at, format!("an entry of `{path}` is {}", item.describe()), HELP);
        return None;
    }
    if !shape::check(problems, item, &ENTRY, path) {
        return None;
    }
    let Some(allow) = item.get(&["allow"]) else {
        let help = services.allowable(item.text(&["service"])?, problems);
        problems.invalid(&item.at, format!("`{path}.allow` is missing"), help);
        return None;
    };
    let allowed = match (&allow.value, allow.as_text()) {
        (_, Some(ALL)) => Allowed::All,
        (Value::List(items), _) if !items.is_empty() => names(items, problems)?,
        _ => {
            problems.invalid(&allow.at, "`allow` is neither `all` nor a list of tools", HELP);
            return None;
        }
    };
    let service = item.text(&["service"])?.to_owned();
    Some(Grant { service, at: item.place(&["service"]).clone(), allowed })
}

fn names(items: &[Node], problems: &mut Problems) -> Option<Allowed> {
    let mut names = Vec::new();
    for item in items {
        match item.as_text() {
            Some(ALL) => {
                problems.invalid(&item.at, "`all` in a list of tools", "write `allow: all`");
                return None;
            }
            Some(name) => names.push((name.to_owned(), item.at.clone())),
            None => {
                let reason = format!("a tool's name is {}", shown(item.describe()));
                problems.invalid(&item.at, reason, "write the name of a tool");
                return None;
            }
        }
    }
    Some(Allowed::Names(names))
}

/// Makes one grant of all that are for the same service: all of its tools, where one says so, else those
/// that any of them names, in the order of their first mention.
pub(super) fn merged(granted: Vec<Grant>) -> Vec<Grant> {
    let mut merged: Vec<Grant> = Vec::new();
    for grant in granted {
        let Some(first) = merged.iter_mut().find(|one| one.service == grant.service) else {
            merged.push(grant);
            continue;
        };
        match (&mut first.allowed, grant.allowed) {
            (Allowed::Names(own), Allowed::Names(more)) => {
                for (name, at) in more {
                    if own.iter().all(|(one, _)| *one != name) {
                        own.push((name, at));
                    }
                }
            }
            (own, Allowed::All) => *own = Allowed::All,
            (Allowed::All, Allowed::Names(_)) => {}
        }
    }
    merged
}
