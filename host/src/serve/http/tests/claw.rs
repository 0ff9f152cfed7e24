//! `/claw` over real connections.

use clawhost_core::limits::{CLAW_SESSION_IDLE_MS, CLAW_SESSIONS_MAX, HTTP_REQUESTS_PER_AGENT_MAX};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{Answer, Server};
use crate::serve::fake::{claw_handshake, request};

const JSON: (&str, &str) = ("content-type", "application/json");

fn initialize() -> Value {
    claw_handshake(json!({"tools": {"progress": true}}))
}

fn ask(method: &str, params: Value) -> Value {
    request(7, method, params)
}

fn call(tool: &str) -> Value {
    ask(
        "claw.tool.call",
        json!({"name": tool, "arguments": {"n": 1}, "context": {
        "request_id": "550e8400-e29b-41d4-a716-446655440000", "identity": "test-agent"}}),
    )
}

impl Server {
    async fn claw(&self, token: &str, session: Option<&str>, message: &Value) -> Answer {
        let mut headers = vec![JSON, ("authorization", token)];
        headers.extend(session.map(|session| ("claw-session", session)));
        self.send("POST", "/claw", &headers, message.to_string().as_bytes()).await
    }

    async fn begin(&self, agent: &str) -> String {
        let answer = self.claw(&self.agent(agent), None, &initialize()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["result"]["agentInfo"]["name"], json!("test-agent"));
        answer.headers["claw-session"].to_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_session_is_known_by_its_header() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let early = server.claw(&token, None, &ask("claw.status", json!({}))).await;
    assert_eq!((early.status.as_u16(), &early.json()["error"]["code"]), (200, &json!(-32600)));
    assert!(!early.headers.contains_key("claw-session"));
    let wrong = server.claw(&token, None, &ask("claw.initialize", json!({}))).await;
    assert_eq!(wrong.json()["error"]["code"], json!(-32602));
    assert!(!wrong.headers.contains_key("claw-session"));

    let session = server.begin("default").await;
    let answer = server.claw(&token, Some(&session), &call("whoami")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("default"));
    let trace = format!("00-{}-{}-01", "1".repeat(32), "2".repeat(16));
    let headers =
        [JSON, ("authorization", &token), ("claw-session", &session), ("traceparent", &trace)];
    let asked = call("whoami").to_string();
    let traced = server.send("POST", "/claw", &headers, asked.as_bytes()).await;
    let text = &traced.json()["result"]["content"][0]["text"];
    assert_eq!(*text, json!(format!("default in {trace}")));
    let again = server.claw(&token, Some(&session), &initialize()).await;
    assert_eq!(again.json()["error"]["code"], json!(-32600));
    let noted = json!({"jsonrpc": "2.0", "method": "claw.initialized"});
    assert_eq!(server.claw(&token, Some(&session), &noted).await.status, 202);

    // Another agent's, an unknown and an ended one are no session.
    let other = server.agent("other");
    for (token, id) in [(&other, session.as_str()), (&token, "0000")] {
        assert_eq!(server.claw(token, Some(id), &call("echo")).await.status, 404);
    }
    let headers = [("authorization", token.as_str()), ("claw-session", session.as_str())];
    assert_eq!(server.send("DELETE", "/claw", &headers, b"").await.status, 204);
    assert_eq!(server.claw(&token, Some(&session), &call("echo")).await.status, 404);
}

#[tokio::test]
async fn only_the_operator_says_what_may_run() {
    let server = Server::start(true).await;
    let (token, operator) = (server.agent("default"), server.operator());
    let session = server.begin("default").await;
    let word = json!({"request_id": "550e8400-e29b-41d4-a716-446655440000"});
    let approve = ask("claw.tool.approve", word);
    let own = server.claw(&token, Some(&session), &approve).await;
    assert_eq!(own.json()["error"]["code"], json!(-32011));

    let call = call("asks");
    let asking = server.claw(&token, Some(&session), &call);
    let saying = async {
        server.host.started(1).await;
        loop {
            let said = server.claw(&operator, None, &approve).await;
            if said.json()["result"] == json!({"acknowledged": true}) {
                break;
            }
            assert_eq!(said.json()["result"], json!({"acknowledged": false}));
        }
    };
    let (answer, ()) = tokio::join!(asking, saying);
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("approved"));

    let status = server.claw(&operator, None, &ask("claw.status", json!({}))).await;
    assert_eq!(status.json()["result"]["state"], json!("READY"));
    for method in ["claw.tool.call", "claw.initialize", "claw.shutdown"] {
        let refused = server.claw(&operator, None, &ask(method, json!({}))).await;
        assert_eq!(refused.json()["error"]["code"], json!(-32601), "{method}");
    }
}

#[tokio::test]
async fn a_stranger_or_a_page_gets_nowhere_and_bad_bodies_have_their_codes() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let auth = ("authorization", token.as_str());
    let body = initialize().to_string();
    for (headers, status) in [
        (vec![JSON], 401),
        (vec![JSON, ("authorization", "Bearer x")], 401),
        (vec![JSON, auth, ("origin", "https://evil.example")], 403),
        (vec![JSON, auth, ("host", "evil.example")], 403),
        (vec![("content-type", "text/plain"), auth], 415),
        (vec![JSON, auth, ("claw-session", "a"), ("claw-session", "b")], 400),
    ] {
        let answer = server.send("POST", "/claw", &headers, body.as_bytes()).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?}");
    }
    for (body, status, code) in [
        (&b"{bad"[..], 400, -32700),
        (b"[]", 400, -32600),
        (b"null", 400, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, 404, -32601),
        (br#"{"jsonrpc":"2.0","id":1,"method":"claw.nonexistent"}"#, 200, -32601),
    ] {
        let answer = server.send("POST", "/claw", &[JSON, auth], body).await;
        let shown = String::from_utf8_lossy(body);
        assert_eq!(answer.status.as_u16(), status, "{shown}");
        assert_eq!(answer.json()["error"]["code"], json!(code), "{shown}");
    }
    let put = server.send("PUT", "/claw", &[JSON, auth], b"").await;
    assert_eq!(
        (put.status.as_u16(), &put.headers["allow"]),
        (405, &"GET, POST, DELETE".parse().unwrap())
    );
}

#[tokio::test]
async fn one_listener_hears_what_a_session_says_unasked() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let session = server.begin("default").await;
    let headers = [("authorization", token.as_str()), ("claw-session", session.as_str())];
    let listen = || server.request("GET", "/claw", &headers, b"");
    let mut stream = server.open().await.send_request(listen()).await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let second = server.send("GET", "/claw", &headers, b"").await;
    assert_eq!(second.status, 409);

    server.claw(&token, Some(&session), &call("steps")).await;
    let frame = stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let event = String::from_utf8(frame.to_vec()).unwrap();
    let notice: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap().trim()).unwrap();
    assert_eq!(notice["method"], json!("claw.tool.progress"));
    assert!(event.ends_with("\n\n"));
    drop(stream);
    // Once the first is gone, another may listen.
    while server.open().await.send_request(listen()).await.unwrap().status() != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sessions_are_bounded_for_each_agent() {
    let server = Server::start(true).await;
    for _ in 0..CLAW_SESSIONS_MAX {
        server.begin("default").await;
    }
    let refused = server.claw(&server.agent("default"), None, &initialize()).await.json();
    assert_eq!(refused["error"]["data"]["limit"], json!("CLAW_SESSIONS_MAX"));
    server.begin("other").await;
}

#[tokio::test]
async fn a_stopped_session_makes_room_where_there_is_none() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let first = server.begin("default").await;
    let stop = ask("claw.shutdown", json!({}));
    server.claw(&token, Some(&first), &stop).await;
    // As long as there is room, it can begin again.
    let again = server.claw(&token, Some(&first), &initialize()).await;
    assert!(again.json()["result"].is_object(), "{}", again.text);
    server.claw(&token, Some(&first), &stop).await;
    for _ in 0..CLAW_SESSIONS_MAX {
        server.begin("default").await;
    }
    assert_eq!(server.claw(&token, Some(&first), &initialize()).await.status, 404);
}

#[tokio::test]
async fn who_hangs_up_has_its_calls_in_flight_until_they_end() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let session = server.begin("default").await;
    let headers = [JSON, ("authorization", &token), ("claw-session", &session)];
    for number in 0..HTTP_REQUESTS_PER_AGENT_MAX {
        let mut slow = call("slow");
        let request_id = format!("550e8400-e29b-41d4-a716-{number:012}");
        slow["params"]["context"]["request_id"] = json!(request_id);
        let request = server.request("POST", "/claw", &headers, slow.to_string().as_bytes());
        let mut sender = server.open().await;
        let asking = tokio::spawn(async move { sender.send_request(request).await.map(drop) });
        server.host.started(number + 1).await;
        asking.abort();
    }
    let list = ask("claw.swarm.list", json!({}));
    assert_eq!(server.claw(&token, Some(&session), &list).await.status, 429);
    server.begin("other").await;
    server.host.release();
    while server.claw(&token, Some(&session), &list).await.status != 200 {}
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends() {
    let server = Server::start(true).await;
    let session = server.begin("default").await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_millis(CLAW_SESSION_IDLE_MS)).await;
    tokio::time::resume();
    let gone = server.claw(&server.agent("default"), Some(&session), &call("echo")).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn a_server_that_stops_ends_its_sessions_calls() {
    let server = Server::start(true).await;
    let token = server.agent("default");
    let session = server.begin("default").await;
    let call = call("slow");
    let calling = server.claw(&token, Some(&session), &call);
    let stopping = async {
        server.host.started(1).await;
        server.shutdown.cancel();
        server.host.release();
    };
    let (answer, ()) = tokio::join!(calling, stopping);
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("at last"));
}
