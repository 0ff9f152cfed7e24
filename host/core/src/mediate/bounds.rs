//! The bounds of one turn: what they are, and how files state them.

use crate::limits::{
    PROXY_ITERATIONS_CEILING_MAX, PROXY_ITERATIONS_MAX, PROXY_RESULT_BYTES_MAX,
    PROXY_RESULT_BYTES_MIN, PROXY_ROUNDS_CEILING_MAX, PROXY_ROUNDS_MAX,
    PROXY_SOFT_DEADLINE_PERMILLE, PROXY_TOOL_MS, PROXY_TOTAL_MS, REPLY_BYTES_MAX,
    TOOL_TIMEOUT_CEILING_MS,
};
use crate::manifest::node::{Entry, Node};
use crate::manifest::problem::Problems;
use crate::manifest::shape::Shape;

pub(crate) const ROUNDS: Shape = Shape::Int { min: 1, max: PROXY_ROUNDS_CEILING_MAX };
pub(crate) const ITERATIONS: Shape = Shape::Int { min: 1, max: PROXY_ITERATIONS_CEILING_MAX };
pub(crate) const TURN_MS: Shape = Shape::Int { min: 1, max: TOOL_TIMEOUT_CEILING_MS };
/// A reply is no longer than that before it comes to a turn.
pub(crate) const RESULT_BYTES: Shape =
    Shape::Int { min: PROXY_RESULT_BYTES_MIN, max: REPLY_BYTES_MAX as u64 };

/// Bounds of the calls that are made in one turn of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBounds {
    /// Answers of the model with calls in them.
    pub max_rounds: u32,
    /// Answers with calls, of the runner's own tools too, since the user spoke last: over several turns.
    pub max_tool_iterations: u32,
    /// Time of one call, in milliseconds.
    pub timeout_per_tool_ms: u64,
    /// Time of the turn, in milliseconds.
    pub total_timeout_ms: u64,
    /// What the model is shown of one result, in bytes.
    pub max_tool_result_bytes: usize,
}

impl Default for TurnBounds {
    fn default() -> Self {
        Self {
            max_rounds: PROXY_ROUNDS_MAX,
            max_tool_iterations: PROXY_ITERATIONS_MAX,
            timeout_per_tool_ms: PROXY_TOOL_MS,
            total_timeout_ms: PROXY_TOTAL_MS,
            max_tool_result_bytes: PROXY_RESULT_BYTES_MAX,
        }
    }
}

impl TurnBounds {
    /// Returns the time for calls, in milliseconds: the rest is for the model's last words.
    pub const fn soft_timeout_ms(&self) -> u64 {
        self.total_timeout_ms.saturating_mul(PROXY_SOFT_DEADLINE_PERMILLE) / 1_000
    }

    /// Returns when the last call has ended, in milliseconds, whatever it waits for: half of what is left for the
    /// model's last words is for them in any case.
    pub const fn calls_end_ms(&self) -> u64 {
        u64::midpoint(self.soft_timeout_ms(), self.total_timeout_ms)
    }

    /// Returns these with what `node` states, under keys with `-` or `_` between their words.
    pub(crate) fn with(mut self, node: &Node, problems: &mut Problems) -> Self {
        for Entry { key, node, .. } in node.entries() {
            let Some(number) = node.number(&[]) else { continue };
            match key.replace('-', "_").as_str() {
                "max_rounds" => self.max_rounds = u32::try_from(number).unwrap_or(u32::MAX),
                "max_tool_iterations" => {
                    self.max_tool_iterations = u32::try_from(number).unwrap_or(u32::MAX);
                }
                "timeout_per_tool_ms" => self.timeout_per_tool_ms = number,
                "total_timeout_ms" => self.total_timeout_ms = number,
                "max_tool_result_bytes" => {
                    self.max_tool_result_bytes = usize::try_from(number).unwrap_or(usize::MAX);
                }
                _ => {}
            }
        }
        let (one, all) = (self.timeout_per_tool_ms, self.total_timeout_ms);
        if all < one {
            let reason = format!("a turn has {all} ms, and one tool of it {one} ms");
            problems.invalid(&node.at, reason, "give the whole turn at least the time of one tool");
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_before_their_turn_does_however_short_it_is() {
        for total_timeout_ms in [40, 5_000, PROXY_TOTAL_MS] {
            let bounds = TurnBounds { total_timeout_ms, ..TurnBounds::default() };
            let (soft, end) = (bounds.soft_timeout_ms(), bounds.calls_end_ms());
            assert!(soft < end && end < total_timeout_ms, "{soft} {end} {total_timeout_ms}");
        }
    }
}
