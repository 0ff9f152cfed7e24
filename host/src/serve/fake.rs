//! A host that misbehaves on demand, and a client that looks closely.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::{Annotations, Catalog, Origin, Tool, ToolDefinition};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::exposed::{Exposed, ExposedKind, List, Served};
use clawhost_core::grants::Grants;
use clawhost_core::limits::EXPOSED_ITEM_BYTES_MAX;
use clawhost_core::manifest::{self, Manifest, OneDocument, Surroundings};
use clawhost_core::policy::{ApprovalTerms, ToolPaths};
use clawhost_core::reply::{Content, ToolReply};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::{Calls, Services};
use super::framer::serve_lines;
use crate::approvals::{self, Approvals, Question};
use crate::clock::Clock;
use crate::host::{Principal, ToolCall};
use crate::secrets::Secrets;
use crate::state::Database;
use crate::telemetry::Telemetry;

/// A host of a few tools: `echo`, `whoami`, `slow` (until [`Fake::release`]), `steps` (reports
/// progress), `denied`, `broken`, `panics`, `asks` (a person). Not listed are `asks-both` (about two calls at
/// once), `steps-and-asks` (between two reports of progress) and `forms` (asks its client for `a`, and gives that up
/// for `b`).
#[derive(Debug, Clone)]
pub(crate) struct Fake(Arc<State>);

#[derive(Debug)]
struct State {
    approvals: Approvals,
    identities: BTreeMap<String, String>,
    running: TaskTracker,
    secrets: Secrets,
    telemetry: Telemetry,
    catalog: Arc<Catalog>,
    manifest: Arc<Manifest>,
    dropped: watch::Sender<usize>,
    listed: watch::Sender<usize>,
    released: watch::Sender<bool>,
    started: watch::Sender<usize>,
    version: watch::Sender<u64>,
}

impl Fake {
    /// Returns a host nobody has called yet.
    pub(crate) fn new() -> Self {
        Self::of(CLAW)
    }

    /// Returns a host that runs this Claw.
    pub(crate) fn of(claw: &'static str) -> Self {
        let names = ["echo", "whoami", "slow", "steps", "denied", "broken", "panics", "asks"];
        Self::with(claw, names.map(tool), Vec::new())
    }

    /// Returns a host that takes [`DESCRIPTION_BYTES`] to describe its one tool, by which a hundred
    /// resources with much to say are read.
    pub(crate) fn wordy() -> Self {
        let mut slow = tool("slow");
        slow.definition.description = "x".repeat(DESCRIPTION_BYTES);
        let words = "x".repeat(EXPOSED_ITEM_BYTES_MAX / 2);
        let item = |n| json!({"uri": format!("x:{n}"), "name": "n", "description": words});
        let items = (0..100).map(item).collect();
        let lists = Arc::new(Exposed([(List::Resources, items)].into()));
        let tool = "slow".to_owned();
        Self::with(CLAW, [slow], vec![Served { kind: ExposedKind::Resources, tool, lists }])
    }

    fn with(
        claw: &'static str,
        tools: impl IntoIterator<Item = Tool>,
        exposed: Vec<Served>,
    ) -> Self {
        let mut catalog = Catalog::default();
        (catalog.version, catalog.exposed) = (1, exposed);
        tools.into_iter().for_each(|tool| catalog.add(Arc::new(tool)).unwrap());
        let database = Database::in_memory(&[("approvals", approvals::MIGRATIONS)]).unwrap();
        let running = TaskTracker::new();
        running.close();
        Self(Arc::new(State {
            approvals: Approvals::new(database, Clock::system()),
            identities: BTreeMap::new(),
            running,
            secrets: Secrets::none(),
            telemetry: Telemetry::off(),
            catalog: Arc::new(catalog),
            manifest: Arc::new(read(claw)),
            dropped: watch::Sender::new(0),
            listed: watch::Sender::new(0),
            released: watch::Sender::new(false),
            started: watch::Sender::new(0),
            version: watch::Sender::new(1),
        }))
    }

    /// Lets every `slow` call end.
    pub(crate) fn release(&self) {
        self.0.released.send_replace(true);
    }

    /// Says that the tools have changed.
    pub(crate) fn change(&self) {
        self.0.version.send_modify(|version| *version += 1);
    }

    /// Waits until `count` calls have started.
    pub(crate) async fn started(&self, count: usize) {
        self.0.started.subscribe().wait_for(|started| *started >= count).await.unwrap();
    }

    /// Waits until the tools have been listed `count` times.
    pub(crate) async fn listed(&self, count: usize) {
        self.0.listed.subscribe().wait_for(|listed| *listed >= count).await.unwrap();
    }

    /// Waits until `count` calls have been dropped before they ended.
    pub(crate) async fn dropped(&self, count: usize) {
        self.0.dropped.subscribe().wait_for(|dropped| *dropped >= count).await.unwrap();
    }
}

/// What a wordy host's list of tools has at least.
pub(crate) const DESCRIPTION_BYTES: usize = 1_048_576;

/// The Claw of a host where a test does not say.
const CLAW: &str = r#"{"claw": "0.3.0", "kind": "Claw", "metadata": {"name": "test-agent", "annotations": {"heartbeat_interval_ms": 0}}, "spec": {
    "identity": {"inline": {"personality": "Tests.", "autonomy": "autonomous"}},
    "providers": [{"inline": {"protocol": "openai-compatible", "endpoint": "http://127.0.0.1:9/v1",
        "model": "none", "auth": {"type": "none"}}}],
    "policies": [{"metadata": {"version": "1.0.0"}, "inline": {"name": "all", "rules": [
        {"id": "all", "action": "allow", "scope": "all"}]}}]}}"#;

fn read(claw: &'static str) -> Manifest {
    let profiles = manifest::builtin_profiles(Path::new("/")).unwrap();
    let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
    manifest::load(&OneDocument(claw.into()), &["claw.json".into()], around).unwrap()
}

fn tool(name: &str) -> Tool {
    Tool {
        definition: ToolDefinition::new(
            name,
            format!("The tool {name}."),
            json!({"type": "object"}),
        ),
        hints: Annotations::default(),
        ckp_name: name.to_owned(),
        version: None,
        declared: serde_json::Map::new(),
        governed: None,
        managed: None,
        surfaced: false,
        paths: ToolPaths::default(),
        digest: "sha256:00".to_owned(),
        asks: false,
        origin: Origin::DropIn { file: "fake.wasm".to_owned() },
        grants: Grants::default(),
        policy_refs: Vec::new(),
        category: None,
        retry: clawhost_core::retry::RetryPlan::ONCE,
        input: Vec::new(),
        output: Vec::new(),
    }
}

/// Counts a call that is dropped before it ends.
struct Running<'a>(&'a State, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.send_modify(|dropped| *dropped += 1);
        }
    }
}

impl State {
    async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        let _counted = self.running.token();
        if let Some(refused) = call.context.refused {
            return Err(refused);
        }
        self.started.send_modify(|started| *started += 1);
        let mut running = Running(self, false);
        let outcome = self.outcome(call).await;
        running.1 = true;
        outcome
    }

    async fn outcome(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        let text = |text: &str| ToolReply {
            content: vec![Content::Text(text.to_owned())],
            ..ToolReply::default()
        };
        let session = call.context.session.as_ref();
        let is_listed = session.is_none_or(|session| session.tool(&call.tool).is_some());
        match call.tool.as_str() {
            _ if !is_listed => {
                Err(CallError::new(ErrorKind::UnknownTool, "no tool of the session"))
            }
            "echo" => Ok(ToolReply { structured: Some(call.arguments), ..ToolReply::default() }),
            "whoami" => Ok(text(&match call.context.trace {
                Some(trace) => format!("{} in {trace}", call.principal.0),
                None => call.principal.0,
            })),
            "slow" => {
                self.released.subscribe().wait_for(|released| *released).await.unwrap();
                Ok(text("at last"))
            }
            "steps" => {
                if let Some(progress) = call.progress {
                    for step in [1.0, 2.0, 2.0, f64::NAN, 3.0] {
                        progress(step, Some(3.0), None);
                    }
                }
                Ok(text("done"))
            }
            "denied" => Err(CallError::new(ErrorKind::Policy, "refused").with("rule_id", "r1")),
            "asks" => {
                let waiting = call.context.waiting.clone();
                self.approvals.ask(question(call), waiting.as_ref()).await?;
                Ok(text("approved"))
            }
            "asks-both" => {
                let waiting = call.context.waiting.as_ref();
                let asking = ["first", "second"].map(|tool| {
                    let call = ToolCall { tool: tool.to_owned(), ..call.clone() };
                    self.approvals.ask(question(call), waiting)
                });
                let answers = join_all(asking).await;
                let approved: Vec<_> = answers.iter().map(Result::is_ok).collect();
                Ok(text(&format!("{approved:?}")))
            }
            "steps-and-asks" => {
                let (waiting, progress) = (call.context.waiting.clone(), call.progress.clone());
                let progress = progress.unwrap();
                progress(1.0, None, None);
                self.approvals.ask(question(call), waiting.as_ref()).await?;
                progress(1.0, None, None);
                progress(2.0, None, None);
                Ok(text("approved"))
            }
            "forms" => {
                let dialogue = call.context.dialogue.unwrap();
                dialogue.asks.as_ref().unwrap().cleaned_by(Some, Some);
                let (a, b) = (dialogue.ask(form("a")), dialogue.ask(form("b")));
                let gave_up = timeout(FORM_PATIENCE, a).await.is_err();
                let answers = b.await;
                Ok(text(&json!([gave_up, answers]).to_string()))
            }
            "unrecorded" => {
                Err(CallError::unrecorded("unrecorded", &std::io::ErrorKind::StorageFull.into()))
            }
            "broken" => Err(CallError::new(ErrorKind::Internal, "broken")),
            "panics" => panic!("a defect"),
            _ => Err(CallError::new(ErrorKind::UnknownTool, "no such tool")),
        }
    }
}

fn question(call: ToolCall) -> Question {
    Question {
        request_id: call.context.request_id,
        principal: call.principal.0,
        tool: call.tool,
        arguments: call.arguments,
        reason: "the test asks".to_owned(),
        terms: ApprovalTerms { timeout: Some(ASKED_FOR), allow_on_timeout: false },
        ..Question::default()
    }
}

fn form(name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"message": name, "requestedSchema": schema});
    json!({name: {"method": "elicitation/create", "params": params}})
}

/// How long `forms` waits for its first answer.
pub(crate) const FORM_PATIENCE: Duration = Duration::from_secs(1);
/// How long `asks` waits for a person.
const ASKED_FOR: Duration = Duration::from_secs(120);

impl Calls for Fake {
    fn call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolReply, CallError>> + Send + use<> {
        let state = Arc::clone(&self.0);
        async move { state.call(call).await }
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.catalog)
    }

    fn catalog_version(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    fn list(&self, _principal: &Principal) -> Vec<Arc<Tool>> {
        self.0.listed.send_modify(|listed| *listed += 1);
        self.0.catalog.tools().cloned().collect()
    }

    fn services(&self) -> Services<'_> {
        let State { approvals, identities, manifest, running, secrets, telemetry, .. } = &*self.0;
        let (memory, replay, swarm) = (None, None, None);
        Services {
            approvals,
            identities,
            manifest: Arc::clone(manifest),
            memory,
            replay,
            running,
            secrets,
            swarm,
            telemetry,
        }
    }
}

/// The other end of a line connection.
pub(crate) struct Client {
    input: Option<DuplexStream>,
    output: Option<Lines<BufReader<DuplexStream>>>,
    pub(crate) host: Fake,
    pub(crate) shutdown: CancellationToken,
    gone: CancellationToken,
    pub(crate) served: JoinHandle<bool>,
}

/// Bytes either side may be ahead.
const PIPE_BYTES: usize = 65_536;

impl Client {
    /// Connects to a new host.
    pub(crate) fn connect() -> Self {
        Self::connect_to(Fake::new())
    }

    /// Connects to `host`.
    pub(crate) fn connect_to(host: Fake) -> Self {
        let (input, their_input) = tokio::io::duplex(PIPE_BYTES);
        let (their_output, output) = tokio::io::duplex(PIPE_BYTES);
        let shutdown = CancellationToken::new();
        let principal = Principal("tester".to_owned());
        let pipes = (their_input, their_output);
        let gone = CancellationToken::new();
        let unread = gone.clone().cancelled_owned();
        let stop = shutdown.clone().into();
        let served = tokio::spawn(serve_lines(host.clone(), principal, pipes, unread, stop));
        let output = Some(BufReader::new(output).lines());
        Self { input: Some(input), output, host, shutdown, gone, served }
    }

    /// Connects and shakes hands in the older way.
    pub(crate) async fn initialized() -> Self {
        Self::initialized_at(Fake::new()).await
    }

    /// Connects to `host` and shakes hands in the older way.
    pub(crate) async fn initialized_at(host: Fake) -> Self {
        let mut client = Self::connect_to(host);
        client.shake_hands(json!({})).await;
        client
    }

    /// Shakes hands in the older way, as a client that can do this.
    pub(crate) async fn shake_hands(&mut self, capabilities: Value) {
        let answer = self.ask(handshake(capabilities)).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], json!("clawhost"));
        self.say(ready()).await;
    }

    /// Sends raw bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// Sends one message.
    pub(crate) async fn say(&mut self, message: Value) {
        self.send(format!("{message}\n").as_bytes()).await;
    }

    /// Returns the next line, or nothing at the end.
    pub(crate) async fn hear_or_end(&mut self) -> Option<Value> {
        let line = self.output.as_mut().unwrap().next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Returns the next line.
    pub(crate) async fn hear(&mut self) -> Value {
        self.hear_or_end().await.expect("the connection has ended")
    }

    /// Sends one message and returns the next line.
    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.say(message).await;
        self.hear().await
    }

    /// Sends a call without waiting for its answer.
    pub(crate) async fn call(&mut self, id: Value, tool: &str) {
        self.say(calling(id, tool, &json!({"n": 1}))).await;
    }

    /// Closes the input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Stops reading, as a client that has died.
    pub(crate) fn close_output(&mut self) {
        self.output = None;
        self.gone.cancel();
    }
}

/// Returns what a client of the older revisions begins with that can do this.
pub(crate) fn handshake(capabilities: Value) -> Value {
    let client = json!({"name": "t", "version": "0"});
    let mut params = json!({"protocolVersion": "2025-11-25", "clientInfo": client});
    params["capabilities"] = capabilities;
    request("init", "initialize", params)
}

/// Returns what such a client says to the answer.
pub(crate) fn ready() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// Returns what begins a session of the Claw Kernel Protocol for a client that wants this.
pub(crate) fn claw_handshake(capabilities: Value) -> Value {
    let mut params = json!({
        "protocolVersion": "0.3.0", "clientInfo": {"name": "t", "version": "0"},
        "manifest": {"kind": "Claw", "metadata": {"name": "visitor"}, "spec": {
            "identity": {"inline": {"personality": "Visits."}},
            "providers": [{"inline": {"protocol": "openai-compatible",
                "endpoint": "http://localhost:11434/v1", "model": "m", "auth": {"type": "none"}}}]}}});
    params["capabilities"] = capabilities;
    request("init", "claw.initialize", params)
}

/// Returns a request in the form of 2026-07-28.
pub(crate) fn modern(id: Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    });
    request(id, method, params)
}

/// Returns a request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "method": method});
    request["id"] = id.into();
    request["params"] = params;
    request
}

/// Returns a call of a tool, as the older revisions have it.
pub(crate) fn calling(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}
