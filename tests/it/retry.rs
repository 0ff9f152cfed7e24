//! Trying again: only what passes, of tools that may be called twice, within the call's own time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clawhost::Tool;
use clawhost_core::error::ErrorKind;
use clawhost_tests::{TestHost, native};
use serde_json::json;

use crate::web::{LOCAL, Tripwire, reply};

/// Never answers, but for the call of a number.
fn stuck(calls: &'static AtomicU32, answered: u32) -> impl Tool {
    native("stuck", move || async move {
        match calls.fetch_add(1, Ordering::SeqCst) + 1 {
            call if call == answered => json!({ "call": call }),
            _ => std::future::pending().await,
        }
    })
}

fn policy(rest: &str) -> String {
    format!(
        "version: 1\ntools: {{ stuck: {{ retry_policy: {{ max_attempts: 3, initial_ms: 1, {rest} }} }} }}"
    )
}

#[tokio::test]
async fn a_failure_that_passes_is_tried_again_and_the_record_says_how_often() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let host = TestHost::builder()
        .definitions(&policy("retry_on: [timeout]"))
        .limits("timeout_ms: 3000")
        .extend(|host| host.tool(stuck(&CALLS, 2)))
        .build()
        .await;
    assert_eq!(host.ask("stuck", json!({})).await["call"], 2);
    assert_eq!(host.finished()[0]["attempts"], 2);
    host.check_audit();
}

#[tokio::test]
async fn all_attempts_share_one_deadline() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let host = TestHost::builder()
        .definitions(&policy("retry_on: [timeout]"))
        .extend(|host| host.tool(stuck(&CALLS, 99)))
        .build()
        .await;
    let started = Instant::now();
    let within = Duration::from_secs(2);
    let call = clawhost_tests::host::call_within("stuck", json!({}), within);
    assert_eq!(host.host().call(call).await.unwrap_err().kind, ErrorKind::Timeout);
    let took = started.elapsed();
    assert!(took < within * 2, "{took:?}");
    assert_eq!((CALLS.load(Ordering::SeqCst), &host.finished()[0]["attempts"]), (3, &json!(3)));
}

#[tokio::test]
async fn what_is_not_stated_of_a_tool_that_is_not_idempotent_is_not_tried_again() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let host = TestHost::builder()
        .definitions(&policy("multiplier: 1"))
        .extend(|host| host.tool(stuck(&CALLS, 99)))
        .build()
        .await;
    assert!(host.host().catalog().notes.iter().any(|note| note.contains("does nothing")));
    let call = clawhost_tests::host::call_within("stuck", json!({}), Duration::from_secs(1));
    host.host().call(call).await.unwrap_err();
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn each_attempt_is_admitted_anew() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let host = TestHost::builder()
        .definitions(&policy("retry_on: [timeout]"))
        .document(
            "rates.yaml",
            "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: rates}\nspec: {rules: [{id: all, action: allow, scope: all}], rate_limits: {tool_calls_per_minute: 2}}\n",
        )
        .extend(|host| host.tool(stuck(&CALLS, 99)))
        .build()
        .await;
    let call = clawhost_tests::host::call_within("stuck", json!({}), Duration::from_secs(2));
    let error = host.host().call(call).await.unwrap_err();
    assert_eq!((error.kind, &error.data["stage"]), (ErrorKind::Overloaded, &json!("quota")));
    assert_eq!((CALLS.load(Ordering::SeqCst), &error.data["attempts"]), (2, &json!(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_whose_exchange_breaks_off_is_tried_again_and_else_fails_in_its_own_words() {
    for (stated, asked) in [
        ("max_attempts: 3, retry_on: [unavailable]", 3),
        ("max_attempts: 2, retry_on: [unavailable]", 2),
        ("max_attempts: 3, retry_on: [rate_limited]", 1),
    ] {
        let calls = AtomicU32::new(0);
        let server = Tripwire::answering(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".to_owned(),
            _ => reply("200 OK", "", "here"),
        });
        let host = TestHost::builder()
            .only(&["http-get"])
            .limits("timeout_ms: 3000")
            .capabilities(LOCAL)
            .runtime_file(&format!(
                "version: 1\ntools: {{http_get: {{block_private_ips: false}}}}\nprofiles: {{sandbox-0: {{ports: [{}]}}}}",
                server.port
            ))
            .definitions(&format!(
                "version: 1\ntools: {{ http_get: {{ retry_policy: {{ initial_ms: 1, {stated} }} }} }}"
            ))
            .build()
            .await;
        let reply = host.call("http_get", json!({"url": server.url("127.0.0.1")})).await.unwrap();
        assert_eq!((reply.is_error, server.hits()), (asked < 3, asked), "{stated}: {reply:?}");
        assert_eq!(host.finished()[0]["attempts"], json!((asked > 1).then_some(asked)), "{stated}");
        host.check_audit();
    }
}
