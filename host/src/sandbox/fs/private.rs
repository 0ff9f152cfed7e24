//! The folders in which the host keeps its own secrets, which no grant reaches.
//!
//! A mount that is one of them, or lies in one, is refused: nothing of it could be granted. One that
//! holds one is served to components without it, told by identity, and refused to native programs: a
//! jail grants whole trees.

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::grants::Mount;

use super::fault::Fault;
use super::places::nearest;
use super::roots::{RootError, open_error};
use super::rules::{Rules, self_and_above};
use super::stat::Id;

/// The host's own folders, as they lie now.
#[derive(Debug, Default)]
pub struct Private {
    /// Each with its identity and those of all above it.
    folders: Vec<(PathBuf, Vec<Id>)>,
    /// Closes them in whatever holds them.
    pub(super) rules: Rules,
}

impl Private {
    /// Looks up where `folders` lie. One that is not there holds nothing.
    ///
    /// # Errors
    /// Names the first that cannot be looked at.
    pub fn look_up<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<Self, RootError> {
        let mut private = Self::default();
        for path in folders {
            let failed = open_error(path);
            #[expect(clippy::disallowed_methods, reason = "the host's own folders, at load")]
            let Ok(dir) = Dir::open_ambient_dir(path, ambient_authority()) else { continue };
            let chain = self_and_above(&dir).map_err(&failed)?;
            // By its real name: what is closed is the folder, not a link to it.
            let real = path.canonicalize().map_err(|error| failed(Fault::from(error)))?;
            private.rules.add_closed(&real).map_err(&failed)?;
            private.folders.push((real, chain));
        }
        Ok(private)
    }

    /// Checks that no mount is one of these folders or lies in one.
    ///
    /// # Errors
    /// [`RootError::Private`] names the first that is.
    pub fn check(&self, mounts: &[Mount]) -> Result<(), RootError> {
        self.refuse(mounts, |own, chain| own.first().is_some_and(|id| chain.contains(id)))
    }

    /// Checks that no mount holds one of these folders either: for native programs.
    ///
    /// # Errors
    /// As [`Private::check`].
    pub fn check_native(&self, mounts: &[Mount]) -> Result<(), RootError> {
        self.check(mounts)?;
        // Of a mount that is still to be made this is what it is made in, which holds no harm.
        let there = |mount: &&Mount| mount.host.is_dir();
        let there: Vec<Mount> = mounts.iter().filter(there).cloned().collect();
        self.refuse(&there, |own, chain| chain.first().is_some_and(|id| own.contains(id)))
    }

    /// Fails where `is` says so of one of these folders and a mount: of each the identities of it
    /// and of all above it.
    fn refuse(&self, mounts: &[Mount], is: impl Fn(&[Id], &[Id]) -> bool) -> Result<(), RootError> {
        for mount in mounts.iter().filter(|_| !self.folders.is_empty()) {
            let chain = nearest(&mount.host).map_err(open_error(&mount.host))?;
            if let Some((folder, _)) = self.folders.iter().find(|(_, own)| is(own, &chain)) {
                let (mount, folder) = (mount.host.clone(), folder.clone());
                return Err(RootError::Private { mount, folder });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::grants::Access;

    use super::*;

    fn mount(host: &Path) -> [Mount; 1] {
        [Mount {
            host: host.to_owned(),
            guest: "/".to_owned(),
            access: Access::ReadOnly,
            create: true,
        }]
    }

    #[test]
    fn what_is_private_or_lies_in_it_is_never_granted_and_what_holds_it_to_no_program() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        std::fs::create_dir_all(path("home/state/audit")).unwrap();
        std::fs::create_dir(path("home/work")).unwrap();
        std::os::unix::fs::symlink(path("home/state"), path("home/link")).unwrap();
        let private = Private::look_up([path("home/link").as_path()].into_iter()).unwrap();
        for inside in ["home/state", "home/state/audit", "home/link", "home/link/to-be-made"] {
            let error = private.check(&mount(&path(inside))).unwrap_err();
            assert!(matches!(error, RootError::Private { .. }), "{inside}: {error}");
            assert!(private.check_native(&mount(&path(inside))).is_err(), "{inside}");
        }
        for above in ["home", ""] {
            assert_eq!(private.check(&mount(&path(above))), Ok(()), "{above}");
            assert!(private.check_native(&mount(&path(above))).is_err(), "{above}");
        }
        for beside in ["home/work", "home/to-be-made"] {
            assert_eq!(private.check_native(&mount(&path(beside))), Ok(()), "{beside}");
        }
    }
}
