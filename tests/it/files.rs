//! The file tools against hostile files and folders: too large, too many, too deep, shared,
//! closed. The numbers are those of the cases in the tests of `sandbox::fs`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use clawhost_core::limits::{CALLS_PER_AGENT_PERMILLE, CALLS_RUNNING_MAX};
use clawhost_tests::canary::SECRET;
use clawhost_tests::host::{call_within, text};
use clawhost_tests::{Cli, Client, Served, TestHost};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// Entries of a large directory in an ordinary test run; set `LARGE_DIRECTORY` to try more.
const LARGE_DIRECTORY: usize = 20_000;
/// What the host may take more to read a file of any size than to read a small one.
const READING_KIB_MAX: usize = 65_536;
/// Calls that read at the same time: as many of the running ones as one agent may have.
const READING: usize = CALLS_RUNNING_MAX * CALLS_PER_AGENT_PERMILLE / 1_000;
/// What each of them reads.
const READ_MIB: usize = 4;

const FILE_TOOLS: [&str; 6] =
    ["read-file", "write-file", "edit-file", "list-directory", "search-files", "apply-patch"];

fn file(path: &Path, bytes: u64) {
    fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

async fn host() -> TestHost {
    TestHost::builder().only(&FILE_TOOLS).limits("timeout_ms: 30000").build().await
}

#[tokio::test]
async fn f27_a_file_of_any_size_is_read_in_pieces() {
    let host = host().await;
    let path = host.workspace().join("long");
    fs::write(&path, "zero\n".repeat(100_000) + "ä end").unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    // However much is asked for, a piece is one that its reply holds.
    for limit in [0, 20_001, 1_000_000] {
        let (mut read, mut offset) = (String::new(), 0);
        loop {
            let piece = json!({"path": "long", "offset": offset, "limit": limit});
            let piece = host.ask("read_file", piece).await;
            read += piece["content"].as_str().unwrap();
            match piece.get("next_offset") {
                Some(next) => offset = next.as_u64().unwrap(),
                None => break,
            }
            assert_eq!(piece["size"], whole.len());
        }
        assert_eq!(read, whole, "{limit}");
    }
    file(&host.workspace().join("sparse"), 10 << 30);
    let end = json!({"path": "sparse", "offset": (10_u64 << 30) - 3, "limit": 1_000});
    assert_eq!(host.ask("read_file", end).await, json!({"content": "\0\0\0"}));
    let past = json!({"path": "sparse", "offset": 11_u64 << 30});
    assert_eq!(host.ask("read_file", past).await, json!({"content": ""}));
    let search = host.ask("search_files", json!({"text": "end"})).await;
    assert_eq!(search["matches"][0]["line"], 100_001);
    assert_eq!(search.get("incomplete"), None, "a file of zero bytes is no text");
}

/// Returns what the system says of a process under `key`: a number, and a unit.
fn status(process: u32, key: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn f27_the_host_stays_small_whatever_the_size_of_a_file() {
    let cli = Cli::new(PROGRAM);
    let folder = cli.here().join("workspace");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("small"), "small").unwrap();
    fs::write(folder.join("300M"), "0123456789abcde\n".repeat(300 << 16)).unwrap();
    file(&folder.join("10G"), 10 << 30);
    let served = Served::start(&cli, &[]);
    let call = |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let bearer = served.bearer();
        let token = [("authorization", bearer.as_str())];
        let (status, body) = crate::http::post(&served, "tools/call", params, &token);
        assert_eq!(status, 200, "{body}");
        body
    };
    call("read_file", json!({"path": "small"}));
    call("search_files", json!({"text": "small"}));
    let peak_kib = || status(served.child.id(), "VmHWM:");
    let before = peak_kib();
    call("read_file", json!({"path": "300M"}));
    call("read_file", json!({"path": "10G"}));
    call("read_file", json!({"path": "10G", "offset": 5_u64 << 30}));
    call("search_files", json!({"text": "not there", "path": "."}));
    let grown = peak_kib() - before;
    assert!(grown < READING_KIB_MAX, "{grown} KiB more");
}

#[cfg(target_os = "linux")]
#[test]
fn calls_that_read_much_do_not_have_a_thread_each() {
    let cli = Cli::new(PROGRAM);
    for number in 0..READ_MIB {
        cli.write(&format!("workspace/{number}"), "0123456789abcde\n".repeat(1 << 16));
    }
    let mut host = Client::start(&cli, &["run", "--stdio"]);
    let search = json!({"text": "not there"});
    host.call("search_files", &search);
    let before = status(host.child.id(), "Threads:");
    for _ in 0..READING {
        host.begin("search_files", &search);
    }
    let mut threads = 0;
    for _ in 0..READING {
        let answer = host.answer();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        threads = threads.max(status(host.child.id(), "Threads:"));
    }
    println!("{READING} calls that read {READ_MIB} MiB: {before} threads, then {threads}");
    assert!(threads < before + READING, "{before} threads, then {threads}");
}

#[tokio::test]
async fn f28_a_call_writes_no_byte_and_no_entry_more_than_its_profile_allows() {
    let host = TestHost::builder()
        .only(&FILE_TOOLS)
        .runtime_file(
            "version: 1\nprofiles: {sandbox-0: {write_bytes_max: 1000, create_entries_max: 3}}",
        )
        .build()
        .await;
    let write = |path: &str, bytes: usize| json!({"path": path, "content": "x".repeat(bytes)});
    host.ask("write_file", write("fits", 1_000)).await;
    let error = host.call("write_file", write("more", 1_001)).await.unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32010, &json!("write_bytes_max")));
    let error = host.call("write_file", write("a/b/c/d", 1)).await.unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32010, &json!("create_entries_max")));
    let names: Vec<_> = fs::read_dir(host.workspace()).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(names.len(), 2, "a file beside the one that fits: {names:?}");
    assert!(!host.workspace().join("more").exists());
}

#[tokio::test]
async fn f28_no_depth_is_too_deep_for_a_search() {
    let host = host().await;
    let mut folder =
        cap_std::fs::Dir::open_ambient_dir(host.workspace(), cap_std::ambient_authority()).unwrap();
    folder.write("here", "needle").unwrap();
    for _ in 0..3_000 {
        folder.create_dir("d").unwrap();
        folder = folder.open_dir("d").unwrap();
    }
    folder.write("deep", "needle").unwrap();
    let found = host.ask("search_files", json!({"text": "needle"})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["unreadable"], 1, "what is too deep is said to be");
}

#[tokio::test]
async fn f29_a_large_directory_is_listed_in_order_page_by_page() {
    let host = host().await;
    let entries =
        std::env::var("LARGE_DIRECTORY").map_or(LARGE_DIRECTORY, |count| count.parse().unwrap());
    let name = |index: usize| format!("{:07}", index * 7_919 % 9_999_991);
    for index in 0..entries {
        fs::File::create(host.workspace().join(name(index))).unwrap();
    }
    let mut expected: Vec<String> = (0..entries).map(name).collect();
    expected.sort();
    let first = host.ask("list_directory", json!({"path": ".", "limit": 10})).await;
    assert_eq!((&first["total"], &first["truncated"]), (&json!(entries), &json!(true)));
    assert_eq!(names(&first), expected[..10]);
    let middle = expected[entries / 2].clone();
    let next = json!({"path": ".", "limit": 5, "after": middle});
    let next = host.ask("list_directory", next).await;
    assert_eq!(names(&next), expected[entries / 2 + 1..entries / 2 + 6]);
    let last = json!({"path": ".", "after": expected[entries - 3]});
    let last = host.ask("list_directory", last).await;
    assert_eq!(names(&last), expected[entries - 2..]);
    assert_eq!(last.get("truncated"), None);
    fs::remove_dir_all(host.workspace()).unwrap();
}

fn names(listing: &Value) -> Vec<String> {
    let entries = listing["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_in_the_grant_is_listed_as_what_it_leads_to() {
    let host = host().await;
    for folder in ["there", "inner"] {
        fs::create_dir(host.workspace().join(folder)).unwrap();
    }
    fs::write(host.workspace().join("there/file"), "12345").unwrap();
    symlink("../there", host.workspace().join("inner/folder")).unwrap();
    symlink("../there/file", host.workspace().join("inner/link")).unwrap();
    let listing = host.ask("list_directory", json!({"path": "inner"})).await;
    let expected = json!([
        {"name": "folder", "is_dir": true, "size": 0},
        {"name": "link", "is_dir": false, "size": 5},
    ]);
    assert_eq!(listing["entries"], expected);
}

#[tokio::test]
async fn f29_strange_names_are_listed_and_names_that_are_no_text_are_counted() {
    use std::os::unix::ffi::OsStrExt as _;
    let host = host().await;
    for name in [&b"a\nb"[..], b"\x1b[2J", b"bad\xff", "\u{202e}gpj".as_bytes()] {
        fs::write(host.workspace().join(std::ffi::OsStr::from_bytes(name)), "needle").unwrap();
    }
    let listing = host.ask("list_directory", json!({"path": "."})).await;
    assert_eq!(names(&listing), ["\u{1b}[2J", "a\nb", "\u{202e}gpj"]);
    assert_eq!(listing["unreadable"], 1);
    let found = host.ask("search_files", json!({"text": "needle"})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 3, "{found}");
    assert_eq!(found["unreadable"], 1);
}

#[tokio::test]
async fn f11_writing_to_a_shared_file_leaves_its_other_name_as_it_was() {
    let host = host().await;
    let (canary, shared) = (host.canaries().file(), host.workspace().join("shared"));
    fs::hard_link(&canary, &shared).unwrap();
    // Inside the grant it is a file like any other, and read.
    assert_eq!(host.ask("read_file", json!({"path": "shared"})).await["content"], SECRET);
    host.ask("write_file", json!({"path": "shared", "content": "mine"})).await;
    host.canaries().check();
    assert_eq!(fs::read_to_string(&shared).unwrap(), "mine");
    // What a link leads to is written in place, which would show under the other name.
    fs::remove_file(&shared).unwrap();
    fs::hard_link(&canary, &shared).unwrap();
    symlink("shared", host.workspace().join("link")).unwrap();
    let error = host.call("write_file", json!({"path": "link", "content": "mine"})).await;
    assert_eq!(error.unwrap_err().kind.code(), -32010);
    host.canaries().check();
}

#[tokio::test]
async fn a_file_that_is_written_anew_keeps_its_permissions_and_is_never_half_of_either() {
    let host = host().await;
    let path = host.workspace().join("script");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let (open, before) = (fs::File::open(&path).unwrap(), fs::metadata(&path).unwrap().ino());
    host.ask("edit_file", json!({"path": "script", "old_text": "old", "new_text": "new"})).await;
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode() & 0o777, fs::read_to_string(&path).unwrap().as_str()), (0o700, "new"));
    assert_ne!(after.ino(), before, "it was renamed over");
    assert_eq!(std::io::read_to_string(open).unwrap(), "old", "who had it open reads the old one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_to_one_file_at_the_same_time_none_is_lost() {
    let host = host().await;
    let path = host.workspace().join("lines");
    let lines: String = (0..20).map(|at| format!("line{at:02}.\n")).collect();
    fs::write(&path, lines + &"-".repeat(300_000)).unwrap();
    let begin = |at: usize| {
        let (line, old, new) = (at + 1, format!("line{at:02}."), format!("done{at:02}."));
        let patch = format!("--- a/lines\n+++ b/lines\n@@ -{line} +{line} @@\n-{old}\n+{new}\n");
        match at % 2 {
            0 => host.begin("apply_patch", json!({"paths": ["lines"], "patch_text": patch})),
            _ => {
                let edit = json!({"path": "lines", "old_text": old, "new_text": new});
                host.begin("edit_file", edit)
            }
        }
    };
    let begun: Vec<_> = (0..20).map(begin).collect();
    for call in begun {
        let reply = call.await.unwrap().unwrap();
        assert!(!reply.is_error, "{}", text(&reply));
    }
    assert_eq!(fs::read_to_string(&path).unwrap().matches("done").count(), 20);
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1, "and nothing is left");
}

#[tokio::test]
async fn a_file_that_a_call_holds_is_changed_by_no_other_under_any_name() {
    let host = host().await;
    let (folder, path) = (host.workspace(), host.workspace().join("f"));
    fs::write(&path, "old").unwrap();
    fs::create_dir(folder.join("d")).unwrap();
    symlink("../f", folder.join("d/link")).unwrap();
    symlink("d/link", folder.join("link")).unwrap();
    let lock = fs::File::create(folder.join(".f.lock-0")).unwrap();
    // What follows is not held up by loading the tools.
    host.ask("read_file", json!({"path": "f"})).await;
    let within = Duration::from_millis(300);
    for name in ["f", "d/link", "link"] {
        let edit = json!({"path": name, "old_text": "old", "new_text": "new"});
        let write = json!({"path": name, "content": "new"});
        for (tool, arguments) in [("edit_file", edit), ("write_file", write)] {
            lock.set_modified(SystemTime::now()).unwrap();
            let error = host.host().call(call_within(tool, arguments, within)).await.unwrap_err();
            assert_eq!(error.kind.code(), -32014, "{tool} {name}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "old", "{tool} {name}");
        }
    }
    fs::remove_file(folder.join(".f.lock-0")).unwrap();
    host.ask("write_file", json!({"path": "link", "content": "new"})).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_same_files_under_other_names_do_not_stand_against_each_other() {
    let host = host().await;
    let folder = host.workspace();
    let lines: String = (0..10).map(|at| format!("line{at}\n")).collect();
    for file in ["real/f", "m/g"] {
        let path = folder.join(file);
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(path, &lines).unwrap();
    }
    symlink("real", folder.join("d")).unwrap();
    let change = |path: &str, at: usize| {
        let line = at + 1;
        format!("--- a/{path}\n+++ b/{path}\n@@ -{line} +{line} @@\n-line{at}\n+done{at}\n")
    };
    let begin = |at: usize| {
        // One name of the folder comes before that of the other folder, and one behind it.
        let name = ["d/f", "real/f"][at % 2];
        let patch = change(name, at) + &change("m/g", at);
        host.begin("apply_patch", json!({"paths": [name, "m/g"], "patch_text": patch}))
    };
    let begun: Vec<_> = (0..10).map(begin).collect();
    for call in begun {
        let reply = call.await.unwrap().unwrap();
        assert!(!reply.is_error, "{}", text(&reply));
    }
    for file in ["real/f", "m/g"] {
        let path = folder.join(file);
        assert_eq!(fs::read_to_string(&path).unwrap().matches("done").count(), 10, "{file}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "{file}");
    }
}

#[tokio::test]
async fn what_a_link_leads_to_is_written_where_no_lock_may_be_made() {
    let host = TestHost::builder()
        .only(&FILE_TOOLS)
        .file("shared/conf", "old")
        .denied_paths(&["./workspace/shared/.conf.lock-0"])
        .build()
        .await;
    let path = host.workspace().join("shared/conf");
    symlink("shared/conf", host.workspace().join("link")).unwrap();
    host.ask("edit_file", json!({"path": "link", "old_text": "old", "new_text": "new"})).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    host.ask("write_file", json!({"path": "link", "content": "whole"})).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
}

#[tokio::test]
async fn no_file_is_made_in_the_place_of_a_folder() {
    let host = host().await;
    for path in ["docs/", "docs/deep//"] {
        let reply = host.call("write_file", json!({"path": path, "content": ""})).await.unwrap();
        assert!(reply.is_error && format!("{reply:?}").contains("invalid-path"), "{reply:?}");
    }
    host.ask("write_file", json!({"path": "docs/deep/file", "content": "a"})).await;
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_may_only_be_read_is_refused_by_its_own_name() {
    let host = TestHost::builder().only(&FILE_TOOLS).file("f", "old").read_only().build().await;
    let edit = |path: &str| json!({"path": path, "old_text": "old", "new_text": "new"});
    let write = |path: &str| json!({"path": path, "content": "new"});
    for (tool, arguments) in [
        ("edit_file", edit("f")),
        ("write_file", write("f")),
        ("write_file", write("g")),
        ("write_file", write("d/f")),
    ] {
        let error = host.call(tool, arguments).await.unwrap_err();
        assert_eq!(error.kind.code(), -32010, "{tool}: {error}");
        let why = error.to_string();
        assert!(why.contains("granted read-only") && !why.contains("\"."), "{tool}: {why}");
    }
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(host.workspace().join("f")).unwrap(), "old");
}

#[tokio::test]
async fn what_a_killed_call_has_left_keeps_nobody_from_a_file() {
    let host = host().await;
    fs::write(host.workspace().join("f"), "old").unwrap();
    for name in [".f.lock-0", ".f.lock-1"] {
        let lock = fs::File::create(host.workspace().join(name)).unwrap();
        lock.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    host.ask("edit_file", json!({"path": "f", "old_text": "old", "new_text": "new"})).await;
    assert_eq!(fs::read_to_string(host.workspace().join("f")).unwrap(), "new");
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_is_no_lock_keeps_nobody_from_a_file() {
    let host = host().await;
    let (path, lock) = (host.workspace().join("f"), host.workspace().join(".f.lock-0"));
    fs::write(&path, "old").unwrap();
    fs::create_dir(&lock).unwrap();
    fs::File::open(&lock).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    host.ask("write_file", json!({"path": "f", "content": "new"})).await;
    assert_eq!(fs::read_to_string(path).unwrap(), "new");
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 2);
}

#[tokio::test]
async fn what_a_call_has_left_that_was_killed_just_now_is_waited_for() {
    let host = host().await;
    fs::write(host.workspace().join("f"), "old").unwrap();
    let lock = fs::File::create(host.workspace().join(".f.lock-0")).unwrap();
    // Half a second before nobody can hold the file any more.
    lock.set_modified(SystemTime::now() - Duration::from_millis(7_500)).unwrap();
    host.ask("edit_file", json!({"path": "f", "old_text": "old", "new_text": "new"})).await;
    assert_eq!(fs::read_to_string(host.workspace().join("f")).unwrap(), "new");
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_patch_of_one_file_under_two_names_changes_nothing() {
    let host = host().await;
    let folder = host.workspace();
    fs::create_dir(folder.join("d1")).unwrap();
    symlink("d1", folder.join("d2")).unwrap();
    fs::write(folder.join("d1/f"), "a\nb\n").unwrap();
    let change = |path: &str, hunk: &str| format!("--- a/{path}\n+++ b/{path}\n{hunk}");
    let create = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+c\n");
    let delete = "--- a/d2/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n".to_owned();
    let first = change("d1/f", "@@ -1,2 +1,2 @@\n-a\n+x\n b\n");
    let second = change("d2/f", "@@ -1,2 +1,2 @@\n a\n-b\n+y\n");
    for (name, patch) in [
        ("f", first.clone() + &second),
        ("f", first + &delete),
        ("n", create("d1/n") + &create("d2/n")),
    ] {
        let paths = [format!("d1/{name}"), format!("d2/{name}")];
        let reply = host.call("apply_patch", json!({"paths": paths, "patch_text": patch})).await;
        assert!(reply.as_ref().is_ok_and(|reply| reply.is_error), "{patch}: {reply:?}");
        assert_eq!(fs::read_to_string(folder.join("d1/f")).unwrap(), "a\nb\n", "{patch}");
        assert_eq!(fs::read_dir(folder.join("d1")).unwrap().count(), 1, "{patch}");
    }
}

#[tokio::test]
async fn a_patch_that_is_undone_gives_back_what_it_removed() {
    let host = host().await;
    let folder = host.workspace();
    fs::create_dir(folder.join("d1")).unwrap();
    symlink("d1", folder.join("d2")).unwrap();
    let key = folder.join("key");
    for path in [&folder.join("d1/f"), &key] {
        fs::write(path, "a\nb\n").unwrap();
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let removal = "--- a/key\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n";
    let change = |path| format!("--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n-a\n+x\n b\n");
    // The third is of a file that the second has changed.
    let patch = format!("{removal}{}{}", change("d1/f"), change("d2/f"));
    let arguments = json!({"paths": ["key", "d1/f", "d2/f"], "patch_text": patch});
    assert!(host.call("apply_patch", arguments).await.unwrap().is_error);
    let back = (fs::read_to_string(&key).unwrap(), fs::metadata(&key).unwrap().mode() & 0o777);
    assert_eq!((back.0.as_str(), back.1), ("a\nb\n", 0o600));
    let count = || fs::read_dir(&folder).unwrap().count();
    assert_eq!(count(), 3);
    host.ask("apply_patch", json!({"paths": ["key"], "patch_text": removal})).await;
    assert_eq!((key.exists(), count()), (false, 2));
}

#[tokio::test]
async fn a_search_ends_at_its_bytes_however_small_the_files_are() {
    let host = host().await;
    for at in 0..1_100 {
        file(&host.workspace().join(format!("{at}")), 65_535);
    }
    let search = host.ask("search_files", json!({"text": "end"})).await;
    assert_eq!(search["incomplete"], "more than 67108864 bytes");
}

#[tokio::test]
async fn a_patch_that_is_refused_leaves_no_folder() {
    let host = host().await;
    fs::write(host.workspace().join("there"), "x").unwrap();
    let create = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+c\n");
    let patch = create("new/deep/a") + &create("there");
    let arguments = json!({"paths": ["new/deep/a", "there"], "patch_text": patch});
    assert!(host.call("apply_patch", arguments).await.unwrap().is_error);
    assert_eq!(fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn f31_no_tool_shows_or_changes_what_is_closed_inside_the_grant() {
    let host = TestHost::builder()
        .only(&FILE_TOOLS)
        .file("shut/secret.txt", "needle of the secret")
        .file("a/.env", "needle of the environment")
        .file("open.txt", "needle")
        .denied_paths(&["./workspace/shut", "./workspace/a/.env"])
        .build()
        .await;
    symlink("shut", host.workspace().join("link")).unwrap();
    fs::hard_link(host.workspace().join("a/.env"), host.workspace().join("alias")).unwrap();
    let found = host.ask("search_files", json!({"text": "needle"})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1, "{found}");
    let everything = host.ask("search_files", json!({"glob": "**/*"})).await.to_string();
    assert!(!everything.contains("secret.txt") && !everything.contains(".env"), "{everything}");
    let listing = host.ask("list_directory", json!({"path": "."})).await;
    assert_eq!(names(&listing), ["a", "alias", "link", "open.txt"]);
    for path in ["shut/secret.txt", "link/secret.txt", "a/.env", "a/.ENV", "alias", "shut/absent"] {
        let patch = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-needle\n+x\n");
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_directory", json!({"path": path})),
            ("apply_patch", json!({"paths": [path], "patch_text": patch})),
        ] {
            let outcome = host.call(tool, arguments).await;
            let shown = outcome.as_ref().map_or_else(|e| format!("{e:?}"), text);
            assert!(outcome.is_err_and(|e| e.kind.code() == -32010), "{tool} {path}: {shown}");
            assert!(!shown.contains("needle of"), "{tool} {path}: {shown}");
        }
    }
    let secret = fs::read_to_string(host.workspace().join("shut/secret.txt")).unwrap();
    assert_eq!(secret, "needle of the secret");
}

#[tokio::test]
async fn f4_f5_a_search_follows_no_link_and_shows_nothing_from_outside() {
    let host = host().await;
    symlink(host.canaries().folder(), host.workspace().join("folder")).unwrap();
    symlink(host.canaries().file(), host.workspace().join("file")).unwrap();
    symlink(".", host.workspace().join("loop")).unwrap();
    for arguments in [json!({"text": "canary"}), json!({"glob": "**/*"}), json!({"glob": "*"})] {
        let found = host.ask("search_files", arguments).await;
        assert_eq!(found["matches"], json!([]), "{found}");
    }
    let error = host.call("search_files", json!({"glob": "*", "path": "folder"})).await;
    assert_eq!(error.unwrap_err().kind.code(), -32010);
    let patch = "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-canary\n+x\n";
    let error = host.call("apply_patch", json!({"paths": ["file"], "patch_text": patch})).await;
    assert_eq!(error.unwrap_err().kind.code(), -32010);
    host.canaries().check();
}

#[tokio::test]
async fn f32_a_search_for_a_bomb_ends_before_its_time() {
    let host = TestHost::builder()
        .only(&FILE_TOOLS)
        .limits("timeout_ms: 10000")
        .file("long", &"a".repeat(4 << 20))
        .file("lines", &"a\n".repeat(1 << 19))
        .build()
        .await;
    for text in ["(a+)+b", "(a|aa)+$", "(.*)*x", "(a|a|a|a)*b", r"\b(\w+)*!"] {
        host.ask("search_files", json!({"text": text, "regex": true})).await;
    }
    for text in [r"\w{50000}", "((a{100}){100}){100}"] {
        let reply = host.call("search_files", json!({"text": text, "regex": true})).await.unwrap();
        assert!(reply.is_error, "{}", self::text(&reply));
    }
    host.ask("search_files", json!({"glob": "**/".repeat(300) + "*a"})).await;
    host.check_audit();
}

#[test]
fn a_workspace_that_cannot_be_made_is_told_and_the_tool_has_not_crashed() {
    const MANIFEST: &str = clawhost_tests::claw!(
        "no-folder",
        "autonomous",
        r#"  tools:
    - {name: read-file, sandbox: claw://sandbox/fs-readonly}
    - {name: write-file, sandbox: claw://sandbox/workspace}
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#
    );
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    // Nothing is there, and nothing can be made there.
    symlink("gone/too", cli.here().join("workspace")).unwrap();
    for words in [&["read_file", "path=a"][..], &["write_file", "path=a", "content=b"]] {
        let run = cli.run(&[&["call", "claw.yaml"], words].concat());
        assert_eq!(run.code, Some(4), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains("can be neither made nor opened"), "{}", run.stderr);
    }
}
