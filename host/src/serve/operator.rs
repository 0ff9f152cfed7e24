//! The operator's methods: what the command line and the console may ask of a running host.
//!
//! One JSON-RPC request each, over the control socket and over HTTP alike. Who asks has been settled
//! by whoever passes it on. Deliberately absent: calling tools.
//!
//! | method | parameters | result |
//! |---|---|---|
//! | `clawhost.status` | | as `/status` over HTTP |
//! | `clawhost.approvals.list` | `id?` | `pending[]`: those `id` names, or all; arguments in short, `whole` where that is all |
//! | `clawhost.approvals.show` | `id` | `pending[]`: the one with that id, in full |
//! | `clawhost.approvals.approve` | `id lease{until, arguments}?` | `acknowledged` |
//! | `clawhost.approvals.deny` | `id reason?` | `acknowledged` |
//! | `clawhost.approvals.leases` | | `leases[]` |
//! | `clawhost.approvals.revoke` | `id` | `acknowledged` |
//! | `clawhost.tools.disable` | `tool reason? now? dry_run?` | `tool known changed near?` |
//! | `clawhost.tools.enable` | `tool reason? dry_run?` | the same |
//! | `clawhost.tools.list` | | as `clawhost tools --json`, and `off[] servers[]` |
//! | `clawhost.quarantine.list` | | `holds[] anomalies[]` |
//! | `clawhost.quarantine.release` | `tool reason?` | `acknowledged` |
//! | `clawhost.pins.list` | | `pins[]` that nobody has accepted |
//! | `clawhost.pins.accept` | `server tool digest` of one | `acknowledged` |
//! | `clawhost.audit.search` | `since? agent? tool? ended? before?` | `calls[] next?`, newest first |
//! | `clawhost.audit.verify` | | `chains[]` |
//! | `clawhost.news` | `seen?` of the last answer | waits a while for something new: `seen records[] pending[]`, the calls `waiting[]` and how many are `running` |
//!
//! `until` is `"session"` or a number of milliseconds; `arguments` is `"any"`,
//! `{"exactly": digest}` or `{"matching": {argument: pattern}}`.

mod look;

use std::time::Duration;

use clawhost_core::lease::Covers;
use clawhost_core::manifest::nearest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::message::{self, Fault, INTERNAL_ERROR, Incoming, Outcome};
use super::params::Params;
use super::status::status;
use crate::approvals::{Answer, Approver, Lease, Pending, Shown, Until};
use crate::host::{Host, SwitchError, Switched, Turn};

pub(super) use self::look::told;

/// Who turns switches here, for the record.
const OPERATOR: &str = "operator";

/// The methods and the parameters that each knows: a misspelt one would restrict nothing.
const METHODS: [(&str, &[&str]); 17] = [
    ("clawhost.status", &[]),
    ("clawhost.approvals.list", &["id"]),
    ("clawhost.approvals.show", &["id"]),
    ("clawhost.approvals.approve", &["id", "lease"]),
    ("clawhost.approvals.deny", &["id", "reason"]),
    ("clawhost.approvals.leases", &[]),
    ("clawhost.approvals.revoke", &["id"]),
    ("clawhost.tools.disable", &["tool", "reason", "now", "dry_run"]),
    ("clawhost.tools.enable", &["tool", "reason", "dry_run"]),
    ("clawhost.tools.list", &[]),
    ("clawhost.quarantine.list", &[]),
    ("clawhost.quarantine.release", &["tool", "reason"]),
    ("clawhost.pins.list", &[]),
    ("clawhost.pins.accept", &["server", "tool", "digest"]),
    ("clawhost.audit.search", &["since", "agent", "tool", "ended", "before"]),
    ("clawhost.audit.verify", &[]),
    ("clawhost.news", &["seen"]),
];

/// A host, as its operator asks it.
pub(super) struct Operator {
    host: Host,
    /// Held by who reads much of the record: one at a time.
    reading: tokio::sync::Mutex<()>,
    started: Instant,
}

impl Operator {
    /// Returns the operator's way to `host`, which begins to serve now.
    pub(super) fn new(host: Host) -> Self {
        Self { host, reading: tokio::sync::Mutex::default(), started: Instant::now() }
    }

    /// Returns the answer to one message, as `shown`, or nothing where it wants none.
    pub(super) async fn answer(
        &self,
        text: &[u8],
        shown: impl Fn(Value) -> Value,
    ) -> Option<Vec<u8>> {
        let (id, method, value) = match message::read(text) {
            Ok(Incoming::Request { id, method, value }) => (id, method, value),
            Ok(_) => return None,
            Err(refusal) => return Some(refusal.to_line()),
        };
        let outcome = self.result(&method, Params::of(value.get("params"))).await;
        Some(message::line(&id, outcome.map(shown)))
    }

    async fn result(&self, method: &str, params: Params<'_>) -> Outcome {
        let known = METHODS.iter().find(|(name, _)| *name == method);
        let (_, known) = known.ok_or_else(|| no_such(method))?;
        params.only(known)?;
        let approvals = self.host.approvals();
        match method {
            "clawhost.status" => Ok(status(&self.host, self.started)),
            "clawhost.approvals.list" => {
                let pending = match params.text_or_none("id")? {
                    Some(id) => approvals.named(id),
                    None => approvals.pending(),
                };
                Ok(json!({"pending": Value::from_iter(pending.iter().map(look::listed_question))}))
            }
            "clawhost.approvals.show" => {
                let pending = approvals.find(params.text("id")?);
                let full = |one: Pending| one.to_json(&Shown::whole(&one.asked.arguments));
                Ok(json!({"pending": Value::from_iter(pending.map(full))}))
            }
            "clawhost.approvals.approve" => {
                let lease = params.object_or_none("lease")?;
                let lease =
                    lease.map(|lease| read_lease(Params::within(lease, "lease."))).transpose()?;
                self.require_covered(params, lease.as_ref())?;
                self.decide(params, Answer::Approve { lease }).await
            }
            "clawhost.approvals.deny" => {
                let reason = params.text_or_none("reason")?.map(str::to_owned);
                self.decide(params, Answer::Deny { reason }).await
            }
            "clawhost.approvals.leases" => {
                let leases = approvals.leases().await.map_err(unavailable)?;
                Ok(json!({"leases": leases}))
            }
            "clawhost.approvals.revoke" => {
                let revoked = approvals.revoke(params.text("id")?).await.map_err(unavailable)?;
                Ok(json!({"acknowledged": revoked}))
            }
            "clawhost.tools.disable" => {
                self.switch(params, Turn::Off { now: params.flag("now")? }).await
            }
            "clawhost.tools.enable" => self.switch(params, Turn::On).await,
            _ => self.look(method, params).await,
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
            SwitchError::Name(_) => params.fault("tool", error.to_string()),
            error => unavailable(error),
        };
        let done = if params.flag("dry_run")? {
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

fn no_such(method: &str) -> Fault {
    Fault::method(method, "there is no such method here")
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
