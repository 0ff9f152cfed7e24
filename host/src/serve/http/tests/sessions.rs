//! Sessions of the older revisions: how long they last.

use std::time::Duration;

use clawhost_core::limits::{
    HTTP_ANSWER_KEPT_MS, HTTP_REQUESTS_PER_AGENT_MAX, HTTP_SESSION_IDLE_MS, HTTP_SESSIONS_MAX,
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{MCP, Server};
use crate::serve::fake::{calling, ready};

/// Lets the time pass after which a session is idle.
async fn idle() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(HTTP_SESSION_IDLE_MS)).await;
    tokio::time::resume();
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
}

fn slow() -> Value {
    calling(2, "slow", &json!({}))
}

impl Server {
    /// Begins a session and returns its id.
    pub(super) async fn begin_session(&self) -> String {
        let opened = self.session("default").await;
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(self.say(&id, &ready()).await, 202);
        id
    }

    /// Sends a request, and returns what comes of it as it comes.
    pub(super) async fn sends_in(&self, session: &str, method: &str, body: &str) -> Incoming {
        let token = self.agent("default");
        let own = [("mcp-session-id", session), ("authorization", token.as_str())];
        let request = self.request(method, "/mcp", &[&MCP[..], &own].concat(), body.as_bytes());
        self.open().await.send_request(request).await.unwrap().into_body()
    }

    async fn say(&self, session: &str, message: &Value) -> u16 {
        self.post("default", message, &[("mcp-session-id", session)]).await.status.as_u16()
    }
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_and_makes_room() {
    let server = Server::start(true).await;
    let heard = server.begin_session().await;
    let _stream = server.sends_in(&heard, "GET", "").await;
    let (left, used) = (server.begin_session().await, server.begin_session().await);
    for _ in 3..HTTP_SESSIONS_MAX {
        server.begin_session().await;
    }
    assert_eq!(server.say(&used, &list()).await, 200);
    server.begin_session().await;
    assert_eq!(server.say(&left, &list()).await, 404);
    assert_eq!(server.say(&used, &list()).await, 200);
    idle().await;
    assert_eq!(server.say(&used, &list()).await, 404);
    assert_eq!(server.say(&heard, &list()).await, 200);
}

#[tokio::test]
async fn a_session_lasts_as_long_as_its_call() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    let headers = [("mcp-session-id", session.as_str())];
    let (slow, waiting) = (slow(), async {
        server.host.started(1).await;
        idle().await;
        // Whoever begins a session sees to it that idle ones have ended.
        server.begin_session().await;
        server.host.release();
    });
    let (answer, ()) = tokio::join!(server.post("default", &slow, &headers), waiting);
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("at last"));
    assert_eq!(server.say(&session, &list()).await, 200);
    idle().await;
    assert_eq!(server.say(&session, &list()).await, 404);
}

#[tokio::test]
async fn a_session_lasts_as_long_as_its_call_when_nobody_waits_for_that() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    let answer = server.sends_in(&session, "POST", &slow().to_string()).await;
    server.host.started(1).await;
    drop(answer);
    // By the end of this, the server has seen the end of the connection.
    server.begin_session().await;
    idle().await;
    assert_eq!(server.say(&session, &list()).await, 200);
}

#[tokio::test]
async fn who_comes_back_for_an_answer_within_a_while_gets_it() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    let mut answer = server.sends_in(&session, "POST", &slow().to_string()).await;
    let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let last = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let token = server.agent("default");
    let own = [("authorization", token.as_str()), ("mcp-session-id", session.as_str())];
    let headers = [&MCP[..], &own, &[("last-event-id", last)]].concat();
    server.host.started(1).await;
    drop(answer);
    server.begin_session().await;
    // Nor is it lost where that breaks off as well.
    let again = server.request("GET", "/mcp", &headers, b"");
    drop(server.open().await.send_request(again).await.unwrap());
    // By the end of this, the server has seen the end of the connection.
    server.begin_session().await;
    server.host.release();
    // Its id is free again when it has ended.
    while server.say(&session, &slow()).await != 200 {}
    let comes_back = async {
        loop {
            let answer = server.send("GET", "/mcp", &headers, b"").await;
            if answer.text.contains("at last") {
                return answer.json();
            }
        }
    };
    let missed = tokio::time::timeout(Duration::from_secs(30), comes_back).await.unwrap();
    assert_eq!(
        (&missed["id"], &missed["result"]["content"][0]["text"]),
        (&json!(2), &json!("at last"))
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(HTTP_ANSWER_KEPT_MS)).await;
    tokio::time::resume();
    let late = server.send("GET", "/mcp", &headers, b"").await;
    assert!(!late.text.contains("at last"), "{}", late.text);
}

#[tokio::test]
async fn who_hangs_up_has_its_calls_in_flight_until_they_end() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    for id in 0..HTTP_REQUESTS_PER_AGENT_MAX {
        let mut slow = slow();
        slow["id"] = json!(id);
        drop(server.sends_in(&session, "POST", &slow.to_string()).await);
    }
    server.host.started(HTTP_REQUESTS_PER_AGENT_MAX).await;
    assert_eq!(server.session("default").await.status, 429);
    assert_eq!(server.session("other").await.status, 200);
    server.host.release();
    while server.session("default").await.status != 200 {}
}

#[tokio::test]
async fn an_id_under_way_is_that_of_no_other_request() {
    let server = Server::start(true).await;
    let session = server.begin_session().await;
    let headers = [("mcp-session-id", session.as_str())];
    let (slow, twice) = (slow(), async {
        server.host.started(1).await;
        let twice = slow();
        let answer = tokio::select! {
            answer = server.post("default", &twice, &headers) => answer,
            () = server.host.started(2) => panic!("the second one runs as well"),
        };
        server.host.release();
        answer
    });
    let (first, second) = tokio::join!(server.post("default", &slow, &headers), twice);
    assert_eq!(first.json()["result"]["content"][0]["text"], json!("at last"));
    assert_eq!(second.status, 400, "{}", second.text);
    assert_eq!(
        (&second.json()["id"], &second.json()["error"]["code"]),
        (&json!(2), &json!(-32600))
    );
    // It is free again when the first one has been answered.
    assert_eq!(server.post("default", &slow, &headers).await.status, 200);
}
