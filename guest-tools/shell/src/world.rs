//! What the shell needs of the world: files and a clock, and no more.
//!
//! Paths are relative to the granted folder, made plain: no `.`, no `..`, `.` for the folder
//! itself.

use std::time::Duration;

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// What is known about a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Since 1970.
    pub(crate) modified: Duration,
}

/// Why a path could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileError(pub(crate) String);

/// A result of using a path.
pub(crate) type Filed<T> = Result<T, FileError>;

impl FileError {
    pub(crate) fn not_found() -> Self {
        Self("No such file or directory".to_owned())
    }

    pub(crate) fn is_folder() -> Self {
        Self("Is a directory".to_owned())
    }
}

/// The granted files.
pub(crate) trait Files {
    /// What `path` is; a link itself, unless `follow`.
    fn stat(&self, path: &str, follow: bool) -> Filed<Stat>;
    /// Whether two paths lead to one file.
    fn is_same(&self, one: &str, other: &str) -> Filed<bool>;
    /// Names in a folder, in any order, without `.` and `..`.
    fn list(&self, path: &str) -> Filed<Vec<(String, Kind)>>;
    /// At most `bytes` from `offset`; fewer only at the end.
    fn read(&self, path: &str, offset: u64, bytes: usize) -> Filed<Vec<u8>>;
    /// Makes `path` an empty file.
    fn create(&self, path: &str) -> Filed<()>;
    /// Adds to a file, which is made where it is not there.
    fn append(&self, path: &str, bytes: &[u8]) -> Filed<()>;
    fn make_folder(&self, path: &str) -> Filed<()>;
    fn remove_file(&self, path: &str) -> Filed<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &str) -> Filed<()>;
    /// Renames, replacing a file of the new name.
    fn rename(&self, from: &str, to: &str) -> Filed<()>;
    /// Sets when `path` was last changed.
    fn set_modified(&self, path: &str, time: Duration) -> Filed<()>;
}

/// Times.
pub(crate) trait Clock {
    /// Since 1970.
    fn wall(&self) -> Duration;
    /// Since some moment; never goes back.
    fn steady(&self) -> Duration;
}
