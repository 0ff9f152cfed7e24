//! How a command ended, as a caller reads it.

use schemars::JsonSchema;
use serde::Serialize;

use super::Outcome;

/// How the command ended, and what it said.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Its exit code; -1 where a signal ended it.
    exit_code: i32,
    /// Standard output as text; bytes that are not UTF-8 are replaced.
    stdout: String,
    /// Standard error as text; bytes that are not UTF-8 are replaced.
    stderr: String,
    /// Wall time in milliseconds.
    duration_ms: u64,
    /// The true size of standard output in bytes, where only its beginning is returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_bytes: Option<u64>,
    /// The true size of standard error in bytes, where only its beginning is returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        Self {
            exit_code: outcome.exit_code.unwrap_or(-1),
            stdout_bytes: cut(&outcome.stdout, outcome.stdout_bytes),
            stderr_bytes: cut(&outcome.stderr, outcome.stderr_bytes),
            stdout: text(outcome.stdout),
            stderr: text(outcome.stderr),
            duration_ms: outcome.duration_ms,
        }
    }
}

/// The true size, where `kept` is less than it.
fn cut(kept: &[u8], true_bytes: u64) -> Option<u64> {
    (true_bytes > kept.len() as u64).then_some(true_bytes)
}

/// Reuses the bytes where they are UTF-8, which is nearly always.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_size_is_told_only_where_output_was_cut() {
        assert_eq!(cut(b"abc", 3), None);
        assert_eq!(cut(b"abc", 9), Some(9));
    }

    #[test]
    fn a_signal_is_minus_one_and_odd_bytes_are_replaced() {
        let ended = Ended::from(Outcome {
            exit_code: None,
            stdout: b"a\xff".to_vec(),
            stderr: Vec::new(),
            stdout_bytes: 2,
            stderr_bytes: 0,
            duration_ms: 1,
        });
        assert_eq!((ended.exit_code, ended.stdout.as_str()), (-1, "a\u{fffd}"));
    }
}
