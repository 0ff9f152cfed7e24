//! The jail with real programs. Where the kernel gives no jail, each test says so and ends.
//!
//! A number such as `x13` in a name is an attack that the test makes, one of twenty on tools that
//! run programs; those on command lines are made where command lines are decided.

mod bounds;
mod reach;
pub(crate) mod serve;
mod tree;

use std::fs;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::spec::Most;
use super::{Command, JailError, JailLimits, JailMount, JailSpec, Outcome, run, support};

/// Longer than any command here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether there is a jail to test, and says so where there is none.
fn jail_here() -> bool {
    let support = support();
    if !support.available() {
        eprintln!("skipped: {support}");
    }
    support.available()
}

/// Returns whether a program is installed that a test needs, and says so where it is not.
fn program_here(path: &str) -> bool {
    let here = Path::new(path).exists();
    if !here {
        eprintln!("skipped: there is no {path}");
    }
    here
}

/// Returns a folder to work in, where there is a jail to test.
fn workspace() -> Option<TempDir> {
    jail_here().then(|| TempDir::new().unwrap())
}

/// As [`workspace`], for a test that needs `program` too.
fn workspace_with(program: &str) -> Option<TempDir> {
    workspace().filter(|_| program_here(program))
}

fn limits() -> JailLimits {
    JailLimits {
        memory_bytes: 512 << 20,
        processes_max: 32,
        open_files_max: 64,
        file_bytes_max: 1 << 20,
        output_bytes_max: 1 << 16,
    }
}

fn writable(path: &Path) -> JailMount {
    JailMount { path: path.to_owned(), writable: true }
}

fn spec_in(dir: &Path) -> JailSpec {
    JailSpec::new(vec![writable(dir)], Vec::new(), limits()).unwrap()
}

/// The jail as good as it gets here, without a mount namespace, without any, and with the least
/// of Landlock as well.
fn all_forms(dir: &Path) -> [JailSpec; 4] {
    if !support().mount_namespace {
        eprintln!("skipped: the form with a mount namespace, which this system refuses");
    }
    let with = |namespaces, landlock_abi| {
        let most = Most { namespaces, cgroup: namespaces == ALL, landlock_abi };
        JailSpec { most, ..spec_in(dir) }
    };
    [
        with(ALL, u32::MAX),
        with(!(libc::CLONE_NEWNS | root_alone()), u32::MAX),
        with(0, u32::MAX),
        with(0, 1),
    ]
}

/// Flags of all namespaces.
const ALL: i32 = -1;

/// The flag of the user namespace, which root can do without.
fn root_alone() -> i32 {
    if support().other_user { libc::CLONE_NEWUSER } else { 0 }
}

fn command(script: impl Into<String>) -> Command {
    let argv = ["/bin/sh".to_owned(), "-c".to_owned(), script.into()].into();
    Command { argv, stdin: Vec::new(), timeout: PATIENCE }
}

async fn sh(spec: &JailSpec, script: impl Into<String>) -> Outcome {
    run(spec, command(script)).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with a file that no jail over another directory may touch.
struct Canary {
    _dir: TempDir,
    file: PathBuf,
}

impl Canary {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("canary");
        fs::write(&file, "SECRET").unwrap();
        Self { _dir: dir, file }
    }

    fn state(&self) -> (String, u32, u32, i64, i64) {
        let meta = fs::metadata(&self.file).unwrap();
        let content = fs::read_to_string(&self.file).unwrap();
        (content, meta.mode(), meta.uid(), meta.mtime(), meta.mtime_nsec())
    }
}

/// A number that marks the processes of one test: they sleep for that many seconds.
fn marker(dir: &TempDir) -> String {
    let hash = dir.path().to_string_lossy().bytes().fold(u64::from(std::process::id()), |h, b| {
        h.wrapping_mul(1_000_003).wrapping_add(b.into())
    });
    format!("9{:09}", hash % 1_000_000_000)
}

/// Returns how many processes of the system have `marker` in their command line.
fn alive(marker: &str) -> usize {
    living(marker).count()
}

/// Returns where the system tells of them.
fn living(marker: &str) -> impl Iterator<Item = PathBuf> {
    let line = |path: &PathBuf| fs::read(path.join("cmdline")).unwrap_or_default();
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(move |path| text(&line(path)).contains(marker))
}

/// Polls until `condition` holds, or fails after a bound far above what it takes.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what} did not come true");
        tokio::task::yield_now().await;
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[tokio::test]
async fn a_command_gives_its_output_and_its_code() {
    let Some(dir) = workspace() else { return };
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, "echo out; echo err >&2; pwd; exit 7").await;
        assert_eq!(text(&outcome.stdout), format!("out\n{}\n", dir.path().display()));
        assert_eq!(text(&outcome.stderr), "err\n");
        assert_eq!(outcome.exit_code, Some(7));
        // Its group: the one target that each form has.
        assert_eq!(sh(&spec, "kill -KILL 0").await.exit_code, None);
        assert_eq!(sh(&spec, "kill -TERM 0").await.exit_code, None);
    }
}

#[tokio::test]
async fn no_time_is_a_timeout() {
    let Some(dir) = workspace() else { return };
    let none = Command { timeout: Duration::ZERO, ..command("sleep 5") };
    assert_eq!(run(&spec_in(dir.path()), none).await, Err(JailError::Timeout));
}

#[tokio::test]
async fn x18_an_impossible_command_line_fails() {
    let Some(dir) = workspace() else { return };
    for script in ["a\0b".to_owned(), "x".repeat(4 << 20)] {
        let ended = run(&spec_in(dir.path()), command(script)).await;
        assert!(matches!(ended, Err(JailError::Failed(_))), "{ended:?}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_in_the_jail_as_a_whole_says_what_has_to_be() {
    let Some(dir) = workspace() else { return };
    let script = dir.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let argv = [script.display().to_string()].into();
    let command = Command { argv, stdin: Vec::new(), timeout: PATIENCE };
    let error = run(&spec_in(dir.path()), command).await.unwrap_err().to_string();
    assert_says(
        &error,
        "script`, and what its `#!` line names, have to be executable, and to lie in folders of the system",
    );
}

#[test]
fn a_jail_that_could_not_be_kept_is_refused() {
    let dir = TempDir::new().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let nested = vec![writable(dir.path()), JailMount { path: inner, writable: false }];
    let bad_name = vec![("A=B".to_owned(), String::new())];
    let denied = |mounts, env| JailSpec::new(mounts, env, limits()).unwrap_err().to_string();
    assert_says(&denied(nested, Vec::new()), "is read-only but lies inside a writable directory");
    assert_says(&denied(Vec::new(), Vec::new()), "no directory to work in");
    assert_says(&denied(vec![writable(dir.path())], bad_name), "no environment can hold");
    let missing = JailSpec::new(vec![writable(&dir.path().join("no"))], Vec::new(), limits());
    assert!(matches!(missing, Err(JailError::Failed(_))));
}

fn assert_says(message: &str, part: &str) {
    assert!(message.contains(part), "{message}");
}
