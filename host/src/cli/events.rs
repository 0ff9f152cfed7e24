//! What `clawhost audit` shows: the turns of agents and all calls, as they ended, one after the other.
//!
//! The record is read once and the histories twice, line by line, however long they are; what is kept is a number for
//! each turn, as its calls are told of with it. Deliberately absent: checking the chains, which `verify` does.

mod merge;

use std::collections::BTreeMap;
use std::io::{self, BufWriter};

use clap::{Args, ValueEnum};
use clawhost_core::error::exit;
use clawhost_core::json::{number, text};
use clawhost_core::manifest::duration;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::StateArgs;
use super::fail::Fail;
use super::proxy::HISTORY_FOLDER;
use super::{setup, show};
use crate::audit::Filter;
use crate::clock;
use merge::{Events, histories};

#[derive(Debug, Args)]
pub(super) struct EventArgs {
    /// Only what ended since: a time such as 2026-11-22T10:00:00Z, or so long ago, as 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<i64>,
    /// Only what this agent did
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only calls of this tool, by any of its names
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only what ended so
    #[arg(long)]
    status: Option<Status>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<Kind>,
    /// Only calls of tools that change nothing
    #[arg(long)]
    read_only: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Ok,
    Error,
}

/// What an event is: a turn, a call that was made in one, or any other call.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Turn,
    #[value(name = "tool_call")]
    ToolCall,
    Call,
}

pub(super) fn run(args: &EventArgs, common: &StateArgs) -> Result<u8, Fail> {
    let unreadable =
        |error| Fail::new(exit::UPSTREAM, format!("the record cannot be read: {error}"));
    let histories = histories(&setup::state_path(common)?.0.join(HISTORY_FOLDER));
    let dir = setup::existing_audit_dir(common)?;
    if dir.is_none() && histories.is_empty() && !common.json {
        show::line("no audit log yet");
        return Ok(exit::OK);
    }
    let mut events = Events::open(dir, &histories).map_err(unreadable)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut totals = BTreeMap::<String, Totals>::new();
    let filter = Filter::new(args.since, args.agent.as_deref(), args.tool.as_deref());
    let mut widths = None;
    while let Some(event) = events.next().map_err(unreadable)? {
        if !args.fits(&filter, &event) {
            continue;
        }
        totals.entry(text(&event, "agent").to_owned()).or_default().add(&event);
        // A closed pipe is the reader's wish, not an error.
        if write(&mut out, &event, common.json, &mut widths).is_err() {
            return Ok(exit::OK);
        }
    }
    drop(end(&mut out, &totals, events.skipped, common.json));
    Ok(exit::OK)
}

/// Reads a time, or how long ago it was, as milliseconds since 1970, UTC.
fn since(given: &str) -> Result<i64, String> {
    let ago = duration(given).and_then(|ago| i64::try_from(ago.as_millis()).ok());
    let time = ago.map(|ms| clock::now_ms().saturating_sub(ms));
    time.or_else(|| clock::read_rfc3339(given))
        .ok_or_else(|| "write a time, 2026-11-22T10:00:00Z, or how long ago, 12h".to_owned())
}

impl EventArgs {
    fn fits(&self, filter: &Filter, event: &Value) -> bool {
        let status =
            self.status.map(|status| if matches!(status, Status::Ok) { "ok" } else { "error" });
        let kind = self.kind.map(|kind| match kind {
            Kind::Turn => "turn",
            Kind::ToolCall => "tool_call",
            Kind::Call => "call",
        });
        let is = |key: &str, wanted: Option<&str>| wanted.is_none_or(|it| text(event, key) == it);
        is("status", status)
            && is("type", kind)
            && (!self.read_only || event.get("read_only") == Some(&true.into()))
            && filter.fits(text(event, "ts"), text(event, "agent"), text(event, "tool"))
    }
}

/// What one agent did.
#[derive(Default)]
struct Totals {
    turns: u64,
    failed_turns: u64,
    calls: u64,
    failed_calls: u64,
    tokens: [u64; 2],
}

impl Totals {
    fn add(&mut self, event: &Value) {
        let failed = u64::from(text(event, "status") != "ok");
        let (all, bad) = match text(event, "type") {
            "turn" => (&mut self.turns, &mut self.failed_turns),
            _ => (&mut self.calls, &mut self.failed_calls),
        };
        (*all, *bad) = (*all + 1, *bad + failed);
        for (sum, key) in self.tokens.iter_mut().zip(["tokens_in", "tokens_out"]) {
            *sum = sum.saturating_add(number(event, key));
        }
    }

    fn json(&self, agent: &str) -> Value {
        json!({
            "agent": agent, "turns": self.turns, "failed_turns": self.failed_turns,
            "calls": self.calls, "failed_calls": self.failed_calls,
            "tokens_in": self.tokens[0], "tokens_out": self.tokens[1],
        })
    }
}

/// What JSON begins with.
const BEGIN: &str = "{\"events\": [";
const HEADER: [&str; 8] =
    ["ended", "agent", "event", "tool or model", "status", "ms", "call", "why"];

/// How wide the columns are at first; nobody knows yet how wide they get.
const WIDTHS: [usize; 8] = [24, 10, 9, 24, 6, 6, 26, 0];

fn write(
    out: &mut impl io::Write,
    event: &Value,
    as_json: bool,
    widths: &mut Option<[usize; 8]>,
) -> io::Result<()> {
    let is_first = widths.is_none();
    let widths = widths.get_or_insert(WIDTHS);
    if as_json {
        return write!(out, "{}\n{event}", if is_first { BEGIN } else { "," });
    }
    if is_first {
        columns(out, HEADER, widths)?;
    }
    let shown = |key: &str| visible::line(text(event, key));
    let what = if text(event, "type") == "turn" { shown("model") } else { shown("tool") };
    let why = event.get("error").filter(|error| !error.is_null());
    // What the protocols say errors in is for programs.
    let words =
        |error| ["/error/message", "/message"].iter().find_map(|at| Value::pointer(error, at));
    let why = why.map(|error| words(error).unwrap_or(error));
    let why = why.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
    let (ms, why) =
        (number(event, "latency_ms").to_string(), visible::line(&why.unwrap_or_default()));
    let [ts, agent, kind, status, call] = ["ts", "agent", "type", "status", "call"].map(shown);
    columns(out, [&ts, &agent, &kind, &what, &status, &ms, &call, &why], widths)
}

/// Writes a line; a cell that is wider than those above widens its column from here on.
fn columns(out: &mut impl io::Write, cells: [&str; 8], widths: &mut [usize; 8]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        *width = (*width).max(cell.chars().count());
        line.push_str(&format!("{cell:<width$}  "));
    }
    writeln!(out, "{}", line.trim_end())
}

fn end(
    out: &mut impl io::Write,
    totals: &BTreeMap<String, Totals>,
    skipped: u64,
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        let begin = if totals.is_empty() { BEGIN } else { "" };
        write!(out, "{begin}")?;
        let summary: Vec<Value> = totals.iter().map(|(agent, t)| t.json(agent)).collect();
        writeln!(out, "\n],\n\"summary\": {},\n\"skipped_lines\": {skipped}}}", json!(summary))?;
        return out.flush();
    }
    let mut table =
        show::table(&["agent", "turns", "failed", "calls", "failed", "tokens in", "tokens out"]);
    for (agent, of) in totals {
        let counts =
            [of.turns, of.failed_turns, of.calls, of.failed_calls, of.tokens[0], of.tokens[1]];
        let cells =
            std::iter::once(visible::line(agent)).chain(counts.map(|count| count.to_string()));
        table.add_row(cells.collect::<Vec<_>>());
    }
    match table.is_empty() {
        true => writeln!(out, "the record has nothing of the kind")?,
        false => writeln!(out, "\n{table}")?,
    }
    if skipped > 0 {
        writeln!(out, "\n{skipped} lines cannot be read")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_under_each_other_below_a_long_name() {
        let mut out = Vec::new();
        let (long, mut widths) = ("t".repeat(60), None);
        for tool in [&long, "short"] {
            let event = json!({"ts": "t", "agent": "a", "type": "call", "tool": tool, "status": "ok", "call": "c/1"});
            write(&mut out, &event, false, &mut widths).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        let places: Vec<_> = text.lines().skip(1).map(|line| line.find("c/1")).collect();
        assert_eq!(places[0], places[1], "{text}");
    }

    #[test]
    fn a_time_is_one_or_so_long_ago() {
        assert_eq!(since("2026-11-22T10:00:00.5Z").unwrap(), 1_795_341_600_500);
        assert!(since("12h").unwrap() < since("1s").unwrap());
        for wrong in
            ["", "h", "yesterday", "2026-11-22", "aTbbbbbbbbbbbbbbbbbZ", "9999999999999999999d"]
        {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
