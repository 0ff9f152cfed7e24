//! Built-in tool: `exec_shell`, one shell command in the host's jail.
//!
//! This component holds no policy: whether and where a command may run is the host's to say.

use std::time::Duration;

use claw_tool::{ToolError, process};

/// A command's time where the caller does not say.
const TIMEOUT_DEFAULT_SECONDS: f64 = 30.0;

/// The most time a caller may ask for.
const TIMEOUT_MAX_SECONDS: f64 = 300.0;

/// Arguments of `exec_shell`.
#[claw_tool::input]
struct ExecShell {
    /// The command line, run by `sh -c` in the workspace.
    command: String,
    /// Seconds until the command and everything it started is killed; fractions are fine.
    /// More than 300 counts as 300.
    #[serde(default = "timeout_default")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
}

/// How the command ended, and what it said.
#[claw_tool::output]
struct Ended {
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

fn exec_shell(args: &ExecShell) -> Result<Ended, ToolError> {
    if args.command.trim().is_empty() {
        return Err(ToolError::invalid_args("command is empty"));
    }
    let outcome = process::shell(&args.command, timeout(args.timeout)?)?;
    Ok(Ended {
        exit_code: outcome.exit_code.unwrap_or(-1),
        stdout_bytes: cut(&outcome.stdout, outcome.stdout_bytes),
        stderr_bytes: cut(&outcome.stderr, outcome.stderr_bytes),
        stdout: text(outcome.stdout),
        stderr: text(outcome.stderr),
        duration_ms: outcome.duration_ms,
    })
}

fn timeout_default() -> f64 {
    TIMEOUT_DEFAULT_SECONDS
}

fn timeout(seconds: f64) -> Result<Duration, ToolError> {
    if seconds <= 0.0 {
        return Err(ToolError::invalid_args("timeout must be above 0 seconds"));
    }
    Duration::try_from_secs_f64(seconds.min(TIMEOUT_MAX_SECONDS))
        .map_err(|error| ToolError::invalid_args(format!("timeout: {error}")))
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

claw_tool::export! {
    /// Runs a command line with `sh -c` in the workspace and returns its exit code, standard
    /// output and standard error. The environment is cleared and standard input is closed. A
    /// command that fails is a result with its exit code, not an error.
    exec_shell [destructive, open_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_above_zero_and_capped() {
        assert_eq!(timeout(0.25).unwrap(), Duration::from_millis(250));
        assert_eq!(timeout(1e9).unwrap(), Duration::from_secs(300));
        assert!(timeout(0.0).is_err());
        assert!(timeout(f64::NAN).is_ok_and(|t| t.as_secs() == 300), "JSON has no NaN");
    }

    #[test]
    fn the_true_size_is_told_only_where_output_was_cut() {
        assert_eq!(cut(b"abc", 3), None);
        assert_eq!(cut(b"abc", 9), Some(9));
    }
}
