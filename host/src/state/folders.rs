//! The two folders a host owns: state, which must not be lost or read, and cache, which may be.
//!
//! Deliberately absent: files outside these two, and any repair of a folder that somebody else
//! could have written to. Such a folder is refused.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::regular;

/// What the environment says about folders. Empty and relative paths count as unset, as the XDG
/// base directory specification has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderEnv {
    /// `HOME`.
    pub home: Option<OsString>,
    /// `XDG_CACHE_HOME`.
    pub cache_home: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
}

impl FolderEnv {
    /// Reads this process's environment.
    pub fn from_process() -> Self {
        Self {
            home: std::env::var_os("HOME"),
            cache_home: std::env::var_os("XDG_CACHE_HOME"),
            state_home: std::env::var_os("XDG_STATE_HOME"),
        }
    }

    fn state(&self) -> Option<PathBuf> {
        self.folder(self.state_home.as_ref(), ".local/state")
    }

    fn cache(&self) -> Option<PathBuf> {
        self.folder(self.cache_home.as_ref(), ".cache")
    }

    fn folder(&self, own: Option<&OsString>, below_home: &str) -> Option<PathBuf> {
        let base =
            absolute(own).or_else(|| Some(absolute(self.home.as_ref())?.join(below_home)))?;
        Some(base.join("clawhost"))
    }
}

fn absolute(path: Option<&OsString>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Why a folder cannot be used: nothing names one, the system says so, or somebody else could have put
/// something in it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FolderError(String);

impl FolderError {
    pub(crate) fn unusable(path: &Path, error: &io::Error, option: &str) -> Self {
        let path = path.display();
        Self(format!("the folder {path} cannot be used: {error}; name another one with {option}"))
    }
}

fn nowhere(what: &str, option: &str, variable: &str) -> FolderError {
    FolderError(format!("no {what} folder: name one with {option}, or set HOME or {variable}"))
}

/// What names the state folder on the command line.
pub(crate) const STATE_OPTION: &str = "--state DIR";
/// Names another cache folder.
pub(crate) const CACHE_OPTION: &str = "XDG_CACHE_HOME";

/// The state folder: credentials and the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Opens the folder `explicit`, else `$XDG_STATE_HOME/clawhost`, else
    /// `~/.local/state/clawhost`. A missing one is made, for its owner only.
    ///
    /// # Errors
    /// [`FolderError`]: no folder is named, it cannot be made, or others may write to it.
    pub fn open(explicit: Option<&Path>, env: &FolderEnv) -> Result<Self, FolderError> {
        Ok(Self { path: own_folder(&Self::locate(explicit, env)?, STATE_OPTION)? })
    }

    /// Returns where [`StateDir::open`] looks, without making anything.
    ///
    /// # Errors
    /// [`FolderError`]: nothing names a folder.
    pub fn locate(explicit: Option<&Path>, env: &FolderEnv) -> Result<PathBuf, FolderError> {
        let named = explicit.map(Path::to_path_buf).or_else(|| env.state());
        named.ok_or_else(|| nowhere("state", STATE_OPTION, "XDG_STATE_HOME"))
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the cache folder, `$XDG_CACHE_HOME/clawhost`, else `~/.cache/clawhost`, for compiled code.
///
/// # Errors
/// [`FolderError`]: nothing names a folder. A host without a cache compiles again and works.
pub fn cache_folder(env: &FolderEnv) -> Result<PathBuf, FolderError> {
    env.cache().ok_or_else(|| nowhere("cache", CACHE_OPTION, CACHE_OPTION))
}

/// Makes `path` where it is missing, and returns its real name; refuses it where others may write to it. `option`
/// names another one.
pub(crate) fn own_folder(path: &Path, option: &str) -> Result<PathBuf, FolderError> {
    let io = |error| FolderError::unusable(path, &error, option);
    regular::make_private(path).map_err(io)?;
    let path = fs::canonicalize(path).map_err(io)?;
    let metadata = fs::metadata(&path).map_err(io)?;
    let Some(reason) = unsafe_because(&metadata) else { return Ok(path) };
    let path = path.display();
    Err(FolderError(format!(
        "the folder {path} {reason}; use another one, or mend it with: chmod 700 {path}"
    )))
}

fn unsafe_because(metadata: &Metadata) -> Option<&'static str> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    (metadata.mode() & 0o022 != 0).then_some("can be written by other users")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(state: &str, home: &str) -> FolderEnv {
        FolderEnv { home: Some(home.into()), cache_home: None, state_home: Some(state.into()) }
    }

    #[test]
    fn the_environment_is_followed_in_order() {
        assert_eq!(env("/s", "/h").state(), Some("/s/clawhost".into()));
        assert_eq!(env("relative", "/h").state(), Some("/h/.local/state/clawhost".into()));
        assert_eq!(env("", "/h").cache(), Some("/h/.cache/clawhost".into()));
        assert_eq!(env("", "").state(), None);
        let error = StateDir::open(None, &FolderEnv::default()).unwrap_err();
        assert!(error.to_string().contains("--state DIR"), "{error}");
    }

    #[test]
    fn a_new_folder_is_private_and_an_open_one_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let state = StateDir::open(Some(&path), &FolderEnv::default()).unwrap();
        assert_eq!(fs::metadata(state.path()).unwrap().permissions().mode() & 0o777, 0o700);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateDir::open(Some(&path), &FolderEnv::default()).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        let error = StateDir::open(Some(&path), &FolderEnv::default()).unwrap_err().to_string();
        assert!(error.ends_with("; name another one with --state DIR"), "{error}");
    }
}
