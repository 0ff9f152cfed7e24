//! What stays closed or read-only inside the mounts, by identity and by name.
#![expect(
    clippy::disallowed_methods,
    reason = "a profile's closed paths become identities here, at load"
)]

use std::collections::HashSet;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::grants::Access;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::fault::Fault;
use super::folder::DIR_FLAGS;
use super::stat::{FileFacts, Id};

/// Directories above a mount that are looked at; deeper nesting is refused at load.
const CLIMB_MAX: usize = 4_096;

/// What a profile takes away inside its own mounts.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Objects that are closed, wherever they are met.
    closed: HashSet<Id>,
    /// Closed names in a directory, in lower case; they hold for objects that do not exist yet
    /// or that replace one.
    closed_names: HashSet<(Id, String)>,
    /// Directories granted for reading only.
    read_only: HashSet<Id>,
    /// Directories that hold a granted or closed path: they may not be moved or removed.
    pinned: HashSet<Id>,
}

impl Rules {
    /// Returns what both take away.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.closed.extend(&other.closed);
        both.closed_names.extend(other.closed_names.iter().cloned());
        both.read_only.extend(&other.read_only);
        both.pinned.extend(&other.pinned);
        both
    }

    /// Returns the access that remains of `access` on entering the object `id`.
    pub(super) fn enter(&self, id: Id, access: Access) -> Result<Access, Fault> {
        if self.closed.contains(&id) {
            return Err(Fault::Closed);
        }
        Ok(if self.is_read_only(id) { Access::ReadOnly } else { access })
    }

    /// Says whether the directory `id` is granted for reading only.
    pub(super) fn is_read_only(&self, id: Id) -> bool {
        self.read_only.contains(&id)
    }

    /// Fails if `name` is closed in the directory `id`, whether it exists or not.
    pub(super) fn check_name(&self, id: Id, name: &str) -> Result<(), Fault> {
        if self.closed_names.is_empty() {
            return Ok(());
        }
        if self.closed_names.contains(&(id, name.to_lowercase())) {
            return Err(Fault::Closed);
        }
        Ok(())
    }

    /// Fails unless the object may lose its present name.
    pub(super) fn check_removable(&self, id: Id) -> Result<(), Fault> {
        if self.closed.contains(&id) {
            return Err(Fault::Closed);
        }
        if self.pinned.contains(&id) || self.is_read_only(id) {
            return Err(Fault::Pinned);
        }
        Ok(())
    }

    /// Learns of a mount: its directory and all above it stay where they are, and it is
    /// read-only on every route if it is so granted.
    pub(super) fn add_mount(&mut self, dir: &Dir, access: Access) -> Result<(), Fault> {
        if access == Access::ReadOnly {
            self.read_only.insert(FileFacts::of_dir(dir)?.id);
        }
        self.pinned.extend(self_and_above(dir)?);
        Ok(())
    }

    /// Learns of a closed path: its present object, and its name in the nearest directory that
    /// exists.
    pub(super) fn add_closed(&mut self, path: &Path) -> Result<(), Fault> {
        match rustix::fs::openat(rustix::fs::CWD, path, identity_flags(), Mode::empty()) {
            Ok(fd) => {
                let facts = FileFacts::of_file(&std::fs::File::from(fd))?;
                self.closed.insert(facts.id);
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.close_name(path)
    }

    fn close_name(&mut self, path: &Path) -> Result<(), Fault> {
        for path in path.ancestors() {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(Errno::INVAL.into());
            };
            let dir = match Dir::open_ambient_dir(parent, ambient_authority()) {
                Ok(dir) => dir,
                Err(error) => match Fault::from(error) {
                    Fault::Os(Errno::NOENT | Errno::NOTDIR) => continue,
                    fault => return Err(fault),
                },
            };
            let name = name.to_string_lossy().to_lowercase();
            self.closed_names.insert((FileFacts::of_dir(&dir)?.id, name));
            self.pinned.extend(self_and_above(&dir)?);
            return Ok(());
        }
        Err(Errno::INVAL.into())
    }

    /// Returns the access that remains of `access` below the directories of `chain`: the strictest of it and
    /// of all their marks.
    pub(super) fn access_of(&self, chain: &[Id], access: Access) -> Result<Access, Fault> {
        chain.iter().copied().try_fold(access, |access, id| self.enter(id, access))
    }
}

/// Returns the identities of `dir` and of every directory above it.
pub(super) fn self_and_above(dir: &Dir) -> Result<Vec<Id>, Fault> {
    let mut ids = vec![FileFacts::of_dir(dir)?.id];
    let mut dir = dir.try_clone()?;
    while ids.len() < CLIMB_MAX {
        dir = rustix::fs::openat(&dir, "..", DIR_FLAGS, Mode::empty()).map(Dir::from)?;
        let id = FileFacts::of_dir(&dir)?.id;
        if ids.last() == Some(&id) {
            return Ok(ids);
        }
        ids.push(id);
    }
    Err(Errno::NAMETOOLONG.into())
}

/// Opens an object only to learn which one it is, links followed.
fn identity_flags() -> rustix::fs::OFlags {
    DIR_FLAGS.difference(rustix::fs::OFlags::DIRECTORY.union(rustix::fs::OFlags::NOFOLLOW))
}
