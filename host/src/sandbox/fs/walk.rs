//! Guest paths, walked one component at a time.
//!
//! The kernel is only ever given one name relative to one handle, and never follows a link:
//! links are read and their steps queued, `..` gives back the handle the walk came through. So
//! a walk cannot leave the handle it started from, whatever is renamed or re-linked meanwhile.

use clawhost_core::limits::{PATH_FOLDERS_MAX, PATH_LINKS_MAX, PATH_STEPS_MAX};
use rustix::io::Errno;

use super::fault::Fault;
use super::folder::Folder;
use super::path::{self, Part, PathParts};
use super::stat::{FileFacts, Kind};
use super::tree::{Follow, Tree};

/// Where a path leads.
#[derive(Debug)]
pub(super) enum Target {
    /// An entry, there or not, that is not a link unless links are not followed.
    Entry(FolderEntry),
    /// A directory the walk stands in: the path ended in `.` or `..`.
    Folder(Folder),
}

/// One entry of a directory, there or not.
#[derive(Debug)]
pub(super) struct FolderEntry {
    /// The directory.
    pub(super) folder: Folder,
    /// The entry's name: one component, never `.` or `..`.
    pub(super) name: String,
    /// The path ended in a slash: only a directory will do.
    pub(super) dir_only: bool,
    /// What the walk saw of it, where it looked.
    pub(super) seen: Option<FileFacts>,
}

impl FolderEntry {
    /// Returns the facts about the entry itself, as the walk saw them where it looked.
    pub(super) fn facts(&self) -> Result<FileFacts, Fault> {
        self.seen.map_or_else(|| FileFacts::of_entry(&self.folder.dir, &self.name), Ok)
    }
}

/// Walks `path` from `base`.
pub(super) fn walk(
    tree: &Tree,
    base: &Folder,
    path: &str,
    follow: Follow,
) -> Result<Target, Fault> {
    let PathParts { reversed, dir_only } = path::parse(path)?;
    let mut walk = Walk {
        tree,
        above: Vec::new(),
        top: base.clone(),
        pending: reversed,
        dir_only,
        follow: follow == Follow::Yes,
        links: 0,
        steps: 0,
    };
    while let Some(part) = walk.pending.pop() {
        if let Some(place) = walk.step(part)? {
            return Ok(Target::Entry(place));
        }
    }
    Ok(Target::Folder(walk.top))
}

struct Walk<'a> {
    tree: &'a Tree,
    above: Vec<Folder>,
    top: Folder,
    pending: Vec<Part>,
    dir_only: bool,
    follow: bool,
    links: u32,
    steps: u32,
}

impl Walk<'_> {
    fn step(&mut self, part: Part) -> Result<Option<FolderEntry>, Fault> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > PATH_STEPS_MAX {
            return Err(Errno::LOOP.into());
        }
        self.tree.meter().add_work(1);
        match part {
            Part::Name(name) if self.pending.is_empty() => self.last(name),
            Part::Name(name) => self.enter(&name).map(|()| None),
            Part::Up => self.up().map(|()| None),
        }
    }

    fn up(&mut self) -> Result<(), Fault> {
        self.top = self.above.pop().ok_or(Fault::Outside)?;
        Ok(())
    }

    fn last(&mut self, name: String) -> Result<Option<FolderEntry>, Fault> {
        self.check_name(&name)?;
        let looks = self.follow || self.dir_only;
        let seen = if looks { self.look(&name)? } else { None };
        if seen.is_some_and(|facts| facts.kind == Kind::Link) {
            self.follow_link(&name)?;
            return Ok(None);
        }
        Ok(Some(FolderEntry { folder: self.top.clone(), name, dir_only: self.dir_only, seen }))
    }

    fn enter(&mut self, name: &str) -> Result<(), Fault> {
        self.check_name(name)?;
        match self.top.child(name, self.tree.rules()) {
            Ok(folder) => self.push(folder),
            // What a link answers when it is opened as a directory, by system.
            Err(Fault::Os(Errno::NOTDIR | Errno::LOOP | Errno::MLINK)) => self.follow_link(name),
            Err(fault) => Err(fault),
        }
    }

    fn push(&mut self, folder: Folder) -> Result<(), Fault> {
        if self.above.len() >= PATH_FOLDERS_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        self.above.push(std::mem::replace(&mut self.top, folder));
        Ok(())
    }

    fn follow_link(&mut self, name: &str) -> Result<(), Fault> {
        self.links = self.links.saturating_add(1);
        if self.links > PATH_LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let parts = path::parse(&read_link(&self.top, name)?)?;
        // Whether only a directory will do is decided by the link where it ends the path.
        self.dir_only |= self.pending.is_empty() && parts.dir_only;
        self.pending.extend(parts.reversed);
        Ok(())
    }

    fn look(&self, name: &str) -> Result<Option<FileFacts>, Fault> {
        match FileFacts::of_entry(&self.top.dir, name) {
            Err(Fault::Os(Errno::NOENT)) => Ok(None),
            seen => seen.map(Some),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Fault> {
        self.tree.rules().check_name(self.top.id, name)
    }
}

/// Reads the link `name` of `folder`; anything else there is "not a directory", which is what
/// the walk needed.
fn read_link(folder: &Folder, name: &str) -> Result<String, Fault> {
    match rustix::fs::readlinkat(&folder.dir, name, Vec::new()) {
        Ok(target) => target.into_string().map_err(|_| Errno::ILSEQ.into()),
        Err(Errno::INVAL) => Err(Errno::NOTDIR.into()),
        Err(errno) => Err(errno.into()),
    }
}
