//! The folder that a registry publishes: `{namespace}/{name}/{version}/` with one
//! `document.yaml` or `document.json` and, beside that of a Tool, one `component.wasm` or
//! `component.wat`, with its signature.
//!
//! Everything is read through a handle of the folder, so that neither a name nor a link leads
//! out of it. A document that is not what its place says is not published.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::{
    COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, REGISTRY_LISTED_MAX, REGISTRY_REASON_BYTES_MAX,
    SIGNATURE_BYTES_MAX,
};
use clawhost_core::manifest::{DocumentHead, read_head};
use clawhost_core::uri::{ClawUri, Kind, RegistryUri};
use clawhost_core::{truncate, visible};

use crate::registry::{Index, Part, is_publishable};

/// The names a document may have, and what each holds.
const DOCUMENTS: [(&str, &str); 2] =
    [("document.yaml", "application/yaml"), ("document.json", "application/json")];
/// The names a component may have, and what each holds.
const COMPONENTS: [(&str, &str); 2] =
    [("component.wasm", "application/wasm"), ("component.wat", "text/plain; charset=utf-8")];

/// The names that the signature of either may have.
const SIGNATURES: [(&str, &str); 2] =
    [("component.wasm.minisig", ""), ("component.wat.minisig", "")];

#[derive(Debug)]
pub(super) struct Folder(Dir);

/// One of the three things that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Component,
    Document,
    Index,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) media: &'static str,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unpublished {
    #[error("nothing is published here")]
    Absent,
    /// What is there breaks a rule; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// It is there and cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// One folder that should be a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// `namespace/name/version`.
    pub place: String,
    /// Why it is not served, where it is not: one line that can be shown.
    pub wrong: Option<String>,
}

impl Unpublished {
    /// Returns the reason as one line that can be shown anywhere: it may quote a document.
    pub(super) fn reason(&self) -> String {
        let line = visible::line(&self.to_string());
        truncate::text(&line, REGISTRY_REASON_BYTES_MAX).to_owned()
    }
}

/// Returns the address of a package, if it is one that can be published.
pub(super) fn address(namespace: &str, name: &str, version: &str) -> Option<RegistryUri> {
    match ClawUri::parse(&format!("claw://registry/{namespace}/{name}@{version}")).ok()? {
        ClawUri::Registry(uri) => Some(uri).filter(is_publishable),
        ClawUri::Local(_) => None,
    }
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
            Item::Document | Item::Index => {
                let signature =
                    file(&dir, SIGNATURES, SIGNATURE_BYTES_MAX)?.map(text).transpose()?;
                Ok(index(uri, &head, &document, component.as_ref(), signature))
            }
        }
    }

    /// Returns the packages by their places, and what is wrong with each; at most
    /// [`REGISTRY_LISTED_MAX`].
    pub(super) fn list(&self) -> Vec<Listed> {
        let (mut level, mut listed) = (vec![PathBuf::new()], Vec::new());
        for _ in ["namespace", "name", "version"] {
            let mut next = Vec::new();
            for path in level {
                match folders(&self.0, &path) {
                    Ok(names) => next.extend(names.iter().map(|name| path.join(name))),
                    Err(error) => listed.push(Listed::new(&path, Err(error.into()))),
                }
            }
            next.sort();
            next.truncate(REGISTRY_LISTED_MAX);
            level = next;
        }
        listed.extend(level.iter().map(|path| Listed::new(path, self.check(path))));
        listed.sort_by(|one, other| one.place.cmp(&other.place));
        listed
    }

    fn check(&self, path: &Path) -> Result<(), Unpublished> {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let uri = match parts.as_slice() {
            [namespace, name, version] => address(namespace, name, version),
            _ => None,
        };
        let uri = uri
            .ok_or_else(|| Unpublished::Invalid("no address can name these folders".to_owned()))?;
        self.read(&uri, Item::Index).map(drop)
    }
}

impl Listed {
    fn new(path: &Path, checked: Result<(), Unpublished>) -> Self {
        let place = visible::line(&path.to_string_lossy());
        let wrong = checked.err().map(|error| match error {
            Unpublished::Absent => "there is no document.yaml or document.json".to_owned(),
            error => error.reason(),
        });
        Self { place, wrong }
    }
}

/// Returns the names of the folders in one; a hidden one is none, a link may be.
fn folders(dir: &Dir, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let mut names = Vec::new();
    for entry in dir.read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && !entry.file_type()?.is_file() {
            names.push(entry.file_name());
        }
    }
    Ok(names)
}

fn index(
    uri: &RegistryUri,
    head: &DocumentHead,
    document: &Found,
    component: Option<&Found>,
    signature: Option<String>,
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
        signature: signature.filter(|_| component.is_some()),
    };
    let bytes = serde_json::to_vec(&index).unwrap_or_default();
    Found { bytes, media: "application/json" }
}

fn text(of: Found) -> Result<String, Unpublished> {
    let none = |_| Unpublished::Invalid("the signature is no text".to_owned());
    String::from_utf8(of.bytes).map_err(none)
}

/// Checks that a document is what its place says.
fn head(uri: &RegistryUri, bytes: &[u8]) -> Result<DocumentHead, Unpublished> {
    let head = read_head(Path::new(&uri.to_string()), bytes).map_err(|problems| {
        let first = problems.first().map(|problem| problem.one_line());
        Unpublished::Invalid(first.unwrap_or_else(|| "the document is wrong".to_owned()))
    })?;
    if head.name != uri.name || head.version.as_deref() != Some(&uri.version) {
        let version = head.version.as_deref().unwrap_or("(none)");
        let what = format!(
            "the document is called `{}` and of version {version}; its folders say `{}` and {}",
            head.name, uri.name, uri.version
        );
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
