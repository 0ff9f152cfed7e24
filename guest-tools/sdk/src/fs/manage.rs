//! Looking at what lies at a path, and changing it other than by writing a whole file.

use std::time::Duration;

use super::list::{Kind, kind_of};
use super::place::Place;
use super::write::write_all;
use crate::bindings::wasi::clocks::wall_clock::Datetime;
use crate::bindings::wasi::filesystem::types::{
    DescriptorFlags, NewTimestamp, OpenFlags, PathFlags,
};
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

/// Makes an empty file, or empties the one that is there.
///
/// # Errors
/// `invalid-path`, `file-not-found` where its directory is not there, `permission-denied`, or
/// `execution-failed`.
pub fn create(path: &str) -> Result<(), ToolError> {
    let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
    Place::find(path)?.open(how, DescriptorFlags::WRITE).map(drop)
}

/// Adds to the end of a file, which is made where it is not there.
///
/// # Errors
/// Those of [`create`].
pub fn append(path: &str, content: &[u8]) -> Result<(), ToolError> {
    let place = Place::find(path)?;
    let file = place.open(OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    let end = place.tell(file.stat())?.size;
    place.tell(write_all(&file, content, end))
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
