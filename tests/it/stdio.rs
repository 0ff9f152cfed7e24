//! MCP over standard input and output, both eras, as a client that starts the host sees it.

use std::io::Write as _;

use clawhost_tests::client::{Client, initialize};
use clawhost_tests::wait::block_until;
use clawhost_tests::{Cli, Guest, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

fn example() -> String {
    source_root().join("host/examples/manifest.yaml").to_str().unwrap().to_owned()
}

/// A request of the stateless era: everything it needs is in it.
fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn lines(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}

/// Returns the answers of a run by id. Every line of standard output has to be a message.
fn answers(stdout: &str) -> Vec<Value> {
    let messages = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut answers: Vec<Value> = messages.filter(|message| message.get("id").is_some()).collect();
    answers.sort_by_key(|answer| answer["id"].as_i64());
    answers
}

#[test]
fn initialize_list_and_call_are_answered_when_piped_in() {
    let call = json!({"name": "read_file", "arguments": {"path": "hello.txt"}});
    let input = lines(&[
        initialize(1, &json!({})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}),
    ]);
    let run = Cli::new(PROGRAM).run_with(&["run", &example(), "--stdio"], &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answers = answers(&run.stdout);
    assert_eq!(answers.len(), 3, "{}", run.stdout);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "clawhost");
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert!(
        tools
            .iter()
            .any(|tool| tool["name"] == "read_file" && tool["inputSchema"]["type"] == "object")
    );
    // Refused by policy, so not listed.
    assert!(!tools.iter().any(|tool| tool["name"] == "web_fetch"));
    assert_eq!(
        answers[2]["result"]["structuredContent"]["content"],
        "Hello from a sandboxed tool.\n"
    );
}

#[test]
fn an_input_that_ends_before_anybody_speaks_says_what_to_do() {
    let cli = Cli::new(PROGRAM);
    let run = cli.run_with(&["run", &example()], "");
    assert!(run.stderr.contains("serve HTTP with --http"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn the_stateless_form_is_answered_without_any_handshake() {
    let call = json!({"name": "read_file", "arguments": {"path": "hello.txt"}});
    let input = lines(&[
        modern(1, "server/discover", json!({})),
        modern(2, "tools/list", json!({})),
        modern(3, "tools/call", call),
    ]);
    let run = Cli::new(PROGRAM).run_with(&["run", &example(), "--stdio"], &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answers = answers(&run.stdout);
    assert_eq!(answers.len(), 3, "{}", run.stdout);
    let versions = answers[0]["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");
    assert!(answers[1]["result"]["tools"].as_array().unwrap().len() > 3);
    assert_eq!(
        answers[2]["result"]["structuredContent"]["content"],
        "Hello from a sandboxed tool.\n"
    );
    for answer in &answers {
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
}

#[test]
fn refusals_are_results_and_an_unknown_tool_is_an_error() {
    let call = |id: i64, name: &str, arguments: Value| {
        modern(id, "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let input = lines(&[
        call(1, "web_fetch", json!({"url": "http://example.com/"})),
        call(2, "read_file", json!({"path": 1})),
        call(3, "read_file", json!({"path": "../../../../etc/passwd"})),
        call(4, "no_such_tool", json!({})),
        json!({"jsonrpc": "2.0", "id": 5, "method": "claw.status", "params": {}}),
    ]);
    let run = Cli::new(PROGRAM).run_with(&["run", &example(), "--stdio"], &input);
    let answers = answers(&run.stdout);
    assert_eq!(answers.len(), 5, "{}", run.stdout);
    for answer in &answers[..3] {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    let code = |answer: &Value| {
        let meta = answer["result"]["_meta"].as_object().cloned().unwrap_or_default();
        meta.values().find_map(|value| value.as_i64().or_else(|| value["code"].as_i64()))
    };
    assert_eq!(code(&answers[0]), Some(-32011), "{}", answers[0]);
    assert_eq!(code(&answers[1]), Some(-32602), "{}", answers[1]);
    assert!(!run.stdout.contains("root:x:"));
    assert_eq!(answers[3]["error"]["code"], -32602, "{}", answers[3]);
    // Nobody has begun a session of that dialect.
    assert_eq!(answers[4]["error"]["code"], -32600, "{}", answers[4]);
}

#[test]
fn bad_lines_are_answered_and_the_next_one_is_served() {
    let mut input = String::new();
    let bad = [
        "{",
        "null",
        "[]",
        "1",
        "\"x\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
        "{\"id\":1,\"id\":2,\"jsonrpc\":\"2.0\",\"method\":\"ping\"}",
    ];
    for line in bad {
        input.push_str(line);
        input.push('\n');
    }
    input.push_str(&"[".repeat(10_000));
    input.push('\n');
    input.push_str(&lines(&[modern(7, "tools/list", json!({}))]));
    let run = Cli::new(PROGRAM).run_with(&["run", &example(), "--stdio"], &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let messages: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors = messages.iter().filter(|message| message["error"]["code"].is_i64()).count();
    assert_eq!(errors, bad.len() + 1, "{}", run.stdout);
    assert!(
        messages.iter().any(|message| message["id"] == 7 && message["result"]["tools"].is_array())
    );
}

#[test]
fn a_client_hears_of_a_tool_that_is_dropped_in_and_can_call_it() {
    let cli = Cli::new(PROGRAM);
    std::fs::create_dir(cli.here().join("tools")).unwrap();
    let mut client = Client::start(&cli, &["run", "--stdio", "--tools", "tools"]);
    let is_listed = |client: &mut Client| client.names().contains(&"newcomer".to_owned());
    assert!(!is_listed(&mut client));
    let tool = Guest::read("answer").named("newcomer").wasm();
    let aside = cli.write("newcomer.part", tool);
    std::fs::rename(aside, cli.here().join("tools/newcomer.wasm")).unwrap();
    // A file is news when it is found, and again when its tools are there.
    client.hear_of("notifications/tools/list_changed");
    while !is_listed(&mut client) {
        client.hear_of("notifications/tools/list_changed");
    }
    let answer = client.call("newcomer", &json!({}));
    assert_eq!(answer["result"]["content"][0]["text"], "newcomer", "{answer}");
}

#[test]
fn a_cancelled_request_ends_its_call_and_the_connection_goes_on() {
    let cli = Cli::new(PROGRAM);
    cli.write("tools/sleep.wat", Guest::read("sleep").wat());
    let mut client = Client::start(&cli, &["run", "--stdio", "--tools", "tools"]);
    let id = client.begin("sleep", &json!({}));
    let said = |what: &str| cli.log().contains(what).then_some(());
    block_until("the call to arrive", || said("call.received"));
    let cancel = json!({"requestId": id, "reason": "changed my mind"});
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    client.names();
    block_until("the call to end", || said("cancelled"));
}

#[test]
fn a_client_that_has_died_leaves_no_call_behind() {
    let cli = Cli::new(PROGRAM);
    cli.write("tools/sleep.wat", Guest::read("sleep").wat());
    // What ends it is neither this bound nor the tool's own, which is told otherwise.
    cli.write("clawhost.yaml", "version: 1\nlimits: {shutdown_grace_ms: 600000}\n");
    let mut child = cli.start(&["run", "--stdio", "--tools", "tools"]);
    drop(child.stdout.take());
    let call = modern(1, "tools/call", json!({"name": "sleep", "arguments": {}}));
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{call}").unwrap();
    let said = |what: &str| cli.log().contains(what).then_some(());
    block_until("the call to arrive", || said("call.received"));
    drop(input);
    block_until("the host to end", || child.try_wait().unwrap().map(drop));
    assert!(cli.log().contains("cancelled"), "{}", cli.log());
}

#[test]
fn a_closed_standard_input_says_what_to_do_instead() {
    let cli = Cli::new(PROGRAM);
    let mut command = cli.command(&["run"]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--http"), "{output:?}");
}
