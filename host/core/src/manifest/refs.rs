//! Names: which exist, which are taken, and whether every reference leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{Node, Place};
use super::primitive::Primitive;
use super::problem::{Problems, Source, choices};
use super::remote::Wanted;
use super::shape::shown;
use crate::uri::{ClawUri, Kind, ManifestUri, RegistryUri, is_name};

/// The names of a manifest, by kind.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: BTreeMap<Kind, BTreeSet<String>>,
    declared: BTreeMap<(Kind, String), String>,
    /// Stores of the memory documents, which a `memory_ref` may also name.
    stores: BTreeSet<String>,
    /// Addresses of registries that lead to something of that kind, or were reported.
    settled: BTreeSet<(Kind, RegistryUri)>,
    /// The documents came over a wire, which carries no aliases.
    pub(crate) wire: bool,
    /// Every tool may exist: without a Claw, all of the host's own tools do.
    pub(crate) every_tool: bool,
}

impl Known {
    pub(crate) fn add_all<'a>(&mut self, kind: Kind, names: impl Iterator<Item = &'a String>) {
        self.names.entry(kind).or_default().extend(names.cloned());
    }

    pub(crate) fn add_stores(&mut self, of: &Primitive) {
        if of.kind == Kind::Memory {
            let stores = of.spec.list(&["stores"]);
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
            let reason = match self.declared.get(&key) {
                Some(first) => format!("the {kind} name `{name}` is taken: the first is {first}"),
                None => format!("the {kind} name `{name}` is one of the host's own"),
            };
            problems.invalid(source, at, reason, format!("give each {kind} a name of its own"));
            return;
        }
        self.declared.insert(key, source.location(at));
        self.names.entry(kind).or_default().insert(name.to_owned());
    }

    /// Notes that an address needs no more looking up.
    pub(crate) fn settle(&mut self, kind: Kind, uri: &RegistryUri) {
        self.settled.insert((kind, uri.clone()));
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
        if self.wire
            && let Ok(ManifestUri::Alias(alias)) = ManifestUri::parse(text)
        {
            let reason = format!("`{}` is the short form, which never travels", shown(text));
            problems.unsendable(source, at, reason, &format!("write `{}`", alias.canonical()));
            return;
        }
        match reference(text, kind) {
            Ok(_) if kind == Kind::Identity => {}
            Err((reason, help)) => problems.invalid(source, at, reason, help),
            Ok(Target::Registry(uri)) if !self.settled.contains(&(kind, uri.clone())) => {
                let reason = format!("`{}` was not fetched", shown(text));
                let help = "refer to it from the manifest, or write a local document";
                problems.missing(source, at, reason, help);
            }
            Ok(Target::Local(name)) if !self.has(kind, &name) => {
                let reason = format!("there is no {kind} `{name}`");
                problems.missing(source, at, reason, self.help(kind, &name));
            }
            Ok(Target::Local(_) | Target::Registry(_)) => {}
        }
    }

    fn help(&self, kind: Kind, name: &str) -> String {
        let names = self.names.get(&kind).into_iter().flatten().map(String::as_str);
        match names.clone().count() {
            0 => format!("no {kind} is declared: add one"),
            1 => format!("the only {kind} is `{}`", names.collect::<String>()),
            _ => choices(name, names),
        }
    }
}

enum Target {
    Local(String),
    Registry(RegistryUri),
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
        Ok(ClawUri::Registry(uri)) => Ok(Target::Registry(uri)),
        Err(error) => Err((error.to_string(), help())),
    }
}

/// Returns the name a reference leads to, nothing where it is none of that kind. What came from a
/// registry has the name of its address.
pub(crate) fn local_name(text: &str, kind: Kind) -> Option<String> {
    match reference(text, kind).ok()? {
        Target::Local(name) => Some(name),
        Target::Registry(uri) => Some(uri.name),
    }
}

/// Returns what a reference wants of a registry, nothing where it leads elsewhere.
pub(crate) fn registry(text: &str, kind: Kind, source: &Source, at: Place) -> Option<Wanted> {
    match reference(text, kind).ok()? {
        Target::Registry(uri) if kind != Kind::Identity => {
            Some(Wanted { kind, uri, source: source.clone(), at })
        }
        Target::Local(_) | Target::Registry(_) => None,
    }
}

/// Where documents refer to others: the kind that refers, the way to the reference (through a
/// list where there is a second part), the kind that is meant. The agents of a swarm may be of other
/// hosts, so that only the form of such a name is checked.
const REFERENCES: [(Kind, &[&str], &[&str], Kind); 11] = [
    (Kind::Memory, &["stores"], &["embedding", "provider_ref"], Kind::Provider),
    (Kind::Provider, &["fallback"], &["provider_ref"], Kind::Provider),
    (Kind::Skill, &["tools_required"], &[], Kind::Tool),
    (Kind::Skill, &["world_model_ref"], &[], Kind::WorldModel),
    (Kind::Swarm, &["agents"], &["identity_ref"], Kind::Identity),
    (Kind::Swarm, &["agents"], &["provider_ref"], Kind::Provider),
    (Kind::Tool, &["policy_ref"], &[], Kind::Policy),
    (Kind::Tool, &["sandbox_ref"], &[], Kind::Sandbox),
    (Kind::Tool, &["skill_ref"], &[], Kind::Skill),
    (Kind::WorldModel, &["constraints", "policy_ref"], &[], Kind::Policy),
    (Kind::WorldModel, &["memory_ref"], &[], Kind::Memory),
];

/// Checks every reference of one document whose shape is right.
pub(crate) fn check(of: &Primitive, known: &Known, problems: &mut Problems) {
    for (text, at, target) in references(of) {
        if problems.is_full() {
            return;
        }
        known.check(&of.source, (text, at), target, problems);
    }
}

/// Returns which references of a document lead to registries.
pub(crate) fn wanted(of: &Primitive) -> Vec<Wanted> {
    references(of).filter_map(|(text, at, kind)| registry(text, kind, &of.source, at)).collect()
}

/// Returns every reference of a document, its place, and the kind it should lead to.
fn references(of: &Primitive) -> impl Iterator<Item = (&str, Place, Kind)> {
    let rows = REFERENCES.iter().filter(|row| row.0 == of.kind);
    rows.flat_map(|(_, path, inner, target)| {
        let node = of.spec.get(path);
        let items = node.map(Node::items).unwrap_or_default();
        let nodes = if items.is_empty() { node.map(std::slice::from_ref) } else { Some(items) };
        let nodes = nodes.unwrap_or_default().iter().filter_map(|node| node.get(inner));
        let texts = nodes.filter_map(|node| Some((node.as_text()?, node.at)));
        texts.filter(|(text, _)| !text.is_empty()).map(|(text, at)| (text, at, *target))
    })
}
