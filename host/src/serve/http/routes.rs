//! What is behind each path, and for whom.
//!
//! An agent's token opens `/mcp` and `/claw`. The operator's credential opens `/status`, and `/claw`
//! for its word about calls that wait and nothing else: who calls tools can never be who approves.
//! Each agent has sessions of its own, so one agent cannot listen to another's; what it may have in
//! flight counts over both paths. Deliberately absent: any other path.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::{
    HTTP_REQUESTS_PER_AGENT_MAX, HTTP_SESSIONS_MAX, HTTP_STREAMS_PER_AGENT_MAX,
    HTTP_URGENT_PER_AGENT_MAX, MESSAGE_BYTES_MAX,
};
use futures_util::StreamExt as _;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyStream, Full, StreamBody};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::HttpOptions;
use super::body::{answer_bytes, answer_json, denied, read_body, require_json};
use super::claw::{self, Sessions};
use super::guard::{self, Denied, Guard};
use super::held::until_sent;
use super::places::{Busy, Seat};
use crate::approvals::Reachable;
use crate::host::Principal;
use crate::serve::calls::Calls;
use crate::serve::mcp::McpServer;
use crate::serve::message::{self, Fault, Incoming, METHOD_NOT_FOUND};
use crate::serve::status::status;
use crate::state::{Credentials, DEFAULT_AGENT, Role};

/// What an answer carries.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Everything a connection needs to answer.
pub(super) struct App<C: Calls> {
    agents: BTreeMap<String, Agent<C>>,
    calls: C,
    credentials: Arc<Credentials>,
    guard: Guard,
    /// The operator can answer questions here.
    _reach: Reachable,
    require_token: bool,
    shutdown: CancellationToken,
    started: Instant,
    streams: CancellationToken,
}

/// One agent's MCP server with the sessions of the older revisions.
struct Agent<C: Calls> {
    claws: Sessions<C>,
    requests: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
    service: StreamableHttpService<McpServer<C>, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    shutdown: CancellationToken,
    streams: Arc<Semaphore>,
}

impl<C: Calls> App<C> {
    /// Returns the application of a server that listens on `address`.
    pub(super) fn new(
        calls: C,
        credentials: Arc<Credentials>,
        options: &HttpOptions,
        address: SocketAddr,
        shutdown: CancellationToken,
    ) -> Self {
        let guard = Guard::new(options, address);
        let streams = CancellationToken::new();
        let anybody = (!options.require_token).then_some(DEFAULT_AGENT);
        let agents = credentials
            .agents()
            .chain(anybody)
            .map(|name| (name.to_owned(), Agent::new(name, &calls, &guard, &streams, &shutdown)))
            .collect();
        let require_token = options.require_token;
        let started = Instant::now();
        let reach = calls.services().approvals.reach().open();
        Self {
            agents,
            calls,
            credentials,
            guard,
            _reach: reach,
            require_token,
            shutdown,
            started,
            streams,
        }
    }

    /// Waits until no call runs.
    pub(super) async fn idle(&self) {
        self.calls.services().running.wait().await;
    }

    /// Ends sessions, and with them the calls that still run.
    pub(super) fn close(&self) {
        self.streams.cancel();
        self.agents.values().for_each(|agent| agent.claws.end());
    }

    /// Answers one request, whatever it is, that came over the connection in `seat`.
    pub(super) async fn answer<B>(&self, request: Request<B>, seat: &Arc<Seat>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.route(request, seat).await.unwrap_or_else(|denial| denied(&denial))
    }

    async fn route<B>(
        &self,
        request: Request<B>,
        seat: &Arc<Seat>,
    ) -> Result<Response<Body>, Denied>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.shutdown.is_cancelled() {
            return Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping"));
        }
        self.guard.check(request.uri(), request.headers())?;
        match request.uri().path() {
            "/mcp" => {
                let agent = self.agent(&request)?;
                let (permit, room) = agent.request()?;
                let held = (busy(seat, room)?, permit);
                Ok(until_sent(agent.answer(request, room).await?, held))
            }
            "/claw" if matches!(self.role(&request)?, Some(Role::Operator)) => {
                let busy = busy(seat, Room::Urgent)?;
                Ok(until_sent(self.operator(request).await?, busy))
            }
            "/claw" => {
                let agent = self.agent(&request)?;
                let (permit, room) = agent.request()?;
                let held = (busy(seat, room)?, permit);
                Ok(until_sent(agent.claw(request, room).await?, held))
            }
            "/status" => {
                self.require_operator(&request)?;
                let busy = busy(seat, Room::Urgent)?;
                Ok(until_sent(self.status(request.method())?, busy))
            }
            _ => Err(Denied::new(StatusCode::NOT_FOUND, "there is /mcp, /claw, and /status")),
        }
    }

    /// Returns the agent whose token the request carries.
    fn agent<B>(&self, request: &Request<B>) -> Result<&Agent<C>, Denied> {
        let name = match self.role(request)? {
            Some(Role::Agent(name)) => name,
            Some(Role::Operator) => {
                let text = "the operator decides about calls and makes none; use an agent's token";
                return Err(Denied::new(StatusCode::FORBIDDEN, text));
            }
            None if self.require_token => return Err(guard::no_token()),
            None => DEFAULT_AGENT.to_owned(),
        };
        self.agents.get(&name).ok_or_else(guard::wrong_token)
    }

    fn require_operator<B>(&self, request: &Request<B>) -> Result<(), Denied> {
        match self.role(request)? {
            Some(Role::Operator) => Ok(()),
            Some(Role::Agent(_)) => {
                let text = "this is for the operator, and an agent is not";
                Err(Denied::new(StatusCode::FORBIDDEN, text))
            }
            None => Err(guard::no_token()),
        }
    }

    /// Returns whose token the request carries, or nothing where it carries none.
    fn role<B>(&self, request: &Request<B>) -> Result<Option<Role>, Denied> {
        let Some(token) = guard::bearer(request.headers()) else {
            return Ok(None);
        };
        self.credentials.identify(token).map(Some).ok_or_else(guard::wrong_token)
    }

    /// Answers the operator's message of the Claw Kernel Protocol.
    async fn operator<B>(&self, request: Request<B>) -> Result<Response<Body>, Denied>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.method() != Method::POST {
            return Err(Denied::method("POST"));
        }
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        let body = read_body(body).await?;
        Ok(claw::operator(&self.calls, self.started.elapsed(), &body).await)
    }

    fn status(&self, method: &Method) -> Result<Response<Body>, Denied> {
        if method != Method::GET {
            return Err(Denied::method("GET"));
        }
        Ok(answer_json(StatusCode::OK, &status(&self.calls, self.started)))
    }
}

impl<C: Calls> Agent<C> {
    fn new(
        name: &str,
        calls: &C,
        guard: &Guard,
        streams: &CancellationToken,
        shutdown: &CancellationToken,
    ) -> Self {
        // The guard has checked both already; a second lock costs nothing.
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(guard.authorities())
            .with_allowed_origins(guard.origins())
            .enforce_origin_validation()
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
            .with_cancellation_token(streams.clone());
        let sessions = Arc::new(LocalSessionManager::default());
        let claws = Sessions::new(calls.clone(), Principal(name.to_owned()));
        let (calls, closing) = (calls.clone(), shutdown.clone());
        let principal = Principal(name.to_owned());
        let server = move || Ok(McpServer::new(calls.clone(), principal.clone(), closing.clone()));
        let service = StreamableHttpService::new(server, Arc::clone(&sessions), config);
        Self {
            claws,
            requests: Arc::new(Semaphore::new(HTTP_REQUESTS_PER_AGENT_MAX)),
            urgent: Arc::new(Semaphore::new(HTTP_URGENT_PER_AGENT_MAX)),
            service,
            sessions,
            shutdown: shutdown.clone(),
            streams: Arc::new(Semaphore::new(HTTP_STREAMS_PER_AGENT_MAX)),
        }
    }

    /// Takes the right to one more request, before anything of its body is read. Where there is
    /// none left, it may still turn out to be urgent.
    fn request(&self) -> Result<(OwnedSemaphorePermit, Room), Denied> {
        let ordinary = one_of(&self.requests, HTTP_REQUESTS_PER_AGENT_MAX, "requests");
        match (ordinary, Arc::clone(&self.urgent).try_acquire_owned()) {
            (Ok(permit), _) => Ok((permit, Room::Any)),
            (Err(_), Ok(permit)) => Ok((permit, Room::Urgent)),
            (Err(denied), Err(_)) => Err(denied),
        }
    }

    /// Takes the right to one more stream that does not end by itself.
    fn stream(&self) -> Result<OwnedSemaphorePermit, Denied> {
        one_of(&self.streams, HTTP_STREAMS_PER_AGENT_MAX, "streams")
    }

    async fn answer<B>(&self, request: Request<B>, room: Room) -> Result<Response<Body>, Denied>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        room.admits_method(&parts.method)?;
        if parts.method != Method::POST {
            let listens = parts.method == Method::GET;
            let stream = listens.then(|| self.stream()).transpose()?;
            let request = Request::from_parts(parts, Full::new(Bytes::new()));
            let response = self.service.handle(request).await;
            let response = self.ending(response);
            return Ok(until_sent(response, stream));
        }
        let body = read_body(body).await?;
        room.admits(&body)?;
        match screen(&body, parts.headers.contains_key(MCP_SESSION)) {
            Screened::Answered(response) => Ok(response),
            Screened::Passed { method, value } => {
                if method == "initialize" {
                    self.check_sessions().await?;
                }
                let listens = method == "subscriptions/listen";
                let stream = listens.then(|| self.stream()).transpose()?;
                // What was checked is what is passed on, not the bytes it came as.
                let body = Bytes::from(value.to_string());
                let request = Request::from_parts(parts, Full::new(body));
                Ok(until_sent(self.service.handle(request).await, stream))
            }
        }
    }

    /// Answers a request to `/claw`.
    async fn claw<B>(&self, request: Request<B>, room: Room) -> Result<Response<Body>, Denied>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        room.admits_method(&parts.method)?;
        match parts.method {
            Method::POST => {
                require_json(&parts.headers)?;
                let body = read_body(body).await?;
                room.admits(&body)?;
                self.claws.post(&parts.headers, &body).await
            }
            Method::GET => {
                let stream = self.stream()?;
                let response = self.claws.listen(&parts.headers)?;
                let response = self.ending(response);
                Ok(until_sent(response, stream))
            }
            Method::DELETE => self.claws.delete(&parts.headers),
            _ => Err(Denied::method("GET, POST, DELETE")),
        }
    }

    /// A stream that tells a client of changes has no end of its own: it ends when the server does.
    fn ending(&self, response: Response<Body>) -> Response<Body> {
        let end = self.shutdown.clone().cancelled_owned();
        response.map(|body| BoxBody::new(StreamBody::new(BodyStream::new(body).take_until(end))))
    }

    async fn check_sessions(&self) -> Result<(), Denied> {
        if self.sessions.sessions.read().await.len() < HTTP_SESSIONS_MAX {
            return Ok(());
        }
        let text = format!("this agent has {HTTP_SESSIONS_MAX} sessions open; end one first");
        Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, text))
    }
}

/// Keeps the connection of a request whose sender is known.
fn busy(seat: &Arc<Seat>, room: Room) -> Result<Busy, Denied> {
    let text = "there is no room for this connection now";
    seat.busy(room == Room::Urgent)
        .ok_or_else(|| Denied::new(StatusCode::SERVICE_UNAVAILABLE, text))
}

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Any,
    /// Only what can end a call that runs, or is about it.
    Urgent,
}

impl Room {
    fn admits_method(self, method: &Method) -> Result<(), Denied> {
        if self == Self::Any || [Method::POST, Method::DELETE].contains(method) {
            return Ok(());
        }
        Err(too_many(HTTP_REQUESTS_PER_AGENT_MAX, "requests"))
    }

    fn admits(self, body: &[u8]) -> Result<(), Denied> {
        let urgent = || match message::read(body) {
            Ok(Incoming::Notification { .. } | Incoming::Reply { .. }) => true,
            Ok(Incoming::Request { method, .. }) => message::is_urgent(&method),
            Err(_) => false,
        };
        if self == Self::Any || urgent() {
            return Ok(());
        }
        Err(too_many(HTTP_REQUESTS_PER_AGENT_MAX, "requests"))
    }
}

/// Takes one of an agent's `max`, and never waits for it.
fn one_of(all: &Arc<Semaphore>, max: usize, what: &str) -> Result<OwnedSemaphorePermit, Denied> {
    Arc::clone(all).try_acquire_owned().map_err(|_| too_many(max, what))
}

fn too_many(max: usize, what: &str) -> Denied {
    let text = format!("this agent has {max} {what} open; end one first");
    Denied::new(StatusCode::TOO_MANY_REQUESTS, text)
}

/// What the checks that both transports share make of a body.
enum Screened {
    Answered(Response<Body>),
    Passed { method: String, value: Value },
}

/// The header by which the older revisions name a session; only there a host asks its clients.
const MCP_SESSION: &str = "mcp-session-id";

fn screen(body: &[u8], in_session: bool) -> Screened {
    let refuse = |status, refusal: &Fault| {
        Screened::Answered(answer_bytes(status, refusal.to_line(), "application/json"))
    };
    let accepted =
        || Screened::Answered(answer_bytes(StatusCode::ACCEPTED, Vec::new(), "application/json"));
    match message::read(body) {
        Err(refusal) => refuse(StatusCode::BAD_REQUEST, &refusal),
        Ok(Incoming::Request { id, method, .. }) if message::is_ckp(&method) => {
            let text = "claw.* methods are served at /claw";
            refuse(StatusCode::NOT_FOUND, &Fault::new(METHOD_NOT_FOUND, text).to(id))
        }
        Ok(Incoming::Notification { method, .. }) if message::is_ckp(&method) => accepted(),
        Ok(Incoming::Reply { value, .. }) if in_session => {
            Screened::Passed { method: String::new(), value }
        }
        Ok(Incoming::Reply { .. }) => accepted(),
        Ok(Incoming::Notification { method, value } | Incoming::Request { method, value, .. }) => {
            Screened::Passed { method, value }
        }
    }
}
