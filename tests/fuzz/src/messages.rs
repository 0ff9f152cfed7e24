//! Lines of a client, in both dialects, to a real host: the framer, strict JSON, messages,
//! parameters and calls.
//!
//! The oracles: every line out is one JSON-RPC message, no request is answered more often than it
//! was made, the host does not fail, and the connection ends when its input does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use clawhost::host::Principal;
use clawhost::serve::{Shutdown, serve_streams};
use clawhost_core::json;
use clawhost_tests::TestHost;
use clawhost_tests::canary::SECRET;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const HANGS: Duration = Duration::from_secs(15);
/// Connections of one host; its record grows with each.
const CONNECTIONS: u32 = 20_000;

/// Sends `data` over one connection.
pub fn run(data: &[u8]) {
    thread_local!(static WORLD: RefCell<Option<World>> = const { RefCell::new(None) });
    WORLD.with_borrow_mut(|kept| {
        let world = kept.get_or_insert_with(World::new);
        let answers = world.runtime.block_on(world.talk(data));
        check(data, &answers);
        world.host.canaries().check();
        world.connections += 1;
        if world.connections == CONNECTIONS {
            *kept = None;
        }
    });
}

struct World {
    host: TestHost,
    runtime: Runtime,
    connections: u32,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let host = runtime.block_on(TestHost::builder().file("a.txt", "text").build());
        Self { host, runtime, connections: 0 }
    }

    /// Returns everything that the host says to `data`.
    async fn talk(&self, data: &[u8]) -> Vec<u8> {
        let (ours, theirs) = tokio::io::duplex(65_536);
        let (mut answers, mut lines) = tokio::io::split(ours);
        let shutdown = Shutdown { told: CancellationToken::new(), grace: Duration::ZERO };
        let principal = Principal("fuzz".to_owned());
        let streams = tokio::io::split(theirs);
        let served = serve_streams(self.host.host().clone(), principal, streams, shutdown);
        let served = tokio::spawn(served);
        let send = async {
            // The host may hang up first.
            drop(lines.write_all(data).await);
            drop(lines.shutdown().await);
        };
        let mut said = Vec::new();
        let receive = answers.read_to_end(&mut said);
        let both = async { tokio::join!(send, receive) };
        let (_, received) = tokio::time::timeout(HANGS, both).await.expect("the host hangs");
        received.expect("a pipe does not break");
        served.await.expect("serving does not panic");
        said
    }
}

fn check(data: &[u8], said: &[u8]) {
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(message) = json::parse(line)
            && let Some(id) = message.get("id")
        {
            *asked.entry(id.to_string()).or_default() += 1;
        }
    }
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message = json::parse(line).expect("an answer is strict JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        assert!(!message.to_string().contains(SECRET), "{message}");
        assert_ne!(message.pointer("/error/code"), Some(&Value::from(-32603)), "{message}");
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        if let Some(id) = message.get("id").filter(|id| is_answer && !id.is_null()) {
            let left = asked.get_mut(&id.to_string()).filter(|left| **left > 0);
            *left.unwrap_or_else(|| panic!("an answer nobody waits for: {message}")) -= 1;
        }
    }
}
