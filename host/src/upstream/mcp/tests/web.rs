//! Servers behind HTTP: a listener that answers as a test says.

use std::collections::VecDeque;

use clawhost_core::limits::{BRIDGE_CANCELS_MAX, BRIDGE_MESSAGE_BYTES_MAX};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::fake::discovered;
use super::*;
use crate::upstream::http::tests::read_request;

/// What was asked: the head in lower case, and the message.
type Asked = (String, Value);

/// Answers each request with what `answer` makes of it; returns the address and what was asked.
async fn serve(
    answer: impl Fn(&Asked) -> String + Send + Sync + 'static,
) -> (String, Arc<Mutex<VecDeque<Asked>>>) {
    let (url, asked, _) = serve_counted(answer).await;
    (url, asked)
}

/// Likewise, and returns how many connections are held that do not end with their answer.
async fn serve_counted(
    answer: impl Fn(&Asked) -> String + Send + Sync + 'static,
) -> (String, Arc<Mutex<VecDeque<Asked>>>, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&held);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(VecDeque::new()));
    let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            let held = Arc::clone(&counted);
            tokio::spawn(async move {
                let (head, body) = read_request(&mut stream).await;
                let request: Asked =
                    (head.to_lowercase(), serde_json::from_str(&body).unwrap_or_default());
                let text = answer(&request);
                held.fetch_add(1, Ordering::Relaxed);
                log.lock().push_back(request);
                drop(stream.write_all(text.as_bytes()).await);
                if !text.contains("connection: close") {
                    // Held until the other side goes.
                    drop(stream.read(&mut [0]).await);
                }
                held.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    (url, asked, held)
}

fn http(status: &str, kind: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn json(asked: &Asked, result: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": asked.1["id"], "result": result});
    http("200 OK", "Application/JSON; charset=utf-8", "", &body.to_string())
}

fn tools() -> Value {
    json!({"tools": [{"name": "echo", "description": "d", "inputSchema": {"type": "object"}}]})
}

fn called(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn method(asked: &Asked) -> &str {
    asked.1["method"].as_str().unwrap_or_default()
}

/// A server of the newest revision that answers calls with `call`.
fn modern(asked: &Asked, call: impl Fn(&Asked) -> String) -> String {
    match method(asked) {
        "server/discover" => json(asked, &discovered()),
        "tools/list" => json(asked, &tools()),
        "tools/call" => call(asked),
        _ => http("202 Accepted", "text/plain", "", ""),
    }
}

fn legacy(asked: &Asked, call: impl Fn(&Asked) -> String) -> String {
    match method(asked) {
        "server/discover" => http("400 Bad Request", "text/plain", "", "what?"),
        "initialize" => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old"}});
            let body = json!({"jsonrpc": "2.0", "id": asked.1["id"], "result": result});
            http("200 OK", "application/json", "Mcp-Session-Id: s-1\r\n", &body.to_string())
        }
        _ => modern(asked, call),
    }
}

fn start_at(url: &str) -> Server {
    start_as(url, McpValue::Bearer("TOKEN".to_owned()))
}

fn start_as(url: &str, credential: McpValue) -> Server {
    let headers = vec![("Authorization".to_owned(), credential)];
    let endpoint = Endpoint::Http { url: url.to_owned(), headers, auth: None, within: None };
    Server::start(
        ServerPlan { name: "web".to_owned(), endpoint, expose: Exposure::default() },
        parts(),
    )
}

/// Starts one whose questions are passed on.
fn start_asking(url: String) -> Server {
    let endpoint = Endpoint::Http { url, headers: Vec::new(), auth: None, within: None };
    let expose = Exposure { questions: true, ..Exposure::default() };
    Server::start(ServerPlan { name: "web".to_owned(), endpoint, expose }, parts())
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_told_in_headers_what_is_asked() {
    let (url, asked) = serve(|asked| modern(asked, |asked| json(asked, &called("hello")))).await;
    let caller = Caller { trace: Some("00-1-2-01".to_owned()), ..Caller::default() };
    let reply = start_at(&url).call("echo", None, "{}", PATIENCE, caller).await.unwrap();
    assert_eq!(reply.content, [Content::Text("hello".to_owned())]);
    let (head, body) = asked.lock().back().unwrap().clone();
    for line in [
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: echo",
        "authorization: bearer hunter2-hunter2",
        "content-type: application/json",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(body["params"]["_meta"]["traceparent"], "00-1-2-01");
}

/// Events in which a server asks for folders before it answers.
fn events(asked: &Asked) -> String {
    let id = &asked.1["id"];
    let body = format!(
        ": hello\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"roots/list\"}}\n\n\
         data: {{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}}\n\n\
         event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\ndata: \"result\":{}}}\n\n",
        called("forged"),
        called("streamed")
    );
    // A mark of its byte order, and ends of lines as the standard has them.
    let body = format!("\u{feff}{}", body.replace("\n\n", "\r\r"));
    http("200 OK", "Text/Event-Stream", "", &body)
}

#[tokio::test]
async fn what_an_older_server_asks_in_its_events_goes_to_the_client_of_that_call() {
    let (url, asked) = serve(move |asked| legacy(asked, events)).await;
    let server = start_asking(url);
    let (caller, asks) = asking("roots");
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let client = answering(&asks, json!({"method": "roots/list"}), roots.clone());
    let (reply, ()) = tokio::join!(server.call("echo", None, "{}", PATIENCE, caller), client);
    assert!(!reply.unwrap().is_error);
    let told = asked.lock().iter().find(|asked| asked.1["id"] == "x").cloned().unwrap();
    assert_eq!(told.1["result"], roots);
    assert!(told.0.contains("mcp-session-id: s-1"), "{}", told.0);
}

/// Wants a completion before it answers, and says what it has got.
fn wants_model(asked: &Asked) -> String {
    let params = &asked.1["params"];
    let can = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    match params.get("inputResponses") {
        Some(responses) => json(asked, &called(&format!("{responses} {}", params["requestState"]))),
        None if can.get("sampling").is_none() => json(asked, &called("nobody")),
        None => {
            let question = json!({"method": "sampling/createMessage", "params": {"maxTokens": 9, "includeContext": "allServers"}});
            let asks = json!({"resultType": "input_required", "inputRequests": {"question": question}, "requestState": "s"});
            json(asked, &asks)
        }
    }
}

#[tokio::test]
async fn what_a_server_of_the_newest_revision_wants_of_a_model_an_older_client_is_asked() {
    let (url, _) = serve(|asked| modern(asked, wants_model)).await;
    let server = start_asking(url);
    assert_eq!(echo(&server, "{}").await.unwrap(), "nobody");
    let (caller, asks) = asking("sampling");
    let question = json!({"method": "sampling/createMessage", "params": {"maxTokens": 9}});
    let client = answering(&asks, question, json!({"model": "m"}));
    let (reply, ()) = tokio::join!(server.call("echo", None, "{}", PATIENCE, caller), client);
    let told = r#"{"question":{"model":"m"}} "s""#;
    assert_eq!(reply.unwrap().content, [Content::Text(told.to_owned())]);
}

#[tokio::test]
async fn an_older_server_has_its_session_and_may_answer_with_events() {
    let (url, asked) = serve(|asked| match method(asked) {
        "server/discover" => {
            let error = json!({"code": -32601, "message": "what?"});
            let body = json!({"jsonrpc": "2.0", "id": asked.1["id"], "error": error});
            // A session that nobody began.
            http("200 OK", "application/json", "Mcp-Session-Id: s-0\r\n", &body.to_string())
        }
        _ => legacy(asked, events),
    })
    .await;
    assert_eq!(echo(&start_at(&url), "{}").await.unwrap(), "streamed");
    let asked = asked.lock();
    let of = |name: &str| asked.iter().find(|asked| method(asked) == name).unwrap().0.clone();
    assert!(!of("initialize").contains("mcp-session-id"));
    for name in ["notifications/initialized", "tools/list", "tools/call"] {
        let head = of(name);
        assert!(head.contains("mcp-session-id: s-1"), "{head}");
        assert!(head.contains("mcp-protocol-version: 2025-06-18"), "{head}");
    }
    // What it asked for itself was refused.
    let refused = asked.iter().find(|asked| asked.1["error"]["code"] == -32601).unwrap();
    assert_eq!(refused.1["id"], "x");
}

#[tokio::test]
async fn a_session_is_ended_with_the_server_that_it_was_begun_for() {
    let call = |asked: &Asked| json(asked, &called("hello"));
    for is_older in [true, false] {
        let (url, asked) = match is_older {
            true => serve(move |asked| legacy(asked, call)).await,
            false => serve(move |asked| modern(asked, call)).await,
        };
        let server = start_at(&url);
        assert_eq!(echo(&server, "{}").await.unwrap(), "hello");
        server.stop().await;
        let left = asked.lock().back().cloned().unwrap().0;
        assert_eq!(left.starts_with("delete /mcp "), is_older, "{left}");
        assert_eq!(left.contains("mcp-session-id: s-1\r\n"), is_older, "{left}");
    }
}

/// Who shares a server shares its credentials, and nobody else does.
#[tokio::test]
async fn m23_servers_of_different_credentials_share_no_session() {
    let credential = |asked: &Asked| {
        let behind = asked.0.split("authorization: bearer ").nth(1).unwrap_or_default();
        behind.lines().next().unwrap_or_default().to_owned()
    };
    // A session is called after the credential that began it.
    let (url, asked) = serve(move |asked| {
        let answer = legacy(asked, |asked| json(asked, &called(&credential(asked))));
        answer.replace("s-1", &format!("of-{}", credential(asked)))
    })
    .await;
    for token in ["one", "two"] {
        let server = start_as(&url, McpValue::Literal(format!("Bearer {token}")));
        assert_eq!(echo(&server, "{}").await.unwrap(), token);
    }
    let asked = asked.lock();
    let session = |asked: &&Asked| asked.0.contains("mcp-session-id: ");
    assert!(asked.iter().filter(session).count() >= 6);
    for asked in asked.iter().filter(session) {
        let own = format!("mcp-session-id: of-{}\r\n", credential(asked));
        assert!(asked.0.contains(&own), "{}", asked.0);
    }
}

#[tokio::test]
async fn answers_that_are_none_are_told_and_the_server_stays() {
    for (answer, kind) in [
        (
            http("302 Found", "text/plain", "Location: http://127.0.0.1:1/\r\n", ""),
            Err(ErrorKind::Upstream),
        ),
        (http("503 Busy", "text/plain", "", ""), Err(ErrorKind::Upstream)),
        (http("200 OK", "text/html", "", "<html>"), Ok("invalid-result")),
        (http("200 OK", "application/json", "", "{}"), Ok("invalid-result")),
        (http("200 OK", "text/event-stream", "", "data: {}\n\n"), Err(ErrorKind::Upstream)),
        (
            http(
                "400 Bad",
                "application/json",
                "",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"h","data":["a\u200b"]}}"#,
            ),
            Ok("server-error"),
        ),
    ] {
        let given = answer.clone();
        let (url, _) = serve(move |asked| modern(asked, |_| given.clone())).await;
        let server = start_at(&url);
        let outcome = server.call("echo", None, "{}", PATIENCE, Caller::default()).await;
        if kind == Ok("server-error") {
            let said = json!({"code": -32020, "data": ["a"]});
            assert_eq!(outcome.as_ref().unwrap().meta[SERVER_ERROR], said);
        }
        let shown = outcome.map(|reply| reply.error_kind.unwrap()).map_err(|error| error.kind);
        assert_eq!(shown, kind, "{answer}");
        assert_eq!(settled(&server).await.state, State::Ready);
    }
}

#[tokio::test]
async fn an_answer_that_gets_too_long_is_refused_before_it_ends() {
    // Nothing ends the line, and the stream stays open.
    let line = format!("data: {}", "x".repeat(BRIDGE_MESSAGE_BYTES_MAX + 100));
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{line}");
    let (url, _) = serve(move |asked| modern(asked, |_| answer.clone())).await;
    let reply = start_at(&url).call("echo", None, "{}", PATIENCE, Caller::default()).await;
    assert_eq!(reply.unwrap().error_kind, Some("invalid-result"));
    // It says so itself, and is not there in the end.
    let (url, _) = serve(|asked| {
        modern(asked, |asked| json(asked, &called(&"x".repeat(BRIDGE_MESSAGE_BYTES_MAX))))
    })
    .await;
    let reply = start_at(&url).call("echo", None, "{}", PATIENCE, Caller::default()).await;
    assert_eq!(reply.unwrap().error_kind, Some("invalid-result"));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_an_older_server() {
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: begun\n\n";
    for answer in ["", begun] {
        cancelled_where_it_answers(answer).await;
    }
}

async fn cancelled_where_it_answers(answer: &'static str) {
    let (url, asked) = serve(|asked| legacy(asked, |_| answer.to_owned())).await;
    let server = start_at(&url);
    settled(&server).await;
    let short = Duration::from_millis(200);
    assert_eq!(
        server.call("echo", None, "{}", short, Caller::default()).await.unwrap_err().kind,
        ErrorKind::Timeout
    );
    let started = Instant::now();
    loop {
        let id = |name: &str, at: &str| {
            let asked = asked.lock();
            asked
                .iter()
                .find(|asked| method(asked) == name)
                .and_then(|asked| asked.1.pointer(at).cloned())
        };
        let cancelled = id("notifications/cancelled", "/params/requestId");
        if cancelled.is_some() {
            assert_eq!(cancelled, id("tools/call", "/id"));
            return;
        }
        assert!(started.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_that_nobody_waits_for_hold_few_connections_and_none_for_long() {
    let (url, asked, held) = serve_counted(|asked| match method(asked) {
        "notifications/cancelled" => String::new(),
        _ => legacy(asked, |_| String::new()),
    })
    .await;
    let server = start_at(&url);
    settled(&server).await;
    let count = |name: &str| asked.lock().iter().filter(|asked| method(asked) == name).count();
    let started = Instant::now();
    for calls in 1..=8 * BRIDGE_CANCELS_MAX {
        let sent = async {
            while count("tools/call") < calls {
                tokio::task::yield_now().await;
            }
        };
        let call = server.call("echo", None, "{}", PATIENCE, Caller::default());
        tokio::select! {
            outcome = call => panic!("{outcome:?}"),
            () = sent => {}
        }
    }
    while held.load(Ordering::Relaxed) > 0 || count("notifications/cancelled") == 0 {
        assert!(started.elapsed() < PATIENCE / 2, "{held:?}");
        tokio::task::yield_now().await;
    }
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
    let told = count("notifications/cancelled");
    assert!(told <= BRIDGE_CANCELS_MAX * (2 + seconds), "{told} in {seconds} s");
}

#[tokio::test]
async fn a_forgotten_session_is_begun_anew() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (url, _) = serve(move |asked| {
        let calls = Arc::clone(&calls);
        legacy(asked, move |asked| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => http("404 Not Found", "text/plain", "", ""),
            _ => json(asked, &called("again")),
        })
    })
    .await;
    let server = start_at(&url);
    assert_eq!(echo(&server, "{}").await.unwrap_err().kind, ErrorKind::Upstream);
    until(&server, |offers| matches!(offers.state, State::Failed { .. })).await;
    until(&server, |offers| offers.state == State::Ready).await;
    assert_eq!(echo(&server, "{}").await.unwrap(), "again");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_no_web_address_is_told() {
    for url in ["http://127.0.0.1:1/mcp", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/"] {
        let offers = settled(&start_at(url)).await;
        assert!(!failed(&offers).is_empty());
    }
}
