//! Writing whole files: one, or several together.
//!
//! A reader sees the old content or the new one, never half of either: new content is written
//! beside the file and renamed over it.

use super::hold::Held;
use super::place::Place;
use super::{CHUNK_BYTES, FILE_BYTES_MAX, too_large};
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};
use crate::error::ToolError;

/// Temporary names tried beside a file, where writers that died left some behind.
const PART_NAMES_MAX: u32 = 64;

/// One of several changes that are made together.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The file.
    pub path: &'a str,
    /// What it holds; none where there is no file yet.
    pub before: Option<&'a [u8]>,
    /// What it shall hold; none where it shall go.
    pub after: Option<&'a [u8]>,
}

/// Writes a whole file, making missing parent directories.
///
/// Only what a symbolic link leads to is written in place, so that the link stays one.
///
/// # Errors
/// `invalid-path`, `permission-denied`, or `execution-failed`.
pub fn write(path: &str, content: &[u8]) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    match place.kind()? {
        Some(DescriptorType::Directory) => Err(place.error(ErrorCode::IsDirectory)),
        // A file of that name would be in the way of every file in the folder that was meant.
        None if path.ends_with('/') => Err(ToolError::InvalidPath(format!(
            "{path:?} names a folder; it is made with the first file in it"
        ))),
        None => {
            place.make_parents()?;
            Draft::new(place, Some(content))?.publish()
        }
        Some(DescriptorType::RegularFile) => Draft::new(place, Some(content))?.publish(),
        Some(_) => {
            require_size(path, content)?;
            let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
            let file = place.open(how, DescriptorFlags::WRITE)?;
            place.tell(write_all(&file, content, 0))
        }
    }
}

/// Replaces `before`, which is what a held file holds. Only what a symbolic link leads to is written in
/// place, so that the link stays one.
///
/// # Errors
/// Those of [`change_all`].
pub fn replace(held: &Held<'_>, path: &str, before: &[u8], after: &[u8]) -> Result<(), ToolError> {
    if Place::find(path)?.kind()? == Some(DescriptorType::SymbolicLink) {
        held.require_time()?;
        return write(path, after);
    }
    change_all(held, &[Change { path, before: Some(before), after: Some(after) }])
}

/// Makes all of these changes of held files, or none.
///
/// Nothing is made before all of them are looked at, and everything that is to be written lies
/// beside its file before the first of them changes. Each file is looked at again right before it
/// changes, as an earlier change may have been of the same file under another name. Where one
/// fails, those before it are undone. Folders that were made on the way then stay.
///
/// # Errors
/// Those of [`write`], and `execution-failed` where a file is not there, or is there, against
/// what the change says. The text says so where a change could not be undone.
pub fn change_all(held: &Held<'_>, changes: &[Change<'_>]) -> Result<(), ToolError> {
    let places = changes.iter().map(checked).collect::<Result<Vec<_>, _>>()?;
    let drafts = places.into_iter().zip(changes).map(|(place, change)| draft(place, change));
    let mut drafts = drafts.collect::<Result<Vec<_>, _>>()?;
    for (at, change) in changes.iter().enumerate() {
        let publish = |draft: &mut Draft<'_>| {
            draft.place.require_unchanged(change.before)?;
            held.require_time()?;
            draft.publish()
        };
        let Some(Err(why)) = drafts.get_mut(at).map(publish) else { continue };
        let made = drafts.iter_mut().zip(changes).take(at).rev();
        let left: Vec<&str> = made.filter_map(|(draft, change)| draft.undo(change).err()).collect();
        if left.is_empty() {
            return Err(why);
        }
        let left = left.join(", ");
        return Err(ToolError::failed(format!("a change failed, and these stay changed: {left}")));
    }
    Ok(())
}

/// Finds where a change goes, and refuses one that what is there does not fit.
fn checked<'a>(change: &Change<'a>) -> Result<Place<'a>, ToolError> {
    let place = Place::find(change.path)?;
    match (place.kind()?, change.before) {
        (None, Some(_)) => Err(place.error(ErrorCode::NoEntry)),
        (None, None) | (Some(DescriptorType::RegularFile), Some(_)) => Ok(place),
        (Some(DescriptorType::Directory), _) => Err(place.error(ErrorCode::IsDirectory)),
        (Some(DescriptorType::RegularFile), None) => {
            Err(ToolError::failed(format!("{:?} exists already", change.path)))
        }
        (Some(_), _) => Err(ToolError::failed(format!(
            "{:?} is no regular file; name what a link leads to",
            change.path
        ))),
    }
}

fn draft<'a>(place: Place<'a>, change: &Change<'a>) -> Result<Draft<'a>, ToolError> {
    if change.before.is_none() {
        place.make_parents()?;
    }
    Draft::new(place, change.after)
}

/// A change that is prepared and not made yet. What lies beside the file goes with it.
struct Draft<'a> {
    place: Place<'a>,
    /// The file beside it, which goes with this: what is written, or what was removed, as long as that may be undone.
    part: Option<String>,
    removes: bool,
}

impl<'a> Draft<'a> {
    /// Writes `content` beside the place, or prepares to remove what is there.
    fn new(place: Place<'a>, content: Option<&[u8]>) -> Result<Self, ToolError> {
        let Some(content) = content else {
            return Ok(Self { place, part: None, removes: true });
        };
        require_size(place.path, content)?;
        let (part, file) = place.open_part()?;
        let draft = Self { place, part: Some(part), removes: false };
        draft.place.tell(write_all(&file, content, 0))?;
        Ok(draft)
    }

    fn publish(&mut self) -> Result<(), ToolError> {
        let Place { root, below, .. } = &self.place;
        if self.removes {
            // Only the file itself has its own permissions.
            let part = self.place.free_part()?;
            self.place.tell(root.rename_at(&below.text(), root, &part))?;
            self.part = Some(part);
            return Ok(());
        }
        if let Some(part) = &self.part {
            self.place.tell(root.rename_at(part, root, &below.text()))?;
        }
        self.part = None;
        Ok(())
    }

    /// Takes a change that was made back; the error is the path of one that stays.
    fn undo(&mut self, change: &Change<'a>) -> Result<(), &'a str> {
        let Place { root, below, .. } = &self.place;
        let undone = match (self.part.take(), change.before) {
            (Some(removed), _) => self.place.tell(root.rename_at(&removed, root, &below.text())),
            (None, Some(content)) => write(change.path, content),
            (None, None) => self.place.tell(root.unlink_file_at(&below.text())),
        };
        undone.map_err(|_| change.path)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // The error that led here is the one worth telling; a leftover is one small file.
            let _ = self.place.root.unlink_file_at(&part);
        }
    }
}

impl Place<'_> {
    /// What is there now, where a link is a link.
    fn kind(&self) -> Result<Option<DescriptorType>, ToolError> {
        match self.root.stat_at(PathFlags::empty(), &self.below.text()) {
            Ok(stat) => Ok(Some(stat.type_)),
            Err(ErrorCode::NoEntry) => Ok(None),
            Err(code) => Err(self.error(code)),
        }
    }

    /// Fails unless the file still holds `before`, or is still not there.
    fn require_unchanged(&self, before: Option<&[u8]>) -> Result<(), ToolError> {
        let there = self.kind()?.map(|_| super::read(self.path)).transpose()?;
        if there.as_deref() == before {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "{:?} was changed meanwhile, or is another name of a file that is changed as well",
            self.path
        )))
    }

    fn make_parents(&self) -> Result<(), ToolError> {
        for parent in self.below.parents() {
            match self.root.create_directory_at(&parent) {
                Ok(()) | Err(ErrorCode::Exist) => {}
                // Where nothing may be made, a parent that is there is enough.
                Err(code) => {
                    self.root
                        .stat_at(PathFlags::SYMLINK_FOLLOW, &parent)
                        .map_err(|_| self.error(code))?;
                }
            }
        }
        Ok(())
    }

    /// A new file beside the place, under a name nobody has.
    fn open_part(&self) -> Result<(String, Descriptor), ToolError> {
        let how = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        self.part(0, |part| {
            match self.root.open_at(PathFlags::empty(), part, how, DescriptorFlags::WRITE) {
                Err(ErrorCode::Exist) => Ok(None),
                opened => opened.map(Some),
            }
        })
    }

    /// A name beside the place that nobody has, and no writer takes meanwhile.
    fn free_part(&self) -> Result<String, ToolError> {
        let free =
            self.part(PART_NAMES_MAX, |part| match self.root.stat_at(PathFlags::empty(), part) {
                Ok(_) => Ok(None),
                Err(ErrorCode::NoEntry) => Ok(Some(())),
                Err(code) => Err(code),
            });
        free.map(|(part, ())| part)
    }

    /// The first name beside the place, numbered from `first`, that `take` takes, and what came of it.
    fn part<T>(
        &self,
        first: u32,
        take: impl Fn(&str) -> Result<Option<T>, ErrorCode>,
    ) -> Result<(String, T), ToolError> {
        for number in first..first + PART_NAMES_MAX {
            let Some(part) = self.below.beside(&format!("part-{number}")) else {
                return Err(self.error(ErrorCode::IsDirectory));
            };
            if let Some(taken) = self.tell(take(&part))? {
                return Ok((part, taken));
            }
        }
        Err(ToolError::failed(format!("{:?}: too many unfinished writes lie beside it", self.path)))
    }
}

fn require_size(path: &str, content: &[u8]) -> Result<(), ToolError> {
    let bytes = content.len();
    if bytes > FILE_BYTES_MAX { Err(too_large(path, bytes as u64)) } else { Ok(()) }
}

/// Writes all of `content` from `offset` on.
fn write_all(file: &Descriptor, content: &[u8], mut offset: u64) -> Result<(), ErrorCode> {
    for chunk in content.chunks(CHUNK_BYTES) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let written = file.write(rest, offset)?;
            offset += written;
            let step = usize::try_from(written).map_err(|_| ErrorCode::Io)?;
            // A host that writes nothing would keep us here for ever.
            rest = rest.get(step..).filter(|_| step > 0).ok_or(ErrorCode::Io)?;
        }
    }
    Ok(())
}
