//! Built-in tool: `js_exec`, a JavaScript program in its own interpreter.

use claw_script::{Ran, Script};
use claw_tool::ToolError;

#[cfg(target_arch = "wasm32")]
claw_script::random_from_the_host!(getrandom_04);

fn js_exec(script: &Script) -> Result<Ran, ToolError> {
    claw_script::run(script, |script, output| {
        claw_interpreter_js::interpret(script, output, |_| Ok(()))
    })
}

claw_tool::export! {
    /// Runs a JavaScript program and returns its result as JSON, with what it printed through
    /// `console`. The program has the language's own objects and nothing else: no files, no
    /// network, no modules, no timers. Where the result is a promise, what it settles to is the
    /// result; a program with `await` or `return` outside of functions has to return it, and that
    /// comes before the variable `result`. A promise that is rejected and never awaited fails the
    /// program. An error tells its place in the program as `script.js:line:column`. `timeout_ms` does
    /// not interrupt what runs from one `await` to the next, functions that the language calls back
    /// (as `map` does) and regular expressions: these end with the sandbox's time.
    js_exec [read_only, closed_world],
}
