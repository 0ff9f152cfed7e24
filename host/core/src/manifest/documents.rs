//! How documents are reached: the host reads files, tests read a map.

use std::io;
use std::path::Path;

/// A place that documents come from.
pub trait Documents {
    /// Returns the bytes of a file. An implementation stops reading, with an error, at a size
    /// of its choice above [`crate::limits::DOCUMENT_BYTES_MAX`].
    ///
    /// # Errors
    /// The file does not exist, is no regular file, or cannot be read.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// Returns what a directory holds, in any order, without `.` and `..`.
    ///
    /// # Errors
    /// The directory does not exist or cannot be read.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>>;

    /// Says whether `path` is a directory.
    fn is_directory(&self, path: &Path) -> bool;
}

/// One thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its last path component.
    pub name: String,
    /// It is a directory, and no symbolic link.
    pub is_directory: bool,
}
