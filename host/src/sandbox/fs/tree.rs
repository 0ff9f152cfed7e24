//! The file operations of one call, on paths beneath its open directories.
//!
//! Every operation walks to an entry first, then acts on that one name in that one handle. How
//! one is opened is in [`super::open`].

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, Timestamps};
use rustix::io::Errno;

use super::fault::Fault;
use super::file;
use super::folder::Folder;
use super::listing::Listing;
use super::meter::{Limit, Meter};
use super::open::OpenHow;
use super::path;
use super::roots::Roots;
use super::rules::Rules;
use super::stat::{FileFacts, Id, Kind};
use super::walk::{self, FolderEntry, Target};

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The link itself is meant.
    No,
    /// What it points to is meant.
    Yes,
}

/// One call's view of the roots it was granted.
#[derive(Debug, Clone)]
pub struct Tree {
    roots: Arc<Roots>,
    meter: Arc<Meter>,
}

impl Tree {
    /// Returns a view of `roots` whose use `meter` counts.
    #[must_use]
    pub const fn new(roots: Arc<Roots>, meter: Arc<Meter>) -> Self {
        Self { roots, meter }
    }

    /// Returns the granted directories this view stands on.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Returns what counts the call's use.
    #[must_use]
    pub const fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// A refusal, a quota, or the system's answer.
    pub fn create_dir(&self, base: &Folder, path: &str) -> Result<(), Fault> {
        let place = self.entry(base, path, Errno::EXIST)?;
        place.folder.require_write()?;
        self.counting(|| Ok(place.folder.dir.create_dir(&place.name)?))
    }

    /// Creates a symbolic link that points down: not absolute, and without `..`.
    ///
    /// # Errors
    /// A refusal, a quota, or the system's answer.
    pub fn symlink(&self, target: &str, base: &Folder, path: &str) -> Result<(), Fault> {
        let place = self.changeable(base, path)?;
        if place.dir_only {
            return Err(Errno::NOENT.into());
        }
        if !path::is_link_target(target) {
            return Err(Fault::LinkTarget);
        }
        self.counting(|| Ok(rustix::fs::symlinkat(target, &place.folder.dir, &place.name)?))
    }

    /// Refuses a hard link: its second name could lie under another grant.
    ///
    /// # Errors
    /// Always; a path that is not granted is refused as such.
    pub fn link(&self, base: &Folder, path: &str, to: &Folder, new: &str) -> Result<(), Fault> {
        self.changeable(base, path)?;
        self.changeable(to, new)?;
        Err(Fault::LinkRefused)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn remove_dir(&self, base: &Folder, path: &str) -> Result<(), Fault> {
        let place = self.changeable(base, path)?;
        match self.removable(&place)?.kind {
            Kind::Directory => Ok(place.folder.dir.remove_dir(&place.name)?),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// Removes a regular file or a symbolic link.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn remove_file(&self, base: &Folder, path: &str) -> Result<(), Fault> {
        let place = self.changeable(base, path)?;
        let facts = self.removable(&place)?;
        match facts.kind {
            Kind::Directory => Err(Errno::ISDIR.into()),
            _ if place.dir_only => Err(Errno::NOTDIR.into()),
            // A large file goes with all its bytes, which takes a while.
            _ => Ok(self.meter.io(facts.size, || place.folder.dir.remove_file(&place.name))?),
        }
    }

    /// Moves an entry between two directories that may both be changed.
    ///
    /// A regular file that replaces another takes over its permissions: guests write a file anew
    /// beside it and move it there, which must not open a private file to others.
    ///
    /// # Errors
    /// A refusal, or the system's answer; also where the permissions cannot be taken over.
    pub fn rename(&self, base: &Folder, path: &str, to: &Folder, new: &str) -> Result<(), Fault> {
        let (from, to) = (self.changeable(base, path)?, self.changeable(to, new)?);
        let facts = self.removable(&from)?;
        if (from.dir_only || to.dir_only) && facts.kind != Kind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let replaced = match self.removable(&to) {
            Ok(replaced) => Some(replaced),
            Err(Fault::Os(Errno::NOENT)) => None,
            Err(fault) => return Err(fault),
        };
        if let Some(replaced) = &replaced {
            take_over_mode(&from, &facts, replaced)?;
        }
        let bytes = replaced.map_or(0, |replaced| replaced.size);
        let (names, dirs) = ((&from.name, &to.name), (&from.folder.dir, &to.folder.dir));
        Ok(self.meter.io(bytes, || dirs.0.rename(names.0, dirs.1, names.1))?)
    }

    /// Reads where a symbolic link points to; not where it leaves the grant at once.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn read_link(&self, base: &Folder, path: &str) -> Result<String, Fault> {
        let place = self.entry(base, path, Errno::INVAL)?;
        let target = rustix::fs::readlinkat(&place.folder.dir, &place.name, Vec::new())?;
        let target = target.into_string().map_err(|_| Fault::Os(Errno::ILSEQ))?;
        if target.starts_with('/') {
            return Err(Fault::Outside);
        }
        Ok(target)
    }

    /// Returns the facts about an entry.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn stat(&self, base: &Folder, path: &str, follow: Follow) -> Result<FileFacts, Fault> {
        let place = match walk::walk(self, base, path, follow)? {
            Target::Folder(folder) => return folder.facts(),
            Target::Entry(place) => place,
        };
        let facts = place.facts()?;
        self.rules().enter(facts.id, place.folder.access)?;
        require_kind(&place, facts.kind)?;
        Ok(facts)
    }

    /// Sets the times of a regular file, a directory or a link.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn set_times(
        &self,
        base: &Folder,
        path: &str,
        follow: Follow,
        times: &Timestamps,
    ) -> Result<(), Fault> {
        let place = match walk::walk(self, base, path, follow)? {
            Target::Folder(folder) => return self.set_folder_times(&folder, times),
            Target::Entry(place) => place,
        };
        place.folder.require_write()?;
        let facts = place.facts()?;
        if self.rules().enter(facts.id, place.folder.access)? != place.folder.access {
            return Err(Fault::ReadOnly(facts.id));
        }
        require_kind(&place, facts.kind)?;
        file::require_one_name(&facts)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&place.folder.dir, &place.name, times, flags)?)
    }

    /// Sets the times of an open directory.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn set_folder_times(&self, folder: &Folder, times: &Timestamps) -> Result<(), Fault> {
        folder.require_write()?;
        Ok(rustix::fs::utimensat(&folder.dir, ".", times, AtFlags::empty())?)
    }

    /// Starts a listing of an open directory.
    ///
    /// # Errors
    /// A quota, or the system's answer.
    pub fn list(&self, folder: &Folder) -> Result<Listing, Fault> {
        Listing::open(&self.roots, &self.meter, folder)
    }

    /// Returns a number for an object that is stable while this host runs, and does not give
    /// its inode away.
    #[must_use]
    pub fn hash(&self, id: Id) -> (u64, u64) {
        self.roots.hash(id)
    }

    pub(super) fn rules(&self) -> &Rules {
        self.roots.rules()
    }

    /// Finds an entry by its name; `unnamed` is the error of a path that has none at its end.
    fn entry(&self, base: &Folder, path: &str, unnamed: Errno) -> Result<FolderEntry, Fault> {
        match walk::walk(self, base, path, Follow::No)? {
            Target::Folder(_) => Err(unnamed.into()),
            Target::Entry(place) => Ok(place),
        }
    }

    /// Finds an entry that is to be changed, in a directory that may be.
    fn changeable(&self, base: &Folder, path: &str) -> Result<FolderEntry, Fault> {
        let place = self.entry(base, path, Errno::INVAL)?;
        place.folder.require_write().map(|()| place)
    }

    /// Returns the facts about an entry that may lose its name.
    fn removable(&self, place: &FolderEntry) -> Result<FileFacts, Fault> {
        let facts = place.facts()?;
        self.rules().check_removable(facts.id)?;
        if facts.kind == Kind::Special { Err(Fault::Special) } else { Ok(facts) }
    }

    /// Creates an entry, counted only if that succeeds.
    pub(super) fn counting(&self, create: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.meter.take(Limit::CreateEntries, 1)?;
        self.meter.add_work(1);
        create().inspect_err(|_| self.meter.give_back(Limit::CreateEntries, 1))
    }
}

/// Gives a regular file the permissions of the one it is about to replace.
///
/// Through a handle that is checked to be that file: its name may stand for another one by now.
fn take_over_mode(
    from: &FolderEntry,
    facts: &FileFacts,
    replaced: &FileFacts,
) -> Result<(), Fault> {
    let both_files = facts.kind == Kind::File && replaced.kind == Kind::File;
    if !both_files || facts.mode == replaced.mode {
        return Ok(());
    }
    let flags = file::open_flags(OpenHow::default());
    let fd = rustix::fs::openat(&from.folder.dir, &from.name, flags, Mode::empty())?;
    let source = std::fs::File::from(fd);
    let now = FileFacts::of_file(&source)?;
    if (now.id, now.kind) != (facts.id, Kind::File) {
        return Err(Errno::BUSY.into());
    }
    file::require_one_name(&now)?;
    Ok(source.set_permissions(std::fs::Permissions::from_mode(replaced.mode))?)
}

fn require_kind(place: &FolderEntry, kind: Kind) -> Result<(), Fault> {
    if place.dir_only && kind != Kind::Directory { Err(Errno::NOTDIR.into()) } else { Ok(()) }
}
