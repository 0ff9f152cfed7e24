//! Names: which exist, which are taken, and whether every reference leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{Node, Place};
use super::primitive::Primitive;
use super::problem::{Problems, Source, choices};
use super::shape::shown;
use super::tool::ToolBinding;
use crate::policy::PolicySet;
use crate::uri::{ClawUri, Kind, ManifestUri, is_name};

/// The names of a manifest, by kind.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: BTreeMap<Kind, BTreeSet<String>>,
    declared: BTreeMap<(Kind, String), String>,
    /// Stores of the memory documents, which a `memory_ref` may also name.
    stores: BTreeSet<String>,
    /// Every tool may exist: without a Claw, all of the host's own tools do.
    pub(crate) every_tool: bool,
}

impl Known {
    pub(crate) fn add_all<'a>(&mut self, kind: Kind, names: impl Iterator<Item = &'a String>) {
        self.names.entry(kind).or_default().extend(names.cloned());
    }

    pub(crate) fn add_stores(&mut self, of: &Primitive) {
        if of.kind == Kind::Memory {
            let stores = of.spec.get(&["stores"]).map(Node::items).unwrap_or_default();
            self.stores
                .extend(stores.iter().filter_map(|store| Some(store.text(&["name"])?.to_owned())));
        }
    }

    /// Adds a name, and reports it where its kind already has one like it.
    pub(crate) fn declare(
        &mut self,
        kind: Kind,
        name: &str,
        source: &Source,
        at: Place,
        problems: &mut Problems,
    ) {
        if name.is_empty() {
            return;
        }
        let key = (kind, name.to_owned());
        let taken = self.names.get(&kind).is_some_and(|names| names.contains(name));
        if taken {
            let first = self.declared.get(&key).map_or("the host", String::as_str);
            let reason = format!("the {kind} name `{name}` is taken: the first is of {first}");
            problems.invalid(source, at, reason, format!("give each {kind} a name of its own"));
            return;
        }
        self.declared.insert(key, source.location(at));
        self.names.entry(kind).or_default().insert(name.to_owned());
    }

    fn has(&self, kind: Kind, name: &str) -> bool {
        (kind == Kind::Tool && self.every_tool)
            || (kind == Kind::Memory && self.stores.contains(name))
            || self.names.get(&kind).is_some_and(|names| names.contains(name))
    }

    /// Reports a reference that leads nowhere.
    pub(crate) fn check(
        &self,
        source: &Source,
        (text, at): (&str, Place),
        kind: Kind,
        problems: &mut Problems,
    ) {
        match reference(text, kind) {
            Err((reason, help)) => problems.invalid(source, at, reason, help),
            Ok(Target::Registry) => no_registry(source, text, at, problems),
            Ok(Target::Local(name)) if !self.has(kind, &name) => {
                let reason = format!("there is no {kind} `{name}`");
                problems.missing(source, at, reason, self.help(kind, &name));
            }
            Ok(Target::Local(_)) => {}
        }
    }

    fn help(&self, kind: Kind, name: &str) -> String {
        match self.names.get(&kind).filter(|names| !names.is_empty()) {
            Some(names) => choices(name, names.iter().map(String::as_str)),
            None => format!("no {kind} is declared: add one"),
        }
    }
}

enum Target {
    Local(String),
    Registry,
}

/// Reads a reference: a plain name, or an address of the wanted kind.
fn reference(text: &str, kind: Kind) -> Result<Target, (String, String)> {
    let segment = kind.segment();
    let help = || format!("write the name of a {kind}, or claw://{segment}/<name>");
    if !text.contains(':') {
        let wrong = || (format!("`{}` is no name", shown(text)), help());
        return if is_name(text) { Ok(Target::Local(text.to_owned())) } else { Err(wrong()) };
    }
    match ManifestUri::parse(text).map(ManifestUri::canonical) {
        Ok(ClawUri::Local(uri)) if uri.kind == kind => Ok(Target::Local(uri.name)),
        Ok(ClawUri::Local(uri)) => Err((format!("`{}` is a {}", shown(text), uri.kind), help())),
        Ok(ClawUri::Registry(_)) => Ok(Target::Registry),
        Err(error) => Err((error.to_string(), help())),
    }
}

/// Returns the name a reference leads to, nothing where it is none of that kind.
pub(crate) fn local_name(text: &str, kind: Kind) -> Option<String> {
    match reference(text, kind) {
        Ok(Target::Local(name)) => Some(name),
        Ok(Target::Registry) | Err(_) => None,
    }
}

pub(crate) fn no_registry(source: &Source, text: &str, at: Place, problems: &mut Problems) {
    let reason = format!("`{}` cannot be found: no registry is configured", shown(text));
    let help = "this version asks no registry: write a local document";
    problems.missing(source, at, reason, help);
}

/// Where documents refer to others: the kind that refers, the way to the reference (through a
/// list where there is a second part), the kind that is meant.
const REFERENCES: [(Kind, &[&str], &[&str], Kind); 10] = [
    (Kind::Memory, &["stores"], &["embedding", "provider_ref"], Kind::Provider),
    (Kind::Provider, &["fallback"], &["provider_ref"], Kind::Provider),
    (Kind::Skill, &["tools_required"], &[], Kind::Tool),
    (Kind::Skill, &["world_model_ref"], &[], Kind::WorldModel),
    (Kind::Swarm, &["agents"], &["provider_ref"], Kind::Provider),
    (Kind::Tool, &["policy_ref"], &[], Kind::Policy),
    (Kind::Tool, &["sandbox_ref"], &[], Kind::Sandbox),
    (Kind::Tool, &["skill_ref"], &[], Kind::Skill),
    (Kind::WorldModel, &["constraints", "policy_ref"], &[], Kind::Policy),
    (Kind::WorldModel, &["memory_ref"], &[], Kind::Memory),
];

/// Checks every reference of one document whose shape is right.
pub(crate) fn check(of: &Primitive, known: &Known, problems: &mut Problems) {
    for (_, path, inner, target) in REFERENCES.iter().filter(|row| row.0 == of.kind) {
        let Some(node) = of.spec.get(path) else {
            continue;
        };
        let items = node.items();
        let nodes = if items.is_empty() { std::slice::from_ref(node) } else { items };
        for node in nodes.iter().filter_map(|node| node.get(inner)) {
            if let Some(text) = node.as_text().filter(|text| !text.is_empty()) {
                known.check(&of.source, (text, node.at), *target, problems);
            }
        }
    }
}

/// Says what was declared and does nothing in this version.
pub(crate) fn notes(primitives: &[Primitive]) -> Vec<String> {
    primitives.iter().flat_map(note).collect()
}

/// Says which tools no category rule can match, if there are category rules.
pub(crate) fn category_note(tools: &[ToolBinding], policies: &PolicySet) -> Option<String> {
    let mut rules = policies.policies().iter().flat_map(|policy| &policy.rules);
    let rule = rules.find(|rule| rule.matches.category.is_some())?;
    let without = tools.iter().filter(|tool| tool.category.is_none());
    let names: Vec<&str> = without.map(|tool| tool.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let (at, names) = (&rule.at, names.join(", "));
    Some(format!("{at}: no category rule matches {names}: no `metadata.labels.category` is given"))
}

fn note(of: &Primitive) -> Vec<String> {
    let at = of.source.location(of.at);
    let unused = |what: &str| format!("{at}: {what} is checked but has no effect in this version");
    match of.kind {
        // Every Claw has to have a provider, so that one goes without saying.
        Kind::Identity | Kind::Policy | Kind::Provider => Vec::new(),
        Kind::Sandbox => {
            let paths: [(&[&str], &str); 2] = [
                (&["resource_limits", "cpu_shares"], "`cpu_shares`"),
                (&["capabilities", "secrets", "leak_detection"], "`leak_detection`"),
            ];
            let set = paths.iter().filter(|(path, _)| of.spec.get(path).is_some());
            set.map(|(_, what)| unused(what)).collect()
        }
        Kind::Tool => of.spec.entry("retry").map(|_| unused("`retry`")).into_iter().collect(),
        Kind::Channel
        | Kind::Memory
        | Kind::Skill
        | Kind::Swarm
        | Kind::Telemetry
        | Kind::WorldModel => vec![unused(&format!("the {} `{}`", of.kind, of.name))],
    }
}
