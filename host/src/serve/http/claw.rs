//! `/claw`: the Claw Kernel Protocol over HTTP, one message a request.
//!
//! A session begins with a `claw.initialize` that carries no `Claw-Session` header; the answer
//! carries it, and every later request has to. `GET` with the header streams what the session says
//! unasked, to one listener at a time; `DELETE` ends it. An idle session ends by itself. Each agent
//! has sessions of its own. The operator's credential begins none: it says `claw.tool.approve`,
//! `claw.tool.deny` and `claw.status`.
//!
//! An answer of the protocol has status 200, be it an error; a message that none of its sessions
//! could read has 400, and an unknown session 404.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{CLAW_NOTICES_MAX, CLAW_SESSION_IDLE_MS, CLAW_SESSIONS_MAX};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::admission::Permit;
use super::body::{accepted, answer_json, event, event_stream, read_body, refused, require_json};
use super::guard::{Answered, Denied};
use super::routes::{Body, Request};
use crate::clock::whole_ms;
use crate::host::Principal;
use crate::random;
use crate::serve::calls::{Calls, host_failed};
use crate::serve::ckp::{self, Answer, Authority, ClawSession, Notice};
use crate::serve::message::{self, Fault, Incoming, METHOD_NOT_FOUND, Outcome};
use crate::telemetry::TraceParent;

const SESSION_HEADER: &str = "claw-session";
/// Random bytes of a session's id: nobody guesses another's.
const SESSION_ID_BYTES: usize = 16;

/// The sessions of one agent.
pub(super) struct Sessions<C> {
    calls: C,
    principal: Principal,
    open: Mutex<BTreeMap<String, Open<C>>>,
}

struct Open<C> {
    session: ClawSession<C>,
    /// What it says unasked; locked by who listens. What nobody listened to is not sent again.
    notices: Notices,
    used: Instant,
}

/// The notifications of one session, for one listener after the other.
type Notices = Arc<tokio::sync::Mutex<mpsc::Receiver<Notice>>>;

impl<C: Calls> Open<C> {
    fn is_idle(&self) -> bool {
        let listened = self.notices.try_lock().is_err();
        let idle = self.used.elapsed() >= Duration::from_millis(CLAW_SESSION_IDLE_MS);
        idle && !listened && !self.session.is_busy()
    }
}

impl<C: Calls> Sessions<C> {
    pub(super) fn new(calls: C, principal: Principal) -> Self {
        Self { calls, principal, open: Mutex::default() }
    }

    pub(super) async fn post(
        &self,
        headers: &HeaderMap,
        incoming: Incoming,
        permit: &Permit,
    ) -> Answered {
        let id = session_id(headers)?;
        match incoming {
            Incoming::Reply { .. } => Ok(accepted()),
            Incoming::Notification { method, value } => {
                if let Some(id) = id {
                    self.find(id)?.notification(&method, value.get("params"));
                }
                Ok(accepted())
            }
            Incoming::Request { id: request, method, .. } if !message::is_ckp(&method) => {
                let fault =
                    Fault::new(METHOD_NOT_FOUND, "/claw serves claw.* methods; MCP is at /mcp");
                Ok(refused(StatusCode::NOT_FOUND, &fault.to(request)))
            }
            Incoming::Request { id: request, method, value } => {
                let params = value.get("params");
                match id {
                    Some(id) => {
                        let session = self.find(id)?.traced(TraceParent::of(headers));
                        let outcome = settled(&session, &method, params, permit).await;
                        Ok(answered(&request, outcome))
                    }
                    None => Ok(self.begin(&request, &method, params, permit).await),
                }
            }
        }
    }

    /// Streams what a session says unasked.
    pub(super) fn listen(&self, headers: &HeaderMap) -> Answered {
        let Some(id) = session_id(headers)? else {
            return Err(Denied::new(StatusCode::BAD_REQUEST, "name the session in Claw-Session"));
        };
        self.find(id)?;
        let notices = self.open.lock().get(id).map(|open| Arc::clone(&open.notices));
        let notices =
            notices.and_then(|notices| notices.try_lock_owned().ok()).ok_or_else(|| {
                Denied::new(StatusCode::CONFLICT, "somebody listens to this session already")
            })?;
        // Whoever lost its connection can listen again.
        Ok(event_stream(stream::unfold(notices, |mut notices| async {
            let notice = notices.recv().await?;
            Some((event(&notice.text), notices))
        })))
    }

    pub(super) fn delete(&self, headers: &HeaderMap) -> Answered {
        let id = session_id(headers)?.unwrap_or_default();
        let open = self.open.lock().remove(id).ok_or_else(unknown)?;
        open.session.end();
        Ok(answer_json(StatusCode::NO_CONTENT, ""))
    }

    pub(super) fn end(&self) {
        std::mem::take(&mut *self.open.lock()).into_values().for_each(|open| open.session.end());
    }

    /// Answers a request without a session as a session would that has not begun, and keeps it
    /// where the request began it.
    async fn begin(
        &self,
        request: &RequestId,
        method: &str,
        params: Option<&Value>,
        permit: &Permit,
    ) -> Response<Body> {
        let (notices, unasked) = mpsc::channel(CLAW_NOTICES_MAX);
        let principal = self.principal.clone();
        let session = ClawSession::new(self.calls.clone(), principal, Authority::Agent, notices);
        // What one that nobody uses has to do is for the one that begins.
        self.open.lock().retain(|_, open| !open.is_idle());
        let outcome = settled(&session, method, params, permit).await;
        if !session.has_begun() {
            return answered(request, outcome);
        }
        match self.keep(session, Arc::new(tokio::sync::Mutex::new(unasked))) {
            Err(error) => answered(request, Err(Fault::from(error))),
            Ok(id) => {
                let mut response = answered(request, outcome);
                if let Ok(id) = HeaderValue::try_from(id) {
                    response.headers_mut().insert(SESSION_HEADER, id);
                }
                response
            }
        }
    }

    /// Keeps a session that has begun, if there is room.
    fn keep(&self, session: ClawSession<C>, notices: Notices) -> Result<String, CallError> {
        let id = random::hex::<SESSION_ID_BYTES>()?;
        let mut all = self.open.lock();
        all.retain(|_, open| !open.is_idle());
        if all.len() >= CLAW_SESSIONS_MAX {
            forget_stopped(&mut all);
        }
        if all.len() >= CLAW_SESSIONS_MAX {
            let text = format!("this agent has {CLAW_SESSIONS_MAX} sessions open; end one first");
            let error = CallError::new(ErrorKind::Overloaded, text);
            return Err(error.with("stage", "session").with_limit(Limit::ClawSessions));
        }
        all.insert(id.clone(), Open { session, notices, used: Instant::now() });
        Ok(id)
    }

    fn find(&self, id: &str) -> Result<ClawSession<C>, Denied> {
        let mut all = self.open.lock();
        all.retain(|_, open| !open.is_idle());
        let open = all.get_mut(id).ok_or_else(unknown)?;
        open.used = Instant::now();
        Ok(open.session.clone())
    }
}

/// Gives up the stopped session that was used longest ago: one can be begun again as long as there
/// is room for it.
fn forget_stopped<C: Calls>(all: &mut BTreeMap<String, Open<C>>) {
    let stopped = all.iter().filter(|(_, open)| open.session.has_stopped());
    if let Some(id) = stopped.min_by_key(|(_, open)| open.used).map(|(id, _)| id.clone()) {
        all.remove(&id);
    }
}

/// Answers a message of the operator, who has no session, `started` being when the server began.
pub(super) async fn operator<C: Calls>(calls: &C, started: Instant, request: Request) -> Answered {
    if request.method() != Method::POST {
        return Err(Denied::method("POST"));
    }
    require_json(request.headers())?;
    let (id, method, value) = match message::read(&read_body(request.into_body()).await?) {
        Err(refusal) => return Ok(refused(StatusCode::BAD_REQUEST, &refusal)),
        Ok(Incoming::Reply { .. } | Incoming::Notification { .. }) => return Ok(accepted()),
        Ok(Incoming::Request { id, method, value }) => (id, method, value),
    };
    let outcome = match method.as_str() {
        "claw.status" => Ok(json!({"state": "READY", "uptime_ms": whole_ms(started.elapsed())})),
        "claw.tool.approve" => ckp::operator(calls, value.get("params"), true).await,
        "claw.tool.deny" => ckp::operator(calls, value.get("params"), false).await,
        _ => {
            let text = "the operator decides about calls and makes none: claw.tool.approve, \
                        claw.tool.deny and claw.status are served";
            Err(Fault::new(METHOD_NOT_FOUND, text))
        }
    };
    Ok(answered(&id, outcome))
}

/// Carries out one request to its end, also where its client no longer waits. So long it counts among those of its
/// agent.
async fn settled<C: Calls>(
    session: &ClawSession<C>,
    method: &str,
    params: Option<&Value>,
    permit: &Permit,
) -> Outcome {
    let work = match session.request(method, params) {
        Answer::Now(outcome) => return outcome,
        Answer::Later(work) => work,
    };
    let permit = Arc::clone(permit);
    let carried_out = tokio::spawn(async move {
        let _permit = permit;
        work.await
    });
    carried_out.await.map_or_else(|_| Err(host_failed().into()), |(outcome, _)| outcome)
}

fn session_id(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
    headers.get(SESSION_HEADER).map(|id| id.to_str().map_err(|_| unknown())).transpose()
}

fn unknown() -> Denied {
    let text = "there is no such session: begin one with claw.initialize and without Claw-Session";
    Denied::new(StatusCode::NOT_FOUND, text)
}

fn answered(id: &RequestId, outcome: Outcome) -> Response<Body> {
    answer_json(StatusCode::OK, message::line(id, outcome))
}
