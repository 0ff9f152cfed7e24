//! What the tools that run a caller's own programs have in common: their contract, the time a
//! program has, its output, and the form of its result.
//!
//! Deliberately absent: any power. A program reaches what its interpreter offers, and that is a
//! clock, random numbers and its own memory; memory and the last word on time are the host's.

mod clock;
mod output;
mod random;
mod shape;

use std::rc::Rc;
use std::time::Duration;

use claw_tool::ToolError;
use serde_json::{Map, Value};

pub use clock::{monotonic, wall};
pub use output::Output;
#[doc(hidden)]
pub use random::fill;
use shape::Shape;

/// A program's time where the caller does not say.
const TIMEOUT_DEFAULT_MS: u64 = 2_000;

/// The most time a caller may ask for.
const TIMEOUT_MAX_MS: u64 = 300_000;

/// Arguments of a tool that runs a program.
#[claw_tool::input]
pub struct Script {
    /// The program. Its result is the variable `result`, or where it sets none, the value of its
    /// last expression.
    pub code: String,
    /// Any JSON; the program finds it in the variable `input`.
    #[serde(default)]
    pub input: Value,
    /// Milliseconds the program may run. More than 300000 counts as 300000; the tool's sandbox
    /// may allow less.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1))]
    timeout_ms: u64,
    /// A JSON Schema that the result has to match: type, properties, required,
    /// additionalProperties, items, enum, const, and bounds of numbers, text and lists.
    #[serde(default)]
    result_schema: Option<Map<String, Value>>,
}

/// What a program that ended well leaves.
#[claw_tool::output]
pub struct Ran {
    /// The result; null where there is none.
    result: Value,
    /// The same as JSON text, with every digit of long numbers.
    result_json: String,
    /// What the program printed.
    stdout: String,
    /// What it printed as warnings and errors.
    stderr: String,
    /// The true size of `stdout` in bytes, where only its beginning is returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_bytes: Option<u64>,
    /// The true size of `stderr` in bytes, where only its beginning is returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
    /// Wall time in milliseconds.
    duration_ms: u64,
}

/// Why a program has no result.
#[derive(Debug)]
pub enum Failure {
    /// It failed: the interpreter's message, with the line.
    Program(String),
    /// Its time was over.
    Late,
}

impl Script {
    /// Returns a program whose result may be anything.
    #[must_use]
    pub fn new(code: String, input: Value, timeout_ms: u64) -> Self {
        Self { code, input, timeout_ms, result_schema: None }
    }

    /// Returns the time the program has.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.min(TIMEOUT_MAX_MS))
    }
}

/// Has `interpret` run a program and return its result as JSON text.
///
/// # Errors
/// `invalid-args` where `result_schema` is not understood, `timeout` where the program's time was
/// over, `execution-failed` where it failed or its result does not match.
pub fn run(
    script: &Script,
    interpret: impl FnOnce(&Script, &Rc<Output>) -> Result<String, Failure>,
) -> Result<Ran, ToolError> {
    let shape = script.result_schema.as_ref().map(Shape::parse).transpose();
    let shape = shape.map_err(|why| ToolError::invalid_args(format!("result_schema: {why}")))?;
    let (start, output) = (clock::monotonic(), Rc::new(Output::default()));
    let result_json = interpret(script, &output).map_err(|failure| match failure {
        Failure::Program(message) => ToolError::failed(output.after(&message)),
        Failure::Late => {
            let late = format!("the program did not end within {} ms", script.time().as_millis());
            ToolError::Timeout(output.after(&late))
        }
    })?;
    let result = parse(&result_json)?;
    if let Some(why) = shape.and_then(|shape| shape.mismatch(&result, "result")) {
        return Err(ToolError::failed(output.after(&format!("result_schema: {why}"))));
    }
    let took = clock::monotonic().saturating_sub(start);
    let ([stdout, stderr], [stdout_bytes, stderr_bytes]) = output.finish();
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Ok(Ran { result, result_json, stdout, stderr, stdout_bytes, stderr_bytes, duration_ms })
}

fn parse(json: &str) -> Result<Value, ToolError> {
    serde_json::from_str(json).map_err(|error| {
        let why = match error.to_string() {
            // An interpreter writes no escape that is wrong but that of such a half.
            why if why.contains("hex escape") => {
                "a text in it has half of a character, a lone surrogate".to_owned()
            }
            why if why.starts_with("recursion limit") => "a value is nested too deeply".to_owned(),
            why => why,
        };
        ToolError::failed(format!("the result has no JSON form: {why}"))
    })
}

fn timeout_default() -> u64 {
    TIMEOUT_DEFAULT_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_one_that_is_written() {
        for number in ["123456789.12345679", "0.9998826467530733", "5e-324"] {
            assert_eq!(parse(number).unwrap().to_string(), number);
        }
    }

    #[test]
    fn half_of_a_character_is_told_as_that_and_nesting_as_that() {
        let why = |json: &str| match parse(json) {
            Err(ToolError::ExecutionFailed(why)) => why,
            other => panic!("{other:?}"),
        };
        for half in [r#""\ud800""#, r#""\ud800x""#, r#""\udc00""#, r#""\ud800\ud800""#] {
            assert!(why(half).contains("half of a character"), "{half}: {}", why(half));
        }
        let deep = format!(r#"{}"C:\\udder"{}"#, "[".repeat(200), "]".repeat(200));
        assert!(why(&deep).ends_with("a value is nested too deeply"), "{}", why(&deep));
    }
}
