//! One shell command in the host's jail. Needs a profile that grants processes.

use std::time::Duration;

use crate::bindings::claw::host::process::{Command, ProcessError, run as run_in_jail};
use crate::error::ToolError;

pub use crate::bindings::claw::host::process::Outcome;

/// The longest command line the host takes.
pub const SCRIPT_BYTES_MAX: usize = 65_536;

/// Runs `script` with `/bin/sh -c` in the granted working directory, with closed standard
/// input, and waits for it for at most `timeout` (1 ms to about 49 days).
///
/// # Errors
/// `invalid-args` for a script that is too long or holds a NUL, `permission-denied` where the
/// profile or the jail refuses, `timeout`, and `execution-failed` where it could not start.
pub fn shell(script: &str, timeout: Duration) -> Result<Outcome, ToolError> {
    check(script)?;
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
    let command = Command { script: script.to_owned(), stdin: Vec::new(), timeout_ms };
    run_in_jail(&command).map_err(|error| match error {
        ProcessError::Denied(why) => ToolError::PermissionDenied(why),
        ProcessError::Failed(why) => ToolError::ExecutionFailed(why),
        ProcessError::Timeout => ToolError::Timeout(format!(
            "the command did not end within {} s; it and everything it started was killed",
            timeout.as_secs_f64()
        )),
    })
}

fn check(script: &str) -> Result<(), ToolError> {
    if script.len() > SCRIPT_BYTES_MAX {
        return Err(ToolError::invalid_args(format!(
            "a command line may have {SCRIPT_BYTES_MAX} bytes, this one has {}",
            script.len()
        )));
    }
    if script.contains('\0') {
        return Err(ToolError::invalid_args("a command line cannot hold a NUL character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_bounded_and_has_no_nul() {
        assert!(check("echo hi").is_ok());
        assert!(matches!(check("a\0b"), Err(ToolError::InvalidArgs(_))));
        assert!(matches!(check(&"x".repeat(SCRIPT_BYTES_MAX + 1)), Err(ToolError::InvalidArgs(_))));
    }
}
