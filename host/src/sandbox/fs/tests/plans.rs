//! Random programs of file operations over few names, in a directory laid out to hurt.
//!
//! The oracle: whatever the program does, every handle it gets lies beneath the root, no canary
//! is read, and nothing outside the grant, closed inside it or read-only has changed.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clawhost_core::grants::Access;
use proptest::prelude::*;

use super::place::{CANARY, Place, TIMES, snapshot};
use crate::sandbox::fs::folder::Folder;
use crate::sandbox::fs::meter::FsLimits;
use crate::sandbox::fs::open::{Node, OpenHow};
use crate::sandbox::fs::tree::Follow;

/// Names a program uses: plain ones, ones that climb, and the traps of the lay-out.
const PATHS: [&str; 26] = [
    "a", "b", "c", "a/b", "b/c", "a/b/c", ".", "..", "a/..", "a/../b", "a/../..", "./b/../a",
    "../outside/canary", "../root2", "link", "link/b", "out", "out/canary", "abs", "abs/canary",
    "up/outside/canary", "loop", "hard", "keep/file", "keep", "shut/canary",
];

/// What links point to, made by the guest or, to be worse, by somebody on the host.
const TARGETS: [&str; 12] = [
    "a", "b", ".", "..", "../outside", "../outside/canary", "/etc/passwd", "link", "a/b",
    "keep/file", "shut", "../root/shut/canary",
];

/// Where somebody on the host puts links while the program runs.
const HOST_LINKS: [&str; 4] = ["a", "b", "c", "link"];

/// One step of a program; numbers select by remainder, so that every program means something.
#[derive(Debug, Clone, Copy)]
struct Step {
    action: u8,
    base: u8,
    path: u8,
    other: u8,
    how: u8,
}

fn step() -> impl Strategy<Value = Step> {
    any::<(u8, u8, u8, u8, u8)>().prop_map(|(action, base, path, other, how)| Step {
        action,
        base,
        path,
        other,
        how,
    })
}

proptest! {
    #[test]
    fn no_program_leaves_its_root(steps in proptest::collection::vec(step(), 1..40)) {
        Program::run(&steps);
    }
}

struct Program {
    place: Place,
    folders: Vec<Folder>,
}

/// What may not change: everything outside, and what is closed or read-only inside.
type Kept = BTreeMap<PathBuf, (Vec<u8>, i64, i64, u32)>;

impl Program {
    fn run(steps: &[Step]) {
        let mounts = [("root", Access::ReadWrite), ("root/keep", Access::ReadOnly)];
        let place = Place::laid_out(lay_out, &mounts, &["root/shut"], FsLimits::default());
        let folders = vec![place.root.clone(), place.folder(1)];
        let mut program = Self { place, folders };
        let before = program.kept();
        for step in steps {
            program.step(*step);
        }
        assert_eq!(program.kept(), before);
    }

    fn kept(&self) -> Kept {
        let inside = ["keep", "shut"].iter().flat_map(|dir| snapshot(&self.place.path(dir)));
        self.place.outside().into_iter().chain(inside).collect()
    }

    fn step(&mut self, step: Step) {
        let base = pick(&self.folders, step.base).clone();
        let to = pick(&self.folders, step.other).clone();
        let (path, other) = (*pick(&PATHS, step.path), *pick(&PATHS, step.other));
        let follow = if step.how & 64 == 0 { Follow::Yes } else { Follow::No };
        let tree = &self.place.tree;
        let target = pick(&TARGETS, step.other);
        match step.action % 12 {
            0..=3 => {
                if let Ok(node) = tree.open(&base, path, follow, how(step.how)) {
                    self.opened(node);
                }
            }
            4 => drop(tree.create_dir(&base, path)),
            5 => drop(tree.symlink(target, &base, path)),
            6 => drop(tree.rename(&base, path, &to, other)),
            7 => drop(tree.remove_file(&base, path)),
            8 => drop(tree.remove_dir(&base, path)),
            9 => drop(tree.link(&base, path, &to, other)),
            10 => drop(tree.set_times(&base, path, follow, &TIMES)),
            _ => drop(symlink(target, self.place.path(HOST_LINKS[usize::from(step.path) % 4]))),
        }
    }

    fn opened(&mut self, node: Node) {
        match node {
            Node::Folder(folder) => {
                self.assert_beneath(folder.dir.as_raw_fd());
                self.folders.push(folder);
            }
            Node::File(file) => {
                self.assert_beneath(file.handle().as_raw_fd());
                assert!(
                    !file.read_at(64, 0).is_ok_and(|bytes| bytes == CANARY && !self.is_hard(&file))
                );
                let _ = file.write_at(b"guest", 0);
                let _ = file.append(b"guest");
                let _ = file.set_size(3);
            }
        }
    }

    /// A hard link laid into the root by the host is the one way its bytes are readable.
    fn is_hard(&self, file: &crate::sandbox::fs::OpenFile) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let canary = self.place.temp.path().join("outside/hard");
        std::fs::metadata(canary).unwrap().ino() == file.facts().unwrap().id.inode
    }

    fn assert_beneath(&self, fd: i32) {
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        let root = self.place.temp.path().join("root").canonicalize().unwrap();
        assert!(path.starts_with(&root), "{}", path.display());
        assert!(!path.starts_with(root.join("shut")), "{}", path.display());
    }
}

fn lay_out(root: &Path) {
    for dir in ["keep", "shut"] {
        std::fs::create_dir(root.join(dir)).unwrap();
    }
    std::fs::write(root.join("keep/file"), b"kept").unwrap();
    std::fs::write(root.join("shut/canary"), CANARY).unwrap();
    std::fs::write(root.join("../outside/hard"), CANARY).unwrap();
    std::fs::hard_link(root.join("../outside/hard"), root.join("hard")).unwrap();
    symlink("../outside", root.join("out")).unwrap();
    symlink(root.parent().unwrap().join("outside"), root.join("abs")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
}

fn how(bits: u8) -> OpenHow {
    OpenHow {
        create: bits & 1 != 0,
        directory: bits & 2 != 0,
        exclusive: bits & 4 != 0,
        read: bits & 8 != 0,
        truncate: bits & 16 != 0,
        write: bits & 32 != 0,
    }
}

fn pick<T>(items: &[T], index: u8) -> &T {
    &items[usize::from(index) % items.len()]
}
