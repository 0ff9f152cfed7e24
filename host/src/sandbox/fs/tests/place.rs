//! A place for tests: a granted directory with canaries around it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clawhost_core::grants::{Access, Mount};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::sandbox::fs::Fault;
use crate::sandbox::fs::file::OpenFile;
use crate::sandbox::fs::folder::Folder;
use crate::sandbox::fs::meter::{FsLimits, Meter};
use crate::sandbox::fs::open::{Node, OpenHow};
use crate::sandbox::fs::roots::{RootError, Roots};
use crate::sandbox::fs::tree::{Follow, Tree};

/// What the canary files hold; it must never come out of a granted directory.
pub(in crate::sandbox::fs) const CANARY: &[u8] = b"CANARY-must-not-be-seen";

pub(in crate::sandbox::fs) const TIMES: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    last_modification: Timespec { tv_sec: 1, tv_nsec: 0 },
};

pub(in crate::sandbox::fs) const READ: OpenHow = OpenHow {
    create: false,
    directory: false,
    exclusive: false,
    read: true,
    truncate: false,
    write: false,
};
pub(in crate::sandbox::fs) const WRITE: OpenHow = OpenHow { write: true, ..READ };
pub(in crate::sandbox::fs) const CREATE: OpenHow = OpenHow { create: true, ..WRITE };
pub(in crate::sandbox::fs) const TRUNCATE: OpenHow = OpenHow { truncate: true, ..WRITE };

/// `T/root` granted for reading and writing, `T/outside` and `T/root2` with canaries.
pub(in crate::sandbox::fs) struct Place {
    pub(in crate::sandbox::fs) tree: Tree,
    pub(in crate::sandbox::fs) root: Folder,
    pub(in crate::sandbox::fs) temp: tempfile::TempDir,
}

impl Place {
    pub(in crate::sandbox::fs) fn new() -> Self {
        Self::granting(&[("root", Access::ReadWrite)], &[], FsLimits::default())
    }

    pub(in crate::sandbox::fs) fn with_write_quota(write_bytes: u64) -> Self {
        let limits = FsLimits { write_bytes, ..FsLimits::default() };
        Self::granting(&[("root", Access::ReadWrite)], &[], limits)
    }

    /// Grants directories of `T`, the first of them as `root`, after `T` was laid out.
    pub(in crate::sandbox::fs) fn granting(
        mounts: &[(&str, Access)],
        closed: &[&str],
        limits: FsLimits,
    ) -> Self {
        Self::laid_out(|_| {}, mounts, closed, limits)
    }

    pub(in crate::sandbox::fs) fn laid_out(
        lay_out: impl FnOnce(&Path),
        mounts: &[(&str, Access)],
        closed: &[&str],
        limits: FsLimits,
    ) -> Self {
        let temp = tempfile::tempdir().unwrap();
        for dir in ["outside", "root2"] {
            std::fs::create_dir(temp.path().join(dir)).unwrap();
            std::fs::write(temp.path().join(dir).join("canary"), CANARY).unwrap();
        }
        std::fs::create_dir(temp.path().join("root")).unwrap();
        lay_out(&temp.path().join("root"));
        let mounts: Vec<_> =
            mounts.iter().map(|(path, access)| mount(&temp, path, *access)).collect();
        let closed: Vec<PathBuf> = closed.iter().map(|path| temp.path().join(path)).collect();
        let roots = Arc::new(Roots::open(&mounts, &closed).unwrap());
        let root = roots.folders().unwrap().remove(0).0;
        let tree = Tree::new(roots, Arc::new(Meter::new(limits)));
        Self { tree, root, temp }
    }

    /// Returns the granted directory of that number.
    pub(in crate::sandbox::fs) fn folder(&self, index: usize) -> Folder {
        self.tree.roots().folders().unwrap().remove(index).0
    }

    pub(in crate::sandbox::fs) fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join("root").join(path)
    }

    pub(in crate::sandbox::fs) fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path(path)).unwrap()
    }

    pub(in crate::sandbox::fs) fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub(in crate::sandbox::fs) fn open(&self, path: &str, how: OpenHow) -> Result<Node, Fault> {
        self.tree.open(&self.root, path, Follow::Yes, how)
    }

    /// Opens a directory beneath the root.
    pub(in crate::sandbox::fs) fn dir(&self, path: &str) -> Result<Folder, Fault> {
        match self.open(path, OpenHow { directory: true, ..READ })? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => panic!("{path} is a file"),
        }
    }

    /// Puts a file there and opens it for reading and writing.
    pub(in crate::sandbox::fs) fn file(&self, path: &str, bytes: &[u8]) -> Arc<OpenFile> {
        std::fs::write(self.path(path), bytes).unwrap();
        file(self.open(path, WRITE).unwrap())
    }

    /// Returns all that must never change: everything in `T` beside the granted directory.
    pub(in crate::sandbox::fs) fn outside(&self) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64, u32)> {
        ["outside", "root2"].iter().flat_map(|dir| snapshot(&self.temp.path().join(dir))).collect()
    }
}

pub(in crate::sandbox::fs) fn file(node: Node) -> Arc<OpenFile> {
    match node {
        Node::File(file) => file,
        Node::Folder(_) => panic!("a directory"),
    }
}

pub(in crate::sandbox::fs) fn mount(temp: &tempfile::TempDir, path: &str, access: Access) -> Mount {
    Mount { host: temp.path().join(path), guest: format!("/{path}"), access, create: false }
}

pub(in crate::sandbox::fs) fn open_roots(host: &str) -> Result<Roots, RootError> {
    let access = Access::ReadOnly;
    Roots::open(&[Mount { host: host.into(), guest: "/".into(), access, create: false }], &[])
}

/// Returns each object in `dir` with its bytes, modification time and mode.
pub(in crate::sandbox::fs) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64, u32)> {
    let mut objects = BTreeMap::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(path) = pending.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        objects.insert(path, (bytes, meta.mtime(), meta.mtime_nsec(), meta.mode()));
    }
    objects
}

pub(in crate::sandbox::fs) fn os(errno: Errno) -> Fault {
    Fault::Os(errno)
}

/// Tries every path operation on `path`, and returns the answers of those that name it.
pub(in crate::sandbox::fs) fn every_answer(place: &Place, base: &Folder, path: &str) -> Vec<Fault> {
    let tree = &place.tree;
    let opens = [READ, WRITE, CREATE, TRUNCATE, OpenHow { directory: true, ..READ }];
    let mut answers: Vec<_> =
        opens.iter().map(|how| tree.open(base, path, Follow::Yes, *how).map(|_| ())).collect();
    answers.push(tree.stat(base, path, Follow::Yes).map(|_| ()));
    answers.push(tree.set_times(base, path, Follow::Yes, &TIMES));
    answers.push(tree.create_dir(base, path));
    answers.push(tree.remove_dir(base, path));
    answers.push(tree.remove_file(base, path));
    answers.push(tree.rename(base, path, base, "moved"));
    answers.push(tree.symlink("x", base, path));
    answers.push(tree.link(base, path, base, "linked"));
    answers.push(tree.read_link(base, path).map(|_| ()));
    answers.into_iter().map(|answer| answer.expect_err(path)).collect()
}

pub(in crate::sandbox::fs) fn assert_outside(place: &Place, path: &str) {
    let before = place.outside();
    for answer in every_answer(place, &place.root, path) {
        assert_eq!(answer, Fault::Outside, "{path}");
    }
    assert_eq!(place.outside(), before, "{path}");
}

pub(in crate::sandbox::fs) fn names(place: &Place, folder: &Folder) -> Vec<String> {
    let mut listing = place.tree.list(folder).unwrap();
    let mut names: Vec<_> =
        std::iter::from_fn(|| listing.next_entry().unwrap()).map(|entry| entry.name).collect();
    names.sort();
    names
}

/// Swaps of one race in an ordinary test run; set `RACE_TURNS` to try more.
const RACE_TURNS: usize = 10_000;

/// Opens `path` over and over while `swap` runs beside it: no canary is read or changed.
pub(in crate::sandbox::fs) fn raced(place: &Place, path: &str, swap: impl Fn(usize) + Sync) {
    let done = AtomicBool::new(false);
    let before = place.outside();
    let turns = std::env::var("RACE_TURNS").map_or(RACE_TURNS, |turns| turns.parse().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..turns).for_each(&swap);
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            for how in [READ, CREATE] {
                let Ok(Node::File(file)) = place.open(path, how) else {
                    continue;
                };
                assert_ne!(file.read_at(64, 0).unwrap(), CANARY);
                let _ = how.write.then(|| file.write_at(b"overwritten", 0));
            }
        }
    });
    assert_eq!(place.outside(), before);
}
