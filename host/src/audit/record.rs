//! The lines of an audit log: versioned, one JSON object each, each carrying the hash of the
//! line before it.

use std::fmt::Write as _;

use clawhost_core::digest;
use clawhost_core::merkle::Hash;
use serde_json::Value;

use super::facts::Facts;
use crate::clock::{read_rfc3339, rfc3339};

/// Version of the format; a reader refuses a newer one.
pub const FORMAT_VERSION: u64 = 1;
/// The `prev` of a chain's first record.
pub(super) const CHAIN_START: Hash = [0; 32];

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Somebody said what helps against a kind of failure.
    AnomalyResolved,
    /// A person, or what stands for one, said yes or no to a call.
    ApprovalAnswered,
    /// A call started to wait for a person.
    ApprovalAsked,
    /// The first record of a chain; says which chain came before, and which were removed as old.
    ChainOpened,
    /// Records are missing in a copy of the log; says how many, and in which.
    CopyIncomplete,
    /// A call was refused, ended or failed. Exactly one for each `Received`.
    Finished,
    /// Entries of a memory store were dropped.
    MemoryCompacted,
    /// Entries were added to a memory store.
    MemoryStored,
    /// What an MCP server says about a tool was accepted, by the operator or at first sight.
    PinAccepted,
    /// An MCP server says something else about a tool, which is not served any more.
    PinChanged,
    /// The operator had forgotten what an MCP server says about a tool.
    PinForgotten,
    /// A call arrived; nothing was decided yet.
    Received,
    /// The operator let hosts serve another version of the registry.
    RegistryPinned,
    /// The operator seeded a version of the registry.
    RegistrySeeded,
    /// The host serves what another manifest says from now on.
    Reloaded,
    /// The operator switched a tool off.
    ToolDisabled,
    /// The operator switched a tool on again.
    ToolEnabled,
    /// A tool failed again and again, and rests.
    ToolQuarantined,
    /// A tool's rest was ended, by the operator or by a call that went well.
    ToolReleased,
}

clawhost_core::table! {
    /// Returns the name in the log.
    pub Event::name: &'static str {
        AnomalyResolved: "anomaly.resolved", ApprovalAnswered: "approval.answered",
        ApprovalAsked: "approval.asked", ChainOpened: "chain.opened",
        CopyIncomplete: "copy.incomplete", Finished: "call.finished",
        MemoryCompacted: "memory.compacted", MemoryStored: "memory.stored",
        PinAccepted: "pin.accepted", PinChanged: "pin.changed", PinForgotten: "pin.forgotten",
        Received: "call.received", RegistryPinned: "registry.pinned",
        RegistrySeeded: "registry.seeded",
        Reloaded: "host.reloaded", ToolDisabled: "tool.disabled", ToolEnabled: "tool.enabled",
        ToolQuarantined: "tool.quarantined", ToolReleased: "tool.released",
    }
}

/// Returns when a record was written, in milliseconds since 1970; nothing where it does not say.
pub(super) fn time_ms(record: &Value) -> Option<i64> {
    read_rfc3339(record.get("time")?.as_str()?)
}

/// What every line says, in canonical order: what happened, and its place in the chain.
const OWN: [&str; 5] = ["event", "prev", "seq", "time", "v"];
/// More than they take.
const OWN_BYTES: usize = 256;

/// A record but for its place in the chain. Records take their places one after the other, so whatever takes
/// long is done before.
#[derive(Debug)]
pub(super) struct Draft {
    event: &'static str,
    /// The facts in canonical form, each with a comma after it.
    facts: String,
    /// Where among them what every line says belongs.
    gaps: [usize; OWN.len()],
}

impl Draft {
    pub(super) fn new(event: Event, facts: &Facts) -> Self {
        // As long as many a record, so that it does not grow in steps.
        let mut text = Vec::with_capacity(1_024);
        let mut gaps = [0; OWN.len()];
        // Both are in order: each of these has its place before the first fact behind it.
        let mut own = gaps.iter_mut().zip(OWN).peekable();
        for (name, fact) in facts.iter() {
            while let Some((gap, _)) = own.next_if(|(_, own)| *own < name) {
                *gap = text.len();
            }
            fact.append(name, &mut text);
            text.push(b',');
        }
        own.for_each(|(gap, _)| *gap = text.len());
        Self { event: event.name(), facts: String::from_utf8(text).unwrap_or_default(), gaps }
    }

    /// Returns the line, without the newline, in canonical form. It has its number, and the hash of the line before it.
    pub(super) fn line(&self, seq: u64, prev: &Hash, time_ms: i64) -> String {
        let [event_at, prev_at, seq_at, time_at, v_at] = self.gaps;
        let part = |range: std::ops::Range<usize>| self.facts.get(range).unwrap_or_default();
        let (a, b, c) = (part(0..event_at), part(event_at..prev_at), part(prev_at..seq_at));
        let (d, e, f) = (part(seq_at..time_at), part(time_at..v_at), part(v_at..self.facts.len()));
        let mut line = String::with_capacity(self.facts.len() + OWN_BYTES);
        line.extend(["{", a, r#""event":""#, self.event, r#"","#, b, r#""prev":""#]);
        digest::append(&mut line, prev);
        line.extend([r#"","#, c, r#""seq":"#]);
        // Memory takes everything.
        write!(line, "{seq}").unwrap_or_default();
        line.extend([",", d, r#""time":""#, &rfc3339(time_ms), r#"","#, e]);
        write!(line, r#""v":{FORMAT_VERSION},{f}"#).unwrap_or_default();
        // The comma after the last of them.
        line.pop();
        line + "}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_canonical_whatever_is_between_what_it_says_of_its_place() {
        let names = ["a", "f", "prew", "sea", "t", "tool", "w"];
        for few in 0..=names.len() {
            let facts: Facts = names.into_iter().skip(few).map(|name| (name, "\"é")).collect();
            let line = Draft::new(Event::Received, &facts).line(7, &CHAIN_START, 1_000);
            let record: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line, digest::canonical(&record));
            let place = r#","prev":"sha256:00000000"#;
            assert!(line.contains(place) && line.contains(r#""seq":7,"#), "{line}");
            assert!(line.contains(r#","time":"1970-01-01T00:00:01.000Z","#), "{line}");
            assert_eq!(record.as_object().unwrap().len(), 5 + names.len() - few);
        }
    }
}
