//! The tools folder and the lock file, as far as pulling changes them: each file in one step, and
//! nothing that somebody else has changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawhost_core::digest;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, DISTRIBUTION_MS};
use clawhost_core::package::{ComponentName, Lock, Locked, SIGNATURE_ENDING};
use tempfile::NamedTempFile;

use super::{Pulled, Trouble};
use crate::registry::{LOCK_FILE, read_lock};
use crate::regular;

/// Nothing in these files is secret; the user's mask may take more away.
const MODE: u32 = 0o644;

/// The folder that components are put into.
#[derive(Debug)]
pub(crate) struct ToolsFolder {
    path: PathBuf,
}

impl ToolsFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the file of a component, and says whether it has to be written: it may be as it was
    /// `before`, or what was pulled already; with `replace`, anything.
    pub(crate) fn look(
        &self,
        name: &ComponentName,
        pulled: &Pulled,
        before: Option<&Locked>,
        replace: bool,
    ) -> Result<(PathBuf, bool), Trouble> {
        let file = self.path.join(format!("{}{}", name.as_str(), pulled.ending()));
        let refused = |why: &str| Trouble::Refused {
            reason: format!("{}: {why}", file.display()),
            hint: "look at it, then move it away, or let `--replace` overwrite it; `--name` gives what is pulled another name",
        };
        let Some(found) = found(&file)? else {
            return match self.beside(name).filter(|_| !replace) {
                Some(other) => Err(refused(&format!("`{other}` is there, and would be about it"))),
                None => Ok((file, true)),
            };
        };
        let Some(digest) = found else {
            return Err(refused("there is something that is no regular file"));
        };
        if digest == pulled.digest {
            return Ok((file, false));
        }
        if replace || before.is_some_and(|before| before.digest == digest) {
            return Ok((file, true));
        }
        Err(refused("the file there is not what was pulled"))
    }

    /// Returns the files of a component under the name that it had `before` it got another one: where its entry in
    /// the lock file goes, they would be nobody's, and served whatever they are.
    pub(crate) fn former(&self, before: &Locked) -> Result<Vec<PathBuf>, Trouble> {
        let mut files = Vec::new();
        for ending in [".wasm", ".wat"] {
            let file = self.path.join(format!("{}{ending}", before.name));
            match found(&file)? {
                None => {}
                Some(Some(digest)) if digest == before.digest => {
                    files.extend(Some(signature_of(&file)).filter(|signature| signature.exists()));
                    files.push(file);
                }
                Some(_) => {
                    let reason =
                        format!("{}: it is not what was pulled under this name", file.display());
                    let hint = "look at it, then move it away: what is pulled gets another name";
                    return Err(Trouble::Refused { reason, hint });
                }
            }
        }
        Ok(files)
    }

    /// Returns a file that a new component of this name would take over: a document that grants
    /// something to whatever is called so, or the same component in another form. A signature without its
    /// component is what a pull that was killed leaves, and of no use.
    fn beside(&self, name: &ComponentName) -> Option<String> {
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let is_its = |file: &String| {
            file.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        names.filter(|file| is_its(file) && !file.ends_with(SIGNATURE_ENDING)).min()
    }

    /// Writes a component with its signature aside: what does not fit on the disk changes nothing. A signature
    /// of the file before is of no use any more.
    pub(crate) fn stage(
        &self,
        file: &Path,
        pulled: &Pulled,
        is_new: bool,
    ) -> Result<Staged, Trouble> {
        let beside = signature_of(file);
        let mut changes = Vec::new();
        match &pulled.signature {
            // Somebody here may have signed what is still the same.
            Some(text) if is_new || !beside.exists() => {
                changes.push(Change::Put(aside(&beside, text.as_bytes())?, beside));
            }
            None if is_new => changes.push(Change::Remove(beside)),
            Some(_) | None => {}
        }
        if is_new {
            changes.push(Change::Put(aside(file, &pulled.bytes)?, file.to_owned()));
        }
        Ok(Staged { changes })
    }
}

/// A component that is wholly on the disk, and not in its place yet; dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Staged {
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Put(NamedTempFile, PathBuf),
    Remove(PathBuf),
}

impl Staged {
    /// Has `files` go once it is in its place.
    pub(crate) fn in_place_of(mut self, files: Vec<PathBuf>) -> Self {
        self.changes.extend(files.into_iter().map(Change::Remove));
        self
    }

    /// Puts it into its place: the signature first, so that a component that is what was pulled has the
    /// right one.
    pub(crate) fn place(self) -> Result<(), Trouble> {
        self.changes.into_iter().try_for_each(|change| match change {
            Change::Put(file, path) => put(file, &path),
            Change::Remove(path) => remove(&path),
        })
    }
}

/// Changes the lock file of `folder` while nobody else does, after `place` has put into its place what is
/// locked: a pull that is killed between the two has only to be repeated, as a file that is what is pulled is
/// left as it is. Where one of them fails, the lock file is as it was.
pub(crate) fn change_lock(
    folder: &Path,
    change: impl FnOnce(&mut Lock) -> Result<(), Trouble>,
    place: impl FnOnce() -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let path = folder.join(LOCK_FILE);
    let turn = File::open(folder).and_then(|open| open.lock().map(|()| open));
    let turn = turn.map_err(|error| failed(folder, &error))?;
    let unsound = |reason| Trouble::Unsound(format!("{}: {reason}", path.display()));
    let before = read_lock(folder).map_err(|error| unsound(error.to_string()))?;
    let mut lock = before.clone();
    change(&mut lock)?;
    let text = (lock != before).then(|| lock.write()).transpose().map_err(unsound)?;
    let staged = text.map(|text| aside(&path, text.as_bytes())).transpose()?;
    place()?;
    staged.map_or(Ok(()), |staged| put(staged, &path))?;
    drop(turn);
    Ok(())
}

/// Writes a file aside, and removes what pulls that were killed left there: none takes longer than that.
fn aside(path: &Path, content: &[u8]) -> Result<NamedTempFile, Trouble> {
    let file = regular::beside(path, content, MODE).map_err(|error| failed(path, &error))?;
    regular::sweep(&file, Duration::from_millis(DISTRIBUTION_MS));
    Ok(file)
}

/// Returns the digest of what `file` is: nothing where nothing is there, and no digest where it is no regular file.
fn found(file: &Path) -> Result<Option<Option<String>>, Trouble> {
    match file.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(Some(None)),
        Err(error) => return Err(failed(file, &error)),
    }
    let bytes = regular::read(file, COMPONENT_BYTES_MAX).map_err(|error| failed(file, &error))?;
    Ok(Some(Some(digest::of_bytes(&bytes))))
}

fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SIGNATURE_ENDING);
    PathBuf::from(name)
}

fn put(file: NamedTempFile, path: &Path) -> Result<(), Trouble> {
    file.persist(path).map(drop).map_err(|error| failed(path, &error.error))
}

fn remove(path: &Path) -> Result<(), Trouble> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> Trouble {
    Trouble::Server(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use clawhost_core::package::Reference;

    use super::*;

    #[test]
    fn what_is_staged_is_nowhere_until_it_is_placed_and_a_signature_alone_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let tools = ToolsFolder::new(folder.path().to_owned());
        let name = ComponentName::parse("a").unwrap();
        let bytes = Bytes::from_static(b"\0asm");
        let pulled = Pulled {
            digest: digest::of_bytes(&bytes),
            bytes,
            source: String::new(),
            document: None,
            signature: Some("new".to_owned()),
        };
        let look = || tools.look(&name, &pulled, None, false);
        let signature = folder.path().join("a.wasm.minisig");
        std::fs::write(&signature, "of one that was killed").unwrap();
        let (file, is_new) = look().unwrap();
        drop(tools.stage(&file, &pulled, is_new).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        tools.stage(&file, &pulled, is_new).unwrap().place().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"\0asm");
        assert_eq!(std::fs::read_to_string(&signature).unwrap(), "new");
        assert!(!look().unwrap().1, "it is as it was pulled");
        std::fs::remove_file(&file).unwrap();
        std::fs::write(folder.path().join("a.yaml"), "kind: Tool").unwrap();
        assert!(look().is_err(), "it would grant something");
    }

    #[test]
    fn the_lock_file_changes_last_and_not_at_all_where_something_fails() {
        let folder = tempfile::tempdir().unwrap();
        let reference = Reference::parse("https://x.example/a.wasm").unwrap();
        let locked = Locked {
            digest: digest::of_bytes(b""),
            bytes: 0,
            name: "a".to_owned(),
            source: reference.to_string(),
            document: None,
            signed_by: None,
        };
        let add = |lock: &mut Lock| {
            lock.insert(&reference, locked.clone());
            Ok(())
        };
        let left = File::create(folder.path().join(".new-abcdef")).unwrap();
        left.set_modified(std::time::UNIX_EPOCH).unwrap();
        let full = || Err(Trouble::Server("no room".to_owned()));
        let is_locked = || folder.path().join(LOCK_FILE).exists();
        assert!(change_lock(folder.path(), add, full).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let seen = || {
            assert!(!is_locked(), "what it locks is not there yet");
            Ok(())
        };
        change_lock(folder.path(), add, seen).unwrap();
        assert!(is_locked());
        let refused = |_: &mut Lock| Err(Trouble::Server("changed".to_owned()));
        let placed = || panic!("it was refused");
        assert!(change_lock(folder.path(), refused, placed).is_err());
    }
}
