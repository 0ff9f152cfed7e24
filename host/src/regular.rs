//! The files that the operator names: regular ones, read only so far, and private where they are
//! written.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the bytes of `file`, and of a larger one the first `bytes_max` and one more, so that
/// whoever bounds it can say that it is too large.
///
/// # Errors
/// It does not exist, cannot be read, or is no regular file: opening a FIFO would block.
pub(crate) fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read`], of a file that may come in somebody else's folder: no link in its place is followed.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_unlinked(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !std::fs::symlink_metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    // Nor is one that has taken its place since.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to append to. It and its folders are made where they are missing, for this user
/// only: it may hold what tools were given.
///
/// # Errors
/// What the system says of it, with its path; or it is no regular file.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} cannot be used: {error}", path.display()))
    };
    // Opening a FIFO would wait for its reader.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(named(io::Error::other("it is no regular file")));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_private(folder).map_err(named)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(named)
}

/// Makes a folder and those on the way to it where they are missing, for this user only.
///
/// # Errors
/// What the system says.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
