//! How much a program may use and say.

use super::*;

#[tokio::test]
async fn x10_a_flood_is_capped_and_counted() {
    let Some(dir) = workspace() else { return };
    let script = "head -c 5000000 /dev/zero; head -c 5000001 /dev/zero >&2";
    let outcome = sh(&spec_in(dir.path()), script).await;
    assert_eq!((outcome.stdout_bytes, outcome.stderr_bytes), (5_000_000, 5_000_001));
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (1 << 16, 1 << 16));
    assert_eq!(outcome.exit_code, Some(0));
}

#[tokio::test]
async fn x10_input_is_given_and_need_not_be_read() {
    let Some(dir) = workspace() else { return };
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
async fn x11_memory_and_files_are_bounded() {
    let Some(dir) = workspace() else { return };
    let spec = spec_in(dir.path());
    let file = sh(&spec, "head -c 2000000 /dev/zero > big").await;
    assert_ne!(file.exit_code, Some(0));
    assert_eq!(fs::metadata(dir.path().join("big")).unwrap().len(), 1 << 20);
    let memory = sh(&spec, "head -c 1000000000 /dev/zero | tail -c 900000000 | wc -c").await;
    assert_ne!(text(&memory.stdout).trim(), "900000000");
}

#[tokio::test]
async fn x11_no_memory_and_no_processes_run_nothing() {
    let Some(dir) = workspace() else { return };
    for (memory_bytes, processes_max, what) in [(0, 8, "memory"), (512 << 20, 0, "processes")] {
        for mut spec in all_forms(dir.path()) {
            spec.limits = JailLimits { memory_bytes, processes_max, ..limits() };
            let refused = JailError::Denied(format!("the limits allow no {what}"));
            assert_eq!(run(&spec, command("true")).await, Err(refused));
        }
    }
}

#[tokio::test]
async fn x10_closed_streams_do_not_end_the_wait_and_a_program_without_output_is_waited_for() {
    let Some(dir) = workspace() else { return };
    for spec in all_forms(dir.path()) {
        let outcome = sh(&spec, "exec <&- >&- 2>&-; sleep 0.2; : > ended; exit 7").await;
        assert_eq!(outcome.exit_code, Some(7));
        fs::remove_file(dir.path().join("ended")).unwrap();
    }
}

#[tokio::test]
async fn x11_sparse_files_and_core_dumps_are_bounded() {
    let Some(dir) = workspace() else { return };
    let outcome = sh(&spec_in(dir.path()), "ulimit -c; truncate -s 8G sparse; kill -SEGV 0").await;
    assert_eq!((text(&outcome.stdout).as_str(), outcome.exit_code), ("0\n", None));
    let bytes: u64 = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(bytes, 0);
}

#[tokio::test]
async fn x11_memory_is_bounded_over_the_whole_tree() {
    if !jail_here() || !support().cgroup {
        eprintln!("skipped: without a control group each process is bounded alone");
        return;
    }
    let dir = TempDir::new().unwrap();
    let mut spec = spec_in(dir.path());
    spec.limits.memory_bytes = 128 << 20;
    // Each may have 60 MB for itself, and holds them while the others do.
    let one = "(head -c 60000000 /dev/zero; sleep 1) | tail -c 60000000 | wc -c";
    let outcome = sh(&spec, format!("for i in 1 2 3 4; do {one} & done; wait")).await;
    let whole = text(&outcome.stdout).lines().filter(|line| line.trim() == "60000000").count();
    assert!(whole < 4, "{outcome:?}");
    // The control: one alone is not too much.
    let alone = sh(&spec, one).await;
    assert_eq!(text(&alone.stdout).trim(), "60000000");
}
