//! Tools of services, against a service that really listens and may mean harm.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use clawhost::secrets::Secrets;
use clawhost_core::error::ErrorKind;
use clawhost_tests::host::{TestHostBuilder, call, call_within};
use clawhost_tests::listening::{listening, read_request};
use clawhost_tests::{Program, TestHost};
use serde_json::{Value, json};

const TOKEN: &str = "s3rv1ce-token-of-the-test";
/// How often `flaky` fails before it answers.
const FLAKY: usize = 2;
/// Longer than a token may be shown in, and than a call may answer.
const HUGE_BYTES: usize = 12 * 1_048_576;

/// A service on this machine, and what it was sent.
struct Service {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    folder: tempfile::TempDir,
}

impl Service {
    fn start() -> Self {
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&heard);
        let port = listening(move |mut stream| {
            let all = Arc::clone(&all);
            std::thread::spawn(move || {
                let (head, body) = read_request(&mut stream);
                let request = head + &body;
                let times = {
                    let mut all = all.lock().unwrap();
                    all.push(request.clone());
                    all.iter().filter(|one| **one == request).count()
                };
                // It hangs up on the first two who ask the same of it.
                if request.starts_with("get /r/flaky ") && times <= FLAKY {
                    return;
                }
                let port = stream.local_addr().unwrap().port();
                answer(&mut stream, &request, port);
            });
        });
        Self { port, heard, folder: tempfile::tempdir().unwrap() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns a host that has this service's tools for whoever may call.
    fn host(&self) -> TestHostBuilder {
        self.host_with("")
    }

    fn host_with(&self, more: &str) -> TestHostBuilder {
        let describe = self.folder.path().join("desk.json");
        std::fs::write(&describe, DESK).unwrap();
        let runtime = format!(
            "version: 1\n{more}\ntools: {{services: {{desk: {{url: {}, describe: {}, secret: DESK_TOKEN}}}}}}",
            self.url(),
            describe.display()
        );
        TestHost::builder().runtime_file(&runtime).secrets(secrets())
    }
}

fn secrets() -> Secrets {
    const TOKENS: &[(&str, &str)] =
        &[("A_TOKEN", TOKEN), ("B_TOKEN", "0ther-token-of-the-test"), ("DESK_TOKEN", TOKEN)];
    clawhost_tests::host::secrets(TOKENS)
}

fn answer(stream: &mut TcpStream, request: &str, port: u16) {
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut status, mut headers, mut body) = ("200 OK", String::new(), Vec::new());
    let mut to = |place: &str| write!(headers, "location: {place}\r\n").unwrap();
    match path.split('?').next().unwrap_or_default() {
        "/r/away" => (status, _) = ("302 Found", to("http://169.254.169.254/latest/meta-data/")),
        "/r/other" => {
            (status, _) = ("307 Temporary Redirect", to(&format!("http://localhost:{port}/")))
        }
        "/r/port" => (status, _) = ("302 Found", to("http://127.0.0.1:1/")),
        "/r/login" => {
            (status, _) = ("302 Found", to(&format!("http://me:{TOKEN}@127.0.0.1:{port}/")));
        }
        "/r/here" => (status, _) = ("301 Moved Permanently", to("/r/echo")),
        "/r/round" => (status, _) = ("302 Found", to("/r/round")),
        "/r/huge" => body = vec![b'x'; HUGE_BYTES],
        "/r/gzip" => headers.push_str("content-encoding: gzip\r\n"),
        "/r/part" => status = "206 Partial Content",
        padded if padded.starts_with("/r/padded-") => {
            let pad = padded.trim_start_matches("/r/padded-").parse().unwrap();
            body = format!("{}{TOKEN}.", "x".repeat(pad)).into_bytes();
        }
        "/r/binary" => body = vec![0, 159, 146, 150],
        "/r/broken" => body = b"{\"a\": \"\xff\xfe\"}".to_vec(),
        "/r/missing" => {
            (status, body) = ("404 Not Found", b"{\"why\": \"no such order\"}".to_vec())
        }
        "/r/slow" => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1"));
            // Nothing more, until whoever waits has had enough.
            drop(stream.read(&mut [0]));
            return;
        }
        _ => body = json!({"heard": request}).to_string().into_bytes(),
    }
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
}

const DESK: &str = r#"{"version": 2, "description": "Desk", "tools": [
  {"name": "context", "description": "Reads.",
   "inputSchema": {"type": "object", "properties": {"claw_id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["claw_id"], "additionalProperties": false},
   "http": {"method": "GET", "path": "/context/{claw_id}"}, "annotations": {"readOnly": true}},
  {"name": "trade", "description": "Trades.",
   "inputSchema": {"type": "object", "properties": {"symbol": {"type": "string"}}},
   "http": {"method": "POST", "path": "/trades", "body": "json", "body_key": "order"}, "annotations": {"destructiveHint": true}},
  {"name": "r.get", "description": "Gets.",
   "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
   "http": {"method": "GET", "path": "/r/{what}"}},
  {"name": "r.post", "description": "Posts.",
   "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
   "http": {"method": "POST", "path": "/r/{what}"}}],
  "auth": {"type": "bearer", "env": "DESK_TOKEN"}}"#;

#[tokio::test]
async fn a_service_s_tool_is_one_request_with_its_token_and_its_caller() {
    let service = Service::start();
    let host = service.host().build().await;
    assert!(host.names().contains(&"desk_r_get".to_owned()), "{:?}", host.names());
    let hints = |tool: &str| host.host().catalog().find(tool).unwrap().definition.annotations;
    assert_eq!(hints("desk_context").read_only, Some(true));
    assert_eq!(hints("desk_trade").destructive, Some(true));
    let answer = host.ask("desk_context", json!({"claw_id": "root", "n": 3})).await;
    assert_eq!((&answer["ok"], &answer["status_code"]), (&json!(true), &json!(200)));
    host.ask("desk.trade", json!({"symbol": "X", "claw_id": "root"})).await;
    let heard = service.heard();
    assert!(heard[0].starts_with("get /context/test?n=3 http/1.1\r\n"), "{}", heard[0]);
    assert!(heard[0].contains(&format!("authorization: bearer {TOKEN}")), "{}", heard[0]);
    assert!(heard[1].ends_with(r#"{"order":{"symbol":"X"}}"#), "{}", heard[1]);
    // The service said the token back, and it was taken out.
    assert!(!answer.to_string().contains(TOKEN), "{answer}");
    assert_eq!(host.finished().len(), 2);
    host.check_audit();
}

#[tokio::test]
async fn listing_and_schemas_hold_for_a_service_as_for_any_tool() {
    let service = Service::start();
    let rules = "- {id: some, action: allow, scope: tool, match: {name: desk-context}}";
    let host = service.host().rules(rules).build().await;
    let listed = host.host().list(&clawhost::Principal("test".to_owned()));
    let listed: Vec<&str> = listed.iter().map(|tool| tool.definition.name.as_str()).collect();
    assert_eq!(listed, ["desk_context"]);
    let error = host.call("desk_trade", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Policy);
    let error = host.call("desk_context", json!({"n": "three"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArguments);
    assert!(service.heard().is_empty());
}

#[tokio::test]
async fn a_step_is_tried_again_as_often_as_the_step_says_whatever_its_tool_says() {
    for (attempts, stated, asked) in [
        (3, "retry_on: [unavailable]", 3),
        (2, "retry_on: [unavailable]", 2),
        (3, "multiplier: 1", 1),
    ] {
        let service = Service::start();
        let definitions = format!(
            "version: 1\ntools:\n  desk_r_get: {{ retry_policy: {{ max_attempts: 10, initial_ms: 1, {stated} }} }}\n  fetch:\n    composite:\n      description: Fetches.\n      input_schema: {{ type: object }}\n      steps: [{{ tool_name: desk_r_get, arg_mapping: {{ what: {{ literal: flaky }} }}, output_key: page, max_attempts: {attempts} }}]"
        );
        let host = service.host().definitions(&definitions).build().await;
        let outcome = host.call("fetch", json!({})).await;
        assert_eq!(outcome.is_ok(), asked > FLAKY, "{outcome:?}");
        assert_eq!(service.heard().len(), asked, "{stated}");
        let [step, whole] = &host.finished()[..] else { panic!("{:?}", host.finished()) };
        let made = Some(asked).filter(|asked| *asked > 1);
        assert_eq!((&step["attempts"], &whole["attempts"]), (&json!(made), &Value::Null));
        if let Err(error) = outcome {
            assert!(error.message.starts_with("step 1, `desk_r_get`: "), "{error}");
            assert_eq!((error.kind, &error.data["step"]), (ErrorKind::Upstream, &json!(1)));
        }
        host.check_audit();
    }
}

async fn get(host: &TestHost, what: &str) -> Value {
    host.call("desk_r_get", json!({"what": what})).await.unwrap().structured.unwrap()
}

#[tokio::test]
async fn an_answer_is_told_as_it_is() {
    let service = Service::start();
    let host = service.host().build().await;
    assert_eq!(get(&host, "binary").await["data"], "AJ+Slg==");
    assert_eq!(get(&host, "broken").await["encoding"], "base64");
    let missing = host.call("desk_r_get", json!({"what": "missing"})).await.unwrap();
    assert!(missing.is_error);
    assert_eq!(
        missing.structured.unwrap(),
        json!({"ok": false, "status_code": 404, "error": {
            "code": "http_404", "message": "the service answers 404", "details": {"why": "no such order"}}})
    );
    let huge = host.call("desk_r_get", json!({"what": "huge"})).await.unwrap();
    assert!(huge.bytes() < 70_000, "{}", huge.bytes());
    let cut = format!("{huge:?}");
    assert!(
        cut.contains(&HUGE_BYTES.to_string()) || huge.cut_from_bytes > Some(10_000_000),
        "{:?}",
        huge.cut_from_bytes
    );
}

#[tokio::test]
async fn no_cut_and_no_coding_leaves_a_part_of_a_token_in_an_answer() {
    const KEPT_BYTES: usize = 1_000;
    let service = Service::start();
    let limits = format!("max_output_bytes: {KEPT_BYTES}");
    let host = service.host().only(&["desk-r-get"]).limits(&limits).build().await;
    for pad in KEPT_BYTES - TOKEN.len()..KEPT_BYTES {
        let answer = get(&host, &format!("padded-{pad}")).await;
        assert_eq!(answer["data"].as_str().map(str::len), Some(KEPT_BYTES), "{answer}");
        assert_eq!(answer["original_bytes"], pad + TOKEN.len() + 1);
        let shown = answer.to_string();
        let part = (8..=TOKEN.len()).find(|end| shown.contains(&TOKEN[end - 8..*end]));
        assert_eq!(part, None, "{answer}");
    }
    for (what, why) in [("gzip", "compressed"), ("part", "in part")] {
        let reply = host.call("desk_r_get", json!({"what": what})).await.unwrap();
        assert!(reply.is_error, "{what}");
        let answer = reply.structured.unwrap();
        assert_eq!(answer["error"]["code"], "request_failed");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    }
    host.check_audit();
}

#[tokio::test]
async fn a_redirect_stays_at_the_service_and_never_carries_the_token_away() {
    let service = Service::start();
    let host = service.host().build().await;
    for what in ["away", "other", "port", "login"] {
        let error = host.call("desk_r_get", json!({"what": what})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Sandbox, "{what}: {error:?}");
        assert!(!format!("{error:?}").contains(TOKEN), "{what}");
    }
    assert_eq!(service.heard().len(), 4, "each was asked once and nobody else");
    let round = get(&host, "round").await;
    assert_eq!(round["error"]["code"], "request_failed");
    let before = service.heard().len();
    get(&host, "here").await;
    host.call("desk_r_post", json!({"what": "here", "x": 1})).await.unwrap();
    let heard = service.heard().split_off(before);
    let lines: Vec<&str> = heard.iter().map(|one| one.lines().next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "get /r/here http/1.1", "get /r/echo http/1.1", "post /r/here http/1.1",
            "get /r/echo http/1.1"
        ]
    );
    host.check_audit();
}

#[tokio::test]
async fn a_service_that_is_slow_or_gone_ends_the_call_in_time() {
    let service = Service::start();
    let host = service.host().build().await;
    let within = std::time::Duration::from_millis(200);
    let slow = host.host().call(call_within("desk_r_get", json!({"what": "slow"}), within)).await;
    assert_eq!(slow.unwrap_err().kind, ErrorKind::Timeout);
    let gone = Service { port: 1, ..Service::start() };
    let error = gone.host().build().await.call("desk_trade", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Upstream);
}

fn compiled(service: &Service, tool: &str, secret: &str) -> String {
    json!({"version": 1, "tools": [{
        "name": format!("desk.{tool}"), "description": "d", "inputSchema": {"type": "object"}, "annotations": {},
        "execution": {"transport": "http", "service": "desk", "base_url": service.url(), "method": "GET",
            "path": "/context/{claw_id}", "auth": {"type": "header", "header": "X-API-Key", "prefix": "key ", "secret": secret}},
    }], "policy": {}})
    .to_string()
}

#[tokio::test]
async fn an_agent_has_what_was_compiled_for_it_with_its_own_token_and_nothing_else() {
    let service = Service::start();
    let host = TestHost::builder()
        .secrets(secrets())
        .context("a", &compiled(&service, "look", "A_TOKEN"))
        .context("b", &compiled(&service, "look", "B_TOKEN"))
        .context("c", &compiled(&service, "see", "A_TOKEN"))
        .context("d", &compiled(&service, "look", "GONE"))
        .build()
        .await;
    let as_agent = |agent: &str, tool: &str| {
        let mut made = call(tool, json!({}));
        made.principal.0 = agent.to_owned();
        made
    };
    for agent in ["a", "b"] {
        host.host().call(as_agent(agent, "desk_look")).await.unwrap();
    }
    let heard = service.heard();
    assert!(
        heard[0].starts_with("get /context/a ")
            && heard[0].contains(&format!("x-api-key: key {TOKEN}"))
    );
    assert!(heard[1].starts_with("get /context/b ") && heard[1].contains("0ther-token"));
    let error = host.host().call(as_agent("d", "desk_look")).await.unwrap_err();
    let text = "the operator has to set the token for the service `desk`";
    assert_eq!((error.message.as_str(), &error.data["stage"]), (text, &json!("secrets")));
    let last = host.finished().pop().unwrap();
    assert!(last["internal"].as_str().unwrap().contains("\"GONE\""), "{last}");
    for agent in ["c", "test", "cli"] {
        let error = host.host().call(as_agent(agent, "desk_look")).await.unwrap_err();
        assert_eq!(error.data["stage"], "agent");
        let listed = host.host().list(&clawhost::Principal(agent.to_owned()));
        assert!(listed.iter().all(|tool| tool.definition.name != "desk_look"), "{agent}");
    }
    assert_eq!(service.heard().len(), 2);
}

/// A host of agents with skills, in whose service `desk` is one tool of many.
#[tokio::test]
async fn an_agent_with_skills_is_offered_and_calls_what_they_allow_and_nothing_else() {
    let service = Service::start();
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("SKILL.md");
    std::fs::write(
        &skill,
        "---\nname: reading\nallowed_tools: ['desk.con*', read_file]\n---\nRead.\n",
    )
    .unwrap();
    let agents =
        format!("agents: [{{name: reader, skills: [{}]}}, {{name: writer}}]", skill.display());
    let host = service.host_with(&agents).file("a.txt", "a").build().await;
    let listed = |agent: &str| {
        let listed = host.host().list(&clawhost::Principal(agent.to_owned()));
        listed.iter().map(|tool| tool.definition.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed("reader"), ["desk_context", "read_file"]);
    assert!(listed("writer").contains(&"write_file".to_owned()));
    let as_reader = |tool: &str, arguments: Value| {
        let mut made = call(tool, arguments);
        made.principal.0 = "reader".to_owned();
        host.host().call(made)
    };
    as_reader("read_file", json!({"path": "a.txt"})).await.unwrap();
    as_reader("desk_context", json!({})).await.unwrap();
    for (tool, arguments) in
        [("write_file", json!({"path": "b", "content": "b"})), ("desk_trade", json!({}))]
    {
        let error = as_reader(tool, arguments).await.unwrap_err();
        assert_eq!(
            (error.kind, &error.data["stage"]),
            (ErrorKind::Policy, &json!("agent")),
            "{tool}"
        );
    }
    assert!(!host.workspace().join("b").exists());
    assert_eq!(service.heard().len(), 1);
}

/// A server over HTTP with two tools, which wants a token.
const SERVER: &str = r#"
import json, sys, http.server
sessions = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        who = self.headers["authorization"]
        tool = lambda n: {"name": n, "description": "d", "inputSchema": {"type": "object"}}
        session = self.headers["mcp-session-id"]
        if method == "initialize":
            session = str(len(sessions)); sessions[session] = who
        known = sessions.get(session) == who
        result = {
            "initialize": lambda: {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
            "tools/list": lambda: {"tools": [tool("search"), tool("delete")]},
            "tools/call": lambda: {"content": [{"type": "text", "text": "found by " + message["params"]["name"] + ("" if known else " for somebody else") + (" as another" if "0ther" in who else "")}]},
        }.get(method)
        allowed = who in ("Bearer s3rv1ce-token-of-the-test", "Bearer 0ther-token-of-the-test")
        if not allowed or "id" not in message:
            self.send_response(202 if allowed else 401); self.send_header("content-length", "0"); self.end_headers(); return
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        answer.update({"result": result()} if result else {"error": {"code": -32601, "message": "no"}})
        body = json.dumps(answer).encode()
        self.send_response(200)
        if session: self.send_header("mcp-session-id", session)
        self.send_header("content-type", "application/json"); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Mcp {
    _program: Program,
    port: u16,
}

impl Mcp {
    fn start() -> Option<Self> {
        use std::io::BufRead as _;
        let mut command = std::process::Command::new("python3");
        let command = command.args(["-c", SERVER]).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        Some(Self { _program: child.into(), port: line.trim().parse().ok()? })
    }
}

#[tokio::test]
async fn a_service_that_is_an_mcp_server_serves_what_was_compiled_to_whom_it_was() {
    let Some(server) = Mcp::start() else { return eprintln!("skipped: there is no python3") };
    let tools = json!({"version": 1, "tools": [{
        "name": "finder.search", "description": "d", "inputSchema": {"type": "object"},
        "execution": {"transport": "mcp", "service": "finder", "base_url": format!("http://127.0.0.1:{}", server.port),
            "path": "/mcp", "tool_name": "search", "auth": {"type": "bearer", "secret": "A_TOKEN"}},
    }]});
    let host =
        TestHost::builder().secrets(secrets()).context("a", &tools.to_string()).build().await;
    assert!(
        host.names().contains(&"finder__search".to_owned()),
        "{:?} {}",
        host.names(),
        host.refused()
    );
    assert!(!host.names().contains(&"finder__delete".to_owned()));
    let mut made = call("finder.search", json!({}));
    assert_eq!(host.host().call(made.clone()).await.unwrap_err().data["stage"], "agent");
    made.principal.0 = "a".to_owned();
    let reply = host.host().call(made.clone()).await.unwrap();
    assert_eq!(clawhost_tests::host::text(&reply), "found by search");

    // Who comes with another token has another session.
    let other = tools.to_string().replace("A_TOKEN", "B_TOKEN");
    let host = TestHost::builder().secrets(secrets()).context("a", &tools.to_string());
    let host = host.context("b", &other).context("c", &other).build().await;
    for (agent, found) in [
        ("b", "found by search as another"),
        ("a", "found by search"),
        ("c", "found by search as another"),
    ] {
        made.principal.0 = agent.to_owned();
        let reply = host.host().call(made.clone()).await.unwrap();
        assert_eq!(clawhost_tests::host::text(&reply), found, "{agent}");
    }
    made.principal.0 = "d".to_owned();
    assert_eq!(host.host().call(made.clone()).await.unwrap_err().data["stage"], "agent");

    // Who has the service's first tool over HTTP comes over MCP with its own token all the same.
    let mut mixed: Value = serde_json::from_str(&other).unwrap();
    let mut first = mixed["tools"][0].clone();
    first["name"] = json!("finder.alpha");
    let how = first["execution"].as_object_mut().unwrap();
    how.remove("tool_name");
    how.extend([("transport".to_owned(), json!("http")), ("method".to_owned(), json!("GET"))]);
    mixed["tools"].as_array_mut().unwrap().insert(0, first);
    let host = TestHost::builder().secrets(secrets()).context("a", &tools.to_string());
    let host = host.context("x", &mixed.to_string()).build().await;
    for (agent, found) in [("x", "found by search as another"), ("a", "found by search")] {
        made.principal.0 = agent.to_owned();
        let reply = host.host().call(made.clone()).await.unwrap();
        assert_eq!(clawhost_tests::host::text(&reply), found, "{agent}");
    }

    // What was compiled is what was accepted: no later word of the server is.
    for stated in [
        r#""description":"e""#,
        r#""description":"d","annotations":{"readOnly":true}"#,
        r#""description":"d","annotations":{"destructiveHint":false}"#,
    ] {
        let other = tools.to_string().replace(r#""description":"d""#, stated);
        let host = TestHost::builder().secrets(secrets()).context("a", &other).build().await;
        assert!(!host.names().contains(&"finder__search".to_owned()));
        let refused = host.refused();
        assert!(refused.contains("than the descriptor of `finder`"), "{refused}");
    }
}

#[tokio::test]
async fn tools_for_internal_use_are_there_for_whose_skills_name_them() {
    let Some(server) = Mcp::start() else { return eprintln!("skipped: there is no python3") };
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("SKILL.md");
    std::fs::write(&skill, "---\nname: finding\nallowed-tools: seek__s*\n---\nFind.\n").unwrap();
    let runtime = format!(
        "version: 1\nagents: [{{name: finder, skills: [{}]}}]\ntools: {{mcp_servers: {{seek: {{url: 'http://127.0.0.1:{}/', bearer: A_TOKEN}}}}}}",
        skill.display(),
        server.port
    );
    let host = TestHost::builder().runtime_file(&runtime).secrets(secrets()).build().await;
    assert!(!host.names().contains(&"seek__delete".to_owned()), "{:?}", host.names());
    let mut made = call("seek__search", json!({}));
    let error = host.host().call(made.clone()).await.unwrap_err();
    assert_eq!(error.data["stage"], "agent", "who has no skills does not have it");
    made.principal.0 = "finder".to_owned();
    let reply = host.host().call(made).await.unwrap();
    assert_eq!(clawhost_tests::host::text(&reply), "found by search");
    let listed = host.host().list(&clawhost::Principal("finder".to_owned()));
    assert_eq!(listed.len(), 1);
}
