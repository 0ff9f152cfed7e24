//! The protocol's methods, the kind that each needs, and the conformance level of a host.
//!
//! A method is served where the host has what it is about: tools to call, a Memory, a Swarm. It is
//! answered with -32601 elsewhere (CKP 0.3.0, section 11). The level that a host declares is the
//! highest of which it has everything: level 2 where it has tools, level 3 where its manifest
//! declares Memory, Skill and Swarm besides. The other kinds of level 2 are always there in some
//! form: the connection is a channel, a tool without a sandbox document has the strictest one, and
//! no policy denies everything. So a host with tools and a Memory alone is of level 2 and serves
//! `claw.memory.*` all the same, as its capabilities say.
//!
//! Deliberately absent: what the methods do.

use clawhost_core::catalog::Catalog;
use clawhost_core::manifest::Manifest;
use clawhost_core::uri::Kind;

use crate::serve::message::Fault;

/// What a host has that methods are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    pub(super) tools: bool,
    pub(super) memory: bool,
    pub(super) swarm: bool,
    skills: bool,
}

impl Served {
    /// Returns what a host has that runs `manifest` and serves `catalog`.
    pub(super) fn by(manifest: &Manifest, catalog: &Catalog) -> Self {
        let has = |kind| manifest.kinds.contains(&kind);
        Self {
            tools: has(Kind::Tool) || !catalog.is_empty() || !catalog.loading.is_empty(),
            memory: has(Kind::Memory),
            swarm: has(Kind::Swarm),
            skills: has(Kind::Skill),
        }
    }

    /// Returns the conformance level by its name on the wire.
    pub(super) const fn level(self) -> &'static str {
        match self {
            Self { tools: false, .. } => "level-1",
            Self { memory: true, skills: true, swarm: true, .. } => "level-3",
            _ => "level-2",
        }
    }

    const fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Memory => self.memory,
            Kind::Swarm => self.swarm,
            Kind::Tool => self.tools,
            _ => false,
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

/// Each method's name on the wire, and the kind that it is about.
const METHODS: [(&str, Method, Option<Kind>); 12] = [
    ("claw.initialize", Method::Initialize, None),
    ("claw.shutdown", Method::Shutdown, None),
    ("claw.status", Method::Status, None),
    ("claw.tool.approve", Method::ToolApprove, Some(Kind::Tool)),
    ("claw.tool.call", Method::ToolCall, Some(Kind::Tool)),
    ("claw.tool.deny", Method::ToolDeny, Some(Kind::Tool)),
    ("claw.memory.compact", Method::MemoryCompact, Some(Kind::Memory)),
    ("claw.memory.query", Method::MemoryQuery, Some(Kind::Memory)),
    ("claw.memory.store", Method::MemoryStore, Some(Kind::Memory)),
    ("claw.swarm.delegate", Method::SwarmDelegate, Some(Kind::Swarm)),
    ("claw.swarm.discover", Method::SwarmDiscover, Some(Kind::Swarm)),
    ("claw.swarm.report", Method::SwarmReport, Some(Kind::Swarm)),
];

impl Method {
    /// Returns the method of that name where a host with this serves it.
    pub(super) fn named(name: &str, served: Served) -> Result<Self, Fault> {
        let found = METHODS.iter().find(|(known, ..)| *known == name);
        let (_, method, kind) = *found.ok_or_else(|| unknown(name))?;
        let Some(kind) = kind.filter(|kind| !served.has(*kind)) else {
            return Ok(method);
        };
        let key = if kind == Kind::Tool { "tools" } else { kind.segment() };
        let message =
            format!("{name} is not served: the host's manifest has no {kind}; add `{key}:` to it");
        Err(Fault::method(name, message)
            .with("conformanceLevel", served.level())
            .with("needs", key))
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

    const NOTHING: Served = Served { tools: false, memory: false, swarm: false, skills: false };
    const ALL: Served = Served { tools: true, memory: true, swarm: true, skills: true };

    #[test]
    fn a_method_is_served_where_there_is_what_it_is_about() {
        let tools = Served { tools: true, ..NOTHING };
        let memory = Served { memory: true, ..NOTHING };
        let swarm = Served { swarm: true, ..NOTHING };
        for (name, method, kind) in METHODS {
            for (served, has) in [
                (NOTHING, None),
                (tools, Some(Kind::Tool)),
                (memory, Some(Kind::Memory)),
                (swarm, Some(Kind::Swarm)),
            ] {
                let expected = (kind.is_none() || kind == has).then_some(method);
                assert_eq!(Method::named(name, served).ok(), expected, "{name} {served:?}");
            }
            assert_eq!(Method::named(name, ALL), Ok(method));
        }
        let refused = Method::named("claw.memory.query", tools).unwrap_err();
        assert_eq!((refused.code, &refused.data["needs"]), (-32601, &"memory".into()));
        for name in ["claw.", "claw.nonexistent", "claw.Status", "claw.heartbeat", "claw.task.get"]
        {
            let fault = Method::named(name, ALL).unwrap_err();
            assert_eq!(fault.code, -32601, "{name}");
        }
    }

    #[test]
    fn a_level_is_declared_where_all_of_it_is_there() {
        for (served, level) in [
            (NOTHING, "level-1"),
            (Served { tools: false, ..ALL }, "level-1"),
            (Served { tools: true, ..NOTHING }, "level-2"),
            (Served { swarm: false, ..ALL }, "level-2"),
            (Served { memory: false, ..ALL }, "level-2"),
            (Served { skills: false, ..ALL }, "level-2"),
            (ALL, "level-3"),
        ] {
            assert_eq!(served.level(), level, "{served:?}");
        }
    }
}
