//! Where the paths of a profile lead that narrows calls of tools under another one.
//!
//! They are looked up once, when a session begins or the host starts. From then on folders are told
//! by their handles and closed paths by identity, as in [`Roots`](super::Roots): who can make links
//! cannot move them. Deliberately absent: opening any of it to a call.
#![expect(clippy::disallowed_methods, reason = "a profile's paths are looked up here, once")]

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::grants::{Access, Mount};
use rustix::io::Errno;

use super::fault::Fault;
use super::roots::{RootError, open_error, require_plain};
use super::rules::{Rules, self_and_above};
use super::stat::{FileFacts, Id};

/// The folders and closed paths of a profile that narrows.
#[derive(Debug, Default)]
pub struct FolderBounds {
    folders: Vec<(Dir, Access)>,
    /// Mounts that were not there. Only a mount that the host makes itself can be one of them.
    absent: Vec<(PathBuf, Access)>,
    pub(super) rules: Rules,
}

impl FolderBounds {
    /// Looks up where `mounts` and `denied_paths` lead, links considered, and makes nothing. A
    /// mount that is no directory, or may not be opened, covers none.
    ///
    /// # Errors
    /// Names the first path that cannot be looked up.
    pub fn look_up(mounts: &[Mount], denied_paths: &[PathBuf]) -> Result<Self, RootError> {
        let mut places = Self::default();
        for path in denied_paths {
            require_plain(path)?;
            places.rules.add_closed(path).map_err(open_error(path))?;
        }
        for mount in mounts {
            require_plain(&mount.host)?;
            match Dir::open_ambient_dir(&mount.host, ambient_authority()).map_err(Fault::from) {
                Ok(dir) => {
                    let marked = places.rules.add_mount(&dir, mount.access);
                    marked.map_err(open_error(&mount.host))?;
                    places.folders.push((dir, mount.access));
                }
                Err(Fault::Os(Errno::NOENT)) => {
                    places.absent.push((mount.host.clone(), mount.access));
                }
                Err(_) => {}
            }
        }
        Ok(places)
    }

    /// Returns what is left of `mount`: it stays where it is, or lies in, one of these folders, and
    /// the strictest of those around and inside it counts. `own` is its directory, where that is
    /// made, and `chain` that and all above it.
    pub(super) fn leave(
        &self,
        mount: &Mount,
        own: Option<Id>,
        chain: &[Id],
    ) -> Result<Option<Access>, Fault> {
        let is_it = |(path, _): &&(PathBuf, Access)| mount.create && *path == mount.host;
        let same = self.absent.iter().find(is_it);
        let mut covered = same.is_some();
        let mut least = same.map_or(mount.access, |(_, access)| mount.access.min(*access));
        for (dir, access) in &self.folders {
            let folder = self_and_above(dir)?;
            let around = folder.first().is_some_and(|id| chain.contains(id));
            if around || own.is_some_and(|own| folder.contains(&own)) {
                (least, covered) = (least.min(*access), covered || around);
            }
        }
        Ok(covered.then_some(least))
    }

    /// Fails if the path of a mount that the host makes goes through a closed name: what is made
    /// under it later would not be known by identity.
    pub(super) fn check_path(&self, path: &Path) -> Result<(), Fault> {
        for path in path.ancestors() {
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if let Ok(above) = Dir::open_ambient_dir(above, ambient_authority()) {
                self.rules.check_name(FileFacts::of_dir(&above)?.id, &name.to_string_lossy())?;
            }
        }
        Ok(())
    }
}

/// Returns the identities of the nearest directory on `path` that is there, and of all above it.
pub(super) fn nearest(path: &Path) -> Result<Vec<Id>, Fault> {
    let mut dirs = path.ancestors().map(|path| Dir::open_ambient_dir(path, ambient_authority()));
    match dirs.find_map(Result::ok) {
        Some(dir) => self_and_above(&dir),
        None => Err(Errno::NOENT.into()),
    }
}
