//! Looking at what lies at a path, and changing it other than by writing a whole file.

use std::time::Duration;

use super::list::{Kind, kind_of};
use super::place::Place;
use crate::bindings::wasi::clocks::wall_clock::Datetime;
use crate::bindings::wasi::filesystem::types::{
    DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags, filesystem_error_code,
};
use crate::bindings::wasi::io::streams::StreamError;
use crate::error::ToolError;

/// What is known about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Its bytes, where it is a file.
    pub size: u64,
    /// When it was last changed, since the Unix epoch; zero where the host does not say.
    pub modified: Duration,
}

/// Tells what lies at a path: a link itself, unless `follow`.
///
/// # Errors
/// `invalid-path`, `file-not-found` or `permission-denied`.
pub fn metadata(path: &str, follow: bool) -> Result<Metadata, ToolError> {
    let place = Place::find(path)?;
    let flags = if follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() };
    let stat = place.tell(place.root.stat_at(flags, &place.below.text()))?;
    let modified = stat
        .data_modification_timestamp
        .map_or(Duration::ZERO, |time| Duration::new(time.seconds, time.nanoseconds));
    Ok(Metadata { kind: kind_of(stat.type_), size: stat.size, modified })
}

/// Says whether two paths lead to one file, be it by links or by two names of it.
///
/// # Errors
/// Those of [`metadata`]: where one is not there, it is not the other.
pub fn is_same(one: &str, other: &str) -> Result<bool, ToolError> {
    let hash = |path| {
        let place = Place::find(path)?;
        let hash = place.root.metadata_hash_at(PathFlags::SYMLINK_FOLLOW, &place.below.text());
        place.tell(hash.map(|hash| (hash.lower, hash.upper)))
    };
    Ok(hash(one)? == hash(other)?)
}

/// Makes an empty file, or empties the one that is there.
///
/// # Errors
/// `invalid-path`, `file-not-found` where its directory is not there, `permission-denied`, or
/// `execution-failed`.
pub fn create(path: &str) -> Result<(), ToolError> {
    let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
    Place::find(path)?.open(how, DescriptorFlags::WRITE).map(drop)
}

/// Adds to the end of a file, which is made where it is not there. Of calls that append to one
/// file at the same time none overwrites another.
///
/// # Errors
/// Those of [`create`].
pub fn append(path: &str, content: &[u8]) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    let file = place.open(OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    let stream = place.tell(file.append_via_stream())?;
    let mut rest = content;
    while !rest.is_empty() {
        let room = place.tell(stream.check_write().map_err(code))?;
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at(room);
        // A host that has no room would keep us here for ever.
        let taken = if room == 0 { Err(StreamError::Closed) } else { stream.write(now) };
        place.tell(taken.map_err(code))?;
        rest = later;
    }
    place.tell(stream.blocking_flush().map_err(code))
}

/// What a stream of a file says is wrong with the file.
fn code(error: StreamError) -> ErrorCode {
    match error {
        StreamError::LastOperationFailed(error) => filesystem_error_code(&error),
        StreamError::Closed => None,
    }
    .unwrap_or(ErrorCode::Io)
}

/// Makes one directory.
///
/// # Errors
/// Those of [`create`], and `execution-failed` where something is there.
pub fn create_directory(path: &str) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    place.tell(place.root.create_directory_at(&place.below.text()))
}

/// Removes a file, or a link and not what it leads to.
///
/// # Errors
/// `invalid-path`, `file-not-found`, `permission-denied`, or `execution-failed`.
pub fn remove_file(path: &str) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    place.tell(place.root.unlink_file_at(&place.below.text()))
}

/// Removes an empty directory.
///
/// # Errors
/// Those of [`remove_file`].
pub fn remove_directory(path: &str) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    place.tell(place.root.remove_directory_at(&place.below.text()))
}

/// Renames, replacing a file of the new name.
///
/// # Errors
/// Those of [`remove_file`], and `execution-failed` between folders granted apart.
pub fn rename(from: &str, to: &str) -> Result<(), ToolError> {
    let (old, new) = (Place::find(from)?, Place::find(to)?);
    old.tell(old.root.rename_at(&old.below.text(), &new.root, &new.below.text()))
}

/// Sets when what lies at a path was last changed, since the Unix epoch.
///
/// # Errors
/// Those of [`remove_file`].
pub fn set_modified(path: &str, time: Duration) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    let time = Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() };
    let (follow, text) = (PathFlags::SYMLINK_FOLLOW, place.below.text());
    let set = place.root.set_times_at(
        follow,
        &text,
        NewTimestamp::NoChange,
        NewTimestamp::Timestamp(time),
    );
    place.tell(set)
}
