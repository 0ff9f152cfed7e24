//! What a call of a warm tool costs inside the host, whole and split into its stages, beside the
//! same component on bare wasmtime in the same run.
//!
//! `cargo bench -p clawhost-tests` measures the release build; with `--profile dev` it measures
//! what `cargo run` starts, and builds nothing anew. With `-- --figures` it prints, as JSON, where the time
//! of such a call goes, what it costs beside hostile calls, and what it takes of memory: what
//! `tests/bench/run.sh` makes its page of. With `-- --rate` it prints, for each line that it reads, how many calls a
//! second one thread of it makes, so that processes can be measured beside each other.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up does not run")]
#![expect(clippy::indexing_slicing, reason = "likewise")]
#![expect(clippy::disallowed_methods, reason = "the system says what memory this process has")]

mod bare;
mod figures;
mod limits;

use std::sync::LazyLock;
use std::time::Duration;

use bare::{Bare, Way};
use clawhost::HostBuilder;
use clawhost::audit::SigningKey;
use clawhost::sandbox::{Backends, CallState, Sandbox, link};
use clawhost_tests::{Guest, TestHost};
use divan::Bencher;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wasmtime::component::Linker;

/// Longer than any call here takes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A built-in tool that reads a small file, and a guest that does nothing but answer.
const TOOLS: [&str; 2] = ["read_file", "answer"];

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
    // As `clawhost run` has it: every record is signed.
    let signed = |host: HostBuilder| host.audit_key(SigningKey::from_seed(&[7; 32]));
    let builder = builder.definitions(THREE).extend(signed);
    let host = runtime.block_on(builder.build());
    World { runtime, host }
});

fn main() {
    let is_asked_for = |what: &str| std::env::args().any(|argument| argument == what);
    if is_asked_for("--figures") {
        println!("{:#}", figures::all());
    } else if is_asked_for("--rate") {
        figures::rate_a_line();
    } else {
        divan::main();
    }
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

/// Wasmtime with a pool and fuel: what no metered call can be under.
#[divan::bench(args = TOOLS)]
fn metered_wasmtime(bencher: Bencher<'_, '_>, tool: &str) {
    bench_bare(bencher, tool, Way::Metered);
}

/// Wasmtime with a pool and nothing else: what nobody can be under.
#[divan::bench(args = TOOLS)]
fn bare_wasmtime(bencher: Bencher<'_, '_>, tool: &str) {
    bench_bare(bencher, tool, Way::Best);
}

fn bench_bare(bencher: Bencher<'_, '_>, tool: &str, way: Way) {
    let arguments = arguments(tool).to_string();
    let (answers, reads) = (answer_on(way), linked_on(&WORLD.host, "read_file", way));
    bencher.bench_local(|| match tool {
        "read_file" => WORLD.runtime.block_on(reads.call(tool, &arguments)),
        _ => WORLD.runtime.block_on(answers.call(tool, &arguments)),
    });
}

/// A guest that does nothing but answer, with nothing of the host's around it.
fn answer_on(way: Way) -> Bare<()> {
    Bare::new("answer", way, Linker::new, || ())
}

/// A tool with the host's functions around it: what reads a file has to have them.
fn linked_on(host: &TestHost, tool: &'static str, way: Way) -> Bare<CallState> {
    let found = host.host().catalog().find(tool).cloned().expect("the tool");
    let sandbox = Sandbox::open(found.grants.clone(), Backends::none()).expect("a sandbox");
    let link = |engine: &_| link(engine).expect("a linker");
    let state = move || sandbox.enter(tool, TIMEOUT, None).expect("a state");
    Bare::new(tool, way, link, state)
}
