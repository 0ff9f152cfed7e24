//! The files that the operator names: regular ones, read only so far, and private where they are
//! written.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use cap_std::fs::{Dir, OpenOptionsExt as _};
use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use crate::random;

/// No link is followed to what is opened so, and nothing is waited for: opening a FIFO would block.
const UNLINKED: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// How a whole file is called until it takes its place: what begins with a dot is no component and no
/// document.
const ASIDE: &str = ".new-";
/// What follows is as many letters and digits.
const ASIDE_LETTERS: usize = 6;

/// Returns the bytes of `file`, and of a larger one the first `bytes_max` and one more, so that
/// whoever bounds it can say that it is too large.
///
/// # Errors
/// It does not exist, cannot be read, or is no regular file: opening a FIFO would block.
pub(crate) fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let found = std::fs::metadata(file)?;
    if !found.is_file() {
        let what = if found.is_dir() { "it is a directory" } else { "it is no regular file" };
        return Err(io::Error::other(what));
    }
    whole(File::open(file)?, bytes_max)
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
    let mut options = OpenOptions::new();
    whole(options.read(true).custom_flags(UNLINKED).open(file)?, bytes_max)
}

/// As [`read`], of a file of a folder that is held: no link in its place is followed.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_in(dir: &Dir, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, bytes) = open_in(dir, name)?;
    rest(file, bytes, bytes_max)
}

/// Opens a file of a folder that is held, to read it, and returns it with its length in bytes. No link in its
/// place is followed.
///
/// # Errors
/// It does not exist, cannot be read, or is no regular file.
pub(crate) fn open_in(dir: &Dir, name: &str) -> io::Result<(cap_std::fs::File, u64)> {
    let mut options = cap_std::fs::OpenOptions::new();
    let file = dir.open_with(name, options.read(true).custom_flags(UNLINKED))?;
    let found = file.metadata()?;
    let is_file = found.is_file().then(|| (file, found.len()));
    is_file.ok_or_else(|| io::Error::other("it is no regular file"))
}

fn whole(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let there = file.metadata()?.len();
    rest(file, there, bytes_max)
}

/// Returns what is left of an open file of about `there` bytes, bounded as by [`read`].
///
/// # Errors
/// It cannot be read.
pub(crate) fn rest(file: impl io::Read, there: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Room for all of it at once: growing would take, and leave, twice as much.
    let room = usize::try_from(there.min(bytes_max)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(room);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the lines of `reader`, without their newlines. One that is over the bound is handed over as nothing, and
/// passed over.
pub(crate) fn lines(
    mut reader: impl BufRead,
    bytes_max: usize,
) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = (&mut reader).take(bytes_max as u64 + 1).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return read.err().map(Err);
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() && line.len() > bytes_max {
            line = Vec::new();
            return Some(reader.skip_until(b'\n').map(|_| line));
        }
        Some(Ok(line))
    })
}

/// Writes a file in one step: whoever looks, and a crash, sees the old one or the new one. The user's
/// mask may take more away from `mode`.
///
/// # Errors
/// What the system says; the old one stays then, and nothing lies beside it.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    beside(path, bytes, mode)?.persist(path)?;
    Ok(())
}

/// As [`replace`], of a file of a folder that is held, for its user alone.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_in(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    // Nobody writes into what another one is about to rename, or has renamed: processes of two containers may have
    // the same number.
    let number = u64::from_ne_bytes(random::bytes().map_err(io::Error::other)?);
    let aside = format!(".{name}.{number}");
    let mut open = cap_std::fs::OpenOptions::new();
    let open = open.write(true).create_new(true).mode(0o600);
    let written = dir.open_with(&aside, open)?.write_all(bytes);
    let done = written.and_then(|()| dir.rename(&aside, dir, name));
    if done.is_err() {
        drop(dir.remove_file(&aside));
    }
    done
}

/// Writes a whole file next to `path`, to take its place; dropped, it is gone.
///
/// # Errors
/// What the system says.
pub(crate) fn beside(path: &Path, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(ASIDE).rand_bytes(ASIDE_LETTERS).permissions(Permissions::from_mode(mode));
    let mut file = builder.tempfile_in(path.parent().unwrap_or_else(|| Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Removes what was written [`beside`] a file in the folder of `now` and is more than `age` older than that:
/// whoever wrote it was killed before it took its place.
pub(crate) fn sweep(now: &NamedTempFile, age: Duration) {
    let written =
        |path: &Path| path.symlink_metadata().ok().filter(Metadata::is_file)?.modified().ok();
    let (Some(folder), Some(at)) = (now.path().parent(), written(now.path())) else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old = || {
            let since = written(&entry.path()).map(|before| at.duration_since(before));
            since.is_some_and(|since| since.is_ok_and(|since| since > age))
        };
        if is_aside(&entry.file_name()) && is_old() {
            // Somebody else may have been quicker.
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

fn is_aside(name: &OsStr) -> bool {
    let letters = name.to_str().and_then(|name| name.strip_prefix(ASIDE));
    letters.is_some_and(|letters| {
        letters.len() == ASIDE_LETTERS && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Opens a file to append to, and to read. It and its folders are made where they are missing, for this user
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
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true).mode(0o600).open(path).map_err(named)
}

/// Makes a folder and those on the way to it where they are missing, for this user only.
///
/// # Errors
/// What the system says.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let is_file = error.kind() == io::ErrorKind::AlreadyExists;
        if is_file { io::Error::new(error.kind(), "it is a file") } else { error }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_stays_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, taken) = (folder.path().join("file"), folder.path().join("taken"));
        std::fs::write(&file, "before").unwrap();
        std::fs::create_dir(&taken).unwrap();
        replace(&file, b"after", 0o600).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        replace(&taken, b"after", 0o600).unwrap_err();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        replace_in(&dir, "file", b"once more").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"once more");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        replace_in(&dir, "taken", b"after").unwrap_err();
        drop(beside(&file, b"never", 0o600).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn nobody_writes_into_what_a_process_of_the_same_number_puts_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "mapped").unwrap();
        for number in 0..1_000 {
            let aside = format!(".file.{}.{number}", std::process::id());
            std::fs::hard_link(&other, folder.path().join(aside)).unwrap();
        }
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        replace_in(&dir, "file", b"once more").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"mapped");
    }

    #[test]
    fn what_somebody_who_was_killed_left_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["old", "new-abcdef", ".new-thing", ".new-abcdef"] {
            let made = File::create(file(name)).unwrap();
            made.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        std::fs::write(file(".new-abcdeg"), "of another who writes").unwrap();
        let now = beside(&file("file"), b"now", 0o600).unwrap();
        sweep(&now, Duration::from_secs(600));
        assert!(!file(".new-abcdef").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
    }
}
