//! The Claw Kernel Protocol through the built program: the vectors of `tests/conformance` over both
//! transports, and lines that no message is.

use clawhost_tests::ckp::{Http, Stdio, Transport, Vectors, initialize, prepare};
use clawhost_tests::{Cli, Guest, client};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// The fewest situations beside the published ones.
const EDGES_MIN: usize = 100;

/// Runs every vector and prints a table; says what did not fit.
fn run(transport: &mut dyn Transport) -> Vec<String> {
    let vectors = Vectors::read();
    let mut failures = Vec::new();
    for vector in &vectors.list {
        let outcome = vectors.run(vector, transport);
        let shown = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("level {} {:6} {:6} {}", vector.level, transport.name(), shown, vector.name);
        failures.extend(outcome.err().map(|reason| format!("{}: {reason}", vector.name)));
    }
    failures
}

#[test]
fn every_vector_holds_on_standard_input() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    let failures = run(&mut Stdio::start(&cli, &documents));
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_vector_holds_over_http() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    let failures = run(&mut Http::start(&cli, &documents));
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn there_are_enough_vectors_and_each_has_its_name() {
    let vectors = Vectors::read();
    let mut names: Vec<&str> = vectors.list.iter().map(|vector| vector.name.as_str()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(all > EDGES_MIN, "{all}");
}

fn status(id: &str) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "claw.status"}))
}

/// Starts a host without documents.
fn plain() -> Stdio {
    Stdio::start(&Cli::new(PROGRAM), &[])
}

#[test]
fn after_every_hostile_line_the_program_answers() {
    let mut host = plain();
    host.ask(&initialize().to_string(), Some("i"), false).unwrap();
    let deep = |open: &str| open.repeat(10_000).into_bytes();
    let lines: Vec<(&str, Vec<u8>, i64)> = vec![
        ("64 MiB", vec![b'x'; 64 << 20], -32600),
        ("10,000 lists", deep("["), -32700),
        ("10,000 objects", deep("{\"a\":"), -32700),
        (
            "bad UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"claw.status\"}".to_vec(),
            -32700,
        ),
        ("overlong UTF-8", b"\"\xc0\xaf\"".to_vec(), -32700),
        ("UTF-16", b"\xff\xfe{\0}\0".to_vec(), -32700),
        ("a NUL", b"{\"jsonrpc\":\"2.0\",\0\"id\":1}".to_vec(), -32700),
        ("NULs", vec![0; 1_000], -32700),
        ("two marks", "\u{feff}\u{feff}{}".as_bytes().to_vec(), -32700),
        ("a million digits", [b"1".repeat(1_000_000), b"e1".to_vec()].concat(), -32700),
        ("null", b"null".to_vec(), -32600),
    ];
    for (what, mut line, code) in lines {
        line.push(b'\n');
        host.client.write(&line);
        let answer = host.client.hear();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{what}"
        );
        let alive = host.ask(status("s").trim(), Some("s"), false).unwrap();
        assert_eq!(alive["result"]["state"], "READY", "{what}");
    }
    // Empty lines and other platforms' ends are no messages, and no error.
    host.client.write(b"\n\r\n   \n\t\n");
    let crlf = status("crlf").replace('\n', "\r\n");
    host.client.write(crlf.as_bytes());
    assert_eq!(host.client.hear()["id"], "crlf");
}

#[test]
fn one_connection_speaks_both_dialects() {
    let mut host = plain();
    host.ask(&initialize().to_string(), Some("i"), false).unwrap();
    let answer = host.client.ask("initialize", &client::initialize(0, &json!({}))["params"]);
    assert_eq!(answer["result"]["serverInfo"]["name"], "clawhost");
    let answer = host.ask(status("s").trim(), Some("s"), false).unwrap();
    assert_eq!(answer["result"]["state"], "READY");
}

#[test]
fn what_is_piped_in_is_answered_and_the_program_ends() {
    let cli = Cli::new(PROGRAM);
    cli.write("tools/answer.wat", Guest::read("answer").wat());
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "claw.tool.call", "params": {
        "name": "answer", "arguments": {}, "context": {
            "request_id": "550e8400-e29b-41d4-a716-446655440000", "identity": "visitor"}}});
    let input = format!("{}\n{call}\n{}", initialize(), status("last").trim());
    let run = cli.run_with(&["run", "--stdio", "--tools", "tools"], &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut answers: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["id"].to_string());
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["c", "i", "last"], "{}", run.stdout);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "answer", "{}", answers[0]);
}

#[test]
fn a_request_is_answered_again_by_the_next_host_and_not_run_again() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    let mut store = json!({"jsonrpc": "2.0", "id": "s", "method": "claw.memory.store", "params": {
        "store": "test-store", "entries": [{"content": "once"}],
        "context": {"request_id": "550e8400-e29b-41d4-a716-446655440000"}}});
    let mut first = Stdio::start(&cli, &documents);
    first.ask(&initialize().to_string(), Some("i"), false).unwrap();
    let stored = first.ask(&store.to_string(), Some("s"), false).unwrap();
    assert_eq!(stored["result"]["stored"], 1, "{stored}");
    // Killed, as any process may be.
    first.client.child.kill().unwrap();

    let mut second = Stdio::start(&cli, &documents);
    second.ask(&initialize().to_string(), Some("i"), false).unwrap();
    assert_eq!(second.ask(&store.to_string(), Some("s"), false).unwrap(), stored);
    store["params"]["entries"][0]["content"] = json!("twice");
    let other = second.ask(&store.to_string(), Some("s"), false).unwrap();
    assert_eq!(other["error"]["code"], -32602, "{other}");
    let query = json!({"jsonrpc": "2.0", "id": "q", "method": "claw.memory.query", "params": {
        "store": "test-store", "query": {"type": "semantic", "text": "once twice"}}});
    let found = second.ask(&query.to_string(), Some("q"), false).unwrap();
    assert_eq!(found["result"]["entries"].as_array().unwrap().len(), 1, "{found}");
}

/// Parameters of a session of the agent `name` that wants to hear of its swarm.
fn member(name: &str) -> Value {
    let mut params = initialize()["params"].clone();
    params["manifest"]["metadata"]["name"] = json!(name);
    params["capabilities"] = json!({"swarm": {"events": true}});
    params
}

#[test]
fn agents_of_a_swarm_work_through_their_sessions() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    cli.write("clawhost.yaml", "version: 1\nagents: [{name: boss}, {name: ant, identity: peer-1}]");
    let served = Http::start(&cli, &documents);
    // What a session calls itself counts for nothing, neither for more nor for less.
    let (host, ants) = (served.of_agent(&cli, "boss"), served.of_agent(&cli, "ant"));
    let (leader, worker) = (host.begin(&member("peer-1")), ants.begin(&member("test-agent")));
    let (mut to_leader, mut to_worker) = (host.listen(&leader), ants.listen(&worker));
    let peers = host.call(&leader, "claw.swarm.discover", &json!({}));
    let ready =
        json!({"identity": "peer-1", "uri": "claw://local/identity/peer-1", "status": "ready"});
    assert!(peers["peers"].as_array().unwrap().contains(&ready), "{peers}");

    let task = json!({"description": "Count", "input": {"to": 3}});
    let given = host.call(
        &leader,
        "claw.swarm.delegate",
        &json!({"task_id": "t-1", "task": task,
        "context": {"request_id": "550e8400-e29b-41d4-a716-446655440000", "swarm": "test-team"}}),
    );
    assert_eq!(given, json!({"acknowledged": true}));
    let heard = to_worker.hear();
    assert_eq!(
        (&heard["method"], &heard["params"]["task"]),
        (&json!("claw.swarm.delegate"), &task)
    );
    assert_eq!(heard["params"]["context"], json!({"swarm": "test-team", "from": "test-agent"}));

    let report =
        json!({"task_id": "t-1", "status": "completed", "result": {"sum": 6}, "token_usage": 5});
    assert_eq!(ants.call(&worker, "claw.swarm.report", &report), json!({"acknowledged": true}));
    let heard = to_leader.hear();
    assert_eq!(heard["method"], "claw.swarm.report", "{heard}");
    assert_eq!(
        (&heard["params"]["result"], &heard["params"]["token_usage"]),
        (&json!({"sum": 6}), &json!(5))
    );

    let message = json!({"swarm": "test-team", "message": {"hello": "all"}});
    ants.notify(&worker, "claw.swarm.broadcast", &message);
    let heard = to_leader.hear();
    assert_eq!(
        (&heard["method"], &heard["params"]["message"]),
        (&json!("claw.swarm.broadcast"), &json!({"hello": "all"}))
    );
}

#[test]
fn a_call_that_its_session_refuses_is_recorded_like_any_other() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    let mut host = Stdio::start(&cli, &documents);
    let mut call = json!({"jsonrpc": "2.0", "id": "c", "method": "claw.tool.call", "params": {
        "name": "echo", "arguments": {"text": "x"}, "context": {"sandbox": "nowhere",
        "request_id": "550e8400-e29b-41d4-a716-446655440000", "identity": "visitor"}}});
    let early = host.ask(&call.to_string(), Some("c"), false).unwrap();
    assert_eq!(early["error"]["code"], -32600, "{early}");
    host.ask(&initialize().to_string(), Some("i"), false).unwrap();
    let refused = host.ask(&call.to_string(), Some("c"), false).unwrap();
    assert_eq!(refused["error"]["data"]["param"], "context.sandbox", "{refused}");
    call["params"]["context"]["sandbox"] = json!("none");
    call["params"]["name"] = json!("claw://local/tool/echo@9.9.9");
    let other = host.ask(&call.to_string(), Some("c"), false).unwrap();
    assert_eq!(other["error"]["code"], -32602, "{other}");
    assert_eq!(cli.log().matches("\"event\":\"call.received\"").count(), 3);
}

#[test]
fn a_session_s_own_refusal_is_no_answer_for_another_session() {
    let cli = Cli::new(PROGRAM);
    let host = Http::start(&cli, &prepare(&cli));
    let mut strict = initialize()["params"].clone();
    strict["manifest"]["spec"]["identity"]["inline"]["autonomy"] = json!("observer");
    let (strict, plain) = (host.begin(&strict), host.begin(&initialize()["params"]));
    let params = json!({"name": "echo", "arguments": {"text": "x"}, "context": {
        "request_id": "550e8400-e29b-41d4-a716-446655440000", "identity": "test-agent"}});
    let refused = host.answer(&strict, "claw.tool.call", &params);
    assert_eq!(refused["error"]["data"]["stage"], "autonomy", "{refused}");
    let other = host.answer(&plain, "claw.tool.call", &params);
    assert_eq!(other["error"]["data"]["stage"], "replay", "{other}");
}

#[test]
fn a_session_beats_on_standard_input_only_while_it_is_ready() {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", r#"{"claw": "0.3.0", "kind": "Claw",
        "metadata": {"name": "beats", "annotations": {"heartbeat_interval_ms": 1}},
        "spec": {"identity": {"inline": {"personality": "Beats."}}, "providers": [{"inline": {
            "protocol": "custom", "endpoint": "http://localhost:1", "model": "m", "auth": {"type": "none"}}}]}}"#);
    let mut host = Stdio::start(&cli, &["claw.yaml".to_owned()]);
    let begun = host.ask(&initialize().to_string(), Some("i"), false).unwrap();
    // A Claw without tools, memory or swarm.
    assert_eq!(begun["result"]["conformanceLevel"], "level-1", "{begun}");
    assert_eq!(begun["result"]["capabilities"], json!({}));
    let beat = host.client.hear();
    assert_eq!(
        (&beat["method"], &beat["params"]["state"]),
        (&json!("claw.heartbeat"), &json!("READY"))
    );
    // The floor is a second, whatever the Claw says.
    assert!(beat["params"]["uptime_ms"].as_u64().unwrap() >= 1_000, "{beat}");
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "claw.tool.call", "params": {}});
    let refused = host.ask(&call.to_string(), Some("c"), false).unwrap();
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
}

#[test]
fn a_secret_does_not_come_back_out_of_a_store() {
    let cli = Cli::new(PROGRAM);
    let documents = prepare(&cli);
    cli.write(
        "clawhost.yaml",
        "version: 1\nprofiles: {network-sandbox: {secrets: [{name: TOKEN, hosts: [allowed.example]}]}}\nagents: [{name: worker, identity: peer-1}]",
    );
    assert_eq!(
        cli.run_with(&["secrets", "set", "TOKEN"], "s3cr3t-value-of-the-test").code,
        Some(0)
    );
    let mut host = Stdio::start(&cli, &documents);
    host.ask(&initialize().to_string(), Some("i"), false).unwrap();
    // A store keeps what its agent says, as it says it.
    cli.holds("clawhost.db");
    let store = json!({"jsonrpc": "2.0", "id": "s", "method": "claw.memory.store", "params": {
        "store": "test-store", "entries": [{"content": "it is s3cr3t-value-of-the-test"}],
        "context": {"request_id": "550e8400-e29b-41d4-a716-446655440000"}}});
    host.ask(&store.to_string(), Some("s"), false).unwrap();
    let query = json!({"jsonrpc": "2.0", "id": "q", "method": "claw.memory.query", "params": {
        "store": "test-store", "query": {"type": "semantic", "text": "it"}}});
    let found = host.ask(&query.to_string(), Some("q"), false).unwrap();
    assert_eq!(found["result"]["entries"][0]["content"], "it is [redacted:TOKEN]", "{found}");
}
