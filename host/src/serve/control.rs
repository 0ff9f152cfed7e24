//! The control socket's methods: what the operator's command line may ask of a running host.
//!
//! One JSON-RPC request a line. Whoever gets as far as this is the operator: the socket is in the
//! operator's folder, and the system says that the operator's own user connects. Deliberately
//! absent: calling tools.
//!
//! | method | parameters | result |
//! |---|---|---|
//! | `clawhost.status` | | as `/status` over HTTP |
//! | `clawhost.approvals.list` | `id?` | `pending[]`: those `id` names, or all; arguments in short |
//! | `clawhost.approvals.show` | `id` | `pending[]`: the one with that id, in full |
//! | `clawhost.approvals.approve` | `id lease{until, arguments}?` | `acknowledged` |
//! | `clawhost.approvals.deny` | `id reason?` | `acknowledged` |
//! | `clawhost.approvals.leases` | | `leases[]` |
//! | `clawhost.approvals.revoke` | `id` | `acknowledged` |
//! | `clawhost.tools.disable` | `tool reason? now? dry_run?` | `tool known changed near?` |
//! | `clawhost.tools.enable` | `tool reason? dry_run?` | the same |
//!
//! `until` is `"session"` or a number of milliseconds; `arguments` is `"any"`,
//! `{"exactly": digest}` or `{"matching": {argument: pattern}}`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::lease::Covers;
use clawhost_core::limits::{
    APPROVAL_LISTED_BYTES_MAX, CONTROL_CONNECTIONS_MAX, CONTROL_IDLE_MS, CONTROL_MESSAGE_BYTES_MAX,
};
use clawhost_core::manifest::nearest;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::accept::accept_all;
use super::message::{self, Fault, INTERNAL_ERROR, INVALID_REQUEST, Incoming, Outcome};
use super::params::Params;
use super::status::status;
use crate::approvals::{Answer, Approver, Lease, Pending, Shown, Until};
use crate::host::{Host, SwitchError, Switched, Turn};
use crate::lines::{Line, Lines};
use crate::state::ControlSocket;

/// Who turns switches here: the system says that it is the operator.
const OPERATOR: &str = "operator";

/// Serves `socket` until it is told to stop. While it does, people can be asked.
pub fn serve_control(host: Host, socket: ControlSocket, stop: CancellationToken) -> JoinHandle<()> {
    // From now on, not from the task's first turn on.
    let reachable = host.approvals().reach().open();
    let control = Arc::new(Control { host, started: Instant::now() });
    tokio::spawn(async move {
        accept_control(&control, &socket, &stop).await;
        drop(reachable);
    })
}

async fn accept_control(control: &Arc<Control>, socket: &ControlSocket, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    let next = || async {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        Ok((socket.accept().await?, place))
    };
    let serve = |(stream, place)| {
        let control = Arc::clone(control);
        async move {
            control.converse(stream).await;
            drop(place);
        }
    };
    // Dropping the connections ends them.
    drop(accept_all(stop, next, serve).await);
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
                return Some(Fault::new(INVALID_REQUEST, "the message is too long").to_line());
            }
            Line::Text(text) => text,
        };
        let (id, method, value) = match message::read(text) {
            Ok(Incoming::Request { id, method, value }) => (id, method, value),
            Ok(_) => return None,
            Err(refusal) => return Some(refusal.to_line()),
        };
        let none = Map::new();
        let params = value.get("params").and_then(Value::as_object).unwrap_or(&none);
        Some(message::line(&id, self.result(&method, Params::new(params)).await))
    }

    async fn result(&self, method: &str, params: Params<'_>) -> Outcome {
        let approvals = self.host.approvals();
        match method {
            "clawhost.status" => {
                params.only(&[])?;
                Ok(status(&self.host, self.started))
            }
            "clawhost.approvals.list" => {
                params.only(&["id"])?;
                let pending = match params.text_or_none("id")? {
                    Some(id) => approvals.named(id),
                    None => approvals.pending(),
                };
                let short = |one: &Pending| one.to_json(&one.shown(APPROVAL_LISTED_BYTES_MAX));
                Ok(json!({"pending": Value::from_iter(pending.iter().map(short))}))
            }
            "clawhost.approvals.show" => {
                params.only(&["id"])?;
                let pending = approvals.find(params.text("id")?);
                let full = |one: Pending| one.to_json(&Shown::whole(&one.asked.arguments));
                Ok(json!({"pending": Value::from_iter(pending.map(full))}))
            }
            "clawhost.approvals.approve" => {
                params.only(&["id", "lease"])?;
                let lease = params.object_or_none("lease")?;
                let lease =
                    lease.map(|lease| read_lease(Params::within(lease, "lease."))).transpose()?;
                self.require_covered(params, lease.as_ref())?;
                self.decide(params, Answer::Approve { lease }).await
            }
            "clawhost.approvals.deny" => {
                params.only(&["id", "reason"])?;
                let reason = params.text_or_none("reason")?.map(str::to_owned);
                self.decide(params, Answer::Deny { reason }).await
            }
            "clawhost.approvals.leases" => {
                params.only(&[])?;
                let leases = approvals.leases().await.map_err(unavailable)?;
                Ok(json!({"leases": Value::from_iter(leases.iter().map(|one| one.to_json()))}))
            }
            "clawhost.approvals.revoke" => {
                params.only(&["id"])?;
                let revoked = approvals.revoke(params.text("id")?).await.map_err(unavailable)?;
                Ok(json!({"acknowledged": revoked}))
            }
            "clawhost.tools.disable" => {
                params.only(&["tool", "reason", "now", "dry_run"])?;
                let now = flag(params, "now")?;
                self.switch(params, Turn::Off { now }).await
            }
            "clawhost.tools.enable" => {
                params.only(&["tool", "reason", "dry_run"])?;
                self.switch(params, Turn::On).await
            }
            _ => Err(Fault::method(method, "there is no such method here")),
        }
    }

    /// A lease that does not even cover the call at hand is not what was meant.
    fn require_covered(&self, params: Params<'_>, lease: Option<&Lease>) -> Result<(), Fault> {
        let Some(lease) = lease else {
            return Ok(());
        };
        let named = self.host.approvals().named(params.text("id")?);
        let covers =
            |one: &Pending| lease.arguments.covers(&one.asked.digest, &one.asked.arguments);
        if named.iter().all(covers) {
            return Ok(());
        }
        let reason = format!("`{}` does not fit the call that waits", lease.arguments);
        Err(params.fault("lease.arguments", reason))
    }

    /// Turns the switch of a tool, or says what that would do.
    async fn switch(&self, params: Params<'_>, to: Turn) -> Outcome {
        let tool = params.text("tool")?;
        let unusable = |error: SwitchError| match error {
            SwitchError::Name(_) | SwitchError::Ambiguous(_) => {
                params.fault("tool", error.to_string())
            }
            error => unavailable(error),
        };
        let done = if flag(params, "dry_run")? {
            let (tool, is_known) = self.host.named(tool).map_err(unusable)?;
            let is_off = self.host.switches().get(&tool).is_some();
            Switched { tool, is_known, changed: is_off != (to != Turn::On) }
        } else {
            let reason = params.text_or_none("reason")?;
            self.host.switch(tool, to, OPERATOR, reason).await.map_err(unusable)?
        };
        let catalog = self.host.catalog();
        let names = || catalog.tools().map(|tool| tool.ckp_name.as_str());
        let near = Some(&done).filter(|done| !done.is_known);
        let near = near.and_then(|done| nearest(&done.tool, names()));
        Ok(
            json!({"tool": done.tool, "known": done.is_known, "changed": done.changed, "near": near}),
        )
    }

    async fn decide(&self, params: Params<'_>, answer: Answer) -> Outcome {
        let id = params.text("id")?;
        let done = self.host.approvals().answer(id, None, answer, &Approver::Operator).await;
        Ok(json!({"acknowledged": done}))
    }
}

/// Reads a yes; what is absent is a no.
fn flag(params: Params<'_>, key: &str) -> Result<bool, Fault> {
    match params.any(key) {
        Err(_) => Ok(false),
        Ok(Value::Bool(yes)) => Ok(*yes),
        Ok(_) => Err(params.fault(key, "has to be true or false")),
    }
}

fn unavailable(error: impl std::fmt::Display) -> Fault {
    Fault::new(INTERNAL_ERROR, format!("the store does not answer: {error}"))
}

fn read_lease(params: Params<'_>) -> Result<Lease, Fault> {
    // A misspelt restriction would restrict nothing.
    params.only(&["until", "arguments"])?;
    let until = match params.any("until")? {
        Value::String(word) if word == "session" => Until::Session,
        Value::Number(ms) if ms.as_u64().is_some_and(|ms| ms > 0) => {
            Until::Time(Duration::from_millis(ms.as_u64().unwrap_or_default()))
        }
        _ => return Err(params.fault("until", "has to be \"session\" or a number of milliseconds")),
    };
    let arguments = serde_json::from_value(params.any("arguments")?.clone())
        .map_err(|error| params.fault("arguments", format!("does not fit: {error}")))?;
    let arguments = match arguments {
        Covers::Matching(patterns) => {
            Covers::matching(patterns).map_err(|reason| params.fault("arguments", reason))?
        }
        other => other,
    };
    Ok(Lease { until, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_how_long_and_for_what() {
        let read = |value: Value| read_lease(Params::within(value.as_object().unwrap(), "lease."));
        let hour = read(json!({"until": 3_600_000, "arguments": {"matching": {"path": "/a/*"}}}));
        let hour = hour.unwrap();
        assert_eq!(hour.until, Until::Time(Duration::from_secs(3_600)));
        assert!(matches!(hour.arguments, Covers::Matching(_)));
        let session = read(json!({"until": "session", "arguments": "any"})).unwrap();
        assert_eq!(session, Lease { until: Until::Session, arguments: Covers::Any });
        for value in [
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
