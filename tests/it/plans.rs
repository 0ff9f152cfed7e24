//! Random programs over few names: the guest's file tools and the person outside take turns at
//! one folder. Whatever they do, no call reads, lists or changes anything outside of it.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clawhost_tests::TestHost;
use clawhost_tests::canary::SECRET;
use proptest::prelude::*;
use serde_json::json;

/// Programs in an ordinary test run; set `PROPTEST_CASES` to try more.
const PROGRAMS: u32 = 96;
/// Steps of one program.
const STEPS_MAX: usize = 14;

/// Pieces of paths: few, so that steps meet the same names.
const NAMES: [&str; 9] = ["a", "b", "c", ".", "..", "", "canary.txt", "outside", "inside"];
/// Where links made by the person outside lead.
const TARGETS: [&str; 9] = [
    "a", "b/c", ".", "..", "../outside", "../outside/canary.txt", "OUTSIDE", "OUTSIDE/canary.txt",
    "/",
];

#[derive(Debug, Clone)]
enum Step {
    /// By the person outside.
    Link {
        name: &'static str,
        target: &'static str,
    },
    MakeFolder(&'static str),
    MakeFile(&'static str),
    HardLink {
        from: &'static str,
        to: &'static str,
    },
    Rename {
        from: &'static str,
        to: &'static str,
    },
    Remove(&'static str),
    /// By a guest.
    Read(String),
    Write(String),
    Edit(String),
    List(String),
    Remember,
}

fn path() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(&NAMES[..]), 1..5);
    (prop::bool::weighted(0.1), pieces).prop_map(|(absolute, pieces)| {
        format!("{}{}", if absolute { "/" } else { "" }, pieces.join("/"))
    })
}

fn step() -> impl Strategy<Value = Step> {
    let own = || prop::sample::select(&["a", "b", "c", "a/b", "b/c", "a/b/c"][..]);
    let target = prop::sample::select(&TARGETS[..]);
    prop_oneof![
        3 => (own(), target).prop_map(|(name, target)| Step::Link { name, target }),
        1 => own().prop_map(Step::MakeFolder),
        1 => own().prop_map(Step::MakeFile),
        1 => (own(), own()).prop_map(|(from, to)| Step::HardLink { from, to }),
        1 => (own(), own()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => own().prop_map(Step::Remove),
        4 => path().prop_map(Step::Read),
        4 => path().prop_map(Step::Write),
        2 => path().prop_map(Step::Edit),
        2 => path().prop_map(Step::List),
        1 => Just(Step::Remember),
    ]
}

/// The one host of all programs; each starts with an empty folder.
struct World {
    host: TestHost,
    runtime: tokio::runtime::Runtime,
    /// Calls that did something: programs that only meet refusals would show little.
    succeeded: Cell<u32>,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let host = runtime.block_on(TestHost::builder().build());
        Self { host, runtime, succeeded: Cell::new(0) }
    }

    fn run(&self, steps: &[Step]) {
        empty(&self.host.workspace());
        for step in steps {
            self.take(step);
            self.host.canaries().check();
            self.check_beside();
        }
    }

    fn take(&self, step: &Step) {
        let workspace = self.host.workspace();
        let outside = self.host.canaries().folder().to_str().unwrap();
        let at = |name: &str| workspace.join(name);
        // What the person outside cannot do (a name is taken, a folder is missing) is skipped.
        // None of it is done through a link, so that the canaries are only ever the guest's.
        let tangled = |name: &str| through_link(&workspace, name);
        match step {
            Step::Link { name, target } if !tangled(name) => {
                drop(symlink(target.replace("OUTSIDE", outside), at(name)));
            }
            Step::MakeFolder(name) if !tangled(name) => drop(fs::create_dir(at(name))),
            Step::MakeFile(name) if !tangled(name) => {
                drop(fs::OpenOptions::new().write(true).create_new(true).open(at(name)));
            }
            Step::HardLink { from, to } if !tangled(from) && !tangled(to) => {
                drop(fs::hard_link(at(from), at(to)));
            }
            Step::Rename { from, to } if !tangled(from) && !tangled(to) => {
                drop(fs::rename(at(from), at(to)));
            }
            Step::Remove(name) if !tangled(name) => {
                drop(fs::remove_file(at(name)).or_else(|_| fs::remove_dir_all(at(name))));
            }
            Step::Read(path) => self.call("read_file", &json!({"path": path})),
            Step::Write(path) => {
                self.call("write_file", &json!({"path": path, "content": "guest"}))
            }
            Step::Edit(path) => {
                self.call("edit_file", &json!({"path": path, "old_text": "e", "new_text": "E"}));
            }
            Step::List(path) => self.call("list_directory", &json!({"path": path})),
            Step::Remember => self.call("memory_write", &json!({"content": "guest"})),
            _ => {}
        }
    }

    fn call(&self, tool: &str, arguments: &serde_json::Value) {
        let outcome = self.runtime.block_on(self.host.call(tool, arguments.clone()));
        if outcome.as_ref().is_ok_and(|reply| !reply.is_error) {
            self.succeeded.set(self.succeeded.get() + 1);
        }
        let shown = format!("{outcome:?}");
        assert!(!shown.contains(SECRET), "{tool} {arguments} read a canary: {shown}");
        // A name that only the folder outside holds.
        assert!(!shown.contains("workspace2"), "{tool} {arguments} listed outside: {shown}");
    }

    /// Checks that nothing was made beside the granted folder.
    fn check_beside(&self) {
        let beside = fs::read_dir(self.host.workspace().parent().unwrap()).unwrap();
        let mut names: Vec<String> =
            beside.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["audit", "claw.yaml", "outside", "tools", "workspace"]);
    }
}

/// Says whether a folder on the way to `name` is a link.
fn through_link(workspace: &Path, name: &str) -> bool {
    let parents: Vec<PathBuf> =
        Path::new(name).ancestors().skip(1).map(|part| workspace.join(part)).collect();
    parents.iter().any(|parent| parent != workspace && parent.is_symlink())
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn no_program_of_file_calls_touches_anything_outside_the_granted_folder() {
    let world = World::new();
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = PROGRAMS;
    }
    proptest!(config, |(steps in prop::collection::vec(step(), 1..STEPS_MAX))| world.run(&steps));
    assert!(world.succeeded.get() > PROGRAMS / 4, "only {} calls succeeded", world.succeeded.get());
}

/// A program that would escape from a host that follows links, to show that the oracle sees it.
#[test]
fn the_canaries_show_an_escape() {
    let world = World::new();
    symlink(world.host.canaries().folder(), world.host.workspace().join("a")).unwrap();
    let seen = fs::read_to_string(world.host.workspace().join("a/canary.txt")).unwrap();
    assert_eq!(seen, SECRET, "reading through the link without a sandbox");
    fs::write(world.host.workspace().join("a/canary.txt"), "changed").unwrap();
    let caught =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.host.canaries().check()));
    assert!(caught.is_err());
}
