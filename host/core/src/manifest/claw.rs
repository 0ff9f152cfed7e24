//! `kind: Claw`: the manifest that puts an agent together.

use super::shape::{Shape, opt, req};
use crate::uri::Kind;

const ENTRY: Shape = Shape::Entry;
const ENTRIES: Shape = Shape::List { of: &ENTRY, min: 0 };
const SOME_ENTRIES: Shape = Shape::List { of: &ENTRY, min: 1 };

/// Entries have several forms, so their shapes are checked where they are resolved.
pub(crate) const SPEC: Shape = Shape::Record(&[
    req("identity", &ENTRY),
    req("providers", &SOME_ENTRIES),
    opt("channels", &ENTRIES),
    opt("tools", &ENTRIES),
    opt("skills", &ENTRIES),
    opt("memory", &ENTRY),
    opt("world_models", &ENTRIES),
    opt("sandbox", &ENTRY),
    opt("policies", &ENTRIES),
    opt("swarm", &ENTRY),
    opt("telemetry", &ENTRY),
]);

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
