//! What every exporter has to keep: it takes what it can, and nobody waits for it.

use std::time::{Duration, Instant};

use clawhost_core::limits::TELEMETRY_QUEUE_MAX;
use clawhost_core::manifest::{EventFlags, ExporterKind, ExporterPlan, MetricFlags, TelemetryPlan};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::http::tests::read_request;

/// Returns a plan in which everything is on, with these exporters.
pub(super) fn plan(kinds: Vec<ExporterKind>) -> TelemetryPlan {
    let exporters = kinds.into_iter().map(|kind| ExporterPlan {
        kind,
        secret: None,
        batch_max: 4,
        flush_interval: Duration::from_millis(100),
    });
    TelemetryPlan {
        name: "t".to_owned(),
        exporters: exporters.collect(),
        events: EventFlags {
            tool_calls: true,
            memory_ops: true,
            swarm_ops: true,
            lifecycle: true,
            errors: true,
        },
        metrics: MetricFlags::ALL,
        sampling_rate: 1.0,
        strip_arguments: true,
        strip_results: true,
    }
}

fn start(kinds: Vec<ExporterKind>) -> Telemetry {
    Telemetry::start(&plan(kinds), "claw", &HttpClient::system(), &Secrets::none())
}

fn call(number: usize) -> Event {
    let call = CallEvent { call: number.to_string(), outcome: "ok", ..CallEvent::default() };
    Event::Call(Box::new(call))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Returns how many events were dropped.
fn dropped(telemetry: &Telemetry) -> u64 {
    let sums = telemetry.0.as_ref().unwrap().metrics.collect().unwrap();
    let sums = metrics::to_json(&sums);
    sums["clawhost.telemetry.dropped"][0]["value"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_file_and_a_database_have_every_event_after_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = (folder.path().join("t.jsonl"), folder.path().join("t.db"));
    let telemetry =
        start(vec![ExporterKind::File(file.clone()), ExporterKind::Sqlite(database.clone())]);
    (0..10).for_each(|number| telemetry.emit(call(number)));
    telemetry.flush(soon()).await;

    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = lines.iter().filter(|line| line["event"] == "tool.call").collect();
    assert_eq!((calls.len(), &calls[9]["call"]), (10, &Value::from("9")));
    assert_eq!(calls[0]["arguments"], "[stripped]");
    let sums = lines.iter().rfind(|line| line["event"] == "metrics").unwrap();
    assert_eq!(sums["metrics"]["clawhost.tool.calls"][0]["value"], 10);

    let db = rusqlite::Connection::open(database).unwrap();
    let count = "SELECT count(*) FROM events WHERE event = 'tool.call'";
    assert_eq!(db.query_row(count, (), |row| row.get::<_, i64>(0)).unwrap(), 10);
    assert_eq!(dropped(&telemetry), 0);
}

#[tokio::test]
async fn failures_of_the_host_and_of_what_it_needs_are_errors_and_those_of_callers_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let mut plan = plan(vec![ExporterKind::File(file.clone())]);
    plan.events.tool_calls = false;
    let telemetry = Telemetry::start(&plan, "claw", &HttpClient::system(), &Secrets::none());
    for outcome in ["ok", "tool-error", "policy", "internal", "upstream", "provider-unavailable"] {
        let tool = "t".to_owned();
        telemetry.emit(Event::Call(Box::new(CallEvent { tool, outcome, ..CallEvent::default() })));
    }
    telemetry.emit(Event::Memory {
        operation: "query",
        store: "notes".to_owned(),
        entries: 0,
        outcome: "memory-backend",
        duration: Duration::ZERO,
    });
    telemetry.flush(soon()).await;
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let errors = lines.filter(|line| line["event"] == "error").map(|line| {
        format!("{} {} {} {}", line["part"], line["name"], line["kind"], line["code"])
            .replace('"', "")
    });
    let expected = [
        "tool t internal -32603",
        "tool t upstream -32603",
        "tool t provider-unavailable -32020",
        "memory notes memory-backend -32030",
    ];
    assert_eq!(errors.collect::<Vec<_>>(), expected);
    let sums = metrics::to_json(&telemetry.0.as_ref().unwrap().metrics.collect().unwrap());
    let counts = sums["clawhost.errors"].as_array().unwrap().iter();
    let of_memory = |sum: &&Value| sum["labels"]["part"] == "memory";
    assert_eq!((counts.clone().count(), counts.filter(of_memory).count()), (6, 1), "{sums}");
}

#[tokio::test]
async fn the_last_handle_hands_over_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let mut plan = plan(vec![ExporterKind::File(file.clone())]);
    plan.exporters[0].flush_interval = Duration::from_secs(3_600);
    let telemetry = Telemetry::start(&plan, "claw", &HttpClient::system(), &Secrets::none());
    telemetry.emit(call(1));
    drop(telemetry);
    while std::fs::read(&file).unwrap_or_default().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_exporter_that_hangs_loses_its_events_and_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let telemetry = start(vec![ExporterKind::Webhook(url)]);
    let count = TELEMETRY_QUEUE_MAX + 500;
    (0..count).for_each(|number| telemetry.emit(call(number)));
    let took = tokio::time::Instant::now();
    telemetry.flush(Instant::from(tokio::time::Instant::now() + Duration::from_secs(1))).await;
    assert!(took.elapsed() <= Duration::from_secs(2));
    assert!(dropped(&telemetry) >= 500, "{}", dropped(&telemetry));
    drop(listener);
}

#[tokio::test]
async fn a_webhook_gets_batches_with_its_token_and_a_busy_one_gets_them_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut plan = plan(vec![ExporterKind::Webhook(url)]);
    plan.exporters[0].secret = Some("HOOK".to_owned());
    let secrets =
        Secrets::of_environment(|name| (name == "HOOK").then(|| "s3cret-of-the-hook".into()));
    let telemetry = Telemetry::start(&plan, "claw", &HttpClient::system(), &secrets);
    telemetry.emit(call(7));
    let (_, first) = answer(&listener, "503 Service Unavailable\r\nRetry-After: 0").await;
    let (head, second) = answer(&listener, "200 OK").await;
    let events = |body: &str| -> Vec<Value> { serde_json::from_str(body).unwrap() };
    assert_eq!(events(&first)[0], events(&second)[0]);
    assert!(
        head.to_ascii_lowercase().contains("authorization: bearer s3cret-of-the-hook"),
        "{head}"
    );
    let event = &events(&second)[0];
    assert_eq!((&event["event"], &event["call"]), (&"tool.call".into(), &"7".into()));
}

#[tokio::test]
async fn measurements_that_a_collector_refused_once_are_sent_again_without_another_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let telemetry = start(vec![ExporterKind::Otlp(url)]);
    telemetry.emit(call(1));
    for (path, status) in [
        ("POST /v1/traces ", "200 OK"),
        ("POST /v1/metrics ", "503 Service Unavailable"),
        ("POST /v1/metrics ", "200 OK"),
    ] {
        let (head, _) = answer(&listener, status).await;
        assert!(head.starts_with(path), "{head}");
    }
}

/// Reads one request and answers it; returns its head and its body.
async fn answer(listener: &TcpListener, status: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = read_request(&mut stream).await;
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    request
}

#[tokio::test]
async fn without_telemetry_nothing_is_taken() {
    let off = Telemetry::off();
    off.emit(call(1));
    off.flush(soon()).await;
    assert!(!off.takes_arguments() && !off.takes_results());
}
