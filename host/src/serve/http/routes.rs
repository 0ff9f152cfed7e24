//! What is behind each path, and for whom.
//!
//! An agent's token opens `/mcp` and `/claw`. The operator's credential opens `/status`, and `/claw`
//! for its word about calls that wait and nothing else: who calls tools can never be who approves.
//! `/console` is the operator's too, but for its page.
//! Each agent has sessions of its own, so one agent cannot listen to another's; what it may have in
//! flight counts over all paths. Where the host serves completions, an agent's token opens `/v1` too.
//! Deliberately absent: any other path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::{HTTP_SESSIONS_MAX, SCREENED_AT_ONCE_BYTES_MAX};
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyStream, Full, StreamBody};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::HttpOptions;
use super::admission::{Bounds, Permit, ReadRequest, Room, busy};
use super::body::{accepted, answer_json, denied, event_stream, read_request, refused};
use super::claw::{self, Sessions};
use super::console::{self, Console};
use super::guard::{self, Answered, Denied, Guard};
use super::held::{seen_through, until_sent};
use super::seats::Seat;
use super::server::Answers;
use super::sessions::{EventId, McpSessions, OpenRequest, Used};
use crate::approvals::Reachable;
use crate::host::Principal;
use crate::offload;
pub(super) use crate::proxy::Body;
use crate::proxy::{self, Proxy};
use crate::serve::calls::{Calls, host_failed};
use crate::serve::mcp::McpServer;
use crate::serve::message::{self, Fault, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND};
use crate::serve::status::status;
use crate::state::{Credentials, DEFAULT_AGENT, Role};

pub(super) type Request = http::Request<hyper::body::Incoming>;

/// Everything a connection needs to answer.
pub(super) struct App<C: Calls> {
    agents: BTreeMap<String, Agent<C>>,
    calls: C,
    console: Option<Console>,
    credentials: Arc<Credentials>,
    guard: Guard,
    /// The operator can answer questions here.
    _reach: Reachable,
    proxy: Option<Proxy>,
    require_token: bool,
    shutdown: CancellationToken,
    started: Instant,
    stopped: CancellationToken,
    /// Ends what rmcp still serves with this.
    _streams: DropGuard,
}

/// One agent's MCP server with the sessions of the older revisions.
struct Agent<C: Calls> {
    claws: Sessions<C>,
    bounds: Bounds,
    service: StreamableHttpService<McpServer<C>, LocalSessionManager>,
    sessions: McpSessions,
    shutdown: CancellationToken,
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
        let (stopped, streams) = (CancellationToken::new(), CancellationToken::new());
        let ends = (shutdown.clone(), stopped.clone());
        let anybody = (!options.require_token).then_some(DEFAULT_AGENT);
        let agents = credentials
            .agents()
            .chain(anybody)
            .map(|name| (name.to_owned(), Agent::new(name, &calls, &streams, &ends)))
            .collect();
        let proxy = calls.host().zip(options.proxy.clone());
        let proxy = proxy.map(|(host, options)| Proxy::new(host, options));
        let console = calls.host().filter(|_| options.console).map(Console::new);
        let require_token = options.require_token;
        let started = Instant::now();
        let reach = calls.services().approvals.reach().open();
        Self {
            agents,
            calls,
            console,
            credentials,
            guard,
            _reach: reach,
            proxy,
            require_token,
            shutdown,
            started,
            stopped,
            _streams: streams.drop_guard(),
        }
    }

    /// Returns the console, where `path` is one of its paths.
    fn console(&self, path: &str) -> Option<&Console> {
        self.console.as_ref().filter(|_| console::has(path))
    }

    /// Returns what serves completions, where `path` is one of its paths.
    fn proxied(&self, path: &str) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| path.starts_with("/v1/"))
    }

    async fn route(&self, request: Request, seat: &Arc<Seat>) -> Answered {
        if self.shutdown.is_cancelled() {
            return Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping"));
        }
        self.guard.check(request.uri(), request.headers())?;
        let role = self.role(&request)?;
        match (request.uri().path(), role) {
            ("/claw", Some(Role::Operator)) => {
                let busy = busy(seat, Room::Urgent)?;
                Ok(until_sent(claw::operator(&self.calls, self.started, request).await?, busy))
            }
            (path @ ("/claw" | "/mcp"), role) => {
                let is_mcp = path == "/mcp";
                let agent = self.agent(role)?;
                let (asked, (busy, permit)) = agent.bounds.admit(request, seat).await?;
                let is_long = asked.1.len() > SCREENED_AT_ONCE_BYTES_MAX;
                let answer = async {
                    match is_mcp {
                        true => agent.mcp(asked, &permit).await,
                        false => agent.claw(asked, &permit).await,
                    }
                };
                let response = offload::steps(is_long, answer).await?;
                Ok(until_sent(response, (busy, permit)))
            }
            (path, role) if let Some(proxy) = self.proxied(path) => {
                self.complete(proxy, request, role, seat).await
            }
            (path, role) if let Some(console) = self.console(path) => {
                self.look(console, request, role, seat).await
            }
            ("/status", Some(Role::Operator)) => {
                let busy = busy(seat, Room::Urgent)?;
                Ok(until_sent(self.status(request.method())?, busy))
            }
            ("/status", Some(Role::Agent(_))) => Err(not_the_operator()),
            ("/status", None) => Err(guard::no_token()),
            // That it is up, and nothing else. Some clients of models ask for the head of `/` first.
            ("/health", _) if matches!(*request.method(), Method::GET | Method::HEAD) => up(seat),
            ("/", _) if request.method() == Method::HEAD => up(seat),
            _ => Err(self.nothing_there()),
        }
    }

    /// Returns the answer where there is nothing: what there is.
    fn nothing_there(&self) -> Denied {
        let mut there = vec!["/mcp", "/claw", "/status", "/health"];
        there.extend(self.console.as_ref().map(|_| console::PAGE));
        there.extend(self.proxy.as_ref().map(|_| "/v1"));
        Denied::new(StatusCode::NOT_FOUND, format!("there is {}", there.join(", ")))
    }

    /// Answers a request of a client of language models.
    async fn complete(
        &self,
        proxy: &Proxy,
        request: Request,
        role: Option<Role>,
        seat: &Arc<Seat>,
    ) -> Answered {
        let name = match &role {
            Some(Role::Agent(name)) => name.clone(),
            _ => DEFAULT_AGENT.to_owned(),
        };
        let agent = self.agent(role)?;
        seat.touch();
        let permit = agent.bounds.request().await?;
        let busy = busy(seat, Room::Any)?;
        let bytes = request.body().size_hint().lower();
        let read = |bytes_max| read_request(request, bytes_max);
        let ((parts, body), long) = agent.bounds.completion(bytes, read).await?;
        Ok(until_sent(proxy.answer(&name, &parts, body).await, (busy, permit, long)))
    }

    /// Answers a request of the console, whose page is anybody's and whose data the operator's.
    async fn look(
        &self,
        console: &Console,
        request: Request,
        role: Option<Role>,
        seat: &Arc<Seat>,
    ) -> Answered {
        match role {
            _ if request.uri().path() != console::API => Console::file(&request),
            Some(Role::Operator) => {
                let busy = busy(seat, Room::Urgent)?;
                Ok(until_sent(console.answer(request, &self.shutdown).await?, busy))
            }
            Some(Role::Agent(_)) => Err(not_the_operator()),
            None => Err(guard::no_token()),
        }
    }

    fn agent(&self, role: Option<Role>) -> Result<&Agent<C>, Denied> {
        let name = match role {
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

    /// Returns whose token the request carries, or nothing where it carries none.
    fn role(&self, request: &Request) -> Result<Option<Role>, Denied> {
        let is_proxied = self.proxied(request.uri().path()).is_some();
        let token = match is_proxied {
            true => guard::bearer_or_key(request.headers()),
            false => guard::bearer(request.headers()),
        };
        let Some(token) = token else {
            return Ok(None);
        };
        match self.credentials.identify(token) {
            // Clients of language models send some key, whatever they are told.
            None if is_proxied && !self.require_token => Ok(None),
            role => role.map(Some).ok_or_else(guard::wrong_token),
        }
    }

    fn status(&self, method: &Method) -> Answered {
        if method != Method::GET {
            return Err(Denied::method("GET"));
        }
        Ok(answer_json(StatusCode::OK, status(&self.calls, self.started).to_string()))
    }
}

impl<C: Calls> Answers for App<C> {
    async fn answer(&self, request: Request, seat: &Arc<Seat>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let mut response =
            self.route(request, seat).await.unwrap_or_else(|denial| match self.proxied(&path) {
                Some(_) => proxy::denied(&path, denial.status, &denial.text),
                None => denied(&denial),
            });
        if self.console(&path).is_some() {
            console::protect(response.headers_mut());
        }
        response
    }

    async fn idle(&self) {
        self.calls.services().running.wait().await;
    }

    async fn close(&self) {
        self.stopped.cancel();
        self.agents.values().for_each(|agent| agent.claws.end());
    }

    /// What is written down of completions is on disk then.
    async fn flush(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.flush().await;
        }
    }
}

impl<C: Calls> Agent<C> {
    fn new(
        name: &str,
        calls: &C,
        streams: &CancellationToken,
        ends: &(CancellationToken, CancellationToken),
    ) -> Self {
        // The guard has checked names and pages already, and how long a message is: as it is written anew, it
        // may be longer than what was sent.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(streams.clone());
        let sessions = McpSessions::new();
        let claws = Sessions::new(calls.clone(), Principal(name.to_owned()));
        let (calls, shutdown) = (calls.clone(), ends.0.clone());
        let principal = Principal(name.to_owned());
        let ends = ends.clone();
        let server = move || Ok(McpServer::new(calls.clone(), principal.clone(), ends.clone()));
        let service = StreamableHttpService::new(server, sessions.manager(), config);
        Self { claws, bounds: Bounds::new(), service, sessions, shutdown }
    }

    async fn mcp(&self, asked: ReadRequest, permit: &Permit) -> Answered {
        let (parts, body) = asked;
        if parts.method != Method::POST {
            return self.mcp_session(parts).await;
        }
        let incoming = match message::read(&body) {
            Err(refusal) => return Ok(refused(StatusCode::BAD_REQUEST, &refusal)),
            Ok(incoming) => incoming,
        };
        // Only in a session of the older revisions does a host ask its clients.
        let in_session = parts.headers.contains_key(MCP_SESSION);
        match incoming {
            Incoming::Request { id, method, .. } if message::is_ckp(&method) => {
                let fault = Fault::new(METHOD_NOT_FOUND, "claw.* methods are served at /claw");
                Ok(refused(StatusCode::NOT_FOUND, &fault.to(id)))
            }
            Incoming::Notification { method, .. } if message::is_ckp(&method) => Ok(accepted()),
            Incoming::Reply { .. } if !in_session => Ok(accepted()),
            incoming => self.pass_on(parts, incoming, permit).await,
        }
    }

    async fn pass_on(&self, parts: Parts, incoming: Incoming, permit: &Permit) -> Answered {
        if let Incoming::Request { id, method, value } = &incoming
            && let Err(refusal) = message::mcp(id, method, value)
        {
            return Ok(refused(StatusCode::BAD_REQUEST, &refusal));
        }
        if incoming.method() == "initialize" {
            self.check_sessions().await?;
        }
        let stream = match incoming.method() {
            "subscriptions/listen" => Some(self.bounds.stream().await?),
            _ => None,
        };
        let used = self.take_up(&parts.headers).await;
        let response = match (&used, &incoming) {
            (Some(used), Incoming::Request { id, .. }) => match used.begin(id, permit) {
                Some(underway) => self.see_through(parts, incoming, underway).await?,
                None => refused(StatusCode::BAD_REQUEST, &id_taken(id)),
            },
            _ => self.service.handle(posted(parts, incoming)).await,
        };
        Ok(until_sent(response, (stream, used)))
    }

    /// Answers a request of a session. One that rmcp has been told half of it would keep as long as the session lasts.
    async fn see_through(
        &self,
        mut parts: Parts,
        incoming: Incoming,
        underway: Arc<OpenRequest>,
    ) -> Answered {
        parts.extensions.insert(underway.session.end());
        // Its call, too, is under way until it has ended, whoever waits for that.
        parts.extensions.insert(Arc::clone(&underway));
        self.kept(posted(parts, incoming), move |it| underway.session.keep(it)).await
    }

    /// Answers a request, also where its client hangs up: `keep` gets the last part that it missed then.
    async fn kept(
        &self,
        request: http::Request<Full<Bytes>>,
        keep: impl FnOnce(Bytes) + Send + 'static,
    ) -> Answered {
        let service = self.service.clone();
        let missed = move |last: Option<Bytes>| {
            last.map(keep);
        };
        // It reads the message again.
        let is_long = request.body().size_hint().lower() > SCREENED_AT_ONCE_BYTES_MAX as u64;
        let answer = offload::steps(is_long, async move { service.handle(request).await });
        let answer = seen_through(answer, missed).await;
        answer.ok_or_else(|| Denied::new(StatusCode::INTERNAL_SERVER_ERROR, host_failed().message))
    }

    /// Listens to a session of the older revisions, or ends it and the calls that wait in it.
    async fn mcp_session(&self, parts: Parts) -> Answered {
        let stream = match parts.method {
            Method::GET => Some(self.bounds.stream().await?),
            _ => None,
        };
        let is_deleted = parts.method == Method::DELETE;
        let used = self.take_up(&parts.headers).await;
        // rmcp says of any session that it has ended.
        if is_deleted && used.is_none() && session_id(&parts.headers).is_some() {
            return Err(Denied::new(StatusCode::NOT_FOUND, "there is no such session"));
        }
        let request = http::Request::from_parts(parts, Full::new(Bytes::new()));
        let response = match used.as_ref().and_then(|used| Some((used, resumed(&request)?))) {
            Some((used, last)) => match used.missed(last) {
                Some(answer) => event_stream(stream::iter([answer])),
                None => {
                    let used = used.clone();
                    self.kept(request, move |it| used.keep(it)).await?
                }
            },
            None => self.service.handle(request).await,
        };
        if let (Some(used), true) = (&used, is_deleted && response.status().is_success()) {
            used.end().0.cancel();
        }
        Ok(until_sent(self.ending(response), (stream, used)))
    }

    /// Uses the session that a request names, where there is one.
    async fn take_up(&self, headers: &HeaderMap) -> Option<Used> {
        self.sessions.take_up(session_id(headers)?).await
    }

    async fn claw(&self, asked: ReadRequest, permit: &Permit) -> Answered {
        let (parts, body) = asked;
        match parts.method {
            Method::POST => match message::read(&body) {
                Err(refusal) => Ok(refused(StatusCode::BAD_REQUEST, &refusal)),
                Ok(incoming) => self.claws.post(&parts.headers, incoming, permit).await,
            },
            Method::GET => {
                let stream = self.bounds.stream().await?;
                let response = self.claws.listen(&parts.headers)?;
                Ok(until_sent(self.ending(response), stream))
            }
            Method::DELETE => self.claws.delete(&parts.headers),
            _ => Err(Denied::method("GET, POST, DELETE")),
        }
    }

    /// A stream that tells a client of changes has no end of its own: it ends when the server does.
    fn ending(&self, response: Response<Body>) -> Response<Body> {
        let end = self.shutdown.clone().cancelled_owned();
        response.map(|body| Body::new(StreamBody::new(BodyStream::new(body).take_until(end))))
    }

    async fn check_sessions(&self) -> Result<(), Denied> {
        if self.sessions.make_room(HTTP_SESSIONS_MAX).await < HTTP_SESSIONS_MAX {
            return Ok(());
        }
        let text = format!("this agent has {HTTP_SESSIONS_MAX} sessions in use; end one first");
        Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, text))
    }
}

fn up(seat: &Arc<Seat>) -> Answered {
    let up = answer_json(StatusCode::OK, r#"{"status":"ok"}"#);
    Ok(until_sent(up, busy(seat, Room::Urgent)?))
}

/// Returns what a client had last of the answer to a request that it comes back for.
fn resumed<B>(request: &http::Request<B>) -> Option<EventId> {
    let last = request.headers().get(LAST_EVENT).filter(|_| request.method() == Method::GET)?;
    EventId::read(last.to_str().ok()?)
}

/// What was checked is what is passed on, not the bytes it came as.
fn posted(parts: Parts, incoming: Incoming) -> http::Request<Full<Bytes>> {
    http::Request::from_parts(parts, Full::new(Bytes::from(incoming.into_value().to_string())))
}

fn id_taken(id: &RequestId) -> Fault {
    let text =
        "a request with this id is under way in this session; give each request an id of its own";
    Fault::new(INVALID_REQUEST, text).to(id.clone())
}

fn not_the_operator() -> Denied {
    Denied::new(StatusCode::FORBIDDEN, "this is for the operator, and an agent is not")
}

/// The header by which a client says where its stream broke off.
const LAST_EVENT: &str = "last-event-id";
/// The header by which the older revisions name a session.
pub(super) const MCP_SESSION: &str = "mcp-session-id";

pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(MCP_SESSION)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use http::HeaderValue;
    use serde_json::{Value, json};
    use tokio::time::timeout;

    use super::*;
    use crate::serve::fake::{Fake, calling, handshake, ready};

    async fn say(
        agent: &Agent<Fake>,
        session: Option<&HeaderValue>,
        message: Value,
    ) -> Response<Body> {
        let mut request = http::Request::post("http://127.0.0.1/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header(MCP_SESSION, session);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let incoming = message::read(message.to_string().as_bytes()).unwrap();
        let permit = agent.bounds.request().await.unwrap();
        agent.pass_on(parts, incoming, &permit).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_a_session_is_seen_through_whoever_hangs_up() {
        let host = Fake::new();
        let agent = Agent::new("default", &host, &CancellationToken::new(), &<(_, _)>::default());
        let opened = say(&agent, None, handshake(json!({}))).await;
        let session = opened.headers().get(MCP_SESSION);
        assert_eq!(say(&agent, session, ready()).await.status(), StatusCode::ACCEPTED);
        let slow = calling(1, "slow", &json!({}));
        // The client is gone as soon as it has sent this.
        assert!(say(&agent, session, slow.clone()).now_or_never().is_none());
        timeout(Duration::from_secs(60), host.started(1)).await.expect("it is passed on");
        // Until it is answered, its id is that of no other.
        assert_eq!(say(&agent, session, slow).await.status(), StatusCode::BAD_REQUEST);
    }
}
