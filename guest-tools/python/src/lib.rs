//! Built-in tool: `python_exec`, a Python program in its own interpreter.

use claw_script::{Ran, Script};
use claw_tool::ToolError;

#[cfg(target_arch = "wasm32")]
claw_script::random_from_the_host!(getrandom_03);

fn python_exec(script: &Script) -> Result<Ran, ToolError> {
    claw_script::run(script, |script, output| {
        claw_interpreter_python::interpret(script, output, None)
    })
}

claw_tool::export! {
    /// Runs a Python program and returns its result as JSON, with what it printed. It is a subset
    /// of Python 3: no packages, no files, no network; of the standard library there are asyncio,
    /// base64, binascii, collections, dataclasses, datetime, functools, itertools, json, math, re,
    /// sys, typing, unicodedata, and the clock is in UTC. The language has no `yield`, `match` and
    /// `del`, classes have no parents, no `@property`, `@classmethod` or `@staticmethod` and no
    /// operators, and texts are put together by f-strings or `format`, not by `%`. An error tells its line.
    python_exec [read_only, closed_world],
}
