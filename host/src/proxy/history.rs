//! What each agent asked through the proxy and got, one line a turn, for its operator.
//!
//! A file for each agent, private, bounded, written by one worker that nobody waits for, without any secret
//! that the host knows. Deliberately absent: reading it back, which `clawhost audit` does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::digest;
use clawhost_core::json::items;
use clawhost_core::limits::{
    PROXY_HISTORY_BYTES_MAX, PROXY_HISTORY_TEXT_BYTES_MAX, SCREENED_AT_ONCE_BYTES_MAX,
};
use clawhost_core::mediate::{Dialect, Turn};
use clawhost_core::reply::json_bytes;
use clawhost_core::truncate;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::field;

use super::ModelRequest;
use super::refused::Refused;
use crate::clock;
use crate::offload;
use crate::outbox::{Carrier, Failure, Outbox, Terms};
use crate::place::OutsidePlace;
use crate::secrets::Secrets;

/// The file in an agent's folder.
pub(crate) const HISTORY_FILE: &str = "history.jsonl";

/// How much is kept of what a client calls a model.
const MODEL_BYTES_MAX: usize = 256;

/// How patient the worker is. What its queue holds is at most a few MiB a line.
const TERMS: Terms = Terms {
    queue_max: 64,
    batch_max: 16,
    interval: Duration::ZERO,
    hands_over_empty: false,
    patience: Duration::from_secs(10),
    retries_max: 3,
    flush_retries_max: 1,
    retry: Duration::from_millis(100),
    retry_max: Duration::from_secs(1),
};

#[derive(Debug, Clone)]
pub(super) struct History {
    outbox: Arc<Outbox<Line>>,
}

/// An agent, and what becomes one line of its history.
type Line = (String, Value);

/// A line: its name is of all that it says.
#[derive(Serialize)]
struct Written<'a> {
    id: String,
    #[serde(flatten)]
    entry: &'a Value,
}

struct Files {
    folder: PathBuf,
    secrets: Secrets,
    open: BTreeMap<String, OutsidePlace>,
}

impl Files {
    fn line(&self, entry: &Value) -> Result<String, Failure> {
        let digest = digest::of_json(entry);
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let line = serde_json::to_string(&Written { id: format!("hist1_{hex}"), entry });
        let line = line.map_err(Failure::lasting)?;
        Ok(self.secrets.redactor().text(&line).into_owned())
    }
}

impl Carrier for Files {
    type Item = Line;

    fn name(&self) -> String {
        "the history of the proxy".to_owned()
    }

    async fn take(&mut self, lines: &[Line]) -> Result<(), Failure> {
        for (agent, entry) in lines {
            let is_long = json_bytes(entry) > SCREENED_AT_ONCE_BYTES_MAX;
            let line = offload::blocking(is_long, || self.line(entry))?;
            let path = self.folder.join(agent).join(HISTORY_FILE);
            let place = self.open.entry(agent.clone());
            let place =
                place.or_insert_with(|| OutsidePlace::bounded_file(path, PROXY_HISTORY_BYTES_MAX));
            place.write(&[&line]).await?;
        }
        Ok(())
    }

    fn lost(&self, count: u64) {
        tracing::warn!("{count} turns are missing in the history of the proxy");
    }
}

impl History {
    pub(super) fn start(folder: PathBuf, secrets: Secrets) -> Self {
        let files = Files { folder, secrets, open: BTreeMap::new() };
        Self { outbox: Arc::new(Outbox::start(files, TERMS)) }
    }

    pub(super) async fn flush(&self) {
        self.outbox.flush().await;
    }

    fn put(&self, agent: &str, entry: Map<String, Value>) {
        if !self.outbox.put((agent.to_owned(), entry.into())) {
            tracing::warn!(agent, "a turn is missing in the history of the proxy");
        }
    }
}

/// One turn. However it ends, it is written down when this is dropped.
pub(super) struct Record {
    history: Option<History>,
    agent: String,
    entry: Map<String, Value>,
    /// How the provider answered, which is of the turn where the client gets that answer.
    answered: StatusCode,
    begun: Instant,
}

impl Record {
    /// Begins the record of a turn that has so many tools of ours, of an agent for whom something `is_compiled` or
    /// nothing.
    pub(super) fn open(
        history: Option<&History>,
        asked: &ModelRequest,
        tools: usize,
        is_compiled: bool,
    ) -> Self {
        let body = &asked.forward.body;
        let entry = json!({
            "version": 1,
            "turn": asked.id,
            "claw_id": asked.agent,
            "path": asked.forward.api.path(),
            "requested_model": truncate::text(asked.forward.model(), MODEL_BYTES_MAX),
            "stream": asked.forward.streams(),
            "manifest_present": is_compiled,
            "tools_count": tools,
            // What nobody changes is what became of it.
            "status": "error",
            "error": "canceled",
            "status_code": 499,
        });
        let mut record = Self {
            history: history.cloned(),
            agent: asked.agent.clone(),
            entry: entry.as_object().cloned().unwrap_or_default(),
            answered: StatusCode::OK,
            begun: Instant::now(),
        };
        record.set("request_original", body);
        record
    }

    pub(super) fn answered_by(&mut self, provider: &str, model: &str, status: StatusCode) {
        self.note("effective_provider", provider);
        self.note("effective_model", model);
        self.answered = status;
    }

    pub(super) fn provider(&self) -> &str {
        self.entry.get("effective_provider").and_then(Value::as_str).unwrap_or_default()
    }

    /// Takes note of all rounds of a turn, and what they used.
    pub(super) fn trace(&mut self, turn: &Turn) {
        self.set("request_effective", turn.request());
        self.set("tool_trace", &told(turn.trace()));
        self.set("usage", &turn.usage().clone().into());
        self.set("interventions", &json!(turn.interventions()));
        self.note("total_rounds", turn.trace().len());
    }

    /// Takes note of why there is no completion.
    pub(super) fn refuse(&mut self, refused: &Refused, dialect: &dyn Dialect) {
        self.set("error", &refused.json(dialect));
        self.note("status_code", refused.status.as_u16());
    }

    /// Takes note that the client got this, and that it is all. A provider's refusal is an error all the same.
    pub(super) fn finish(&mut self, response: &Value) {
        self.got(response);
        self.end();
    }

    /// Takes note of what the client got, whole or in part.
    pub(super) fn got(&mut self, response: &Value) {
        self.set("usage", response.get("usage").unwrap_or(&Value::Null));
        self.set("response", response);
    }

    /// Takes note that the client got all of an answer.
    pub(super) fn end(&mut self) {
        self.entry.remove("error");
        self.note("status_code", self.answered.as_u16());
        if self.answered.is_success() {
            self.note("status", "ok");
        }
    }

    fn note(&mut self, key: &str, fact: impl Into<Value>) {
        self.entry.insert(key.to_owned(), fact.into());
    }

    /// Sets a part that the history has only, of which what is too long is left out.
    fn set(&mut self, key: &str, value: &Value) {
        if self.history.is_none() {
            return;
        }
        let is_long = json_bytes(value) > PROXY_HISTORY_TEXT_BYTES_MAX;
        let value = if is_long { omitted(value) } else { value.clone() };
        self.entry.insert(key.to_owned(), value);
    }
}

fn omitted(value: &Value) -> Value {
    json!({ "omitted_bytes": json_bytes(value) })
}

/// Returns what was called in each round. Where all of it is too long, what is long about each call is left out:
/// that it was made is told in any case.
fn told(rounds: &[Value]) -> Value {
    const LONG: [&str; 2] = ["arguments", "result"];
    let mut told = Value::from(rounds);
    if json_bytes(&told) <= PROXY_HISTORY_TEXT_BYTES_MAX {
        return told;
    }
    let count = rounds.iter().map(|round| items(round, "tool_calls").len()).sum::<usize>().max(1);
    // The other half is for what else is told of a call.
    let room = PROXY_HISTORY_TEXT_BYTES_MAX / 2 / count / LONG.len();
    let rounds = told.as_array_mut().into_iter().flatten();
    let calls = rounds.filter_map(|round| round.get_mut("tool_calls")?.as_array_mut()).flatten();
    for call in calls {
        for key in LONG {
            if let Some(part) = call.get_mut(key).filter(|part| json_bytes(part) > room) {
                *part = omitted(part);
            }
        }
    }
    told
}

impl Record {
    /// Says that the turn has ended, and what it had of ours.
    fn log(&self) {
        let fact = |key| self.entry.get(key).map(field::display);
        tracing::info!(
            agent = self.agent,
            turn = fact("turn"),
            model = fact("requested_model"),
            manifest_present = fact("manifest_present"),
            tools_count = fact("tools_count"),
            status = fact("status"),
            status_code = fact("status_code"),
            latency_ms = fact("wall_time_ms"),
            "a turn has ended"
        );
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.note("wall_time_ms", clock::whole_ms(self.begun.elapsed()));
        // Lines stand in the order in which turns end.
        self.note("ts", clock::rfc3339(clock::now_ms()));
        self.log();
        if let Some(history) = self.history.take() {
            history.put(&self.agent, std::mem::take(&mut self.entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_trace_what_is_long_is_left_out_and_no_call_is() {
        let long = json!({ "ok": true, "data": "x".repeat(16_000) });
        let short = json!({ "ok": false, "error": { "code": "timeout" } });
        let call = |result: &Value| json!({ "name": "t", "latency_ms": 1, "result": result });
        let mut calls = vec![call(&long); 70];
        calls.push(call(&short));
        let round = |calls: &[Value]| json!({ "round": 1, "tool_calls": calls });
        let whole = told(&[round(&calls)]);
        let told_calls = items(&whole[0], "tool_calls");
        assert_eq!(told_calls.len(), 71);
        assert_eq!(told_calls[0]["result"], json!({ "omitted_bytes": json_bytes(&long) }));
        assert_eq!(told_calls[70], calls[70]);
        assert!(json_bytes(&whole) <= PROXY_HISTORY_TEXT_BYTES_MAX);
        assert_eq!(told(&[round(&calls[..2])]), json!([round(&calls[..2])]));
    }

    #[test]
    fn a_line_is_named_after_all_that_it_says() {
        let (folder, secrets) = (PathBuf::new(), Secrets::none());
        let files = Files { folder, secrets, open: BTreeMap::new() };
        let entry = json!({ "turn": "1", "path": "/v1/messages" });
        let mut line: Value = serde_json::from_str(&files.line(&entry).unwrap()).unwrap();
        let id = line.as_object_mut().unwrap().remove("id").unwrap();
        assert_eq!(line, entry);
        assert_eq!(id, digest::of_json(&entry).replace("sha256:", "hist1_"));
    }
}
