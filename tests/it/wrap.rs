//! `clawhost wrap`: a server on standard input and output, over HTTP.

use std::io::{BufRead as _, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use clawhost_core::limits::{WRAP_STREAMS_MAX, WRAP_UNASKED_BYTES_MAX};
use clawhost_tests::wait::block_until;
use clawhost_tests::{Cli, Served};
use serde_json::{Value, json};

use crate::bridge::{PYTHON, skipped};
use crate::cli::PROGRAM;

const TOKEN: &str = "token-of-the-wrapped-0123456789";

/// A server that says much that is no answer, and counts how often it is begun and greeted.
const SERVER: &str = r#"
import json, os, sys
print("Server starting", flush=True)
greeted = 0
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/starts", "a") as starts: starts.write("x")
if os.path.exists(folder + "/broken"): sys.exit("it is broken")
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if method is None:
        said = json.dumps([message.get("result"), (message.get("error") or {}).get("code")])
        say({"id": asking, "result": {"content": [{"type": "text", "text": said}]}})
        continue
    if "id" not in message:
        with open(folder + "/told", "a") as told: told.write(method + "\n")
        continue
    answer = lambda **kind: say({"id": message["id"], **kind})
    if method == "initialize":
        greeted += 1
        info = {"name": "counts", "version": "%d.%d" % (os.path.getsize(folder + "/starts"), greeted)}
        answer(result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        schema = {"type": "object"}
        answer(result={"tools": [{"name": "echo", "description": "Echoes.", "inputSchema": schema}]})
    elif method == "tools/call" and params["name"] == "end": os._exit(3)
    elif method == "tools/call" and params["name"] == "wait":
        with open(folder + "/told", "a") as told: told.write("wait\n")
    elif method == "tools/call" and params["name"] == "steps":
        token = params["_meta"]["progressToken"]
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2}})
        answer(result={"content": []})
    elif method == "tools/call" and params["name"] == "ask":
        asking = message["id"]
        say({"id": "q", "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}})
    elif method == "tools/call":
        text = params["arguments"].get("says_first")
        if text: say({"method": "notifications/message", "params": {"level": "info", "data": text}})
        say({"method": "notifications/message", "params": {"level": "info", "data": "unasked"}})
        answer(result={"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]})
    else: answer(error={"code": -32601, "message": "no " + method})
"#;

/// A folder with a server, a profile that it runs under, and a manifest whose tools run under that.
fn prepared() -> Option<Cli> {
    if !Path::new(PYTHON).exists() {
        skipped("there is no python3");
        return None;
    }
    let cli = Cli::new(PROGRAM);
    let script = cli.write("server/server.py", SERVER);
    let folder = script.parent().unwrap().display();
    cli.write("servers.yaml", format!("claw: '0.3.0'\nkind: Sandbox\nmetadata: {{name: servers}}\nspec:\n  level: process\n  capabilities:\n    filesystem: {{mode: scoped, mount_paths: [{{path: {folder}, permissions: rw}}]}}\n    shell: {{mode: full}}\n"));
    cli.write("claw.yaml", "claw: '0.3.0'\nkind: Claw\nmetadata: {name: t}\nspec:\n  identity: {inline: {personality: p, autonomy: autonomous}}\n  providers: [{inline: {protocol: openai-compatible, endpoint: 'http://127.0.0.1:9', model: m, auth: {type: none}}}]\n  sandbox: servers.yaml\n  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]\n");
    cli.write("token.txt", format!("{TOKEN}\n"));
    Some(cli)
}

/// Serves the server of `cli`, with these variables of the environment.
fn wrapped(cli: &Cli, options: &[&str], variables: &[(&str, &str)]) -> Served {
    let script = cli.here().join("server/server.py");
    let fixed = ["wrap", "--http", "127.0.0.1:0"];
    let program = ["--", PYTHON, script.to_str().unwrap()];
    let command = match options.contains(&"--pod") {
        true => [&fixed, options].concat(),
        false => [&fixed, options, &program].concat(),
    };
    let mut command = cli.command(&command);
    for (name, value) in variables {
        command.env(format!("CLAW_MCP_STDIO_{name}"), value);
    }
    let served = Served::of(cli, command, |greeting| greeting.lines().count() == 2);
    assert!(served.greeting.contains("not a gate"), "{}", served.greeting);
    served
}

/// One answer: its status, its session and its body.
struct Answer(u16, Option<String>, Value);

fn send(served: &Served, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut answer = String::new();
    let typed = headers.iter().any(|(name, _)| *name == "content-type");
    let json = (!typed).then_some(("content-type", "application/json"));
    let headers: Vec<_> = headers.iter().copied().chain(json).collect();
    served.open(method, "/mcp", &headers, body).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    Answer(status, session.map(str::to_owned), serde_json::from_str(body).unwrap_or_default())
}

fn post(served: &Served, session: &str, message: &Value) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session)];
    send(served, "POST", &headers, &message.to_string())
}

fn message(id: &Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn ask(served: &Served, session: &str, id: &Value, method: &str, params: &Value) -> Answer {
    post(served, session, &message(id, method, params))
}

fn greet(served: &Served) -> Answer {
    greet_as(served, "2025-11-25", &json!({}))
}

fn greet_as(served: &Served, version: &str, can: &Value) -> Answer {
    let client = json!({"protocolVersion": version, "capabilities": can, "clientInfo": {"name": "t", "version": "1"}});
    ask(served, "", &json!("hello"), "initialize", &client)
}

fn call(served: &Served, session: &str, id: &Value, tool: &str, arguments: &Value) -> Answer {
    ask(served, session, id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// Greets until the program is there.
fn begun(served: &Served) -> Answer {
    block_until("the program", || Some(greet(served)).filter(|met| met.0 == 200))
}

#[test]
fn the_folder_of_what_hosts_run_is_granted_to_no_wrapped_server() {
    let Some(cli) = prepared() else { return };
    let script = cli.here().join("server/server.py");
    // What is not refused ends all the same: nobody can listen there.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let program = ["--", PYTHON, script.to_str().unwrap()];
    let mut command = cli.command(&[&["wrap", "--http", &address], &program[..]].concat());
    // In the folder that the profile mounts.
    command.env("XDG_CACHE_HOME", cli.here().join("server")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("a folder of this host's own"), "{told}");
}

#[test]
fn an_address_that_cannot_be_had_is_all_that_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = Cli::new(PROGRAM).run(&["wrap", "--http", &address, "--", "/bin/cat"]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    let said = format!("error: HTTP cannot be served on {address}: ");
    assert!(run.stderr.starts_with(&said), "{}", run.stderr);
}

#[test]
fn every_answer_is_that_of_the_table() {
    let Some(cli) = prepared() else { return };
    let variables = [("REQUEST_TIMEOUT_MS", "2000"), ("MAX_BODY_BYTES", "3000")];
    let served = wrapped(&cli, &["--token-file", "token.txt"], &variables);
    let bearer = format!("Bearer {TOKEN}");
    let known = [("authorization", bearer.as_str())];
    let (long, ping) = ("x".repeat(3_001), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str, u16, i64);
    let table: [Row<'_>; 14] = [
        ("GET", &known, "", 405, 0),
        ("DELETE", &known, "", 405, 0),
        ("POST", &[], ping, 401, 0),
        ("POST", &[("authorization", "Bearer token")], ping, 401, 0),
        ("POST", &[known[0], ("content-type", "text/plain")], ping, 415, 0),
        ("POST", &known, "{", 400, -32_700),
        ("POST", &known, r#"{"jsonrpc":"2.0","id":1}"#, 400, -32_600),
        ("POST", &known, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 400, -32_600),
        ("POST", &known, "[]", 400, -32_600),
        ("POST", &known, ping, 404, -32_001),
        ("POST", &known, ready, 202, 0),
        ("POST", &[known[0], ("host", "evil.example")], ping, 403, 0),
        ("POST", &[known[0], ("origin", "http://evil.example")], ping, 403, 0),
        ("POST", &known, &long, 413, 0),
    ];
    for (method, headers, body, status, code) in table {
        let Answer(got, _, said) = send(&served, method, headers, body);
        let said = said["error"]["code"].as_i64().unwrap_or_default();
        assert_eq!((got, said), (status, code), "{method} {headers:?} {body:.60}");
    }
    let Answer(status, session, met) = begun(&served);
    let (session, result) = (session.unwrap(), &met["result"]);
    assert_eq!(
        (status, &met["id"], &result["serverInfo"]["version"]),
        (200, &json!("hello"), &json!("1.1"))
    );
    let Answer(_, other, again) = greet(&served);
    let other = other.unwrap();
    assert_ne!(session, other, "each client has a session of its own");
    assert_eq!(&again["result"], result, "the one process was greeted once");
    let older = greet_as(&served, "2024-11-05", &json!({})).2;
    assert_eq!(older["result"]["protocolVersion"], "2024-11-05");
    for (session, id) in [(&session, json!(7)), (&other, json!(7)), (&other, json!("seven"))] {
        let Answer(status, _, said) = call(&served, session, &id, "echo", &json!({"a": 1}));
        assert_eq!((status, &said["id"]), (200, &id));
        assert_eq!(said["result"]["content"][0]["text"], r#"{"a": 1}"#);
    }
    let Answer(status, _, said) = ask(&served, &session, &json!(8), "prompts/list", &json!({}));
    assert_eq!((status, &said["error"]["code"]), (200, &json!(-32601)));
    let Answer(status, _, said) = call(&served, &session, &json!(9), "wait", &json!({}));
    assert_eq!((status, &said["error"]["code"], &said["id"]), (503, &json!(-32000), &json!(9)));
    assert_eq!(served.send("GET", "/healthz", &[], "").0, 200);
    assert_eq!(served.send("POST", "/other", &known, "{}").0, 404);
    assert!(!served.greeting.contains(TOKEN));
}

#[test]
fn what_the_program_says_unasked_is_heard_by_who_listens_until_its_session_ends() {
    let Some(cli) = prepared() else { return };
    let served = wrapped(&cli, &[], &[]);
    let sessions = [(); 2].map(|()| begun(&served).1.unwrap());
    let listen = |session: &str| {
        let (head, stream) = listen(&served, session);
        assert!(head.contains(" 200 ") && head.contains("text/event-stream"), "{head}");
        stream
    };
    let mut first = listen(&sessions[0]);
    let (mut again, mut other) = (listen(&sessions[0]), listen(&sessions[1]));
    // Another stream of its session takes the place of the first.
    assert_eq!(first.read_to_end(&mut Vec::new()).unwrap(), "0\r\n\r\n".len());
    // What is too long is passed over.
    let long = json!({"says_first": "x".repeat(WRAP_UNASKED_BYTES_MAX)});
    assert_eq!(call(&served, &sessions[0], &json!(1), "echo", &long).0, 200);
    for stream in [&mut again, &mut other] {
        let said = next(stream);
        assert_eq!(said["method"], "notifications/message");
        assert_eq!(said["params"]["data"], "unasked");
    }
    let end = || send(&served, "DELETE", &[("mcp-session-id", &sessions[0])], "").0;
    assert_eq!((end(), end()), (204, 404));
    again.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(call(&served, &sessions[0], &json!(2), "echo", &json!({})).0, 404);
    assert_eq!(send(&served, "GET", &[("mcp-session-id", "none")], "").0, 404);
    // The end of the program is that of all streams.
    assert_eq!(call(&served, &sessions[1], &json!(3), "end", &json!({})).0, 503);
    other.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn no_more_clients_listen_than_may() {
    let Some(cli) = prepared() else { return };
    let served = wrapped(&cli, &[], &[]);
    begun(&served);
    let listens = || listen(&served, &greet(&served).1.unwrap());
    let mut streams: Vec<_> = (0..WRAP_STREAMS_MAX).map(|_| listens()).collect();
    assert!(streams.iter().all(|(head, _)| head.contains(" 200 ")));
    let (head, _) = listens();
    assert!(head.contains(" 503 "), "{head}");
    streams.pop();
    block_until("a place", || listens().0.contains(" 200 ").then_some(()));
}

/// Calls a tool, taking events, and returns the head of the answer and what follows it.
fn begin(served: &Served, session: &str, params: &Value) -> (String, TcpStream) {
    let accept = ("accept", "application/json, text/event-stream");
    let headers = [accept, ("mcp-session-id", session), ("content-type", "application/json")];
    let call = message(&json!(1), "tools/call", params);
    let mut stream = served.open("POST", "/mcp", &headers, &call.to_string());
    (read_until(&mut stream, "\r\n\r\n"), stream)
}

/// Returns the next event of a stream.
fn next(stream: &mut TcpStream) -> Value {
    let event = read_until(stream, "\n\n");
    let (_, data) = event.split_once("data: ").unwrap();
    serde_json::from_str(data.trim()).unwrap()
}

#[test]
fn how_far_a_request_is_its_own_client_hears_by_its_own_token() {
    let Some(cli) = prepared() else { return };
    let served = wrapped(&cli, &[], &[]);
    let sessions = [(); 2].map(|()| begun(&served).1.unwrap());
    // Both give the same token, at the same time.
    let steps = json!({"name": "steps", "_meta": {"progressToken": "mine"}});
    for (head, mut stream) in sessions.each_ref().map(|session| begin(&served, session, &steps)) {
        assert!(head.contains(" 200 ") && head.contains("text/event-stream"), "{head}");
        let told = next(&mut stream);
        assert_eq!(told["method"], "notifications/progress", "{told}");
        let expected = json!({"progressToken": "mine", "progress": 1.0, "total": 2.0});
        assert_eq!(told["params"], expected);
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}});
        assert_eq!(next(&mut stream), answer);
        assert_eq!(read_until(&mut stream, "0\r\n\r\n"), "\r\n0\r\n\r\n");
    }
    // Who takes no events hears nothing of it.
    assert_eq!(ask(&served, &sessions[0], &json!(2), "tools/call", &steps).0, 200);
}

#[test]
fn what_the_program_asks_is_answered_by_the_client_whose_call_alone_is_open() {
    let Some(cli) = prepared() else { return };
    let served = wrapped(&cli, &["--questions"], &[]);
    begun(&served);
    let session = |can: Value| greet_as(&served, "2025-11-25", &can).1.unwrap();
    let (able, other) = (session(json!({"elicitation": {}})), session(json!({})));
    let asks = json!({"name": "ask", "arguments": {}});
    let text = |answer: &Value| answer["result"]["content"][0]["text"].clone();
    let (_, mut stream) = begin(&served, &able, &asks);
    let question = next(&mut stream);
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["message"], "Who?");
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(post(&served, &other, &reply).0, 400, "it was asked of another");
    assert_eq!((post(&served, &able, &reply).0, post(&served, &able, &reply).0), (202, 400));
    assert_eq!(text(&next(&mut stream)), r#"[{"action": "decline"}, null]"#);
    // One client cannot be asked; of several calls nobody knows which is meant.
    let denied = call(&served, &other, &json!(2), "ask", &json!({}));
    assert_eq!(text(&denied.2), "[null, -32601]");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| call(&served, &other, &json!(3), "wait", &json!({})));
        block_until("the refusal", || {
            let denied = call(&served, &able, &json!(4), "ask", &json!({}));
            (text(&denied.2) == "[null, -32600]").then_some(())
        });
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        assert_eq!(post(&served, &other, &cancel).0, 202);
        assert_eq!(waits.join().unwrap().0, 202);
    });
}

/// Opens a stream of a session, and returns the head of the answer, too.
fn listen(served: &Served, session: &str) -> (String, TcpStream) {
    let mut stream = served.open("GET", "/mcp", &[("mcp-session-id", session)], "");
    (read_until(&mut stream, "\r\n\r\n"), stream)
}

fn read_until(stream: &mut impl Read, mark: &str) -> String {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(mark.as_bytes()) {
        stream.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    String::from_utf8(read).unwrap()
}

#[test]
fn a_program_that_ends_takes_its_sessions_with_it_and_comes_again() {
    let Some(cli) = prepared() else { return };
    cli.write(
        "claw-pod.yml",
        format!(
            "services:\n  counts:\n    x-claw: {{mcp-stdio: {{command: {PYTHON}, args: [{}]}}}}\n",
            cli.here().join("server/server.py").display()
        ),
    );
    let variables = [("AUTH_TOKEN", TOKEN), ("RESTART_BACKOFF_MS", "1")];
    let served = wrapped(&cli, &["counts", "--pod", "claw-pod.yml"], &variables);
    let session = begun(&served).1.unwrap();
    let cancelled = std::thread::scope(|scope| {
        let waits = scope.spawn(|| call(&served, &session, &json!(1), "wait", &json!({})));
        let pending = scope.spawn(|| call(&served, &session, &json!(2), "wait", &json!({})));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        let told = || std::fs::read_to_string(cli.here().join("server/told")).unwrap_or_default();
        // Before that, whoever cancels is heard here and not there.
        let both = || told().matches("wait").count() == 2;
        block_until("the calls", || both().then_some(()));
        block_until("the cancellation", || {
            assert_eq!(post(&served, &session, &cancel).0, 202);
            told().contains("notifications/cancelled").then_some(())
        });
        let cancelled = waits.join().unwrap();
        let Answer(status, _, said) = call(&served, &session, &json!(3), "end", &json!({}));
        assert_eq!((status, &said["error"]["code"]), (503, &json!(-32000)));
        let Answer(status, _, said) = pending.join().unwrap();
        assert_eq!((status, &said["error"]["code"], &said["id"]), (503, &json!(-32000), &json!(2)));
        cancelled
    });
    assert_eq!(cancelled.0, 202);
    let gone = || Some(call(&served, &session, &json!(4), "echo", &json!({})));
    let Answer(.., said) = block_until("its end", || gone().filter(|answer| answer.0 == 404));
    assert_eq!(said["error"]["code"], -32001);
    let met = begun(&served);
    assert_eq!(met.2["result"]["serverInfo"]["version"], "2.1");
    assert_eq!(call(&served, &met.1.unwrap(), &json!(5), "echo", &json!({})).0, 200);
}

#[test]
fn a_program_that_ends_again_and_again_is_left_alone() {
    let Some(cli) = prepared() else { return };
    cli.write("server/broken", "");
    let variables = [("RESTART_BACKOFF_MS", "1"), ("RESTART_MAX_MS", "2")];
    let mut served = wrapped(&cli, &[], &variables);
    let mut log = BufReader::new(served.child.stderr.take().unwrap()).lines();
    let first = log.next().unwrap().unwrap();
    assert!(first.contains("it is broken") && !first.contains("not available"), "{first}");
    let told = log.find(|line| line.as_ref().unwrap().contains("the next in 60000 ms"));
    assert!(told.unwrap().unwrap().contains("it is broken"));
    let starts = || std::fs::read(cli.here().join("server/starts")).unwrap().len();
    assert_eq!(starts(), 5);
    assert_eq!(served.send("GET", "/healthz", &[], "").0, 503);
    let Answer(status, session, said) = greet(&served);
    assert_eq!((status, session, &said["error"]["code"]), (503, None, &json!(-32000)));
    assert_eq!(starts(), 5, "nobody who asks starts it");
}

#[test]
fn a_host_bridges_what_is_wrapped_and_its_policy_holds() {
    let Some(cli) = prepared() else { return };
    let served = wrapped(&cli, &["--token-file", "token.txt"], &[]);
    assert_eq!(cli.run_with(&["secrets", "set", "FAR"], TOKEN).code, Some(0));
    cli.write("clawhost.yaml", format!("version: 1\ntools: {{mcp_servers: {{far: {{url: 'http://{}/mcp', bearer: FAR, internal_only: false}}}}}}\n", served.authority));
    let call = || cli.run(&["call", "claw.yaml", "far__echo", "a=1"]);
    let run = call();
    assert!(run.code == Some(0) && run.stdout.contains(r#""a""#), "{run:?}");
    let denied = std::fs::read_to_string(cli.here().join("claw.yaml")).unwrap();
    cli.write("claw.yaml", denied.replace("action: allow", "action: deny"));
    assert_eq!(call().code, Some(4));
}

#[test]
fn nothing_is_served_to_others_without_a_token_and_no_misspelt_variable_is_passed_over() {
    let Some(cli) = prepared() else { return };
    let open = cli.run(&["wrap", "--http", "0.0.0.0:0", "--sandbox", "servers", "--", PYTHON]);
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(
        open.stderr.contains("a token is needed") && open.stderr.contains("--token-file"),
        "{open:?}"
    );
    let unknown = cli.run(&["wrap", "--sandbox", "nobody", "--", PYTHON]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("process, servers"), "{unknown:?}");
    for (name, value) in
        [("AUTH_TOKN", "x"), ("ARGS", "-v"), ("PORT", "x"), ("REQUEST_TIMEOUT_MS", "0")]
    {
        let mut command = cli.command(&["wrap"]);
        command.env(format!("CLAW_MCP_STDIO_{name}"), value).env("CLAW_MCP_STDIO_COMMAND", PYTHON);
        assert_eq!(command.output().unwrap().status.code(), Some(2), "{name}");
    }
    assert_eq!(cli.run(&["wrap"]).code, Some(2));
    assert_eq!(cli.run(&["wrap", "--sandbox", "none", "--", "no-such-program"]).code, Some(2));
}
