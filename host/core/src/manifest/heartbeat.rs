//! How often the agent says that it lives: the one annotation that this host heeds.

use std::time::Duration;

use super::node::{Node, Value};
use super::problem::Report;
use crate::limits::{HEARTBEAT_FLOOR_MS, HEARTBEAT_MS};

const KEY: &str = "heartbeat_interval_ms";

/// Returns what holds where the Claw does not say.
pub(crate) const fn default() -> Option<Duration> {
    Some(Duration::from_millis(HEARTBEAT_MS))
}

/// Reads the interval from an envelope: nothing where it is 0, which means off.
pub(crate) fn read(root: &Node, report: &mut Report<'_>) -> Option<Duration> {
    let Some(node) = root.get(&["metadata", "annotations", KEY]) else {
        return default();
    };
    match &node.value {
        Value::Number(number) if number.as_u64() == Some(0) => None,
        Value::Number(number) if number.is_u64() => {
            number.as_u64().map(|ms| Duration::from_millis(ms.max(HEARTBEAT_FLOOR_MS)))
        }
        _ => {
            let reason = format!("`metadata.annotations.{KEY}` is {}", node.describe());
            let help = format!("write a whole number, {HEARTBEAT_FLOOR_MS} or more, or 0 for none");
            report.invalid(node.at, reason, help);
            None
        }
    }
}
