//! Host calls by a guest that does whatever the bytes say: files, streams, requests, keys, clocks.
//!
//! The oracles: no canary is read or touched, nothing appears beside the granted folder, the host
//! neither fails nor misses the deadline, and the record is whole.
//!
//! Deliberately absent: native programs, which the escape lab and the jail's own tests start.

use std::cell::RefCell;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use clawhost_core::error::ErrorKind;
use clawhost_core::reply::Content;
use clawhost_tests::TestHost;
use clawhost_tests::canary::SECRET;
use serde_json::json;
use tokio::runtime::Runtime;

use super::interpreter;

const INTERFACES: [&str; 15] = [
    "claw:host/log@0.1.0",
    "claw:host/progress@0.1.0",
    "claw:host/cancellation@0.1.0",
    "claw:host/memory@0.1.0",
    "wasi:io/error@0.2.12",
    "wasi:io/poll@0.2.12",
    "wasi:io/streams@0.2.12",
    "wasi:clocks/monotonic-clock@0.2.12",
    "wasi:clocks/wall-clock@0.2.12",
    "wasi:random/random@0.2.12",
    "wasi:cli/environment@0.2.12",
    "wasi:filesystem/types@0.2.12",
    "wasi:filesystem/preopens@0.2.12",
    "wasi:http/types@0.2.12",
    "wasi:http/outgoing-handler@0.2.12",
];
/// Names in the granted folder, ways out of it, and what requests and keys are made of.
const TEXTS: [&str; 40] = [
    "a", "b", "c", "a/b", "b/c", "b/deep/file", ".", "..", "", "/", "../outside/canary.txt",
    "../outside", "b/../../outside/canary.txt", "./b/../a", "link", "link/canary.txt", "out",
    "out/canary.txt", "absolute", "loop", "hard", "/etc/passwd", "/proc/self/environ", "b/", "b/.",
    "shut", "shut/canary.txt", "GET", "CONNECT", "http", "10.0.0.1", "127.0.0.1:80",
    "169.254.169.254", "user@10.0.0.1", "/path?query=1", "content-length", "host", "12", "key",
    "\u{1F600}",
];
/// The time a call is given, which most programs do not need.
const TIMEOUT_MS: u64 = 200;
/// What a busy machine may add to it.
const LATE: Duration = Duration::from_secs(5);
/// Calls of one host; its record grows with each.
const CALLS: u32 = 20_000;

/// Runs `data` as a program.
pub fn run(data: &[u8]) {
    thread_local!(static WORLD: RefCell<Option<World>> = const { RefCell::new(None) });
    WORLD.with_borrow_mut(|kept| {
        let world = kept.get_or_insert_with(World::new);
        world.run(data);
        world.calls += 1;
        if world.calls == CALLS {
            world.host.check_audit();
            *kept = None;
        }
    });
}

struct World {
    host: TestHost,
    runtime: Runtime,
    calls: u32,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let host = TestHost::builder()
            .only(&[interpreter::TOOL])
            .tool_file("calls.wasm", &interpreter::component(&INTERFACES, &TEXTS))
            .capabilities("network: {mode: allowlist, allowed_hosts: [10.0.0.1, 127.0.0.1, 169.254.169.254], ssrf_protection: {enabled: true, block_private_ips: true, dns_pinning: true}}")
            .denied_paths(&["./workspace/shut"])
            .runtime_file("{version: 1, profiles: {sandbox-0: {memory: true}}}")
            .limits(&format!("timeout_ms: {TIMEOUT_MS}"));
        let host = runtime.block_on(host.build());
        assert_eq!(host.names(), [interpreter::TOOL], "{}", host.refused());
        Self { host, runtime, calls: 0 }
    }

    fn run(&self, data: &[u8]) {
        lay_out(&self.host.workspace());
        let program: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let begun = Instant::now();
        let outcome =
            self.runtime.block_on(self.host.call(interpreter::TOOL, json!({"case": program})));
        assert!(
            begun.elapsed() < Duration::from_millis(TIMEOUT_MS) + LATE,
            "{:?}",
            begun.elapsed()
        );
        let shown = match outcome {
            Err(error) => {
                assert_ne!(error.kind, ErrorKind::Internal, "{error:?}");
                format!("{error:?}").into_bytes()
            }
            Ok(reply) => reply.content.into_iter().flat_map(bytes).collect(),
        };
        // What the program itself holds comes back, and says nothing.
        let secret = SECRET.as_bytes();
        let holds = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!holds(&shown) || holds(data), "a canary was read");
        self.host.canaries().check();
        let shut = std::fs::read_to_string(self.host.workspace().join("shut/canary.txt"));
        assert_eq!(shut.unwrap(), SECRET, "a denied path was written");
    }
}

fn bytes(block: Content) -> Vec<u8> {
    match block {
        Content::Image { data, .. } => data,
        Content::Text(text) => text.into_bytes(),
        _ => Vec::new(),
    }
}

/// Empties the folder and lays it out to hurt.
fn lay_out(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }
    std::fs::create_dir_all(folder.join("b/deep")).unwrap();
    std::fs::create_dir(folder.join("shut")).unwrap();
    std::fs::write(folder.join("shut/canary.txt"), SECRET).unwrap();
    std::fs::write(folder.join("a"), "text").unwrap();
    std::fs::write(folder.join("b/deep/file"), "more text").unwrap();
    std::fs::hard_link(folder.join("a"), folder.join("hard")).unwrap();
    for (link, to) in
        [("link", "b"), ("out", "../outside"), ("absolute", "/etc/passwd"), ("loop", "loop")]
    {
        symlink(to, folder.join(link)).unwrap();
    }
}
