//! What a jailed program sees of the file system, where it has a mount namespace: a root of its
//! own in memory, on which stand the paths that Landlock opens and no others.
//!
//! So no other path is there, not even for `stat`. And mounts hold what Landlock does not look
//! at: nothing of a read-only one changes, modes and times included, and what is written into a
//! writable one is never mapped as code.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, fstat, mkdirat, mknodat, symlinkat};
use rustix::process::{chdir, fchdir, pivot_root, umask};

use super::spec::Opened;
use super::sys::{self, NO_CODE, NO_DEVICES, NO_SET_ID, READ_ONLY};
use super::{JailError, files};

/// Directories and files of the system, and read-only mounts.
const READ: u64 = READ_ONLY | NO_SET_ID | NO_DEVICES;
/// Writable mounts.
const WRITE: u64 = NO_SET_ID | NO_DEVICES | NO_CODE;
/// Devices, which are written to all the same.
const DEVICE: u64 = READ_ONLY | NO_SET_ID | NO_CODE;
/// Everybody passes through the root, whose owner made it.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// What a root is made of. Paths in it have no slash in front.
#[derive(Debug, Default)]
pub(super) struct View {
    folders: Vec<CString>,
    files: Vec<CString>,
    /// Where a link leads, and where it stands.
    links: Vec<(CString, CString)>,
    /// Those that hold others come first.
    binds: Vec<Bind>,
    workdir: CString,
}

/// A path of the system that stands on the root.
#[derive(Debug)]
struct Bind {
    from: CString,
    at: CString,
    attributes: u64,
    /// The device and inode that it has to be.
    is: Option<(u64, u64)>,
}

impl View {
    /// Returns the view of a program that works in the first of `mounts`; none where one of them
    /// is the whole file system.
    ///
    /// # Errors
    /// [`JailError::Failed`] where a mount cannot be looked at.
    pub(super) fn of(mounts: &[Opened], network: bool) -> Result<Option<Self>, JailError> {
        if mounts.iter().any(|mount| mount.path == Path::new("/")) {
            return Ok(None);
        }
        let failed = |error: &dyn std::error::Error| JailError::Failed(error.to_string());
        let mut plan = Plan::default();
        // What a mount holds is seen through it.
        let seen = |path: &PathBuf| mounts.iter().any(|mount| path.starts_with(&mount.path));
        for path in files::system(network).filter(|path| !seen(path)) {
            plan.system(&path).map_err(|error| failed(&error))?;
        }
        for mount in mounts {
            plan.mount(mount).map_err(|error| failed(&error))?;
        }
        let workdir = mounts.first().map_or_else(|| Path::new("/"), |mount| mount.path.as_path());
        plan.view(workdir).map(Some).map_err(|error| failed(&error))
    }

    /// Makes this the root of the namespace, and of the process in it. Only system calls.
    ///
    /// # Errors
    /// What the system says; `ESTALE` where a mount is no longer the directory that was opened.
    pub(super) fn enter(&self) -> io::Result<()> {
        sys::keep_mounts_private()?;
        let root = sys::memory_file_system()?;
        self.furnish(root.as_fd())?;
        // Over the old root, where no path of the old tree leads: those below are still found.
        sys::attach(root.as_fd(), CWD, c"/")?;
        self.binds.iter().try_for_each(|bind| bind.enter(root.as_fd()))?;
        sys::set_attributes(root.as_fd(), READ | NO_CODE, false)?;
        fchdir(&root)?;
        // The old root comes to lie over the new one, and is taken away from there.
        pivot_root(c".", c".")?;
        sys::detach(c".")?;
        Ok(chdir(self.workdir.as_c_str())?)
    }

    /// Makes what things are to stand on, while nothing of the system is reached through the root.
    fn furnish(&self, root: BorrowedFd<'_>) -> io::Result<()> {
        let mask = umask(Mode::empty());
        for folder in &self.folders {
            mkdirat(root, folder.as_c_str(), MODE)?;
        }
        for file in &self.files {
            mknodat(root, file.as_c_str(), FileType::RegularFile, MODE, 0)?;
        }
        for (to, at) in &self.links {
            symlinkat(to.as_c_str(), root, at.as_c_str())?;
        }
        umask(mask);
        Ok(())
    }
}

impl Bind {
    fn enter(&self, root: BorrowedFd<'_>) -> io::Result<()> {
        let tree = sys::copy_tree(&self.from)?;
        if self.is.is_some_and(|is| identity(&tree).ok() != Some(is)) {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        sys::set_attributes(tree.as_fd(), self.attributes, true)?;
        sys::attach(tree.as_fd(), root, &self.at)
    }
}

fn identity(file: impl AsFd) -> io::Result<(u64, u64)> {
    Ok(fstat(file).map(|stat| (stat.st_dev, stat.st_ino))?)
}

/// A view on its way, with paths that can be compared.
#[derive(Debug, Default)]
struct Plan {
    folders: BTreeSet<PathBuf>,
    files: Vec<PathBuf>,
    links: Vec<(CString, CString)>,
    binds: Vec<(PathBuf, Bind)>,
}

impl Plan {
    /// A path of the system, if it is on this one. Where it is a link into the programs, such as
    /// `/bin`, it is one inside, too.
    fn system(&mut self, path: &Path) -> io::Result<()> {
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        if real != path && real.starts_with(files::USR) {
            let at = below_root(path);
            self.folders_above(at);
            self.links.push((text(&real)?, text(at)?));
            return Ok(());
        }
        let attributes = if path.starts_with("/dev") { DEVICE } else { READ };
        self.bind(&real, path, attributes, None)
    }

    fn mount(&mut self, mount: &Opened) -> io::Result<()> {
        let attributes = if mount.writable { WRITE } else { READ };
        self.bind(&mount.path, &mount.path, attributes, Some(identity(&mount.dir)?))
    }

    fn bind(
        &mut self,
        from: &Path,
        at: &Path,
        attributes: u64,
        is: Option<(u64, u64)>,
    ) -> io::Result<()> {
        let at = below_root(at);
        self.folders_above(at);
        match is.is_some() || from.is_dir() {
            true => drop(self.folders.insert(at.to_owned())),
            false => self.files.push(at.to_owned()),
        }
        let bind = Bind { from: text(from)?, at: text(at)?, attributes, is };
        self.binds.push((at.to_owned(), bind));
        Ok(())
    }

    fn folders_above(&mut self, at: &Path) {
        let folders = at.ancestors().skip(1).filter(|path| *path != Path::new(""));
        self.folders.extend(folders.map(Path::to_owned));
    }

    fn view(mut self, workdir: &Path) -> io::Result<View> {
        self.binds.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(View {
            folders: self.folders.iter().map(text).collect::<Result<_, _>>()?,
            files: self.files.iter().map(text).collect::<Result<_, _>>()?,
            links: self.links,
            binds: self.binds.into_iter().map(|(_, bind)| bind).collect(),
            workdir: text(workdir)?,
        })
    }
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn text(path: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(path.as_ref().as_bytes())?)
}
