//! The record and the histories, merged: every event in the order in which it ended.
//!
//! A chain is opened when the story comes to its beginning, and each file is read line by line.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use clawhost_core::json::{items, number, text};
use clawhost_core::limits::PROXY_HISTORY_LINE_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::place::rotated;
use crate::proxy::HISTORY_FILE;
use crate::{audit, clock, regular};

/// Returns the files of each agent's history, oldest first.
pub(super) fn histories(folder: &Path) -> Vec<Vec<PathBuf>> {
    let agents = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = agents.map(|agent| {
        let file = agent.path().join(HISTORY_FILE);
        let mut files = vec![rotated(&file), file];
        files.retain(|file| file.is_file());
        files
    });
    files.filter(|files| !files.is_empty()).collect()
}

type Lines = Box<dyn Iterator<Item = io::Result<Vec<u8>>>>;

/// Returns the lines of a history, opening each of its files when it comes to it.
fn lines(files: Vec<PathBuf>) -> Lines {
    let lines = |file: PathBuf| -> Lines {
        match File::open(file) {
            Ok(file) => {
                Box::new(regular::lines(BufReader::new(file), PROXY_HISTORY_LINE_BYTES_MAX))
            }
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    };
    Box::new(files.into_iter().flat_map(lines))
}

/// Everything that was written down, in the order in which it ended.
pub(super) struct Events {
    dir: Option<Dir>,
    /// Chains that are not open yet, the oldest last, each with the time of its beginning.
    later: Vec<(String, String)>,
    /// Those with events to come, by the time of the next one, and by which of them was opened first: of one
    /// time, the events of a source stay together.
    open: BTreeMap<(String, u64), Source>,
    opened: u64,
    /// The calls that turns tell of.
    told_of: HashSet<Made>,
    /// Where calls of turns to come are in the record, by what asked for them.
    told: HashMap<String, String>,
    /// Lines that are none.
    pub(super) skipped: u64,
}

/// What events come from, and those of its last line.
struct Source {
    lines: Lines,
    /// Its name, where it is a chain of the record.
    chain: Option<String>,
    next: VecDeque<Value>,
}

/// A call of a turn: the turn, its round, and how many were made in that with this one.
type Made = (u64, u64, u64);

/// What a line of a history tells: of which turn it is, and what was called in it.
#[derive(Deserialize)]
struct TurnLine {
    turn: String,
    #[serde(default)]
    tool_trace: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    round: u64,
    tool_calls: Vec<Called>,
}

/// A call that was not made has no time.
#[derive(Deserialize)]
struct Called {
    latency_ms: Option<u64>,
}

impl TurnLine {
    /// Returns the calls that were made.
    fn made(&self) -> Vec<Made> {
        let turn = id(&self.turn);
        let made = |round: &Round| {
            let count = round.tool_calls.iter().filter(|call| call.latency_ms.is_some()).count();
            let number = round.round;
            (1..=count as u64).filter_map(move |made| Some((turn?, number, made)))
        };
        self.tool_trace.iter().flat_map(made).collect()
    }
}

impl Events {
    /// Opens what there is.
    pub(super) fn open(dir: Option<Dir>, histories: &[Vec<PathBuf>]) -> io::Result<Self> {
        let chains = dir.as_ref().map(audit::chains).transpose()?.unwrap_or_default();
        let begin = |chain: &String| chain.split('-').next()?.parse().ok().map(clock::rfc3339);
        let mut later: Vec<_> =
            chains.into_iter().map(|chain| (begin(&chain).unwrap_or_default(), chain)).collect();
        later.sort_unstable_by(|one, other| other.cmp(one));
        let mut told_of = HashSet::new();
        for line in histories.iter().flat_map(|files| lines(files.clone())) {
            let turn = serde_json::from_slice::<TurnLine>(&line?);
            told_of.extend(turn.iter().flat_map(TurnLine::made));
        }
        let (open, told) = (BTreeMap::new(), HashMap::new());
        let mut events = Self { dir, later, open, opened: 0, told_of, told, skipped: 0 };
        for files in histories {
            events.add(lines(files.clone()), None)?;
        }
        Ok(events)
    }

    /// Adds a source that has events.
    fn add(&mut self, lines: Lines, chain: Option<String>) -> io::Result<()> {
        self.opened += 1;
        self.put(self.opened, Source { lines, chain, next: VecDeque::new() })
    }

    /// Puts `source` where its next event belongs, if it has one.
    fn put(&mut self, number: u64, mut source: Source) -> io::Result<()> {
        while source.next.is_empty() {
            let Some(line) = source.lines.next() else { return Ok(()) };
            match (serde_json::from_slice::<Value>(&line?), &source.chain) {
                (Ok(record), Some(chain)) if record.get("event").is_some() => {
                    source.next.extend(self.call(chain, record));
                }
                (Ok(entry), None) if entry.get("claw_id").is_some() => {
                    source.next = turn(&entry);
                }
                // As the last one of a killed host may be.
                _ => self.skipped += 1,
            }
        }
        let time = source.next.front().map(|event| text(event, "ts").to_owned());
        self.open.insert((time.unwrap_or_default(), number), source);
        Ok(())
    }

    /// Returns the next event.
    pub(super) fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            let now = self.open.first_key_value().map(|((time, _), _)| time);
            // A chain has nothing that is older than itself.
            let begun = |(begin, _): &mut (String, String)| now.is_none_or(|now| *begin <= *now);
            if let Some((_, chain)) = self.later.pop_if(begun) {
                if let Some(Ok(lines)) = self.dir.as_ref().map(|dir| audit::lines(dir, &chain)) {
                    self.add(Box::new(lines), Some(chain))?;
                }
                continue;
            }
            let Some(((_, number), mut source)) = self.open.pop_first() else { return Ok(None) };
            let mut event = source.next.pop_front();
            // A call ends before its turn does, so it was met by now.
            if let Some(event) = event.as_mut().filter(|event| text(event, "type") == "tool_call") {
                event["call"] = self.told.remove(text(event, "call")).into();
            }
            self.put(number, source)?;
            return Ok(event);
        }
    }

    /// Returns a call that ended, unless its turn tells of that very one.
    fn call(&mut self, chain: &str, mut record: Value) -> Option<Value> {
        if text(&record, "event") != "call.finished" {
            return None;
        }
        let (request, call) =
            (text(&record, "request"), format!("{chain}/{}", text(&record, "call")));
        // What a call of a turn calls itself has its name, and is told of by nobody else.
        let is_nested = !text(&record, "parent").is_empty();
        if !is_nested && made(request).is_some_and(|made| self.told_of.remove(&made)) {
            self.told.insert(request.to_owned(), call);
            return None;
        }
        let status = if text(&record, "outcome") == "ok" { "ok" } else { "error" };
        let error = ["message", "error"].iter().find_map(|key| record.get(*key).cloned());
        let more = json!({
            "type": "call", "ts": record.get("time"), "agent": record.get("principal"), "status": status,
            "latency_ms": number(&record, "duration_us") / 1_000, "error": error,
            "call": call,
        });
        record.as_object_mut()?.extend(more.as_object().cloned().unwrap_or_default());
        Some(record)
    }
}

/// Reads how the proxy names a call of a turn.
fn made(request: &str) -> Option<Made> {
    let mut parts = request.split('.');
    let turn = id(parts.next()?)?;
    let [round, made] = [parts.next()?, parts.next()?];
    parts.next().is_none().then_some(())?;
    Some((turn, round.parse().ok()?, made.parse().ok()?))
}

/// Reads the id of a turn: so many digits that each is a number of its own.
fn id(turn: &str) -> Option<u64> {
    u64::from_str_radix(turn, 16).ok()
}

/// Returns a turn, and the calls that were made in it.
fn turn(entry: &Value) -> VecDeque<Value> {
    let (ts, agent) = (text(entry, "ts"), text(entry, "claw_id"));
    let usage = entry.get("usage").cloned().unwrap_or_default();
    let tokens = |keys: [&str; 2]| number(&usage, keys[0]).max(number(&usage, keys[1]));
    let rounds = number(entry, "total_rounds");
    let mut events = VecDeque::from([json!({
        "type": "turn", "ts": ts, "agent": agent, "turn": entry.get("turn"),
        "status": entry.get("status"), "status_code": entry.get("status_code"),
        "model": entry.get("requested_model"), "provider": entry.get("effective_provider"),
        "total_rounds": rounds, "manifest_present": entry.get("manifest_present"),
        "tools_count": entry.get("tools_count"), "interventions": entry.get("interventions"),
        "latency_ms": entry.get("wall_time_ms"), "error": entry.get("error"),
        "tokens_in": tokens(["prompt_tokens", "input_tokens"]),
        "tokens_out": tokens(["completion_tokens", "output_tokens"]),
    })]);
    for round in items(entry, "tool_trace") {
        let mut made = 0;
        for call in items(round, "tool_calls") {
            // One that was refused at once was not made.
            let asked = call.get("latency_ms").map(|_| {
                made += 1;
                format!("{}.{}.{made}", text(entry, "turn"), number(round, "round"))
            });
            // How the call ended, whatever became of its turn.
            events.push_back(json!({
                "type": "tool_call", "ts": ts, "agent": agent, "turn": entry.get("turn"),
                "tool": call.get("name"), "service": call.get("service"),
                "round": round.get("round"), "total_rounds": rounds, "call": asked,
                "status": call.get("status"), "status_code": call.get("status_code"),
                "read_only": call.get("read_only"), "duplicate": call.get("duplicate"),
                "latency_ms": call.get("latency_ms"), "error": call.pointer("/result/error/code"),
            }));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(chain: &str, number: u32, ms: i64, request: &str) -> String {
        let time = clock::rfc3339(ms);
        let record = json!({
            "event": "call.finished", "time": time, "principal": "p", "tool": "t", "outcome": "ok",
            "call": number.to_string(), "request": request, "chain": chain,
        });
        format!("{{\"event\":\"call.received\"}}\n{record}\n")
    }

    /// Returns all events of chains and of one history, `h.1` and `h`, and how many lines are none.
    fn told(files: &[(&str, String)]) -> (Vec<Value>, u64) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let mut history = vec![folder.path().join("h.1"), folder.path().join("h")];
        history.retain(|file| file.is_file());
        let mut events = Events::open(Some(dir), &[history]).unwrap();
        let told = std::iter::from_fn(|| events.next().unwrap()).collect();
        (told, events.skipped)
    }

    #[test]
    fn chains_and_histories_are_one_story_in_the_order_of_time() {
        // One chain goes on while two others begin and end.
        let long = [1_000, 4_000, 9_000].map(|ms| call("500-1-0", 1, ms, "1"));
        let torn = call("2000-2-0", 1, 3_000, "00000000000000aa.1.1") + "torn\n";
        let turn = |turn: &str, ms: i64| {
            let calls = json!([{"round": 1, "tool_calls": [
                {"name": "no", "status": "error"}, {"name": "t", "status": "ok", "latency_ms": 1},
            ]}]);
            format!(
                "{}\n",
                json!({"claw_id": "ada", "turn": turn, "ts": clock::rfc3339(ms), "status": "ok", "tool_trace": calls})
            )
        };
        let long_line = "x".repeat(PROXY_HISTORY_LINE_BYTES_MAX + 2);
        let (told, skipped) = told(&[
            ("500-1-0.jsonl", long.concat()),
            ("2000-2-0.jsonl", torn),
            ("5000-3-0.jsonl", call("5000-3-0", 1, 6_000, "00000000000000bb.1")),
            ("h.1", turn("00000000000000aa", 3_500)),
            ("h", format!("{long_line}\n{}", turn("cc", 7_000))),
        ]);
        let shown = |event: &Value| {
            let (kind, ts, call) = (text(event, "type"), text(event, "ts"), text(event, "call"));
            format!("{kind} {} {call}", &ts[17..19])
        };
        let expected = [
            "call 01 500-1-0/1", "turn 03 ", "tool_call 03 ", "tool_call 03 2000-2-0/1",
            "call 04 500-1-0/1", "call 06 5000-3-0/1", "turn 07 ", "tool_call 07 ",
            "tool_call 07 ", "call 09 500-1-0/1",
        ];
        assert_eq!(told.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(skipped, 2, "the torn line and the long one");
    }

    #[test]
    fn what_ended_at_the_same_time_as_a_turn_is_not_told_among_its_calls() {
        let refused = json!({"name": "no", "status": "error"});
        let trace = json!([{"round": 1, "tool_calls": [refused, refused]}]);
        let ts = clock::rfc3339(3_500);
        let turn = json!({"claw_id": "ada", "turn": "aa", "ts": ts, "tool_trace": trace});
        let calls = call("2000-2-0", 1, 3_500, "1").repeat(2);
        let (told, _) = told(&[("2000-2-0.jsonl", calls), ("h", format!("{turn}\n"))]);
        let kinds: Vec<&str> = told.iter().map(|event| text(event, "type")).collect();
        assert_eq!(kinds, ["turn", "tool_call", "tool_call", "call", "call"]);
    }

    #[test]
    fn a_call_that_its_turn_does_not_tell_of_is_told_by_itself() {
        let made = |number: u32, request: &str| {
            call("2000-2-0", number, 3_000 + i64::from(number), request)
        };
        // A call within the one that is told of, one that was cut off with its turn, one by another of that name.
        let nested = made(1, "aa.1.1").replace("\"principal\"", "\"parent\":\"2\",\"principal\"");
        let calls =
            [nested, made(2, "aa.1.1"), made(3, "aa.1.2"), made(4, "aa.1.1"), made(5, "bb.1.1")];
        let turn = |turn: &str, ms: i64, trace: Value| {
            let ts = clock::rfc3339(ms);
            format!("{}\n", json!({"claw_id": "ada", "turn": turn, "ts": ts, "tool_trace": trace}))
        };
        let trace =
            json!([{"round": 1, "tool_calls": [{"name": "t", "status": "ok", "latency_ms": 1}]}]);
        let lines = [turn("aa", 4_000, trace), turn("bb", 5_000, json!({"omitted_bytes": 9}))];
        let (told, _) = told(&[("2000-2-0.jsonl", calls.concat()), ("h", lines.concat())]);
        let shown = |event: &Value| format!("{} {}", text(event, "type"), text(event, "call"));
        let expected = [
            "call 2000-2-0/1", "call 2000-2-0/3", "call 2000-2-0/4", "call 2000-2-0/5", "turn ",
            "tool_call 2000-2-0/2", "turn ",
        ];
        assert_eq!(told.iter().map(shown).collect::<Vec<_>>(), expected);
    }
}
