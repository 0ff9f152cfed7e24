//! The operator's own store of secrets: one file in the state folder, for its owner only.
//!
//! Deliberately absent: encryption. Whoever can read a private file of this user can read this
//! host's memory too; a key beside the file would lock nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::StateDir;
use super::private::{PrivateFileError, PrivateJson, VERSION};

/// The file in the state folder.
pub const SECRETS_FILE: &str = "secrets.json";
/// The store of one state folder. It is read anew each time, so that a secret that was set is
/// there for a host that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretStore {
    file: PrivateJson,
}

/// The file, as written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    secrets: BTreeMap<String, Zeroizing<String>>,
}

impl SecretStore {
    /// Returns the store of `state`; nothing is read or made.
    pub fn new(state: &StateDir) -> Self {
        Self { file: PrivateJson::new(state.path(), SECRETS_FILE) }
    }

    /// Returns the state folder it is in.
    pub fn folder(&self) -> &Path {
        self.file.folder()
    }

    /// Returns the value of `name`, if there is one.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub fn get(&self, name: &str) -> Result<Option<Zeroizing<String>>, PrivateFileError> {
        Ok(self.read()?.secrets.remove(name))
    }

    /// Returns the names, in order.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub fn names(&self) -> Result<Vec<String>, PrivateFileError> {
        Ok(self.read()?.secrets.into_keys().collect())
    }

    /// Keeps `value` under `name`, and says whether it replaced another one.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub fn set(&self, name: &str, value: Zeroizing<String>) -> Result<bool, PrivateFileError> {
        self.change(|secrets| secrets.insert(name.to_owned(), value).is_some())
    }

    /// Forgets `name`, and says whether it was there.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub fn remove(&self, name: &str) -> Result<bool, PrivateFileError> {
        self.change(|secrets| secrets.remove(name).is_some())
    }

    /// Waits until nobody else changes what `name` is by asking somebody far away: until the file
    /// that it returns is closed. Who only sets it does not wait.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub(crate) fn turn(&self, name: &str) -> Result<File, PrivateFileError> {
        PrivateJson::new(self.folder(), &format!("{name}.json")).lock()
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Zeroizing<String>>) -> bool,
    ) -> Result<bool, PrivateFileError> {
        let _lock = self.file.lock()?;
        let mut stored = self.read()?;
        let done = change(&mut stored.secrets);
        self.file.write(&stored)?;
        Ok(done)
    }

    fn read(&self) -> Result<Stored, PrivateFileError> {
        let none = || Stored { version: VERSION, secrets: BTreeMap::new() };
        Ok(self.file.read()?.unwrap_or_else(none))
    }
}

#[cfg(test)]
mod tests {
    use super::super::FolderEnv;
    use super::*;
    use crate::state::FileProblem;

    fn store() -> (tempfile::TempDir, SecretStore) {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(Some(root.path()), &FolderEnv::default()).unwrap();
        (root, SecretStore::new(&state))
    }

    fn value(text: &str) -> Zeroizing<String> {
        Zeroizing::new(text.to_owned())
    }

    #[test]
    fn what_is_set_is_there_until_it_is_removed() {
        let (_root, store) = store();
        assert_eq!(store.get("A").unwrap(), None);
        assert!(!store.set("A", value("one")).unwrap());
        assert!(store.set("A", value("two")).unwrap());
        assert!(!store.set("B", value("ä\n\"")).unwrap());
        assert_eq!(store.names().unwrap(), ["A", "B"]);
        assert_eq!(store.get("A").unwrap(), Some(value("two")));
        assert_eq!(store.get("B").unwrap(), Some(value("ä\n\"")));
        assert!(store.remove("A").unwrap() && !store.remove("A").unwrap());
        assert_eq!(store.names().unwrap(), ["B"]);
    }

    #[test]
    fn a_store_that_is_full_keeps_what_it_has() {
        let (_root, store) = store();
        store.set("A", value("one")).unwrap();
        let huge = value(&"x".repeat(clawhost_core::limits::DOCUMENT_BYTES_MAX));
        assert!(matches!(store.set("B", huge).unwrap_err().problem, FileProblem::Full));
        assert_eq!(store.names().unwrap(), ["A"]);
    }

    #[test]
    fn the_file_is_private_and_an_exposed_one_a_link_and_a_pipe_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (root, store) = store();
        store.set("A", value("one")).unwrap();
        let path = root.path().join(SECRETS_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = store.get("A").unwrap_err();
        assert!(matches!(exposed.problem, FileProblem::Exposed), "{exposed}");
        std::fs::rename(&path, root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.path().join("elsewhere"), &path).unwrap();
        assert!(store.get("A").is_err() && store.set("A", value("x")).is_err());
    }

    #[test]
    fn a_damaged_file_is_refused_without_showing_it() {
        let (root, store) = store();
        store.set("A", value("one")).unwrap();
        let path = root.path().join(SECRETS_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for wrong in [
            text.replace("\"one\"", "hidden-value"),
            text.replace("{\n  \"version\"", "{\"x\": 1, \"version\""),
            text.replace("\"version\": 1", "\"version\": 2"),
            String::new(),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = store.get("A").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
            assert!(store.set("B", value("x")).is_err());
        }
    }
}
