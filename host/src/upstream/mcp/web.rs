//! A server behind HTTP: a request of its own for each message, the answer as JSON or as a stream
//! of events.
//!
//! It goes out through the one checked way, to the one server that the operator named; a redirect
//! is not followed, so no credential reaches another. Deliberately absent: what a server says
//! unasked, by the older stream or by `subscriptions/listen` (its tools are looked at from time to
//! time instead), and resuming an answer that broke off.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{self, EgressRules};
use clawhost_core::limits::{
    BRIDGE_CANCELS_MAX, BRIDGE_MESSAGE_BYTES_MAX, BRIDGE_TOKEN_BYTES_MAX, BRIDGE_UNASKED_BYTES_MAX,
    GUEST_LOG_LINE_BYTES_MAX, POST_ANSWER_BYTES_MAX,
};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout_at;

use super::failure::Failure;
use super::message::{self, Said};
use super::questions::Granted;
use super::session::{Ask, Era, MODERN};
use super::waiting::{Outcome, report};
use crate::dialogue::Caller;
use crate::progress::Progress;
use crate::secrets::Secrets;
use crate::sse::Events;
use crate::upstream::http::{
    CheckedRequest, HttpClient, RequestLimits, ResponseBody, UpstreamError, is_of,
};
use crate::upstream::oauth::{Tokens, challenged};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Time to say that nobody waits any longer: that of the call may be over, or last for long.
const TELL: Duration = Duration::from_secs(1);
const NOT_TAKEN: &str = "it does not take the token that its issuer has just given";

/// The way to one HTTP server.
#[derive(Debug)]
pub(super) struct Web {
    client: HttpClient,
    granted: Option<Granted>,
    secrets: Secrets,
    rules: Arc<EgressRules>,
    url: String,
    /// What the operator wants sent with each request.
    headers: HeaderMap,
    /// The token that goes with each request.
    tokens: Option<Arc<Tokens>>,
    /// The older revision that was agreed on.
    version: OnceLock<&'static str>,
    /// The session that the server began.
    session: OnceLock<HeaderValue>,
    /// How often at once the server is told that nobody waits any longer.
    cancels: Arc<Semaphore>,
    /// Is told when the server has forgotten the session.
    pub(super) lost: Notify,
}

impl Web {
    /// Returns the way to `url`, as far as that lies within these rules as well.
    pub(super) fn open(
        client: HttpClient,
        (secrets, granted): (Secrets, Option<Granted>),
        (url, within): (&str, Option<&EgressRules>),
        headers: HeaderMap,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<Self, Failure> {
        let rules = egress::endpoint(url).map_err(|error| Failure::Gone(error.internal()))?;
        let rules = match within {
            Some(within) => rules.within(within),
            None => rules,
        };
        Ok(Self {
            client,
            granted,
            secrets,
            rules: Arc::new(rules),
            url: url.to_owned(),
            headers,
            tokens,
            version: OnceLock::new(),
            session: OnceLock::new(),
            cancels: Arc::new(Semaphore::new(BRIDGE_CANCELS_MAX)),
            lost: Notify::new(),
        })
    }

    /// Says from now on which older revision was agreed on.
    pub(super) fn agreed(&self, version: &'static str) {
        // It is agreed on once.
        let _ = self.version.set(version);
    }

    /// Sends a request and waits for its answer. Dropping it closes the connection, and tells a
    /// server of an older revision, to which that says nothing.
    pub(super) async fn ask(
        self: &Arc<Self>,
        id: u64,
        line: String,
        era: Era,
        ask: Ask,
    ) -> Outcome {
        let may_cancel = era == Era::Legacy && ask.method != "initialize";
        let mut cancel = Cancel { web: self, id: may_cancel.then_some(id) };
        let outcome = self.exchange(id, line, era, ask).await;
        if outcome != Err(Failure::Timeout) {
            cancel.id = None;
        }
        outcome
    }

    async fn exchange(&self, id: u64, line: String, era: Era, ask: Ask) -> Outcome {
        let headers = self.headers_of(era, &ask);
        let Ask { method, deadline, caller, .. } = ask;
        let answer = self.post(line, headers, deadline, BRIDGE_UNASKED_BYTES_MAX).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refusal(status, answer).await);
        }
        if method == "initialize" {
            self.begin(answer.headers());
        }
        if is_of(answer.headers(), JSON) {
            whole(id, answer).await
        } else if is_of(answer.headers(), EVENTS) {
            self.events(id, answer, deadline, caller).await
        } else {
            Err(Failure::Wrong("it answers neither JSON nor events".to_owned()))
        }
    }

    /// Tells the server something that has no answer.
    pub(super) async fn tell(&self, line: String, deadline: Instant) -> Result<(), Failure> {
        let headers = self.session_headers();
        let answer = self.post(line, headers, deadline, POST_ANSWER_BYTES_MAX).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(Failure::Status(status.as_u16())),
        }
    }

    /// Ends the session that the server began, if it did, for which it keeps something. It need not let anybody do
    /// so, and is not waited for longer than [`TELL`] (MCP 2025-06-18, "Session Management").
    pub(super) async fn leave(&self) {
        if self.session.get().is_none() {
            return;
        }
        let deadline = Instant::now() + TELL;
        let leave = (Method::DELETE, String::new());
        let left = self.send(leave, self.session_headers(), deadline, POST_ANSWER_BYTES_MAX);
        drop(timeout_at(deadline.into(), left).await);
    }

    async fn post(
        &self,
        line: String,
        headers: HeaderMap,
        deadline: Instant,
        body_bytes_max: u64,
    ) -> Result<Response<ResponseBody>, Failure> {
        self.send((Method::POST, line), headers, deadline, body_bytes_max).await
    }

    /// Sends a message, and once more with another token where the first is not taken.
    async fn send(
        &self,
        message: (Method, String),
        mut headers: HeaderMap,
        deadline: Instant,
        body_bytes_max: u64,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Some(tokens) = &self.tokens else {
            return self.send_once(message, headers, deadline, body_bytes_max).await;
        };
        let token = tokens.header(None).await?;
        headers.insert(AUTHORIZATION, token.clone());
        let answer =
            self.send_once(message.clone(), headers.clone(), deadline, body_bytes_max).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let another = tokens.header(Some(&token)).await?;
        headers.insert(AUTHORIZATION, another);
        let answer = self.send_once(message, headers, deadline, body_bytes_max).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            tokens.fail(NOT_TAKEN).await;
            return Err(Failure::Gone(NOT_TAKEN.to_owned()));
        }
        Ok(answer)
    }

    async fn send_once(
        &self,
        (method, line): (Method, String),
        headers: HeaderMap,
        deadline: Instant,
        body_bytes_max: u64,
    ) -> Result<Response<ResponseBody>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.url)
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_LENGTH, line.len())
            .body(Full::new(Bytes::from(line)))
            .map_err(|error| Failure::Gone(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().extend(headers);
        let checked = CheckedRequest::new(Arc::clone(&self.rules), request)
            .map_err(|error| Failure::Gone(error.internal()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let mut limits = RequestLimits::until(deadline);
        // A tool takes its time, and its call has a deadline.
        (limits.first_byte, limits.between_bytes) = (left, left);
        limits.body_bytes_max = body_bytes_max;
        Ok(self.client.for_call().send(checked, &limits).await?)
    }

    fn headers_of(&self, era: Era, ask: &Ask) -> HeaderMap {
        if era == Era::Legacy {
            return self.session_headers();
        }
        let mut headers = ask.headers.clone();
        headers.insert(VERSION, HeaderValue::from_static(MODERN));
        headers.insert(METHOD, HeaderValue::from_static(ask.method));
        headers
    }

    /// Returns what an older revision wants with each message after the first.
    fn session_headers(&self) -> HeaderMap {
        let version =
            self.version.get().map(|version| (VERSION, HeaderValue::from_static(version)));
        let session = self.session.get().map(|session| (SESSION, session.clone()));
        version.into_iter().chain(session).collect()
    }

    /// Remembers the session that an answer to `initialize` begins.
    fn begin(&self, headers: &HeaderMap) {
        let session = headers.get(SESSION).filter(|id| id.len() <= BRIDGE_TOKEN_BYTES_MAX);
        if let Some(session) = session {
            let _ = self.session.set(session.clone());
        }
    }

    async fn refusal(&self, status: StatusCode, answer: Response<ResponseBody>) -> Failure {
        if status == StatusCode::NOT_FOUND && self.session.get().is_some() {
            self.lost.notify_one();
            return Failure::Gone("it has forgotten the session".to_owned());
        }
        let error = self.tokens.as_ref().and_then(|_| challenged(answer.headers(), "error"));
        if error.as_deref() == Some("insufficient_scope") {
            return Failure::Scope(challenged(answer.headers(), "scope").unwrap_or_default());
        }
        if !is_of(answer.headers(), JSON) {
            return Failure::Status(status.as_u16());
        }
        match Limited::new(answer.into_body(), BRIDGE_TOKEN_BYTES_MAX).collect().await {
            Ok(body) => refused(status, &body.to_bytes()),
            Err(_) => Failure::Status(status.as_u16()),
        }
    }

    /// Reads events until the answer comes.
    async fn events(
        &self,
        id: u64,
        answer: Response<ResponseBody>,
        deadline: Instant,
        mut caller: Caller,
    ) -> Outcome {
        let mut progress = caller.progress.take().map(Progress::new);
        let (mut body, mut events) = (answer.into_body(), Events::default());
        while let Some(frame) = body.frame().await {
            let data = frame?.into_data().unwrap_or_default();
            let mut data = data.as_ref();
            while let Some(event) = events.next(&mut data, BRIDGE_MESSAGE_BYTES_MAX) {
                if event.len() > BRIDGE_MESSAGE_BYTES_MAX {
                    return Err(Failure::too_long());
                }
                match message::read(&event) {
                    Said::Answer(answered, outcome) if answered == id => return outcome,
                    said => self.hear(id, said, deadline, &caller, progress.as_mut()).await,
                }
            }
            if events.is_too_long(BRIDGE_MESSAGE_BYTES_MAX) {
                return Err(Failure::too_long());
            }
        }
        Err(Failure::Gone("its answer broke off".to_owned()))
    }

    /// Takes what is said before the answer.
    async fn hear(
        &self,
        id: u64,
        said: Said,
        deadline: Instant,
        caller: &Caller,
        progress: Option<&mut Progress>,
    ) {
        match said {
            Said::Asks { id, method, params } => {
                let asks = (&id, method.as_str(), params);
                let answer = Granted::answer(self.granted.as_ref(), asks, Ok(caller)).await;
                // Whether it reads that is its own affair.
                drop(self.tell(answer, deadline).await);
            }
            Said::Tells { method, params } if method == "notifications/progress" => {
                let is_ours = params.get("progressToken").and_then(Value::as_u64) == Some(id);
                let clean = |text: &str| self.secrets.short(text, GUEST_LOG_LINE_BYTES_MAX);
                if let Some(progress) = progress.filter(|_| is_ours) {
                    report(progress, &params, clean);
                }
            }
            _ => {}
        }
    }
}

/// Reads an answer that is one message.
async fn whole(id: u64, answer: Response<ResponseBody>) -> Outcome {
    let limited = Limited::new(answer.into_body(), BRIDGE_MESSAGE_BYTES_MAX);
    let body = limited.collect().await.map_err(broken)?;
    match message::read(&body.to_bytes()) {
        Said::Answer(answered, outcome) if answered == id => outcome,
        _ => Err(Failure::Wrong("it answers something else".to_owned())),
    }
}

/// Returns why an answer could not be read to its end.
fn broken(error: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    if error.is::<LengthLimitError>() {
        return Failure::too_long();
    }
    let error = error.downcast::<UpstreamError>().map(|error| Failure::from(*error));
    error.unwrap_or_else(|other| Failure::Gone(other.to_string()))
}

/// Returns what a refusal with a body says; its id may be `null`, as it was given no other.
fn refused(status: StatusCode, body: &[u8]) -> Failure {
    let said = clawhost_core::json::parse(body).unwrap_or_default();
    match said.get("error").filter(|error| error.is_object()) {
        Some(error) => message::refusal(error),
        None => Failure::Status(status.as_u16()),
    }
}

/// Tells a server that nobody waits any longer, when it is dropped.
struct Cancel<'a> {
    web: &'a Arc<Web>,
    id: Option<u64>,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        // One that takes its time with these is told of no more: whoever gives up calls may do so fast.
        let Ok(place) = Arc::clone(&self.web.cancels).try_acquire_owned() else { return };
        let web = Arc::clone(self.web);
        let told = async move {
            let deadline = Instant::now() + TELL;
            let told = web.tell(message::cancelled(id), deadline);
            // With what comes before the request, a token.
            drop(timeout_at(deadline.into(), told).await);
            drop(place);
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(told);
        }
    }
}
