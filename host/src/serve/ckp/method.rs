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

use super::fault::Fault;

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

impl Method {
    const ALL: [Self; 12] = [
        Self::Initialize,
        Self::MemoryCompact,
        Self::MemoryQuery,
        Self::MemoryStore,
        Self::Shutdown,
        Self::Status,
        Self::SwarmDelegate,
        Self::SwarmDiscover,
        Self::SwarmReport,
        Self::ToolApprove,
        Self::ToolCall,
        Self::ToolDeny,
    ];

    /// Returns the method of that name where a host of `level` serves it.
    pub(super) fn named(name: &str, level: Level) -> Result<Self, Fault> {
        let Some(method) = Self::ALL.into_iter().find(|method| method.name() == name) else {
            return Err(unknown(name));
        };
        if method.level() <= level {
            return Ok(method);
        }
        let message = format!("{name} belongs to a level that this host does not serve");
        Err(Fault::method(name, message)
            .with("conformanceLevel", level.name())
            .with("needs", method.level().name()))
    }

    /// Returns its name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Initialize => "claw.initialize",
            Self::MemoryCompact => "claw.memory.compact",
            Self::MemoryQuery => "claw.memory.query",
            Self::MemoryStore => "claw.memory.store",
            Self::Shutdown => "claw.shutdown",
            Self::Status => "claw.status",
            Self::SwarmDelegate => "claw.swarm.delegate",
            Self::SwarmDiscover => "claw.swarm.discover",
            Self::SwarmReport => "claw.swarm.report",
            Self::ToolApprove => "claw.tool.approve",
            Self::ToolCall => "claw.tool.call",
            Self::ToolDeny => "claw.tool.deny",
        }
    }

    const fn level(self) -> Level {
        match self {
            Self::Initialize | Self::Shutdown | Self::Status => Level::One,
            Self::ToolApprove | Self::ToolCall | Self::ToolDeny => Level::Two,
            Self::MemoryCompact
            | Self::MemoryQuery
            | Self::MemoryStore
            | Self::SwarmDelegate
            | Self::SwarmDiscover
            | Self::SwarmReport => Level::Three,
        }
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
        for method in Method::ALL {
            let lowest = [Level::One, Level::Two, Level::Three]
                .into_iter()
                .find(|level| Method::named(method.name(), *level).is_ok());
            assert_eq!(lowest, Some(method.level()), "{method:?}");
        }
        for name in ["claw.", "claw.nonexistent", "claw.Status", "claw.heartbeat", "claw.task.get"]
        {
            let fault = Method::named(name, Level::Three).unwrap_err();
            assert_eq!(fault.to_refusal(None).code, -32601, "{name}");
        }
    }
}
