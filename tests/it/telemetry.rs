//! Telemetry: what arrives, and that nothing else notices.

use std::time::{Duration, Instant};

use clawhost::upstream::provider::Caller;
use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;
use clawhost_tests::ckp::{Http, initialize, prepare};
use clawhost_tests::collector::{Collector, Mood, attribute};
use clawhost_tests::model::{Model, Say, completion};
use clawhost_tests::{Cli, TestHost, wait};
use serde_json::{Value, json};

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

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
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
        .wait_for(|received| received.spans.len() == 4 && !received.metrics.is_empty())
        .await;
    let outcome =
        |index: usize| attribute(&received.spans[index].attributes, "clawhost.outcome").unwrap();
    let outcomes: Vec<String> = (0..4).map(outcome).collect();
    assert_eq!(outcomes, ["ok", "tool-error", "invalid-arguments", "unknown-tool"]);
    let span = &received.spans[0];
    assert!(span.name.starts_with("tool.call read"), "{}", span.name);
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let mut ids: Vec<&[u8]> = received.spans.iter().map(|span| &span.span_id[..]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each span has an id of its own");
    assert_eq!(received.sum("clawhost.tool.calls", "outcome", "ok"), 1);
    assert_eq!(received.sum("clawhost.tool.calls", "tool", "unknown"), 1);
    assert_eq!(received.sum("clawhost.errors", "part", "tool"), 3);
    assert_eq!(received.count("clawhost.tool.duration"), 4);
}

#[tokio::test]
async fn arguments_and_results_stay_here_unless_the_manifest_says_otherwise() {
    let collector = Collector::start(Mood::Takes).await;
    let said = "what the file says";
    for (redaction, shown) in
        [("", false), ("  redaction: { strip_arguments: false, strip_results: false }\n", true)]
    {
        let before = collector.wait_for(|_| true).await.spans.len();
        let host = host(Some(&document(&otlp(&collector), redaction))).await;
        host.ask("read_file", json!({ "path": "a.txt" })).await;
        host.host().telemetry().flush(soon()).await;
        let received = collector.wait_for(|received| received.spans.len() > before).await;
        let attributes = &received.spans[before].attributes;
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
        assert!(flushing.elapsed() < patience * 4, "{mood:?}: {:?}", flushing.elapsed());
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
    assert_eq!(received.spans.len(), 1);
}

#[tokio::test]
async fn a_file_has_every_event_that_is_switched_on() {
    let exporter = "{ type: file, path: ./workspace/telemetry.jsonl }";
    let host = host(Some(&document(exporter, "  events: { swarm_ops: false }\n"))).await;
    calls(&host).await;
    host.host().telemetry().flush(soon()).await;
    let text = std::fs::read_to_string(host.workspace().join("telemetry.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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
    host.host().flush(Duration::from_secs(20)).await;
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
    wait::until("the store is told of", Duration::from_secs(5), told).await;
}
