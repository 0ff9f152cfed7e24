//! An open directory and what may be done in it.

use std::sync::Arc;

use cap_std::fs::Dir;
use clawhost_core::grants::Access;
use rustix::fs::{Mode, OFlags};

use super::fault::Fault;
use super::meter::Hold;
use super::rules::Rules;
use super::stat::{FileFacts, Id};

/// How directories are opened: without following a link, and on Linux without needing the right
/// to list them.
pub(super) const DIR_FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(PATH_ONLY);

#[cfg(target_os = "linux")]
const PATH_ONLY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PATH_ONLY: OFlags = OFlags::empty();

/// An open directory of a call: a handle, its identity, and the strictest access met on the way.
#[derive(Debug, Clone)]
pub struct Folder {
    pub(super) dir: Arc<Dir>,
    pub(super) id: Id,
    pub(super) access: Access,
    /// The granted directory that this access is of.
    pub(super) granted: Id,
    /// The place it takes in the call's count of open handles; none for roots and for steps of
    /// a walk.
    pub(super) _hold: Option<Arc<Hold>>,
}

impl Folder {
    /// Takes an open directory in, if nothing closes it, with the stricter of the `access` to
    /// `granted`, which else is this one, and what its identity is marked with.
    pub(super) fn enter(
        dir: Dir,
        (access, granted): (Access, Option<Id>),
        rules: &Rules,
    ) -> Result<Self, Fault> {
        let id = FileFacts::of_dir(&dir)?.id;
        let access = rules.enter(id, access)?;
        let granted = if rules.is_read_only(id) { id } else { granted.unwrap_or(id) };
        Ok(Self { dir: Arc::new(dir), id, access, granted, _hold: None })
    }

    /// Opens the directory `name` in this one. A link is an error, not followed.
    pub(super) fn child(&self, name: &str, rules: &Rules) -> Result<Self, Fault> {
        let fd = rustix::fs::openat(&self.dir, name, DIR_FLAGS, Mode::empty())?;
        Self::enter(Dir::from(fd), (self.access, Some(self.granted)), rules)
    }

    /// Fails unless this directory may be changed.
    pub(super) fn require_write(&self) -> Result<(), Fault> {
        match self.access {
            Access::ReadOnly => Err(Fault::ReadOnly(self.granted)),
            Access::ReadWrite => Ok(()),
        }
    }

    /// Returns the facts about the directory itself.
    ///
    /// # Errors
    /// Whatever the system answers.
    pub fn facts(&self) -> Result<FileFacts, Fault> {
        FileFacts::of_dir(&self.dir)
    }

    /// Says whether entries may be made, changed and removed in it.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.access == Access::ReadWrite
    }
}
