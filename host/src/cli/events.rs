//! What `clawhost audit` shows: the turns of agents and all calls, as they ended, one after the other.
//!
//! The record is read once and the histories twice, line by line, however long they are; what is kept is three
//! numbers for each call that its turn tells of. Deliberately absent: checking the chains, which `verify` does.

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
use super::{audit, setup, show};
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
        show::line(audit::NO_LOG);
        return Ok(exit::OK);
    }
    let mut events = Events::open(dir, &histories).map_err(unreadable)?;
    let mut out = Out::new(BufWriter::new(io::stdout().lock()), common.json);
    let mut totals = BTreeMap::<String, Totals>::new();
    let filter = Filter::new(args.since, args.agent.as_deref(), args.tool.as_deref());
    while let Some(event) = events.next().map_err(unreadable)? {
        if !args.fits(&filter, &event) {
            continue;
        }
        totals.entry(text(&event, "agent").to_owned()).or_default().add(&event);
        let told = out.event(&event);
        if told.is_err() {
            show::written(told);
            return Ok(exit::OK);
        }
    }
    show::written(out.end(&totals, events.skipped));
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

/// The columns, and how wide they are at first; nobody knows yet how wide they get.
const COLUMNS: [(&str, usize); 8] = [
    ("ended", 24),
    ("agent", 10),
    ("event", 9),
    ("tool or model", 24),
    ("status", 6),
    ("ms", 6),
    ("call", 26),
    ("why", 0),
];

/// What a column is widened for at the most; a longer cell moves the rest of its own line. Texts of models and providers
/// are any length, and nothing can be written in columns of more than 65,535.
const COLUMN_CHARS_MAX: usize = 256;

/// What stands before the first event, in JSON.
const BEGIN: &str = "{\"events\": [";

/// Where events go, one after the other.
struct Out<W> {
    to: W,
    as_json: bool,
    is_begun: bool,
    widths: [usize; COLUMNS.len()],
}

impl<W: io::Write> Out<W> {
    fn new(to: W, as_json: bool) -> Self {
        Self { to, as_json, is_begun: false, widths: COLUMNS.map(|(_, width)| width) }
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if self.as_json {
            let before = if is_first { BEGIN } else { "," };
            return write!(self.to, "{before}\n{}", visible::json(&event.to_string()));
        }
        if is_first {
            self.line(&COLUMNS.map(|(name, _)| name.to_owned()))?;
        }
        self.line(&cells(event))
    }

    /// Writes a line; a cell that is wider than those above widens its column from here on.
    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&mut self.widths) {
            *width = (*width).max(cell.chars().count().min(COLUMN_CHARS_MAX));
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(self.to, "{}", line.trim_end())
    }

    fn end(&mut self, totals: &BTreeMap<String, Totals>, skipped: u64) -> io::Result<()> {
        if self.as_json {
            let begin = if self.is_begun { "" } else { BEGIN };
            let summary: Vec<Value> = totals.iter().map(|(agent, of)| of.json(agent)).collect();
            let summary = visible::json(&json!(summary).to_string());
            write!(self.to, "{begin}\n],\n\"summary\": {summary},\n")?;
            writeln!(self.to, "\"skipped_lines\": {skipped}}}")?;
            return self.to.flush();
        }
        match totals.is_empty() {
            true => writeln!(self.to, "the record has nothing of the kind")?,
            false => writeln!(self.to, "\n{}", summary(totals))?,
        }
        if skipped > 0 {
            writeln!(self.to, "\n{skipped} lines cannot be read")?;
        }
        self.to.flush()
    }
}

/// Returns what stands in the columns for an event.
fn cells(event: &Value) -> [String; COLUMNS.len()] {
    let shown = |key: &str| visible::line(text(event, key));
    let what = if text(event, "type") == "turn" { shown("model") } else { shown("tool") };
    let why = event.get("error").filter(|error| !error.is_null());
    // What the protocols say errors in is for programs.
    let words =
        |error| ["/error/message", "/message"].iter().find_map(|at| Value::pointer(error, at));
    let why = why.map(|error| words(error).unwrap_or(error));
    let why = why.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
    let (ms, why) = (number(event, "latency_ms"), visible::line(&why.unwrap_or_default()));
    let [ts, agent, kind, status, call] = ["ts", "agent", "type", "status", "call"].map(shown);
    [ts, agent, kind, what, status, ms.to_string(), call, why]
}

/// Returns what all of it comes to for each agent, as a table.
fn summary(totals: &BTreeMap<String, Totals>) -> String {
    let row = |(agent, of): (&String, &Totals)| {
        let counts =
            [of.turns, of.failed_turns, of.calls, of.failed_calls, of.tokens[0], of.tokens[1]];
        let counts = counts.map(|count| count.to_string());
        std::iter::once(visible::line(agent)).chain(counts).collect::<Vec<_>>()
    };
    let header = ["agent", "turns", "failed", "calls", "failed", "tokens in", "tokens out"];
    show::rows(&header, totals.iter().map(row), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_under_each_other_below_a_long_name() {
        let mut out = Out::new(Vec::new(), false);
        let long = "t".repeat(60);
        for tool in [&long, "short"] {
            let event = json!({"ts": "t", "agent": "a", "type": "call", "tool": tool, "status": "ok", "call": "c/1"});
            out.event(&event).unwrap();
        }
        let text = String::from_utf8(out.to).unwrap();
        let places: Vec<_> = text.lines().skip(1).map(|line| line.find("c/1")).collect();
        assert_eq!(places[0], places[1], "{text}");
    }

    #[test]
    fn a_text_of_any_length_is_written_and_widens_no_column_to_it() {
        let mut out = Out::new(Vec::new(), false);
        let long = "x".repeat(usize::from(u16::MAX) + 1);
        for (tool, error) in [(long.as_str(), long.as_str()), ("short", "why")] {
            let event =
                json!({"ts": "t", "agent": "a", "type": "turn", "model": tool, "error": error});
            out.event(&event).unwrap();
        }
        let text = String::from_utf8(out.to).unwrap();
        let [_, first, last] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(first.matches(&long).count(), 2);
        assert!(last.ends_with("why") && last.len() < 1_000, "{}", last.len());
    }

    #[test]
    fn however_many_events_there_are_their_json_is_one_object() {
        for count in 0..3 {
            let mut out = Out::new(Vec::new(), true);
            (0..count).for_each(|call| out.event(&json!({ "call": call })).unwrap());
            out.end(&BTreeMap::new(), 7).unwrap();
            let told: Value = serde_json::from_slice(&out.to).unwrap();
            let events = told["events"].as_array().map(Vec::len);
            assert_eq!((events, &told["skipped_lines"]), (Some(count), &json!(7)));
        }
    }

    #[test]
    fn what_would_steer_a_terminal_is_escaped_in_json_too() {
        let event = json!({"tool": "a\u{202e}b\u{9b}2J"});
        let mut out = Out::new(Vec::new(), true);
        out.event(&event).unwrap();
        out.end(&BTreeMap::from([("\u{202e}".to_owned(), Totals::default())]), 0).unwrap();
        let text = String::from_utf8(out.to).unwrap();
        assert!(text.chars().all(visible::is_plain), "{text:?}");
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["events"][0], event);
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
