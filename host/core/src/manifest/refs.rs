//! Names: which exist, which are taken, and whether every reference leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::claw::key_of;
use super::node::Place;
use super::primitive::{Document, a, without_build};
use super::problem::{DocumentError, INVALID_PARAMS, Problems, choices};
use super::remote::Wanted;
use super::shape::{Shape, each, expected, shown};
use super::versions::{Versions, wrong_version};
use crate::manifest::PROFILE_NONE;
use crate::uri::{ClawUri, Kind, LocalUri, ManifestUri, RegistryUri, UriError, is_name};

/// What is wrong with an alias that came over a wire. It is not repeated: that would send it back.
pub(crate) const SENT_ALIAS: &str = "an address in its short form, which never travels";

/// The names of a manifest, by kind.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: BTreeMap<Kind, BTreeSet<String>>,
    /// Where documents declare theirs, and whether it was made up.
    declared: BTreeMap<(Kind, String), (Place, bool)>,
    /// Stores of the memory documents, which a `memory_ref` may also name.
    stores: BTreeSet<String>,
    /// Addresses of registries that lead to something of that kind, or were reported.
    settled: BTreeSet<(Kind, RegistryUri)>,
    /// Versions of documents, which references may name.
    pub(crate) versions: Versions,
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
        let Document { kind: Some(kind), name, at, .. } = of else { return };
        if name.is_empty() {
            return;
        }
        if of.is(Kind::Memory) {
            let stores = of.spec.list(&["stores"]).iter();
            self.stores.extend(stores.filter_map(|store| Some(store.text(&["name"])?.to_owned())));
        }
        let key = (*kind, name.clone());
        if self.names.entry(*kind).or_default().insert(name.clone()) {
            if !is_bare(of) {
                self.versions.add(*kind, of);
            }
            self.declared.insert(key, (at.clone(), of.nameless));
            return;
        }
        let (taken, others) = match self.declared.get(&key) {
            Some((first, _)) => (format!("is taken: the first is {first}"), String::new()),
            None => (
                "is one of the host's own".to_owned(),
                format!("; the host has {}", self.own(*kind)),
            ),
        };
        let (reason, help) = match of.nameless {
            false if is_bare(of) => (
                format!("the tool `{name}` {}", taken.replace("is taken", "is listed twice")),
                "delete one".to_owned(),
            ),
            true => (
                format!("this entry has no name, and the one made for it, `{name}`, {taken}"),
                format!("give the {kind} a name: `name: <name>` below `inline:`"),
            ),
            false => (
                format!("the {kind} name `{name}` {taken}"),
                format!("give this {kind} another name{others}"),
            ),
        };
        problems.invalid(at, reason, help);
    }

    /// Lists the names of a kind that no document has declared.
    fn own(&self, kind: Kind) -> String {
        let names = self.names.get(&kind).into_iter().flatten();
        let own = names.filter(|name| !self.declared.contains_key(&(kind, (*name).clone())));
        own.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Notes that an address needs no more looking up.
    pub(crate) fn settle(&mut self, kind: Kind, uri: &RegistryUri) {
        self.settled.insert((kind, uri.clone()));
    }

    fn has(&self, kind: Kind, name: &str) -> bool {
        (kind == Kind::Tool && self.every_tool) || self.is_listed(kind, name)
    }

    fn is_listed(&self, kind: Kind, name: &str) -> bool {
        (kind == Kind::Memory && self.stores.contains(name))
            || self.names.get(&kind).is_some_and(|names| names.contains(name))
    }

    /// Reports a reference that leads nowhere.
    pub(crate) fn check(
        &self,
        of: &Document,
        (text, at): (&str, &Place),
        kind: Kind,
        problems: &mut Problems,
    ) {
        if self.wire
            && let Ok(ManifestUri::Alias(alias)) = ManifestUri::parse(text)
        {
            let help = format!("write `{}`", alias.canonical());
            return problems.push(DocumentError::new(at, INVALID_PARAMS, SENT_ALIAS, help));
        }
        match reference(text, kind) {
            Ok(_) if kind == Kind::Identity => {}
            Err((reason, help)) => problems.invalid(at, reason, help),
            Ok(Target::Registry(uri)) if !self.settled.contains(&(kind, uri.clone())) => {
                let reason = format!("`{}` was not fetched", shown(text));
                let help = "refer to it from the manifest, or write a local document";
                problems.missing(at, reason, help);
            }
            Ok(Target::Local(uri)) => {
                let instead = format!("declare it under `{}:` of the Claw", key_of(kind));
                self.check_name(of, (&uri.name, at), kind, &instead, problems);
                self.check_version(&uri, at, problems);
            }
            Ok(Target::Registry(_)) => {}
        }
    }

    /// Reports a reference to another version than there is. Which there is of a tool that nothing
    /// lists cannot be told here.
    fn check_version(&self, uri: &LocalUri, at: &Place, problems: &mut Problems) {
        let of = self.versions.of(uri.kind, &uri.name);
        let wrong = wrong_version(uri, of).filter(|_| self.is_listed(uri.kind, &uri.name));
        if let Some((reason, help)) = wrong {
            problems.missing(at, reason, help);
        }
    }

    /// Reports an entry of a Claw that is the address of no document.
    pub(crate) fn check_entry(
        &self,
        of: &Document,
        (name, at): (&str, &Place),
        kind: Kind,
        problems: &mut Problems,
    ) {
        let path = if self.wire { "" } else { ", or the path of its document" };
        let instead =
            format!("write here what it stands for: `inline: {{ name: {name}, … }}`{path}");
        self.check_name(of, (name, at), kind, &instead, problems);
    }

    fn check_name(
        &self,
        of: &Document,
        (name, at): (&str, &Place),
        kind: Kind,
        instead: &str,
        problems: &mut Problems,
    ) {
        if !self.has(kind, name) {
            let reason = format!("there is no {kind} `{name}`");
            problems.missing(at, reason, self.help(of, kind, name, instead));
        }
    }

    /// Neither a document itself nor the profile without any rights is what it means.
    fn help(&self, of: &Document, kind: Kind, name: &str, instead: &str) -> String {
        let is_meant = |other: &&String| {
            !(of.is(kind) && of.name == **other)
                && (kind, other.as_str()) != (Kind::Sandbox, PROFILE_NONE)
        };
        let names = self.names.get(&kind).into_iter().flatten().filter(is_meant);
        let made_up = names.clone().filter_map(|name| {
            let is_shown = |(_, made_up): &&(Place, bool)| *made_up && !self.wire;
            let (at, _) = self.declared.get(&(kind, name.clone())).filter(is_shown)?;
            Some(format!("; `{name}` is the entry without a name, line {}", at.line))
        });
        let made_up: String = made_up.collect();
        match names.clone().count() {
            0 => format!("{instead}, or take this reference out"),
            _ => {
                let choices = choices(name, names.map(String::as_str));
                format!("{choices}{made_up}; or {instead}")
            }
        }
    }
}

/// Says whether a document only names a tool that the host has: it has no spec.
fn is_bare(of: &Document) -> bool {
    of.is(Kind::Tool) && of.spec.entry("description").is_none()
}

enum Target {
    Local(LocalUri),
    Registry(RegistryUri),
}

/// Reads a reference: a plain name, or an address of the wanted kind.
fn reference(text: &str, kind: Kind) -> Result<Target, (String, String)> {
    let help = || format!("write {}", expected(&Shape::Ref(kind), ""));
    if !text.contains(':') {
        let wrong = || (format!("`{}` is no name", shown(text)), help());
        let uri = LocalUri { kind, name: text.to_owned(), version: None };
        return if is_name(text) { Ok(Target::Local(uri)) } else { Err(wrong()) };
    }
    match ManifestUri::parse(text).map(ManifestUri::canonical) {
        Ok(ClawUri::Local(uri)) if uri.kind == kind => Ok(Target::Local(uri)),
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
    let mended = [
        text.replace('_', "-"),
        text.replacen("claw:", "claw://", 1),
        // The short form has no version.
        text.replacen("claw://", "claw://local/", 1),
    ];
    // Whoever is told may be far away, where no alias goes.
    let canonical = |right: &String| ManifestUri::parse(right).ok().map(ManifestUri::canonical);
    let mended = mended.iter().filter(|right| **right != text).find_map(canonical);
    let local = format!("claw://local/{segment}/<name>");
    let registry = "claw://registry/<namespace>/<name>@<version>";
    let (is, help) = match error {
        _ if text.starts_with("mcp://") => {
            ("has a scheme that the protocol reserves", format!("write {local}"))
        }
        UriError::NoVersion(_) => {
            ("names no version", format!("write the one that you want, for example `{text}@1.0.0`"))
        }
        _ if let Some(right) = &mended => ("is no address", format!("write `{right}`")),
        UriError::Version(_) if let Some(help) = without_build(&text) => ("names a build", help),
        UriError::Version(_) => (
            "names no version that is exact",
            "write three numbers such as `@1.2.0`, or `@1.2.0-rc.1`: no others are possible"
                .to_owned(),
        ),
        UriError::Shape(_) if let Some(right) = canonical(&lower) => {
            ("has capitals in front of the name", format!("write `{right}`"))
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
        Target::Local(uri) => Some(uri.name),
        Target::Registry(uri) => Some(uri.name),
    }
}

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
    let all = references(of).into_iter().filter(|(_, _, kind)| *kind != Kind::Identity);
    let wanted = |(text, at, kind): (&str, &Place, Kind)| match reference(text, kind) {
        Ok(Target::Registry(uri)) => Some(Wanted { kind, uri, at: at.clone() }),
        _ => None,
    };
    all.filter_map(wanted).collect()
}

/// Returns every reference of a document, its place, and the kind it should lead to. The agents of
/// a swarm may be of other hosts, so that only the form of such a name is checked.
fn references(of: &Document) -> Vec<(&str, &Place, Kind)> {
    let mut found = Vec::new();
    each(&of.spec, of.shape(), "", &mut |node, shape, _| {
        if let (Shape::Ref(kind), Some(text)) = (shape, node.as_text().filter(|it| !it.is_empty()))
        {
            found.push((text, &node.at, *kind));
        }
    });
    found
}
