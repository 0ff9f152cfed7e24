//! `kind: Claw`: the manifest that puts an agent together, and how often that says that it lives.

use std::time::Duration;

use super::node::Node;
use crate::limits::{HEARTBEAT_FLOOR_MS, HEARTBEAT_MS};
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

/// Time between two heartbeats where the Claw does not say.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);

/// Reads that time from an envelope, the one annotation that this host heeds: nothing where it is
/// 0, which means off.
pub(crate) fn heartbeat(root: &Node) -> Option<Duration> {
    match root.number(&["metadata", "annotations", "heartbeat_interval_ms"]) {
        None => Some(HEARTBEAT),
        Some(0) => None,
        Some(ms) => Some(Duration::from_millis(ms.max(HEARTBEAT_FLOOR_MS))),
    }
}
