//! The replay window: a request that is sent again is answered again, and not run again.
//!
//! A request is known by its principal, its method and its own id. Whoever repeats one with the
//! same parameters gets the first answer, or waits for it where the request still runs; the same
//! id with other parameters is refused. A row is on disk before the work begins and the answer
//! before it leaves, so that neither a restart nor `kill -9` makes a request run twice: one that
//! was running when its host died has an outcome that nobody knows, and is answered so. So is one
//! that another host on the store still runs, which looks the same here.
//!
//! Every answer that was decided is kept, errors too. Only where an error's stage says that nothing
//! was carried out, for want of room or of a store, may the same request be tried again.
//!
//! Deliberately absent: MCP. Its ids number the messages of one connection and name no request.

mod table;

use std::collections::HashMap;
use std::sync::Arc;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::REPLAY_ID_BYTES_MAX;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::table::Known;
pub use self::table::MIGRATIONS;
use crate::clock::Clock;
use crate::state::Database;

/// What tells one request from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who asks. Two principals may use the same id.
    pub principal: String,
    /// What is asked for. One id may be used once with each method.
    pub method: &'static str,
    /// The caller's own name of the request, at most [`REPLAY_ID_BYTES_MAX`].
    pub request_id: String,
}

/// The requests that run or ran lately. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Replay(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    database: Database,
    clock: Clock,
    running: Mutex<HashMap<Key, Running>>,
}

type Answer = Result<Value, CallError>;
type Answering = Shared<BoxFuture<'static, Answer>>;

#[derive(Debug)]
struct Running {
    digest: String,
    answer: Answering,
    askers: Askers,
}

/// Those who asked for one request, each with what ends its interest: the work goes on until
/// nobody's is left.
#[derive(Debug, Clone, Default)]
struct Askers(Arc<Mutex<Vec<CancellationToken>>>);

impl Askers {
    fn add(&self, ended: CancellationToken) {
        self.0.lock().push(ended);
    }

    fn next(&self) -> Option<CancellationToken> {
        let mut askers = self.0.lock();
        askers.retain(|ended| !ended.is_cancelled());
        askers.first().cloned()
    }

    async fn gone(&self) {
        while let Some(ended) = self.next() {
            ended.cancelled().await;
        }
    }
}

impl Replay {
    /// Returns a window that is kept in `database`, which has to have [`MIGRATIONS`].
    pub(crate) fn new(database: Database, clock: Clock) -> Self {
        Self(Arc::new(Inner { database, clock, running: Mutex::default() }))
    }

    /// Answers the request `key`: by `work` where it is new, else with the answer it had or is
    /// about to have. `params_digest` is a digest of all its parameters.
    ///
    /// The work runs in a task of its own and goes on where the caller no longer waits, until
    /// `ended` is cancelled for everybody who asked for it. An answer is given again for at least [`clawhost_core::limits::REPLAY_WINDOW_MS`].
    ///
    /// # Errors
    /// Those of `work`, again each time. [`ErrorKind::InvalidArguments`]: the id was used with
    /// other parameters. [`ErrorKind::Overloaded`]: the principal's part of the window is full.
    /// [`ErrorKind::Internal`]: the outcome of the first request is not known, or the store
    /// cannot be used and nothing was run; [`ErrorKind::MemoryBackend`] where that was to store.
    pub async fn once(
        &self,
        key: Key,
        params_digest: &str,
        ended: CancellationToken,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        if key.request_id.len() > REPLAY_ID_BYTES_MAX {
            let reason = format!("the request's id has more than {REPLAY_ID_BYTES_MAX} bytes");
            return Err(CallError::new(ErrorKind::InvalidArguments, reason));
        }
        self.join_or_start(key, params_digest, ended, work)?.await
    }

    fn join_or_start(
        &self,
        key: Key,
        digest: &str,
        ended: CancellationToken,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Result<Answering, CallError> {
        let mut running = self.0.running.lock();
        if let Some(first) = running.get(&key) {
            if first.digest != digest {
                return Err(other_parameters());
            }
            first.askers.add(ended);
            return Ok(first.answer.clone());
        }
        let askers = Askers::default();
        askers.add(ended);
        let asked_for = askers.clone();
        let work = async move {
            tokio::select! {
                biased;
                answer = work => answer,
                () = asked_for.gone() => Err(stopped()),
            }
        };
        // The task gives its place up when it ends, for which it needs the lock held here.
        let task = tokio::spawn(carry_out(Arc::clone(&self.0), key.clone(), digest.into(), work));
        let answer = task.map(|ended| ended.unwrap_or_else(|_| Err(unknown()))).boxed().shared();
        running.insert(key, Running { digest: digest.to_owned(), answer: answer.clone(), askers });
        Ok(answer)
    }
}

/// A request's place among the running ones, which it gives up however its task ends.
struct RunningPlace {
    inner: Arc<Inner>,
    key: Key,
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        self.inner.running.lock().remove(&self.key);
    }
}

async fn carry_out(
    inner: Arc<Inner>,
    key: Key,
    digest: String,
    work: impl Future<Output = Answer>,
) -> Answer {
    let place = RunningPlace { inner, key };
    match place.inner.claim(&place.key, digest.clone()).await? {
        Known::Answered(text) => table::read_answer(&text),
        Known::New => {
            let answer = work.await;
            place.inner.keep(&place.key, digest, &answer).await;
            answer
        }
        Known::OtherParameters => Err(other_parameters()),
        Known::Full { limit, value } => Err(full(limit, value)),
        Known::Unknown => Err(unknown()),
    }
}

impl Inner {
    async fn claim(&self, key: &Key, digest: String) -> Result<Known, CallError> {
        let (key, now) = (key.clone(), self.clock.now_ms());
        let kind = unusable(key.method);
        let claimed = self.database.run(move |db| table::claim(db, &key, &digest, now)).await;
        claimed.map_err(|error| error.into_call_error(kind))
    }

    /// Keeps what a request came to. Where the store refuses, the row of a running request stays,
    /// so that it is not run again.
    async fn keep(&self, key: &Key, digest: String, answer: &Answer) {
        let (key, now) = (key.clone(), self.clock.now_ms());
        let text = (!nothing_was_done(answer)).then(|| table::write_answer(answer));
        let kept = self.database.run(move |db| match text {
            Some(text) => table::keep(db, &key, &digest, &text, now),
            None => table::forget(db, &key),
        });
        if let Err(error) = kept.await {
            tracing::error!("the answer of a request could not be kept: {error}");
        }
    }
}

/// Where a call is refused for want of room before anything of it has run. A provider's limits
/// are not among them: the tool that asks it runs.
const BEFORE_WORK: [&str; 5] = ["approval", "pool", "queue", "quota", "replay"];

/// Says whether the request may be tried again: it found no room, or its store took nothing.
fn nothing_was_done(answer: &Answer) -> bool {
    let Err(error) = answer else {
        return false;
    };
    // The last of several attempts or steps says nothing about those before it.
    if ["attempts", "step"].iter().any(|one| error.data.contains_key(*one)) {
        return false;
    }
    let stage = error.data.get("stage").and_then(Value::as_str);
    match error.kind {
        ErrorKind::MemoryBackend => true,
        ErrorKind::Overloaded => stage.is_some_and(|stage| BEFORE_WORK.contains(&stage)),
        _ => false,
    }
}

/// Returns what it is to a request of `method` that the store cannot be used. The protocol has a code of its own
/// for that where something was to be stored.
fn unusable(method: &str) -> ErrorKind {
    match method {
        "claw.memory.store" => ErrorKind::MemoryBackend,
        _ => ErrorKind::Internal,
    }
}

/// Returns what a request is answered with whose session ended before it did.
pub(crate) fn stopped() -> CallError {
    let text = "the session was stopped before this came to its end";
    CallError::new(ErrorKind::Timeout, text).with_limit(Limit::ShutdownTimeout)
}

fn other_parameters() -> CallError {
    let reason = "this request's id was used before, with other parameters";
    CallError::new(ErrorKind::InvalidArguments, reason).with("stage", "replay")
}

fn full(limit: Limit, value: u64) -> CallError {
    let reason = "too many requests are kept to be answered again; try later";
    CallError::new(ErrorKind::Overloaded, reason)
        .with("stage", "replay")
        .with_limit(limit)
        .with("value", value)
}

fn unknown() -> CallError {
    let reason = "outcome unknown: another host runs this request, or a host ended while it ran; it is not run again, and has its answer as soon as there is one";
    CallError::new(ErrorKind::Internal, reason).with("stage", "replay")
}

#[cfg(test)]
mod tests;
