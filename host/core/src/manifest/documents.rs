//! How documents are reached: the host reads files and asks registries, tests read a map.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::uri::RegistryUri;

/// A place that documents come from.
pub trait Documents {
    /// Returns the bytes of a file. An implementation stops reading, with an error, at a size
    /// of its choice above [`crate::limits::DOCUMENT_BYTES_MAX`].
    ///
    /// # Errors
    /// The file does not exist, is no regular file, or cannot be read.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// Returns what a directory holds, in any order, without `.` and `..`. Where there are no
    /// directories, nothing.
    ///
    /// # Errors
    /// The directory does not exist or cannot be read.
    fn list(&self, _directory: &Path) -> io::Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }

    /// Says whether `path` is a directory. Where there are none, nothing is.
    fn is_directory(&self, _path: &Path) -> bool {
        false
    }

    /// Says whether `file`, which lies below `directory`, leads out of it through a link. Where
    /// there are no links, nothing does.
    fn leaves(&self, _directory: &Path, _file: &Path) -> bool {
        false
    }

    /// Returns what the configured registries hold under an address, the first that has it.
    /// Its digests were compared; what the document says is the loader's to check.
    ///
    /// # Errors
    /// [`RegistryError`]; without registries, which is the default, always.
    fn registry(&self, _uri: &RegistryUri) -> Result<Package, RegistryError> {
        Err(RegistryError::NotConfigured)
    }
}

/// One document, whatever it is asked for as, and no directory.
#[derive(Debug)]
pub struct OneDocument(pub Vec<u8>);

impl Documents for OneDocument {
    fn read(&self, _file: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }
}

/// One thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its last path component, which need be no text.
    pub name: OsString,
    /// It is a directory, and no symbolic link.
    pub is_directory: bool,
}

/// What a registry holds under one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The name of the registry that had it.
    pub registry: String,
    /// The document, as bytes.
    pub document: Vec<u8>,
    /// `sha256:…` of the document.
    pub digest: String,
    /// The component that a Tool may bring along.
    pub component: Option<Component>,
}

/// The code that came with a Tool document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The component, in binary or text form.
    pub bytes: Arc<[u8]>,
    /// `sha256:…` of these bytes.
    pub digest: String,
    /// The text of a signature of them.
    pub signature: Option<String>,
}

/// Why no registry gave what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// One of them failed, or gave what it should not. Those after it were not asked: who can
    /// silence a registry must not choose which one answers in its place.
    #[error("the registry `{registry}` {reason}")]
    Failed {
        /// Its name.
        registry: String,
        /// What it did, as the end of a sentence.
        reason: String,
    },
    /// There is none to ask.
    #[error("no registry is configured")]
    NotConfigured,
    /// All of them were asked, and none has it.
    #[error("no registry has it (asked: {0})")]
    NotFound(String),
}
