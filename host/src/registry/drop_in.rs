//! The files of the drop-in directory: what is there, whether it changed, what became of it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::SystemTime;

use cap_std::fs::{Dir, MetadataExt as _};
use clawhost_core::limits::{COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, DROP_IN_FILES_MAX};
use clawhost_core::manifest::ToolBinding;

use super::builtin::Offer;

/// One component file of the directory.
#[derive(Debug)]
pub(super) struct DropIn {
    pub(super) name: String,
    /// Its place in the order in which files were first seen: an earlier one keeps a name.
    pub(super) seen: u64,
    pub(super) print: Fingerprint,
    pub(super) status: Status,
}

/// What became of a file.
#[derive(Debug)]
pub(super) enum Status {
    /// It is being read and compiled.
    Loading,
    /// It is in service.
    Ready { offer: Offer, sidecars: Vec<ToolBinding> },
    /// It cannot be used, and why.
    Failed(String),
}

/// Everything whose change means reading a file, or one of its documents, again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint(Vec<Facts>);

/// What is looked at of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    name: String,
    regular: bool,
    len: u64,
    inode: u64,
    modified: Option<SystemTime>,
}

/// What the directory holds at one moment: component files and what belongs to each.
pub(super) type Listing = BTreeMap<String, Fingerprint>;

/// Reads the directory: each component file with its `.yaml` documents.
///
/// # Errors
/// The directory cannot be read, or holds more than [`DROP_IN_FILES_MAX`] files.
pub(super) fn list(dir: &Dir) -> std::io::Result<Listing> {
    let mut files = BTreeMap::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || entry.file_type()?.is_dir() {
            continue;
        }
        if files.len() >= DROP_IN_FILES_MAX {
            return Err(std::io::Error::other(format!(
                "the directory holds more than {DROP_IN_FILES_MAX} files"
            )));
        }
        let Ok(meta) = entry.metadata() else { continue };
        let modified = meta.modified().ok().map(cap_std::time::SystemTime::into_std);
        let facts = Facts {
            name: name.clone(),
            regular: meta.is_file(),
            len: meta.len(),
            inode: meta.ino(),
            modified,
        };
        files.insert(name, facts);
    }
    let components = files.keys().filter(|name| stem(name).is_some());
    Ok(components.map(|name| (name.clone(), fingerprint(name, &files))).collect())
}

fn fingerprint(component: &str, files: &BTreeMap<String, Facts>) -> Fingerprint {
    let own = files.get(component).cloned();
    let documents = files
        .iter()
        .filter(|(name, _)| is_sidecar(component, name))
        .map(|(_, facts)| facts.clone());
    Fingerprint(own.into_iter().chain(documents).collect())
}

impl Fingerprint {
    /// Returns the first of its files that is a link, a FIFO or a device: none of those is
    /// followed or opened, and a tool without its document would run under another profile.
    pub(super) fn irregular(&self) -> Option<&str> {
        self.0.iter().find(|facts| !facts.regular).map(|facts| facts.name.as_str())
    }

    /// Returns the names of the documents that belong to the component.
    pub(super) fn sidecars(&self) -> impl Iterator<Item = &str> {
        self.0.iter().skip(1).map(|facts| facts.name.as_str())
    }
}

/// Returns the stem of a component file's name, or none for any other file.
fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(".wasm").or_else(|| name.strip_suffix(".wat")).filter(|stem| !stem.is_empty())
}

/// `<stem>.yaml`, or `<stem>.<tool>.yaml` for one tool of several.
fn is_sidecar(component: &str, name: &str) -> bool {
    let (Some(stem), Some(document)) = (stem(component), name.strip_suffix(".yaml")) else {
        return false;
    };
    document == stem || document.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'))
}

/// Reads a component file, bounded.
///
/// # Errors
/// It cannot be read, or is over [`COMPONENT_BYTES_MAX`].
pub(super) fn read_component(dir: &Dir, name: &str) -> Result<Vec<u8>, String> {
    read(dir, name, COMPONENT_BYTES_MAX)
}

/// Reads a document beside a component, bounded.
///
/// # Errors
/// It cannot be read, or is over [`DOCUMENT_BYTES_MAX`].
pub(super) fn read_document(dir: &Dir, name: &str) -> Result<Vec<u8>, String> {
    read(dir, name, DOCUMENT_BYTES_MAX as u64)
}

fn read(dir: &Dir, name: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    let file = dir.open(name).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("`{name}` is over {bytes_max} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_belongs_to_the_component_whose_stem_it_carries() {
        for (component, document, belongs) in [
            ("a.wasm", "a.yaml", true),
            ("a.wat", "a.count.yaml", true),
            ("a.wasm", "ab.yaml", false),
            ("a.b.wasm", "a.b.yaml", true),
            ("a.wasm", "b.yaml", false),
            ("a.txt", "a.yaml", false),
            (".wasm", ".yaml", false),
        ] {
            assert_eq!(is_sidecar(component, document), belongs, "{component} {document}");
        }
    }
}
