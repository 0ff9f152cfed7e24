//! `kind: Claw`: the manifest that puts an agent together.

use crate::uri::Kind;

/// The keys of a Claw, the kind of each, and whether it holds a list.
pub(crate) const KEYS: [(&str, Kind, bool); 11] = [
    ("identity", Kind::Identity, false),
    ("providers", Kind::Provider, true),
    ("channels", Kind::Channel, true),
    ("tools", Kind::Tool, true),
    ("skills", Kind::Skill, true),
    ("memory", Kind::Memory, false),
    ("world_models", Kind::WorldModel, true),
    ("sandbox", Kind::Sandbox, false),
    ("policies", Kind::Policy, true),
    ("swarm", Kind::Swarm, false),
    ("telemetry", Kind::Telemetry, false),
];

/// Returns the key of a Claw under which a kind belongs.
pub(crate) fn key_of(kind: Kind) -> &'static str {
    KEYS.iter().find(|(_, of, _)| *of == kind).map_or("", |(key, ..)| *key)
}
