//! The lines of an audit log: versioned, one JSON object each, each carrying the hash of the
//! line before it.

use clawhost_core::digest;
use serde_json::Value;

use super::facts::Facts;
use crate::clock::{read_rfc3339, rfc3339};

/// Version of the format; a reader refuses a newer one.
pub const FORMAT_VERSION: u64 = 1;
/// The `prev` of a chain's first record.
pub(super) const CHAIN_START: &str =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

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

/// Returns the line for one event, without the newline, in canonical form. It has its number, and the hash of
/// the line before it.
pub(super) fn line((seq, prev): (u64, &str), time_ms: i64, event: Event, facts: &Facts) -> String {
    let own: [(&str, Value); 5] = [
        ("v", FORMAT_VERSION.into()),
        ("seq", seq.into()),
        ("time", rfc3339(time_ms).into()),
        ("event", event.name().into()),
        ("prev", prev.into()),
    ];
    digest::canonical_object(own.iter().map(|(name, value)| (*name, value)).chain(facts.iter()))
}
