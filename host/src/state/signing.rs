//! What the key that signs the audit log is made of: made once, in the state folder, for its owner
//! only.
//!
//! Deliberately absent: protection from the user whose key it is. What signatures show, they show to
//! those who have the public key and not this folder.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::StateDir;
use super::private::{PrivateFileError, PrivateJson, VERSION};
use crate::random;

/// The file in the state folder. Where it is taken away, the next host makes another.
const FILE: &str = "audit-key.json";
const SEED_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    ed25519_seed: Zeroizing<String>,
}

/// Returns the seed of the state folder's key, 32 bytes, and makes one where there is none.
///
/// # Errors
/// [`PrivateFileError`].
pub fn signing_seed(state: &StateDir) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    let file = PrivateJson::new(state.path(), FILE);
    let _locked = file.lock()?;
    if let Some(seed) = existing_signing_seed(state.path())? {
        return Ok(seed);
    }
    let seed = random::bytes::<SEED_BYTES>();
    let seed = Zeroizing::new(seed.map_err(|error| file.unusable(error.to_string()))?.to_vec());
    let ed25519_seed = Zeroizing::new(BASE64_STANDARD.encode(&seed));
    file.write(&Stored { version: VERSION, ed25519_seed })?;
    Ok(seed)
}

/// As [`signing_seed`], of a folder that may be none, and makes nothing.
///
/// # Errors
/// [`PrivateFileError`].
pub fn existing_signing_seed(state: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, PrivateFileError> {
    let file = PrivateJson::new(state, FILE);
    let Some(stored) = file.read::<Stored>()? else { return Ok(None) };
    let seed = Zeroizing::new(BASE64_STANDARD.decode(&*stored.ed25519_seed).unwrap_or_default());
    if seed.len() == SEED_BYTES { Ok(Some(seed)) } else { Err(file.unusable("it holds no key")) }
}

#[cfg(test)]
mod tests {
    use super::super::FolderEnv;
    use super::*;

    #[test]
    fn it_is_made_once_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let state = StateDir::open(Some(&path), &FolderEnv::from_process()).unwrap();
        let made = signing_seed(&state).unwrap();
        assert_eq!(signing_seed(&state).unwrap(), made);
        std::fs::write(path.join(FILE), r#"{"version": 1, "ed25519_seed": "AAAA"}"#).unwrap();
        assert!(signing_seed(&state).unwrap_err().to_string().contains("no key"));
    }
}
