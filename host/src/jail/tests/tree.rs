//! What a program starts, and that all of it ends.

use super::*;

/// The kernel counts the processes of a user together: while a bomb of one test goes off, no other
/// test with a low bound can start anything.
static COUNTED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn x07_processes_are_bounded() {
    let Some(dir) = workspace() else { return };
    let _alone = COUNTED.lock().await;
    let mark = marker(&dir);
    for cgroup in [true, false] {
        let mut spec = spec_in(dir.path());
        (spec.limits.processes_max, spec.most.cgroup) = (8, cgroup);
        let script =
            format!("i=0; while [ $i -lt 500 ]; do sleep {mark} & i=$((i+1)); echo $i; done");
        let outcome = sh(&spec, script).await;
        let started = text(&outcome.stdout).lines().count();
        assert!(text(&outcome.stderr).contains("fork"), "{started} of 8");
        // Elsewhere the kernel counts the processes of a user, and those of other jails with them.
        let exact = cgroup && support().cgroup || support().user_namespace;
        assert!(started < if exact { 8 } else { 500 }, "{started} of 8");
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn x07_a_fork_bomb_ends_at_the_deadline() {
    let Some(dir) = workspace() else { return };
    let _alone = COUNTED.lock().await;
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
async fn x08_no_descendant_survives_the_deadline() {
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let script = format!(
            "kill -9 $PPID; trap '' TERM HUP; setsid sleep {mark} & nohup sleep {mark} & \
             (sleep {mark} &); sh -c '(sh -c \"sleep {mark}\" &) &'; sleep {mark}"
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
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, format!("(sleep {mark} &); sleep {mark} & echo done")).await;
        assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("done\n", Some(0)));
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn dropping_the_call_kills_the_tree() {
    let Some(dir) = workspace() else { return };
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
    let form: usize = fs::read_to_string(dir.join("form")).unwrap().parse().unwrap();
    drop(block_on(run(&all_forms(&dir)[form], command(script))));
}

#[tokio::test]
async fn x20_nothing_survives_a_killed_host() {
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    // Its keeper would be what ends it.
    let script = format!(
        "kill -9 $PPID; (sleep {mark} &); nohup sleep {mark} & echo > started; sleep {mark}"
    );
    fs::write(dir.path().join("script"), script).unwrap();
    for form in 0..all_forms(dir.path()).len() {
        fs::write(dir.path().join("form"), form.to_string()).unwrap();
        let mut host = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "jail::tests::tree::a_host_to_be_killed"])
            .env("JAIL_TEST_DIR", dir.path())
            .spawn()
            .unwrap();
        until("the start", || dir.path().join("started").exists() && alive(&mark) > 3).await;
        host.kill().await.unwrap();
        until("the end", || alive(&mark) == 0).await;
        fs::remove_file(dir.path().join("started")).unwrap();
    }
}

#[tokio::test]
async fn x07_threads_are_processes_too() {
    let Some(dir) = workspace_with("/usr/bin/python3") else { return };
    let _alone = COUNTED.lock().await;
    let mut spec = spec_in(dir.path());
    spec.limits.processes_max = 16;
    let program = "import threading\nn = 0\nstop = threading.Event()\ntry:\n while n < 10000:\n  \
                   threading.Thread(target=stop.wait, daemon=True).start()\n  n += 1\n\
                   except RuntimeError: pass\nprint(n)";
    let outcome = sh(&spec, format!("exec /usr/bin/python3 -c '{program}'")).await;
    let started: usize = text(&outcome.stdout).trim().parse().unwrap();
    let exact = support().cgroup || support().user_namespace;
    assert!((1..if exact { 16 } else { 10_000 }).contains(&started), "{started}");
}

#[tokio::test]
async fn x09_short_children_leave_no_zombies() {
    let Some(dir) = workspace() else { return };
    let _alone = COUNTED.lock().await;
    let mark = marker(&dir);
    for mut spec in all_forms(dir.path()) {
        spec.limits.processes_max = 64;
        // Each one loses its parent at once, so that nobody inside collects it.
        let orphans = "i=0; while [ $i -lt 1000 ]; do (: &); i=$((i+1)); done";
        let outcome = sh(&spec, format!("{orphans}; echo $i # {mark}")).await;
        assert_eq!(
            (text(&outcome.stdout).as_str(), text(&outcome.stderr).as_str()),
            ("1000\n", "")
        );
        assert_eq!(alive(&mark), 0);
    }
}
