//! A directory, listed entry by entry: the host never holds more than one buffer of it.

use std::sync::Arc;

use cap_std::fs::{DirEntry, ReadDir};
use rustix::io::Errno;

use super::fault::Fault;
use super::folder::Folder;
use super::meter::{Hold, Limit, Meter};
use super::roots::Roots;
use super::stat::{Id, Kind};

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Entry {
    /// Its name: UTF-8, and otherwise whatever the directory holds, control characters too.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// A listing under way. Closed names are left out; `.` and `..` too.
#[derive(Debug)]
pub struct Listing {
    entries: ReadDir,
    folder: Id,
    roots: Arc<Roots>,
    meter: Arc<Meter>,
    _hold: Hold,
}

impl Listing {
    pub(super) fn open(
        roots: &Arc<Roots>,
        meter: &Arc<Meter>,
        folder: &Folder,
    ) -> Result<Self, Fault> {
        let hold = meter.hold()?;
        Ok(Self {
            entries: folder.dir.entries()?,
            folder: folder.id,
            roots: Arc::clone(roots),
            meter: Arc::clone(meter),
            _hold: hold,
        })
    }

    /// Returns the next entry; nothing at the end.
    ///
    /// # Errors
    /// The listing quota, a name that is not UTF-8 (the listing goes on after it), or the
    /// system's answer.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        while let Some(entry) = self.entries.next().transpose()? {
            self.meter.take(Limit::ListEntries, 1)?;
            self.meter.add_work(1);
            let name = name_of(&entry)?;
            if self.roots.rules().check_name(self.folder, &name).is_ok() {
                let kind = entry.file_type()?.into();
                return Ok(Some(Entry { name, kind }));
            }
        }
        Ok(None)
    }
}

fn name_of(entry: &DirEntry) -> Result<String, Fault> {
    entry.file_name().into_string().map_err(|_| Errno::ILSEQ.into())
}
