//! The jail with real programs. Where the kernel gives no jail, each test says so and ends.

use std::fs;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
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

/// The jail as good as it gets here, without a process namespace, and with the least of
/// Landlock as well.
fn all_forms(dir: &Path) -> [JailSpec; 3] {
    if !support().pid_namespace {
        eprintln!("skipped: the form with a process namespace, which this system refuses");
    }
    let with = |namespace, landlock_abi| {
        let most = Most { namespace, landlock_abi };
        JailSpec { most, ..spec_in(dir) }
    };
    [with(true, u32::MAX), with(false, u32::MAX), with(false, 1)]
}

fn command(script: impl Into<String>) -> Command {
    Command { script: script.into(), stdin: Vec::new(), timeout: PATIENCE }
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
    let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(of)
        .filter(|line| text(line).contains(marker))
        .count()
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
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, "echo out; echo err >&2; pwd; exit 7").await;
        assert_eq!(text(&outcome.stdout), format!("out\n{}\n", dir.path().display()));
        assert_eq!(text(&outcome.stderr), "err\n");
        assert_eq!(outcome.exit_code, Some(7));
        assert_eq!(sh(&spec, "kill -KILL $$").await.exit_code, None);
        assert_eq!(sh(&spec, "kill -TERM $$").await.exit_code, None);
    }
}

#[tokio::test]
async fn files_of_a_writable_mount_are_read_made_moved_and_deleted() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("old"), "old").unwrap();
    for spec in all_forms(dir.path()) {
        let script = "set -e; cat old; echo new > new; mkdir d; mv new d/moved; ln -s d l; \
                      cat l/moved; touch d/moved; rm -r d l; ls";
        let outcome = sh(&spec, script).await;
        assert_eq!(
            (text(&outcome.stdout), text(&outcome.stderr)),
            ("oldnew\nold\n".into(), String::new())
        );
    }
}

#[tokio::test]
async fn nothing_outside_is_read() {
    if !jail_here() {
        return;
    }
    let (dir, canary) = (TempDir::new().unwrap(), Canary::new());
    let file = canary.file.display();
    symlink(&canary.file, dir.path().join("link")).unwrap();
    symlink("..", dir.path().join("up")).unwrap();
    let beside = canary.file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let paths = [
        file.to_string(),
        "link".to_owned(),
        format!("../{beside}/canary"),
        format!("up/{beside}/canary"),
        format!("nope/../../{beside}/canary"),
        format!("/proc/self/root{file}"),
        "/proc/1/environ".to_owned(),
        "/etc/shadow".to_owned(),
        "/etc/passwd".to_owned(),
    ];
    for spec in all_forms(dir.path()) {
        for path in &paths {
            let outcome =
                sh(&spec, format!("cat {path}; cat < {path}; cp {path} copy; cat copy")).await;
            assert_eq!(text(&outcome.stdout), "", "{path}");
            assert_ne!(outcome.exit_code, Some(0), "{path}");
        }
        let listed =
            sh(&spec, format!("ls {} / /root /proc", canary.file.parent().unwrap().display()))
                .await;
        assert!(!text(&listed.stdout).contains("canary"));
    }
}

#[tokio::test]
async fn nothing_outside_is_changed() {
    if !jail_here() {
        return;
    }
    let (dir, canary) = (TempDir::new().unwrap(), Canary::new());
    symlink(&canary.file, dir.path().join("link")).unwrap();
    let (file, before) = (canary.file.display(), canary.state());
    let attempts = [
        "echo x > FILE",
        "echo x >> FILE",
        "echo x > link",
        "rm -f FILE",
        "mv FILE mine",
        "ln FILE mine",
        "chmod 777 FILE",
        "chmod 777 link",
        "touch FILE",
        "touch -d 2001-01-01 FILE",
        "touch -h -d 2001-01-01 FILE",
        "truncate -s 0 FILE",
        "mv link FILE",
        "mkdir FILE.d",
        "ln -s x FILE.l",
        "cp /bin/sh /usr/local/bin/jail-test",
        "chown 1 FILE",
    ];
    for spec in all_forms(dir.path()) {
        for attempt in attempts {
            let script = attempt.replace("FILE", &file.to_string());
            let outcome = sh(&spec, &*script).await;
            assert_ne!(outcome.exit_code, Some(0), "{script}");
            assert_eq!(canary.state(), before, "{script}");
        }
    }
    assert_eq!(fs::read_dir(canary.file.parent().unwrap()).unwrap().count(), 1);
    assert!(!Path::new("/usr/local/bin/jail-test").exists());
}

#[tokio::test]
async fn a_read_only_mount_is_read_and_not_written() {
    if !jail_here() {
        return;
    }
    let (dir, shared) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(shared.path().join("f"), "shared").unwrap();
    let mounts =
        vec![writable(dir.path()), JailMount { path: shared.path().to_owned(), writable: false }];
    let spec = JailSpec::new(mounts, Vec::new(), limits()).unwrap();
    let f = shared.path().join("f").display().to_string();
    let outcome =
        sh(&spec, format!("cat {f}; echo x > {f}; echo x > {f}2; rm -f {f}; chmod 0 {f}")).await;
    assert_eq!(text(&outcome.stdout), "shared");
    assert_eq!(fs::read_to_string(&f).unwrap(), "shared");
    assert_eq!(fs::read_dir(shared.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_program_of_the_workspace_is_not_executed() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("program");
    fs::copy("/bin/echo", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = sh(&spec_in(dir.path()), "./program ran").await;
    assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("", Some(126)));
}

/// Has the jail send to a listener of ours; returns how many connections and datagrams came.
async fn hits(spec: &JailSpec) -> (usize, usize) {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (t, u) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let script = format!(
        "bash -c 'echo x > /dev/tcp/127.0.0.1/{t}'; bash -c 'echo x > /dev/udp/127.0.0.1/{u}'"
    );
    sh(spec, script).await;
    let datagrams = std::iter::from_fn(|| udp.recv(&mut [0; 8]).ok()).count();
    (std::iter::from_fn(|| tcp.accept().ok()).count(), datagrams)
}

#[tokio::test]
async fn the_network_is_there_only_where_granted() {
    if !jail_here() || !program_here("/bin/bash") {
        return;
    }
    let dir = TempDir::new().unwrap();
    for spec in all_forms(dir.path()) {
        assert_eq!(hits(&spec).await, (0, 0));
        // The control: the same script does reach the listeners where it may.
        assert_eq!(hits(&spec.allowing_network()).await, (1, 1));
    }
}

#[tokio::test]
async fn a_unix_socket_outside_is_not_reached() {
    if !jail_here() || !program_here("/usr/bin/perl") {
        return;
    }
    let (dir, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = outside.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = format!(
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"{}\") or die'",
        path.display()
    );
    for spec in [spec_in(dir.path()), spec_in(dir.path()).allowing_network()] {
        assert_ne!(sh(&spec, &*script).await.exit_code, Some(0));
        assert!(listener.accept().is_err());
    }
}

#[tokio::test]
async fn the_environment_is_what_the_profile_gives() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")), "run by cargo");
    let env = vec![("GIVEN".to_owned(), "yes".to_owned())];
    let spec = JailSpec::new(vec![writable(dir.path())], env, limits()).unwrap();
    let lines = text(&sh(&spec, "env").await.stdout);
    let mut names: Vec<_> =
        lines.lines().filter_map(|l| l.split_once('=')).map(|(n, _)| n).collect();
    // The shell's own.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "PATH"]);
    assert!(lines.contains(&format!("HOME={}\n", dir.path().display())));
}

#[tokio::test]
async fn no_descriptor_of_the_host_is_inherited() {
    if !jail_here() || !program_here("/bin/bash") {
        return;
    }
    let (dir, canary) = (TempDir::new().unwrap(), Canary::new());
    let files: Vec<_> = (0..20).map(|_| fs::File::open(&canary.file).unwrap()).collect();
    for file in &files {
        // The mistake that this guards against: a descriptor without close-on-exec.
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
    }
    // Silent first of all: a redirection for one command would keep a copy of the stream open.
    let script = "exec 2>/dev/null; for n in {3..63}; do : <&$n && echo $n; done; :";
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, format!("exec bash -c '{script}'")).await;
        assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("", Some(0)));
    }
}

#[tokio::test]
async fn processes_are_bounded() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    let mut spec = spec_in(dir.path());
    spec.limits.processes_max = 8;
    let script = format!("i=0; while [ $i -lt 500 ]; do sleep {mark} & i=$((i+1)); echo $i; done");
    let outcome = sh(&spec, script).await;
    let started = text(&outcome.stdout).lines().count();
    assert!(text(&outcome.stderr).contains("fork"), "{started} of 8");
    // Root cannot have the kernel count each jail for itself; the bound is then for them all.
    let exact = support().pid_namespace && !support().other_user;
    assert!(started < if exact { 8 } else { 500 }, "{started} of 8");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn a_fork_bomb_ends_at_the_deadline() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    for mut spec in all_forms(dir.path()) {
        spec.limits.processes_max = 16;
        let bomb = format!("b() {{ b | b & }}; while :; do b; done 2>/dev/null # {mark}");
        let bomb = Command { timeout: Duration::from_millis(500), ..command(bomb) };
        let ended = run(&spec, bomb).await;
        // A shell that cannot fork may also give up by itself.
        assert!(!matches!(ended, Err(JailError::Failed(_) | JailError::Denied(_))), "{ended:?}");
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn no_descendant_survives_the_deadline() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let script = format!(
            "trap '' TERM HUP; setsid sleep {mark} & nohup sleep {mark} & (sleep {mark} &); \
             sh -c '(sh -c \"sleep {mark}\" &) &'; sleep {mark}"
        );
        let started = Instant::now();
        let slow = Command { timeout: Duration::from_millis(400), ..command(script) };
        assert_eq!(run(&spec, slow).await, Err(JailError::Timeout));
        assert!(started.elapsed() >= Duration::from_millis(400));
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn what_runs_in_the_background_ends_with_the_shell() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, format!("(sleep {mark} &); sleep {mark} & echo done")).await;
        assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("done\n", Some(0)));
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn a_flood_is_capped_and_counted() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let script = "head -c 5000000 /dev/zero; head -c 5000001 /dev/zero >&2";
    let outcome = sh(&spec_in(dir.path()), script).await;
    assert_eq!((outcome.stdout_bytes, outcome.stderr_bytes), (5_000_000, 5_000_001));
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (1 << 16, 1 << 16));
    assert_eq!(outcome.exit_code, Some(0));
}

#[tokio::test]
async fn input_is_given_and_need_not_be_read() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    for spec in all_forms(dir.path()) {
        let big = |script| Command { stdin: vec![b'x'; 3_000_000], ..command(script) };
        let counted = run(&spec, big("wc -c")).await.unwrap();
        assert_eq!(text(&counted.stdout).trim(), "3000000");
        assert_eq!(run(&spec, big("true")).await.unwrap().exit_code, Some(0));
        let echoed = run(&spec, big("cat")).await.unwrap();
        assert_eq!(echoed.stdout_bytes, 3_000_000);
    }
}

#[tokio::test]
async fn dropping_the_call_kills_the_tree() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let started = dir.path().join("started");
        let script = format!("sleep {mark} & echo > started; sleep {mark}");
        tokio::select! {
            ended = run(&spec, command(script)) => panic!("{ended:?}"),
            () = until("the start", || started.exists()) => {}
        }
        until("the end", || alive(&mark) == 0).await;
        fs::remove_file(started).unwrap();
    }
}

/// Where the test below starts itself again, this is the host that will be killed.
#[test]
fn a_host_to_be_killed() {
    let Some(dir) = std::env::var_os("JAIL_TEST_DIR").map(PathBuf::from) else {
        return;
    };
    let script = fs::read_to_string(dir.join("script")).unwrap();
    let namespace = dir.join("namespace").exists();
    let spec = JailSpec { most: Most { namespace, landlock_abi: u32::MAX }, ..spec_in(&dir) };
    drop(block_on(run(&spec, command(script))));
}

#[tokio::test]
async fn nothing_survives_a_killed_host() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = marker(&dir);
    for namespace in [true, false] {
        let script = format!("(sleep {mark} &); nohup sleep {mark} & echo > started; sleep {mark}");
        fs::write(dir.path().join("script"), script).unwrap();
        if namespace {
            fs::write(dir.path().join("namespace"), "").unwrap()
        }
        let mut host = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "jail::tests::a_host_to_be_killed"])
            .env("JAIL_TEST_DIR", dir.path())
            .spawn()
            .unwrap();
        until("the start", || dir.path().join("started").exists() && alive(&mark) > 3).await;
        host.kill().await.unwrap();
        until("the end", || alive(&mark) == 0).await;
        fs::remove_file(dir.path().join("started")).unwrap();
        if namespace {
            fs::remove_file(dir.path().join("namespace")).unwrap()
        }
    }
}

#[tokio::test]
async fn the_host_is_not_signalled() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let [best, group, least] = all_forms(dir.path());
    for spec in [&best, &group, &least] {
        let outcome = sh(spec, format!("kill -9 {}; echo here", std::process::id())).await;
        assert_eq!(text(&outcome.stdout), "here\n");
    }
    // Below these only the user is between a jail and others of the same user.
    if support().pid_namespace || support().landlock_abi >= 6 {
        assert_eq!(text(&sh(&best, "kill -9 $PPID; echo here").await.stdout), "here\n");
        assert_eq!(sh(&best, "kill -9 -1; kill -9 0").await.exit_code, None);
    }
}

#[tokio::test]
async fn namespaces_and_mounts_are_not_made() {
    if !jail_here() || !program_here("/usr/bin/unshare") {
        return;
    }
    let dir = TempDir::new().unwrap();
    for spec in all_forms(dir.path()) {
        for script in ["unshare -U true", "unshare -m true", "mount -t tmpfs x .", "chroot . true"]
        {
            assert_ne!(sh(&spec, script).await.exit_code, Some(0), "{script}");
        }
    }
}

#[tokio::test]
async fn memory_and_files_are_bounded() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let spec = spec_in(dir.path());
    let file = sh(&spec, "head -c 2000000 /dev/zero > big").await;
    assert_ne!(file.exit_code, Some(0));
    assert_eq!(fs::metadata(dir.path().join("big")).unwrap().len(), 1 << 20);
    let memory = sh(&spec, "head -c 1000000000 /dev/zero | tail -c 900000000 | wc -c").await;
    assert_ne!(text(&memory.stdout).trim(), "900000000");
}

#[tokio::test]
async fn no_time_is_a_timeout() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let none = Command { timeout: Duration::ZERO, ..command("sleep 5") };
    assert_eq!(run(&spec_in(dir.path()), none).await, Err(JailError::Timeout));
}

#[tokio::test]
async fn an_impossible_command_line_fails() {
    if !jail_here() {
        return;
    }
    let dir = TempDir::new().unwrap();
    for script in ["a\0b".to_owned(), "x".repeat(4 << 20)] {
        let ended = run(&spec_in(dir.path()), command(script)).await;
        assert!(matches!(ended, Err(JailError::Failed(_))), "{ended:?}");
    }
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
