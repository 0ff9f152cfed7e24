//! `clawhost audit turns`: what agents did through the proxy, and all other calls beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use clap::{Args, ValueEnum};
use clawhost_core::catalog::ckp_name;
use clawhost_core::error::exit;
use clawhost_core::json::{items, number, text};
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::StateArgs;
use super::fail::Fail;
use super::proxy::HISTORY_FOLDER;
use super::{setup, show};
use crate::audit;
use crate::clock;
use crate::proxy::HISTORY_FILE;
use crate::switches::meant;

#[derive(Debug, Args)]
pub(super) struct TurnsArgs {
    /// Only what happened since: a time such as 2026-11-22T10:00:00Z, or so long ago, as 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<String>,
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

/// Everything that was written down, the oldest first.
#[derive(Default)]
struct Events {
    all: Vec<Value>,
    turns: BTreeSet<String>,
    skipped: u64,
}

pub(super) fn run(args: &TurnsArgs, common: &StateArgs) -> Result<u8, Fail> {
    let unreadable = |error: std::io::Error| Fail::new(exit::UPSTREAM, error);
    let mut events = Events::default();
    events.read_all(&setup::state_path(common)?.0.join(HISTORY_FOLDER)).map_err(unreadable)?;
    if let Some(dir) = setup::existing_audit_dir(common)? {
        let records = audit::records(&dir).map_err(unreadable)?;
        records.iter().for_each(|record| events.take_record(record));
    }
    events.all.retain(|event| args.fits(event));
    events.all.sort_by(|one, other| text(one, "ts").cmp(text(other, "ts")));
    let totals = totals(&events.all);
    if common.json {
        let summary: Vec<Value> = totals.iter().map(|(agent, t)| t.json(agent)).collect();
        let skipped = events.skipped;
        show::json(&json!({ "events": events.all, "summary": summary, "skipped_lines": skipped }));
    } else {
        print(&events, &totals);
    }
    Ok(exit::OK)
}

/// Reads a time, or how long ago it was.
fn since(given: &str) -> Result<String, String> {
    let seconds = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let ago = seconds.iter().find_map(|(unit, seconds)| {
        given.strip_suffix(*unit)?.parse::<i64>().ok()?.checked_mul(seconds * 1_000)
    });
    match (ago, given.get(..20)) {
        (Some(ms), _) => Ok(clock::rfc3339(clock::now_ms().saturating_sub(ms))),
        (None, Some(time)) if time.ends_with(['Z', '.']) && time.contains('T') => {
            Ok(given.to_owned())
        }
        _ => Err("write a time in UTC, 2026-11-22T10:00:00Z, or how long ago, 12h".to_owned()),
    }
}

/// Returns what all names of a tool have in common: its CKP name.
fn plain(tool: &str) -> String {
    let of_server = tool.split_once("__").map(|(server, tool)| format!("mcp.{server}.{tool}"));
    let name = of_server.as_deref().unwrap_or(tool);
    meant(name).unwrap_or_else(|_| ckp_name(name).replace('.', "-"))
}

impl TurnsArgs {
    fn fits(&self, event: &Value) -> bool {
        let is = |wanted: &Option<String>, key: &str| {
            wanted.as_ref().is_none_or(|wanted| text(event, key) == wanted)
        };
        let status =
            self.status.map(|status| if matches!(status, Status::Ok) { "ok" } else { "error" });
        let kind = self.kind.map(|kind| match kind {
            Kind::Turn => "turn",
            Kind::ToolCall => "tool_call",
            Kind::Call => "call",
        });
        let is_of = |tool: &String| plain(tool) == plain(text(event, "tool"));
        is(&self.agent, "agent")
            && self.tool.as_ref().is_none_or(is_of)
            && status.is_none_or(|status| text(event, "status") == status)
            && kind.is_none_or(|kind| text(event, "type") == kind)
            && (!self.read_only || event.get("read_only") == Some(&true.into()))
            && self.since.as_deref().is_none_or(|since| text(event, "ts") >= since)
    }
}

impl Events {
    /// Reads the history of every agent; none where there is no such folder.
    fn read_all(&mut self, folder: &Path) -> std::io::Result<()> {
        let Ok(agents) = std::fs::read_dir(folder) else {
            return Ok(());
        };
        for agent in agents {
            let file = agent?.path().join(HISTORY_FILE);
            for path in [file.with_extension("jsonl.1"), file] {
                if path.is_file() {
                    self.read(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Reads one history. A line that is none is counted, as the last one of a killed host may be.
    fn read(&mut self, path: &Path) -> std::io::Result<()> {
        for line in BufReader::new(std::fs::File::open(path)?).split(b'\n') {
            match serde_json::from_slice::<Value>(&line?) {
                Ok(entry) if entry.get("claw_id").is_some() => self.take_turn(&entry),
                _ => self.skipped += 1,
            }
        }
        Ok(())
    }

    fn take_turn(&mut self, entry: &Value) {
        let (ts, agent) = (text(entry, "ts"), text(entry, "claw_id"));
        self.turns.insert(text(entry, "turn").to_owned());
        let usage = entry.get("usage").cloned().unwrap_or_default();
        let tokens = |keys: [&str; 2]| number(&usage, keys[0]).max(number(&usage, keys[1]));
        let rounds = number(entry, "total_rounds");
        self.all.push(json!({
            "type": "turn", "ts": ts, "agent": agent, "turn": entry.get("turn"),
            "status": entry.get("status"), "status_code": entry.get("status_code"),
            "model": entry.get("requested_model"), "provider": entry.get("effective_provider"),
            "total_rounds": rounds, "manifest_present": entry.get("manifest_present"),
            "tools_count": entry.get("tools_count"), "interventions": entry.get("interventions"),
            "latency_ms": entry.get("wall_time_ms"), "error": entry.get("error"),
            "tokens_in": tokens(["prompt_tokens", "input_tokens"]),
            "tokens_out": tokens(["completion_tokens", "output_tokens"]),
        }));
        for round in items(entry, "tool_trace") {
            for call in items(round, "tool_calls") {
                // How the call ended, whatever became of its turn.
                self.all.push(json!({
                    "type": "tool_call", "ts": ts, "agent": agent, "turn": entry.get("turn"),
                    "tool": call.get("name"), "service": call.get("service"),
                    "round": round.get("round"), "total_rounds": rounds,
                    "status": call.get("status"), "status_code": call.get("status_code"),
                    "read_only": call.get("read_only"), "duplicate": call.get("duplicate"),
                    "latency_ms": call.get("latency_ms"), "error": call.pointer("/result/error/code"),
                }));
            }
        }
    }

    /// Takes a call that no turn made: those are told of by their turns.
    fn take_record(&mut self, record: &Value) {
        let turn = text(record, "request").split('.').next().unwrap_or_default();
        if text(record, "event") != "call.finished" || self.turns.contains(turn) {
            return;
        }
        let is_ok = text(record, "outcome") == "ok";
        self.all.push(json!({
            "type": "call", "ts": record.get("time"), "agent": record.get("principal"),
            "tool": record.get("tool"), "status": if is_ok { "ok" } else { "error" },
            "latency_ms": number(record, "duration_us") / 1_000, "error": record.get("message"),
        }));
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
    fn json(&self, agent: &str) -> Value {
        json!({
            "agent": agent, "turns": self.turns, "failed_turns": self.failed_turns,
            "calls": self.calls, "failed_calls": self.failed_calls,
            "tokens_in": self.tokens[0], "tokens_out": self.tokens[1],
        })
    }
}

fn totals(events: &[Value]) -> BTreeMap<String, Totals> {
    let mut totals = BTreeMap::<String, Totals>::new();
    for event in events {
        let of = totals.entry(text(event, "agent").to_owned()).or_default();
        let failed = u64::from(text(event, "status") != "ok");
        let (all, bad) = match text(event, "type") {
            "turn" => (&mut of.turns, &mut of.failed_turns),
            _ => (&mut of.calls, &mut of.failed_calls),
        };
        (*all, *bad) = (*all + 1, *bad + failed);
        for (sum, key) in of.tokens.iter_mut().zip(["tokens_in", "tokens_out"]) {
            *sum = sum.saturating_add(number(event, key));
        }
    }
    totals
}

fn print(events: &Events, totals: &BTreeMap<String, Totals>) {
    let mut table =
        show::table(&["time", "agent", "event", "tool or model", "status", "ms", "why"]);
    for event in &events.all {
        let shown = |key: &str| visible::line(text(event, key));
        let what = if text(event, "type") == "turn" { shown("model") } else { shown("tool") };
        let why = event.get("error").filter(|error| !error.is_null());
        let why = why.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        let ms = number(event, "latency_ms").to_string();
        let why = visible::line(&why.unwrap_or_default());
        table.add_row([shown("ts"), shown("agent"), shown("type"), what, shown("status"), ms, why]);
    }
    show::line(&table.to_string());
    let mut table =
        show::table(&["agent", "turns", "failed", "calls", "failed", "tokens in", "tokens out"]);
    for (agent, of) in totals {
        let counts =
            [of.turns, of.failed_turns, of.calls, of.failed_calls, of.tokens[0], of.tokens[1]];
        let cells =
            std::iter::once(visible::line(agent)).chain(counts.map(|count| count.to_string()));
        table.add_row(cells.collect::<Vec<_>>());
    }
    show::line(&format!("\n{table}"));
    if events.skipped > 0 {
        show::line(&format!("\n{} lines of histories cannot be read", events.skipped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_tool_means_it() {
        for names in [
            ["read_file", "read-file", "claw://local/tool/read-file"],
            ["git__log_all", "git-log-all", "mcp.git.log_all"],
            ["desk_execute_trade", "desk-execute-trade", "desk.execute_trade"],
        ] {
            assert!(names.iter().all(|name| plain(name) == names[1]), "{names:?}");
        }
        assert_ne!(plain("read_file"), plain("read_files"));
    }

    #[test]
    fn a_time_is_one_or_so_long_ago() {
        assert_eq!(since("2026-11-22T10:00:00Z").unwrap(), "2026-11-22T10:00:00Z");
        assert!(since("12h").unwrap() < since("1s").unwrap());
        for wrong in ["", "h", "yesterday", "2026-11-22", "9999999999999999999d"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
