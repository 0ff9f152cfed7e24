//! One MCP server that is a program, over streamable HTTP, for hosts that can be told a URL only.
//!
//! It is a transport and no gate: whoever may ask may ask for anything, and the host that bridges it applies
//! policy. Its clients share one process; what it said to `initialize` is said to each of them again, and each
//! has a session of its own, which lasts as long as the process. Deliberately absent: streams, and with them
//! whatever the server says unasked.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::limits::WRAP_SESSIONS_MAX;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use super::body::{accepted, answer_json, denied, read_bounded, refused};
use super::guard::{self, Denied, Guard};
use super::held::until_sent;
use super::places::{Places, Seat};
use super::routes::{Body, MCP_SESSION, Request, Room, busy, session_id};
use super::{Answers, BoundServer, HttpOptions, listen, start};
use crate::random;
use crate::secrets::Secret;
use crate::serve::Shutdown;
use crate::serve::message::{self, Fault, INVALID_REQUEST, Incoming};
use crate::upstream::mcp::{Life, NoResult, Server};

/// Says whether the server can be asked; open to everybody.
const HEALTH_PATH: &str = "/healthz";
/// No such session, or none any longer.
const UNKNOWN_SESSION: i32 = -32_001;
/// The server is not there, or does not answer.
const SILENT: i32 = -32_000;
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
    sessions: Mutex<HashMap<String, Session>>,
}

struct Session {
    life: Life,
    used: Instant,
    /// What ends each request under way.
    asked: HashMap<RequestId, CancellationToken>,
}

/// A request under way; dropped, it is none any longer.
struct Asking<'a> {
    wrapped: &'a Wrapped,
    session: &'a str,
    id: &'a RequestId,
    life: Life,
    cancelled: CancellationToken,
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
    let wrapped = Wrapped { guard, options, server, sessions: Mutex::default() };
    Ok(start(listener, local_addr, Arc::new(wrapped), Places::all(), shutdown))
}

impl Answers for Wrapped {
    async fn answer(&self, request: Request, seat: &Arc<Seat>) -> Response<Body> {
        self.route(request, seat).await.unwrap_or_else(|denial| denied(&denial))
    }

    async fn flush(&self) {
        self.server.stop().await;
    }
}

impl Wrapped {
    async fn route(&self, request: Request, seat: &Arc<Seat>) -> Result<Response<Body>, Denied> {
        self.guard.check(request.uri(), request.headers())?;
        match request.uri().path() {
            HEALTH_PATH => return Ok(self.health()),
            path if path == self.options.path => {}
            _ => return Err(Denied::new(StatusCode::NOT_FOUND, "there is one path, and /healthz")),
        }
        if request.method() != Method::POST {
            return Err(Denied::method("POST"));
        }
        self.check_token(request.headers())?;
        let busy = busy(seat, Room::Any)?;
        let (parts, body) = request.into_parts();
        let body = read_bounded(body, self.options.body_bytes_max).await?;
        let session = session_id(&parts.headers).unwrap_or_default();
        Ok(until_sent(self.take(session, message::read(&body)).await, busy))
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

    async fn take(&self, session: &str, message: Result<Incoming, Fault>) -> Response<Body> {
        match message {
            Err(fault) => refused(StatusCode::BAD_REQUEST, &fault),
            Ok(Incoming::Reply { id, .. }) => {
                let fault = Fault { id, ..Fault::new(INVALID_REQUEST, "there is no `method`") };
                refused(StatusCode::BAD_REQUEST, &fault)
            }
            Ok(Incoming::Notification { method, value }) => {
                self.told(session, &method, params(value)).await;
                accepted()
            }
            Ok(Incoming::Request { id, method, .. }) if method == "initialize" => {
                self.initialize(id).await
            }
            Ok(Incoming::Request { id, method, value }) => {
                self.ask(session, id, &method, params(value)).await
            }
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.request_ms)
    }

    async fn initialize(&self, id: RequestId) -> Response<Body> {
        let (life, met) = match self.server.met(self.deadline()).await {
            Ok(met) => met,
            Err(why) => return failed(id, &why),
        };
        let mut answer = answered(&id, Ok(met));
        match random::hex::<SESSION_BYTES>() {
            Ok(name) if let Ok(value) = HeaderValue::from_str(&name) => {
                self.open(name, life);
                answer.headers_mut().insert(MCP_SESSION, value);
                answer
            }
            _ => failed(id, &NoResult::Silent("the system has no random numbers")),
        }
    }

    /// Opens a session, in the place of those whose process has ended, or of the one unused for longest.
    fn open(&self, name: String, life: Life) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| self.server.is_in(&session.life));
        if sessions.len() >= WRAP_SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            let oldest = oldest.map(|(name, _)| name.clone()).unwrap_or_default();
            sessions.remove(&oldest);
        }
        let session = Session { life, used: Instant::now(), asked: HashMap::new() };
        sessions.insert(name, session);
    }

    async fn ask(
        &self,
        session: &str,
        id: RequestId,
        method: &str,
        params: Option<Value>,
    ) -> Response<Body> {
        let Some(asking) = self.asking(session, &id) else {
            return failed(id, &NoResult::Over);
        };
        let outcome = tokio::select! {
            outcome = self.server.relay(&asking.life, method, params, self.deadline()) => outcome,
            () = asking.cancelled.cancelled() => return accepted(),
        };
        match outcome {
            Err(NoResult::Error { code, message }) => {
                let code = i32::try_from(code).unwrap_or(message::INTERNAL_ERROR);
                answered(&id, Err(Fault::new(code, message)))
            }
            Err(why) => failed(id.clone(), &why),
            Ok(result) => answered(&id, Ok(result)),
        }
    }

    fn asking<'a>(&'a self, name: &'a str, id: &'a RequestId) -> Option<Asking<'a>> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(name)?;
        let cancelled = CancellationToken::new();
        session.used = Instant::now();
        session.asked.insert(id.clone(), cancelled.clone());
        Some(Asking { wrapped: self, session: name, id, life: session.life.clone(), cancelled })
    }

    /// Takes a notification. That its client is ready was said for it, when the process was met.
    async fn told(&self, session: &str, method: &str, params: Option<Value>) {
        let life = match self.sessions.lock().get_mut(session) {
            Some(session) if method == "notifications/cancelled" => {
                let id = params.as_ref().and_then(|params| params.get("requestId"));
                let id = id.and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
                let ended = id.and_then(|id| session.asked.get(&id));
                return ended.map(CancellationToken::cancel).unwrap_or_default();
            }
            Some(session) if method != "notifications/initialized" => session.life.clone(),
            _ => return,
        };
        // Whoever tells something hears nothing of it.
        drop(self.server.relay_told(&life, method, params, self.deadline()).await);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.wrapped.sessions.lock().get_mut(self.session) {
            session.asked.remove(self.id);
        }
    }
}

fn params(mut message: Value) -> Option<Value> {
    message.get_mut("params").map(Value::take)
}

fn answered(id: &RequestId, outcome: message::Outcome) -> Response<Body> {
    answer_json(StatusCode::OK, message::line(id, outcome))
}

fn failed(id: RequestId, why: &NoResult) -> Response<Body> {
    let (status, code, text) = match why {
        NoResult::Over => (StatusCode::NOT_FOUND, UNKNOWN_SESSION, "there is no such session"),
        NoResult::Silent(text) => (StatusCode::SERVICE_UNAVAILABLE, SILENT, *text),
        NoResult::Error { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, SILENT, "the server does not begin")
        }
    };
    refused(status, &Fault::new(code, text).to(id))
}
