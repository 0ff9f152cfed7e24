//! Programs that run for long.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use crate::jail::start;

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn a_program_is_spoken_to_until_its_tree_is_killed() {
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let script = format!("sleep {mark} & cat; sleep {mark}");
        let mut child = start(&spec, argv(&["/bin/sh", "-c", &script])).await.unwrap();
        child.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut said).await.unwrap();
        assert_eq!(said, "hello\n");
        assert!(alive(&mark) > 0);
        child.kill().await;
        assert_eq!(alive(&mark), 0);
    }
}

#[tokio::test]
async fn a_program_that_is_let_go_of_is_killed() {
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    let script = format!("sleep {mark} & sleep {mark}");
    let child = start(&spec_in(dir.path()), argv(&["/bin/sh", "-c", &script])).await.unwrap();
    until("the start", || alive(&mark) > 1).await;
    drop(child);
    until("the end", || alive(&mark) == 0).await;
}

#[tokio::test]
async fn only_files_of_read_only_mounts_are_executed_and_only_where_that_was_asked_for() {
    let Some(written) = workspace() else { return };
    let read = TempDir::new().unwrap();
    for dir in [&written, &read] {
        let file = dir.path().join("tool");
        fs::write(&file, "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mounts = || {
        let read = JailMount { path: read.path().to_owned(), writable: false };
        vec![writable(written.path()), read]
    };
    let spec = JailSpec::new(mounts(), Vec::new(), limits()).unwrap();
    let line = |dir: &TempDir| format!("{}/tool", dir.path().display());
    let server = spec.clone().executing_read_only().reserving_addresses();
    assert_eq!(text(&sh(&server, line(&read)).await.stdout), "ran\n");
    assert_eq!(sh(&server, line(&written)).await.exit_code, Some(126));
    assert_eq!(sh(&spec, line(&read)).await.exit_code, Some(126));
}

/// Copies the shell in another process: what other tests start meanwhile would hold the copy open, and nobody runs
/// a file that is open for writing.
pub(crate) fn copy_shell(to: &Path) {
    let mut copy = std::process::Command::new("/bin/cp");
    assert!(copy.arg("/bin/sh").arg(to).status().unwrap().success());
}

#[tokio::test]
async fn an_open_program_runs_whatever_lies_at_its_path_and_cannot_be_replaced() {
    let Some(dir) = workspace() else { return };
    let elsewhere = TempDir::new().unwrap();
    let path = elsewhere.path().join("sh");
    copy_shell(&path);
    let image = Arc::new(fs::File::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    symlink("/bin/true", &path).unwrap();
    let words = argv(&["/bin/false", "-c", "echo \"$0 $1\"; export -p", "name", "word"]);
    for spec in all_forms(dir.path()) {
        let spec = spec.executing(Arc::clone(&image));
        let run_as = |argv| run(&spec, Command { argv, ..command("") });
        let said = text(&run_as(words.clone()).await.unwrap().stdout);
        assert!(said.starts_with("name word\n") && !said.contains("HOME"), "{said}");
        // More words than there is room for.
        run_as(argv(&["/bin/sh"; 8])).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_program_at_a_lower_priority_is_at_it_in_its_session_as_well() {
    let Some(dir) = workspace() else { return };
    let mark = marker(&dir);
    for spec in all_forms(dir.path()) {
        let script = format!("nice; sleep {mark}");
        let mut child = start(&spec.at_nice(7), argv(&["/bin/sh", "-c", &script])).await.unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut said).await.unwrap();
        assert_eq!(said, "7\n");
        // The kernel takes this from others than root only now and then.
        let shares =
            living(&mark).filter_map(|path| fs::read_to_string(path.join("autogroup")).ok());
        let mut shares = shares.filter(|_| support().other_user);
        assert!(shares.all(|share| share.ends_with("nice 7\n")));
        child.kill().await;
    }
}

#[tokio::test]
async fn memory_is_bounded_where_addresses_are_not() {
    let Some(dir) = workspace_with("/usr/bin/python3") else { return };
    let mut spec = spec_in(dir.path()).reserving_addresses();
    spec.limits.memory_bytes = 128 << 20;
    let program = "import mmap\nmmap.mmap(-1, 1 << 33, prot=0, flags=mmap.MAP_PRIVATE)\nprint(\"reserved\")\nbytearray(1 << 28)";
    let outcome = sh(&spec, format!("exec /usr/bin/python3 -c '{program}'")).await;
    assert_eq!(text(&outcome.stdout), "reserved\n");
    assert_ne!(outcome.exit_code, Some(0));
}
