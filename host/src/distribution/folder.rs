//! The tools folder and the lock file, as far as pulling changes them: each file in one step, and
//! nothing that somebody else has changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clawhost_core::digest;
use clawhost_core::limits::COMPONENT_BYTES_MAX;
use clawhost_core::package::{ComponentName, Lock, Locked, SIGNATURE_ENDING};

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
        match file.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match self.beside(name).filter(|_| !replace) {
                    Some(other) => {
                        Err(refused(&format!("`{other}` is there, and would be about it")))
                    }
                    None => Ok((file, true)),
                };
            }
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(refused("there is something that is no regular file")),
            Err(error) => return Err(failed(&file, &error)),
        }
        let bytes = regular::read(&file, COMPONENT_BYTES_MAX).map_err(|e| failed(&file, &e))?;
        let digest = digest::of_bytes(&bytes);
        if digest == pulled.digest {
            return Ok((file, false));
        }
        if replace || before.is_some_and(|before| before.digest == digest) {
            return Ok((file, true));
        }
        Err(refused("the file there is not what was pulled"))
    }

    /// Returns a file that a new component of this name would take over: a document that grants
    /// something to whatever is called so, or the same component in another form.
    fn beside(&self, name: &ComponentName) -> Option<String> {
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let is_its = |file: &String| {
            file.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        names.filter(is_its).min()
    }

    /// Writes a component with its signature. One of the file before is of no use any more.
    pub(crate) fn place(&self, file: &Path, pulled: &Pulled, is_new: bool) -> Result<(), Trouble> {
        let mut name = file.as_os_str().to_owned();
        name.push(SIGNATURE_ENDING);
        let beside = PathBuf::from(name);
        match &pulled.signature {
            // Somebody here may have signed what is still the same.
            Some(text) if is_new || !beside.exists() => replace(&beside, text.as_bytes())?,
            None if is_new => remove(&beside)?,
            Some(_) | None => {}
        }
        if is_new {
            replace(file, &pulled.bytes)?;
        }
        Ok(())
    }
}

/// Changes the lock file of `folder`, while nobody else does.
pub(crate) fn change_lock(folder: &Path, change: impl FnOnce(&mut Lock)) -> Result<(), Trouble> {
    let path = folder.join(LOCK_FILE);
    let turn = File::open(folder).and_then(|open| open.lock().map(|()| open));
    let turn = turn.map_err(|error| failed(folder, &error))?;
    let unsound = |reason| Trouble::Unsound(format!("{}: {reason}", path.display()));
    let mut lock = read_lock(folder).map_err(|error| unsound(error.to_string()))?;
    change(&mut lock);
    let text = lock.write().map_err(unsound)?;
    replace(&path, text.as_bytes())?;
    drop(turn);
    Ok(())
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Trouble> {
    regular::replace(path, content, MODE).map_err(|error| failed(path, &error))
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
