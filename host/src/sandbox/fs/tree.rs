//! The file operations of one call, on paths beneath its open directories.
//!
//! Every operation walks to an entry first, then acts on that one name in that one handle.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::fault::Fault;
use super::file::{self, OpenFile};
use super::folder::Folder;
use super::listing::Listing;
use super::meter::{Limit, Meter};
use super::path;
use super::roots::Roots;
use super::rules::Rules;
use super::stat::{Facts, Id, Kind, Stamp};
use super::walk::{self, Place, Target};

/// How often an open is tried anew where an entry comes and goes meanwhile.
const OPEN_ATTEMPTS_MAX: u32 = 4;

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The link itself is meant.
    No,
    /// What it points to is meant.
    Yes,
}

/// How to open an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Make a regular file where there is nothing.
    pub create: bool,
    /// Only a directory will do.
    pub directory: bool,
    /// Fail where there is something.
    pub exclusive: bool,
    /// Its bytes will be read.
    pub read: bool,
    /// Empty it.
    pub truncate: bool,
    /// Its bytes will be written.
    pub write: bool,
}

impl OpenHow {
    pub(super) const fn changes_bytes(self) -> bool {
        self.truncate || self.write
    }

    const fn is_contradiction(self) -> bool {
        self.directory && (self.create || self.exclusive || self.truncate)
    }
}

/// What an open returned.
#[derive(Debug, Clone)]
pub enum Node {
    /// A regular file.
    File(Arc<OpenFile>),
    /// A directory.
    Folder(Folder),
}

/// What to make of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// Set it to this.
    At(Stamp),
    /// Leave it.
    Keep,
    /// Set it to the present.
    Now,
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

    /// Opens, and where asked for creates, a regular file or a directory.
    ///
    /// Nothing is truncated before type, access and the number of names are checked on the
    /// handle itself.
    ///
    /// # Errors
    /// A refusal, a quota, or the system's answer.
    pub fn open(
        &self,
        base: &Folder,
        path: &str,
        follow: Follow,
        how: OpenHow,
    ) -> Result<Node, Fault> {
        if how.is_contradiction() {
            return Err(Errno::INVAL.into());
        }
        let place = match walk::walk(self, base, path, follow)? {
            Target::Folder(folder) => return self.open_folder(folder, how),
            Target::Entry(place) => place,
        };
        if how.create || how.changes_bytes() {
            place.folder.require_write()?;
        }
        self.open_entry(&place, how)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// A refusal, a quota, or the system's answer.
    pub fn create_dir(&self, base: &Folder, path: &str) -> Result<(), Fault> {
        let place = match walk::walk(self, base, path, Follow::No)? {
            Target::Folder(_) => return Err(Errno::EXIST.into()),
            Target::Entry(place) => place,
        };
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
        let place = match walk::walk(self, base, path, Follow::No)? {
            Target::Folder(_) => return Err(Errno::INVAL.into()),
            Target::Entry(place) => place,
        };
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
    pub fn stat(&self, base: &Folder, path: &str, follow: Follow) -> Result<Facts, Fault> {
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
        times: [SetTime; 2],
    ) -> Result<(), Fault> {
        let place = match walk::walk(self, base, path, follow)? {
            Target::Folder(folder) => return self.set_folder_times(&folder, times),
            Target::Entry(place) => place,
        };
        place.folder.require_write()?;
        let facts = place.facts()?;
        if self.rules().enter(facts.id, place.folder.access)? != place.folder.access {
            return Err(Fault::ReadOnly);
        }
        require_kind(&place, facts.kind)?;
        file::require_one_name(&facts)?;
        let times = timestamps(times);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&place.folder.dir, &place.name, &times, flags)?)
    }

    /// Sets the times of an open directory.
    ///
    /// # Errors
    /// A refusal, or the system's answer.
    pub fn set_folder_times(&self, folder: &Folder, times: [SetTime; 2]) -> Result<(), Fault> {
        folder.require_write()?;
        Ok(rustix::fs::utimensat(&folder.dir, ".", &timestamps(times), AtFlags::empty())?)
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

    fn open_entry(&self, place: &Place, how: OpenHow) -> Result<Node, Fault> {
        for _ in 1..OPEN_ATTEMPTS_MAX {
            match self.try_open(place, how) {
                // The entry went, or came, between the look and the open.
                Err(Fault::Os(Errno::NOENT)) if how.create => {}
                Err(Fault::Os(Errno::EXIST)) if !how.exclusive => {}
                result => return result,
            }
        }
        self.try_open(place, how)
    }

    fn try_open(&self, place: &Place, how: OpenHow) -> Result<Node, Fault> {
        let facts = match place.facts() {
            Ok(facts) => facts,
            Err(Fault::Os(Errno::NOENT)) if how.create => return self.create_file(place, how),
            Err(fault) => return Err(fault),
        };
        // Before anything is said about the entry: it may be closed by identity.
        self.rules().enter(facts.id, place.folder.access)?;
        if how.exclusive && how.create {
            return Err(Errno::EXIST.into());
        }
        match facts.kind {
            Kind::Directory => {
                self.open_folder(place.folder.child(&place.name, self.rules())?, how)
            }
            Kind::File => self.open_file(place, how),
            Kind::Link => Err(Errno::LOOP.into()),
            Kind::Special => Err(Fault::Special),
        }
    }

    fn open_folder(&self, folder: Folder, how: OpenHow) -> Result<Node, Fault> {
        if how.create && how.exclusive {
            return Err(Errno::EXIST.into());
        }
        if how.create || how.changes_bytes() {
            return Err(Errno::ISDIR.into());
        }
        let hold = Arc::new(self.meter.hold()?);
        Ok(Node::Folder(Folder { _hold: Some(hold), ..folder }))
    }

    fn open_file(&self, place: &Place, how: OpenHow) -> Result<Node, Fault> {
        if how.directory || place.dir_only {
            return Err(Errno::NOTDIR.into());
        }
        let file = self.open_handle(place, how, OFlags::empty())?;
        file.require_open(&how, self.rules())?;
        if how.truncate {
            file.truncate()?;
        }
        Ok(Node::File(Arc::new(file)))
    }

    fn create_file(&self, place: &Place, how: OpenHow) -> Result<Node, Fault> {
        if place.dir_only {
            return Err(Errno::ISDIR.into());
        }
        let new = OFlags::CREATE.union(OFlags::EXCL);
        let mut file = None;
        self.counting(|| {
            file = Some(self.open_handle(place, how, new)?);
            Ok(())
        })?;
        file.map(|file| Node::File(Arc::new(file))).ok_or(Fault::Os(Errno::IO))
    }

    fn open_handle(&self, place: &Place, how: OpenHow, more: OFlags) -> Result<OpenFile, Fault> {
        let hold = self.meter.hold()?;
        let flags = file::open_flags(how).union(more);
        let mode = Mode::from_raw_mode(0o666);
        let fd = rustix::fs::openat(&place.folder.dir, &place.name, flags, mode)?;
        Ok(OpenFile::new(fd.into(), place.folder.access, how, Arc::clone(&self.meter), hold))
    }

    /// Finds an entry that is to be changed, in a directory that may be.
    fn changeable(&self, base: &Folder, path: &str) -> Result<Place, Fault> {
        match walk::walk(self, base, path, Follow::No)? {
            Target::Folder(_) => Err(Errno::INVAL.into()),
            Target::Entry(place) => place.folder.require_write().map(|()| place),
        }
    }

    /// Returns the facts about an entry that may lose its name.
    fn removable(&self, place: &Place) -> Result<Facts, Fault> {
        let facts = place.facts()?;
        self.rules().check_removable(facts.id)?;
        if facts.kind == Kind::Special { Err(Fault::Special) } else { Ok(facts) }
    }

    /// Creates an entry, counted only if that succeeds.
    fn counting(&self, create: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.meter.take(Limit::CreateEntries, 1)?;
        self.meter.add_work(1);
        create().inspect_err(|_| self.meter.give_back(Limit::CreateEntries, 1))
    }
}

/// Gives a regular file the permissions of the one it is about to replace.
///
/// Through a handle that is checked to be that file: its name may stand for another one by now.
fn take_over_mode(from: &Place, facts: &Facts, replaced: &Facts) -> Result<(), Fault> {
    let both_files = facts.kind == Kind::File && replaced.kind == Kind::File;
    if !both_files || facts.mode == replaced.mode {
        return Ok(());
    }
    let flags = file::open_flags(OpenHow::default());
    let fd = rustix::fs::openat(&from.folder.dir, &from.name, flags, Mode::empty())?;
    let source = std::fs::File::from(fd);
    let now = Facts::of_file(&source)?;
    if (now.id, now.kind) != (facts.id, Kind::File) {
        return Err(Errno::BUSY.into());
    }
    file::require_one_name(&now)?;
    Ok(source.set_permissions(std::fs::Permissions::from_mode(replaced.mode))?)
}

fn require_kind(place: &Place, kind: Kind) -> Result<(), Fault> {
    if place.dir_only && kind != Kind::Directory { Err(Errno::NOTDIR.into()) } else { Ok(()) }
}

pub(super) fn timestamps([accessed, modified]: [SetTime; 2]) -> Timestamps {
    let spec = |time| match time {
        SetTime::At(Stamp { seconds, nanoseconds }) => {
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds }
        }
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    Timestamps { last_access: spec(accessed), last_modification: spec(modified) }
}
