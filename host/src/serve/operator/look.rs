//! What the operator is shown of a running host beside its questions: what is new, its tools, what rests
//! or has changed, and the record.
//!
//! Deliberately absent: a reading of its own. Each answer is that of the module which decides or
//! keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use clawhost_core::catalog::{Origin, meant};
use clawhost_core::error::{Blame, ErrorKind};
use clawhost_core::json::{set, text};
use clawhost_core::limits::{
    APPROVAL_LISTED_BYTES_MAX, CONSOLE_NEWS_INTERVAL_MS, CONSOLE_PAGE_MAX, CONSOLE_PENDING_MAX,
    CONSOLE_WAIT_MS,
};
use clawhost_core::visible;
use serde_json::{Map, Number, Value, json};
use tokio::time::{sleep, timeout};

use super::{OPERATOR, Operator, no_such, unavailable};
use crate::approvals::Pending;
use crate::audit::{Filter, Place};
use crate::clock::{now_ms, read_rfc3339};
use crate::offload;
use crate::registry::{Pin, PinState};
use crate::serve::message::{Fault, Outcome};
use crate::serve::params::Params;
use crate::serve::status;

/// What a record is told by where calls are listed; arguments and results are for who asks for one.
const BRIEF: [&str; 15] = [
    "approved_by", "by", "call", "duration_us", "ended", "error", "event", "message", "outcome",
    "parent", "principal", "reason", "server", "time", "tool",
];

impl Operator {
    /// Answers what only looks, and what it shows is for.
    pub(super) async fn look(&self, method: &str, params: Params<'_>) -> Outcome {
        match method {
            "clawhost.news" => self.news(params.object_or_none("seen")?).await,
            "clawhost.tools.list" => self.tools().await,
            "clawhost.quarantine.list" => {
                let quarantine = self.host.quarantine();
                let holds = quarantine.holds().await.map_err(unavailable)?;
                let seen = quarantine.anomalies().await.map_err(unavailable)?;
                Ok(json!({"holds": holds, "anomalies": seen}))
            }
            "clawhost.quarantine.release" => {
                let (tool, reason) = (params.text("tool")?, params.text_or_none("reason")?);
                let tool = meant(tool).map_err(|error| params.fault("tool", error.to_string()))?;
                let done = self.host.quarantine().release(&tool, OPERATOR, reason).await;
                Ok(json!({"acknowledged": done.map_err(unavailable)?}))
            }
            "clawhost.pins.list" => {
                let pins = self.waiting_pins().await?;
                Ok(json!({"pins": Value::from_iter(pins.iter().map(Pin::to_json))}))
            }
            "clawhost.pins.accept" => {
                let one = [params.text("server")?, params.text("tool")?, params.text("digest")?];
                let mut pins = self.waiting_pins().await?;
                pins.retain(|pin| is_meant(pin, one));
                let done = self.host.accept(pins).await.map_err(unavailable)?;
                Ok(json!({"acknowledged": done > 0}))
            }
            "clawhost.audit.search" => self.search(params).await,
            "clawhost.audit.verify" => {
                let _turn = self.reading.lock().await;
                let chains = offload::blocking(true, || self.host.audit().verify());
                Ok(json!({"chains": chains.map_err(unavailable)?}))
            }
            _ => Err(no_such(method)),
        }
    }

    /// Waits until something is new since `seen`, but not for long, and says what.
    async fn news(&self, seen: Option<&Map<String, Value>>) -> Outcome {
        let (audit, approvals) = (self.host.audit(), self.host.approvals());
        let (mut asked, mut catalog) = (approvals.changes(), self.host.catalog_version());
        let mut grown = audit.grown();
        // Places of another chain are those of a host that runs no more.
        let seen = seen.filter(|seen| seen.get("chain") == Some(&json!(audit.chain())));
        let at = |key| seen.and_then(|seen| seen.get(key)).and_then(Value::as_u64);
        if seen.is_some() {
            // What a receiver lends is given back within its own branch: nothing waits while it holds that.
            let questions = async { drop(asked.wait_for(|now| Some(*now) != at("asked")).await) };
            let tools = async { drop(catalog.wait_for(|now| Some(*now) != at("catalog")).await) };
            let calls = async {
                drop(grown.wait_for(|now| Some(*now) != at("record")).await);
                sleep(Duration::from_millis(CONSOLE_NEWS_INTERVAL_MS)).await;
            };
            let news = async {
                tokio::select! {
                    () = questions => {}
                    () = tools => {}
                    () = calls => {}
                }
            };
            drop(timeout(Duration::from_millis(CONSOLE_WAIT_MS), news).await);
        }
        // Before anything is read: what changes meanwhile is news for the next time.
        let (asked, catalog) = (*asked.borrow(), *catalog.borrow());
        let tail = offload::blocking(true, || audit.tail(at("record"))).map_err(unavailable)?;
        let pending = approvals.pending();
        let listed = in_turns(&pending, CONSOLE_PENDING_MAX).into_iter();
        Ok(json!({
            "seen": {"chain": audit.chain(), "record": tail.at, "asked": asked, "catalog": catalog},
            "records": Value::from_iter(tail.records.into_iter().map(brief)),
            "skipped": tail.skipped,
            // Those that wait run as well, for the host, and may have ended since they were counted.
            "running": self.host.running().len().saturating_sub(pending.len()),
            "pending": Value::from_iter(listed.map(listed_question)),
            "waiting": Value::from_iter(pending.iter().map(|one| one.asked.call.as_str())),
            "now_ms": now_ms(),
        }))
    }

    async fn tools(&self) -> Outcome {
        let (catalog, manifest) = (self.host.catalog(), self.host.manifest());
        let mut told = status::tools(&self.host, &catalog, |path| path.display().to_string());
        let listed = told.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
        for (one, tool) in listed.zip(catalog.tools()) {
            set(one, "description", tool.definition.description.as_str().into());
        }
        let off = self.host.switches().all();
        set(&mut told, "off", Value::from_iter(off.iter().map(|(tool, off)| off.to_json(tool))));
        let servers = manifest.mcp_servers.iter().map(|one| {
            let is_its = |origin: &Origin| matches!(origin, Origin::Bridged { server, .. } if *server == one.name);
            let tools = catalog.tools().filter(|tool| is_its(&tool.origin)).count();
            let quoted = format!("`{}`", one.name);
            let against = catalog.refused.iter().find(|refused| refused.source.contains(&quoted));
            json!({
                "name": one.name, "tools": tools, "awaited": catalog.awaited.contains(&one.name),
                "reason": against.map(|refused| &refused.reason),
            })
        });
        set(&mut told, "servers", Value::from_iter(servers));
        Ok(told)
    }

    /// Returns what servers say that nobody has accepted.
    async fn waiting_pins(&self) -> Result<Vec<Pin>, Fault> {
        let mut pins = self.host.pins().list(None, None).await.map_err(unavailable)?;
        pins.retain(|pin| pin.state() != PinState::Accepted);
        Ok(pins)
    }

    async fn search(&self, params: Params<'_>) -> Outcome {
        let (agent, tool) = (params.text_or_none("agent")?, params.text_or_none("tool")?);
        let how = params.text_or_none("ended")?;
        let no_time = || params.fault("since", "is no time, 2026-11-22T10:00:00Z");
        let time = |since: &str| read_rfc3339(since).ok_or_else(no_time);
        let since = params.text_or_none("since")?.map(time).transpose()?;
        let wrong = || params.fault("before", "is no place of the log");
        let read = |place: &str| {
            let (chain, end) = place.split_once('/')?;
            Some(Place { chain: chain.to_owned(), end: end.parse().ok()? })
        };
        let before = params.text_or_none("before")?;
        let before = before.map(|place| read(place).ok_or_else(wrong)).transpose()?;
        let filter = Filter::new(since, agent, tool);
        let fits = |record: &Value| {
            let [time, agent, tool] = ["time", "principal", "tool"].map(|key| text(record, key));
            how.is_none_or(|how| ended(record) == how) && filter.fits(time, agent, tool)
        };
        let _turn = self.reading.lock().await;
        let audit = self.host.audit();
        let found =
            offload::blocking(true, || audit.search(before.as_ref(), CONSOLE_PAGE_MAX, fits));
        let found = found.map_err(unavailable)?;
        let calls = found.calls.into_iter().map(|mut record| {
            let how = ended(&record);
            set(&mut record, "ended", how.into());
            record
        });
        let next = found.next.map(|place| format!("{}/{}", place.chain, place.end));
        Ok(json!({"calls": Value::from_iter(calls), "next": next}))
    }
}

/// Returns a question with about as much of its arguments as lists show.
pub(super) fn listed_question(one: &Pending) -> Value {
    one.to_json(&one.shown(APPROVAL_LISTED_BYTES_MAX))
}

/// Returns `max` of the questions, which are oldest first, and stay so: the oldest of each caller, then the second
/// of each, and so on. One caller cannot bury the questions of the others.
fn in_turns(pending: &[Pending], max: usize) -> Vec<&Pending> {
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns: Vec<_> = pending
        .iter()
        .enumerate()
        .map(|(at, one)| {
            let turn = asked.entry(&one.asked.principal).or_default();
            *turn += 1;
            (*turn, at, one)
        })
        .collect();
    turns.sort_by_key(|(turn, at, _)| (*turn, *at));
    turns.truncate(max);
    turns.sort_by_key(|(_, at, _)| *at);
    turns.into_iter().map(|(.., one)| one).collect()
}

/// Says in a word how a call ended: `ok`, `cancelled`, `refused` by its caller's fault or a rule, else
/// `failed`.
fn ended(record: &Value) -> &'static str {
    match (text(record, "outcome"), ErrorKind::named(text(record, "outcome"))) {
        ("ok", _) => "ok",
        ("cancelled", _) => "cancelled",
        (_, Some(kind)) if matches!(kind.blame(), Blame::Caller | Blame::Denied) => "refused",
        _ => "failed",
    }
}

/// Says whether a pin is the one of that server, tool and digest. What needs the same has the same digest.
fn is_meant(pin: &Pin, [server, tool, digest]: [&str; 3]) -> bool {
    pin.server == server && pin.tool == tool && pin.digest() == digest
}

/// Returns what lists show of a record.
fn brief(mut record: Value) -> Value {
    if text(&record, "event") == "call.finished" {
        let how = ended(&record);
        set(&mut record, "ended", how.into());
    }
    if let Value::Object(facts) = &mut record {
        facts.retain(|key, _| BRIEF.contains(&key.as_str()));
    }
    record
}

/// Returns `value` as a page may show it: nothing in any text hides or turns others around. An object
/// with a name that could pass for another one becomes a text. A page reads every number as a double: one
/// that it would write otherwise becomes a text of its digits after a NUL, which no other text here has.
pub(in crate::serve) fn told(value: Value) -> Value {
    match value {
        Value::String(text) => visible::block(&text).into(),
        Value::Number(number) if !is_kept(&number) => format!("\0{number}").into(),
        Value::Array(list) => list.into_iter().map(told).collect(),
        Value::Object(object) if object.keys().all(|key| visible::line(key) == *key) => {
            object.into_iter().map(|(key, value)| (key, told(value))).collect()
        }
        Value::Object(object) => visible::block(&format!("{:#}", Value::Object(object))).into(),
        plain => plain,
    }
}

/// Says whether a page writes a number as it stands here: a whole one that a double holds, as its neighbours.
fn is_kept(number: &Number) -> bool {
    number.as_i64().is_some_and(|number| number.unsigned_abs() <= DOUBLE_WHOLE_MAX)
}

/// The largest whole number up to which doubles hold each.
const DOUBLE_WHOLE_MAX: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::Question;

    #[test]
    fn one_caller_does_not_bury_the_questions_of_the_others() {
        let asked = |(at, principal): (usize, &str)| {
            let asked = Question { principal: principal.to_owned(), ..Question::default() };
            Pending { id: at.to_string(), asked: asked.into(), asked_at_ms: 0, expires_at_ms: 0 }
        };
        let callers = ["a", "a", "a", "a", "b", "c", "b"];
        let pending: Vec<_> = callers.into_iter().enumerate().map(asked).collect();
        let listed = |max| -> Vec<String> {
            in_turns(&pending, max).into_iter().map(|one| one.id.clone()).collect()
        };
        assert_eq!(listed(3), ["0", "4", "5"]);
        assert_eq!(listed(5), ["0", "1", "4", "5", "6"]);
        assert_eq!(listed(10), ["0", "1", "2", "3", "4", "5", "6"]);
    }

    #[test]
    fn a_number_that_a_page_would_write_otherwise_is_told_in_its_digits() {
        let exact = r#"{"a":[9007199254740991,-9007199254740991,0],"o":{"n":9007199254740992}}"#;
        let value: Value = serde_json::from_str(exact).unwrap();
        let shown = told(value.clone());
        assert_eq!((&shown["a"], &shown["o"]["n"]), (&value["a"], &json!("\u{0}9007199254740992")));
        for digits in ["-9007199254740993", "18446744073709551615", "1.0", "0.1", "-0.0", "1e21"] {
            let value: Value = serde_json::from_str(digits).unwrap();
            assert_eq!(told(value.clone()), json!(format!("\0{value}")), "{digits}");
        }
        // What somebody wrote never passes for one.
        assert_eq!(told(json!("\u{0}12")), json!("\\u{0}12"));
    }

    #[test]
    fn nothing_that_is_told_hides_and_no_name_passes_for_another() {
        let value = json!({"a": ["x\u{202e}y\n"], "n": 1, "o": {"p\u{200b}": 1, "p\\u{200b}": 2}});
        let shown = told(value);
        assert_eq!((&shown["a"][0], &shown["n"]), (&json!("x\\u{202e}y\n"), &json!(1)));
        let both = shown["o"].as_str().unwrap();
        assert!(both.contains("\"p\\u{200b}\": 1") && both.contains("\"p\\\\u{200b}\": 2"));
    }

    #[test]
    fn of_components_that_need_the_same_one_is_accepted() {
        let [a, b] = ["tool:a", "tool:b"].map(|server| Pin {
            server: server.to_owned(),
            tool: "imports".to_owned(),
            accepted: None,
            offered: r#"{"imports":[]}"#.to_owned(),
            changed_at_ms: 0,
        });
        let digest = a.digest();
        assert_eq!(digest, b.digest());
        let one = ["tool:a", "imports", digest.as_str()];
        assert!(is_meant(&a, one) && !is_meant(&b, one));
        assert!(!is_meant(&a, ["tool:a", "imports", "sha256:"]));
    }

    #[test]
    fn an_end_is_a_refusal_or_a_failure_by_who_is_to_blame() {
        let is = |outcome: &str| ended(&json!({"outcome": outcome}));
        assert_eq!([is("ok"), is("cancelled")], ["ok", "cancelled"]);
        assert_eq!([is("policy"), is("invalid-arguments")], ["refused"; 2]);
        assert_eq!([is("timeout"), is("tool-error"), is("of another version")], ["failed"; 3]);
    }
}
