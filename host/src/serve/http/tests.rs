//! The HTTP server as clients and strangers see it, over real connections.

mod bounds;
mod claw;
mod sessions;

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use clawhost_core::limits::{
    HTTP_CONNECTIONS_MAX, HTTP_HEADER_BYTES_MAX, HTTP_REQUESTS_PER_AGENT_MAX, HTTP_SESSIONS_MAX,
    HTTP_STREAMS_PER_AGENT_MAX, MESSAGE_BYTES_MAX,
};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::HttpOptions;
use super::routes;
use super::seats::{Seat, Seats};
use super::server::{Answers, listen, serve_within, start};
use crate::serve::calls::Calls as _;
use crate::serve::fake::{Fake, calling, handshake, modern, ready};
use crate::state::{Credentials, FolderEnv, StateDir};

struct Server {
    _state: TempDir,
    authority: String,
    credentials: Arc<Credentials>,
    host: Fake,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    /// Returns the last message, whether it came alone or as an event.
    fn json(&self) -> Value {
        let line = self.text.lines().rev().find_map(|line| {
            line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty())
        });
        serde_json::from_str(line.unwrap_or(&self.text)).unwrap()
    }
}

const MCP: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

impl Server {
    async fn start(require_token: bool) -> Self {
        Self::with_places(HTTP_CONNECTIONS_MAX, require_token).await
    }

    async fn with_places(places: usize, require_token: bool) -> Self {
        let state = tempfile::tempdir().unwrap();
        let folder = StateDir::open(Some(state.path()), &FolderEnv::default()).unwrap();
        let agents = ["default".to_owned(), "other".to_owned()];
        let credentials = Arc::new(Credentials::open(&folder, &agents).unwrap());
        let (host, shutdown) = (Fake::new(), CancellationToken::new());
        let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
        options.require_token = require_token;
        let server = serve_within(
            Seats::new(places),
            host.clone(),
            Arc::clone(&credentials),
            options,
            shutdown.clone().into(),
        );
        let server = server.await.unwrap();
        let authority = server.local_addr.to_string();
        Self { _state: state, authority, credentials, host, shutdown, task: server.task }
    }

    fn agent(&self, name: &str) -> String {
        format!("Bearer {}", self.credentials.agent(name).unwrap().reveal())
    }

    fn operator(&self) -> String {
        format!("Bearer {}", self.credentials.operator().reveal())
    }

    async fn open(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(&self.authority).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", &self.authority);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let request = self.request(method, path, headers, body);
        let (parts, body) = self.open().await.send_request(request).await.unwrap().into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// Posts a message as an agent, with more headers.
    async fn post(&self, agent: &str, message: &Value, more: &[(&str, &str)]) -> Answer {
        let token = self.agent(agent);
        let headers = [&MCP, &[("authorization", token.as_str())][..], more].concat();
        self.send("POST", "/mcp", &headers, message.to_string().as_bytes()).await
    }

    /// Returns a call that ends when the host lets it.
    fn slow(&self) -> Request<Full<Bytes>> {
        let token = self.agent("default");
        let own = [("authorization", token.as_str())];
        let headers = [&MCP[..], &own, &modern_headers("tools/call", "slow")].concat();
        self.request("POST", "/mcp", &headers, call(1, "slow").to_string().as_bytes())
    }

    /// Shakes hands in the older way and returns the session.
    async fn session(&self, agent: &str) -> Answer {
        self.post(agent, &handshake(json!({})), &[]).await
    }
}

fn call(id: i64, tool: &str) -> Value {
    modern(json!(id), "tools/call", json!({"name": tool, "arguments": {}}))
}

fn modern_headers<'a>(method: &'a str, name: &'a str) -> [(&'a str, &'a str); 3] {
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)]
}

#[tokio::test]
async fn each_credential_opens_its_own_door_only() {
    let server = Server::start(true).await;
    let (agent, operator) = (server.agent("default"), server.operator());
    let cases = [
        ("/mcp", None, 401),
        ("/mcp", Some("Bearer nonsense"), 401),
        ("/mcp", Some("Basic eDp5"), 401),
        ("/mcp", Some(&*operator), 403),
        ("/status", None, 401),
        ("/status", Some("Bearer "), 401),
        ("/status", Some(&*agent), 403),
        ("/status", Some(&*operator), 200),
        ("/", Some(&*operator), 404),
        ("/mcp/", Some(&*agent), 404),
    ];
    for (path, token, status) in cases {
        let method = if path == "/mcp" { "POST" } else { "GET" };
        let headers: Vec<_> = token.map(|token| ("authorization", token)).into_iter().collect();
        let answer = server.send(method, path, &headers, b"{}").await;
        assert_eq!(answer.status, status, "{path} {token:?}");
        let challenged = answer.headers.contains_key("www-authenticate");
        assert_eq!(challenged, status == 401, "{path} {token:?}");
        assert!(!answer.text.contains("clawhost-agent-"));
    }
}

#[tokio::test]
async fn the_operator_sees_what_is_served() {
    let server = Server::start(true).await;
    let token = server.operator();
    let answer = server.send("GET", "/status", &[("authorization", &token)], b"").await;
    let status = answer.json();
    assert_eq!(status["version"], json!(env!("CARGO_PKG_VERSION")));
    assert_eq!(status["catalog_version"], json!(1));
    assert_eq!(status["tools"].as_array().unwrap().len(), 8);
    let posted = server.send("POST", "/status", &[("authorization", &token)], b"").await;
    assert_eq!(posted.status, 405);
}

#[tokio::test]
async fn the_stateless_era_calls_as_the_token_s_agent() {
    let server = Server::start(true).await;
    for agent in ["default", "other"] {
        let headers = modern_headers("tools/call", "whoami");
        let answer = server.post(agent, &call(1, "whoami"), &headers).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["result"]["content"][0]["text"], json!(agent));
    }
    let discover = modern(json!(2), "server/discover", json!({}));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
    let answer = server.post("default", &discover, &headers).await;
    let versions = &answer.json()["result"]["supportedVersions"];
    assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")), "{}", answer.text);
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let server = Server::start(true).await;
    for headers in [
        &[][..],
        &[("mcp-protocol-version", "2026-07-28")],
        &modern_headers("tools/list", "whoami"),
        &modern_headers("tools/call", "echo"),
        &[
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "whoami"),
        ],
    ] {
        let answer = server.post("default", &call(1, "whoami"), headers).await;
        assert_eq!(answer.status, 400, "{headers:?} {}", answer.text);
        assert_eq!(answer.json()["error"]["code"], json!(-32020), "{headers:?}");
    }
    let twice = [&modern_headers("tools/call", "whoami")[..], &[("mcp-name", "echo")]].concat();
    assert_eq!(server.post("default", &call(1, "whoami"), &twice).await.status, 400);
}

#[tokio::test]
async fn an_older_session_belongs_to_its_agent() {
    let server = Server::start(true).await;
    let opened = server.session("default").await;
    assert_eq!(opened.json()["result"]["serverInfo"]["name"], json!("clawhost"));
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    assert_eq!(server.post("default", &ready(), &headers).await.status, 202);

    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let tools = server.post("default", &list, &headers).await.json();
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 8);
    assert_eq!(server.post("other", &list, &headers).await.status, 404);
    assert!(server.post("default", &list, &[]).await.status.is_client_error());

    for (agent, status) in [("other", 404), ("default", 202), ("default", 404)] {
        let token = server.agent(agent);
        let ended = [&headers[..], &[("authorization", token.as_str())]].concat();
        assert_eq!(server.send("DELETE", "/mcp", &ended, b"").await.status, status, "{agent}");
    }
    assert_eq!(server.post("default", &list, &headers).await.status, 404);
}

#[tokio::test]
async fn sessions_are_bounded_for_each_agent() {
    let server = Server::start(true).await;
    let other = server.session("other").await;
    let first = server.session("default").await;
    for _ in 0..HTTP_SESSIONS_MAX {
        assert_eq!(server.session("default").await.status, 200);
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for (agent, opened, status) in [("default", first, 404), ("other", other, 200)] {
        let id = opened.headers["mcp-session-id"].to_str().unwrap();
        let answer = server.post(agent, &list, &[("mcp-session-id", id)]).await;
        assert_eq!(answer.status, status, "{agent}");
    }
}

#[tokio::test]
async fn strangers_are_turned_away_before_anything_else() {
    for require_token in [false, true] {
        let server = Server::start(require_token).await;
        let port = server.authority.rsplit_once(':').unwrap().1;
        let tokens = [("/mcp", server.agent("default")), ("/status", server.operator())];
        for (name, value) in [
            ("host", "evil.example".to_owned()),
            ("host", format!("evil.example:{port}")),
            ("host", format!("127.0.0.1.example:{port}")),
            ("origin", "http://evil.example".to_owned()),
            ("origin", "null".to_owned()),
            ("origin", format!("https://localhost:{port}")),
        ] {
            for (path, token) in &tokens {
                let own = [("authorization", token.as_str())];
                for more in [&[][..], &own] {
                    let headers = [&MCP[..], &[(name, value.as_str())], more].concat();
                    let answer = server.send("POST", path, &headers, b"{}").await;
                    assert_eq!(answer.status, 403, "{path} {name}: {value}");
                }
            }
        }
        let (origin, [(_, token), _]) = (format!("http://localhost:{port}"), &tokens);
        let own = [("origin", origin.as_str()), ("authorization", token.as_str())];
        let body = handshake(json!({})).to_string();
        let answer = server.send("POST", "/mcp", &[MCP, own].concat(), body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}

#[tokio::test]
async fn hostile_bodies_are_refused_and_the_next_one_is_served() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let headers = [&MCP[..], &[("authorization", token.as_str())]].concat();
    let deep = "[".repeat(10_000);
    for (body, status, code) in [
        (&b"null"[..], 400, -32600),
        (b"[]", 400, -32600),
        (b"", 400, -32700),
        (b"{bad", 400, -32700),
        (b"\"\xff\"", 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, 400, -32600),
        (deep.as_bytes(), 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1,"method":"claw.status"}"#, 404, -32601),
    ] {
        let answer = server.send("POST", "/mcp", &headers, body).await;
        let shown = String::from_utf8_lossy(body.get(..body.len().min(50)).unwrap());
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.json()["error"]["code"], json!(code), "{shown}");
    }
    let long = vec![b' '; MESSAGE_BYTES_MAX + 1];
    assert_eq!(server.send("POST", "/mcp", &headers, &long).await.status, 413);
    let plain = [
        ("content-type", "text/plain"),
        ("authorization", token.as_str()),
        ("accept", "application/json, text/event-stream"),
    ];
    let body = handshake(json!({})).to_string();
    assert_eq!(server.send("POST", "/mcp", &plain, body.as_bytes()).await.status, 415);
    let no_accept = [("content-type", "application/json"), ("authorization", token.as_str())];
    assert_eq!(server.send("POST", "/mcp", &no_accept, body.as_bytes()).await.status, 406);
    assert_eq!(server.send("PUT", "/mcp", &headers, b"").await.status, 405);
    assert_eq!(server.session("default").await.status, 200);
}

#[tokio::test]
async fn what_mcp_cannot_read_is_answered_with_its_id() {
    let server = Server::start(true).await;
    for (method, params, code) in [
        ("tools/call", json!({"name": "echo", "_meta": [1]}), -32600),
        ("initialize", json!({}), -32602),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = server.post("default", &request, &[]).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        let answer = answer.json();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(code)));
    }
}

#[tokio::test]
async fn a_message_is_as_long_as_it_was_sent() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    // Each of these is four times as long where it is written in full.
    let numbers = format!("{}1", "1e9,".repeat(100_000));
    let text = "x".repeat(MESSAGE_BYTES_MAX - 2 * numbers.len());
    let arguments = format!(r#"{{"numbers":[{numbers}],"text":"{text}"}}"#);
    let body = call(1, "whoami")
        .to_string()
        .replace(r#""arguments":{}"#, &format!(r#""arguments":{arguments}"#));
    assert!(body.contains(&numbers) && body.len() < MESSAGE_BYTES_MAX);
    let more = modern_headers("tools/call", "whoami");
    let headers = [&MCP[..], &[("authorization", token.as_str())], &more].concat();
    let answer = server.send("POST", "/mcp", &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("default"));
}

#[tokio::test]
async fn without_tokens_only_loopback_is_served_and_roles_still_hold() {
    let server = Server::start(false).await;
    let body = call(1, "whoami").to_string();
    let modern = [&MCP[..], &modern_headers("tools/call", "whoami")].concat();
    let answer = server.send("POST", "/mcp", &modern, body.as_bytes()).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("default"));
    let as_who = |token: String| {
        let (server, modern, body) = (&server, modern.clone(), body.clone());
        async move {
            let headers = [&modern[..], &[("authorization", token.as_str())]].concat();
            server.send("POST", "/mcp", &headers, body.as_bytes()).await.status.as_u16()
        }
    };
    assert_eq!(as_who(server.operator()).await, 403);
    assert_eq!(as_who("Bearer stale".to_owned()).await, 401);
    assert_eq!(server.send("GET", "/status", &[], b"").await.status, 401);

    let mut options = HttpOptions::new("0.0.0.0:0".parse().unwrap());
    options.require_token = false;
    let credentials = Arc::clone(&server.credentials);
    let refused = serve_within(
        Seats::new(1),
        Fake::new(),
        credentials,
        options,
        CancellationToken::new().into(),
    )
    .await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_client_that_disconnects_stops_its_call() {
    let server = Server::start(true).await;
    let (request, mut sender) = (server.slow(), server.open().await);
    let asking = tokio::spawn(async move { sender.send_request(request).await.map(drop) });
    server.host.started(1).await;
    asking.abort();
    server.host.dropped(1).await;
}

#[tokio::test]
async fn a_subscription_hears_of_changes_and_ends_with_the_server() {
    let server = Server::start(true).await;
    let stream = server.listen("default").await;
    let mut body = stream.answer.into_body();
    server.host.change();
    let text = until_changed(&mut body).await;
    assert!(text.contains("notifications/subscriptions/acknowledged"), "{text}");
    server.shutdown.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn an_older_client_s_stream_hears_of_changes_and_ends_with_the_server() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    let mut body = server.sends_in(&session, "GET", "").await;
    server.host.change();
    until_changed(&mut body).await;
    server.shutdown.cancel();
    assert!(body.collect().await.is_ok());
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_stop_answers_what_runs_and_takes_nothing_new() {
    let server = Server::start(true).await;
    let (request, mut sender) = (server.slow(), server.open().await);
    let asking = tokio::spawn(async move {
        let body = sender.send_request(request).await.unwrap().into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    });
    server.host.started(1).await;
    server.shutdown.cancel();
    server.host.release();
    assert!(asking.await.unwrap().contains("at last"));
    server.task.await.unwrap();
    assert!(TcpStream::connect(&server.authority).await.is_err());
}

#[tokio::test]
async fn headers_are_bounded() {
    let server = Server::start(true).await;
    for bytes in [HTTP_HEADER_BYTES_MAX, 4 * HTTP_HEADER_BYTES_MAX] {
        let long = "x".repeat(bytes);
        let answer = server.send("GET", "/status", &[("x-long", &long)], b"").await;
        assert_eq!(answer.status, 431, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_finishes_its_headers_is_hung_up_on() {
    let server = Server::start(true).await;
    let mut stream = TcpStream::connect(&server.authority).await.unwrap();
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"));
}

#[tokio::test]
async fn smuggled_lengths_are_refused() {
    let server = Server::start(true).await;
    for lengths in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: 2\r\ntransfer-encoding: chunked, identity\r\n",
        "content-length: -1\r\n",
    ] {
        let mut stream = TcpStream::connect(&server.authority).await.unwrap();
        let request =
            format!("POST /mcp HTTP/1.1\r\nhost: {}\r\n{lengths}\r\n{{}}", server.authority);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400", "{lengths}");
    }
}

/// Begins answers, and ends none.
#[derive(Default)]
struct Endless {
    begun: Notify,
    held: Arc<()>,
    /// How many hold it when all is to be on disk.
    holders: AtomicUsize,
}

impl Answers for Endless {
    async fn answer(&self, _: routes::Request, _: &Arc<Seat>) -> http::Response<routes::Body> {
        let _held = Arc::clone(&self.held);
        self.begun.notify_one();
        future::pending().await
    }

    async fn close(&self) {}

    async fn flush(&self) {
        self.holders.store(Arc::strong_count(&self.held), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_at_the_end_is_over_before_all_is_on_disk() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, app) = (listener.local_addr().unwrap(), Arc::new(Endless::default()));
    let shutdown = CancellationToken::new();
    let told = shutdown.clone().into();
    let server = start(listener, address, Arc::clone(&app), Seats::all(), told);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    app.begun.notified().await;
    tokio::time::pause();
    shutdown.cancel();
    server.task.await.unwrap();
    assert_eq!(app.holders.load(Ordering::SeqCst), 1);
}

/// A request that is answered for as long as its answer is held.
struct Open {
    _sender: http1::SendRequest<Full<Bytes>>,
    answer: http::Response<hyper::body::Incoming>,
}

/// Reads a stream until it tells that the tools have changed; returns what it has said by then.
async fn until_changed(body: &mut hyper::body::Incoming) -> String {
    let mut text = String::new();
    while !text.contains("notifications/tools/list_changed") {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    text
}

impl Server {
    /// Subscribes to changes as an agent; the answer is a stream without an end.
    async fn listen(&self, agent: &str) -> Open {
        let token = self.agent(agent);
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let body = modern(json!(1), "subscriptions/listen", filter).to_string();
        let headers = [
            &MCP[..],
            &[
                ("authorization", token.as_str()),
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "subscriptions/listen"),
            ],
        ]
        .concat();
        let mut sender = self.open().await;
        let request = self.request("POST", "/mcp", &headers, body.as_bytes());
        let answer = sender.send_request(request).await.unwrap();
        Open { _sender: sender, answer }
    }

    async fn status(&self) -> StatusCode {
        let token = self.operator();
        let headers = [("authorization", token.as_str())];
        self.send("GET", "/status", &headers, b"").await.status
    }
}

#[tokio::test]
async fn streams_are_bounded_for_each_agent() {
    let server = Server::start(true).await;
    let mut open = Vec::new();
    for _ in 0..HTTP_STREAMS_PER_AGENT_MAX {
        open.push(server.listen("default").await);
    }
    assert!(open.iter().all(|open| open.answer.status() == 200));
    assert_eq!(server.listen("default").await.answer.status(), 429);
    let token = server.agent("default");
    let headers = [&MCP[..], &[("authorization", token.as_str())]].concat();
    let legacy = server.send("GET", "/mcp", &headers, b"").await;
    assert_eq!(legacy.status, 429);
    assert_ne!(server.send("DELETE", "/mcp", &headers, b"").await.status, 429);
    assert_eq!(server.listen("other").await.answer.status(), 200);
    assert_eq!(server.session("default").await.status, 200);

    // One that has ended makes room for another, as soon as the server has seen its end.
    open.pop();
    while server.listen("default").await.answer.status() != 200 {}
}

#[tokio::test]
async fn requests_in_flight_are_bounded_for_each_agent() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let authorization = [("authorization", token.as_str())];
    let mut asking = Vec::new();
    for _ in 0..HTTP_REQUESTS_PER_AGENT_MAX {
        let (request, mut sender) = (server.slow(), server.open().await);
        asking.push(tokio::spawn(async move {
            let body = sender.send_request(request).await.unwrap().into_body();
            body.collect().await.map(drop)
        }));
    }
    server.host.started(HTTP_REQUESTS_PER_AGENT_MAX).await;
    assert_eq!(server.session("default").await.status, 429);
    assert_eq!(server.session("other").await.status, 200);
    assert_eq!(server.status().await, 200);
    // What can end one of them is heard all the same.
    let word = br#"{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}"#;
    let said = server.send("POST", "/mcp", &[&MCP[..], &authorization].concat(), word).await;
    assert_eq!(said.status, 202, "{}", said.text);
    let status = br#"{"jsonrpc":"2.0","id":1,"method":"claw.status"}"#;
    let said = server.send("POST", "/claw", &[&MCP[..], &authorization].concat(), status).await;
    assert_eq!(said.status, 200, "{}", said.text);
    server.host.release();
    for asking in asking {
        asking.await.unwrap().unwrap();
    }
    assert_eq!(server.session("default").await.status, 200);
}

#[tokio::test]
async fn silent_and_refused_connections_shut_nobody_out() {
    let server = Server::with_places(4, true).await;
    let stream = server.listen("default").await;
    assert_eq!(stream.answer.status(), 200);
    let mut silent = Vec::new();
    for index in 0..8 {
        let mut client = TcpStream::connect(&server.authority).await.unwrap();
        if index % 2 == 0 {
            let request = format!(
                "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: 9\r\n\r\n",
                server.authority
            );
            client.write_all(request.as_bytes()).await.unwrap();
        }
        silent.push(client);
    }
    assert_eq!(server.status().await, 200);
    assert_eq!(server.session("other").await.status, 200);
    let mut rest = Vec::new();
    // Its end, or the system's word that it is gone.
    drop(silent.remove(1).read_to_end(&mut rest).await);
    assert!(rest.is_empty());

    // The stream in flight has kept its place.
    server.host.change();
    until_changed(&mut stream.answer.into_body()).await;
}

#[tokio::test]
async fn a_question_ends_with_the_session_of_its_call() {
    let server = Server::start(true).await;
    let approvals = server.host.services().approvals.clone();
    let mut changes = approvals.changes();
    let session = server.begin_session().await;
    let session = [("mcp-session-id", session.as_str())];
    let call = calling(1, "asks", &json!({}));
    let leaving = async {
        changes.wait_for(|_| !approvals.pending().is_empty()).await.unwrap();
        let token = server.agent("default");
        let headers = [&session[..], &[("authorization", token.as_str())]].concat();
        let begun = std::time::Instant::now();
        assert_eq!(server.send("DELETE", "/mcp", &headers, b"").await.status, 202);
        changes.wait_for(|_| approvals.pending().is_empty()).await.unwrap();
        // Before the end of the time that the protocol library gives what runs.
        assert!(begun.elapsed().as_secs() < 3);
    };
    let (answer, ()) = tokio::join!(server.post("default", &call, &session), leaving);
    assert!(!answer.text.contains("\"id\":1"), "{}", answer.text);
}

#[tokio::test]
async fn a_stop_that_cuts_calls_off_is_no_error() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::ERROR)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start(true).await;
    let unready = server.session("other").await;
    assert_eq!(unready.status, 200);
    let session = server.begin_session().await;
    let session = [("mcp-session-id", session.as_str())];
    let older = calling(1, "slow", &json!({}));
    let (call, more) = (call(2, "slow"), modern_headers("tools/call", "slow"));
    let stopping = async {
        server.host.started(2).await;
        tokio::time::pause();
        server.shutdown.cancel();
    };
    let calls = async {
        tokio::join!(
            server.post("default", &older, &session),
            server.post("default", &call, &more),
            stopping
        )
    };
    let (older, modern, ()) = calls.await;
    for answer in [older, modern] {
        let text = answer.json()["result"]["content"][0]["text"].clone();
        assert_eq!(text, "the session was stopped before this came to its end");
    }
    server.task.await.unwrap();
    // The clock is paused: the protocol library's own patience is over at once.
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert_eq!(String::from_utf8_lossy(&log.0.lock().unwrap()), "");
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn as_many_clients_as_there_are_places_may_come_at_once() {
    let options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
    let (_listener, address) = listen(&options).await.unwrap();
    let mut waiting = Vec::new();
    // Nobody is taken: one for whom there is no room would not be connected.
    for _ in 0..HTTP_CONNECTIONS_MAX {
        let patience = std::time::Duration::from_secs(30);
        let connected = tokio::time::timeout(patience, TcpStream::connect(address)).await;
        waiting.push(connected.unwrap().unwrap());
    }
}
