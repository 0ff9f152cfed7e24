//! The protocol's methods, and the conformance level that each belongs to.
//!
//! A host declares the highest level whose methods it serves: level 2 where it has tools to call,
//! level 3 where its manifest declares a Memory or a Swarm. The other kinds of a level bring no
//! method of their own and are always there in some form: the connection is a channel, a tool
//! without a sandbox document has the strictest one, and no policy denies everything. A method
//! outside the declared level is answered with -32601 (CKP 0.3.0, section 11).
//!
//! Deliberately absent: what the methods do.

use clawhost_core::catalog::Catalog;
use clawhost_core::manifest::Manifest;
use clawhost_core::uri::Kind;

use crate::serve::message::Fault;

/// How much of the protocol a host serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Sessions.
    One,
    /// And tools.
    Two,
    /// And memory and swarms.
    Three,
}

impl Level {
    /// Returns the level of a host that runs `manifest` and serves `catalog`.
    pub(super) fn of(manifest: &Manifest, catalog: &Catalog) -> Self {
        let has = |kind| manifest.kinds.contains(&kind);
        let tools = has(Kind::Tool) || !catalog.is_empty() || !catalog.loading.is_empty();
        match (tools, has(Kind::Memory) || has(Kind::Swarm)) {
            (_, true) => Self::Three,
            (true, false) => Self::Two,
            (false, false) => Self::One,
        }
    }

    /// Returns its name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::One => "level-1",
            Self::Two => "level-2",
            Self::Three => "level-3",
        }
    }
}

/// A method that wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Initialize,
    MemoryCompact,
    MemoryQuery,
    MemoryStore,
    Shutdown,
    Status,
    SwarmDelegate,
    SwarmDiscover,
    SwarmReport,
    ToolApprove,
    ToolCall,
    ToolDeny,
}

/// What never wants an answer.
const NOTIFICATIONS: [&str; 4] =
    ["claw.heartbeat", "claw.initialized", "claw.swarm.broadcast", "claw.tool.progress"];

/// Each method's name on the wire, and the lowest level that serves it.
const METHODS: [(&str, Method, Level); 12] = [
    ("claw.initialize", Method::Initialize, Level::One),
    ("claw.shutdown", Method::Shutdown, Level::One),
    ("claw.status", Method::Status, Level::One),
    ("claw.tool.approve", Method::ToolApprove, Level::Two),
    ("claw.tool.call", Method::ToolCall, Level::Two),
    ("claw.tool.deny", Method::ToolDeny, Level::Two),
    ("claw.memory.compact", Method::MemoryCompact, Level::Three),
    ("claw.memory.query", Method::MemoryQuery, Level::Three),
    ("claw.memory.store", Method::MemoryStore, Level::Three),
    ("claw.swarm.delegate", Method::SwarmDelegate, Level::Three),
    ("claw.swarm.discover", Method::SwarmDiscover, Level::Three),
    ("claw.swarm.report", Method::SwarmReport, Level::Three),
];

impl Method {
    /// Returns the method of that name where a host of `level` serves it.
    pub(super) fn named(name: &str, level: Level) -> Result<Self, Fault> {
        let found = METHODS.iter().find(|(known, ..)| *known == name);
        let (_, method, needs) = *found.ok_or_else(|| unknown(name))?;
        if needs <= level {
            return Ok(method);
        }
        let message = format!("{name} belongs to a level that this host does not serve");
        Err(Fault::method(name, message)
            .with("conformanceLevel", level.name())
            .with("needs", needs.name()))
    }
}

fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(NAME_CHARS_SHOWN_MAX).collect();
    if NOTIFICATIONS.contains(&name) {
        return Fault::method(&shown, format!("{shown} is a notification: send it without an id"));
    }
    Fault::method(&shown, "there is no such method")
}

/// How much of an unknown method's name an answer repeats.
const NAME_CHARS_SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_served_from_its_level_up() {
        for (name, method, needs) in METHODS {
            for level in [Level::One, Level::Two, Level::Three] {
                let served = Method::named(name, level).ok();
                assert_eq!(served, (level >= needs).then_some(method), "{name} {level:?}");
            }
        }
        for name in ["claw.", "claw.nonexistent", "claw.Status", "claw.heartbeat", "claw.task.get"]
        {
            let fault = Method::named(name, Level::Three).unwrap_err();
            assert_eq!(fault.code, -32601, "{name}");
        }
    }
}
