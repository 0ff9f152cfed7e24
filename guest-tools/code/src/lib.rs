//! Built-in tool: `run_code`, a program that calls other tools.
//!
//! Deliberately absent: any power but these calls, and any decision about them. Each is the host's to
//! admit, to bound and to record, as if the agent had made it.

use std::time::Duration;

use boa_engine::{
    Context, JsNativeError, JsResult, JsString, JsValue, NativeFunction, Source, js_string,
};
use claw_interpreter_python::Host;
use claw_script::{Ran, Script, monotonic};
use claw_tool::{ToolError, tools};
use serde_json::{Value, json};

#[cfg(target_arch = "wasm32")]
claw_script::random_from_the_host!(getrandom_04);

/// A program's time where the caller does not say: that of most tools.
const TIMEOUT_DEFAULT_MS: u64 = 30_000;

/// Arguments of `run_code`.
#[claw_tool::input]
struct Code {
    /// The program. Its result is what it returns, else the variable `result`, else the value of its
    /// last expression; in Python the variable `result` comes first.
    code: String,
    #[serde(default)]
    language: Language,
    /// Any JSON; the program finds it in the variable `input`.
    #[serde(default)]
    input: Value,
    /// Milliseconds the program and all its calls may take; the sandbox may allow less. Of
    /// JavaScript, what runs from one `await` to the next, functions that the language calls back
    /// (as `map` does) and regular expressions are not interrupted by it: these end with the
    /// sandbox's time.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1))]
    timeout_ms: u64,
}

/// What the program is written in.
#[claw_tool::input]
#[derive(Default)]
#[serde(rename_all = "lowercase")]
enum Language {
    /// JavaScript.
    #[default]
    Javascript,
    /// A subset of Python 3: no `yield`, `match` and `del`, no inheritance, no `%` on texts.
    Python,
}

fn run_code(code: &Code) -> Result<Ran, ToolError> {
    let script = Script::new(code.code.clone(), code.input.clone(), code.timeout_ms);
    let ends_at = monotonic() + script.time();
    claw_script::run(&script, |script, output| match code.language {
        Language::Javascript => {
            let prepare = |context: &mut Context| prepare(context, ends_at);
            claw_interpreter_js::interpret(script, output, prepare)
        }
        Language::Python => {
            let answers = |calls: &[(String, String)]| answers(calls, ends_at);
            let host = Host { prelude: include_str!("tools.py"), answers: &answers, list: &list };
            claw_interpreter_python::interpret(script, output, Some(host))
        }
    })
}

/// Gives JavaScript programs of `context` their `tools`.
fn prepare(context: &mut Context, ends_at: Duration) -> JsResult<()> {
    let host = NativeFunction::from_copy_closure(move |_, given, _| {
        let calls = given.first().and_then(JsValue::as_string).unwrap_or_default();
        let calls = serde_json::from_str::<Vec<_>>(&calls.to_std_string_lossy())
            .map_err(|error| JsNativeError::typ().with_message(error.to_string()))?;
        let answers = answers(&calls, ends_at).join(",");
        Ok(JsString::from(format!("[{answers}]")).into())
    });
    let list = NativeFunction::from_fn_ptr(|_, _, _| Ok(JsString::from(list()).into()));
    context.register_global_callable(js_string!("__host"), 1, host)?;
    context.register_global_callable(js_string!("__list"), 0, list)?;
    context.eval(Source::from_bytes(include_str!("tools.js"))).map(drop)
}

/// Calls tools by their names side by side; returns each answer as JSON, `value` or `error`.
fn answers(calls: &[(String, String)], ends_at: Duration) -> Vec<String> {
    let left = ends_at.saturating_sub(monotonic()).as_millis();
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    tools::call_all(calls, Some(left)).into_iter().map(told).collect()
}

/// Returns all tools as JSON.
fn list() -> String {
    tools::list().iter().map(listed).collect::<Value>().to_string()
}

fn told(answer: Result<String, tools::CallError>) -> String {
    match answer {
        // It is JSON already, and may be long.
        Ok(value) => format!("{{\"value\":{value}}}"),
        Err(tools::CallError { code, kind, message }) => {
            json!({ "error": { "code": code, "kind": kind, "message": message } }).to_string()
        }
    }
}

fn listed(tool: &tools::Tool) -> Value {
    let schema = serde_json::from_str::<Value>(&tool.input_schema).unwrap_or_default();
    json!({ "name": tool.name, "description": tool.description, "input_schema": schema })
}

fn timeout_default() -> u64 {
    TIMEOUT_DEFAULT_MS
}

claw_tool::export! {
    /// Runs a program that calls other tools: many calls, and what to do with their results, in one.
    /// In JavaScript `tools.read_file({path: "a.txt"})` or `tools.call("read_file", {path: "a.txt"})`,
    /// in Python `tools.call("read_file", {"path": "a.txt"})`; `tools.list()` has their names and
    /// schemas. A call returns the tool's result when it is done; `await` is not needed, and a
    /// program with `await` outside of functions has to return its result. `tools.start` takes what `tools.call`
    /// does and waits for nothing, so that calls run side by side:
    /// `await Promise.all([tools.start("a", {}), tools.start("b", {})])`, in Python `await asyncio.gather(…)`;
    /// in Python a call that is started and never awaited is not made. A call that is refused or
    /// fails raises an error: in JavaScript a `tools.ToolError` with `code`, `kind` and `message`, in
    /// Python a `RuntimeError` whose text has them, as `tools.error["kind"]` and so on do; in JavaScript the program fails too where such an error is in a promise that it never awaits. What the program prints is returned too; it has no files, no network and
    /// no modules but those calls.
    run_code,
}
