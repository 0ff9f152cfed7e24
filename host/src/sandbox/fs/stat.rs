//! What an object is: identity, kind, size, times.

use cap_std::fs::{FileType, Metadata, MetadataExt as _};
use rustix::fs::Timespec;

use super::fault::Fault;

/// Read, write and execute, for owner, group and others; not setuid, setgid and sticky.
const PERMISSION_BITS: u32 = 0o777;

/// Which object it is, whatever its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Id {
    /// The device that holds it.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
}

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket, a device: nothing a guest may open.
    Special,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        if kind.is_dir() {
            Self::Directory
        } else if kind.is_file() {
            Self::File
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::Special
        }
    }
}

/// What the system says about one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// Which object it is.
    pub id: Id,
    /// What it is.
    pub kind: Kind,
    /// How many names it has.
    pub links: u64,
    /// Who may do what with it: the nine permission bits.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
    /// Last read.
    pub accessed: Timespec,
    /// Last written.
    pub modified: Timespec,
    /// Last change of the object or of what the system keeps about it.
    pub changed: Timespec,
}

impl FileFacts {
    /// Returns the facts about an open file.
    pub(super) fn of_file(file: &std::fs::File) -> Result<Self, Fault> {
        Ok(Self::from(&Metadata::from_file(file)?))
    }

    /// Returns the facts about an open directory.
    pub(super) fn of_dir(dir: &cap_std::fs::Dir) -> Result<Self, Fault> {
        Ok(Self::from(&dir.dir_metadata()?))
    }

    /// Returns the facts about the entry `name` of `dir`, without following it.
    pub(super) fn of_entry(dir: &cap_std::fs::Dir, name: &str) -> Result<Self, Fault> {
        Ok(Self::from(&dir.symlink_metadata(name)?))
    }
}

impl From<&Metadata> for FileFacts {
    fn from(meta: &Metadata) -> Self {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        Self {
            id: Id { device: meta.dev(), inode: meta.ino() },
            kind: meta.file_type().into(),
            links: meta.nlink(),
            mode: meta.mode() & PERMISSION_BITS,
            size: meta.len(),
            accessed: time(meta.atime(), meta.atime_nsec()),
            modified: time(meta.mtime(), meta.mtime_nsec()),
            changed: time(meta.ctime(), meta.ctime_nsec()),
        }
    }
}
