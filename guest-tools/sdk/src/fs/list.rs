//! What a directory holds: name by name as it comes, or sorted, one page after the other.

use std::collections::BTreeMap;

use super::path::Plain;
use super::place::Place;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{
    DescriptorFlags, DescriptorType, DirectoryEntryStream, ErrorCode, OpenFlags, PathFlags,
};
use crate::error::ToolError;

/// The most entries one page has, so that it fits a result.
pub const ENTRIES_MAX: usize = 10_000;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the directory.
    pub name: String,
    /// Whether it is a directory, or a link to one inside the grant.
    pub is_dir: bool,
    /// Bytes of a file; 0 for a directory.
    pub size: u64,
}

/// One page of what a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name, byte by byte.
    pub entries: Vec<Entry>,
    /// Whether names come after the last of these.
    pub more: bool,
    /// Entries of the whole directory.
    pub total: u64,
    /// Entries left out because their names are not UTF-8.
    pub unreadable: u64,
}

/// What an entry is, where a link is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, wherever it leads.
    Link,
    /// A pipe, a socket, a device: nothing that can be opened.
    Other,
}

/// One entry as its directory tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its name, without the directory.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// The names of a directory, in no order, as they are read.
#[derive(Debug)]
pub struct Names<'a> {
    place: Place<'a>,
    stream: DirectoryEntryStream,
    /// Granted folders whose names lie directly in this directory, and how many were returned.
    mounts: Vec<String>,
    mounts_told: usize,
    /// Entries left out because their names are not UTF-8.
    pub unreadable: u64,
}

/// Starts reading the names of a directory.
///
/// # Errors
/// `invalid-path`, `file-not-found`, `permission-denied`, or `execution-failed` where it is
/// not a directory.
pub fn names(path: &str) -> Result<Names<'_>, ToolError> {
    let place = Place::find(path)?;
    let directory = place.open(OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    let stream = place.tell(directory.read_directory())?;
    let mounts = mounts_inside(path)?;
    Ok(Names { place, stream, mounts, mounts_told: 0, unreadable: 0 })
}

impl Names<'_> {
    /// Returns the next name; nothing at the end.
    ///
    /// # Errors
    /// `execution-failed` where the directory cannot be read on.
    pub fn next_name(&mut self) -> Result<Option<Name>, ToolError> {
        if let Some(name) = self.mounts.get(self.mounts_told) {
            self.mounts_told += 1;
            return Ok(Some(Name { name: name.clone(), kind: Kind::Directory }));
        }
        loop {
            match self.stream.read_directory_entry() {
                Ok(Some(found)) if self.mounts.contains(&found.name) => {}
                Ok(Some(found)) => {
                    return Ok(Some(Name { name: found.name, kind: kind_of(found.type_) }));
                }
                Ok(None) => return Ok(None),
                Err(ErrorCode::IllegalByteSequence) => self.unreadable += 1,
                Err(code) => return Err(self.place.error(code)),
            }
        }
    }

    /// Looks at an entry, through a link where it is one.
    fn entry(&self, name: String, kind: Kind) -> Entry {
        if self.mounts.contains(&name) {
            return Entry { name, is_dir: true, size: 0 };
        }
        // From the granted folder, as a link may lead out of this one and not out of that. An entry
        // that cannot be looked at (it is gone, or leads outside) is still a name.
        let Place { root, below, .. } = &self.place;
        let stat = root.stat_at(PathFlags::SYMLINK_FOLLOW, &below.inside(&name)).ok();
        let is_dir = stat.as_ref().map_or(kind, |stat| kind_of(stat.type_)) == Kind::Directory;
        let size = stat.filter(|_| !is_dir).map_or(0, |stat| stat.size);
        Entry { name, is_dir, size }
    }
}

/// Lists the immediate children of a directory that come after the name `after`, at most
/// `entries_max` of them and never more than [`ENTRIES_MAX`].
///
/// The whole directory is read for each page and only the page is kept, so that pages are sorted
/// and fit memory whatever the directory holds. What is made meanwhile may or may not show.
///
/// # Errors
/// Those of [`names`].
pub fn list(path: &str, after: Option<&str>, entries_max: usize) -> Result<Listing, ToolError> {
    let mut names = names(path)?;
    let mut page = Page::new(after, entries_max.clamp(1, ENTRIES_MAX));
    while let Some(name) = names.next_name()? {
        page.add(name);
    }
    let Page { kept, more, total, .. } = page;
    let entries = kept.into_iter().map(|(name, kind)| names.entry(name, kind)).collect();
    Ok(Listing { entries, more, total, unreadable: names.unreadable })
}

/// The first names after one, of all that are shown to it.
struct Page<'a> {
    after: Option<&'a str>,
    entries_max: usize,
    kept: BTreeMap<String, Kind>,
    more: bool,
    total: u64,
}

impl<'a> Page<'a> {
    fn new(after: Option<&'a str>, entries_max: usize) -> Self {
        Self { after, entries_max, kept: BTreeMap::new(), more: false, total: 0 }
    }

    fn add(&mut self, Name { name, kind }: Name) {
        self.total += 1;
        if self.after.is_some_and(|after| name.as_str() <= after) {
            return;
        }
        self.kept.insert(name, kind);
        if self.kept.len() > self.entries_max {
            self.kept.pop_last();
            self.more = true;
        }
    }
}

pub(super) fn kind_of(type_: DescriptorType) -> Kind {
    match type_ {
        DescriptorType::Directory => Kind::Directory,
        DescriptorType::RegularFile => Kind::File,
        DescriptorType::SymbolicLink => Kind::Link,
        _ => Kind::Other,
    }
}

/// The names of granted folders that lie directly in `path`.
fn mounts_inside(path: &str) -> Result<Vec<String>, ToolError> {
    let plain = Plain::parse(path)?;
    let mounts = get_directories().into_iter();
    Ok(mounts.filter_map(|(_, mount)| plain.child_mount(&mount)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: Option<&str>, entries_max: usize, names: &[&str]) -> (Vec<String>, bool, u64) {
        let mut page = Page::new(after, entries_max);
        for name in names {
            page.add(Name { name: (*name).to_owned(), kind: Kind::File });
        }
        (page.kept.into_keys().collect(), page.more, page.total)
    }

    #[test]
    fn pages_are_sorted_and_together_the_whole() {
        let names = ["c", "a", "é", "B", "b", "a.b"];
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (mut names, more, total) = page(after.as_deref(), 2, &names);
            assert_eq!(total, 6);
            after = names.last().cloned();
            all.append(&mut names);
            if !more {
                break;
            }
        }
        assert_eq!(all, ["B", "a", "a.b", "b", "c", "é"]);
        assert_eq!(page(Some("é"), 2, &names), (Vec::new(), false, 6));
    }
}
