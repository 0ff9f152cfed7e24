//! Native programs in the host's jail. Needs a profile that grants processes.
//!
//! [`timeout`] and [`Ended`] serve every tool that runs commands, native or not, and need nothing.

mod ended;

use std::time::Duration;

use crate::bindings::claw::host::process::{self, ProcessError};
use crate::error::ToolError;

pub use crate::bindings::claw::host::process::{Command, Outcome, Program};
pub use ended::Ended;

/// The longest command line the host takes.
pub const SCRIPT_BYTES_MAX: usize = 65_536;

/// The most time a caller may ask for.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Returns the time that a caller asked for in seconds, at most [`TIMEOUT_MAX`].
///
/// # Errors
/// `invalid-args` where it is none.
pub fn timeout(seconds: f64) -> Result<Duration, ToolError> {
    if seconds <= 0.0 {
        return Err(ToolError::invalid_args("timeout must be above 0 seconds"));
    }
    Duration::try_from_secs_f64(seconds.min(TIMEOUT_MAX.as_secs_f64()))
        .map_err(|error| ToolError::invalid_args(format!("timeout: {error}")))
}

/// Returns the command that runs `program` for at most `timeout` (1 ms to about 49 days), with
/// closed standard input, the profile's environment and without a network.
pub fn command(program: Program, timeout: Duration) -> Command {
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
    Command { run: program, stdin: Vec::new(), timeout_ms, env: Vec::new(), network: false }
}

/// Runs `command` in the granted working directory and waits for it and all it started.
///
/// # Errors
/// `invalid-args` for a command line that is too long or holds a NUL, `permission-denied` where
/// the profile or the jail refuses, `timeout`, and `execution-failed` where it could not start
/// or too many run.
pub fn run(command: &Command) -> Result<Outcome, ToolError> {
    check(&command.run)?;
    process::run(command).map_err(|error| match error {
        ProcessError::Denied(why) => ToolError::PermissionDenied(why),
        ProcessError::Busy(why) | ProcessError::Failed(why) => ToolError::ExecutionFailed(why),
        ProcessError::Timeout => ToolError::Timeout(format!(
            "the command did not end within {} s; it and everything it started was killed",
            Duration::from_millis(command.timeout_ms.into()).as_secs_f64()
        )),
    })
}

fn check(program: &Program) -> Result<(), ToolError> {
    let texts = match program {
        Program::Sh(script) | Program::Bash(script) => std::slice::from_ref(script),
        Program::Argv(argv) => argv,
    };
    let is_script = !matches!(program, Program::Argv(_));
    if let Some(long) = texts.iter().find(|text| is_script && text.len() > SCRIPT_BYTES_MAX) {
        return Err(ToolError::invalid_args(format!(
            "a command line may have {SCRIPT_BYTES_MAX} bytes, this one has {}",
            long.len()
        )));
    }
    if texts.iter().any(|text| text.contains('\0')) {
        return Err(ToolError::invalid_args("a command cannot hold a NUL character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_bounded_and_has_no_nul() {
        let sh = |script: &str| check(&Program::Sh(script.to_owned()));
        assert!(sh("echo hi").is_ok());
        assert!(matches!(sh("a\0b"), Err(ToolError::InvalidArgs(_))));
        let long = "x".repeat(SCRIPT_BYTES_MAX + 1);
        assert!(matches!(sh(&long), Err(ToolError::InvalidArgs(_))));
        let argv =
            |list: &[&str]| check(&Program::Argv(list.iter().map(ToString::to_string).collect()));
        assert!(argv(&["echo", &long]).is_ok());
        assert!(matches!(argv(&["echo", "\0"]), Err(ToolError::InvalidArgs(_))));
    }

    #[test]
    fn a_timeout_is_above_zero_and_capped() {
        assert_eq!(timeout(0.25).unwrap(), Duration::from_millis(250));
        assert_eq!(timeout(1e9).unwrap(), TIMEOUT_MAX);
        assert!(timeout(0.0).is_err());
        assert!(timeout(f64::NAN).is_ok_and(|time| time == TIMEOUT_MAX), "JSON has no NaN");
    }

    #[test]
    fn no_time_is_the_least_time() {
        let with = |timeout| command(Program::Argv(Vec::new()), timeout).timeout_ms;
        assert_eq!((with(Duration::ZERO), with(Duration::MAX)), (1, u32::MAX));
    }
}
