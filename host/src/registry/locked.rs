//! `clawhost.lock`, beside the manifest: what components of the tools folder have to be.

use std::io;
use std::path::Path;

use clawhost_core::digest;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::package::Lock;

use super::drop_in;
use crate::regular;

/// What the lock file is called.
pub(crate) const LOCK_FILE: &str = "clawhost.lock";

/// Reads the lock file of `folder`, and no link in its place; an empty one where there is none.
pub(crate) fn read_lock(folder: &Path) -> Result<Lock, String> {
    match regular::read_unlinked(&folder.join(LOCK_FILE), DOCUMENT_BYTES_MAX as u64) {
        Ok(bytes) if bytes.len() > DOCUMENT_BYTES_MAX => Err("it is too large".to_owned()),
        Ok(bytes) => Lock::read(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// Checks that the component `file` is what the lock file of `folder` says, where that is about it.
pub(super) fn check(folder: &Path, file: &str, bytes: &[u8]) -> Result<(), String> {
    let lock = read_lock(folder).map_err(|reason| format!("{LOCK_FILE}: {reason}"))?;
    let stem = drop_in::stem(file).unwrap_or(file);
    let mut own = lock.iter().filter(|(_, locked)| locked.name == stem);
    let differs = |digest: &str| digest::of_bytes(bytes) != digest;
    match own.find(|(_, locked)| differs(&locked.digest)) {
        Some((reference, locked)) => Err(format!(
            "it is not what {LOCK_FILE} says of {reference}, {}: `clawhost pull --replace` fetches that, and without its entry any other is served",
            locked.digest
        )),
        None => Ok(()),
    }
}
