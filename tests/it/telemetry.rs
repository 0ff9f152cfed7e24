//! Telemetry: what arrives, and that nothing else notices.

use std::time::{Duration, Instant};

use clawhost::approvals::Answer;
use clawhost::serve::{HttpOptions, Shutdown, serve_metrics};
use clawhost::telemetry::TraceParent;
use clawhost::upstream::provider::Caller;
use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;
use clawhost_tests::ckp::{Http, initialize, prepare};
use clawhost_tests::collector::{Collector, Mood, attribute};
use clawhost_tests::host::call;
use clawhost_tests::model::{Model, Say, completion};
use clawhost_tests::{Cli, Served, TestHost, client, source_root, wait};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::cli::PROGRAM;

/// Returns a document with these exporters, as a YAML list.
fn document(exporters: &str, rest: &str) -> String {
    format!(
        "claw: '0.3.0'\nkind: Telemetry\nmetadata: {{ name: t }}\nspec:\n  exporters:\n    - {exporters}\n{rest}"
    )
}

fn otlp(collector: &Collector) -> String {
    format!(
        "{{ type: otlp, endpoint: '{}', batch: {{ flush_interval_ms: 100 }} }}",
        collector.url()
    )
}

async fn host(telemetry: Option<&str>) -> TestHost {
    let builder = TestHost::builder().file("a.txt", "what the file says");
    let builder = match telemetry {
        Some(document) => builder.document("telemetry.yaml", document),
        None => builder,
    };
    builder.build().await
}

/// What a caller says its call is part of: a trace and a span.
const CALLERS: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
/// What a call goes through that nobody refuses and nobody is asked about.
const STAGES: [&str; 7] = ["record", "look-up", "gate", "place", "run", "filter", "record"];

fn callers() -> String {
    format!("00-{}-{}-01", CALLERS.0, CALLERS.1)
}

fn soon() -> Instant {
    Instant::now() + wait::SOON
}

/// Calls that end in different ways.
async fn calls(host: &TestHost) -> Vec<Result<ToolReply, CallError>> {
    let mut replies = Vec::new();
    for (tool, arguments) in [
        ("read_file", json!({ "path": "a.txt" })),
        ("read_file", json!({ "path": "absent" })),
        ("read_file", json!({ "path": 7 })),
        ("no_such_tool", json!({})),
    ] {
        replies.push(host.call(tool, arguments).await);
    }
    replies
}

#[tokio::test]
async fn a_collector_gets_a_span_for_each_call_and_the_sums() {
    let collector = Collector::start(Mood::Takes).await;
    let host = host(Some(&document(&otlp(&collector), ""))).await;
    calls(&host).await;
    host.host().telemetry().flush(soon()).await;
    let received = collector
        .wait_for(|received| received.calls().len() == 4 && !received.metrics.is_empty())
        .await;
    let outcome =
        |index: usize| attribute(&received.calls()[index].attributes, "clawhost.outcome").unwrap();
    let outcomes: Vec<String> = (0..4).map(outcome).collect();
    assert_eq!(outcomes, ["ok", "tool-error", "invalid-arguments", "unknown-tool"]);
    let span = received.calls()[0];
    assert!(span.name.starts_with("tool.call read"), "{}", span.name);
    let of_agents = |index: usize| {
        ["gen_ai.operation.name", "gen_ai.tool.name", "error.type"]
            .map(|key| attribute(&received.calls()[index].attributes, key))
    };
    let [operation, tool] = ["execute_tool", "read-file"].map(|text| Some(text.to_owned()));
    assert_eq!(of_agents(0), [operation.clone(), tool.clone(), None]);
    assert_eq!(of_agents(1), [operation, tool, Some("tool-error".to_owned())]);
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let mut ids: Vec<&[u8]> = received.spans.iter().map(|span| &span.span_id[..]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), received.spans.len(), "each span has an id of its own");
    assert_eq!(received.sum("clawhost.tool.calls", "outcome", "ok"), 1);
    assert_eq!(received.sum("clawhost.tool.calls", "tool", "unknown"), 1);
    assert_eq!(received.sum("clawhost.errors", "part", "tool"), 3);
    assert_eq!(received.count("clawhost.tool.duration"), 4);
}

#[tokio::test]
async fn a_call_is_within_its_caller_s_trace_and_its_steps_and_stages_are_within_it() {
    const TWICE: &str = "version: 1\ntools:\n  twice:\n    composite:\n      description: Reads twice.\n      input_schema: { type: object }\n      steps: [{ tool_name: read_file, arg_mapping: { path: { literal: a.txt } }, output_key: one }, { tool_name: read_file, arg_mapping: { path: { literal: a.txt } }, output_key: two }]\n";
    let collector = Collector::start(Mood::Takes).await;
    let host = TestHost::builder().file("a.txt", "a").definitions(TWICE);
    let host = host.document("telemetry.yaml", &document(&otlp(&collector), "")).build().await;
    let mut twice = call("twice", json!({}));
    twice.context.trace = TraceParent::parse(&callers());
    host.host().call(twice).await.unwrap();
    host.ask("read_file", json!({ "path": "a.txt" })).await;
    host.host().telemetry().flush(soon()).await;
    let received = collector.wait_for(|received| received.calls().len() == 4).await;
    let calls = received.calls();
    let [one, two, twice, alone] = calls[..] else { panic!() };
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((&*hex(&twice.trace_id), &*hex(&twice.parent_span_id)), CALLERS);
    for step in [one, two] {
        assert_eq!((&step.trace_id, &step.parent_span_id), (&twice.trace_id, &twice.span_id));
    }
    assert!(alone.parent_span_id.is_empty() && alone.trace_id != twice.trace_id);
    for call in calls {
        let within = received.spans.iter().filter(|span| span.parent_span_id == call.span_id);
        let (steps, stages): (Vec<_>, Vec<_>) = within.partition(|s| s.name.contains("tool.call"));
        assert_eq!(steps.len(), if call.name.ends_with("twice") { 2 } else { 0 });
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, STAGES, "{}", call.name);
        let (from, to) = (call.start_time_unix_nano, call.end_time_unix_nano);
        for stage in stages {
            assert_eq!(stage.trace_id, call.trace_id);
            let times = [from, stage.start_time_unix_nano, stage.end_time_unix_nano, to];
            assert!(times.is_sorted(), "{} {times:?}", stage.name);
        }
    }
}

#[tokio::test]
async fn the_wait_for_a_person_is_a_stage_and_a_refused_call_ends_at_the_gate() {
    let exporter = "{ type: file, path: ./workspace/telemetry.jsonl }";
    let rules = "- {id: ask, action: require-approval, scope: tool, match: {name: read-file}}";
    let host = TestHost::builder().rules(rules).file("a.txt", "a");
    let host = host.document("telemetry.yaml", &document(exporter, "")).build().await;
    let _reachable = host.host().approvals().reach().open();
    let denied = host.answer(Answer::Deny { reason: None });
    let (outcome, _) = tokio::join!(host.call("read_file", json!({ "path": "a.txt" })), denied);
    outcome.unwrap_err();
    host.host().telemetry().flush(soon()).await;
    let text = std::fs::read_to_string(host.workspace().join("telemetry.jsonl")).unwrap();
    let told: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let stages = told["stages"].as_array().unwrap().iter().map(|stage| &stage["stage"]);
    let expected = ["record", "look-up", "gate", "approval", "record"];
    assert_eq!(stages.collect::<Vec<_>>(), expected, "{text}");
}

#[tokio::test]
async fn mcp_clients_name_the_trace_in_their_request_or_its_header() {
    let cli = Cli::new(PROGRAM);
    let exporter = "{ type: file, path: ./telemetry.jsonl, batch: { flush_interval_ms: 100 } }";
    cli.write("telemetry.yaml", document(exporter, ""));
    let manifest = source_root().join("host/examples/manifest.yaml");
    let documents = [manifest.to_str().unwrap(), "telemetry.yaml"];
    let (told, callers) = (cli.here().join("telemetry.jsonl"), callers());
    let traces = || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        // The last one may be on its way.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let calls = lines.filter(|line| line["event"] == "tool.call");
        calls.map(|call| call["trace_id"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let call = |id: u8, trace: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "read_file", "arguments": {"path": "hello.txt"}, "_meta": {"traceparent": trace}}})
    };
    let hello = client::initialize(0, &json!({}));
    let said = format!("{hello}\n{}\n{}\n", call(1, callers.clone().into()), call(2, 7.into()));
    let run = cli.run_with(&[&["run", "--stdio"], &documents[..]].concat(), &said);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut found = traces();
    found.sort();
    assert_eq!(found, [None, Some(CALLERS.0.to_owned())], "{}", run.stdout);

    let served = Served::start(&cli, &documents);
    let params = json!({"name": "read_file", "arguments": {"path": "hello.txt"}});
    let token = served.bearer();
    let headers = [("authorization", token.as_str()), ("traceparent", callers.as_str())];
    let (status, body) = crate::http::post(&served, "tools/call", params, &headers);
    assert_eq!(status, 200, "{body}");
    let told = || traces().get(2).cloned();
    let trace = wait::until("the call is told", told).await;
    assert_eq!(trace.as_deref(), Some(CALLERS.0));
}

#[tokio::test]
async fn measurements_are_read_where_the_runtime_file_says_and_nothing_else_is() {
    let host = TestHost::builder().file("a.txt", "what the file says").runtime_file(
        "version: 1\nhttp: { metrics: '127.0.0.1:0', allowed_hosts: [metrics.example.com] }\n",
    );
    let host = host.build().await;
    let replies = calls(&host).await;
    assert_eq!(replies, calls(&self::host(None).await).await);
    let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
    options.allowed_hosts = vec!["metrics.example.com".to_owned()];
    let shutdown = Shutdown::from(CancellationToken::new());
    let server = serve_metrics(host.host().clone(), options, shutdown.clone()).await.unwrap();
    let ask = async |head: &str, name: &str| {
        let mut stream = TcpStream::connect(server.local_addr).await.unwrap();
        let request = format!("{head} HTTP/1.1\r\nHost: {name}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let own = server.local_addr.to_string();
    let text = ask("GET /metrics", &own).await;
    for line in [
        "HTTP/1.1 200 OK",
        "content-type: text/plain; version=0.0.4; charset=utf-8",
        "clawhost_tool_calls_total{outcome=\"ok\",tool=\"read-file\"} 1",
        "clawhost_tool_calls_total{outcome=\"unknown-tool\",tool=\"unknown\"} 1",
        "clawhost_tool_duration_seconds_count{outcome=\"ok\",tool=\"read-file\"} 1",
        "clawhost_calls_running 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(
        !["a.txt", "file says", "no_such_tool"].iter().any(|word| text.contains(word)),
        "{text}"
    );
    assert!(ask("GET /metrics", "metrics.example.com").await.starts_with("HTTP/1.1 200"));
    assert!(ask("GET /metrics", "evil.example").await.starts_with("HTTP/1.1 403"));
    assert!(ask("POST /metrics", &own).await.starts_with("HTTP/1.1 405"));
    assert!(ask("GET /status", &own).await.starts_with("HTTP/1.1 404"));
    shutdown.told.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn arguments_and_results_stay_here_unless_the_manifest_says_otherwise() {
    let collector = Collector::start(Mood::Takes).await;
    let said = "what the file says";
    for (redaction, shown) in
        [("", false), ("  redaction: { strip_arguments: false, strip_results: false }\n", true)]
    {
        let before = collector.wait_for(|_| true).await.calls().len();
        let host = host(Some(&document(&otlp(&collector), redaction))).await;
        host.ask("read_file", json!({ "path": "a.txt" })).await;
        host.host().telemetry().flush(soon()).await;
        let received = collector.wait_for(|received| received.calls().len() > before).await;
        let attributes = &received.calls()[before].attributes;
        let of = |key: &str| attribute(attributes, key).unwrap();
        assert_eq!(of("clawhost.arguments").contains("a.txt"), shown);
        assert_eq!(of("clawhost.result").contains(said), shown);
        assert_eq!(of("clawhost.arguments") == "[stripped]", !shown);
    }
}

#[tokio::test]
async fn telemetry_changes_no_reply_whatever_becomes_of_it() {
    let plain = calls(&host(None).await).await;
    for mood in [Mood::Takes, Mood::Hangs, Mood::Garbage] {
        let collector = Collector::start(mood).await;
        let exporters = format!(
            "{}\n    - {{ type: file, path: ./absent/telemetry.jsonl }}\n    - {{ type: sqlite, path: ./workspace }}\n    - {{ type: webhook, endpoint: 'http://127.0.0.1:9/' }}",
            otlp(&collector)
        );
        let host = host(Some(&document(&exporters, ""))).await;
        assert_eq!(calls(&host).await, plain, "{mood:?}");
        let patience = Duration::from_millis(500);
        let flushing = Instant::now();
        host.host().telemetry().flush(flushing + patience).await;
        assert!(flushing.elapsed() < patience * 12, "{mood:?}: {:?}", flushing.elapsed());
        assert!(collector.connections() > 0, "{mood:?}");
        assert_eq!(calls(&host).await, plain, "{mood:?}");
        host.check_audit();
    }
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_each_span_later_and_once() {
    let collector = Collector::start(Mood::BusyAtFirst(1)).await;
    let host = host(Some(&document(&otlp(&collector), ""))).await;
    host.ask("read_file", json!({ "path": "a.txt" })).await;
    let received = collector.wait_for(|received| !received.metrics.is_empty()).await;
    assert_eq!(received.calls().len(), 1);
}

#[tokio::test]
async fn a_file_has_every_event_that_is_switched_on() {
    let exporter = "{ type: file, path: ./workspace/telemetry.jsonl }";
    let host = host(Some(&document(exporter, "  events: { swarm_ops: false }\n"))).await;
    calls(&host).await;
    host.host().telemetry().flush(soon()).await;
    let text = std::fs::read_to_string(host.workspace().join("telemetry.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stages = lines[0]["stages"].as_array().unwrap().iter().map(|stage| &stage["stage"]);
    assert_eq!(stages.collect::<Vec<_>>(), STAGES, "{text}");
    let calls = lines.iter().filter(|line| line["event"] == "tool.call").count();
    let sums = lines.iter().filter(|line| line["event"] == "metrics").count();
    assert!(calls == 4 && sums > 0, "{text}");
}

#[tokio::test]
async fn what_completions_use_is_among_the_sums() {
    let model = Model::saying([Say::Json(completion("hi", 9, 4))]).await;
    let collector = Collector::start(Mood::Takes).await;
    let host = TestHost::builder()
        .provider(&format!("endpoint: '{}'", model.endpoint("/v1")))
        .document("telemetry.yaml", &document(&otlp(&collector), ""))
        .build()
        .await;
    let request = json!({ "messages": [{ "role": "user", "content": "a private prompt" }] });
    host.host().providers().complete(&Caller::new("test", "test"), request, soon()).await.unwrap();
    host.host().flush(wait::SOON).await;
    let received = collector.wait_for(|received| !received.metrics.is_empty()).await;
    assert_eq!(received.sum("clawhost.provider.tokens", "direction", "input"), 9);
    assert_eq!(received.sum("clawhost.provider.tokens", "direction", "output"), 4);
    assert!(!format!("{received:?}").contains("private prompt"));
}

/// A request that remembers something.
fn store() -> Value {
    json!({"jsonrpc": "2.0", "id": "s", "method": "claw.memory.store", "params": {
        "store": "test-store", "entries": [{"content": "a private thought"}],
        "context": {"request_id": "550e8400-e29b-41d4-a716-446655440000"}}})
}

#[test]
fn a_program_that_ends_has_told_its_states_and_what_was_remembered() {
    let cli = Cli::new(PROGRAM);
    let mut arguments = vec!["run".to_owned(), "--stdio".to_owned()];
    arguments.extend(prepare(&cli));
    cli.write("telemetry.yaml", document("{ type: file, path: ./telemetry.jsonl }", ""));
    arguments.push("telemetry.yaml".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let run = cli.run_with(&arguments, &format!("{}\n{}\n", initialize(), store()));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = std::fs::read_to_string(cli.here().join("telemetry.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "lifecycle.transition")
        .map(|line| &line["to"])
        .collect();
    assert!(states.contains(&&json!("READY")), "{text}");
    let stored = lines.iter().find(|line| line["event"] == "memory.operation").unwrap();
    assert_eq!((&stored["operation"], &stored["entries"]), (&json!("store"), &json!(1)));
    assert!(!text.contains("private thought"), "{text}");
}

#[tokio::test]
async fn what_is_remembered_over_http_is_told_as_well() {
    let cli = Cli::new(PROGRAM);
    let mut documents = prepare(&cli);
    let exporter = "{ type: file, path: ./telemetry.jsonl, batch: { flush_interval_ms: 100 } }";
    cli.write("telemetry.yaml", document(exporter, ""));
    documents.push("telemetry.yaml".to_owned());
    let host = Http::start(&cli, &documents);
    let session = host.begin(&initialize()["params"]);
    host.call(&session, "claw.memory.store", &store()["params"]);
    let told = || std::fs::read_to_string(cli.here().join("telemetry.jsonl")).ok();
    let told = || told().filter(|text| text.contains("memory.operation"));
    wait::until("the store is told of", told).await;
}
