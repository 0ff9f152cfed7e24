//! A request that is sent again is answered again and not carried out again, though the host was
//! restarted or killed in between.

use clawhost_tests::{Cli, Guest, wait};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";
const MANIFEST: &str = r#"claw: "0.3.0"
kind: Claw
metadata: {name: me, version: 1.0.0}
spec:
  identity: {inline: {personality: quick, autonomy: autonomous}}
  providers:
    - inline: {name: p, protocol: custom, endpoint: "http://127.0.0.1:9", model: m, auth: {type: none}}
  sandbox:
    inline:
      level: wasm
      resource_limits: {timeout_ms: 60000}
      capabilities: {filesystem: {mode: scoped, mount_paths: [{path: ./notes, permissions: rw}]}}
  tools: [claw://local/tool/memory-write, claw://local/tool/sleep]
  memory: {inline: {stores: [{name: s, type: conversation}]}}
  policies: [{inline: {rules: [{id: all, action: allow, scope: all}]}}]
"#;

fn host() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("tools/sleep.wat", Guest::read("sleep").wat());
    cli.write("notes/readme.txt", "");
    cli
}

const RUN: [&str; 5] = ["run", "claw.yaml", "--stdio", "--tools", "tools"];

fn request(id: u32, method: &str, params: &Value) -> String {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    format!("{message}\n")
}

fn initialize() -> String {
    let provider = json!({"name": "p", "protocol": "custom", "endpoint": "http://127.0.0.1:9",
        "model": "m", "auth": {"type": "none"}});
    let spec = json!({"identity": {"inline": {"personality": "quick", "autonomy": "autonomous"}},
        "providers": [{"inline": provider}]});
    let manifest =
        json!({"claw": "0.3.0", "kind": "Claw", "metadata": {"name": "me"}, "spec": spec});
    let client = json!({"name": "test", "version": "0"});
    let params = json!({"protocolVersion": "0.3.0", "clientInfo": client, "manifest": manifest,
        "capabilities": {}});
    request(1, "claw.initialize", &params)
}

fn append(request_id: &str, text: &str) -> Value {
    json!({"name": "memory-write", "arguments": {"content": text, "mode": "append"},
        "context": {"request_id": request_id, "identity": "me"}})
}

fn store(request_id: &str, text: &str) -> Value {
    json!({"store": "s", "entries": [{"content": text}], "context": {"request_id": request_id}})
}

/// Sends requests to a host of its own and returns its answers in the order of the requests.
fn ask(cli: &Cli, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut input = initialize();
    for (id, (method, params)) in (2..).zip(requests) {
        input.push_str(&request(id, method, params));
    }
    let run = cli.run_with(&RUN, &input);
    let messages = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut answers: Vec<Value> = messages.filter(|message| message["id"].is_u64()).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.len(), requests.len() + 1, "{}{}", run.stdout, run.stderr);
    assert!(answers[0]["result"].is_object(), "{}", answers[0]);
    for answer in &mut answers {
        answer["id"].take();
    }
    answers.split_off(1)
}

fn notes(cli: &Cli) -> String {
    std::fs::read_to_string(cli.here().join("notes/MEMORY.md")).unwrap()
}

#[test]
fn a_repeated_call_is_answered_again_and_run_once_though_the_host_restarts() {
    let cli = host();
    let call = ("claw.tool.call", append(FIRST, "once"));
    let answers = ask(&cli, &[call.clone(), call.clone()]);
    assert!(answers[0]["result"]["content"].is_array(), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(ask(&cli, &[call])[0], answers[0]);
    assert_eq!(notes(&cli).matches("once").count(), 1);
    let other = ask(&cli, &[("claw.tool.call", append(FIRST, "twice"))]);
    assert_eq!(other[0]["error"]["code"], -32602, "{}", other[0]);
    assert_eq!(notes(&cli).matches("twice").count(), 0);
}

#[test]
fn each_method_has_ids_of_its_own_and_what_was_stored_once_is_there_once() {
    let cli = host();
    ask(&cli, &[("claw.tool.call", append(FIRST, "a call"))]);
    let stored = ask(&cli, &[("claw.memory.store", store(FIRST, "words"))]);
    assert_eq!(stored[0]["result"]["stored"], 1, "{}", stored[0]);
    let again = ask(&cli, &[("claw.memory.store", store(FIRST, "words"))]);
    assert_eq!(again, stored);
    let query = json!({"store": "s", "query": {"type": "semantic", "text": "words"}});
    let found = ask(&cli, &[("claw.memory.query", query)]).remove(0);
    let entries = found["result"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{found}");
    assert_eq!(entries[0]["id"], stored[0]["result"]["ids"][0]);
}

#[tokio::test]
async fn a_call_that_ran_when_its_host_was_killed_has_an_unknown_outcome_and_is_not_run_again() {
    let cli = host();
    let call = json!({"name": "sleep", "arguments": {},
        "context": {"request_id": OTHER, "identity": "me"}});
    let mut host = cli.start(&RUN);
    let input = format!("{}{}", initialize(), request(2, "claw.tool.call", &call));
    let mut stdin = host.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
    let calls = |cli: &Cli| cli.log().matches("\"event\":\"call.received\"").count();
    let running = || (calls(&cli) == 1).then_some(());
    wait::until("the call runs", running).await;
    host.kill().unwrap();

    let answers = ask(&cli, &[("claw.tool.call", call)]);
    assert_eq!(answers[0]["error"]["code"], -32603, "{}", answers[0]);
    let message = answers[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("outcome unknown"), "{message}");
    assert_eq!(calls(&cli), 1);
}
