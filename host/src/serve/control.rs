//! The control socket's methods: what the operator's command line may ask of a running host.
//!
//! One JSON-RPC request a line. Whoever gets as far as this is the operator: the socket is in the
//! operator's folder, and the system says that the operator's own user connects. Deliberately
//! absent: calling tools.
//!
//! | method | parameters | result |
//! |---|---|---|
//! | `clawhost.status` | | `name version pid uptime_ms catalog_version tools pending` |
//! | `clawhost.approvals.list` | | `pending[]` |
//! | `clawhost.approvals.approve` | `id lease{until, arguments}?` | `acknowledged` |
//! | `clawhost.approvals.deny` | `id reason?` | `acknowledged` |
//! | `clawhost.approvals.leases` | | `leases[]` |
//! | `clawhost.approvals.revoke` | `id` | `acknowledged` |
//!
//! `until` is `"session"` or a number of milliseconds; `arguments` is `"any"`,
//! `{"exactly": digest}` or `{"matching": {argument: pattern}}`.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::lease::Covers;
use clawhost_core::limits::{CONTROL_CONNECTIONS_MAX, CONTROL_IDLE_MS, CONTROL_MESSAGE_BYTES_MAX};
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lines::{Line, Lines};
use super::message::{self, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, Refusal};
use crate::approvals::{Answer, Approver, Lease, Until};
use crate::host::Host;
use crate::state::ControlSocket;

/// JSON-RPC: the parameters do not fit.
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: the host failed.
const INTERNAL: i32 = -32603;
/// How long a failed `accept` keeps the socket from trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `socket` until it is told to stop. While it does, people can be asked.
pub fn serve_control(host: Host, socket: ControlSocket, stop: CancellationToken) -> JoinHandle<()> {
    // From now on, not from the task's first turn on.
    let reachable = host.approvals().reach().open();
    let control = Arc::new(Control { host, started: Instant::now() });
    tokio::spawn(async move {
        accept_all(&control, &socket, &stop).await;
        drop(reachable);
    })
}

async fn accept_all(control: &Arc<Control>, socket: &ControlSocket, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (socket.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok(stream) => {
                let control = Arc::clone(control);
                connections.spawn(async move {
                    control.converse(stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

struct Control {
    host: Host,
    started: Instant,
}

impl Control {
    /// Answers line after line until the other side has said all, or nothing for long.
    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) {
        let (input, mut output) = tokio::io::split(stream);
        let mut lines = Lines::new(BufReader::new(input), CONTROL_MESSAGE_BYTES_MAX);
        let patience = Duration::from_millis(CONTROL_IDLE_MS);
        while let Ok(Ok(Some(line))) = timeout(patience, lines.next()).await {
            let Some(mut answer) = self.answer(&line).await else {
                continue;
            };
            answer.push(b'\n');
            if !matches!(timeout(patience, output.write_all(&answer)).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Returns the answer to one line, or nothing where it wants none.
    async fn answer(&self, line: &Line) -> Option<Vec<u8>> {
        let text = match line {
            Line::TooLong => {
                return Some(
                    Refusal::new(None, INVALID_REQUEST, "the message is too long").to_line(),
                );
            }
            Line::Text(text) => text,
        };
        let (id, method, value) = match message::read(text) {
            Ok(Incoming::Request { id, method, value }) => (id, method, value),
            Ok(_) => return None,
            Err(refusal) => return Some(refusal.to_line()),
        };
        let parameters = value.get("params").cloned().unwrap_or_else(|| json!({}));
        Some(match self.result(&method, &parameters).await {
            Ok(result) => success(&id, &result),
            Err((code, text)) => Refusal::new(Some(id), code, text).to_line(),
        })
    }

    async fn result(&self, method: &str, parameters: &Value) -> Result<Value, Fault> {
        match method {
            "clawhost.status" => {
                known_only(parameters, &[])?;
                Ok(self.status())
            }
            "clawhost.approvals.list" => {
                known_only(parameters, &[])?;
                let pending = self.host.approvals().pending();
                Ok(json!({"pending": Value::from_iter(pending.iter().map(|one| one.to_json()))}))
            }
            "clawhost.approvals.approve" => {
                known_only(parameters, &["id", "lease"])?;
                let lease = parameters.get("lease").map(lease).transpose()?;
                self.decide(parameters, Answer::Approve { lease }).await
            }
            "clawhost.approvals.deny" => {
                known_only(parameters, &["id", "reason"])?;
                let reason = optional_text(parameters, "reason")?;
                self.decide(parameters, Answer::Deny { reason }).await
            }
            "clawhost.approvals.leases" => {
                known_only(parameters, &[])?;
                let leases = self.host.approvals().leases().await.map_err(unavailable)?;
                Ok(json!({"leases": Value::from_iter(leases.iter().map(|one| one.to_json()))}))
            }
            "clawhost.approvals.revoke" => {
                known_only(parameters, &["id"])?;
                let revoked = self.host.approvals().revoke(text(parameters, "id")?).await;
                Ok(json!({"acknowledged": revoked.map_err(unavailable)?}))
            }
            _ => Err((METHOD_NOT_FOUND, "there is no such method here".to_owned())),
        }
    }

    async fn decide(&self, parameters: &Value, answer: Answer) -> Result<Value, Fault> {
        let id = text(parameters, "id")?;
        let done = self.host.approvals().answer(id, None, answer, &Approver::Operator).await;
        Ok(json!({"acknowledged": done}))
    }

    fn status(&self) -> Value {
        let catalog = self.host.catalog();
        json!({
            "name": "clawhost",
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_ms": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "catalog_version": catalog.version,
            "tools": catalog.tools().count(),
            "pending": self.host.approvals().pending().len(),
        })
    }
}

type Fault = (i32, String);

fn success(id: &RequestId, result: &Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string().into_bytes()
}

fn wrong(text: impl Into<String>) -> Fault {
    (INVALID_PARAMS, text.into())
}

fn unavailable(error: impl std::fmt::Display) -> Fault {
    (INTERNAL, format!("the store does not answer: {error}"))
}

/// A misspelt restriction would restrict nothing.
fn known_only(parameters: &Value, known: &[&str]) -> Result<(), Fault> {
    let mut keys = parameters.as_object().into_iter().flat_map(|object| object.keys());
    match keys.find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(wrong(format!("there is no parameter `{unknown}`"))),
        None => Ok(()),
    }
}

fn text<'a>(parameters: &'a Value, key: &str) -> Result<&'a str, Fault> {
    let found = parameters.get(key).and_then(Value::as_str);
    found.ok_or_else(|| wrong(format!("`{key}` has to be there, as text")))
}

fn optional_text(parameters: &Value, key: &str) -> Result<Option<String>, Fault> {
    match parameters.get(key) {
        None => Ok(None),
        Some(_) => text(parameters, key).map(|text| Some(text.to_owned())),
    }
}

fn lease(value: &Value) -> Result<Lease, Fault> {
    if !value.is_object() {
        return Err(wrong("`lease` has to be an object"));
    }
    known_only(value, &["until", "arguments"])?;
    let until = match value.get("until") {
        Some(Value::String(word)) if word == "session" => Until::Session,
        Some(Value::Number(ms)) if ms.as_u64().is_some_and(|ms| ms > 0) => {
            Until::Time(Duration::from_millis(ms.as_u64().unwrap_or_default()))
        }
        _ => return Err(wrong("`until` is \"session\" or a number of milliseconds")),
    };
    let arguments = value.get("arguments").cloned().unwrap_or_default();
    let arguments = serde_json::from_value(arguments)
        .map_err(|error| wrong(format!("`arguments` does not fit: {error}")))?;
    let arguments = match arguments {
        Covers::Matching(patterns) => Covers::matching(patterns).map_err(wrong)?,
        other => other,
    };
    Ok(Lease { until, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_how_long_and_for_what() {
        let read = |value| lease(&value);
        let hour = read(json!({"until": 3_600_000, "arguments": {"matching": {"path": "/a/*"}}}));
        let hour = hour.unwrap();
        assert_eq!(hour.until, Until::Time(Duration::from_secs(3_600)));
        assert!(matches!(hour.arguments, Covers::Matching(_)));
        let session = read(json!({"until": "session", "arguments": "any"})).unwrap();
        assert_eq!(session, Lease { until: Until::Session, arguments: Covers::Any });
        for value in [
            json!(null),
            json!({}),
            json!({"until": "session"}),
            json!({"until": 0, "arguments": "any"}),
            json!({"until": -1, "arguments": "any"}),
            json!({"until": "ever", "arguments": "any"}),
            json!({"until": "session", "arguments": {"matching": {}}}),
            json!({"until": "session", "arguments": "any", "tool": "x"}),
        ] {
            assert!(read(value.clone()).is_err(), "{value}");
        }
    }
}
