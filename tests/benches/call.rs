//! What a call of a warm tool costs inside the host, whole and in parts, beside the same
//! component on bare wasmtime in the same run: `cargo bench -p clawhost-tests`.
//!
//! The parts are those of `dispatch`: look-up and gate, a store and an instance, the guest's own
//! work, the result filter, two audit records. Their sum is below the whole by what lies
//! between them: a place in the queue, two looks at the clock, the copies of name and arguments.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a bench that cannot be set up does not run"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::audit::{AuditLog, CallSpan};
use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost::sandbox::bindings::GuestPre;
use clawhost::sandbox::clock::CallClock;
use clawhost::sandbox::{CallState, Sandbox, link};
use clawhost_core::limits::REPLY_BYTES_MAX;
use clawhost_core::reply::ToolReply;
use clawhost_core::truncate;
use clawhost_tests::{Guest, TestHost};
use divan::Bencher;
use serde_json::json;
use tokio::runtime::Runtime;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, Store};

const STARTUP: Duration = Duration::from_secs(1);
/// Two calls of interest: a built-in tool that reads a small file, and one that does nothing.
const TOOLS: [&str; 2] = ["read_file", "answer"];

/// Everything is made once; each bench measures only what it is named for.
struct World {
    runtime: Runtime,
    host: TestHost,
    audit: Arc<AuditLog>,
    _audit: tempfile::TempDir,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let builder = TestHost::builder()
        .file("hello.txt", "hello")
        .guest(&Guest::read("answer"));
    let host = runtime.block_on(builder.build());
    let folder = tempfile::tempdir().expect("a folder");
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("the folder");
    let audit = Arc::new(AuditLog::open(&dir).expect("a log"));
    World {
        runtime,
        host,
        audit,
        _audit: folder,
    }
});

fn main() {
    divan::main();
}

fn arguments(tool: &str) -> serde_json::Value {
    match tool {
        "read_file" => json!({"path": "hello.txt"}),
        _ => json!({}),
    }
}

/// The whole path, from the call as it arrives to the reply as it leaves.
#[divan::bench(args = TOOLS)]
fn a_whole(bencher: Bencher<'_, '_>, tool: &str) {
    let world = &*WORLD;
    bencher.bench_local(|| {
        let reply = world
            .runtime
            .block_on(world.host.call(tool, arguments(tool)));
        assert!(!reply.expect("a reply").is_error);
    });
}

/// Look-up, argument schema, policy, sandbox admission.
#[divan::bench]
fn b_gate(bencher: Bencher<'_, '_>) {
    let world = &*WORLD;
    let catalog = world.host.host().catalog();
    let arguments = arguments("read_file");
    bencher.bench_local(|| {
        let tool = catalog.find(black_box("read_file")).expect("the tool");
        assert!(
            tool.input
                .iter()
                .all(|schema| schema.check(&arguments).is_ok())
        );
        let text = arguments.to_string();
        (world.host.host().offers(tool), text)
    });
}

/// A store with a call's capabilities and limits, and an instance in it.
#[divan::bench(args = TOOLS)]
fn c_instantiate(bencher: Bencher<'_, '_>, tool: &str) {
    let bench = Bare::metered(tool);
    bencher.bench_local(|| WORLD.runtime.block_on(bench.instantiate()));
}

/// The same, and the guest's own work.
#[divan::bench(args = TOOLS)]
fn d_instantiate_and_guest(bencher: Bencher<'_, '_>, tool: &str) {
    let bench = Bare::metered(tool);
    let arguments = arguments(tool).to_string();
    bencher.bench_local(|| WORLD.runtime.block_on(bench.call(tool, &arguments)));
}

/// The result schema and the size cap.
#[divan::bench]
fn e_filter(bencher: Bencher<'_, '_>) {
    let tool = WORLD
        .host
        .host()
        .catalog()
        .find("read_file")
        .cloned()
        .expect("the tool");
    let reply = || ToolReply {
        structured: Some(json!({"content": "hello"})),
        ..ToolReply::default()
    };
    bencher.with_inputs(reply).bench_local_values(|reply| {
        let structured = reply.structured.as_ref().expect("a value");
        assert!(
            tool.output
                .iter()
                .all(|schema| schema.check(structured).is_ok())
        );
        truncate::reply(reply, REPLY_BYTES_MAX)
    });
}

/// The two records of a call, hashed, chained and handed to the kernel.
#[divan::bench]
fn f_audit(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        let span =
            CallSpan::open(&WORLD.audit, "1", "bench", "read_file", "sha256:0").expect("opened");
        span.close(&Ok(ToolReply::default())).expect("closed");
    });
}

/// Bare wasmtime with a pool: no fuel, no limits, no hooks. What nobody can be faster than.
#[divan::bench(args = TOOLS)]
fn g_bare_wasmtime(bencher: Bencher<'_, '_>, tool: &str) {
    let bench = Bare::unmetered(tool);
    let arguments = arguments(tool).to_string();
    bencher.bench_local(|| WORLD.runtime.block_on(bench.call(tool, &arguments)));
}

/// A component, linked, on an engine of its own.
struct Bare {
    engine: Engine,
    pre: GuestPre<CallState>,
    sandbox: Sandbox,
    metered: bool,
}

impl Bare {
    fn metered(tool: &str) -> Self {
        Self::new(tool, true)
    }

    fn unmetered(tool: &str) -> Self {
        Self::new(tool, false)
    }

    fn new(tool: &str, metered: bool) -> Self {
        let mut config = Config::new();
        config
            .consume_fuel(metered)
            .allocation_strategy(InstanceAllocationStrategy::pooling());
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_binary(&engine, &bytes(tool)).expect("a component");
        let pre = link(&engine)
            .expect("a linker")
            .instantiate_pre(&component)
            .expect("linked");
        let grants = WORLD
            .host
            .host()
            .catalog()
            .find(tool)
            .expect("the tool")
            .grants
            .clone();
        let client = clawhost::upstream::http::HttpClient::system();
        let sandbox = Sandbox::open(grants, client).expect("a sandbox");
        Self {
            engine,
            pre: GuestPre::new(pre).expect("the world"),
            sandbox,
            metered,
        }
    }

    fn store(&self, tool: &str) -> Store<CallState> {
        let state = self.sandbox.enter(tool, STARTUP, None);
        if self.metered {
            return state.into_store(&self.engine).expect("a store");
        }
        Store::new(&self.engine, state)
    }

    async fn instantiate(&self) {
        let mut store = self.store("bench");
        self.pre
            .instantiate_async(&mut store)
            .await
            .expect("an instance");
    }

    async fn call(&self, tool: &str, arguments: &String) {
        let mut store = self.store(tool);
        let guest = self
            .pre
            .instantiate_async(&mut store)
            .await
            .expect("an instance");
        if self.metered {
            CallState::start_clock(&mut store, CallClock::start(STARTUP)).expect("a clock");
        }
        let answer = guest
            .claw_tool_tool()
            .call_call(&mut store, tool, arguments)
            .await;
        assert!(answer.expect("no trap").is_ok());
    }
}

fn bytes(tool: &str) -> Vec<u8> {
    match tool {
        "read_file" => {
            let component = BUILT_IN_COMPONENTS
                .iter()
                .find(|artifact| artifact.name == "file-io");
            component.expect("the component").bytes.to_vec()
        }
        other => Guest::read(other).wasm(),
    }
}
