//! One connection to a server in one dialect, whatever it runs over.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::limits::{BRIDGE_REQUESTS_MAX, QUESTION_ANSWER_MS};
use http::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout_at;

use super::failure::Failure;
use super::message;
use super::pipe::Pipe;
use super::questions::brought;
use super::waiting::Outcome;
use super::web::Web;
use crate::dialogue::{Asks, Caller};

/// The newest revision of the protocol.
pub(super) const MODERN: &str = "2026-07-28";

/// What a subscription asks to be told of.
const LISTENS_TO: &str = r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;

/// What a server and this host agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// 2025-11-25 and older: a session begins with `initialize`.
    Legacy,
    /// 2026-07-28: every request says who asks.
    Modern,
}

/// What the messages travel over.
#[derive(Debug)]
pub(super) enum Wire {
    /// A program.
    Pipe(Pipe),
    /// An HTTP server.
    Web(Arc<Web>),
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct ServerSession {
    pub(super) wire: Wire,
    /// Known once the two have met.
    pub(super) era: OnceLock<Era>,
    /// What a server of an older revision answered to `initialize`.
    pub(super) met: OnceLock<Value>,
    /// What the server can ask for, in MCP's words.
    pub(super) can: Value,
    ids: AtomicU64,
    places: Semaphore,
}

/// One request.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    /// The members of its parameters as JSON, without braces.
    pub(super) params: String,
    /// Headers that repeat parts of it, where it goes over HTTP.
    pub(super) headers: HeaderMap,
    pub(super) deadline: Instant,
    pub(super) caller: Caller,
}

impl Ask {
    /// Asks `method`, without parameters, for an answer by `deadline`.
    pub(super) fn new(method: &'static str, deadline: Instant) -> Self {
        Self {
            method,
            params: String::new(),
            headers: HeaderMap::new(),
            deadline,
            caller: Caller::default(),
        }
    }
}

impl ServerSession {
    pub(super) fn new(wire: Wire, can: Value) -> Self {
        let (ids, places) = (AtomicU64::new(1), Semaphore::new(BRIDGE_REQUESTS_MAX));
        Self { wire, era: OnceLock::new(), met: OnceLock::new(), can, ids, places }
    }

    /// Asks in the dialect that was agreed on.
    pub(super) async fn ask(&self, ask: Ask) -> Outcome {
        self.ask_in(self.era.get().copied().unwrap_or(Era::Legacy), ask).await
    }

    /// Asks in the dialect of `era`.
    pub(super) async fn ask_in(&self, era: Era, mut ask: Ask) -> Outcome {
        let (_place, id) = self.place()?;
        let dialogue = ask.caller.dialogue.as_deref().filter(|_| era == Era::Modern);
        let token = ask.caller.progress.as_ref().map(|_| id);
        let params = with_meta(&brought(&ask.params, dialogue), meta(era, token, &ask.caller));
        let line = message::request(id, ask.method, &params);
        let (until, asks) = (ask.deadline, ask.caller.asks());
        if asks.is_some() {
            ask.deadline += Duration::from_millis(QUESTION_ANSWER_MS);
        }
        let answer = async {
            match &self.wire {
                Wire::Pipe(pipe) => {
                    let may_cancel = !matches!(ask.method, "initialize" | "server/discover");
                    pipe.ask(id, line, may_cancel, ask.caller).await
                }
                Wire::Web(web) => web.ask(id, line, era, ask).await,
            }
        };
        within(until, asks.as_deref(), answer).await?
    }

    /// Takes the right to one more request, and its id. The number behind that is free for what is asked where
    /// the request is given up.
    pub(super) fn place(&self) -> Result<(SemaphorePermit<'_>, u64), Failure> {
        let place = self.places.try_acquire().map_err(|_| Failure::Busy)?;
        Ok((place, self.ids.fetch_add(2, Ordering::Relaxed)))
    }

    /// Tells the server something that has no answer.
    pub(super) async fn tell(&self, method: &str, deadline: Instant) -> Result<(), Failure> {
        let line = message::notification(method, "");
        let told = async {
            match &self.wire {
                Wire::Pipe(pipe) => pipe.tell(line).await,
                Wire::Web(web) => web.tell(line, deadline).await,
            }
        };
        timeout_at(deadline.into(), told).await.map_err(|_| Failure::Timeout)?
    }

    /// Asks a program of the newest revision to say when its lists change. Nobody waits for the
    /// answer, which comes when the subscription ends.
    pub(super) async fn listen(&self) -> Result<(), Failure> {
        let (Wire::Pipe(pipe), Some(Era::Modern)) = (&self.wire, self.era.get()) else {
            return Ok(());
        };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let params = with_meta(LISTENS_TO, meta(Era::Modern, None, &Caller::default()));
        pipe.tell(message::request(id, "subscriptions/listen", &params)).await
    }
}

/// Waits for `work` until then, and as much longer as the client is waited for meanwhile.
pub(super) async fn within<T>(
    until: Instant,
    asks: Option<&Asks>,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    let Some(asks) = asks else {
        return timeout_at(until.into(), work).await.map_err(|_| Failure::Timeout);
    };
    let (before, mut end) = (asks.waited().await, until);
    loop {
        if let Ok(done) = timeout_at(end.into(), &mut work).await {
            return Ok(done);
        }
        let waited = tokio::select! {
            done = &mut work => return Ok(done),
            waited = asks.waited() => waited,
        };
        let later = until + waited.saturating_sub(before);
        if later <= end {
            return Err(Failure::Timeout);
        }
        end = later;
    }
}

/// Returns who this host says it is.
pub(super) fn client_info() -> Value {
    json!({"name": "clawhost", "version": env!("CARGO_PKG_VERSION")})
}

/// Returns the `_meta` of a request; a progress token is the request's own id.
fn meta(era: Era, token: Option<u64>, caller: &Caller) -> Map<String, Value> {
    let mut meta = Map::new();
    if era == Era::Modern {
        let name = |key| format!("io.modelcontextprotocol/{key}");
        meta.insert(name("protocolVersion"), MODERN.into());
        let client = caller.dialogue.as_ref();
        let can = client.map(|client| client.capabilities.clone()).unwrap_or_default();
        meta.insert(name("clientCapabilities"), Value::Object(can));
        meta.insert(name("clientInfo"), client_info());
    }
    if let Some(token) = token {
        meta.insert("progressToken".to_owned(), token.into());
    }
    if let Some(trace) = &caller.trace {
        meta.insert("traceparent".to_owned(), trace.as_str().into());
    }
    meta
}

fn with_meta(params: &str, meta: Map<String, Value>) -> String {
    if meta.is_empty() {
        return params.to_owned();
    }
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{params}{comma}"_meta":{}"#, Value::Object(meta))
}

#[cfg(test)]
mod tests {
    use tokio::time::{self, sleep};

    use super::*;
    use crate::dialogue::Dialogue;

    #[tokio::test(start_paused = true)]
    async fn a_calls_clock_stands_still_while_its_client_is_asked() {
        let second = Duration::from_secs(1);
        let dialogue = |asks: &Arc<Asks>| {
            let capabilities = Map::from_iter([("roots".to_owned(), json!({}))]);
            Dialogue { capabilities, asks: Some(Arc::clone(asks)), ..Dialogue::default() }
        };
        for (works, ends) in [(second / 2, true), (second * 2, false)] {
            let asks = Arc::new(Asks::default());
            asks.cleaned_by(Some, Some);
            let dialogue = dialogue(&asks);
            let work = async {
                let asked = dialogue.ask(json!({"q": {"method": "roots/list"}})).await;
                assert_eq!(asked, Some(json!({})));
                sleep(works).await;
            };
            let client = async {
                let mut now = asks.now();
                let asked = now.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                sleep(second * 60).await;
                asked.answer(Some(json!({})));
            };
            let until = time::Instant::now().into_std() + second;
            let (done, ()) = tokio::join!(within(until, Some(&*asks), work), client);
            assert_eq!(done.is_ok(), ends);
        }
        let until = time::Instant::now().into_std() + second;
        assert_eq!(within(until, None, sleep(second * 2)).await, Err(Failure::Timeout));
    }
}
