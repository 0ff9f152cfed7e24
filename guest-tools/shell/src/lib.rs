//! Built-in tools: `wasm_shell`, a shell that needs no process, and `exec_shell` for profiles whose
//! command lines run in it. Which lines run is the host's to say.
//!
//! A POSIX-like shell with the commands that scripts use, all of it inside this component and
//! over the granted files alone. `/` is the granted folder.
//!
//! A pipeline's commands run one after the other, each with what the one before it wrote in
//! memory, up to `PIPE_BYTES_MAX`. A writer that goes on beyond it is stopped, so that
//! `yes | head` ends; a reader that then wants more ends the script, as what it would see is not
//! all there is.
//!
//! Deliberately absent: processes, background jobs, signals, users, and the network.

mod commands;
mod expand;
mod granted;
mod io;
mod limits;
mod options;
mod path;
mod pattern;
mod shell;
mod stop;
mod syntax;
#[cfg(test)]
mod tests;
mod world;

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use claw_tool::ToolError;
use claw_tool::process::{self, Ended, Outcome};

use granted::{Granted, HostClock};
use io::Buffer;
use limits::SCRIPT_BYTES_MAX;
use shell::Shell;
use world::Clock;

/// A script's time where the caller does not say.
const TIMEOUT_DEFAULT_SECONDS: f64 = 30.0;

/// Arguments of `wasm_shell`.
#[claw_tool::input]
struct WasmShell {
    /// The script, in the language of `sh`.
    command: String,
    /// Seconds until the script is ended; fractions are fine. More than 300 counts as 300; the
    /// tool's sandbox may allow less.
    #[serde(default = "timeout_default")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
    /// What the script reads from standard input.
    #[serde(default)]
    stdin: String,
}

/// Arguments of `exec_shell`: those of the tool that starts programs.
#[claw_tool::input]
struct ExecShell {
    /// The command line, in the language of `sh`, run in the workspace.
    command: String,
    /// Seconds until it is ended; fractions are fine. More than 300 counts as 300.
    #[serde(default = "timeout_default")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
}

fn timeout_default() -> f64 {
    TIMEOUT_DEFAULT_SECONDS
}

fn wasm_shell(args: &WasmShell) -> Result<Ended, ToolError> {
    run(&args.command, args.timeout, &args.stdin)
}

fn exec_shell(args: &ExecShell) -> Result<Ended, ToolError> {
    run(&args.command, args.timeout, "")
}

fn run(command: &str, seconds: f64, stdin: &str) -> Result<Ended, ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::invalid_args("command is empty"));
    }
    if command.len() > SCRIPT_BYTES_MAX {
        let why = format!("a script may have {SCRIPT_BYTES_MAX} bytes; put long texts into files");
        return Err(ToolError::invalid_args(why));
    }
    let time = process::timeout(seconds)?;
    let started = HostClock.steady();
    let ended = Shell::run(Rc::new(Granted), Rc::new(HostClock), command, stdin, time);
    let Ok(ended) = ended else {
        let seconds = time.as_secs_f64();
        return Err(ToolError::Timeout(format!("the script did not end within {seconds} s")));
    };
    let (stdout, stdout_bytes) = kept(&ended.stdout);
    let (stderr, stderr_bytes) = kept(&ended.stderr);
    let took = HostClock.steady().saturating_sub(started).as_millis();
    Ok(Ended::from(Outcome {
        exit_code: Some(ended.status),
        stdout,
        stderr,
        stdout_bytes,
        stderr_bytes,
        duration_ms: u64::try_from(took).unwrap_or(u64::MAX),
    }))
}

/// What is kept of a stream, and its true size.
fn kept(buffer: &RefCell<Buffer>) -> (Vec<u8>, u64) {
    let mut buffer = buffer.borrow_mut();
    (mem::take(&mut buffer.bytes), buffer.total)
}

claw_tool::export! {
    /// Runs a shell script over the files of the workspace, without starting any program, and
    /// returns its exit status, standard output and standard error. `/` is the workspace.
    ///
    /// The language is that of POSIX `sh`: pipes, redirections, here-documents, variables,
    /// functions, `$(…)`, `$((…))`, if, for, while, case. The commands are built in: awk, base64,
    /// basename, cat, cmp, comm, cp, cut, date, diff, dirname, echo, env, expr, find, fold, grep,
    /// head, jq, ls, mkdir, mktemp, mv, nl, paste, printf, realpath, rev, rm, rmdir, sed, seq,
    /// sha256sum, sort, tac, tail, tee, touch, tr, tree, truncate, uniq, wc, xargs. There are no
    /// other programs, no background jobs, no network, and no back-references in patterns. The
    /// commands of a pipeline run one after the other, with up to 8 MiB between two of them.
    wasm_shell [destructive, closed_world],
    /// Runs a command line in the workspace, `/`, and returns its exit code, standard output and
    /// standard error. No program is started: the language is that of POSIX `sh`, and the common
    /// commands are built in; one that is not there is answered with the list of those that are. A
    /// command that fails is a result with its exit code, not an error. The host may admit only
    /// some commands and a plain grammar; a refusal says which.
    exec_shell [destructive, closed_world],
}
