//! Built-in tool: `python_exec`, a Python program in its own interpreter.
//!
//! Deliberately absent: everything outside the interpreter. It has a subset of the language and a
//! few modules of the standard library; files, network and other packages are not among them.

mod session;
mod system;

use claw_script::{Ran, Script};
use claw_tool::ToolError;

#[cfg(target_arch = "wasm32")]
claw_script::random_from_the_host!(getrandom_03);

fn python_exec(script: &Script) -> Result<Ran, ToolError> {
    claw_script::run(script, session::interpret)
}

claw_tool::export! {
    /// Runs a Python program and returns its result as JSON, with what it printed. It is a subset
    /// of Python 3: no packages, no files, no network; of the standard library there are asyncio,
    /// base64, binascii, collections, dataclasses, datetime, functools, itertools, json, math, re,
    /// sys, typing, unicodedata, and the clock is in UTC. An error tells its line.
    python_exec [read_only, closed_world],
}
