//! What a call of a warm tool costs inside the host, whole and split into its stages, beside the
//! same component on bare wasmtime in the same run.
//!
//! `cargo bench -p clawhost-tests` measures the release build; with `--profile dev` it measures
//! what `cargo run` starts, and builds nothing anew. First come the whole calls, then a table of
//! where the time of such a call goes, in medians, and what a composite of three calls costs beside the
//! three.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up does not run")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use clawhost::host::Timings;
use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost::sandbox::bindings::GuestPre;
use clawhost::sandbox::clock::CallClock;
use clawhost::sandbox::{Backends, CallState, Sandbox, link};
use clawhost_tests::{Guest, TestHost, host};
use divan::Bencher;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, Store};

/// Longer than any call here takes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A built-in tool that reads a small file, and a guest that does nothing but answer.
const TOOLS: [&str; 2] = ["read_file", "answer"];
/// Calls that the table of stages is the median of, after as many to warm up.
const CALLS: usize = 2_000;

/// Three calls, each with what the one before had: none runs beside another.
const THREE: &str = "version: 1
tools:
  three:
    composite:
      description: Reads three times.
      input_schema: { type: object }
      steps:
        - { tool_name: read_file, arg_mapping: { path: input.path }, output_key: a }
        - { tool_name: read_file, arg_mapping: { path: a.content }, output_key: b }
        - { tool_name: read_file, arg_mapping: { path: b.content }, output_key: c }
";

struct World {
    runtime: Runtime,
    host: TestHost,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let builder = TestHost::builder().file("hello.txt", "hello.txt").guest(&Guest::read("answer"));
    let builder = builder.definitions(THREE);
    let host = runtime.block_on(builder.build());
    World { runtime, host }
});

fn main() {
    divan::main();
    TOOLS.iter().for_each(|tool| print_stages(tool));
    print_composite();
}

fn arguments(tool: &str) -> Value {
    match tool {
        "read_file" => json!({"path": "hello.txt"}),
        _ => json!({}),
    }
}

/// From the call as it arrives to the reply as it leaves, both records written.
#[divan::bench(args = TOOLS)]
fn clawhost_call(bencher: Bencher<'_, '_>, tool: &str) {
    bencher.bench_local(|| {
        let reply = WORLD.runtime.block_on(WORLD.host.call(tool, arguments(tool)));
        assert!(!reply.expect("a reply").is_error);
    });
}

/// Wasmtime with a pool, fuel, limits and the host's hooks: what no metered call can be under.
#[divan::bench(args = TOOLS)]
fn metered_wasmtime(bencher: Bencher<'_, '_>, tool: &str) {
    bench_bare(bencher, tool, true);
}

/// Wasmtime with a pool and nothing else: what nobody can be under.
#[divan::bench(args = TOOLS)]
fn bare_wasmtime(bencher: Bencher<'_, '_>, tool: &str) {
    bench_bare(bencher, tool, false);
}

fn bench_bare(bencher: Bencher<'_, '_>, tool: &str, metered: bool) {
    let bare = Bare::new(tool, metered);
    let arguments = arguments(tool).to_string();
    bencher.bench_local(|| WORLD.runtime.block_on(bare.call(tool, &arguments)));
}

/// Picks one stage's time.
type Stage = fn(&Timings) -> Duration;

/// Prints where the time of a call goes, and how it compares with bare wasmtime, call by call in
/// turn so that both see the same machine.
fn print_stages(tool: &str) {
    let bare = Bare::new(tool, false);
    let text = arguments(tool).to_string();
    let (mut timings, mut whole, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2 * CALLS {
        let started = Instant::now();
        let call = WORLD.host.host().call_timed(host::call(tool, arguments(tool)));
        let (reply, split) = WORLD.runtime.block_on(call);
        let took = started.elapsed();
        assert!(!reply.expect("a reply").is_error);
        let started = Instant::now();
        WORLD.runtime.block_on(bare.call(tool, &text));
        if round >= CALLS {
            timings.push(split);
            whole.push(took);
            alone.push(started.elapsed());
        }
    }
    let stages: [(&str, Stage); 6] = [
        ("audit", |timings| timings.audit),
        ("gate", |timings| timings.gate),
        ("wait", |timings| timings.wait),
        ("instantiate", |timings| timings.instantiate),
        ("guest", |timings| timings.guest),
        ("filter", |timings| timings.filter),
    ];
    println!("\n{tool}: medians of {CALLS} calls, in µs");
    for (name, stage) in stages {
        println!("  {name:<14}{:>9.1}", micros(median(timings.iter().map(stage).collect())));
    }
    let (whole, alone) = (micros(median(whole)), micros(median(alone)));
    println!("  {:<14}{whole:>9.1}", "whole");
    println!("  {:<14}{alone:>9.1}   ({:.2} times)", "bare wasmtime", whole / alone);
}

/// Prints what a composite of three calls takes beside the three, in turn in one run.
fn print_composite() {
    let took = |tool: &str| {
        let started = Instant::now();
        let reply = WORLD.runtime.block_on(WORLD.host.call(tool, arguments("read_file")));
        assert!(!reply.expect("a reply").is_error);
        started.elapsed()
    };
    let (mut single, mut whole) = (Vec::new(), Vec::new());
    for round in 0..2 * CALLS {
        let three = took("read_file") + took("read_file") + took("read_file");
        let composite = took("three");
        if round >= CALLS {
            single.push(three);
            whole.push(composite);
        }
    }
    let (single, whole) = (micros(median(single)), micros(median(whole)));
    println!("\nthree steps: medians of {CALLS}, in µs");
    println!("  {:<14}{single:>9.1}", "three calls");
    println!("  {:<14}{whole:>9.1}   ({:.2} times)", "composite", whole / single);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().expect("some calls")
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A component, linked, on an engine of its own.
struct Bare {
    engine: Engine,
    pre: GuestPre<CallState>,
    sandbox: Sandbox,
    metered: bool,
}

impl Bare {
    fn new(tool: &str, metered: bool) -> Self {
        let mut config = Config::new();
        config.consume_fuel(metered).allocation_strategy(InstanceAllocationStrategy::pooling());
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_binary(&engine, &bytes(tool)).expect("a component");
        let pre = link(&engine).expect("a linker").instantiate_pre(&component).expect("linked");
        let tool = WORLD.host.host().catalog().find(tool).cloned().expect("the tool");
        let sandbox = Sandbox::open(tool.grants.clone(), Backends::none()).expect("a sandbox");
        Self { engine, pre: GuestPre::new(pre).expect("the world"), sandbox, metered }
    }

    async fn call(&self, tool: &str, arguments: &String) {
        let state = self.sandbox.enter(tool, TIMEOUT, None).expect("a state");
        let mut store = match self.metered {
            true => state.into_store(&self.engine).expect("a store"),
            false => Store::new(&self.engine, state),
        };
        let guest = self.pre.instantiate_async(&mut store).await.expect("an instance");
        if self.metered {
            CallState::start_clock(&mut store, CallClock::start(TIMEOUT)).expect("a clock");
        }
        let answer = guest.claw_tool_tool().call_call(&mut store, tool, arguments).await;
        assert!(answer.expect("no trap").is_ok());
    }
}

fn bytes(tool: &str) -> Vec<u8> {
    match tool {
        "read_file" => {
            let file_io = BUILT_IN_COMPONENTS.iter().find(|artifact| artifact.name == "file-io");
            file_io.expect("the component").bytes.to_vec()
        }
        other => Guest::read(other).wasm(),
    }
}
