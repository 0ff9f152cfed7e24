//! Built-in tool: `wasm_shell`, a shell that needs no process.
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
use std::rc::Rc;
use std::time::Duration;

use claw_tool::ToolError;

use granted::{Granted, HostClock};
use io::Buffer;
use limits::SCRIPT_BYTES_MAX;
use shell::Shell;
use world::Clock;

/// A script's time where the caller does not say.
const TIMEOUT_DEFAULT_SECONDS: f64 = 30.0;

/// The most time a caller may ask for.
const TIMEOUT_MAX_SECONDS: f64 = 300.0;

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

/// How the script ended, and what it said.
#[claw_tool::output]
struct Ended {
    /// Its exit status.
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

fn wasm_shell(args: &WasmShell) -> Result<Ended, ToolError> {
    if args.command.trim().is_empty() {
        return Err(ToolError::invalid_args("command is empty"));
    }
    if args.command.len() > SCRIPT_BYTES_MAX {
        let why = format!("a script may have {SCRIPT_BYTES_MAX} bytes; put long texts into files");
        return Err(ToolError::invalid_args(why));
    }
    let time = timeout(args.timeout)?;
    let started = HostClock.steady();
    let ended = Shell::run(Rc::new(Granted), Rc::new(HostClock), &args.command, &args.stdin, time);
    let Ok(ended) = ended else {
        let seconds = time.as_secs_f64();
        return Err(ToolError::Timeout(format!("the script did not end within {seconds} s")));
    };
    let (stdout, stdout_bytes) = kept(&ended.stdout);
    let (stderr, stderr_bytes) = kept(&ended.stderr);
    let took = HostClock.steady().saturating_sub(started).as_millis();
    let duration_ms = u64::try_from(took).unwrap_or(u64::MAX);
    Ok(Ended { exit_code: ended.status, stdout, stderr, duration_ms, stdout_bytes, stderr_bytes })
}

/// A stream as text, and its true size where it was cut.
fn kept(buffer: &RefCell<Buffer>) -> (String, Option<u64>) {
    let buffer = buffer.borrow();
    let is_cut = buffer.total > buffer.bytes.len() as u64;
    (String::from_utf8_lossy(&buffer.bytes).into_owned(), is_cut.then_some(buffer.total))
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
    /// other programs, no background jobs, no network, and no back-references in patterns.
    wasm_shell [destructive, closed_world],
}
