//! Files that hold secrets: read and replaced so that nobody else reads them or puts theirs in
//! their place.
//!
//! Deliberately absent: what the files say. Errors name a file and a reason, never content.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clawhost_core::limits::DOCUMENT_BYTES_MAX;

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// Others may read the file, so its secrets are none.
    #[error("{path} can be read by other users: its secrets are no longer secret", path = path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("{path} cannot be used: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is not what this host has put there.
    #[error("{path} is not usable: {reason}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Takes the lock file `path`, and waits for whoever has it: those who read a file, change it and
/// write it back do so one after the other.
pub(super) fn lock(path: &Path) -> Result<File, PrivateFileError> {
    let io = |source| PrivateFileError::Io { path: path.to_path_buf(), source };
    let mut options = options();
    let file =
        options.read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

/// Reads the file, of at most [`DOCUMENT_BYTES_MAX`] bytes; none where there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, PrivateFileError> {
    let io = |source| PrivateFileError::Io { path: path.to_path_buf(), source };
    let file = match options().read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io)?,
    };
    check(&file, path)?;
    let mut text = Vec::new();
    file.take(DOCUMENT_BYTES_MAX as u64).read_to_end(&mut text).map_err(io)?;
    Ok(Some(text))
}

/// Writes the file in one step: a reader, or a crash, sees the old one or the new one. The caller
/// has the [`lock`].
pub(super) fn replace(path: &Path, text: &[u8]) -> Result<(), PrivateFileError> {
    let io = |source| PrivateFileError::Io { path: path.to_path_buf(), source };
    // The lock is the caller's, so a file of this name is what a crash has left.
    let new = path.with_extension("json.new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let mut file = options().write(true).create_new(true).open(&new).map_err(io)?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::rename(&new, path).map_err(io)?;
    sync_folder(path).map_err(io)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // No link is followed, and a pipe in the file's place does not make us wait.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

#[cfg(unix)]
fn check(file: &File, path: &Path) -> Result<(), PrivateFileError> {
    use std::os::unix::fs::MetadataExt as _;
    let path = || path.to_path_buf();
    let metadata =
        file.metadata().map_err(|source| PrivateFileError::Io { path: path(), source })?;
    let unusable = |reason| Err(PrivateFileError::Unusable { path: path(), reason });
    if !metadata.is_file() {
        return unusable("it is no regular file");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return unusable("it belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(PrivateFileError::Exposed { path: path() });
    }
    Ok(())
}

/// Elsewhere the state folder's access list is what keeps others out.
#[cfg(not(unix))]
fn check(_file: &File, _path: &Path) -> Result<(), PrivateFileError> {
    Ok(())
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
const fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}
