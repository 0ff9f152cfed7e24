//! The granted directories, opened once.
//!
//! Here and in `rules`, which looks up closed paths, a path of the host's is resolved: at load,
//! or when a mount that may be created is first needed.
#![expect(clippy::disallowed_methods, reason = "this is where a profile's paths become handles")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::grants::{Access, Mount};
use rustix::io::Errno;

use super::bounds::{FolderBounds, nearest};
use super::fault::Fault;
use super::folder::Folder;
use super::private::Private;
use super::rules::{Rules, self_and_above};
use super::stat::{FileFacts, Id};

/// Why a profile's directories could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The mount is, or lies in, a path that the same profile closes.
    #[error("mount {}: the profile also closes it", .0.display())]
    Closed(PathBuf),
    /// It is not there, or not a directory, or may not be opened.
    #[error("open {}: {fault}: mount a folder that is there and may be opened", path.display())]
    Open {
        /// The path as configured.
        path: PathBuf,
        /// The system's answer.
        fault: Fault,
    },
    /// The mount is, lies in or, for a native program, holds a folder of the host's own.
    #[error(
        "mount {}: {} is a folder of this host's own, which nobody is granted: mount one beside it",
        mount.display(),
        folder.display()
    )]
    Private {
        /// The path as configured.
        mount: PathBuf,
        /// The host's folder.
        folder: PathBuf,
    },
    /// Paths of the host are absolute and without `..`.
    #[error("use {}: a host path must be absolute and without `..`", .0.display())]
    Path(PathBuf),
    /// The whole file system is never granted.
    #[error("mount {}: the root of the file system cannot be granted", .0.display())]
    Whole(PathBuf),
}

/// The directories of a profile, opened once and shared by all its calls.
#[derive(Debug, Default)]
pub struct Roots {
    roots: Vec<Root>,
    rules: Rules,
    hasher: RandomState,
    /// A tool that has folders under its own profile has none: looking for them is reaching past
    /// the grant.
    taken_away: bool,
}

#[derive(Debug)]
struct Root {
    mount: Mount,
    /// Empty until it is first needed, only where the mount says `create`.
    folder: OnceLock<Folder>,
}

impl Roots {
    /// Returns roots that grant nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Says whether the tool's folders were taken away.
    pub(super) const fn are_taken_away(&self) -> bool {
        self.taken_away
    }

    /// Opens the directories of `mounts`, with `denied_paths` closed inside them.
    ///
    /// A mount that may be created, written, and has no closed path beside it is opened, and
    /// made if need be, when a call first asks for it, and so is one that is not there, for reading
    /// and alone; all others now. Nested mounts each keep their handle, and the stricter access
    /// holds on every route.
    ///
    /// # Errors
    /// Names the first path that cannot be used. Nothing is granted then.
    pub fn open(mounts: &[Mount], denied_paths: &[PathBuf]) -> Result<Self, RootError> {
        Self::open_without(&Private::default(), mounts, denied_paths)
    }

    /// As [`Roots::open`], and without the host's own folders.
    ///
    /// # Errors
    /// As [`Roots::open`], and where one of the mounts is or lies in a folder of the host's own.
    pub fn open_without(
        private: &Private,
        mounts: &[Mount],
        denied_paths: &[PathBuf],
    ) -> Result<Self, RootError> {
        private.check(mounts)?;
        let mut rules = private.rules.clone();
        for path in denied_paths {
            require_plain(path)?;
            rules.add_closed(path).map_err(open_error(path))?;
        }
        let mut opened = Vec::new();
        for mount in mounts {
            require_plain(&mount.host)?;
            let may_wait = mount.create && denied_paths.is_empty();
            let waits = may_wait
                && match mount.access {
                    Access::ReadWrite => true,
                    // Beside another mount it has to be known now, for the routes through that.
                    Access::ReadOnly => mounts.len() == 1 && is_absent(&mount.host),
                };
            let dir = if waits { None } else { Some(open_ambient(mount)?) };
            if let Some(dir) = &dir {
                rules.add_mount(dir, mount.access).map_err(open_error(&mount.host))?;
            }
            opened.push((mount, dir));
        }
        // Only now are all marks known that a mount may lie under.
        let root = |(mount, dir): (&Mount, Option<Dir>)| Root::new(mount, dir, &rules);
        let roots = opened.into_iter().map(root).collect::<Result<_, _>>()?;
        Ok(Self { roots, rules, ..Self::default() })
    }

    /// Returns each granted directory with the name guests know it by.
    ///
    /// # Errors
    /// A directory that is made when first needed could not be made or opened.
    pub fn folders(&self) -> Result<Vec<(Folder, String)>, RootError> {
        let folder = |root: &Root| Ok((root.folder(&self.rules)?, root.mount.guest.clone()));
        self.roots.iter().map(folder).collect()
    }

    /// Returns the name that guests have for the directory `id`, where that is granted for reading only.
    pub(super) fn read_only_name(&self, id: Id) -> Option<String> {
        let is_it = |folder: &Folder| folder.id == id;
        let mut made = self.made().filter(|(_, folder)| folder.is_some_and(is_it));
        let found = made.find(|(mount, _)| mount.access == Access::ReadOnly);
        found.map(|(mount, _)| mount.guest.clone())
    }

    /// Returns each mount with its directory, but for one that is still to be made.
    pub(super) fn made(&self) -> impl Iterator<Item = (&Mount, Option<&Folder>)> {
        self.roots.iter().map(|root| (&root.mount, root.folder.get()))
    }

    /// Returns what of these is left where `places` bind as well, told by the open handles, and
    /// what of each mount, in their order.
    ///
    /// # Errors
    /// The system's answer where a directory cannot be looked at any more.
    pub fn within(&self, places: &FolderBounds) -> Result<(Self, Vec<Option<Access>>), Fault> {
        let rules = self.rules.and(&places.rules);
        let left = |root: &Root| root.left_by(places, &rules);
        let left = self.roots.iter().map(left).collect::<Result<Vec<_>, _>>()?;
        let kept = self.roots.iter().zip(&left);
        let roots: Vec<_> = kept.filter_map(|(root, left)| Some(root.with((*left)?))).collect();
        let taken_away = self.taken_away || (roots.is_empty() && !left.is_empty());
        Ok((Self { roots, rules, hasher: self.hasher.clone(), taken_away }, left))
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Hashes an identity under a key of this host's: two words, as the interface wants 128
    /// bits.
    pub(super) fn hash(&self, id: Id) -> (u64, u64) {
        (self.hasher.hash_one((0_u8, id)), self.hasher.hash_one((1_u8, id)))
    }
}

impl Root {
    fn new(mount: &Mount, dir: Option<Dir>, rules: &Rules) -> Result<Self, RootError> {
        let folder = dir.map(|dir| folder_of(mount, dir, rules)).transpose()?;
        Ok(Self { mount: mount.clone(), folder: folder.map_or_else(OnceLock::new, OnceLock::from) })
    }

    /// Says what is left of it where `places` bind as well, under the rules of both.
    fn left_by(&self, places: &FolderBounds, rules: &Rules) -> Result<Option<Access>, Fault> {
        let Self { mount, folder } = self;
        let left = || {
            let (own, chain) = match folder.get() {
                Some(folder) => (Some(folder.id), self_and_above(&folder.dir)?),
                None => (None, nearest(&mount.host)?),
            };
            if mount.create {
                places.check_path(&mount.host)?;
            }
            let left = places.leave(mount, own, &chain)?;
            left.map(|access| rules.access_of(&chain, access)).transpose()
        };
        match left() {
            Err(Fault::Closed) => Ok(None),
            left => left,
        }
    }

    /// Returns it with less: the same handle.
    fn with(&self, access: Access) -> Self {
        let mount = Mount { access, ..self.mount.clone() };
        let folder = self.folder.get().map(|folder| Folder { access, ..folder.clone() });
        Self { mount, folder: folder.map_or_else(OnceLock::new, OnceLock::from) }
    }

    fn folder(&self, rules: &Rules) -> Result<Folder, RootError> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.clone());
        }
        let folder = folder_of(&self.mount, open_ambient(&self.mount)?, rules)?;
        Ok(self.folder.get_or_init(|| folder).clone())
    }
}

fn folder_of(mount: &Mount, dir: Dir, rules: &Rules) -> Result<Folder, RootError> {
    let enter = || {
        let chain = self_and_above(&dir)?;
        let access = rules.access_of(&chain, mount.access)?;
        let strict = chain.iter().copied().find(|id| rules.is_read_only(*id));
        Folder::enter(dir, (access, strict), rules)
    };
    enter().map_err(|fault| match fault {
        Fault::Closed => RootError::Closed(mount.host.clone()),
        fault => RootError::Open { path: mount.host.clone(), fault },
    })
}

/// Opens a mount by its path on the host: the ambient authority of this module.
fn open_ambient(mount: &Mount) -> Result<Dir, RootError> {
    let path = &mount.host;
    let error = open_error(path);
    let dir = match Dir::open_ambient_dir(path, ambient_authority()).map_err(Fault::from) {
        Err(Fault::Os(Errno::NOENT)) if mount.create => {
            Dir::create_ambient_dir_all(path, ambient_authority())
                .and_then(|()| Dir::open_ambient_dir(path, ambient_authority()))
                .map_err(Fault::from)
        }
        result => result,
    }
    .map_err(&error)?;
    if is_whole(&dir).map_err(&error)? {
        return Err(RootError::Whole(path.clone()));
    }
    Ok(dir)
}

/// Says whether nothing is at `path`, or a link to nothing.
fn is_absent(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// Says whether `dir` is the root of the file system, by whatever path.
fn is_whole(dir: &Dir) -> Result<bool, Fault> {
    let whole = Dir::open_ambient_dir("/", ambient_authority())?;
    Ok(FileFacts::of_dir(&whole)?.id == FileFacts::of_dir(dir)?.id)
}

pub(super) fn require_plain(path: &Path) -> Result<(), RootError> {
    let plain = |part: Component<'_>| part != Component::ParentDir;
    if path.is_absolute() && path.components().all(plain) {
        Ok(())
    } else {
        Err(RootError::Path(path.to_path_buf()))
    }
}

pub(super) fn open_error(path: &Path) -> impl Fn(Fault) -> RootError + use<'_> {
    move |fault| RootError::Open { path: path.to_path_buf(), fault }
}
