//! `clawhost stats`: what tools were called, how they ended, how long they took and what they cost.
//!
//! Deliberately absent: a host, and a store of its own. The record says what happened, and the ledger of
//! the providers, which `cost_summary` reads too, what completions cost.

use std::collections::BTreeMap;

use clap::Args;
use clawhost_core::bridged::BridgedName;
use clawhost_core::catalog::meant;
use clawhost_core::error::{Blame, ErrorKind, exit};
use clawhost_core::limits::COST_DAYS_MAX;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::{StateArgs, whole_number};
use super::fail::{Blame as _, Fail};
use super::{setup, show};
use crate::audit;
use crate::clock::{now_ms, rfc3339};
use crate::upstream::provider::{Cost, read_costs};

const DAY_MS: i64 = 86_400_000;
/// Billionths of a US dollar in one.
const NANO_USD: f64 = 1e9;

/// Say how often tools were called, how that ended, how long it took and what it cost
///
/// One line a tool, of the calls on the last days (UTC) that the audit log holds. `ran` are those that
/// ran, `failed` those of them that came to nothing, and `refused` those that the caller or the rules kept
/// from running. Half of those that ran took at most `p50`, nineteen of twenty at most `p95`. The cost is that of language models, and what
/// `cost_hint` of a definition file says.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost stats --days 30")]
pub(super) struct StatsArgs {
    /// Look at so many days, today included
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = whole_number(1..=COST_DAYS_MAX))]
    days: u32,
    /// Only what this agent did
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    common: StateArgs,
}

pub(super) async fn run(args: StatsArgs) -> Result<u8, Fail> {
    let StatsArgs { days, agent, common } = args;
    let is_asked = |record: &Value| {
        let principal = record.get("principal").and_then(Value::as_str);
        agent.as_deref().is_none_or(|agent| principal == Some(agent))
    };
    let mut tools = Tools::new();
    if let Some(dir) = setup::existing_audit_dir(&common)? {
        let first = now_ms() - now_ms().rem_euclid(DAY_MS) - i64::from(days - 1) * DAY_MS;
        let since = rfc3339(first);
        let count = |record: Value| {
            if is_asked(&record) {
                add(&mut tools, &record, &since);
            }
        };
        audit::each_record(&dir, count)
            .map_err(|error| format!("the audit log cannot be read: {error}"))
            .or_fail(exit::UPSTREAM)?;
    }
    if let Some(database) = setup::existing_database(&common)? {
        let costs = read_costs(&database, days, agent).await.or_fail(exit::UPSTREAM)?;
        costs.iter().for_each(|cost| add_cost(&mut tools, cost));
    }
    show::done(common.json, || tools.iter().map(to_json).collect(), || words(&tools))
}

/// By CKP name.
type Tools = BTreeMap<String, Numbers>;

/// What the calls of one tool came to.
#[derive(Debug, Default)]
struct Numbers {
    /// As callers write it, and `clawhost audit` shows it.
    name: Option<String>,
    ran: u64,
    refused: u64,
    /// Of those that ran.
    failed: u64,
    attempts: u64,
    /// Of the calls that ran, in microseconds.
    took_us: Vec<u64>,
    usd: f64,
}

/// Adds what a record says, if it is of a call that ended not before `since`.
fn add(tools: &mut Tools, record: &Value, since: &str) {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| record.get(key).and_then(Value::as_u64);
    let outcome = text("outcome");
    let kind = ErrorKind::named(outcome);
    // Nobody knows how many names a caller thinks of.
    if text("event") != "call.finished"
        || text("time") < since
        || kind == Some(ErrorKind::UnknownTool)
    {
        return;
    }
    let Some(tool) = called(text("tool")) else { return };
    let of = tools.entry(tool).or_default();
    if !text("tool").contains("://") {
        of.name = Some(text("tool").to_owned());
    }
    if kind.is_some_and(|kind| matches!(kind.blame(), Blame::Caller | Blame::Denied)) {
        of.refused += 1;
        return;
    }
    let attempts = number("attempts").unwrap_or(1);
    of.ran += 1;
    of.attempts += attempts;
    of.failed += u64::from(kind.is_some() || outcome == "tool-error");
    of.took_us.extend(number("duration_us").filter(|_| outcome != "cancelled"));
    let hint = record.pointer("/cost_hint/usd_per_call").and_then(Value::as_f64);
    of.usd += hint.unwrap_or_default() * f64::from(u32::try_from(attempts).unwrap_or(u32::MAX));
}

/// Returns the CKP name of a tool as records name it: one of a server has the server's before it.
fn called(tool: &str) -> Option<String> {
    let of_server = tool.split_once("__");
    let of_server = of_server.and_then(|(server, tool)| BridgedName::of_server(server, tool).ok());
    of_server.map(|name| name.ckp).or_else(|| meant(tool).ok())
}

#[expect(clippy::cast_precision_loss, reason = "a measurement, not a bill")]
fn add_cost(tools: &mut Tools, cost: &Cost) {
    let Ok(tool) = meant(&cost.caller.tool) else { return };
    tools.entry(tool).or_default().usd += cost.nano_usd as f64 / NANO_USD;
}

/// Returns the time that `percent` of the calls took at most.
fn percentile_us(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

impl Numbers {
    fn percentiles_us(&self) -> [u64; 2] {
        let mut sorted = self.took_us.clone();
        sorted.sort_unstable();
        [50, 95].map(|percent| percentile_us(&sorted, percent))
    }
}

fn to_json((tool, of): (&String, &Numbers)) -> Value {
    let [p50_us, p95_us] = of.percentiles_us();
    json!({
        "tool": of.name.as_ref().unwrap_or(tool), "ran": of.ran, "failed": of.failed, "refused": of.refused,
        "attempts": of.attempts, "p50_us": p50_us, "p95_us": p95_us, "cost_usd": of.usd,
    })
}

fn words(tools: &Tools) -> String {
    let row = |(tool, of): (&String, &Numbers)| {
        let count = |number: u64| number.to_string();
        let ms = |us: u64| format!("{}.{:03}", us / 1000, us % 1000);
        let [p50, p95] = of.percentiles_us().map(ms);
        let [ran, failed, refused] = [of.ran, of.failed, of.refused].map(count);
        let (attempts, cost) = (count(of.attempts), format!("${:.4}", of.usd));
        let tool = visible::line(of.name.as_ref().unwrap_or(tool));
        [tool, ran, failed, refused, attempts, p50, p95, cost]
    };
    let header = ["tool", "ran", "failed", "refused", "attempts", "p50 ms", "p95 ms", "cost"];
    show::rows(&header, tools.iter().map(row), "no calls yet")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tool: &str, outcome: &str, us: u64) -> Value {
        json!({
            "event": "call.finished", "time": "2026-11-22T08:00:00.000Z",
            "tool": tool, "outcome": outcome, "duration_us": us,
        })
    }

    fn numbers(records: &[Value]) -> Tools {
        let mut tools = Tools::new();
        records.iter().for_each(|record| add(&mut tools, record, "2026-11-22T00:00:00.000Z"));
        tools
    }

    #[test]
    fn calls_are_counted_by_tool_under_whatever_name_and_by_who_is_to_blame() {
        let mut records = vec![
            record("read_file", "ok", 10),
            record("read-file", "tool-error", 20),
            record("claw://local/tool/read-file", "policy", 30),
            record("read_file", "invalid-arguments", 30),
            record("read_file", "timeout", 40),
            record("read_file", "cancelled", 9_999),
            record("made_up", "unknown-tool", 1),
            record("a-server__its_tool", "ok", 1),
        ];
        records.push(json!({"event": "call.received", "tool": "read_file"}));
        records.push(json!({"event": "call.finished", "tool": "read_file", "outcome": "ok", "time": "2026-11-21T23:59:59.999Z"}));
        let tools = numbers(&records);
        assert_eq!(tools.keys().collect::<Vec<_>>(), ["a-server-its-tool", "read-file"]);
        let of = &tools["read-file"];
        assert_eq!((of.ran, of.refused, of.failed, of.attempts), (4, 2, 2, 4));
        assert_eq!(of.took_us, [10, 20, 40]);
    }

    #[test]
    fn half_of_the_calls_took_no_longer_than_p50_and_nineteen_of_twenty_than_p95() {
        let records: Vec<Value> = (1..=100).rev().map(|us| record("t", "ok", us)).collect();
        assert_eq!(numbers(&records)["t"].percentiles_us(), [50, 95]);
        assert_eq!(numbers(&records[..1])["t"].percentiles_us(), [100, 100]);
        assert_eq!(Numbers::default().percentiles_us(), [0, 0]);
    }

    #[test]
    fn each_attempt_costs_what_the_operator_says() {
        let mut call = record("t", "ok", 1);
        call["cost_hint"] = json!({"usd_per_call": 0.5});
        call["attempts"] = json!(3);
        let tools = numbers(&[call, record("t", "ok", 1)]);
        assert_eq!((tools["t"].attempts, tools["t"].usd), (4, 1.5));
    }
}
