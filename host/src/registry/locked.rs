//! `clawhost.lock`, beside the manifest: what components of the tools folder have to be.

use std::io;
use std::path::Path;

use clawhost_core::digest;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::package::Lock;

use super::drop_in;
use crate::engine::LoadError;
use crate::regular;

/// What the lock file is called.
pub(crate) const LOCK_FILE: &str = "clawhost.lock";

/// Reads the lock file of `folder`, and no link in its place; an empty one where there is none.
///
/// # Errors
/// [`LoadError::Passing`]: it cannot be read. Otherwise it is no lock file.
pub(crate) fn read_lock(folder: &Path) -> Result<Lock, LoadError> {
    match regular::read_unlinked(&folder.join(LOCK_FILE), DOCUMENT_BYTES_MAX as u64) {
        Ok(bytes) if bytes.len() > DOCUMENT_BYTES_MAX => Err("it is too large".to_owned().into()),
        Ok(bytes) => Ok(Lock::read(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(error) => Err(LoadError::Passing(format!("it cannot be read: {error}"))),
    }
}

/// Checks that the component `file` is what the lock file of `folder` says, and says whether that is about
/// it.
pub(super) fn check(folder: &Path, file: &str, bytes: &[u8]) -> Result<bool, LoadError> {
    let named = |reason| format!("{LOCK_FILE}: {reason}");
    let lock = read_lock(folder).map_err(|error| match error {
        LoadError::Passing(reason) => LoadError::Passing(named(reason)),
        LoadError::Unusable(reason) => LoadError::Unusable(named(reason)),
    })?;
    let stem = drop_in::stem(file).unwrap_or(file);
    let own: Vec<_> = lock.iter().filter(|(_, locked)| locked.name == stem).collect();
    let differs = |digest: &str| digest::of_bytes(bytes) != digest;
    match own.iter().find(|(_, locked)| differs(&locked.digest)) {
        Some((reference, locked)) => Err(LoadError::Unusable(format!(
            "it is not what {LOCK_FILE} says of {reference}, {}: `clawhost pull --replace` fetches that, and without its entry any other is served",
            locked.digest
        ))),
        None => Ok(!own.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_file_that_cannot_be_read_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(LOCK_FILE);
        let checked = || check(folder.path(), "a.wasm", b"bytes");
        assert_eq!(checked(), Ok(false));
        std::fs::write(&lock, "no lock file").unwrap();
        assert!(matches!(checked(), Err(LoadError::Unusable(_))), "{:?}", checked());
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        assert!(matches!(checked(), Err(LoadError::Passing(_))), "{:?}", checked());
    }

    #[test]
    fn the_lock_file_tells_what_was_pulled_from_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let digest = digest::of_bytes(b"bytes");
        let entry = format!("{{digest: \"{digest}\", bytes: 5, name: a, source: x}}");
        let text = format!("version: 1\ncomponents: {{\"https://x.example/a.wasm\": {entry}}}");
        std::fs::write(folder.path().join(LOCK_FILE), text).unwrap();
        let checked = |file, bytes| check(folder.path(), file, bytes);
        assert_eq!(checked("a.wasm", &b"bytes"[..]), Ok(true));
        assert_eq!(checked("b.wasm", b"other bytes"), Ok(false));
        assert!(matches!(checked("a.wat", b"other bytes"), Err(LoadError::Unusable(_))));
    }
}
