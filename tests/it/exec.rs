//! `exec_shell`, `bash_exec` and `spawn` through the real component: programs run in the jail or not at all.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use clawhost::host::Principal;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::canary::SECRET;
use clawhost_tests::host::call;
use clawhost_tests::{Cli, TestHost, source_root, wait};
use serde_json::{Value, json};

use crate::bridge::{PYTHON, skipped};
use crate::cli::PROGRAM;

/// Returns a host whose profile runs programs; none, and says so, where there is no jail.
async fn host() -> Option<TestHost> {
    let support = clawhost::jail::support();
    if support.landlock_abi == 0 || !support.seccomp {
        eprintln!("skipped: this system has no jail: {support}");
        return None;
    }
    let builder = TestHost::builder()
        .only(&["exec-shell", "bash-exec", "spawn"])
        .level("process")
        .limits("max_processes: 16")
        .capabilities("shell: {mode: full}")
        .file("here.txt", "granted");
    Some(builder.build().await)
}

async fn run(host: &TestHost, command: &str) -> Result<ToolReply, CallError> {
    wait::within(command, host.call("exec_shell", json!({"command": command}))).await
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
    let task = host.begin("exec_shell", json!({"command": command, "timeout": 4}));
    // The jail may refuse a session of one's own; the other two run.
    wait::until("the programs to run", || (alive() >= 2).then_some(())).await;
    let outcome = wait::within("the command", task).await.unwrap().unwrap();
    assert_eq!(outcome.error_kind, Some("timeout"), "{outcome:?}");
    wait::until("no orphan", || (alive() == 0).then_some(())).await;
}

/// A Claw that may run commands in `work`.
const SHELL: &str = r#"claw: "0.3.0"
kind: Claw
metadata: {name: shell}
spec:
  identity: {inline: {personality: Is tested., autonomy: autonomous}}
  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  sandbox: ./sandbox.yaml
  tools: [{name: exec-shell}]
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#;
const SANDBOX: &str = r#"claw: "0.3.0"
kind: Sandbox
metadata: {name: shell}
spec:
  level: process
  capabilities:
    shell: {mode: full}
    filesystem: {mode: scoped, mount_paths: [{path: ./work, permissions: rw}]}
"#;
/// Becomes a program for which the system call of a number is one that the kernel does not know.
const WITHOUT: &str = r#"import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 1, 0, int(sys.argv[1])), (6, 0, 0, 0x7FFF0000), (6, 0, 0, 0x50000 | 38)]
text = b"".join(struct.pack("HBBI", *step) for step in steps)
kept = ctypes.create_string_buffer(text, len(text))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(kept)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"#;
/// Makes a set of Landlock's rules. The number is the same on every machine.
const LANDLOCK: &str = "444";
/// No system call has it.
const NONE: &str = "9999";

#[test]
fn a_kernel_that_cannot_give_the_jail_runs_nothing_outside_of_it() {
    if !clawhost::jail::support().available() || !Path::new(PYTHON).exists() {
        return skipped("there is no jail to take away, or no /usr/bin/python3");
    }
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", SHELL);
    cli.write("sandbox.yaml", SANDBOX);
    cli.write("work/here.txt", "granted");
    let call = |without: &str| {
        let like = cli.command(&["call", "claw.yaml", "exec_shell", "command=cat here.txt"]);
        let mut command = Command::new(PYTHON);
        command.args(["-c", WITHOUT, without]).arg(like.get_program()).args(like.get_args());
        command.current_dir(cli.here()).env_clear();
        command.envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said.contains("granted"))
    };
    assert_eq!(call(NONE), (Some(0), true));
    assert_eq!(call(LANDLOCK), (Some(4), false));
}

#[tokio::test]
async fn without_a_shell_grant_the_tool_is_not_served_at_all() {
    let host = TestHost::builder().only(&["exec-shell"]).build().await;
    assert_eq!(host.names(), Vec::<String>::new());
    assert!(host.refused().contains("claw:host/process"), "{}", host.refused());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_megabytes_are_read_and_counted() {
    let Some(host) = host().await else { return };
    let arguments = json!({
        "command": "head -c 5000000 /dev/zero | tr '\\0' x; head -c 5000001 /dev/zero | tr '\\0' x >&2",
        "timeout_ms": 10_000, "max_output_kb": 4,
    });
    let ended = host.call("bash_exec", arguments).await.unwrap().structured.unwrap();
    assert_eq!(
        (&ended["stdout_bytes"], &ended["stderr_bytes"]),
        (&json!(5_000_000), &json!(5_000_001))
    );
    assert_eq!(ended["stdout"].as_str().unwrap().len(), 4_096);
    assert_eq!(ended["exit_code"], 0);
    assert!(ended["result_json"].is_null() && ended["warning"].is_string(), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bash_command_gets_files_and_variables_and_gives_a_result() {
    let Some(host) = host().await else { return };
    let arguments = json!({
        "command": "[[ $A == b* ]] && echo \"__RESULT__:{\\\"lines\\\": $(wc -l < in/x)}\"",
        "env": {"A": "bc"},
        "files": [{"path": "in/x", "content": "1\n2\n"}],
    });
    let ended = host.call("bash_exec", arguments).await.unwrap().structured.unwrap();
    assert_eq!(ended["result_json"], json!({"lines": 2}), "{ended}");
    for (file, kind) in [("../x", "invalid-path"), ("/etc/x", "invalid-path")] {
        let arguments = json!({"command": "true", "files": [{"path": file, "content": ""}]});
        let reply = host.call("bash_exec", arguments).await.unwrap();
        assert_eq!(reply.error_kind, Some(kind), "{file}: {reply:?}");
    }
    let slow = json!({"command": "sleep 20", "timeout_ms": 200});
    assert_eq!(host.call("bash_exec", slow).await.unwrap().error_kind, Some("timeout"));
}

/// A profile that a call may name, with these limits.
fn profile(limits: &str) -> String {
    let shown = "claw: \"0.3.0\"\nkind: Sandbox\nmetadata: {name: less}\nspec:\n  level: process\n";
    format!(
        "{shown}  capabilities:\n    shell: {{mode: full}}\n    filesystem: {{mode: scoped, mount_paths: \
         [{{path: ./workspace, permissions: rw}}]}}\n  resource_limits: {{{limits}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x11_the_memory_and_processes_of_a_profile_bind_programs_and_so_do_a_caller_s() {
    if !clawhost::jail::support().available() {
        return;
    }
    // Of 512 MB, which is what the host gives, and of 100 MB.
    let held = json!({"command": "head -c 200000000 /dev/zero | tail -c 200000000 | wc -c"});
    for (own, callers, outcome) in [
        ("max_processes: 8", "max_processes: 8", Ok(true)),
        ("max_processes: 8, memory_mb: 100", "max_processes: 8", Ok(false)),
        ("max_processes: 8", "memory_mb: 100", Ok(false)),
        ("max_processes: 0", "max_processes: 8", Err(-32010)),
        ("max_processes: 8", "max_processes: 0", Err(-32010)),
    ] {
        let host = TestHost::builder()
            .only(&["bash-exec"])
            .level("process")
            .limits(own)
            .capabilities("shell: {mode: full}")
            .document("less.yaml", &profile(callers))
            .build()
            .await;
        let mut narrowed = call("bash_exec", held.clone());
        narrowed.context.sandbox = Some("less".to_owned());
        let ended = wait::within(own, host.host().call(narrowed)).await;
        let whole = ended.map(|reply| reply.structured.unwrap()["stdout"] == "200000000\n");
        assert_eq!(whole.map_err(|error| error.kind.code()), outcome, "{own}; {callers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x13_a_network_is_asked_for_and_is_the_whole_one_or_none() {
    let Some(host) = host().await else { return };
    let wants = json!({"command": "true", "allow_network": true});
    let error = host.call("bash_exec", wants).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Sandbox, "{error:?}");
    for (network, is_granted) in [
        ("{mode: allow-all}", false),
        (
            "{mode: allowlist, allowed_hosts: [example.com], ssrf_protection: {enabled: false}}",
            false,
        ),
        ("{mode: allow-all, ssrf_protection: {enabled: false}}", true),
    ] {
        let host = TestHost::builder()
            .only(&["bash-exec"])
            .level("process")
            .capabilities(&format!("shell: {{mode: full}}\nnetwork: {network}"))
            .build()
            .await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let command =
            format!("echo > /dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
        let without = host.call("bash_exec", json!({"command": command})).await.unwrap();
        assert_ne!(without.structured.unwrap()["exit_code"], 0, "{network}");
        assert!(listener.accept().is_err(), "{network}");
        let with = json!({"command": command, "allow_network": true});
        assert_eq!(host.call("bash_exec", with).await.is_ok(), is_granted, "{network}");
        assert_eq!(listener.accept().is_ok(), is_granted, "{network}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sixth_spawned_program_of_an_agent_is_refused_and_dropped_calls_give_their_places_back()
{
    let Some(host) = host().await else { return };
    let mark = format!("7{}", std::process::id());
    let alive = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.ends_with(format!("sleep\0{mark}\0").as_bytes())).count()
    };
    let slow = json!({"command": "sleep", "args": [mark]});
    let tasks: Vec<_> = (0..5).map(|_| host.begin("spawn", slow.clone())).collect();
    wait::until("five programs", || (alive() == 5).then_some(())).await;
    let sixth = host.call("spawn", json!({"command": "true"})).await.unwrap_err();
    assert_eq!((sixth.kind, &sixth.data["limit"]), (ErrorKind::Overloaded, &json!("SPAWNS_MAX")));
    assert_eq!(sixth.data["stage"], "process");
    // A shell is not counted, and neither is somebody else's program.
    assert!(run(&host, "true").await.is_ok());
    let mut other = call("spawn", json!({"command": "true"}));
    other.principal = Principal("another".to_owned());
    assert!(host.host().call(other).await.is_ok());
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    wait::until("no program", || (alive() == 0).then_some(())).await;
    for task in tasks {
        drop(task.await);
    }
    assert!(host.call("spawn", json!({"command": "true"})).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x18_impossible_arguments_are_errors_of_the_caller() {
    let Some(host) = host().await else { return };
    for (tool, arguments) in [
        ("exec_shell", json!({"command": "a\0b"})),
        ("exec_shell", json!({"command": "x".repeat(70_000)})),
        ("spawn", json!({"command": "echo", "args": ["a\0b"]})),
        ("spawn", json!({"command": "echo", "args": ["x".repeat(140_000)]})),
        ("spawn", json!({"command": ""})),
        ("spawn", json!({"command": "no-such-program"})),
        ("bash_exec", json!({"command": "true", "timeout_ms": 0})),
    ] {
        let refused = match host.call(tool, arguments).await {
            Ok(reply) => reply.error_kind.is_some(),
            Err(error) => error.kind == ErrorKind::InvalidArguments,
        };
        assert!(refused, "{tool}");
    }
    for (name, value) in [("A=B", "x"), ("", "x"), ("A", "a\0b")] {
        let arguments = json!({"command": "true", "env": {name: value}});
        assert_eq!(host.call("bash_exec", arguments).await.unwrap_err().kind, ErrorKind::Sandbox);
    }
}

#[test]
fn doctor_says_what_there_is_and_fails_only_where_a_tool_needs_more() {
    let support = clawhost::jail::support();
    let cli = Cli::new(PROGRAM);
    let looked = cli.run(&["doctor", "--json"]);
    assert_eq!(looked.code, Some(0), "{}", looked.stderr);
    let report: Value = serde_json::from_str(&looked.stdout).unwrap();
    assert_eq!(report["enough"], true);
    let about = |name: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["about"] == name).unwrap()["standing"].clone()
    };
    assert_eq!(about("jail") == "good", support.available());
    assert_eq!(about("control group") == "good", support.cgroup);
    let manifest = source_root().join("tests/manifests/valid/sandboxes.yaml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    // A tool whose folders are not there is refused, on whatever machine.
    let manifest = manifest.replace("/usr/share/dict", "/usr/share");
    cli.write("claw.yaml", manifest.replace("denied_paths: [./data/private]", "denied_paths: []"));
    std::fs::create_dir(cli.here().join("data")).unwrap();
    let needing = cli.run(&["doctor", "claw.yaml"]);
    assert_eq!(needing.code, Some(if support.available() { 0 } else { 6 }), "{}", needing.stdout);
}
