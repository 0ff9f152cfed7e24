//! Ways out of the granted folder, tried through the real file tools. Canaries outside show
//! whether one worked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::canary::SECRET;
use clawhost_tests::{TestHost, wait};
use serde_json::{Value, json};

/// Plants links inside the granted folder that lead out of it.
fn plant(host: &TestHost) {
    let (workspace, outside) = (host.workspace(), host.canaries().folder().to_owned());
    let link = |target: &Path, name: &str| symlink(target, workspace.join(name)).unwrap();
    link(&outside.join("canary.txt"), "link");
    link(Path::new("../outside/canary.txt"), "relative_link");
    link(&outside, "dir_link");
    link(Path::new("../outside"), "relative_dir_link");
    link(&outside.join("new.txt"), "dangling");
    link(Path::new("../outside/new2.txt"), "relative_dangling");
    link(Path::new("/proc/self/root"), "root_link");
    link(Path::new("/proc/self/environ"), "environ_link");
    link(Path::new(".."), "up");
    link(Path::new("loop_b"), "loop_a");
    link(Path::new("loop_a"), "loop_b");
    link(Path::new("sub/../../outside/canary.txt"), "through_sub");
    fs::create_dir(workspace.join("sub")).unwrap();
    symlink("../link", workspace.join("sub/chain")).unwrap();
    fs::write(workspace.join("inside.txt"), "inside").unwrap();
}

/// Returns paths that lead, or would lead, out of the granted folder.
fn ways_out(host: &TestHost) -> Vec<String> {
    let canary = host.canaries().file().to_str().unwrap().to_owned();
    let outside = host.canaries().folder().to_str().unwrap().to_owned();
    let mut paths: Vec<String> = [
        "../outside/canary.txt",
        "./../outside/canary.txt",
        "sub/../../outside/canary.txt",
        "nope/../../outside/canary.txt",
        "inside.txt/../../outside/canary.txt",
        "..//outside/./canary.txt",
        "../outside/inside/../canary.txt",
        "..\\outside\\canary.txt",
        "link",
        "./link",
        "sub/chain",
        "relative_link",
        "dangling",
        "relative_dangling",
        "through_sub",
        "dir_link/canary.txt",
        "relative_dir_link/canary.txt",
        "dir_link/new.txt",
        "up/outside/canary.txt",
        "up/outside/new.txt",
        "loop_a",
        "root_link",
        "root_link/etc/passwd",
        "environ_link",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
        "//etc/passwd",
        "~/.ssh/id_rsa",
        "file:///etc/passwd",
        "%2e%2e/outside/canary.txt",
        "..%2foutside/canary.txt",
        "．．/outside/canary.txt",
        "..\u{2215}outside\u{2215}canary.txt",
        "link/",
        "..",
        "../",
        "../..",
        "/",
        "dir_link",
        "up",
        "../workspace2/canary.txt",
        "../outside/workspace2/canary.txt",
        "\0",
        "../outside/canary.txt\0.txt",
        "inside.txt\0",
        "a\0/../../outside/canary.txt",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend((1..=64).map(|levels| format!("{}{canary}", "../".repeat(levels))));
    paths.extend([
        canary,
        format!("{outside}/new.txt"),
        format!("/proc/self/cwd{outside}/canary.txt"),
    ]);
    paths.extend([format!("{}x", "a/".repeat(5_000)), "b".repeat(300)]);
    paths
}

/// A call may be refused or fail; it may not succeed with anything from outside.
fn check(what: &str, outcome: &Result<ToolReply, CallError>) {
    let shown = format!("{outcome:?}");
    for canary in [SECRET, "root:x:", "CARGO_MANIFEST_DIR"] {
        assert!(!shown.contains(canary), "{what} read what is outside: {shown}");
    }
}

fn refused(outcome: &Result<ToolReply, CallError>) -> bool {
    !matches!(outcome, Ok(reply) if !reply.is_error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_reads_outside_the_granted_folder() {
    let host = TestHost::builder().build().await;
    plant(&host);
    for path in ways_out(&host) {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("edit_file", json!({"path": path, "old_text": SECRET, "new_text": "edited"})),
        ] {
            let outcome = wait::within(&path, host.call(tool, arguments)).await;
            assert!(refused(&outcome), "{tool} {path:?}: {outcome:?}");
            check(&path, &outcome);
        }
    }
    host.canaries().check();
    assert_eq!(host.ask("read_file", json!({"path": "inside.txt"})).await["content"], "inside");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_writes_outside_the_granted_folder() {
    let host = TestHost::builder().build().await;
    plant(&host);
    for path in ways_out(&host) {
        let arguments = json!({"path": path, "content": "written by a guest"});
        let outcome = wait::within(&path, host.call("write_file", arguments)).await;
        check(&path, &outcome);
        host.canaries().check();
    }
    assert!(!host.canaries().folder().join("new.txt").exists());
    // Links that lead out are still there, or were replaced by a file inside: never followed.
    let beside: Vec<_> = fs::read_dir(host.workspace().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            !["audit", "claw.yaml", "outside", "tools", "workspace"].contains(&name.as_str())
        })
        .collect();
    assert_eq!(beside, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_listing_shows_what_is_outside() {
    let host = TestHost::builder().build().await;
    plant(&host);
    for path in ways_out(&host) {
        let outcome = wait::within(&path, host.call("list_directory", json!({"path": path}))).await;
        if let Ok(reply) = &outcome
            && !reply.is_error
        {
            // "/" and what normalises to it is the guest's own root.
            let names = reply.structured.clone().unwrap()["entries"].to_string();
            assert!(names.contains("inside.txt") || names == "[]", "{path:?}: {names}");
        }
    }
}

#[tokio::test]
async fn a_path_outside_is_answered_alike_whether_or_not_it_exists() {
    let host = TestHost::builder().build().await;
    for (present, absent) in
        [("../outside/canary.txt", "../outside/absent.txt"), ("/etc/passwd", "/etc/absent")]
    {
        let ask = async |path: &str| {
            let outcome = host.call("read_file", json!({"path": path})).await;
            format!("{outcome:?}").replace(path, "PATH")
        };
        assert_eq!(ask(present).await, ask(absent).await);
    }
}

#[tokio::test]
async fn the_memory_tools_do_not_follow_a_link_out() {
    let host = TestHost::builder().build().await;
    symlink(host.canaries().file(), host.workspace().join("MEMORY.md")).unwrap();
    let read = host.call("memory_read", json!({})).await;
    check("memory_read", &read);
    let write = host.call("memory_write", json!({"content": "remember"})).await;
    check("memory_write", &write);
    host.canaries().check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipes_and_devices_do_not_hang_a_call() {
    let host = TestHost::builder().build().await;
    let pipe = host.workspace().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("/dev/zero", host.workspace().join("zero")).unwrap();
    for path in ["pipe", "zero"] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "old_text": "a", "new_text": "b"})),
        ] {
            let outcome = wait::within(path, host.call(tool, arguments)).await;
            if tool != "write_file" {
                assert!(refused(&outcome), "{tool} {path}: {outcome:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_swapped_for_a_link_during_calls_leads_nowhere() {
    let host = TestHost::builder().build().await;
    let (folder, outside) =
        (host.workspace().join("swapped"), host.canaries().folder().join("inside"));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = {
        let (folder, stop) = (folder.clone(), std::sync::Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::create_dir(&folder).unwrap();
                // A call may have put something there in between.
                fs::remove_dir_all(&folder).unwrap();
                symlink(&outside, &folder).unwrap();
                fs::remove_file(&folder).unwrap();
            }
        })
    };
    for _ in 0..300 {
        let read = host.call("read_file", json!({"path": "swapped/canary.txt"})).await;
        check("the swapped folder", &read);
        let write = json!({"path": "swapped/new.txt", "content": "x"});
        check("the swapped folder", &host.call("write_file", write).await);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    // The swapping thread may trip over a file a call has just made: it has done its work.
    drop(swapping.join());
    host.canaries().check();
}

#[tokio::test]
async fn the_tool_refuses_what_a_path_says_and_the_host_where_it_leads() {
    let host = TestHost::builder().build().await;
    plant(&host);
    for path in ["../outside/canary.txt", "sub/../../outside/canary.txt", "/etc/passwd"] {
        let reply = host.call("read_file", json!({"path": path})).await.unwrap();
        assert!(reply.is_error, "{path}: {reply:?}");
        assert!(format!("{reply:?}").contains("invalid-path"), "{path}: {reply:?}");
    }
    for path in ["link", "sub/chain", "dir_link/canary.txt", "up/outside/canary.txt"] {
        let error = host.call("read_file", json!({"path": path})).await.unwrap_err();
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Sandbox, -32010), "{path}");
    }
}

#[tokio::test]
async fn the_ways_out_are_recorded_as_refusals() {
    let host = TestHost::builder().build().await;
    plant(&host);
    for path in ["../outside/canary.txt", "link", "/etc/passwd"] {
        drop(host.call("read_file", json!({"path": path})).await);
    }
    let outcomes: Vec<Value> =
        host.finished().iter().map(|record| record["outcome"].clone()).collect();
    assert!(outcomes.iter().all(|outcome| outcome != "ok"), "{outcomes:?}");
    assert_eq!(outcomes.len(), 3);
    host.check_audit();
}
