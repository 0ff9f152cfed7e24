//! One request: what is said of it before its answer (how far it is, what the server asks its client), and that.
//!
//! It goes to whoever sent the request, as events of the same answer (MCP, streamable HTTP); where there is nothing
//! of it, or the client takes no events, the answer is plain JSON. A question ends with its request at the latest.
//! Where the server has not answered, a [`Refusal`] says so.
//!
//! Deliberately absent: deciding whether the server may ask, which is the operator's.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::WRAP_SAID_MAX;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::ACCEPT;
use http::{HeaderMap, Response, StatusCode};
use rmcp::model::{ClientCapabilities, ProgressNotificationParam, ProgressToken, RequestId};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::super::body::{accepted, answer_json, event, event_stream};
use super::super::routes::Body;
use super::sessions::Sessions;
use crate::dialogue::{Asks, Caller};
use crate::progress::ProgressSink;
use crate::serve::message::{Fault, notice};
use crate::serve::progress::is_token;
use crate::serve::waiting::open;
use crate::serve::{message, questions};
use crate::upstream::mcp::{NoResult, PROGRESS_TOKEN, ProgramLife};

/// A request under way; dropped, it is none any longer.
pub(super) struct Asking {
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: String,
    pub(super) id: RequestId,
    pub(super) life: ProgramLife,
    /// It hears what is said before the answer, too.
    pub(super) takes_events: bool,
    pub(super) can: Option<ClientCapabilities>,
    pub(super) cancelled: CancellationToken,
    pub(super) _place: OwnedSemaphorePermit,
}

/// What is said of one request; the answer is the last of it.
pub(super) enum Said {
    Before(Value),
    Answer(Answer),
}

/// An answer as one line of JSON, and its status where nothing is said before.
pub(super) struct Answer {
    status: StatusCode,
    line: Vec<u8>,
}

impl Answer {
    pub(super) fn new(status: StatusCode, line: Vec<u8>) -> Self {
        Self { status, line }
    }
}

impl From<Answer> for Response<Body> {
    fn from(answer: Answer) -> Self {
        answer_json(answer.status, answer.line)
    }
}

/// No such session, or none any longer.
const UNKNOWN_SESSION: i32 = -32_001;
pub(super) const NO_SESSION: &str = "there is no such session";
/// The server is not there, or does not answer.
pub(super) const SILENT: i32 = -32_000;

/// Why a request has no answer of the server: the status, the code and the words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) i32, pub(super) &'static str);

impl Refusal {
    pub(super) fn of(self, id: RequestId) -> Answer {
        Answer::new(self.0, Fault::new(self.1, self.2).to(id).to_line())
    }
}

impl From<&NoResult> for Refusal {
    fn from(why: &NoResult) -> Self {
        match why {
            NoResult::Over => Self(StatusCode::NOT_FOUND, UNKNOWN_SESSION, NO_SESSION),
            NoResult::Silent(text) => Self(StatusCode::SERVICE_UNAVAILABLE, SILENT, text),
            NoResult::Error(_) => {
                Self(StatusCode::SERVICE_UNAVAILABLE, SILENT, "the server does not begin")
            }
        }
    }
}

pub(super) type Way = mpsc::Sender<Said>;

/// Returns where something is said, and where it is heard.
pub(super) fn way() -> (Way, mpsc::Receiver<Said>) {
    mpsc::channel(WRAP_SAID_MAX)
}

/// Returns what is heard as the answer to a request: nothing of one that was cancelled.
pub(super) async fn heard(mut said: mpsc::Receiver<Said>) -> Response<Body> {
    match said.recv().await {
        Some(Said::Before(first)) => event_stream(events(Said::Before(first), said)),
        Some(Said::Answer(answer)) => answer.into(),
        None => accepted(),
    }
}

fn events(
    first: Said,
    said: mpsc::Receiver<Said>,
) -> impl Stream<Item = Bytes> + Send + Sync + 'static {
    let rest = stream::unfold(said, |mut said| async { Some((said.recv().await?, said)) });
    stream::iter([first]).chain(rest).map(|said| match said {
        Said::Before(message) => event(&message),
        Said::Answer(answer) => event(&String::from_utf8_lossy(&answer.line)),
    })
}

/// Says whether a client takes more than the answer itself.
pub(super) fn takes_events(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    all.any(|kinds| kinds.contains("text/event-stream"))
}

impl Asking {
    /// Returns who hears of the request while it is under way, on `way`.
    pub(super) fn caller(&self, params: Option<&Value>, way: &Way) -> Caller {
        let token = params.filter(|_| self.takes_events);
        let token = token.and_then(|params| params.pointer(PROGRESS_TOKEN)).cloned();
        let token = token.and_then(|token| serde_json::from_value(token).ok()).filter(is_token);
        let dialogue = questions::dialogue(self.can.as_ref());
        Caller {
            progress: token.map(|token| progress(token, way.clone())),
            dialogue: Some(Arc::new(dialogue)),
            ..Caller::default()
        }
    }

    /// Passes on what the server asks, one thing after the other, and what the client answers.
    pub(super) async fn questions(&self, asks: Option<Arc<Asks>>, way: &Way) -> Infallible {
        let mut asks = asks.map(|asks| asks.now());
        loop {
            let asked = open(&mut asks).await;
            let answered = match asked.requests.as_object().and_then(|all| all.iter().next()) {
                Some((name, request)) => {
                    let result = self.asked(request.clone(), way).await;
                    result.map(|result| json!({ name.as_str(): result }))
                }
                None => None,
            };
            asked.answer(answered);
        }
    }

    async fn asked(&self, mut request: Value, way: &Way) -> Option<Value> {
        let (sender, answered) = oneshot::channel();
        let id = self.sessions.lock().get_mut(&self.session)?.question(sender);
        let members = request.as_object_mut()?;
        members.extend([("jsonrpc".to_owned(), json!("2.0")), ("id".to_owned(), json!(id))]);
        way.send(Said::Before(request)).await.ok()?;
        answered.await.ok()
    }

    pub(super) fn answer(&self, outcome: Result<Value, NoResult>) -> Answer {
        let id = &self.id;
        match outcome {
            Ok(result) => Answer::new(StatusCode::OK, message::line(id, Ok(result))),
            Err(NoResult::Error(error)) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                Answer::new(StatusCode::OK, answer.to_string().into())
            }
            Err(why) => Refusal::from(&why).of(id.clone()),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.lock().get_mut(&self.session) {
            session.asked.remove(&self.id);
        }
    }
}

/// Reports to the client that gave `token`. One that does not read misses a report.
fn progress(token: ProgressToken, way: Way) -> ProgressSink {
    Arc::new(move |done, total, message| {
        let mut params = ProgressNotificationParam::new(token.clone(), done);
        (params.total, params.message) = (total, message);
        drop(way.try_send(Said::Before(notice("notifications/progress", &params))));
    })
}
