//! Built-in tools: `exec_shell`, `bash_exec` and `spawn`, native programs in the host's jail.
//!
//! This component holds no policy: whether, where and what may run is the host's to say.

mod bash;
mod spawn;

use std::time::Duration;

use claw_tool::ToolError;
use claw_tool::process::{self, Command, Ended, Program, TIMEOUT_MAX};

use bash::bash_exec;
use spawn::spawn;

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

fn timeout_default() -> f64 {
    30.0
}

fn exec_shell(args: &ExecShell) -> Result<Ended, ToolError> {
    let timeout = process::timeout(args.timeout)?;
    let command = command(Program::Sh(line(&args.command)?), timeout);
    process::run(&command).map(Ended::from)
}

/// The command line, if there is one.
fn line(command: &str) -> Result<String, ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::invalid_args("command is empty"));
    }
    Ok(command.to_owned())
}

fn command(program: Program, timeout: Duration) -> Command {
    process::command(program, timeout.min(TIMEOUT_MAX))
}

claw_tool::export! {
    /// Runs a command line with `sh -c` in the workspace and returns its exit code, standard
    /// output and standard error. The environment is cleared, standard input is closed and there
    /// is no network. A command that fails is a result with its exit code, not an error. The
    /// host may admit only some programs and a plain grammar; a refusal says which.
    exec_shell [destructive, open_world],
    /// Runs a command line with `bash -c` in the workspace, after writing `files` there, and
    /// returns its exit code, output and, as `result_json`, the JSON of the last line it prints
    /// that begins with `__RESULT__:`. Up to 64 KB are returned of each stream, and of more than
    /// 1 MiB the end is gone: then there is no `result_json`. Two seconds unless `timeout_ms` says
    /// more; no network unless `allow_network` asks and the host grants it.
    bash_exec [destructive, open_world],
    /// Runs one program with its arguments in the workspace, without a shell: nothing in the
    /// arguments is expanded. Returns its exit code, standard output and standard error. Up to
    /// five run at once.
    spawn [destructive, open_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_no_more_time_than_there_is() {
        let asked = command(Program::Argv(Vec::new()), Duration::from_secs(9_999));
        assert_eq!(asked.timeout_ms, 300_000);
    }

    #[test]
    fn an_empty_command_line_is_none() {
        assert!(line(" \n").is_err());
        assert_eq!(line(" ls ").unwrap(), " ls ");
    }
}
