//! What a request comes to: its checks, its session, and the program that it is passed on to.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::limits::{SCREENED_AT_ONCE_BYTES_MAX, WRAP_STREAMS_MAX};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use rmcp::model::{ClientCapabilities, ProtocolVersion, RequestId};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::super::admission::{Room, busy};
use super::super::body::{
    accepted, answer_json, denied, event, event_stream, read_bounded, refused, require_json,
};
use super::super::guard::{self, Answered, Denied, Guard};
use super::super::held::until_sent;
use super::super::routes::{Body, MCP_SESSION, Request, session_id};
use super::super::seats::{Seat, Seats};
use super::super::server::{Answers, listen, start};
use super::super::{BoundServer, HttpOptions};
use super::call::{self, Answer, Asking, NO_SESSION, Refusal, Said};
use super::sessions::{Sessions, WrapSession, make_room};
use crate::offload;
use crate::random;
use crate::secrets::Secret;
use crate::serve::Shutdown;
use crate::serve::message::{self, Fault, INVALID_REQUEST, Incoming};
use crate::upstream::mcp::{NoResult, ProgramLife, Server};

/// Says whether the server can be asked; open to everybody.
const HEALTH_PATH: &str = "/healthz";
/// Random bytes of a session's id.
const SESSION_BYTES: usize = 16;

/// How a program is served.
#[derive(Debug, Clone)]
pub struct WrapOptions {
    /// Where, and to whom: `require_token` is what `token` says.
    pub http: HttpOptions,
    /// The one path that messages are sent to.
    pub path: String,
    /// What every client shows. Without, only loopback addresses are accepted.
    pub token: Option<Secret>,
    /// How long a request may take, in milliseconds.
    pub request_ms: u64,
    /// The longest request.
    pub body_bytes_max: usize,
}

struct Wrapped {
    guard: Guard,
    options: WrapOptions,
    server: Server,
    sessions: Arc<Sessions>,
    streams: Arc<Semaphore>,
    stopping: CancellationToken,
}

/// Serves `server` until it is told to shut down, and stops it then.
///
/// # Errors
/// `InvalidInput` without a token on an address that others can reach, and whatever listening says.
pub async fn serve_wrapped(
    server: Server,
    mut options: WrapOptions,
    shutdown: Shutdown,
) -> io::Result<BoundServer> {
    options.http.require_token = options.token.is_some();
    let (listener, local_addr) = listen(&options.http).await?;
    let guard = Guard::new(&options.http, local_addr);
    let (streams, stopping) = (Arc::new(Semaphore::new(WRAP_STREAMS_MAX)), shutdown.told.clone());
    let sessions = Arc::default();
    let wrapped = Wrapped { guard, options, server, sessions, streams, stopping };
    Ok(start(listener, local_addr, Arc::new(wrapped), Seats::all(), shutdown))
}

impl Answers for Wrapped {
    async fn answer(&self, request: Request, seat: &Arc<Seat>) -> Response<Body> {
        self.route(request, seat).await.unwrap_or_else(|denial| denied(&denial))
    }

    async fn close(&self) {
        self.server.stop().await;
    }
}

impl Wrapped {
    async fn route(&self, request: Request, seat: &Arc<Seat>) -> Answered {
        self.guard.check(request.uri(), request.headers())?;
        match request.uri().path() {
            HEALTH_PATH => return Ok(self.health()),
            path if path == self.options.path => {}
            _ => return Err(Denied::new(StatusCode::NOT_FOUND, "there is one path, and /healthz")),
        }
        // Streams are of sessions: whoever has none is told that messages are posted.
        let named = session_id(request.headers()).filter(|_| request.method() != Method::POST);
        if named.is_none() && request.method() != Method::POST {
            return Err(Denied::method("POST"));
        }
        self.check_token(request.headers())?;
        match (request.method(), named) {
            (&Method::GET, Some(session)) => return self.listen(session, seat),
            (&Method::DELETE, Some(session)) => return self.end(session),
            (_, Some(_)) => return Err(Denied::method("GET, POST, DELETE")),
            (_, None) => {}
        }
        require_json(request.headers())?;
        let busy = busy(seat, Room::Any)?;
        let (parts, body) = request.into_parts();
        let session = session_id(&parts.headers).unwrap_or_default();
        let takes_events = call::takes_events(&parts.headers);
        let body = read_bounded(body, self.options.body_bytes_max).await?;
        let is_long = body.len() > SCREENED_AT_ONCE_BYTES_MAX;
        let message = offload::blocking(is_long, || message::read(&body));
        // What waits for the server is held once.
        drop(body);
        Ok(until_sent(self.take(session, takes_events, message).await, busy))
    }

    fn health(&self) -> Response<Body> {
        let status = match self.server.is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        answer_json(status, json!({ "ready": status == StatusCode::OK }).to_string())
    }

    /// Checks the token in a time that does not tell how much of it was right.
    fn check_token(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let Some(token) = &self.options.token else { return Ok(()) };
        let shown = guard::bearer(headers).ok_or_else(guard::no_token)?;
        let is_right = token.expose().as_bytes().ct_eq(shown.as_bytes());
        bool::from(is_right).then_some(()).ok_or_else(guard::wrong_token)
    }

    async fn take(
        &self,
        session: &str,
        takes_events: bool,
        message: Result<Incoming, Fault>,
    ) -> Response<Body> {
        match message {
            Err(fault) => refused(StatusCode::BAD_REQUEST, &fault),
            Ok(Incoming::Reply { id, value }) => match self.replied(session, id.as_ref(), value) {
                Some(()) => accepted(),
                None => {
                    let text = "there is no `method`, and it answers no question";
                    let fault = Fault { id, ..Fault::new(INVALID_REQUEST, text) };
                    refused(StatusCode::BAD_REQUEST, &fault)
                }
            },
            Ok(Incoming::Notification { method, value }) => {
                match self.told(session, &method, params(value)).await {
                    Ok(()) => accepted(),
                    Err(Refusal(status, code, text)) => refused(status, &Fault::new(code, text)),
                }
            }
            Ok(Incoming::Request { id, method, value }) if method == "initialize" => {
                self.initialize(id, params(value).unwrap_or_default()).await
            }
            Ok(Incoming::Request { id, method, value }) => {
                let asking = self.asking(session, takes_events, &id);
                match asking {
                    Ok(asking) => self.ask(asking, method, params(value)).await,
                    Err(refusal) => refusal.of(id).into(),
                }
            }
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.request_ms)
    }

    async fn initialize(&self, id: RequestId, mut said: Value) -> Response<Body> {
        let (life, met) = match self.server.met(self.deadline()).await {
            Ok(met) => met,
            Err(why) => return Refusal::from(&why).of(id).into(),
        };
        let met = Ok(as_of(said.get("protocolVersion"), met));
        let mut answer = Response::from(Answer::new(StatusCode::OK, message::line(&id, met)));
        let can = said.get_mut("capabilities").map(Value::take);
        match random::hex::<SESSION_BYTES>() {
            Ok(name) if let Ok(value) = HeaderValue::from_str(&name) => {
                self.open(name, life, can.and_then(|can| serde_json::from_value(can).ok()));
                answer.headers_mut().insert(MCP_SESSION, value);
                answer
            }
            _ => Refusal::from(&NoResult::Silent("the system has no random numbers")).of(id).into(),
        }
    }

    /// Opens a session, in the place of those whose process has ended.
    fn open(&self, name: String, life: ProgramLife, can: Option<ClientCapabilities>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| self.server.is_in(&session.life));
        make_room(&mut sessions);
        sessions.insert(name, WrapSession::new(life, can));
    }

    /// Streams what the process says unasked, in the place of an earlier stream of the session.
    fn listen(&self, name: &str, seat: &Arc<Seat>) -> Answered {
        let full = || Denied::new(StatusCode::SERVICE_UNAVAILABLE, "too many clients listen");
        let busy = busy(seat, Room::Any)?;
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(name).ok_or_else(unknown)?;
        let said = self.server.unasked(&session.life).map_err(|_| unknown())?;
        let end = self.stopping.child_token();
        let held = (busy, session.listen(&self.streams, end.clone()).ok_or_else(full)?);
        let events = events(said).take_until(end.cancelled_owned());
        Ok(until_sent(event_stream(events), held))
    }

    /// Ends a session, and what it waits for.
    fn end(&self, name: &str) -> Answered {
        let ended = self.sessions.lock().remove(name).ok_or_else(unknown)?;
        ended.asked.values().for_each(CancellationToken::cancel);
        Ok(answer_json(StatusCode::NO_CONTENT, ""))
    }

    /// Passes a request on, in a task of its own, which ends with the interest in its answer.
    async fn ask(&self, asking: Asking, method: String, params: Option<Value>) -> Response<Body> {
        let (way, said) = call::way();
        let caller = asking.caller(params.as_ref(), &way);
        let asks = caller.asks();
        let (server, deadline) = (self.server.clone(), self.deadline());
        tokio::spawn(async move {
            let outcome = tokio::select! {
                outcome = server.relay(&asking.life, &method, params, deadline, caller) => outcome,
                never = asking.questions(asks, &way) => match never {},
                () = asking.cancelled.cancelled() => return,
                () = way.closed() => return,
            };
            let answer = asking.answer(outcome);
            drop(asking);
            // Whoever asked may have gone.
            let _ = way.send(Said::Answer(answer)).await;
        });
        call::heard(said).await
    }

    fn asking(&self, name: &str, takes_events: bool, id: &RequestId) -> Result<Asking, Refusal> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(name).ok_or_else(|| Refusal::from(&NoResult::Over))?;
        let (cancelled, _place) = session.begin(id)?;
        let (life, can) = (session.life.clone(), session.can.clone().filter(|_| takes_events));
        let (sessions, session) = (Arc::clone(&self.sessions), name.to_owned());
        Ok(Asking { sessions, session, id: id.clone(), life, takes_events, can, cancelled, _place })
    }

    /// Takes what a client answers to a question; nothing where nobody asked it.
    fn replied(&self, session: &str, id: Option<&RequestId>, mut value: Value) -> Option<()> {
        let Some(RequestId::Number(id)) = id else { return None };
        let question = self.sessions.lock().get_mut(session)?.questions.remove(id)?;
        if let Some(result) = value.get_mut("result").map(Value::take) {
            // The call may have ended meanwhile. Dropped, the question has no answer.
            let _ = question.send(result);
        }
        Some(())
    }

    /// Takes a notification. That its client is ready was said for it, when the process was met.
    async fn told(
        &self,
        session: &str,
        method: &str,
        params: Option<Value>,
    ) -> Result<(), Refusal> {
        let (life, _place) = match self.sessions.lock().get_mut(session) {
            Some(session) if method == "notifications/cancelled" => {
                let id = params.as_ref().and_then(|params| params.get("requestId"));
                let id = id.and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
                let ended = id.and_then(|id| session.asked.get(&id));
                ended.map(CancellationToken::cancel).unwrap_or_default();
                return Ok(());
            }
            Some(session) if method != "notifications/initialized" => {
                (session.life.clone(), session.place()?)
            }
            _ => return Ok(()),
        };
        // Whoever tells something hears nothing of it.
        drop(self.server.relay_told(&life, method, params, self.deadline()).await);
        Ok(())
    }
}

/// Returns what is `said`, each message as an event, until its process ends.
fn events(said: Receiver<Value>) -> impl Stream<Item = Bytes> + Send + Sync {
    stream::unfold(said, |mut said| async {
        let event = match said.recv().await {
            Ok(message) => event(&message),
            Err(RecvError::Lagged(missed)) => Bytes::from(format!(": missed {missed}\n\n")),
            Err(RecvError::Closed) => return None,
        };
        Some((event, said))
    })
}

fn unknown() -> Denied {
    Denied::new(StatusCode::NOT_FOUND, NO_SESSION)
}

/// Returns what was said to `initialize` as of the revision a client asks for, where that is an older one: strict
/// clients hang up on any other.
fn as_of(asked: Option<&Value>, mut met: Value) -> Value {
    let asked = asked.and_then(Value::as_str).unwrap_or_default();
    let is_known = ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == asked);
    if let Some(Value::String(version)) = met.get_mut("protocolVersion")
        && is_known
        && asked < version.as_str()
    {
        asked.clone_into(version);
    }
    met
}

fn params(mut message: Value) -> Option<Value> {
    message.get_mut("params").map(Value::take)
}

#[cfg(test)]
mod tests {
    use clawhost_core::limits::WRAP_UNASKED_MAX;
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn who_reads_late_misses_the_oldest_and_is_told_how_many() {
        let (tell, said) = broadcast::channel(WRAP_UNASKED_MAX);
        for number in 0..WRAP_UNASKED_MAX + 3 {
            tell.send(json!(number)).unwrap();
        }
        drop(tell);
        let heard: Vec<_> = events(said).collect().await;
        assert_eq!(heard[0], ": missed 3\n\n");
        let kept = (3..WRAP_UNASKED_MAX + 3).map(|number| event(&json!(number)));
        assert!(kept.eq(heard[1..].iter().cloned()), "{heard:?}");
    }

    #[test]
    fn a_client_is_told_the_older_revision_that_it_asks_for() {
        let told = |asked: &str| {
            let met = json!({"protocolVersion": "2025-06-18", "serverInfo": {}});
            as_of(Some(&json!(asked)), met)["protocolVersion"].clone()
        };
        assert_eq!(told("2024-11-05"), "2024-11-05");
        assert_eq!(told("2025-06-18"), "2025-06-18");
        for other in ["2025-11-25", "2026-07-28", "2024-01-01", "", "2025-03-2"] {
            assert_eq!(told(other), "2025-06-18", "{other}");
        }
    }
}
