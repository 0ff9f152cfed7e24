//! Where recordings lie: a file each beside the audit log, named by its digest, for its user alone.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, Metadata, OpenOptions, OpenOptionsExt as _};
use clawhost_core::digest;
use clawhost_core::limits::{RECORDING_BYTES_MAX, RECORDINGS_MAX};
use rustix::fs::OFlags;

use super::Recording;
use crate::regular;

/// The folder in that of the log.
const FOLDER: &str = "recordings";
/// Ending of a recording's file.
const SUFFIX: &str = ".json";
/// A file is larger than what is counted of it: a text may take six times its bytes as JSON.
const FILE_BYTES_MAX: u64 = 8 * RECORDING_BYTES_MAX as u64;

/// The recordings beside one log.
#[derive(Debug)]
pub struct Recordings(Dir);

impl Recordings {
    /// Returns those that lie beside the log in `audit`, whose folder is made with the first of them.
    ///
    /// # Errors
    /// The folder cannot be held.
    pub fn beside(audit: &Dir) -> std::io::Result<Self> {
        audit.try_clone().map(Self)
    }

    /// Keeps a recording, in the place of the oldest where there are [`RECORDINGS_MAX`]. Returns its digest.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep(&self, recording: &Recording) -> std::io::Result<String> {
        let text = serde_json::to_vec(recording)?;
        let digest = digest::of_bytes(&text);
        self.0.create_dir_all(FOLDER)?;
        let folder = self.0.open_dir(FOLDER)?;
        make_room(&folder)?;
        // The same call with the same answers is the same recording.
        regular::replace_in(&folder, &file_name(&digest), &text)?;
        Ok(digest)
    }

    /// Returns the recording of this digest; nothing where it is not there.
    ///
    /// # Errors
    /// It cannot be read, or is another one.
    pub fn find(&self, digest: &str) -> std::io::Result<Option<Recording>> {
        let mut options = OpenOptions::new();
        // A pipe in its place does not make anybody wait.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let path = format!("{FOLDER}/{}", file_name(digest));
        let Some(file) = unless_gone(self.0.open_with(path, &options))? else { return Ok(None) };
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
        if digest::of_bytes(&text) != digest {
            let reason = "the recording is not the one that the record names: it was altered";
            return Err(std::io::Error::new(ErrorKind::InvalidData, reason));
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Removes the recording of this digest, where there is one.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn remove(&self, digest: &str) -> std::io::Result<()> {
        unless_gone(self.0.remove_file(format!("{FOLDER}/{}", file_name(digest)))).map(|_| ())
    }

    /// Removes those that were kept before `oldest_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn forget(&self, oldest_ms: i64) -> std::io::Result<()> {
        let Some(folder) = unless_gone(self.0.open_dir(FOLDER))? else { return Ok(()) };
        let oldest = Duration::from_millis(u64::try_from(oldest_ms).unwrap_or_default());
        let mut files = files(&folder)?;
        files.retain(|(kept, _)| *kept < SystemTime::UNIX_EPOCH + oldest);
        remove(&folder, &files)
    }
}

/// When a file was kept, and its name.
type Kept = (SystemTime, OsString);

fn file_name(digest: &str) -> String {
    // Whatever a record says, it names a file of this folder.
    let name: String = digest.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{name}{SUFFIX}")
}

/// Removes the oldest ones.
fn make_room(folder: &Dir) -> std::io::Result<()> {
    let mut files = files(folder)?;
    files.sort();
    files.truncate((files.len() + 1).saturating_sub(RECORDINGS_MAX));
    remove(folder, &files)
}

/// Returns the files of a folder, also one that a host was about to put in place when it was killed.
fn files(folder: &Dir) -> std::io::Result<Vec<Kept>> {
    let mut files = Vec::new();
    for entry in folder.entries()? {
        let entry = entry?;
        if let Some(facts) = unless_gone(entry.metadata())?.filter(Metadata::is_file) {
            files.push((facts.modified()?.into_std(), entry.file_name()));
        }
    }
    Ok(files)
}

/// Removes these files. Calls that end at once may be at the same one.
fn remove(folder: &Dir, files: &[Kept]) -> std::io::Result<()> {
    files.iter().try_for_each(|(_, name)| unless_gone(folder.remove_file(name)).map(|_| ()))
}

fn unless_gone<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clawhost_core::grants::Grants;

    use super::*;
    use crate::recording::{End, Tape};
    use crate::secrets::Secrets;

    fn recording(answer: usize) -> Recording {
        let tape = Tape::keeping("t", &Grants::default(), Secrets::none());
        tape.keep("clock", &answer);
        tape.kept("sha256:0", End::default).unwrap().unwrap()
    }

    #[test]
    fn a_recording_is_found_by_its_digest_is_private_and_shows_that_it_was_altered() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
        let shelf = Recordings::beside(&dir).unwrap();
        assert_eq!(shelf.find("sha256:0").unwrap(), None);
        let digest = shelf.keep(&recording(1)).unwrap();
        assert_eq!(shelf.keep(&recording(1)).unwrap(), digest);
        assert_eq!(shelf.find(&digest).unwrap(), Some(recording(1)));
        let path = temp.path().join(FOLDER).join(file_name(&digest));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace('1', "2")).unwrap();
        assert!(shelf.find(&digest).unwrap_err().to_string().contains("altered"));
        assert_eq!(shelf.keep(&recording(1)).unwrap(), digest);
        assert_eq!(shelf.find(&digest).unwrap(), Some(recording(1)), "what is kept is whole");
        for _ in 0..2 {
            shelf.remove(&digest).unwrap();
            assert_eq!(shelf.find(&digest).unwrap(), None, "it was removed");
        }
        for strange in ["../../audit", "/etc/passwd", ""] {
            assert_eq!(shelf.find(strange).unwrap(), None, "{strange}");
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_a_recording_is_none_and_nobody_waits_for_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
        let folder = temp.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let pipe = folder.join(file_name("sha256:0"));
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        let error = Recordings::beside(&dir).unwrap().find("sha256:0").unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
    }

    #[test]
    fn calls_that_end_at_once_make_room_and_what_is_no_recording_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
        let folder = temp.path().join(FOLDER);
        std::fs::create_dir_all(folder.join("other.json")).unwrap();
        let shelf = Recordings::beside(&dir).unwrap();
        (0..RECORDINGS_MAX).for_each(|one| drop(shelf.keep(&recording(one)).unwrap()));
        std::thread::scope(|scope| {
            for one in 1..9 {
                let shelf = &shelf;
                let answers = (one * 1000)..(one * 1000 + 25);
                scope.spawn(move || {
                    answers.for_each(|it| drop(shelf.keep(&recording(it)).unwrap()))
                });
            }
        });
        assert!(folder.join("other.json").is_dir());
    }

    #[test]
    fn those_that_are_too_old_are_forgotten_and_where_there_are_none_nothing_is() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
        let shelf = Recordings::beside(&dir).unwrap();
        shelf.forget(i64::MAX).unwrap();
        let [old, new] = [1, 2].map(|one| shelf.keep(&recording(one)).unwrap());
        let file = std::fs::File::open(temp.path().join(FOLDER).join(file_name(&old))).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(7)).unwrap();
        let there = || [&old, &new].map(|digest| shelf.find(digest).unwrap().is_some());
        shelf.forget(7).unwrap();
        assert_eq!(there(), [true, true]);
        shelf.forget(8).unwrap();
        assert_eq!(there(), [false, true]);
    }

    #[test]
    fn the_oldest_make_room() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
        let shelf = Recordings::beside(&dir).unwrap();
        let aside = temp.path().join(FOLDER).join(".half.1.0");
        std::fs::create_dir(aside.parent().unwrap()).unwrap();
        std::fs::write(&aside, "what a killed host left").unwrap();
        let kept: Vec<String> =
            (0..RECORDINGS_MAX + 2).map(|one| shelf.keep(&recording(one)).unwrap()).collect();
        let there = kept.iter().filter(|digest| shelf.find(digest).unwrap().is_some()).count();
        assert_eq!(there, RECORDINGS_MAX);
        assert!(!aside.exists());
        assert!(shelf.find(kept.last().unwrap()).unwrap().is_some());
    }
}
