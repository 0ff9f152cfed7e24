//! One program in one interpreter: its input, its time, its result.

use std::cell::RefCell;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use boa_engine::ast::function::FunctionBody;
use boa_engine::ast::operations::{ContainsSymbol, contains};
use boa_engine::builtins::promise::PromiseState;
use boa_engine::context::time::{Clock, JsInstant};
use boa_engine::interner::Interner;
use boa_engine::job::{JobExecutor, SimpleJobExecutor};
use boa_engine::object::builtins::JsPromise;
use boa_engine::parser::Parser;
use boa_engine::property::Attribute;
use boa_engine::{
    Context, JsError, JsNativeError, JsResult, JsValue, Script as Program, Source, js_string,
};
use claw_script::{Failure, Output, Script, monotonic, wall};

use crate::console;
use crate::rejections::Rejections;

/// Steps of a program between two looks at the clock: about a millisecond.
const STEPS_PER_LOOK: u32 = 50_000;
/// What the body of a function returns that does not say: its own variable `result`.
const RESULT: &str = "return typeof result === 'undefined' ? undefined : result";
/// Places in the program that an error tells.
const PLACES_MAX: usize = 8;

/// An interpreter, and what is held of it outside.
struct Engine {
    context: Context,
    jobs: Rc<SimpleJobExecutor>,
    rejections: Rc<Rejections>,
}

/// A program, ready to run.
struct Parsed {
    program: Program,
    /// It is the body of a function: its value is a promise of what it returns.
    is_body: bool,
}

/// Runs a program, which has what `prepare` gives it beside its input, and returns its result as JSON.
///
/// # Errors
/// It failed, its time was over, or a promise was rejected that nothing awaits.
pub fn interpret(
    script: &Script,
    output: &Rc<Output>,
    prepare: impl FnOnce(&mut Context) -> JsResult<()>,
) -> Result<String, Failure> {
    let deadline = monotonic() + script.time();
    let engine = engine(script, output).and_then(|mut engine| {
        prepare(&mut engine.context)?;
        Ok(engine)
    });
    let mut engine = engine.map_err(|error| told(&error))?;
    let parsed = parse(&script.code, &mut engine.context).map_err(|error| told(&error))?;
    let last = engine.evaluate(&parsed.program, deadline)?;
    let result = result(last, parsed.is_body, &mut engine.context);
    let result = result.map_err(|error| told(&error))?;
    match engine.rejections.first() {
        None => Ok(result),
        Some(reason) => Err(unawaited(reason)),
    }
}

fn engine(script: &Script, output: &Rc<Output>) -> JsResult<Engine> {
    let (jobs, rejections) = (Rc::new(SimpleJobExecutor::new()), Rc::new(Rejections::default()));
    let mut context = Context::builder()
        .clock(Rc::new(HostClock))
        .job_executor(Rc::clone(&jobs))
        .host_hooks(Rc::clone(&rejections))
        .build()?;
    context.runtime_limits_mut().set_backtrace_limit(PLACES_MAX);
    console::install(&mut context, Rc::clone(output))?;
    let input = JsValue::from_json(&script.input, &mut context)?;
    context.register_global_property(js_string!("input"), input, Attribute::all())?;
    Ok(Engine { context, jobs, rejections })
}

impl Engine {
    /// Runs the program's own lines, then the jobs of its promises. A job, a function that the
    /// language calls back and a regular expression are not interrupted: their time is the host's
    /// to end.
    fn evaluate(&mut self, program: &Program, deadline: Duration) -> Result<JsValue, Failure> {
        let running = program.evaluate_async_with_budget(&mut self.context, STEPS_PER_LOOK);
        let value = in_time(running, deadline)?;
        let context = RefCell::new(&mut self.context);
        in_time(Rc::clone(&self.jobs).run_jobs_async(&context), deadline)?;
        Ok(value)
    }
}

/// Runs to the end, with a look at the clock at each pause and last.
fn in_time<T>(
    running: impl Future<Output = JsResult<T>>,
    deadline: Duration,
) -> Result<T, Failure> {
    let mut running = pin!(running);
    let mut waiting = std::task::Context::from_waker(Waker::noop());
    loop {
        let polled = running.as_mut().poll(&mut waiting);
        if monotonic() > deadline {
            return Err(Failure::Late);
        }
        if let Poll::Ready(ended) = polled {
            return ended.map_err(|error| told(&error));
        }
    }
}

/// Parses a program; one with `await` or `return` outside of functions is the body of one.
fn parse(code: &str, context: &mut Context) -> JsResult<Parsed> {
    let mut parsed = |code: &str, is_body| {
        let source = Source::from_bytes(code).with_path(Path::new("script.js"));
        Program::parse(source, None, context).map(|program| Parsed { program, is_body })
    };
    let Some(body) = body(code) else { return parsed(code, false) };
    // On the same lines, so that errors tell the same places.
    let whole = format!("(async () => {{{code}\n{RESULT}}})()");
    // As a script, `await (x)` would call a function of that name, and `await [x]` ask for a member.
    if contains(&body, ContainsSymbol::AwaitExpression) {
        return parsed(&whole, true);
    }
    parsed(code, false).or_else(|error| parsed(&whole, true).map_err(|_| error))
}

/// Returns the program as the body of a function, where it has words that only such a body may have.
fn body(code: &str) -> Option<FunctionBody> {
    if !["await", "return"].iter().any(|word| code.contains(word)) {
        return None;
    }
    let source = Source::from_bytes(code);
    Parser::new(source).parse_function_body(&mut Interner::new(), false, true).ok()
}

/// Returns what the program returned, else the variable `result`, else `last`, as JSON.
fn result(last: JsValue, is_body: bool, context: &mut Context) -> JsResult<String> {
    let returned = if is_body { settled(last.clone())? } else { JsValue::undefined() };
    let value = if returned.is_undefined() { named(last, context)? } else { returned };
    let json = context.intrinsics().objects().json();
    let stringify = json.get(js_string!("stringify"), context)?;
    let text = stringify.as_callable().map(|call| call.call(&json.into(), &[value], context));
    // What has no JSON form, such as undefined or a function, is no result.
    let text = text.transpose()?.and_then(|text| text.as_string());
    Ok(text.map_or_else(|| "null".to_owned(), |text| text.to_std_string_lossy()))
}

/// Returns what the variable `result`, or `last` where there is none, settled to.
fn named(last: JsValue, context: &mut Context) -> JsResult<JsValue> {
    let named =
        context.eval(Source::from_bytes("typeof result === 'undefined' ? undefined : result"))?;
    settled(if named.is_undefined() { last } else { named })
}

/// Returns what a promise settled to, and any other value as it is.
fn settled(value: JsValue) -> JsResult<JsValue> {
    let promise = value.as_object().and_then(|object| JsPromise::from_object(object).ok());
    match promise.map(|promise| promise.state()) {
        None => Ok(value),
        Some(PromiseState::Fulfilled(value)) => Ok(value),
        Some(PromiseState::Rejected(reason)) => Err(JsError::from_opaque(reason)),
        Some(PromiseState::Pending) => {
            Err(JsNativeError::error().with_message("the promise never settles").into())
        }
    }
}

fn told(error: &JsError) -> Failure {
    Failure::Program(error.to_string())
}

fn unawaited(reason: JsValue) -> Failure {
    let error = JsError::from_opaque(reason);
    Failure::Program(format!("in a promise that nothing awaits: {error}"))
}

/// The host's clocks, as the interpreter asks them.
struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> JsInstant {
        let now = monotonic();
        JsInstant::new(now.as_secs(), now.subsec_nanos())
    }

    fn system_time_millis(&self) -> i64 {
        i64::try_from(wall().as_millis()).unwrap_or(i64::MAX)
    }
}
