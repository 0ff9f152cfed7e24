//! The folder that a registry publishes: `{namespace}/{name}/{version}/` with one
//! `document.yaml` or `document.json` and, beside that of a Tool, one `component.wasm` or
//! `component.wat`.
//!
//! Everything is read through a handle of the folder, so that neither a name nor a link leads
//! out of it. A document that is not what its place says is not published.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX};
use clawhost_core::manifest::{DocumentHead, read_head};
use clawhost_core::uri::{Kind, RegistryUri};

use crate::registry::{Index, Part};

/// The names a document may have, and what each holds.
const DOCUMENTS: [(&str, &str); 2] =
    [("document.yaml", "application/yaml"), ("document.json", "application/json")];
/// The names a component may have, and what each holds.
const COMPONENTS: [(&str, &str); 2] =
    [("component.wasm", "application/wasm"), ("component.wat", "text/plain; charset=utf-8")];

/// A published folder.
#[derive(Debug)]
pub(super) struct Folder(Dir);

/// One of the three things that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Component,
    Document,
    Index,
}

/// What an answer carries.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) media: &'static str,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unpublished {
    /// There is no such thing.
    #[error("nothing is published here")]
    Absent,
    /// What is there breaks a rule; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// It is there and cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl Folder {
    pub(super) const fn new(dir: Dir) -> Self {
        Self(dir)
    }

    /// Reads one item of the package under `uri`, whose parts have to be safe names of folders.
    pub(super) fn read(&self, uri: &RegistryUri, item: Item) -> Result<Found, Unpublished> {
        let dir = open(&open(&open(&self.0, &uri.namespace)?, &uri.name)?, &uri.version)?;
        let document = file(&dir, DOCUMENTS, DOCUMENT_BYTES_MAX as u64)?;
        let document = document.ok_or(Unpublished::Absent)?;
        let head = head(uri, &document.bytes)?;
        if item == Item::Document {
            return Ok(document);
        }
        let component = file(&dir, COMPONENTS, COMPONENT_BYTES_MAX)?;
        if component.is_some() && head.kind != Kind::Tool {
            return Err(Unpublished::Invalid(format!("a {} has no component", head.kind)));
        }
        match item {
            Item::Component => component.ok_or(Unpublished::Absent),
            Item::Document | Item::Index => Ok(index(uri, &head, &document, component.as_ref())),
        }
    }
}

fn index(
    uri: &RegistryUri,
    head: &DocumentHead,
    document: &Found,
    component: Option<&Found>,
) -> Found {
    let part =
        |of: &Found| Part { digest: digest::of_bytes(&of.bytes), bytes: of.bytes.len() as u64 };
    let index = Index {
        namespace: uri.namespace.clone(),
        name: uri.name.clone(),
        version: uri.version.clone(),
        kind: head.kind.document().to_owned(),
        document: part(document),
        component: component.map(part),
    };
    let bytes = serde_json::to_vec(&index).unwrap_or_default();
    Found { bytes, media: "application/json" }
}

/// Checks that a document is what its place says.
fn head(uri: &RegistryUri, bytes: &[u8]) -> Result<DocumentHead, Unpublished> {
    let head = read_head(Path::new(&uri.to_string()), bytes).map_err(|problems| {
        let first = problems.first().map(|problem| problem.one_line());
        Unpublished::Invalid(first.unwrap_or_else(|| "the document is wrong".to_owned()))
    })?;
    if head.name != uri.name || head.version.as_deref() != Some(&uri.version) {
        let version = head.version.as_deref().unwrap_or("(none)");
        let what = format!("the document is called `{}` and of version {version}", head.name);
        return Err(Unpublished::Invalid(what));
    }
    Ok(head)
}

fn open(dir: &Dir, name: &str) -> Result<Dir, Unpublished> {
    dir.open_dir(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unpublished::Absent,
        _ => Unpublished::Unreadable(error),
    })
}

/// Reads the one of `names` that is there.
fn file(
    dir: &Dir,
    names: [(&str, &'static str); 2],
    bytes_max: u64,
) -> Result<Option<Found>, Unpublished> {
    let mut found = None;
    for (name, media) in names {
        match dir.metadata(name) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(Unpublished::Invalid(format!("`{name}` is no regular file")));
            }
            Ok(_) if found.is_some() => {
                return Err(Unpublished::Invalid(format!("`{name}` is a second one")));
            }
            Ok(_) => found = Some(Found { bytes: read(dir, name, bytes_max)?, media }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn read(dir: &Dir, name: &str, bytes_max: u64) -> Result<Vec<u8>, Unpublished> {
    let mut bytes = Vec::new();
    dir.open(name)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Unpublished::Invalid(format!("`{name}` has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}
