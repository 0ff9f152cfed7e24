//! Calls that go to their handler at once: that they keep what the protocol library gives, and which do not.

use std::time::Duration;

use clawhost_core::limits::HTTP_ANSWER_WAIT_MS;
use futures_util::FutureExt as _;

use super::*;

/// A session of the agent `default`, whose client is ready.
struct Session<'a> {
    server: &'a Server,
    id: String,
}

/// What a request says that the library is to weigh.
const WEIGHED: (&str, &str) = ("accept", r#"text/plain;x="y""#);

impl<'a> Session<'a> {
    async fn begin(server: &'a Server, capabilities: Value) -> Self {
        let mut opening = initialize();
        opening["params"]["capabilities"] = capabilities;
        let opened = server.post("default", &opening, &[]).await;
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let session = Self { server, id };
        session.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        // The library hears the one after the other.
        assert!(!is_alone(&session.with(&older(0, "whoami"), &[WEIGHED]).await));
        session
    }

    async fn say(&self, message: &Value) -> Answer {
        self.with(message, &[]).await
    }

    async fn with(&self, message: &Value, more: &[(&str, &str)]) -> Answer {
        let headers = [&[("mcp-session-id", self.id.as_str())][..], more].concat();
        self.server.post("default", message, &headers).await
    }
}

fn older(id: i64, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {"n": 1}}})
}

/// Says whether an answer came by itself, and not in a stream of events.
fn is_alone(answer: &Answer) -> bool {
    answer.headers["content-type"] == "application/json"
}

#[tokio::test]
async fn both_ways_answer_alike() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for tool in ["echo", "whoami", "denied", "broken", "panics", "unheard-of"] {
        let (at_once, message) = (session.with(&older(7, tool), &[trace]).await, older(7, tool));
        let weighed = session.with(&message, &[trace, WEIGHED]).await;
        assert!(is_alone(&at_once) && !is_alone(&weighed), "{tool}");
        assert_eq!((at_once.status, at_once.json()), (weighed.status, weighed.json()), "{tool}");

        let (headers, message) = (modern_headers("tools/call", tool), call(7, tool));
        let at_once = server.post("default", &message, &[&headers[..], &[trace]].concat()).await;
        let weighed =
            server.post("default", &message, &[&headers[..], &[trace, WEIGHED]].concat()).await;
        assert!(is_alone(&at_once), "{tool}");
        assert_eq!((at_once.status, at_once.json()), (weighed.status, weighed.json()), "{tool}");
    }
}

#[tokio::test]
async fn what_may_say_more_than_its_answer_or_has_to_be_refused_goes_to_the_library() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    assert!(is_alone(&session.say(&older(1, "whoami")).await));
    let mut told = older(2, "steps");
    told["params"]["_meta"] = json!({"progressToken": "p"});
    let answer = session.say(&told).await;
    assert!(!is_alone(&answer) && answer.text.contains("notifications/progress"));
    for version in ["2026-07-28", "1999-01-01", "?"] {
        let answer = session.with(&older(3, "whoami"), &[("mcp-protocol-version", version)]).await;
        assert_eq!(answer.status, 400, "{version}");
    }
    for capability in ["elicitation", "roots", "sampling"] {
        let asked = Session::begin(&server, json!({capability: {}})).await;
        assert!(!is_alone(&asked.say(&older(1, "whoami")).await), "{capability}");
    }
    let named = [("mcp-session-id", session.id.as_str())];
    assert_eq!(server.post("other", &older(1, "whoami"), &named).await.status, 404);
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_id_in_its_session_only() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    let other = Session::begin(&server, json!({})).await;
    let cancelling = async {
        server.host.started(3).await;
        let word = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 5}});
        assert_eq!(other.say(&word).await.status, 202);
        assert!(server.host.dropped(1).now_or_never().is_none());
        assert_eq!(session.say(&word).await.status, 202);
        server.host.dropped(1).await;
    };
    let slow = older(5, "slow");
    let (answer, ()) = tokio::join!(session.say(&slow), cancelling);
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    assert!(is_alone(&session.say(&older(5, "whoami")).await), "the id is free again");
}

#[tokio::test]
async fn an_id_in_use_is_refused_in_its_session_only() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    let other = Session::begin(&server, json!({})).await;
    let again = async {
        server.host.started(3).await;
        for method in ["tools/call", "tools/list"] {
            let mut message = older(5, "whoami");
            message["method"] = json!(method);
            let answer = session.say(&message).await;
            assert_eq!(answer.status, 400, "{method}");
            assert_eq!(answer.json()["error"]["code"], json!(-32600), "{method}");
            assert_eq!(answer.json()["id"], json!(5), "{method}");
        }
        assert!(is_alone(&session.say(&older(6, "whoami")).await));
        assert!(is_alone(&other.say(&older(5, "whoami")).await));
        server.host.release();
    };
    let slow = older(5, "slow");
    let (answer, ()) = tokio::join!(session.say(&slow), again);
    assert!(answer.text.contains("at last"), "{}", answer.text);
}

#[tokio::test]
async fn a_call_of_a_session_outlives_its_connection_and_not_its_session() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    let token = server.agent("default");
    let own = [("authorization", token.as_str()), ("mcp-session-id", session.id.as_str())];
    let headers = [&MCP[..], &own].concat();
    let asks =
        |id| server.request("POST", "/mcp", &headers, older(id, "slow").to_string().as_bytes());
    let mut sender = server.open().await;
    let request = asks(5);
    let asking = tokio::spawn(async move { sender.send_request(request).await.map(drop) });
    server.host.started(2).await;
    asking.abort();
    assert!(asking.await.is_err());
    // It still runs, and still has its id.
    assert_eq!(session.say(&older(5, "whoami")).await.status, 400);
    assert!(server.host.dropped(1).now_or_never().is_none());

    let leaving = async {
        server.host.started(3).await;
        assert!(server.send("DELETE", "/mcp", &headers, b"").await.status.is_success());
        server.host.dropped(2).await;
    };
    let slow = older(6, "slow");
    let (answer, ()) = tokio::join!(session.say(&slow), leaving);
    assert_eq!(answer.text, "");
    assert_eq!(session.say(&older(7, "whoami")).await.status, 404);
}

#[tokio::test]
async fn calls_keep_their_session_from_being_idle() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    for _ in 0..4 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(240)).await;
        tokio::time::resume();
        let answer = session.say(&older(1, "whoami")).await;
        assert!(answer.status == 200 && is_alone(&answer), "{} {}", answer.status, answer.text);
    }
}

#[tokio::test]
async fn a_call_that_takes_long_is_answered_with_a_stream() {
    let server = Server::start(true).await;
    let session = Session::begin(&server, json!({})).await;
    let waiting = async {
        server.host.started(2).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(2 * HTTP_ANSWER_WAIT_MS)).await;
        tokio::time::resume();
        server.host.release();
    };
    let slow = older(5, "slow");
    let (answer, ()) = tokio::join!(session.say(&slow), waiting);
    assert!(!is_alone(&answer));
    assert_eq!(answer.json()["result"]["content"][0]["text"], json!("at last"));
}
