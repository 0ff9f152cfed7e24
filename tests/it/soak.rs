//! What a host costs its machine over many calls, at its limits, and after a time of standstill.
//!
//! Every run of the tests has this one, over standard input and output. `tests/soak` is for a release: a million
//! calls of many sessions over HTTP, with reloads among them, of which it writes a page.
#![cfg(target_os = "linux")]

use std::fs;
use std::time::{Duration, Instant};

use clawhost_core::limits::{GUEST_MEMORY_KEPT_BYTES, GUEST_MEMORY_MB};
use clawhost_tests::{Cli, Client, Guest, wait};
use serde_json::json;

use crate::cli::PROGRAM;

/// Calls of an ordinary run; `SOAK_CALLS` makes it longer.
const CALLS: u64 = 4_000;
/// Calls after which everything a host keeps has been made.
const WARM_UP: u64 = 2_000;
/// What a host may take more after all these calls than after the first ones.
const SOAKED_KIB_MAX: u64 = 8 << 10;
/// Guests that hold all their memory at the same time.
const GUESTS: u64 = 8;
/// What a guest may cost the host beside its own memory.
const GUEST_KIB_MAX: u64 = 32 << 10;
/// What a place keeps of its memory for the next call.
const KEPT_KIB: u64 = (GUEST_MEMORY_KEPT_BYTES as u64) >> 10;
/// What such a guest writes to, of the memory it may have.
const WRITTEN_KIB: u64 = 64_000;
/// What a program may cost the host that writes 10 MB of what JSON writes with six times as much.
const PROGRAM_KIB_MAX: u64 = 80 << 10;
/// Longer than a call may take.
const STANDSTILL: Duration = Duration::from_millis(1_500);
/// A call whose time was over long ago ends at once, at the best of [`TRIES`].
const AT_ONCE: Duration = Duration::from_millis(500);
const TRIES: usize = 3;

const MANIFEST: &str = clawhost_tests::claw!(
    "soak",
    "autonomous",
    r#"      resource_limits: {timeout_ms: 1000}
  tools: [{name: read-file}, {name: write-file}, {name: answer}, {name: trap}, {name: sleep}, {name: memory-bomb}, {name: fills-its-memory}]
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#
);

fn prepared() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("workspace/hello.txt", "hello\n");
    for name in ["answer", "trap", "sleep", "memory-bomb", "fills-its-memory"] {
        cli.write(&format!("tools/{name}.wat"), Guest::read(name).wat());
    }
    cli
}

fn start(cli: &Cli) -> Client {
    Client::start(cli, &["run", "claw.yaml", "--stdio", "--tools", "tools"])
}

/// What a process has: KiB of memory now and at most, descriptors, and children.
#[derive(Debug)]
struct Footprint {
    now_kib: u64,
    peak_kib: u64,
    descriptors: usize,
    children: usize,
}

fn footprint(host: &Client) -> Footprint {
    let process = format!("/proc/{}", host.child.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let threads = fs::read_dir(format!("{process}/task")).unwrap().flatten();
    let children = threads.filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    Footprint {
        now_kib: kib("VmRSS:"),
        peak_kib: kib("VmHWM:"),
        descriptors: fs::read_dir(format!("{process}/fd")).unwrap().count(),
        children: children.map(|children| children.split_whitespace().count()).sum(),
    }
}

/// Makes the `number`th call, good or bad.
fn call(host: &mut Client, number: u64) {
    let (tool, arguments, is_good) = match number % 10 {
        0 => ("write_file", json!({"path": "kept.txt", "content": "x".repeat(5_000)}), true),
        1 => ("read_file", json!({"path": "../../etc/passwd"}), false),
        2 => ("read_file", json!({"path": 7}), false),
        3 => ("trap", json!({}), false),
        4 => ("memory-bomb", json!({}), false),
        5 => ("no_such_tool", json!({}), false),
        6 => ("answer", json!({}), true),
        _ => ("read_file", json!({"path": "hello.txt"}), true),
    };
    let answer = host.call(tool, &arguments);
    assert_eq!(answer["result"]["isError"] == false, is_good, "call {number}: {answer}");
}

#[test]
fn d9_however_many_calls_leave_the_host_as_small_as_it_was() {
    let calls = std::env::var("SOAK_CALLS").map_or(CALLS, |count| count.parse().unwrap());
    let cli = prepared();
    let mut host = start(&cli);
    (0..WARM_UP).for_each(|number| call(&mut host, number));
    let (before, begun) = (footprint(&host), Instant::now());
    (0..calls).for_each(|number| call(&mut host, number));
    let after = footprint(&host);
    println!("{calls} calls in {:?}: {before:?}, then {after:?}", begun.elapsed());
    assert!(after.now_kib < before.now_kib + SOAKED_KIB_MAX, "{before:?}, then {after:?}");
    assert!(after.descriptors <= before.descriptors, "{before:?}, then {after:?}");
    assert_eq!(after.children, 0);
}

#[test]
fn w6_guests_at_their_limit_cost_the_host_little_beside_their_memory() {
    let cli = prepared();
    // A slow machine takes its time to fill them all.
    cli.write("claw.yaml", MANIFEST.replace("timeout_ms: 1000", "timeout_ms: 4000"));
    let mut host = start(&cli);
    (0..100).for_each(|number| call(&mut host, number));
    let before = footprint(&host);
    fs::write(format!("/proc/{}/clear_refs", host.child.id()), "5").unwrap();
    for _ in 0..GUESTS {
        host.begin("fills-its-memory", &json!({}));
    }
    for _ in 0..GUESTS {
        let answer = host.answer();
        assert!(answer.to_string().contains("timeout_ms"), "{answer}");
    }
    let after = footprint(&host);
    let grown = after.peak_kib - before.now_kib;
    println!("{GUESTS} guests: {grown} KiB, {WRITTEN_KIB} each their own; then {after:?}");
    assert!(grown > GUESTS * WRITTEN_KIB * 9 / 10, "they were not there at the same time: {grown}");
    assert!(grown < GUESTS * ((GUEST_MEMORY_MB << 10) + GUEST_KIB_MAX), "{grown}");
    let kept = GUESTS * KEPT_KIB + GUEST_KIB_MAX;
    assert!(after.now_kib < before.now_kib + kept, "{before:?}, then {after:?}");
}

/// A program that writes all that it may, in control characters.
const FLOODS: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 3)
  (func (export "_start") (local $i i32)
    (memory.fill (i32.const 65536) (i32.const 1) (i32.const 65536))
    (i32.store (i32.const 0) (i32.const 65536))
    (i32.store (i32.const 4) (i32.const 65536))
    (loop $again
      (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 159))))))"#;

#[test]
fn a_program_that_writes_all_it_may_costs_the_host_a_few_times_that() {
    let cli = prepared();
    let manifest = MANIFEST.replace("{name: trap}", "{name: trap}, {name: floods}");
    cli.write("claw.yaml", manifest.replace("timeout_ms: 1000", "timeout_ms: 10000"));
    cli.write("tools/floods.wat", FLOODS);
    let mut host = start(&cli);
    (0..100).for_each(|number| call(&mut host, number));
    let before = footprint(&host);
    fs::write(format!("/proc/{}/clear_refs", host.child.id()), "5").unwrap();
    host.begin("floods", &json!({}));
    let answer = host.answer().to_string();
    assert!(answer.contains("[cut: 10420224 bytes in all]"), "{answer}");
    let grown = footprint(&host).peak_kib - before.now_kib;
    assert!(grown < PROGRAM_KIB_MAX, "{grown} KiB");
}

#[tokio::test]
async fn d12_a_host_that_stood_still_ends_what_is_overdue_and_goes_on() {
    let cli = prepared();
    let mut host = start(&cli);
    call(&mut host, 6);
    // Its first call loads its code, which is not what stands still here.
    host.begin("sleep", &json!({}));
    assert!(host.answer().to_string().contains("timeout_ms"));
    wait::best("the end of the call", TRIES, AT_ONCE, async |attempt| {
        host.begin("sleep", &json!({}));
        let opened = || cli.log().matches("call.received").count() == 3 + attempt;
        wait::until("the call to arrive", || opened().then_some(())).await;
        host.child.signal("STOP");
        assert!(host.is_silent_for(STANDSTILL), "it runs");
        let woken = Instant::now();
        host.child.signal("CONT");
        let answer = host.answer();
        let took = woken.elapsed();
        assert!(answer.to_string().contains("timeout_ms"), "{answer}");
        took
    })
    .await;
    call(&mut host, 6);
    drop(host);
    assert_eq!(cli.run(&["audit", "verify"]).code, Some(0));
}
