//! How often the agent says that it lives: the one annotation that this host heeds.

use std::time::Duration;

use super::node::Node;
use crate::limits::{HEARTBEAT_FLOOR_MS, HEARTBEAT_MS};

const KEY: &str = "heartbeat_interval_ms";

/// Returns what holds where the Claw does not say.
pub(crate) const fn default() -> Option<Duration> {
    Some(Duration::from_millis(HEARTBEAT_MS))
}

/// Reads the interval from an envelope: nothing where it is 0, which means off.
pub(crate) fn read(root: &Node) -> Option<Duration> {
    match root.number(&["metadata", "annotations", KEY]) {
        None => default(),
        Some(0) => None,
        Some(ms) => Some(Duration::from_millis(ms.max(HEARTBEAT_FLOOR_MS))),
    }
}
