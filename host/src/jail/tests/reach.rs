//! What a program reaches: files, the network, the host's environment, descriptors and processes.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;

#[tokio::test]
async fn files_of_a_writable_mount_are_read_made_moved_and_deleted() {
    let Some(dir) = workspace() else { return };
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
async fn x14_nothing_outside_is_read() {
    let Some(dir) = workspace() else { return };
    let canary = Canary::new();
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
async fn x15_nothing_outside_is_changed() {
    let Some(dir) = workspace() else { return };
    let canary = Canary::new();
    symlink(&canary.file, dir.path().join("link")).unwrap();
    let (file, before) = (canary.file.display(), canary.state());
    let attempts = [
        "echo x > FILE",
        "echo x >> FILE",
        "echo x > link",
        "rm FILE",
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
    let Some(dir) = workspace() else { return };
    let shared = TempDir::new().unwrap();
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
async fn x02_a_program_of_the_workspace_is_not_executed() {
    let Some(dir) = workspace() else { return };
    let program = dir.path().join("program");
    fs::copy("/bin/echo", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = sh(&spec_in(dir.path()), "./program ran").await;
    assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("", Some(126)));
}

#[tokio::test]
async fn x15_no_file_is_made_that_runs_as_its_owner() {
    if !jail_here() || !program_here("/usr/bin/perl") {
        return;
    }
    let (mknodat, mkdirat, openat2) = (libc::SYS_mknodat, libc::SYS_mkdirat, libc::SYS_openat2);
    let here = libc::AT_FDCWD;
    let ways = [
        r#"open(F, ">", "a") and chmod(MODE, *F)"#.to_owned(),
        r#"sysopen(F, "b", 0101, MODE)"#.to_owned(),
        format!(r#"$n = "c", syscall({mknodat}, {here}, $n, 0100000 | MODE, 0) == 0"#),
        format!(r#"$n = "d", syscall({mkdirat}, {here}, $n, MODE) == 0"#),
    ];
    // The flags and the mode of this one lie in memory, where no filter looks.
    let how = r#"$n = "e", $how = pack("QQQ", 0101, MODE, 0)"#;
    let hidden = format!("{how}, syscall({openat2}, {here}, $n, $how, 24) >= 0");
    let tried = |way: &str, mode: &str| {
        format!("perl -e 'umask 0; ({}) or exit 9'", way.replace("MODE", mode))
    };
    for form in 0..4 {
        let dir = TempDir::new().unwrap();
        let spec = &all_forms(dir.path())[form];
        for mode in ["04755", "02755", "06755"] {
            for way in ways.iter().chain([&hidden]) {
                assert_eq!(sh(spec, tried(way, mode)).await.exit_code, Some(9), "{way} {mode}");
            }
        }
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().mode() & 0o6000, 0, "{entry:?}");
        }
        // The control: each way works with any other mode.
        for way in &ways {
            let ended = sh(spec, tried(way, "01755")).await;
            assert_eq!(ended.exit_code, Some(0), "{way}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn x15_no_way_of_opening_passes_by_landlock() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let (shared, canary) = (TempDir::new().unwrap(), Canary::new());
    let file = shared.path().join("f");
    // Whoever the jail runs as has a right to write it, but for the jail.
    for path in [&file, &canary.file] {
        fs::write(path, "SECRET").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    let before = canary.state();
    let mounts =
        vec![writable(dir.path()), JailMount { path: shared.path().to_owned(), writable: false }];
    let mounts = JailSpec::new(mounts, Vec::new(), limits()).unwrap().mounts;
    // The mode in which an open file is neither read nor written.
    let neither = libc::O_WRONLY | libc::O_RDWR;
    let ways = [libc::O_TRUNC, neither, neither | libc::O_TRUNC];
    let open = |path: &Path, flags: i32| {
        let (path, call, here) = (path.display(), libc::SYS_openat, libc::AT_FDCWD);
        format!("perl -e '$f = \"{path}\"; exit(syscall({call}, {here}, $f, {flags}, 0) < 0)'")
    };
    for mut spec in all_forms(dir.path()) {
        spec.mounts.clone_from(&mounts);
        for (path, flags) in ways.into_iter().flat_map(|way| [(&file, way), (&canary.file, way)]) {
            let ended = sh(&spec, open(path, flags)).await;
            assert_eq!(ended.exit_code, Some(1), "{} {flags:#o}: {spec:?}", path.display());
            assert_eq!(fs::read_to_string(&file).unwrap(), "SECRET", "{flags:#o}: {spec:?}");
            assert_eq!(canary.state(), before, "{flags:#o}: {spec:?}");
        }
        // The control: what may be read is opened for that.
        assert_eq!(sh(&spec, open(&file, libc::O_RDONLY)).await.exit_code, Some(0));
    }
}

#[tokio::test]
async fn attributes_are_not_set_and_programs_that_copy_files_do_without() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let (set, remove) = (libc::SYS_fsetxattr, libc::SYS_fremovexattr);
    let ways = [
        format!(r#"$n = "user.a", $v = "1", syscall({set}, fileno(F), $n, $v, 1, 0) == 0"#),
        format!(r#"$n = "user.a", syscall({remove}, fileno(F), $n) == 0"#),
    ];
    for spec in all_forms(dir.path()) {
        for way in &ways {
            let tried = format!("perl -e 'open(F, \"+>\", \"f\"); ({way}) or die $!'");
            let said = text(&sh(&spec, tried).await.stderr);
            assert!(said.contains("not supported"), "{way}: {said}");
        }
        let outcome = sh(&spec, "set -e; echo a > f; cp -p f g; sed -i s/a/b/ g; cat g").await;
        let said = (text(&outcome.stdout), text(&outcome.stderr));
        assert_eq!(said, ("b\n".to_owned(), String::new()));
    }
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
async fn x13_the_network_is_there_only_where_granted() {
    let Some(dir) = workspace_with("/bin/bash") else { return };
    for spec in all_forms(dir.path()) {
        assert_eq!(hits(&spec).await, (0, 0));
        // The control: the same script does reach the listeners where it may.
        assert_eq!(hits(&spec.allowing_network()).await, (1, 1));
    }
}

#[tokio::test]
async fn x13_a_unix_socket_outside_is_not_reached() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let outside = TempDir::new().unwrap();
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
async fn x05_the_environment_is_what_the_profile_gives() {
    let Some(dir) = workspace() else { return };
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
async fn x06_no_descriptor_of_the_host_is_inherited() {
    let Some(dir) = workspace_with("/bin/bash") else { return };
    let canary = Canary::new();
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
async fn x12_the_host_is_not_signalled() {
    let Some(dir) = workspace() else { return };
    let (host, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
    let script = format!(
        "kill -9 {host}; kill -9 {thread}; kill -9 $PPID; kill -9 -1; echo here; kill -9 0"
    );
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, &*script).await;
        assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("here\n", None));
    }
}

/// The jails of `dir` in which ids of processes outside are seen.
fn with_foreign_ids(dir: &Path) -> Vec<JailSpec> {
    all_forms(dir).into_iter().filter(|spec| spec.most.namespaces == 0).collect()
}

/// A program in a jail of its own, which has the same user. It answers line by line.
struct Victim {
    id: String,
    child: crate::jail::Child,
    says: BufReader<tokio::process::ChildStdout>,
}

impl Victim {
    async fn start(spec: &JailSpec) -> Self {
        let argv = command("echo $$; exec cat").argv;
        let mut child = crate::jail::start(spec, argv).await.unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        let mut victim = Self { id: String::new(), child, says };
        victim.id = victim.line().await.trim().to_owned();
        victim
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).await.unwrap();
        line
    }

    async fn answers(&mut self) -> bool {
        // Where it is gone, there is nobody to read this.
        drop(self.child.stdin.as_mut().unwrap().write_all(b"still here\n").await);
        self.line().await == "still here\n"
    }
}

/// Has perl do `way` to the process `id`, which exits with 0 where that was allowed.
fn perl(way: &str, id: &str) -> String {
    format!("perl -e '({}) or exit 9' 2>/dev/null", way.replace("PID", id))
}

#[tokio::test]
async fn x12_no_process_outside_is_signalled() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let info = r#"$i = pack("iii", 15, 0, -1) . "\0" x 116"#;
    // A pipe that signals its owner, by a signal of choice, when there is something in it.
    let piped = |owner: &str| {
        format!("pipe(R, W), {owner}, fcntl(R, 10, 15), fcntl(R, 4, 020000), syswrite(W, \"x\")")
    };
    let ways = [
        format!("syscall({}, PID, 15) == 0", libc::SYS_kill),
        format!("syscall({}, -PID, 15) == 0", libc::SYS_kill),
        format!("syscall({}, PID, 15) == 0", libc::SYS_tkill),
        format!("syscall({}, PID, PID, 15) == 0", libc::SYS_tgkill),
        format!("{info}, syscall({}, PID, 15, $i) == 0", libc::SYS_rt_sigqueueinfo),
        format!("{info}, syscall({}, PID, PID, 15, $i) == 0", libc::SYS_rt_tgsigqueueinfo),
        format!(
            "$f = syscall({}, PID, 0), syscall({}, $f, 15, 0, 0) == 0",
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal
        ),
        piped("fcntl(R, 8, PID)"),
        piped(r#"$o = pack("ii", 1, PID), fcntl(R, 15, $o)"#),
    ];
    for spec in with_foreign_ids(dir.path()) {
        let mut victim = Victim::start(&spec).await;
        for way in &ways {
            sh(&spec, perl(way, &victim.id)).await;
            assert!(victim.answers().await, "{way}: {spec:?}");
        }
        victim.child.kill().await;
    }
}

#[tokio::test]
async fn x12_no_process_outside_is_slowed_or_bounded() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let ways = [
        format!(r#"$l = pack("QQ", 0, 0), syscall({}, PID, 1, $l, 0) == 0"#, libc::SYS_prlimit64),
        format!("syscall({}, 0, PID, 19) == 0", libc::SYS_setpriority),
        format!("syscall({}, 1, PID, 3 << 13) == 0", libc::SYS_ioprio_set),
        format!(
            r#"$m = "\xff" x 128, syscall({}, PID, 128, $m) == 0"#,
            libc::SYS_sched_setaffinity
        ),
        format!(r#"$p = pack("i", 0), syscall({}, PID, 3, $p) == 0"#, libc::SYS_sched_setscheduler),
        format!(r#"$p = pack("i", 0), syscall({}, PID, $p) == 0"#, libc::SYS_sched_setparam),
        format!(
            r#"$a = pack("LLQlLQQQ", 48, 3, 0, 19, 0, 0, 0, 0), syscall({}, PID, $a, 0) == 0"#,
            libc::SYS_sched_setattr
        ),
    ];
    // All processes of its user.
    let everybody = [
        format!("syscall({}, 2, 0, 19) == 0", libc::SYS_setpriority),
        format!("syscall({}, 3, 0, 3 << 13) == 0", libc::SYS_ioprio_set),
    ];
    for spec in with_foreign_ids(dir.path()) {
        let mut victim = Victim::start(&spec).await;
        for way in ways.iter().chain(&everybody) {
            let ended = sh(&spec, perl(way, &victim.id)).await;
            assert_eq!(ended.exit_code, Some(9), "{way}: {ended:?}");
        }
        // The control: each is allowed to the caller itself.
        for way in &ways {
            let ended = sh(&spec, perl(way, "0")).await;
            assert_eq!(ended.exit_code, Some(0), "{way}: {ended:?}");
        }
        victim.child.kill().await;
    }
}

#[tokio::test]
async fn x16_namespaces_and_mounts_are_not_made() {
    let Some(dir) = workspace_with("/usr/bin/unshare") else { return };
    for spec in all_forms(dir.path()) {
        for script in ["unshare -U true", "unshare -m true", "mount -t tmpfs x .", "chroot . true"]
        {
            assert_ne!(sh(&spec, script).await.exit_code, Some(0), "{script}");
        }
    }
}

#[tokio::test]
async fn x12_no_process_is_traced() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let call = libc::SYS_ptrace;
    // To be traced by its parent, and to trace that one.
    let [itself, parent] =
        [format!("syscall({call}, 0, 0, 0, 0)"), format!("syscall({call}, 16, getppid, 0, 0)")];
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, format!("perl -e '{itself}; warn $!; {parent}; die $!'")).await;
        let refused = text(&outcome.stderr).matches("not permitted").count();
        assert_eq!(refused, 2, "{outcome:?}");
    }
}

#[tokio::test]
async fn x15_memory_and_programs_of_processes_are_not_reached_as_files() {
    let Some(dir) = workspace() else { return };
    let own = std::process::id();
    let attempts = [
        "cat /proc/self/environ".to_owned(),
        "echo x > /proc/self/exe".to_owned(),
        "head -c 1 /proc/$PPID/mem".to_owned(),
        format!("cat /proc/{own}/environ"),
        format!("echo x > /proc/{own}/mem"),
        format!("ls /proc/{own}/root/"),
    ];
    for spec in all_forms(dir.path()) {
        for attempt in &attempts {
            let outcome = sh(&spec, attempt.as_str()).await;
            assert_ne!(outcome.exit_code, Some(0), "{attempt}");
            assert_eq!(text(&outcome.stdout), "", "{attempt}");
        }
    }
}

#[tokio::test]
async fn x17_there_is_no_terminal() {
    let Some(dir) = workspace() else { return };
    for spec in all_forms(dir.path()) {
        for attempt in
            [": < /dev/tty", "echo x > /dev/tty", "tty", "ls /dev/pts/*", ": < /dev/ptmx"]
        {
            assert_ne!(sh(&spec, attempt).await.exit_code, Some(0), "{attempt}");
        }
    }
}

#[tokio::test]
async fn x19_a_working_directory_that_is_swapped_or_gone_leads_nowhere_else() {
    let Some(around) = workspace() else { return };
    let canary = Canary::new();
    let before = canary.state();
    let outside = canary.file.parent().unwrap();
    let work = around.path().join("work");
    fs::create_dir(&work).unwrap();
    let spec = spec_in(&work);
    let script = "cat canary; cat \"$HOME/canary\"; echo x > canary; echo x > \"$HOME/new\"; ls";
    fs::rename(&work, around.path().join("moved")).unwrap();
    symlink(outside, &work).unwrap();
    // A root of its own is not made with what took its place; a handle still leads to the old one.
    let may_fail = |ended: Result<Outcome, JailError>| match ended {
        Ok(outcome) => text(&outcome.stdout),
        Err(error) if support().mount_namespace => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    let swapped = may_fail(run(&spec, command(script)).await);
    assert!(!swapped.contains("SECRET"), "{swapped}");
    assert_eq!((canary.state(), fs::read_dir(outside).unwrap().count()), (before.clone(), 1));
    fs::remove_dir_all(around.path().join("moved")).unwrap();
    let gone = may_fail(run(&spec, command(script)).await);
    assert!(!gone.contains("SECRET"), "{gone}");
    assert_eq!(canary.state(), before);
}

/// The jails of `dir` with a root of its own, and those without one.
fn by_root(dir: &Path) -> (Vec<JailSpec>, Vec<JailSpec>) {
    let has_root = |spec: &JailSpec| support().mount_namespace && spec.most.namespaces == ALL;
    all_forms(dir).into_iter().partition(has_root)
}

#[tokio::test]
async fn x14_what_is_not_granted_is_not_there() {
    let Some(dir) = workspace() else { return };
    let canary = Canary::new();
    let (with_root, without) = by_root(dir.path());
    let script =
        format!("stat {}; stat /root; stat /proc; stat /etc/passwd", canary.file.display());
    for spec in &with_root {
        let outcome = sh(spec, &*script).await;
        assert_eq!(text(&outcome.stdout), "");
        let missing = text(&outcome.stderr).matches("No such file or directory").count();
        assert_eq!(missing, 4, "{outcome:?}");
        // The root itself cannot be furnished any further.
        assert_ne!(sh(spec, "mkdir /new || : > /etc/new").await.exit_code, Some(0));
    }
    // The control: Landlock alone hides nothing.
    for spec in &without {
        assert!(text(&sh(spec, &*script).await.stdout).contains("canary"));
    }
}

#[tokio::test]
async fn x15_nothing_of_a_read_only_mount_changes() {
    let Some(dir) = workspace_with("/usr/bin/perl") else { return };
    let shared = TempDir::new().unwrap();
    let file = shared.path().join("f");
    let state = || {
        let meta = fs::metadata(&file).unwrap();
        (meta.mode() & 0o7777, meta.mtime())
    };
    let (with_root, without) = by_root(dir.path());
    for (forms, holds) in [(with_root, true), (without, false)] {
        for mut spec in forms {
            fs::write(&file, "shared").unwrap();
            let own = fs::metadata(dir.path()).unwrap().uid();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            let mount = JailMount { path: shared.path().to_owned(), writable: false };
            spec.mounts = JailSpec::new(vec![writable(dir.path()), mount], Vec::new(), limits())
                .unwrap()
                .mounts;
            let before = state();
            let f = file.display();
            // Through the open file, where no path is looked at.
            sh(
                &spec,
                format!("perl -e 'open(F, \"<\", \"{f}\"); chmod(0600, *F); utime(1, 1, *F)'"),
            )
            .await;
            // Root's file is nobody's to change in the weaker forms, too.
            let is_its_own = own != 0;
            assert_eq!(state() == before, holds || !is_its_own, "{spec:?}");
        }
    }
}

#[tokio::test]
async fn x02_what_is_written_is_not_mapped_as_code() {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let Some(dir) = workspace_with(loader) else { return };
    fs::copy("/bin/echo", dir.path().join("program")).unwrap();
    let (with_root, without) = by_root(dir.path());
    for (forms, runs) in [(with_root, false), (without, true)] {
        for spec in forms {
            let outcome = sh(&spec, format!("{loader} ./program ran")).await;
            assert_eq!(text(&outcome.stdout) == "ran\n", runs, "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn mounts_lie_in_each_other_and_in_the_system_and_are_where_they_were() {
    let Some(dir) = workspace() else { return };
    let inner = dir.path().join("a/inner");
    fs::create_dir_all(&inner).unwrap();
    fs::write(dir.path().join("a/outer"), "outer").unwrap();
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
    let read = |path: &Path| JailMount { path: path.to_owned(), writable: false };
    let mounts = vec![writable(&inner), read(dir.path()), read(Path::new("/usr/share"))];
    let spec = JailSpec::new(mounts, Vec::new(), limits()).unwrap();
    let script = "cat ../outer; echo x > new && cat new; echo y > ../new; ls /usr/share | wc -l";
    let outcome = sh(&spec, script).await;
    let lines = text(&outcome.stdout);
    assert!(lines.starts_with("outerx\n") && !lines.ends_with("\n0\n"), "{outcome:?}");
    assert!(!dir.path().join("a/new").exists());
    let whole = JailSpec::new(vec![read(Path::new("/"))], Vec::new(), limits()).unwrap();
    assert_eq!(sh(&whole, "ls /etc/passwd").await.exit_code, Some(0));
}
