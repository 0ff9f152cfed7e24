//! `spawn`: one program and its arguments, without a shell.

use claw_tool::ToolError;
use claw_tool::process::{self, Ended, Program};

/// Arguments of `spawn`.
#[claw_tool::input]
pub(crate) struct Spawn {
    /// The program: a name, or an absolute path.
    command: String,
    /// Its arguments, each passed on as it is.
    #[serde(default)]
    args: Vec<String>,
    /// What it is for, for people who read the record.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    /// Seconds until the program and everything it started is killed; fractions are fine.
    /// More than 300 counts as 300.
    #[serde(default = "timeout_default")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
}

fn timeout_default() -> f64 {
    60.0
}

pub(crate) fn spawn(args: &Spawn) -> Result<Ended, ToolError> {
    let timeout = process::timeout(args.timeout)?;
    let command = crate::command(Program::Argv(argv(args)?), timeout);
    process::run(&command).map(Ended::from)
}

fn argv(args: &Spawn) -> Result<Vec<String>, ToolError> {
    if args.command.is_empty() {
        return Err(ToolError::invalid_args("command is empty"));
    }
    Ok([&args.command].into_iter().chain(&args.args).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_and_nothing_is_split() {
        let args = |command: &str| Spawn {
            command: command.to_owned(),
            args: vec!["-l *".to_owned()],
            _description: None,
            timeout: timeout_default(),
        };
        assert_eq!(argv(&args("ls x")).unwrap(), ["ls x", "-l *"]);
        assert!(argv(&args("")).is_err());
    }
}
