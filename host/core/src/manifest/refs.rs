//! Names: which exist, which are taken, and whether every reference leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::claw::key_of;
use super::node::Place;
use super::primitive::{Document, a, without_build};
use super::problem::{Problems, Source, choices};
use super::remote::Wanted;
use super::shape::shown;
use crate::manifest::PROFILE_NONE;
use crate::uri::{ClawUri, Kind, ManifestUri, RegistryUri, UriError, is_name};

/// The names of a manifest, by kind.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: BTreeMap<Kind, BTreeSet<String>>,
    declared: BTreeMap<(Kind, String), String>,
    /// Names that were made up, and the lines of their entries.
    made_up: BTreeMap<(Kind, String), usize>,
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

    /// Adds a document's name, and reports it where its kind already has one like it.
    pub(crate) fn declare(&mut self, of: &Document, problems: &mut Problems) {
        let Document { kind: Some(kind), name, source, at, .. } = of else { return };
        if name.is_empty() {
            return;
        }
        if of.is(Kind::Memory) {
            let stores = of.spec.list(&["stores"]).iter();
            self.stores.extend(stores.filter_map(|store| Some(store.text(&["name"])?.to_owned())));
        }
        let key = (*kind, name.clone());
        if of.nameless {
            self.made_up.entry(key.clone()).or_insert(at.line);
        }
        if self.names.entry(*kind).or_default().insert(name.clone()) {
            self.declared.insert(key, source.location(*at));
            return;
        }
        let taken = match self.declared.get(&key) {
            Some(first) => format!("is taken: the first is {first}"),
            None => "is one of the host's own".to_owned(),
        };
        let (reason, help) = match of.nameless {
            // Without a spec it only names a tool that the host has.
            false if of.is(Kind::Tool) && of.spec.entry("description").is_none() => (
                format!("the tool `{name}` {}", taken.replace("is taken", "is listed twice")),
                "delete one".to_owned(),
            ),
            true => (
                format!("this entry has no name, and the one made for it, `{name}`, {taken}"),
                format!("give the {kind} a name: `name: <name>` below `inline:`"),
            ),
            false => (
                format!("the {kind} name `{name}` {taken}"),
                format!("give this {kind} another name"),
            ),
        };
        problems.invalid(source, *at, reason, help);
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
        of: &Document,
        (text, at): (&str, Place),
        kind: Kind,
        problems: &mut Problems,
    ) {
        let source = &of.source;
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
                problems.missing(source, at, reason, self.help(of, kind, &name));
            }
            Ok(Target::Local(_) | Target::Registry(_)) => {}
        }
    }

    /// Neither a document itself nor the profile without any rights is what it means.
    fn help(&self, of: &Document, kind: Kind, name: &str) -> String {
        let is_meant = |other: &&String| {
            !(of.is(kind) && of.name == **other)
                && (kind, other.as_str()) != (Kind::Sandbox, PROFILE_NONE)
        };
        let names = self.names.get(&kind).into_iter().flatten().filter(is_meant);
        let made_up = names.clone().filter_map(|name| {
            let line = self.made_up.get(&(kind, name.clone()))?;
            Some(format!("; `{name}` is the entry without a name, line {line}"))
        });
        let (made_up, key): (String, _) = (made_up.collect(), key_of(kind));
        match names.clone().count() {
            0 => format!("declare one under `{key}:` of the Claw, or take this reference out"),
            _ => {
                let choices = choices(name, names.map(String::as_str));
                format!("{choices}{made_up}; or declare it under `{key}:` of the Claw")
            }
        }
    }
}

enum Target {
    Local(String),
    Registry(RegistryUri),
}

/// Reads a reference: a plain name, or an address of the wanted kind.
fn reference(text: &str, kind: Kind) -> Result<Target, (String, String)> {
    let help = || format!("write the name of {}, or claw://{}/<name>", a(kind), kind.segment());
    if !text.contains(':') {
        let wrong = || (format!("`{}` is no name", shown(text)), help());
        return if is_name(text) { Ok(Target::Local(text.to_owned())) } else { Err(wrong()) };
    }
    match ManifestUri::parse(text).map(ManifestUri::canonical) {
        Ok(ClawUri::Local(uri)) if uri.kind == kind => Ok(Target::Local(uri.name)),
        Ok(ClawUri::Local(uri)) => {
            let (is, wanted) = (a(uri.kind), a(kind));
            Err((format!("`{}` is {is}, and {wanted} belongs here", shown(text)), help()))
        }
        Ok(ClawUri::Registry(uri)) => Ok(Target::Registry(uri)),
        Err(error) => Err(wrong_address(text, &error, kind)),
    }
}

/// Says what is wrong with an address where a kind belongs, and what would be right.
pub(crate) fn wrong_address(text: &str, error: &UriError, kind: Kind) -> (String, String) {
    let (text, segment) = (shown(text), kind.segment());
    // Names keep their case, all else has none.
    let (front, name) = text.rsplit_once('/').unwrap_or_default();
    let lower = format!("{}/{name}", front.to_ascii_lowercase());
    let mended = [text.replace('_', "-"), text.replacen("claw:", "claw://", 1)];
    let mended = mended.iter().find(|right| **right != text && ManifestUri::parse(right).is_ok());
    let local = format!("claw://local/{segment}/<name>");
    let registry = "claw://registry/<namespace>/<name>@<version>";
    let (is, help) = match error {
        _ if text.starts_with("mcp://") => {
            ("has a scheme that the protocol reserves", format!("write {local}"))
        }
        UriError::NoVersion(_) => {
            ("names no version", format!("write the one that you want, for example `{text}@1.0.0`"))
        }
        _ if let Some(right) = mended => ("is no address", format!("write `{right}`")),
        UriError::Version(_) if let Some(help) = without_build(&text) => ("names a build", help),
        UriError::Version(_) => (
            "names no version that is exact",
            "write three numbers such as `@1.2.0`, or `@1.2.0-rc.1`: no others are possible"
                .to_owned(),
        ),
        UriError::Shape(_) if ManifestUri::parse(&lower).is_ok() => {
            ("has capitals in front of the name", format!("write `{lower}`"))
        }
        UriError::Shape(_) if text.starts_with("claw://registry/") => {
            ("has the wrong number of parts", format!("write {registry}"))
        }
        UriError::Shape(_) => ("is no claw:// address", format!("write {local} or {registry}")),
        other => ("is no address", other.to_string()),
    };
    (format!("`{text}` {is}"), help)
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
pub(crate) fn check(of: &Document, known: &Known, problems: &mut Problems) {
    for (text, at, target) in references(of) {
        if problems.is_full() {
            return;
        }
        known.check(of, (text, at), target, problems);
    }
}

/// Returns which references of a document lead to registries.
pub(crate) fn wanted(of: &Document) -> Vec<Wanted> {
    references(of).filter_map(|(text, at, kind)| registry(text, kind, &of.source, at)).collect()
}

/// Returns every reference of a document, its place, and the kind it should lead to.
fn references(of: &Document) -> impl Iterator<Item = (&str, Place, Kind)> {
    let rows = REFERENCES.iter().filter(|row| of.is(row.0));
    rows.flat_map(|(_, path, inner, target)| {
        let nodes = of.spec.each(path).iter().filter_map(|node| node.get(inner));
        let texts = nodes.filter_map(|node| Some((node.as_text()?, node.at)));
        texts.filter(|(text, _)| !text.is_empty()).map(|(text, at)| (text, at, *target))
    })
}
