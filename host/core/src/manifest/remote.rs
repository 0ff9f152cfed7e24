//! Addresses of registries: from `claw://registry/…` to the documents they mean.
//!
//! A document of this run that has the wanted kind, the name and the version comes first; then
//! the registries are asked, in their order. After a load nothing is left to be looked up.
//!
//! What is fetched is a document like any other, with exceptions. It has to be exactly what was
//! asked for. It names no path and no secret of this machine, and sends nothing anywhere: what
//! does is written by whom the machine belongs to. A policy counts only where the Claw lists it,
//! as a document that is merely referred to must not add to the list of rules, and a sandbox only
//! where a document of this machine names it, as a tool must not choose what it may touch. And
//! what it says about itself relaxes nothing (see [`super::ToolBinding`]).

use std::collections::BTreeSet;
use std::path::Path;

use super::documents::{Component, RegistryError};
use super::entry::Resolved;
use super::load::Loader;
use super::node::Place;
use super::primitive::{Document, read_document};
use super::refs;
use super::shape::{shown, shown_sentence};
use crate::limits::REGISTRY_PACKAGES_MAX;
use crate::uri::{Kind, RegistryUri};
use crate::visible;

/// A document of a manifest that came from a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The address it was asked for under.
    pub uri: RegistryUri,
    /// What it is.
    pub kind: Kind,
    /// The name of the registry that had it.
    pub registry: String,
    /// `sha256:…` of the document.
    pub digest: String,
    /// The code that came with it; only a Tool has any.
    pub component: Option<Component>,
}

impl Fetched {
    /// Says where it came from, for people.
    pub(crate) fn note(&self) -> String {
        let Self { uri, registry, digest, .. } = self;
        format!("{uri} is of the registry `{registry}`, {digest}")
    }
}

/// An address of a registry where a primitive of some kind belongs.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) uri: RegistryUri,
    pub(crate) at: Place,
}

/// What is known about addresses of registries.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// Every document that was fetched, in order.
    pub(crate) fetched: Vec<Fetched>,
    /// Addresses that were asked for in vain; that was reported.
    failed: BTreeSet<RegistryUri>,
}

/// Documents that are not fetched merely because something that was fetched refers to them.
const LISTED_ONLY: [Kind; 2] = [Kind::Policy, Kind::Sandbox];
/// Documents that name secrets or send data.
const LOCAL_ONLY: [Kind; 2] = [Kind::Channel, Kind::Telemetry];

impl Loader<'_> {
    /// Resolves what an entry of the Claw wants; nothing where it is there already, or where
    /// that failed, which is reported.
    pub(crate) fn listed(&mut self, wanted: &Wanted) -> Option<Resolved> {
        if let Some(index) = self.loose.iter().position(|(_, of)| is_meant(of, wanted)) {
            self.known.settle(wanted.kind, &wanted.uri);
            return Some(Resolved::Document(Box::new(self.loose.remove(index).1)));
        }
        if self.is_settled(wanted) || self.remote.failed.contains(&wanted.uri) {
            return None;
        }
        self.fetch(wanted).map(|of| Resolved::Document(Box::new(of)))
    }

    /// Fetches whatever references lead to in registries, and what these refer to in turn.
    pub(crate) fn follow_references(&mut self) {
        // First what documents of this machine name, whatever stands before them.
        let own = self.primitives.iter().filter(|of| of.package.is_none());
        let wanted: Vec<Wanted> = own.flat_map(refs::wanted).collect();
        wanted.iter().for_each(|wanted| self.referred(wanted, false));
        let mut next = 0;
        while let Some(of) = self.primitives.get(next) {
            let wanted = refs::wanted(of);
            wanted.iter().for_each(|wanted| self.referred(wanted, true));
            next += 1;
        }
    }

    fn referred(&mut self, wanted: &Wanted, by_fetched: bool) {
        if self.is_settled(wanted) || self.remote.failed.contains(&wanted.uri) {
            return;
        }
        if LISTED_ONLY.contains(&wanted.kind) && (by_fetched || wanted.kind == Kind::Policy) {
            let reason =
                format!("the {} `{}` is referred to and not listed", wanted.kind, wanted.uri);
            let help = match wanted.kind {
                Kind::Policy => {
                    "add the address to `policies` of the Claw: only what is listed there adds rules"
                }
                _ => {
                    "name the address in the Claw or in a Tool document of your own: no fetched document chooses a sandbox"
                }
            };
            self.problems.missing(&wanted.at, reason, help);
            return self.fail(wanted);
        }
        if let Some(of) = self.fetch(wanted) {
            self.take(Resolved::Document(Box::new(of)));
        }
    }

    /// Says whether the address leads to something this load has, and remembers that.
    fn is_settled(&mut self, wanted: &Wanted) -> bool {
        let is_there = self.primitives.iter().any(|of| is_meant(of, wanted));
        if is_there {
            self.known.settle(wanted.kind, &wanted.uri);
        }
        is_there
    }

    fn fail(&mut self, wanted: &Wanted) {
        self.known.settle(wanted.kind, &wanted.uri);
        self.remote.failed.insert(wanted.uri.clone());
    }

    /// Asks the registries; a document that is not what was asked for is as good as none.
    fn fetch(&mut self, wanted: &Wanted) -> Option<Document> {
        let found = self.found(wanted);
        match found {
            Some(_) => self.known.settle(wanted.kind, &wanted.uri),
            None => self.fail(wanted),
        }
        found
    }

    fn found(&mut self, wanted: &Wanted) -> Option<Document> {
        if self.remote.fetched.len() >= REGISTRY_PACKAGES_MAX {
            let reason = format!("more than {REGISTRY_PACKAGES_MAX} documents from registries");
            let help = "refer to fewer, or write some of them locally";
            self.problems.missing(&wanted.at, reason, help);
            return None;
        }
        let package = match self.docs.registry(&wanted.uri) {
            Ok(package) => package,
            Err(error) => {
                self.unobtainable(wanted, &error);
                return None;
            }
        };
        // Counted even where it is of no use: asking is what is bounded.
        self.remote.fetched.push(Fetched {
            uri: wanted.uri.clone(),
            kind: wanted.kind,
            registry: package.registry,
            digest: package.digest,
            component: package.component,
        });
        let file = wanted.uri.to_string();
        let mut of = read_document(Path::new(&file), &package.document, &mut self.problems)?;
        let Some(what) = self.difference(wanted, &of) else {
            of.package = Some(wanted.uri.clone());
            return Some(of);
        };
        let reason = format!("`{}` is {}", wanted.uri, shown(&what));
        let help = format!(
            "a {} `{}` of version {} belongs there: tell who publishes it",
            wanted.kind, wanted.uri.name, wanted.uri.version
        );
        self.problems.invalid(&wanted.at, reason, help);
        None
    }

    fn unobtainable(&mut self, wanted: &Wanted, error: &RegistryError) {
        let help = match error {
            RegistryError::Failed { .. } => {
                "whoever serves that registry has to mend it (clawhost.yaml has its address), or give the document locally"
            }
            RegistryError::NotConfigured => {
                "write `registries: [{ name: <name>, url: https://… }]` into clawhost.yaml, or give the document locally"
            }
            RegistryError::NotFound(_) => {
                "check namespace, name and version, or give the document locally"
            }
        };
        // It may quote what a registry sent.
        let why = visible::line(&shown_sentence(&error.to_string()));
        let reason = format!("`{}` cannot be found: {why}", shown(&wanted.uri.to_string()));
        self.problems.missing(&wanted.at, reason, help);
    }

    /// Says what a document is instead of what its address promises, if that is so.
    fn difference(&mut self, wanted: &Wanted, of: &Document) -> Option<String> {
        let version = of.version.as_deref();
        let brings = self.remote.fetched.last().is_some_and(|last| last.component.is_some());
        if !of.is(wanted.kind) {
            return Some(of.what());
        }
        if of.name != wanted.uri.name {
            return Some(format!("called `{}`", of.name));
        }
        if version != Some(&wanted.uri.version) {
            return Some(format!("of version {}", version.unwrap_or("(none)")));
        }
        if brings && !of.is(Kind::Tool) {
            return Some(format!("{} with a component", of.what()));
        }
        let row = FOREIGN.iter().find_map(|(find, is, help)| Some((find(of)?, is, help)));
        let (at, is, help) = row?;
        self.problems.invalid(at, format!("a fetched document {is}"), *help);
        Some(format!("a document that {is}"))
    }
}

/// Says where a document does something, if it does.
type Find = fn(&Document) -> Option<&Place>;

/// What nothing that was fetched may do, and what would be right.
const FOREIGN: [(Find, &str, &str); 3] = [
    (
        local_path,
        "names a path of this machine",
        "its author cannot know this machine: give the document locally",
    ),
    (
        |of| of.spec.get(&["mcp_source"]).filter(|_| of.is(Kind::Tool)).map(|node| &node.at),
        "names an MCP server",
        "nothing fetched chooses what is started or asked: write this document yourself",
    ),
    (
        |of| {
            Some(&of.at)
                .filter(|_| LOCAL_ONLY.iter().any(|kind| of.is(*kind)) || shows_who_it_is(of))
        },
        "sends data or names a secret",
        "nothing fetched chooses who gets what this host knows: write this document yourself",
    ),
];

/// Says whether a document of this run is what an address means. What a registry gave is meant by
/// its own address only, whatever its namespace.
pub(crate) fn is_meant(of: &Document, wanted: &Wanted) -> bool {
    of.is(wanted.kind)
        && of.name == wanted.uri.name
        && of.version.as_deref() == Some(&wanted.uri.version)
        && of.package.as_ref().is_none_or(|package| *package == wanted.uri)
}

/// Says whether a provider's document asks for a secret of this machine.
fn shows_who_it_is(of: &Document) -> bool {
    of.is(Kind::Provider)
        && (of.spec.text(&["auth", "type"]) != Some("none")
            || of.spec.get(&["auth", "secret_ref"]).is_some())
}

/// Returns the first path of this machine that a document names, if it names any.
fn local_path(of: &Document) -> Option<&Place> {
    let (list, key): (&[&str], _) = match of.kind? {
        Kind::Memory => (&["stores"], "path"),
        Kind::Sandbox => (&["capabilities", "filesystem", "mount_paths"], "path"),
        Kind::Telemetry => (&["exporters"], "path"),
        _ => return None,
    };
    of.spec.list(list).iter().find_map(|item| item.get(&[key])).map(|path| &path.at)
}

#[cfg(test)]
mod tests;
