//! Every hostile guest ends as its file declares, in time, and harms no call beside it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawhost::attack::{judge, refusal};
use clawhost::secrets::Secrets;
use clawhost_core::error::ErrorKind;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, GUEST_MEMORY_MB, REPLY_BYTES_MAX};
use clawhost_tests::guest::{self, Attack, Expected, Guest};
use clawhost_tests::host::{call_within, text};
use clawhost_tests::{TestHost, native, wait};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The time a call gets here.
const TIMEOUT: Duration = Duration::from_millis(300);
/// How late a timeout may be, at the best of [`TRIES`].
const LATE_MAX: Duration = Duration::from_millis(50);
const TRIES: usize = 10;
/// Lets guests call others: what they do with it is theirs to declare as well.
const CALLING: &str =
    "version: 1\nimmune: {enabled: false}\nprofiles: {sandbox-0: {tool_calls_max: 256}}";
/// What an instruction costs is taken before its bounds are looked at, and four GiB cost more than 200 ms buy.
const FILLS_FOUR_GIB: &str =
    ";;; call\n(memory.fill (i32.const 0) (i32.const 170) (i32.const -1))\n";
/// Fills 500 MiB over and over.
const FILLS_MUCH: &str = ";;; call
(drop (memory.grow (i32.const 8000)))
(loop $forever
  (memory.fill (i32.const 8192) (i32.const 170) (i32.const 524288000))
  (br $forever))
";

async fn host_of(guests: &[Guest]) -> TestHost {
    host_with_limits("timeout_ms: 300", guests).await
}

async fn host_with_limits(limits: &str, guests: &[Guest]) -> TestHost {
    let builder = TestHost::builder().limits(limits).runtime_file(CALLING);
    guests.iter().fold(builder, |builder, guest| builder.guest(guest)).build().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_guest_ends_as_its_file_declares() {
    let host = host_with_limits("timeout_ms: 1500", &guest::all()).await;
    let mut wrong = Vec::new();
    for attack in guest::attacks() {
        if let Err(reason) = ends_as_declared(&host, &attack).await {
            wrong.push(format!("{}: {reason}", attack.name));
        }
        // Whatever happened, the host is well.
        let after = wait::within("a good call", host.call("answer", json!({}))).await;
        assert_eq!(text(&after.unwrap()), "answer", "after {}", attack.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    host.canaries().check();
    host.check_audit();
}

async fn ends_as_declared(host: &TestHost, attack: &Attack) -> Result<(), String> {
    let grants = host.host().manifest().profile("sandbox-0").unwrap().grants(None);
    let expected = attack.guest.expected_under(&grants);
    if let Expected::Refused(reason) = &expected {
        return refusal(&host.host().catalog(), &attack.guest, reason);
    }
    let fill = |text: &str| {
        let folder = host.canaries().folder().to_str().unwrap();
        text.replace("{outside}", "../outside").replace("{absolute}", folder)
    };
    let arguments = attack.case.as_ref().map_or_else(|| json!({}), |case| case.arguments(fill));
    let call = host.call(attack.guest.tool(), arguments);
    judge(&expected, &wait::within(&attack.name, call).await, false)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_is_at_most_50_ms_late() {
    let late = |guest: &Guest| matches!(guest.expected(), Expected::Exceeds(-32014, _));
    let guests: Vec<Guest> = guest::all().into_iter().filter(late).collect();
    assert!(
        guests.len() >= 6,
        "spin, sleep, bulk-fill, host-call-loop, log-flood, spin-in-realloc"
    );
    let host = host_of(&guests).await;
    for guest in &guests {
        late_at_most(&host, guest, LATE_MAX).await;
    }
}

/// Half a gigabyte is filled by one instruction, which nothing interrupts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_more_memory_a_timeout_is_half_a_millisecond_later_for_each_mebibyte() {
    const MEMORY_MB: u64 = 512;
    let more = Duration::from_micros(500 * (MEMORY_MB - GUEST_MEMORY_MB));
    let guest = Guest::parse("fills-much", FILLS_MUCH);
    let limits = format!("timeout_ms: 300, memory_mb: {MEMORY_MB}");
    let host = host_with_limits(&limits, std::slice::from_ref(&guest)).await;
    late_at_most(&host, &guest, LATE_MAX + more).await;
}

/// Waits until `guest` was stopped at its time, at most `late` after it.
async fn late_at_most(host: &TestHost, guest: &Guest, late: Duration) {
    wait::best(&guest.name, TRIES, TIMEOUT + late, async |_| {
        let started = Instant::now();
        let error = host.call(guest.tool(), json!({})).await.unwrap_err();
        let took = started.elapsed();
        if error.kind == ErrorKind::Overloaded {
            // Its first call loads its code, which alone takes longer where the machine is busy.
            return Duration::MAX;
        }
        assert_eq!(error.kind, ErrorKind::Timeout, "{}", guest.name);
        let early = took < TIMEOUT && error.data["limit"] == "timeout_ms";
        assert!(!early, "{}: ended early, after {took:?}", guest.name);
        took
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_fuel_is_used_up_ends_for_that_and_at_once() {
    let guest = Guest::parse("fills-four-gib", FILLS_FOUR_GIB);
    let host = host_with_limits("timeout_ms: 200", std::slice::from_ref(&guest)).await;
    let error = wait::within("no fuel", host.call(guest.tool(), json!({}))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert_eq!(error.data["limit"], "fuel", "{error}");
    assert!(error.message.contains("did as much as 200 ms allow"), "{error}");
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_good_calls_succeed_beside_a_spinner_a_sleeper_and_a_memory_bomb() {
    let hostile = ["spin", "sleep", "memory-bomb"].map(Guest::read);
    let answer = Guest::read("answer");
    let guests: Vec<Guest> = hostile.iter().cloned().chain([answer]).collect();
    // The hostile ones run for all of the good ones' time.
    let host = host_with_limits("timeout_ms: 2000", &guests).await;
    let run = |tool: &str| host.begin(tool, json!({}));
    // Two of each at a time: on two cores, more spinners than cores would already be a few.
    let bad = ["spin", "sleep", "memory-bomb", "spin", "sleep", "memory-bomb"].map(run);
    for number in 0..100 {
        let reply = wait::within("a good call", run("answer")).await.unwrap();
        assert_eq!(text(&reply.unwrap()), "answer", "call {number}");
    }
    for (task, code) in bad.into_iter().zip([-32014, -32014, -32010].into_iter().cycle()) {
        let error = wait::within("a hostile call", task).await.unwrap().unwrap_err();
        assert_eq!(error.kind.code(), code, "{error}");
    }
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_call_is_answered_beside_two_hundred_hostile_ones() {
    const HOSTILE: usize = 200;
    let tools = ["spin", "sleep", "host-call-loop", "short-sleeps"];
    let builder = TestHost::builder().limits("timeout_ms: 3000").calls_running(HOSTILE + 1);
    let guests = tools.map(Guest::read).into_iter().chain([Guest::read("answer")]);
    let host = guests.fold(builder, |builder, guest| builder.guest(&guest)).build().await;
    let run = |tool: &str| host.begin(tool, json!({}));
    let hostile: Vec<_> = tools.into_iter().cycle().take(HOSTILE).map(run).collect();
    let reply = wait::within("a good call", run("answer")).await.unwrap();
    assert_eq!(text(&reply.unwrap()), "answer");
    assert!(hostile.iter().any(|task| !task.is_finished()), "nobody was beside it");
    for task in hostile {
        let error = wait::within("a hostile call", task).await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
    }
    host.check_audit();
}

/// To look for secrets in these takes long, as they can be read in many ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_its_place_until_its_answer_was_searched() {
    static BEGUN: Notify = Notify::const_new();
    async fn escapes() -> Value {
        BEGUN.notify_one();
        Value::from(r"%26&amp;\x26%5c%".repeat(2_000))
    }
    let secrets = Secrets::none();
    secrets.hide("TOKEN", "the-value-of-the-secret").unwrap();
    let host = TestHost::builder()
        .calls_running(1)
        .calls_waiting(0)
        .secrets(secrets)
        .guest(&Guest::read("answer"))
        .extend(|host| host.tool(native("escapes", escapes)))
        .build()
        .await;
    host.call("answer", json!({})).await.unwrap();
    let searched = host.begin("escapes", json!({}));
    BEGUN.notified().await;
    let (mut refused, mut answered) = (0, 0);
    while !searched.is_finished() {
        match host.call("answer", json!({})).await {
            Ok(_) => answered += 1,
            Err(_) => refused += 1,
        }
    }
    // Between its place and its end lies its record.
    assert!(answered < refused, "{answered} were answered meanwhile, and {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_too_many_is_refused_at_once_and_the_waiting_ones_run() {
    let host = TestHost::builder()
        .limits("timeout_ms: 2000")
        .calls_running(1)
        .calls_waiting(1)
        .guest(&Guest::read("sleep"))
        .guest(&Guest::read("answer"))
        .build()
        .await;
    let run = |tool: &str| host.begin(tool, json!({}));
    let sleeping = run("sleep");
    host.arrived(1).await;
    // The sleeper may not have its place yet: ask until somebody is refused.
    let (mut waiting, mut calls) = (Vec::new(), 1);
    let refused = loop {
        let task = run("answer");
        calls += 1;
        host.arrived(calls).await;
        tokio::task::yield_now().await;
        match task.is_finished() {
            true => break task.await.unwrap(),
            false => waiting.push(task),
        }
        assert!(waiting.len() < 3, "nobody is refused");
    };
    let error = refused.unwrap_err();
    assert_eq!((error.kind, &error.data["stage"]), (ErrorKind::Overloaded, &json!("queue")));
    assert_eq!(sleeping.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    for task in waiting {
        assert_eq!(text(&task.await.unwrap().unwrap()), "answer");
    }
    host.check_audit();
}

#[tokio::test]
async fn files_that_are_no_tools_are_refused_by_name_and_the_others_load() {
    let whole = Guest::read("answer").named("cut_short").wasm();
    let core = wat::parse_str("(module (func (export \"call\")))").unwrap();
    let builder = TestHost::builder()
        .guest(&Guest::read("answer"))
        .tool_file("empty.wasm", b"")
        .tool_file("elf.wasm", b"\x7fELF\x02\x01\x01")
        .tool_file("core.wasm", &core)
        .tool_file("cut_short.wasm", &whole[..whole.len() / 2])
        .tool_file("nonsense.wat", b"(component (core module (func (i32.const")
        .tool_file("readme.txt", b"not a component, and not looked at")
        .tool_file("too_large.wasm", b"");
    let host = {
        let large = builder.tool_path("too_large.wasm");
        let file = std::fs::OpenOptions::new().write(true).open(large).unwrap();
        file.set_len(COMPONENT_BYTES_MAX + 1).unwrap();
        builder.build().await
    };
    let catalog = host.host().catalog();
    let sources: BTreeSet<&str> =
        catalog.refused.iter().map(|refused| refused.source.as_str()).collect();
    let expected =
        ["core.wasm", "cut_short.wasm", "elf.wasm", "empty.wasm", "nonsense.wat", "too_large.wasm"];
    assert_eq!(sources, BTreeSet::from(expected), "{}", host.refused());
    assert!(host.refused().contains("core module"), "{}", host.refused());
    assert_eq!(text(&host.call("answer", json!({})).await.unwrap()), "answer");
}

#[tokio::test]
async fn a_long_answer_is_cut_on_the_way_out_and_says_its_true_size() {
    let host = host_of(&[Guest::read("output-long")]).await;
    let reply = host.call("output-long", json!({})).await.unwrap();
    let kept = text(&reply);
    assert!(kept.len() <= REPLY_BYTES_MAX && kept.len() > REPLY_BYTES_MAX / 2, "{}", kept.len());
    assert!(reply.cut_from_bytes.unwrap() > 1 << 20);
    assert!(kept.contains("[cut: the whole result is"), "{}", &kept[kept.len() - 200..]);
}

#[tokio::test]
async fn a_call_without_any_time_left_is_told_that_and_nothing_of_fuel() {
    let host = host_of(&[Guest::read("answer")]).await;
    // What follows is not held up by loading the tool.
    host.call("answer", json!({})).await.unwrap();
    for left in [Duration::ZERO, Duration::from_micros(900)] {
        let call = call_within("answer", json!({}), left);
        let error = wait::within("no time", host.host().call(call)).await.unwrap_err();
        assert_eq!(
            (error.kind, &error.data["limit"]),
            (ErrorKind::Timeout, &json!("timeout_ms")),
            "{left:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_caller_may_shorten_the_time_of_a_call_and_not_lengthen_it() {
    for (granted, asked) in [("timeout_ms: 600000", 50), ("timeout_ms: 50", 600_000)] {
        let host = host_with_limits(granted, &[Guest::read("spin")]).await;
        let call = call_within("spin", json!({}), Duration::from_millis(asked));
        let error = wait::within(granted, host.host().call(call)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
    }
}
