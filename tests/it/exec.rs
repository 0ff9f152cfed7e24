//! `exec_shell` through the real component: programs run in the jail or not at all.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;
use clawhost_tests::canary::SECRET;
use clawhost_tests::host::call;
use clawhost_tests::{TestHost, wait};
use serde_json::json;

const HANGS: Duration = Duration::from_secs(30);

/// Returns a host whose profile runs programs; none, and says so, where there is no jail.
async fn host() -> Option<TestHost> {
    let support = clawhost::jail::support();
    if support.landlock_abi == 0 || !support.seccomp {
        eprintln!("skipped: this system has no jail: {support}");
        return None;
    }
    let builder = TestHost::builder()
        .only(&["exec-shell"])
        .level("process")
        .limits("timeout_ms: 10000, max_processes: 16")
        .capabilities("shell: {mode: full}")
        .file("here.txt", "granted");
    Some(builder.build().await)
}

async fn run(host: &TestHost, command: &str) -> Result<ToolReply, CallError> {
    wait::within(command, HANGS, host.call("exec_shell", json!({"command": command}))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_in_the_workspace_and_its_exit_code_is_a_result() {
    let Some(host) = host().await else { return };
    let ended = run(&host, "cat here.txt; echo oops >&2; exit 3").await.unwrap();
    let ended = ended.structured.clone().unwrap_or_else(|| panic!("{ended:?}"));
    assert_eq!((&ended["exit_code"], &ended["stdout"]), (&json!(3), &json!("granted")));
    assert_eq!(ended["stderr"], "oops\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reads_and_writes_nothing_outside_and_sees_no_environment() {
    let Some(host) = host().await else { return };
    let outside = host.canaries().folder().to_str().unwrap().to_owned();
    for command in [
        format!("cat {outside}/canary.txt"),
        "cat ../outside/canary.txt".to_owned(),
        format!("ln -s {outside} way; cat way/canary.txt"),
        format!("echo changed > {outside}/canary.txt"),
        format!("mkdir {outside}/new; touch {outside}/new.txt; rm -rf {outside}"),
        "cat /proc/self/environ /proc/1/environ; env".to_owned(),
        format!("ls -R {outside}"),
    ] {
        let outcome = run(&host, &command).await;
        let shown = format!("{outcome:?}");
        assert!(!shown.contains(SECRET) && !shown.contains("CARGO"), "{command}: {shown}");
        host.canaries().check();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_has_no_network() {
    let Some(host) = host().await else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let python =
        format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'");
    let bash = format!("bash -c 'echo > /dev/tcp/127.0.0.1/{port}'");
    for command in [python, bash] {
        let ended = run(&host, &command).await.unwrap().structured.unwrap();
        assert_ne!(ended["exit_code"], 0, "{command}");
        let reason = ended["stderr"].as_str().unwrap().to_lowercase();
        let absent = reason.contains("not found");
        assert!(absent || reason.contains("permi"), "{command}: {reason}");
    }
    assert!(listener.accept().is_err(), "somebody connected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_and_all_it_started_end_at_the_deadline() {
    let Some(host) = host().await else { return };
    // A number of seconds that nobody else sleeps for.
    let mark = format!("6{}", std::process::id());
    let alive = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| *line == format!("sleep\0{mark}\0").as_bytes()).count()
    };
    let command =
        format!("(setsid sleep {mark} &) ; nohup sleep {mark} & sh -c 'sleep {mark}'; true");
    let (started, running) = (Instant::now(), host.host().clone());
    let arguments = json!({"command": command, "timeout": 1.5});
    let task = tokio::spawn(async move { running.call(call("exec_shell", arguments)).await });
    // The jail may refuse a session of one's own; the other two run.
    wait::until("the programs to run", HANGS, || (alive() >= 2).then_some(())).await;
    let outcome = wait::within("the command", HANGS, task).await.unwrap().unwrap();
    assert_eq!(outcome.error_kind, Some("timeout"), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    wait::until("no orphan", HANGS, || (alive() == 0).then_some(())).await;
}

#[tokio::test]
async fn without_a_shell_grant_the_tool_is_not_served_at_all() {
    let host = TestHost::builder().only(&["exec-shell"]).build().await;
    assert_eq!(host.names(), Vec::<String>::new());
    assert!(host.refused().contains("claw:host/process"), "{}", host.refused());
}
