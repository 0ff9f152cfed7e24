//! Calls of tools over HTTP that go to their handler at once, as [`crate::serve::direct`] has them on a line.
//!
//! They are the ones whose answer is all that is ever said about them: nobody wants to hear of their progress, and
//! their client is asked nothing meanwhile. What serves, what is checked and what is recorded is the same; what
//! has to be refused goes to the protocol library, which says why. Deliberately absent: the stream of
//! events that can be taken up again, which such an answer does not need.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clawhost_core::limits::HTTP_ANSWER_WAIT_MS;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, header};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage};
use rmcp::service::{Peer, serve_directly_with_ct};
use serde_json::Value;
use tokio::io::{empty, sink};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::body::{answer_json, event, event_stream, require_json};
use super::routes::{Body, MCP_SESSION};
use crate::serve::calls::{Calls, host_failed};
use crate::serve::direct::Request;
use crate::serve::mcp::McpServer;
use crate::serve::message::{Fault, INTERNAL_ERROR, Incoming};
use crate::serve::questions;
use crate::serve::session::{HttpSession, OpenCall};

/// One agent's way to the handler.
pub(super) struct Direct<C: Calls> {
    server: Arc<McpServer<C>>,
    /// The way to a client without a session, which is told nothing but its answer.
    nobody: Peer<RoleServer>,
}

/// A call that may go this way.
pub(super) struct Call<C> {
    server: Arc<McpServer<C>>,
    request: Request,
    /// Where it is of a session.
    open: Option<OpenCall>,
}

/// The answer to a request; nothing where nobody waits for it any more.
type Answer = Option<(StatusCode, Bytes)>;

impl<C: Calls> Direct<C> {
    /// Returns the way to `server`.
    pub(super) fn new(server: Arc<McpServer<C>>) -> Self {
        let ended = CancellationToken::new();
        ended.cancel();
        let pipes = (empty(), sink());
        let nobody = serve_directly_with_ct(Arc::clone(&server), pipes, None, ended).peer().clone();
        Self { server, nobody }
    }

    /// Returns the call that a request is, where it may go this way.
    pub(super) fn call(
        &self,
        headers: &HeaderMap,
        incoming: &Incoming,
        session: Option<&HttpSession>,
    ) -> Option<Call<C>> {
        let Incoming::Request { id, method, value } = incoming else { return None };
        let is_call = method == "tools/call" && !wants_progress(value);
        if !is_call || !accepts_both(headers) || require_json(headers).is_err() {
            return None;
        }
        let (request, open) = match headers.contains_key(MCP_SESSION) {
            true => self.of_session(headers, (id, value), session?)?,
            false => (self.stateless(headers, (id, value))?, None),
        };
        Some(Call { server: Arc::clone(&self.server), request, open })
    }

    /// Returns a request of a session whose client is ready and can be asked nothing.
    fn of_session(
        &self,
        headers: &HeaderMap,
        (id, message): (&RequestId, &Value),
        session: &HttpSession,
    ) -> Option<(Request, Option<OpenCall>)> {
        let mut request = Request::read(id, message, session.peer()?)?;
        let is_older = |version: &str| {
            let mut known = ProtocolVersion::KNOWN_VERSIONS.iter();
            known.any(|it| it.as_str() == version && it.has_initialize())
        };
        let says_older = text_of(headers, VERSION).is_none_or(is_older);
        let capabilities = request.context.client_capabilities();
        if request.context.meta.protocol_version().is_some()
            || (headers.contains_key(VERSION) && text_of(headers, VERSION).is_none())
            || !says_older
            || capabilities.as_ref().is_some_and(questions::can_be_asked)
        {
            return None;
        }
        let open = session.open(id)?;
        request.context.ct = open.cancels.clone();
        Some((request, Some(open)))
    }

    /// Returns a request that says all itself, in its headers and its metadata alike.
    fn stateless(
        &self,
        headers: &HeaderMap,
        (id, message): (&RequestId, &Value),
    ) -> Option<Request> {
        let request = Request::read(id, message, self.nobody.clone())?;
        let (meta, newest) = (&request.context.meta, ProtocolVersion::V_2026_07_28);
        let name = message.pointer("/params/name").and_then(Value::as_str)?;
        let says = |header, value| text_of(headers, header) == Some(value);
        let is_whole =
            meta.protocol_version()? == newest && meta.missing_required_keys(&newest).is_empty();
        let agrees =
            says(VERSION, newest.as_str()) && says(METHOD, "tools/call") && says(NAME, name);
        let catalog = self.server.calls.catalog();
        let repeats = catalog.find(name).is_some_and(|it| repeats(&it.definition.input_schema));
        (is_whole && agrees && !repeats).then_some(request)
    }
}

impl<C: Calls> Call<C> {
    /// Carries it out for the client whose request has these `parts`. Without a session it ends when its client
    /// goes; one of a session goes on.
    pub(super) async fn answer(self, parts: Parts) -> Response<Body> {
        let Self { server, mut request, open } = self;
        request.context.extensions.insert(parts);
        match open {
            None => respond(carried_out(server, request).await),
            Some(open) => answer_in_session(Box::pin(in_session(server, request, open))).await,
        }
    }
}

/// Carries a call out to its end.
async fn carried_out<C: Calls>(server: Arc<McpServer<C>>, request: Request) -> Answer {
    let (id, is_stateless) = (request.context.id.clone(), request.is_stateless());
    // A defect that panics ends nothing but its call.
    let answer = AssertUnwindSafe(request.answer(server)).catch_unwind().await;
    let Ok(answer) = answer else {
        let line = Fault::from(host_failed()).to(id).to_line();
        return Some((StatusCode::OK, line.into()));
    };
    let status = if is_stateless { status(&answer) } else { StatusCode::OK };
    let line = serde_json::to_vec(&answer)
        .unwrap_or_else(|_| Fault::new(INTERNAL_ERROR, "the answer has no JSON").to(id).to_line());
    Some((status, line.into()))
}

/// As [`carried_out`], as long as neither the client nor the end of its session cancels it.
async fn in_session<C: Calls>(
    server: Arc<McpServer<C>>,
    request: Request,
    open: OpenCall,
) -> Answer {
    open.touch();
    let answer = carried_out(server, request).await;
    open.touch();
    answer.filter(|_| !open.cancels.is_cancelled())
}

/// Answers with what `work` comes to, which goes on where its client has gone. What takes long is answered with a
/// stream of events, whose signs of life keep whatever is between the two from giving up.
async fn answer_in_session(mut work: BoxFuture<'static, Answer>) -> Response<Body> {
    // Most calls end in their first turn, and need no task.
    if let Some(answer) = (&mut work).now_or_never() {
        return respond(answer);
    }
    let mut work = tokio::spawn(work);
    match timeout(Duration::from_millis(HTTP_ANSWER_WAIT_MS), &mut work).await {
        Ok(answer) => respond(answer.ok().flatten()),
        Err(_) => {
            let answer = stream::once(async { work.await.ok().flatten() });
            event_stream(answer.filter_map(async |answer| {
                let (_, line) = answer?;
                Some(event(&std::str::from_utf8(&line).ok()?))
            }))
        }
    }
}

/// Nobody waits for the answer to a call that was cancelled: it is a stream in which nothing is said.
fn respond(answer: Answer) -> Response<Body> {
    match answer {
        Some((status, line)) => answer_json(status, line),
        None => event_stream(stream::empty()),
    }
}

/// Returns the status of an answer in the stateless revision, as the protocol library has it.
fn status(answer: &ServerJsonRpcMessage) -> StatusCode {
    let JsonRpcMessage::Error(error) = answer else { return StatusCode::OK };
    match error.error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const VERSION: &str = "mcp-protocol-version";

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Says whether a tool has arguments that its clients repeat in headers, which the library compares.
fn repeats(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut all = properties.into_iter().flat_map(|properties| properties.values());
    all.any(|one| one.get("x-mcp-header").is_some() || repeats(one))
}

fn wants_progress(message: &Value) -> bool {
    message.pointer("/params/_meta/progressToken").is_some()
}

/// Says whether a client plainly takes both kinds of answer, as it has to. What weighs or quotes is the library's.
fn accepts_both(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT);
    let texts = || all.iter().filter_map(|value| value.to_str().ok());
    let has = |kind: &str| {
        texts().any(|text| text.split(',').any(|one| one.trim().eq_ignore_ascii_case(kind)))
    };
    !texts().any(|text| text.contains('"')) && has("application/json") && has("text/event-stream")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_answer_are_accepted_where_that_is_plain() {
        let accepts = |all: &[&str]| {
            let all = all.iter().map(|one| (header::ACCEPT, one.parse().unwrap()));
            accepts_both(&HeaderMap::from_iter(all))
        };
        assert!(accepts(&["application/json, text/event-stream"]));
        assert!(accepts(&["Text/Event-Stream ,*/*", "application/JSON"]));
        for all in [
            &[][..],
            &["*/*"],
            &["application/json"],
            &["application/json;q=0, text/event-stream"],
            &[r#"text/plain;x=", application/json, text/event-stream, ""#],
        ] {
            assert!(!accepts(all), "{all:?}");
        }
    }

    #[test]
    fn arguments_that_headers_repeat_are_found_wherever_they_are() {
        let object = |properties| json!({"type": "object", "properties": properties});
        let repeated = json!({"type": "string", "x-mcp-header": "Region"});
        assert!(repeats(&object(json!({"region": repeated}))));
        assert!(repeats(&object(json!({"at": object(json!({"region": repeated}))}))));
        for plain in [json!({}), json!(true), object(json!({"region": {"type": "string"}}))] {
            assert!(!repeats(&plain), "{plain}");
        }
    }
}
