//! Files and directories the profile grants, by relative path.
//!
//! The first granted folder is where relative paths start; a folder granted under a name is
//! reached by that name. There is deliberately no way to name anything else: the host holds
//! the directory handles and checks every path against them.

mod hold;
mod list;
mod manage;
mod path;
mod place;
mod write;

use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags,
};
use crate::error::ToolError;
pub use hold::{Held, hold};
pub use list::{ENTRIES_MAX, Entry, Kind, Listing, Name, Names, list, names};
pub use manage::{
    Metadata, append, create, create_directory, is_same, metadata, remove_directory, remove_file,
    rename, set_modified,
};
use place::Place;
pub use write::{Change, change_all, replace, write};

/// The largest file that is read or written as a whole: what the host keeps of one result.
pub const FILE_BYTES_MAX: usize = 10_485_760;

/// Bytes moved by one host call.
const CHUNK_BYTES: usize = 65_536;

/// An open file, to be read piece by piece whatever its size.
#[derive(Debug)]
pub struct File<'a> {
    place: Place<'a>,
    handle: Descriptor,
    /// Its bytes when it was opened.
    pub size: u64,
}

/// Opens a file for reading.
///
/// # Errors
/// `invalid-path`, `file-not-found`, `permission-denied`, or `execution-failed` where it is a
/// directory or cannot be read.
pub fn open(path: &str) -> Result<File<'_>, ToolError> {
    let place = Place::find(path)?;
    let handle = place.open(OpenFlags::empty(), DescriptorFlags::READ)?;
    let stat = place.tell(handle.stat())?;
    if stat.type_ == DescriptorType::Directory {
        return Err(place.error(ErrorCode::IsDirectory));
    }
    Ok(File { place, handle, size: stat.size })
}

impl File<'_> {
    /// Reads `bytes_max` bytes from `offset`, fewer only where the file ends.
    ///
    /// # Errors
    /// `execution-failed` where it cannot be read.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Vec<u8>, ToolError> {
        let there = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut content = Vec::with_capacity(there.min(bytes_max));
        while content.len() < bytes_max {
            let step = CHUNK_BYTES.min(bytes_max - content.len());
            let at = offset.saturating_add(content.len() as u64);
            let (chunk, end) = self.place.tell(self.handle.read(step as u64, at))?;
            let empty = chunk.is_empty();
            content.extend(chunk);
            if end || empty {
                break;
            }
        }
        Ok(content)
    }
}

/// Reads a whole file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// Those of [`open`], and `execution-failed` where it is too large.
pub fn read(path: &str) -> Result<Vec<u8>, ToolError> {
    let file = open(path)?;
    if file.size > FILE_BYTES_MAX as u64 {
        return Err(too_large(path, file.size));
    }
    let content = file.read_at(0, FILE_BYTES_MAX + 1)?;
    if content.len() > FILE_BYTES_MAX {
        return Err(too_large(path, content.len() as u64));
    }
    Ok(content)
}

/// Reads a whole UTF-8 text file.
///
/// # Errors
/// Those of [`read`], and `execution-failed` where the file is not UTF-8.
pub fn read_to_string(path: &str) -> Result<String, ToolError> {
    String::from_utf8(read(path)?)
        .map_err(|error| no_text(path, error.utf8_error().valid_up_to() as u64))
}

/// The error of a file that is no text, whose first wrong byte is at `offset`.
#[must_use]
pub fn no_text(path: &str, offset: u64) -> ToolError {
    ToolError::failed(format!(
        "{path:?} is not UTF-8 text (the first wrong byte is at offset {offset})"
    ))
}

fn too_large(path: &str, bytes: u64) -> ToolError {
    ToolError::failed(format!("{path:?} has {bytes} bytes; the limit is {FILE_BYTES_MAX}"))
}
