//! A hostile MCP server: whatever it answers, its list of tools is bounded, a call of one of them
//! ends in time, and the host goes on.
//!
//! It is a server behind HTTP on this machine. A program's lines are read by the same code.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use clawhost::secrets::Secrets;
use clawhost::upstream::http::HttpClient;
use clawhost::upstream::mcp::{Endpoint, Server, ServerParts, ServerPlan, State};
use clawhost_core::json;
use clawhost_core::limits::BRIDGE_TOOLS_MAX;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::input::Input;

/// The time that one call is given.
const CALL: Duration = Duration::from_millis(300);
const HANGS: Duration = Duration::from_secs(15);

/// What the server says: the answers still to be given, one for each request.
type Script = Arc<Mutex<Vec<u8>>>;

/// Answers requests with the parts of `data`: one that begins with `=` is a result under the
/// request's own id, one that begins with `data:` a stream of events, any other a whole answer.
pub fn run(data: &[u8]) {
    static WORLD: OnceLock<(Runtime, Script, String)> = OnceLock::new();
    let (runtime, script, url) = WORLD.get_or_init(|| {
        let runtime = Runtime::new().expect("there are threads");
        let script = Script::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it has one"));
        runtime.spawn(serve(listener, Arc::clone(&script)));
        (runtime, script, url)
    });
    *script.lock().expect("nobody panics") = data.to_vec();
    runtime.block_on(async {
        timeout(HANGS, talk(url.clone())).await.expect("the host hangs");
    });
}

async fn talk(url: String) {
    let endpoint = Endpoint::Http { url, headers: Vec::new(), auth: None, within: None };
    let plan = ServerPlan { name: "hostile".to_owned(), endpoint, expose: Default::default() };
    let parts = ServerParts { client: HttpClient::system(), secrets: Secrets::none() };
    let server = Server::start(plan, parts);
    let mut offers = server.offers();
    let known = offers.wait_for(|offers| offers.state != State::Connecting).await;
    let known = known.expect("the server's task goes on").clone();
    assert!(known.tools.len() <= BRIDGE_TOOLS_MAX);
    if let State::Failed { reason, .. } = &known.state {
        assert!(!reason.contains(['\n', '\u{1b}']), "{reason:?}");
    }
    let tool = known.tools.first().map_or("any", |tool| tool.name.as_str());
    if known.state == State::Ready {
        match server.call(tool, None, "{}", CALL, Default::default()).await {
            Ok(reply) => assert!(reply.meta.keys().all(|key| !key.starts_with("clawhost/"))),
            Err(error) => assert_ne!(error.message, "the host failed; please report this"),
        }
    }
    server.stop().await;
}

async fn serve(listener: TcpListener, script: Script) {
    while let Ok((connection, _)) = listener.accept().await {
        tokio::spawn(answer(connection, Arc::clone(&script)));
    }
}

/// Answers the requests of one connection.
async fn answer(mut connection: TcpStream, script: Script) -> Option<()> {
    loop {
        let message = request(&mut connection).await?;
        let part = {
            let mut script = script.lock().ok()?;
            let mut input = Input(&script);
            let part = input.part().to_vec();
            *script = input.0.to_vec();
            part
        };
        let id = message.get("id").map(Value::to_string);
        let (status, kind, body) = match (&id, part.strip_prefix(b"=")) {
            (None, _) => ("202 Accepted", "application/json", Vec::new()),
            (Some(id), Some(result)) => {
                let body =
                    [br#"{"jsonrpc":"2.0","id":"#, id.as_bytes(), br#","result":"#, result, b"}"]
                        .concat();
                ("200 OK", "application/json", body)
            }
            (Some(_), None) if part.starts_with(b"data:") => ("200 OK", "text/event-stream", part),
            (Some(_), None) => ("200 OK", "application/json", part),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    }
}

/// Reads a request and returns its message.
async fn request(connection: &mut TcpStream) -> Option<Value> {
    let mut read = Vec::new();
    loop {
        let end = read.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let body = &read[end + 4..];
            let length = length.map_or(Some(0), |length| length.parse::<usize>().ok())?;
            if body.len() >= length {
                return Some(json::parse(body).unwrap_or_default());
            }
        }
        if connection.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}
