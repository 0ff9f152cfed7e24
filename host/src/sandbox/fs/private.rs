//! The folders in which the host keeps its own secrets, which no grant reaches.
//!
//! A mount that is one of them, or lies in one, is refused: nothing of it could be granted. One that
//! holds one is served to components without it, and refused to native programs: a jail grants whole
//! trees. That a part of one is mounted once more inside a grant counts as well. One that is not there
//! yet is closed by its name.

use std::path::{Path, PathBuf};

use clawhost_core::grants::Mount;

use super::fault::Fault;
use super::mounted::{self, DevicePath, Mounts};
use super::roots::{RootError, open_error};
use super::rules::Rules;

/// The host's own folders, as they lie now.
#[derive(Debug, Default)]
pub struct Private {
    folders: Vec<(PathBuf, DevicePath)>,
    mounts: Mounts,
    /// Closes them in whatever holds them.
    pub(super) rules: Rules,
}

impl Private {
    /// Looks up where `folders` lie, or will.
    ///
    /// # Errors
    /// Names the first that cannot be looked at.
    pub fn look_up<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<Self, RootError> {
        let mut private = Self::default();
        for path in folders {
            if private.folders.is_empty() {
                let read = Mounts::read().map_err(Fault::from);
                private.mounts = read.map_err(open_error(path))?;
            }
            // By its real name: what is closed is the folder, not a link to it.
            let real = mounted::real(path);
            private.rules.add_closed(&real).map_err(open_error(path))?;
            let place = private.mounts.place(&real);
            private.folders.push((real, place));
        }
        Ok(private)
    }

    /// Checks that no mount is one of these folders or lies in one.
    ///
    /// # Errors
    /// [`RootError::Private`] names the first that is.
    pub fn check(&self, mounts: &[Mount]) -> Result<(), RootError> {
        self.refuse(mounts, |own, seen| own.holds(seen))
    }

    /// Checks that no mount holds one of these folders either: for native programs.
    ///
    /// # Errors
    /// As [`Private::check`].
    pub fn check_native(&self, mounts: &[Mount]) -> Result<(), RootError> {
        self.refuse(mounts, |own, seen| own.holds(seen) || seen.holds(own))
    }

    /// Fails where `is` says so of one of these folders and a place that is seen at or below a mount.
    fn refuse(
        &self,
        mounts: &[Mount],
        is: impl Fn(&DevicePath, &DevicePath) -> bool,
    ) -> Result<(), RootError> {
        for Mount { host, .. } in mounts {
            let seen: Vec<DevicePath> = self.mounts.seen(host).collect();
            let reaches = |(_, own): &&(PathBuf, DevicePath)| seen.iter().any(|it| is(own, it));
            if let Some((folder, _)) = self.folders.iter().find(reaches) {
                let (mount, folder) = (host.clone(), folder.clone());
                return Err(RootError::Private { mount, folder });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::grants::Access;

    use super::super::{Outlook, Roots};
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

    #[test]
    fn a_folder_that_is_made_later_is_as_private() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        std::fs::create_dir(path("home")).unwrap();
        let later = path("home/secrets/new");
        let private = Private::look_up([later.as_path()].into_iter()).unwrap();
        std::fs::create_dir_all(&later).unwrap();
        std::fs::write(later.join("key"), "value").unwrap();
        assert!(private.check(&mount(&later)).is_err());
        assert!(private.check_native(&mount(&path("home"))).is_err());
        assert_eq!(private.check_native(&mount(&path("home/other"))), Ok(()));
        let roots = Roots::open_without(&private, &mount(&path("home")), &[]).unwrap();
        let outlook = Outlook::of(&std::sync::Arc::new(roots), "/secrets/new/key");
        assert_eq!(outlook.says, Err(Fault::Closed));
    }

    /// Where the state folder, a part of it or what holds it is mounted once more below a grant.
    #[test]
    fn a_second_mount_of_it_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("state/audit")).unwrap();
        std::fs::create_dir_all(root.join("work/inner")).unwrap();
        let state = root.join("state");
        let mut private = Private::look_up([state.as_path()].into_iter()).unwrap();
        for (from, to_all, to_native) in [
            ("state/audit", false, false),
            ("state", false, false),
            ("", true, false),
            ("x", true, true),
        ] {
            let (from, at) = (root.join(from), root.join("work/inner"));
            let list = format!(
                "1 0 8:1 / / rw - x x rw\n2 1 8:1 {} {} rw - x x rw\n",
                from.display(),
                at.display()
            );
            private.mounts = Mounts::parse(list.as_bytes());
            for (path, place) in &mut private.folders {
                *place = private.mounts.place(path);
            }
            for granted in ["work", "work/inner"] {
                let mount = mount(&root.join(granted));
                assert_eq!(private.check(&mount).is_ok(), to_all, "{list}");
                assert_eq!(private.check_native(&mount).is_ok(), to_native, "{list}");
            }
        }
    }
}
