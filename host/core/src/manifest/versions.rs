//! The versions of documents, and whether an address names the one that is there.
//!
//! There is one document of each kind and name, so that a version chooses nothing: it says which one
//! whoever wrote the address has seen. Another one is as good as none.

use std::collections::BTreeMap;

use super::primitive::Document;
use crate::uri::{Kind, LocalUri, RegistryUri};

/// The version of each document, by its kind and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions(BTreeMap<(Kind, String), KnownVersion>);

/// What a document is, of those of its kind and name anywhere.
#[derive(Debug, Clone)]
struct KnownVersion {
    /// Nothing where it states none.
    version: Option<String>,
    /// The address that it was fetched by, where a registry gave it.
    package: Option<RegistryUri>,
}

impl Versions {
    pub(crate) fn add(&mut self, kind: Kind, of: &Document) {
        let held = KnownVersion { version: of.version.clone(), package: of.package.clone() };
        self.0.insert((kind, of.name.clone()), held);
    }

    /// Keeps those of the documents that `is_kept` says.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Kind, &str) -> bool) {
        self.0.retain(|(kind, name), _| is_kept(*kind, name));
    }

    /// Returns what a document states; nothing where there is no document.
    pub(crate) fn of(&self, kind: Kind, name: &str) -> Option<Option<&str>> {
        self.0.get(&(kind, name.to_owned())).map(|held| held.version.as_deref())
    }

    /// Says whether a registry's address means the document of that kind. What is local stands for every
    /// registry's of its name and version; what a registry gave is meant by its own address only.
    pub(crate) fn has_meant(&self, kind: Kind, uri: &RegistryUri) -> bool {
        self.0.get(&(kind, uri.name.clone())).is_some_and(|held| {
            held.version.as_ref() == Some(&uri.version)
                && held.package.as_ref().is_none_or(|package| package == uri)
        })
    }
}

/// Says what is wrong with the version of an address, and what would be right; `of` is what its
/// document states, nothing where there is no document.
pub(crate) fn wrong_version(uri: &LocalUri, of: Option<Option<&str>>) -> Option<(String, String)> {
    let LocalUri { kind, name, version } = uri;
    let wanted = version.as_deref().filter(|wanted| of.flatten() != Some(*wanted))?;
    let (reason, more) = match of {
        // What lies beside a component of the tools folder is read later, and may change.
        None => (
            format!(
                "no document of the manifest says that the {kind} `{name}` is version {wanted}"
            ),
            ": what comes with the host or lies in the tools folder is named without".to_owned(),
        ),
        Some(None) => (
            format!("the {kind} `{name}` has no version, not {wanted}"),
            format!(", or write `version: {wanted}` under `metadata:` of its document"),
        ),
        Some(Some(is)) => (
            format!("the {kind} `{name}` has version {is}, not {wanted}"),
            format!(", or write `@{is}`"),
        ),
    };
    Some((reason, format!("leave `@{wanted}` out{more}")))
}
