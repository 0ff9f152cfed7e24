//! Files that hold secrets, as JSON that only this host writes: read and replaced so that nobody
//! else reads them or puts theirs in their place.
//!
//! Deliberately absent: what the files say. Errors name a file and a reason, never content.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// What the `version` of each such file has to say.
pub(super) const VERSION: u32 = 1;

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path} {problem}", path = path.display())]
pub struct PrivateFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What is wrong with such a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// Others may read the file, so its secrets are none.
    #[error("can be read by other users: its secrets are no longer secret")]
    Exposed,
    /// It would be larger than is read.
    #[error("is full")]
    Full,
    /// The file cannot be read or written.
    #[error("cannot be used: {0}")]
    Io(io::Error),
    /// It is not what this host has put there. Never repeats its content.
    #[error("is not usable: {0}")]
    Unusable(String),
}

/// One such file: an object whose `version` is [`VERSION`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PrivateJson {
    path: PathBuf,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl PrivateJson {
    /// Returns the file `name` of `folder`; nothing is read or made.
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(name) }
    }

    /// Returns the folder it is in.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Takes the lock file beside it, and waits for whoever has it: those who read the file,
    /// change it and write it back do so one after the other.
    pub(super) fn lock(&self) -> Result<File, PrivateFileError> {
        let path = self.path.with_extension("lock");
        let mut options = options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| PrivateFileError { path, problem: FileProblem::Io(error) })
    }

    /// Reads the file, of less than [`DOCUMENT_BYTES_MAX`] bytes; none where there is none.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, PrivateFileError> {
        let Some(text) = self.text()? else {
            return Ok(None);
        };
        // The reader's own words may quote what it read.
        let damaged = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            self.unusable(format!("line {line}, column {column} is not as this host writes it"))
        };
        let Version { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version != VERSION {
            let reason = format!("it has version {version}, and this host knows {VERSION}");
            return Err(self.unusable(reason));
        }
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    fn text(&self) -> Result<Option<Zeroizing<Vec<u8>>>, PrivateFileError> {
        let file = match options().read(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.io(error))?,
        };
        self.check(&file)?;
        let mut text = Zeroizing::default();
        let read = file.take(DOCUMENT_BYTES_MAX as u64).read_to_end(&mut text);
        read.map_err(|error| self.io(error))?;
        Ok(Some(text))
    }

    /// Writes the file in one step: a reader, or a crash, sees the old one or the new one. The
    /// caller has the [`lock`](Self::lock).
    pub(super) fn write(&self, content: &impl Serialize) -> Result<(), PrivateFileError> {
        let text = serde_json::to_vec_pretty(content).map_err(|error| self.io(error.into()))?;
        let mut text = Zeroizing::new(text);
        text.push(b'\n');
        if text.len() >= DOCUMENT_BYTES_MAX {
            return Err(self.error(FileProblem::Full));
        }
        self.replace(&text).map_err(|error| self.io(error))
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        // The lock is the caller's, so a file of this name is what a crash has left.
        let new = self.path.with_extension("json.new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = options().write(true).create_new(true).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_folder(&self.path)
    }

    fn check(&self, file: &File) -> Result<(), PrivateFileError> {
        let metadata = file.metadata().map_err(|error| self.io(error))?;
        if !metadata.is_file() {
            return Err(self.unusable("it is no regular file"));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(self.unusable("it belongs to another user"));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(self.error(FileProblem::Exposed));
        }
        Ok(())
    }

    /// Returns the error of a file that says what it cannot say.
    pub(super) fn unusable(&self, reason: impl Into<String>) -> PrivateFileError {
        self.error(FileProblem::Unusable(reason.into()))
    }

    fn io(&self, error: io::Error) -> PrivateFileError {
        self.error(FileProblem::Io(error))
    }

    fn error(&self, problem: FileProblem) -> PrivateFileError {
        PrivateFileError { path: self.path.clone(), problem }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // No link is followed, and a pipe in the file's place does not make us wait.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
