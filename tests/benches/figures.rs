//! Figures of one run, each measured in turns with what it is held against. Times are in microseconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawhost::host::{Principal, Timings, ToolCall};
use clawhost::{Host, HostBuilder};
use clawhost_core::manifest::LimitSettings;
use clawhost_tests::{Guest, TestHost, host};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bare::{Way, built_in};
use crate::{TOOLS, WORLD, answer_on, arguments, limits, linked_on};

/// Calls that a figure is taken from.
const CALLS: usize = 10_000;
/// How many of them are made in a row, before it is another's turn.
const TURN: usize = 100;
/// Composites that are timed, after as many to warm up.
const COMPOSITES: usize = 2_000;
/// How long good calls are made beside hostile ones.
const BESIDE: Duration = Duration::from_millis(1_500);
/// What one agent may have of the places and of the queue of that host.
const FAIR: (usize, usize) = (48, 200);
/// Calls that sleep while memory is looked at.
const ASLEEP: usize = 1_000;
/// Programs that an interpreter is timed with, after as many to warm up.
const PROGRAMS: usize = 200;
/// How often calls are counted with each number of threads, and for how long.
const RATE_ROUNDS: usize = 4;
const RATE_TIME: Duration = Duration::from_millis(300);
/// Tools that do nothing while memory is looked at.
const IDLE: usize = 24;

/// Times of the same thing.
#[derive(Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e6);
    }

    pub(crate) fn at(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((sorted.len() * percent / 100).min(last)).copied().expect("some calls")
    }

    pub(crate) fn shown(&self) -> Value {
        let rounded = |percent| (self.at(percent) * 10.0).round() / 10.0;
        json!({"p50": rounded(50), "p99": rounded(99)})
    }
}

/// Returns all figures.
pub(crate) fn all() -> Value {
    let tools: BTreeMap<&str, Value> = TOOLS.iter().map(|tool| (*tool, of_tool(tool))).collect();
    json!({
        "call": tools, "composite": composite(), "fairness": fairness(), "memory": memory(),
        "interpreters": interpreters(), "rates": rates(),
        "metering": limits::metering(), "javascript": limits::javascript(), "lateness": limits::lateness(),
    })
}

/// Lets what was begun come as far as it does in that time.
fn pause(time: Duration) {
    WORLD.runtime.block_on(async { tokio::time::sleep(time).await });
}

/// A call and its stages, beside the same component on wasmtime alone: some calls of each in turns, as of servers,
/// since what runs in between takes its code out of the processor's caches.
fn of_tool(tool: &'static str) -> Value {
    let text = arguments(tool).to_string();
    let mut times: BTreeMap<&str, Times> = BTreeMap::new();
    let ways = [("bare", Way::Best), ("on demand", Way::OnDemand), ("relinked", Way::Relinked)];
    // A linker is nothing to make but for the functions that are in it.
    let answers =
        ways.map(|(_, way)| (tool == "answer" && way != Way::Relinked).then(|| answer_on(way)));
    let linked = ways.map(|(_, way)| linked_on(&WORLD.host, tool, way));
    for round in 0..=CALLS / TURN {
        let mut took = Vec::new();
        (0..TURN).for_each(|_| took.extend(timed_call(tool)));
        for (way, (name, _)) in ways.iter().enumerate() {
            for _ in 0..TURN {
                let started = Instant::now();
                match &answers[way] {
                    Some(bare) => WORLD.runtime.block_on(bare.call(tool, &text)),
                    None => WORLD.runtime.block_on(linked[way].call(tool, &text)),
                }
                took.push((*name, started.elapsed()));
            }
        }
        // The first round warms up.
        if round > 0 {
            took.into_iter().for_each(|(name, time)| times.entry(name).or_default().add(time));
        }
    }
    times.iter().map(|(name, times)| ((*name).to_owned(), times.shown())).collect()
}

fn timed_call(tool: &str) -> Vec<(&'static str, Duration)> {
    let call = host::call(tool, arguments(tool));
    let started = Instant::now();
    let (reply, split) = WORLD.runtime.block_on(WORLD.host.host().call_timed(call));
    let whole = started.elapsed();
    assert!(!reply.expect("a reply").is_error);
    stages(&split, whole)
}

fn stages(split: &Timings, whole: Duration) -> Vec<(&'static str, Duration)> {
    vec![
        ("audit", split.audit),
        ("gate", split.gate),
        ("wait", split.wait),
        ("instantiate", split.instantiate),
        ("guest", split.guest),
        ("filter", split.filter),
        ("whole", whole),
        ("without records", whole.saturating_sub(split.audit)),
        ("decided and recorded", split.gate + split.filter + split.audit),
    ]
}

/// Programs of one line, in a fresh interpreter each.
fn interpreters() -> Value {
    if !cfg!(feature = "interpreters") {
        return json!({});
    }
    let host = TestHost::builder().only(&["js-exec", "python-exec"]);
    let host = WORLD.runtime.block_on(host.build());
    let of = |tool: &str| {
        let mut times = Times::default();
        for round in 0..2 * PROGRAMS {
            let started = Instant::now();
            let reply = WORLD.runtime.block_on(host.call(tool, json!({"code": "6 * 7"})));
            assert!(!reply.expect("a reply").is_error);
            (round >= PROGRAMS).then(|| times.add(started.elapsed()));
        }
        (tool.to_owned(), times.shown())
    };
    Value::from_iter(["js_exec", "python_exec"].map(of))
}

/// Calls a second of one thread and of two, here and on wasmtime alone without a pool.
fn rates() -> Value {
    let (bare, nothing) = (answer_on(Way::OnDemand), "{}".to_owned());
    let theirs = || WORLD.runtime.handle().block_on(bare.call("answer", &nothing));
    let (mut here, mut there) = ([0.0; 2], [0.0; 2]);
    for _ in 0..RATE_ROUNDS {
        for threads in [1, 2] {
            here[threads - 1] += rate(threads, answered);
            there[threads - 1] += rate(threads, theirs);
        }
    }
    let shown = |all: [f64; 2]| all.map(|rate| (rate / RATE_ROUNDS as f64).round());
    json!({"ours": shown(here), "on demand": shown(there)})
}

/// Prints how many calls are made in a second, for each line that it is given: by as many threads as that says, or one.
pub(crate) fn rate_a_line() {
    for line in std::io::stdin().lines() {
        let threads = line.ok().and_then(|line| line.trim().parse().ok()).unwrap_or(1);
        println!("{}", rate(threads, answered));
    }
}

/// Makes one call, whose records are written.
fn answered() {
    let call = WORLD.host.host().call(host::call("answer", json!({})));
    let reply = WORLD.runtime.handle().block_on(call);
    assert!(!reply.expect("a reply").is_error);
}

/// Returns how often so many threads do `work` in a second.
fn rate(threads: usize, work: impl Fn() + Sync) -> f64 {
    let begun = Instant::now();
    let count = || {
        let mut count = 0_u32;
        while begun.elapsed() < RATE_TIME {
            work();
            count += 1;
        }
        f64::from(count)
    };
    let counts = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        all.into_iter().map(|thread| thread.join().expect("a count")).sum::<f64>()
    });
    counts / RATE_TIME.as_secs_f64()
}

/// A composite of three calls beside the three.
fn composite() -> Value {
    let took = |tool: &str| {
        let started = Instant::now();
        let reply = WORLD.runtime.block_on(WORLD.host.call(tool, arguments("read_file")));
        assert!(!reply.expect("a reply").is_error);
        started.elapsed()
    };
    let (mut three, mut whole) = (Times::default(), Times::default());
    for round in 0..2 * COMPOSITES {
        let single = took("read_file") + took("read_file") + took("read_file");
        let composite = took("three");
        if round >= COMPOSITES {
            three.add(single);
            whole.add(composite);
        }
    }
    json!({"three": three.shown(), "whole": whole.shown()})
}

/// A good agent's calls in quiet, and while another agent spins in every place it may have and queues more.
fn fairness() -> Value {
    let limited = |host: HostBuilder| {
        let (calls_running_max, calls_waiting_max) = (64, 267);
        host.limits(LimitSettings {
            calls_running_max,
            calls_waiting_max,
            ..LimitSettings::default()
        })
    };
    let guests = ["answer", "spin"].map(Guest::read);
    let builder = TestHost::builder().limits("timeout_ms: 60000").extend(limited);
    let builder = guests.iter().fold(builder, |builder, guest| builder.guest(guest));
    let host = WORLD.runtime.block_on(builder.build());
    good_calls(host.host());
    let quiet = good_calls(host.host());
    let mut hostile = JoinSet::new();
    let (share, queue) = FAIR;
    for _ in 0..share + queue {
        hostile.spawn_on(call_of("hostile", "spin", host.host()), WORLD.runtime.handle());
    }
    pause(Duration::from_millis(200));
    let beside = good_calls(host.host());
    let shed = WORLD.runtime.block_on(call_of("hostile", "spin", host.host()));
    drop(hostile);
    json!({"quiet": quiet.shown(), "beside": beside.shown(), "calls": beside.0.len(), "shed": shed})
}

/// Makes calls that arrive from outside of the runtime, as those of a connection do.
fn good_calls(host: &Host) -> Times {
    let (mut times, begun) = (Times::default(), Instant::now());
    while begun.elapsed() < BESIDE {
        let started = Instant::now();
        let done = WORLD.runtime.spawn(call_of("good", "answer", host));
        assert_eq!(WORLD.runtime.block_on(done).expect("a call"), "answered");
        times.add(started.elapsed());
        // The next one does not find the worker still awake.
        pause(Duration::from_micros(300));
    }
    times
}

/// Calls, and says how that ended.
fn call_of(agent: &str, tool: &str, host: &Host) -> impl Future<Output = String> + Send + use<> {
    let (call, host) = (ToolCall::new(Principal(agent.to_owned()), tool, json!({})), host.clone());
    async move {
        match host.call(call).await {
            Ok(_) => "answered".to_owned(),
            Err(error) => format!("{} {}", error.kind.code(), error.kind.name()),
        }
    }
}

/// What a tool takes before its first call and from then on, and a call that runs, of memory that is in no file, in KiB.
fn memory() -> Value {
    let idle = |tools: usize| {
        let names: Vec<String> = (0..tools).map(|number| format!("calc{number:06}")).collect();
        let builder = names.iter().fold(TestHost::builder(), |builder, name| {
            builder.tool_file(&format!("{name}.wasm"), &renamed(name))
        });
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        let (builder, before) = (builder.only(&listed), anonymous_kib());
        let host = WORLD.runtime.block_on(builder.build());
        assert_eq!(host.names().len(), tools, "{}", host.refused());
        (host, anonymous_kib() - before)
    };
    // Compiles all that is not compiled yet; what that took is given back at the next start at the latest.
    drop(idle(IDLE + 1));
    drop(idle(1));
    let ((_one, first), (many, all)) = (idle(1), idle(IDLE + 1));
    let before = anonymous_kib();
    for tool in many.names() {
        let sum = json!({"expression": "6*7"});
        let call = ToolCall::new(Principal("good".to_owned()), tool, sum);
        WORLD.runtime.block_on(many.host().call(call)).expect("a number");
    }
    let called = anonymous_kib() - before;
    let builder = TestHost::builder().limits("timeout_ms: 60000").calls_running(ASLEEP + 1);
    let builder = builder.guest(&Guest::read("sleep")).guest(&Guest::read("answer"));
    let host = WORLD.runtime.block_on(builder.build());
    good_calls(host.host());
    let (mut asleep, before) = (JoinSet::new(), anonymous_kib());
    let written = written_kib();
    for _ in 0..ASLEEP {
        asleep.spawn_on(call_of("good", "sleep", host.host()), WORLD.runtime.handle());
    }
    pause(Duration::from_millis(500));
    let running = anonymous_kib() - before;
    let written = written_kib() - written;
    let each = |kib: f64, count: usize| (kib / count as f64 * 10.0).round() / 10.0;
    json!({"idle tool": each(all - first, IDLE), "called tool": each(called, IDLE + 1), "running call": each(running - written, ASLEEP), "written": each(written, ASLEEP), "running calls": running})
}

/// The calculator, under another name of the same length.
fn renamed(name: &str) -> Vec<u8> {
    let (old, mut bytes) = (b"calculator", built_in("calculator").to_vec());
    for at in 0..bytes.len() - old.len() {
        if bytes[at..].starts_with(old) {
            bytes[at..at + old.len()].copy_from_slice(name.as_bytes());
        }
    }
    bytes
}

fn anonymous_kib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    field(&text, "Anonymous").sum()
}

/// What guests of one page wrote to: their memories are mappings of that length.
fn written_kib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (sizes, written) = (field(&text, "Size"), field(&text, "Anonymous"));
    sizes.zip(written).filter(|(size, _)| *size == 64.0).map(|(_, kib)| kib).sum()
}

/// Returns the numbers that the system gives under a name, in KiB.
fn field<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = f64> + 't {
    let lines = text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'));
    lines.filter_map(|number| number.trim().trim_end_matches(" kB").parse().ok())
}
