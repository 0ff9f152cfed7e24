//! How often something that failed for a passing reason is tried again, and how long it waits.

use super::node::Node;
use super::shape::Shape;
use crate::limits::RETRY_ATTEMPTS_MAX;

/// How the wait between two attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backoff {
    /// Every wait is the first one.
    Constant,
    /// Every wait is twice the one before.
    #[default]
    Exponential,
    /// Every wait is one first wait longer than the one before.
    Linear,
}

/// What a tool's document says about trying again. It applies to passing failures only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// All attempts, the first one included; at least 1.
    pub max_attempts: u32,
    /// How the wait grows.
    pub backoff: Backoff,
}

pub(crate) const BACKOFF: Shape = Shape::OneOf(&["exponential", "linear", "constant"]);

/// Reads the checked block `retry` of a `spec`; nothing where there is none.
pub(crate) fn read(spec: &Node) -> Option<Retry> {
    let retry = spec.get(&["retry"])?;
    let backoff = match retry.text(&["backoff"]) {
        Some("constant") => Backoff::Constant,
        Some("linear") => Backoff::Linear,
        _ => Backoff::Exponential,
    };
    let asked = retry.number(&["max_attempts"]);
    let max_attempts =
        asked.map_or(RETRY_ATTEMPTS_MAX, |asked| u32::try_from(asked).unwrap_or(u32::MAX));
    Some(Retry { max_attempts, backoff })
}
