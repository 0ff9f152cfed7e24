//! Opening an entry: what may be asked for, and what comes of it.

use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::fault::Fault;
use super::file::{self, OpenFile};
use super::folder::Folder;
use super::stat::Kind;
use super::tree::{Follow, Tree};
use super::walk::{self, FolderEntry, Target};

/// How often an open is tried anew where an entry comes and goes meanwhile.
const OPEN_ATTEMPTS_MAX: u32 = 4;

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

impl Tree {
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
        self.open_entry(place, how)
    }

    fn open_entry(&self, mut place: FolderEntry, how: OpenHow) -> Result<Node, Fault> {
        for _ in 1..OPEN_ATTEMPTS_MAX {
            match self.try_open(&place, how) {
                // The entry went, or came, between the look and the open.
                Err(Fault::Os(Errno::NOENT)) if how.create => {}
                Err(Fault::Os(Errno::EXIST)) if !how.exclusive => {}
                result => return result,
            }
            place.seen = None;
        }
        self.try_open(&place, how)
    }

    fn try_open(&self, place: &FolderEntry, how: OpenHow) -> Result<Node, Fault> {
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
        let hold = Arc::new(self.meter().hold()?);
        Ok(Node::Folder(Folder { _hold: Some(hold), ..folder }))
    }

    fn open_file(&self, place: &FolderEntry, how: OpenHow) -> Result<Node, Fault> {
        if how.directory || place.dir_only {
            return Err(Errno::NOTDIR.into());
        }
        let mut file = self.open_handle(place, how, OFlags::empty())?;
        file.require_open(&how, self.rules())?;
        if how.truncate {
            file.truncate()?;
        }
        Ok(Node::File(Arc::new(file)))
    }

    fn create_file(&self, place: &FolderEntry, how: OpenHow) -> Result<Node, Fault> {
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

    fn open_handle(
        &self,
        place: &FolderEntry,
        how: OpenHow,
        more: OFlags,
    ) -> Result<OpenFile, Fault> {
        let hold = self.meter().hold()?;
        let flags = file::open_flags(how).union(more);
        let mode = Mode::from_raw_mode(0o666);
        let fd = rustix::fs::openat(&place.folder.dir, &place.name, flags, mode)?;
        Ok(OpenFile::new(fd.into(), &place.folder, how, Arc::clone(self.meter()), hold))
    }
}
