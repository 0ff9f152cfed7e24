//! Calls that wait for a person: the built program, its control socket and its command line.

use std::io::{BufRead as _, BufReader};

use clawhost_tests::{Cli, Client, Served, client, wait};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

const MANIFEST: &str = clawhost_tests::claw!(
    "asks",
    "autonomous",
    r#"  tools:
    - {name: read-file}
    - {name: write-file}
  policies:
    - inline:
        name: rules
        rules:
          - {id: ask-first, action: require-approval, scope: tool, match: {name: write-file}, reason: writing is for people to decide}
          - {id: rest, action: allow, scope: all}
"#
);

fn prepared() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("workspace/hello.txt", "hello\n");
    cli
}

/// Starts a host, and begins a session with it.
pub(crate) fn start(cli: &Cli) -> Client {
    Client::start(cli, &["run", "--stdio"])
}

/// Calls `write_file`, which a person has to allow, and does not wait; returns the id.
fn write(client: &mut Client, path: &str) -> u64 {
    client.begin("write_file", &json!({"path": path, "content": "written\n"}))
}

/// Returns what waits, when there are `count`.
pub(crate) fn pending(cli: &Cli, count: usize) -> Vec<Value> {
    wait::block_until("what waits", || {
        let run = cli.run(&["approvals", "list", "--json"]);
        // Or the host is not up yet.
        let found: Vec<Value> = serde_json::from_str(&run.stdout).ok()?;
        (found.len() == count).then_some(found)
    })
}

fn id(of: &Value) -> &str {
    of["id"].as_str().unwrap()
}

fn written(cli: &Cli, name: &str) -> bool {
    cli.here().join("workspace").join(name).exists()
}

#[test]
fn a_call_waits_until_the_operator_lets_it_run() {
    let cli = prepared();
    let mut client = start(&cli);
    let asked = write(&mut client, "a.txt");
    let waiting = pending(&cli, 1).remove(0);
    assert_eq!((&waiting["principal"], &waiting["tool"]), (&json!("stdio"), &json!("write-file")));
    assert_eq!((&waiting["rule_id"], &waiting["silence"]), (&json!("ask-first"), &json!("denies")));
    assert_eq!(waiting["arguments"]["path"], "a.txt");
    assert!(!written(&cli, "a.txt"));

    let shown = cli.run(&["approvals", "list"]).stdout;
    assert!(shown.contains("stdio calls write-file") && shown.contains("a.txt"), "{shown}");
    let dry = cli.run(&["approvals", "approve", id(&waiting), "--dry-run", "--json"]).stdout;
    let dry: Value = serde_json::from_str(&dry).unwrap();
    assert_eq!(dry, json!({"id": id(&waiting), "result": "would be approved"}));
    let run = cli.run(&["approvals", "approve", id(&waiting)]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "approved\n"), "{}", run.stderr);
    let answer = client.answer();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(asked), &json!(false)));
    assert!(written(&cli, "a.txt"));
    let again = cli.run(&["approvals", "approve", id(&waiting)]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(cli.log().contains("the operator"), "{}", cli.log());
}

#[test]
fn a_denied_call_does_not_run_and_its_caller_reads_why() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "a.txt");
    let waiting = pending(&cli, 1).remove(0);
    let run = cli.run(&["approvals", "deny", id(&waiting), "--reason", "not on a Friday"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = client.answer();
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["_meta"]["clawhost/code"], -32013, "{answer}");
    assert!(answer.to_string().contains("not on a Friday"), "{answer}");
    assert!(!written(&cli, "a.txt"));
}

#[test]
fn a_lease_lets_later_calls_run_until_it_is_revoked() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "notes/a.txt");
    let waiting = pending(&cli, 1).remove(0);
    let lease = ["--for", "session", "--arguments", "path=notes/*"];
    let run = cli.run(&[&["approvals", "approve", id(&waiting)][..], &lease].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    client.answer();

    write(&mut client, "notes/b.txt");
    assert_eq!(client.answer()["result"]["isError"], false, "covered");
    write(&mut client, "c.txt");
    let other = pending(&cli, 1).remove(0);
    cli.run(&["approvals", "deny", id(&other)]);
    assert_eq!(client.answer()["result"]["isError"], true, "not covered");

    let leases = cli.run(&["approvals", "leases", "--json"]).stdout;
    let leases: Vec<Value> = serde_json::from_str(&leases).unwrap();
    assert_eq!(leases.len(), 1);
    assert_eq!(cli.run(&["approvals", "revoke", id(&leases[0])]).code, Some(0));
    write(&mut client, "notes/d.txt");
    assert_eq!(pending(&cli, 1).len(), 1);
}

#[test]
fn a_timed_lease_outlives_its_host() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "a.txt");
    let waiting = pending(&cli, 1).remove(0);
    let run = cli.run(&["approvals", "approve", id(&waiting), "--for", "24h"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    client.answer();
    drop(client);

    let mut client = start(&cli);
    write(&mut client, "a.txt");
    assert_eq!(client.answer()["result"]["isError"], false, "the very same call");
    write(&mut client, "b.txt");
    assert_eq!(pending(&cli, 1).len(), 1, "another one is asked about");
}

#[test]
fn the_command_line_reaches_every_host_of_a_state_folder() {
    let cli = prepared();
    let (mut one, mut two) = (start(&cli), start(&cli));
    let asked = [write(&mut one, "one.txt"), write(&mut two, "two.txt")];
    for waiting in pending(&cli, 2) {
        assert_eq!(cli.run(&["approvals", "approve", id(&waiting)]).code, Some(0));
    }
    assert_eq!([&one, &two].map(|host| host.answer()["id"].clone()), asked);
    assert!(written(&cli, "one.txt") && written(&cli, "two.txt"));
}

#[test]
fn a_flood_of_long_questions_hides_nothing_and_each_can_be_seen_in_full() {
    let cli = prepared();
    let mut client = start(&cli);
    let long = "x".repeat(33_000);
    for number in 0..255 {
        client.begin("write_file", &json!({"path": format!("{number}.txt"), "content": long}));
    }
    let waiting = pending(&cli, 255).remove(7);
    let path = waiting["arguments"]["path"].as_str().unwrap();
    assert_eq!(waiting["arguments_cut"], json!({"content": 33_000}));
    let shown = cli.run(&["approvals", "show", id(&waiting), "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["arguments"], json!({"path": path, "content": long}));
    let run = cli.run(&["approvals", "approve", id(&waiting), "--for", "session", "--json"]);
    let done: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(done, json!({"id": waiting["id"], "result": "approved"}), "{}", run.stderr);
    client.answer();
    assert!(written(&cli, path));
}

#[test]
fn a_host_that_hangs_is_named_and_keeps_nobody_from_the_others() {
    let cli = prepared();
    let (mut hangs, mut works) = (start(&cli), start(&cli));
    write(&mut hangs, "one.txt");
    write(&mut works, "two.txt");
    let waiting = pending(&cli, 2);
    let two = waiting.iter().find(|one| one["arguments"]["path"] == "two.txt").unwrap();
    hangs.child.signal("STOP");
    let run = cli.run(&["approvals", "approve", id(two)]);
    hangs.child.signal("CONT");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "approved\n"), "{}", run.stderr);
    assert!(run.stderr.contains("control-") && run.stderr.contains("left out"), "{}", run.stderr);
    assert_eq!(works.answer()["result"]["isError"], false);
}

#[test]
fn a_lease_that_does_not_fit_the_call_at_hand_is_refused() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "a.txt");
    let waiting = pending(&cli, 1).remove(0);
    let lease = ["--for", "session", "--arguments", "pth=a*"];
    let run = cli.run(&[&["approvals", "approve", id(&waiting)][..], &lease].concat());
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("pth=a*"), "{}", run.stderr);
    assert_eq!(pending(&cli, 1).len(), 1, "still waits");
}

#[test]
fn an_agent_that_may_elicit_and_cannot_call_is_named() {
    let cli = prepared();
    cli.write("clawhost.yaml", "version: 1\nagents: [{name: claude, elicitation: true}]\n");
    let mut client = start(&cli);
    client.hang_up();
    assert!(client.child.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut client.child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("`claude`") && said.contains("`stdio`"), "{said}");
}

#[test]
fn arguments_cannot_drive_the_operator_s_terminal() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "a\u{1b}[2J\u{202e}.txt");
    pending(&cli, 1);
    let shown = cli.run(&["approvals", "list"]).stdout;
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
}

#[test]
fn a_host_that_is_told_to_stop_answers_what_waits() {
    let cli = prepared();
    let mut client = start(&cli);
    write(&mut client, "a.txt");
    pending(&cli, 1);
    client.child.signal("TERM");
    let answer = client.answer();
    assert!(answer.to_string().contains("the host is stopping"), "{answer}");
    assert!(client.child.wait().unwrap().success());
    let sockets = std::fs::read_dir(cli.state()).unwrap();
    let left = sockets.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("control-")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_host_whose_client_has_gone_waits_for_no_answer() {
    let cli = prepared();
    cli.write("clawhost.yaml", "version: 1\nlimits: {shutdown_grace_ms: 50}\n");
    let mut client = start(&cli);
    write(&mut client, "a.txt");
    pending(&cli, 1);
    client.hang_up();
    let answer = client.answer();
    assert!(answer.to_string().contains("has gone"), "{answer}");
    assert!(client.child.wait().unwrap().success());
    assert!(!written(&cli, "a.txt"));
}

#[test]
fn where_nobody_can_be_asked_the_call_is_refused_with_what_to_do() {
    let cli = prepared();
    let run = cli.run(&["call", "claw.yaml", "write_file", "path=a.txt", "content=x"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("-32011") && run.stderr.contains("approvals"), "{}", run.stderr);
    assert!(!written(&cli, "a.txt"));
}

/// Posts a message to `path`, and returns what it is answered with.
fn post(served: &Served, path: &str, token: &str, message: &Value) -> String {
    let token = format!("Bearer {token}");
    let mut headers = vec![("authorization", token.as_str())];
    headers.extend(JSON);
    headers.extend([
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "write_file"),
    ]);
    served.send("POST", path, &headers, &message.to_string()).1
}

/// What is sent, and what is understood.
const JSON: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

fn modern_write() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "write_file", "arguments": {"path": "a.txt", "content": "x"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"}}}})
}

/// Sends one message of an older revision and returns what comes back, line by line.
fn older(
    served: &Served,
    session: Option<&str>,
    message: &Value,
) -> impl Iterator<Item = String> + use<> {
    let bearer = served.bearer();
    let mut headers = vec![("authorization", bearer.as_str())];
    headers.extend(JSON);
    headers.extend(session.map(|id| ("mcp-session-id", id)));
    let stream = served.open("POST", "/mcp", &headers, &message.to_string());
    BufReader::new(stream).lines().map(Result::unwrap)
}

/// Returns the next message of a stream of events.
fn event(lines: &mut impl Iterator<Item = String>) -> Value {
    // A stream begins with an event without a message.
    let data = lines.find_map(|line| Some(line.strip_prefix("data: {")?.to_owned()));
    serde_json::from_str(&format!("{{{}", data.unwrap())).unwrap()
}

#[test]
fn an_older_client_over_http_asks_its_user_where_the_operator_allowed_it() {
    let cli = prepared();
    let agents = "version: 1\nagents: [{name: default, elicitation: true}]\n";
    cli.write("clawhost.yaml", agents);
    let served = Served::start(&cli, &[]);
    let hello = client::initialize(0, &json!({"elicitation": {}}));
    let session = older(&served, None, &hello)
        .find_map(|line| Some(line.strip_prefix("mcp-session-id: ")?.to_owned()))
        .unwrap();
    let send = |message: Value| older(&served, Some(&session), &message);
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).count();
    let mut call = send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}}));
    let question = event(&mut call);
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let yes = json!({"action": "accept", "content": {"approve": true}});
    send(json!({"jsonrpc": "2.0", "id": question["id"], "result": yes})).count();
    let answer = event(&mut call);
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)));
    assert!(written(&cli, "a.txt"));
}

#[test]
fn over_http_the_operator_approves_and_the_agent_that_calls_does_not() {
    let cli = prepared();
    let served = Served::start(&cli, &[]);
    let agent = served.token.as_deref().unwrap();
    let say = |token: &str, word: &Value| post(&served, "/claw", token, word);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| post(&served, "/mcp", agent, &modern_write()));
        let waiting = pending(&cli, 1).remove(0);
        let approve = json!({"jsonrpc": "2.0", "id": 2, "method": "claw.tool.approve",
                         "params": {"request_id": id(&waiting)}});
        let refused = say(agent, &approve);
        assert!(!refused.contains("\"acknowledged\":true"), "{refused}");
        assert_eq!(pending(&cli, 1).len(), 1, "still waits");
        let done = say(&served.operator, &approve);
        assert!(done.contains("\"acknowledged\":true"), "{done}");
        let answer = call.join().unwrap();
        assert!(answer.contains("\"isError\":false"), "{answer}");
    });
    assert!(written(&cli, "a.txt"));
}

#[test]
fn without_a_host_there_is_nothing_to_approve() {
    let cli = prepared();
    let run = cli.run(&["approvals", "list"]);
    assert_eq!(run.code, Some(6));
    assert!(run.stderr.contains("no host runs"), "{}", run.stderr);
    assert_eq!(cli.run(&["approvals", "approve", "x", "--for", "soon"]).code, Some(2));
}
