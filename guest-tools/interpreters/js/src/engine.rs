//! One program in one interpreter: its input, its time, its result.

use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use boa_engine::builtins::promise::PromiseState;
use boa_engine::context::time::{Clock, JsInstant};
use boa_engine::object::builtins::JsPromise;
use boa_engine::property::Attribute;
use boa_engine::{
    Context, JsError, JsNativeError, JsResult, JsValue, Script as Program, Source, js_string,
};
use claw_script::{Failure, Output, Script, monotonic, wall};

use crate::console;

/// Steps of a program between two looks at the clock: about a millisecond.
const STEPS_PER_LOOK: u32 = 50_000;
/// What the body of a function returns that does not say: its own variable `result`.
const RESULT: &str = "return typeof result === 'undefined' ? undefined : result";
/// Places in the program that an error tells.
const PLACES_MAX: usize = 8;

/// Runs a program, which has what `prepare` gives it beside its input, and returns its result as JSON.
///
/// # Errors
/// It failed, or its time was over.
pub fn interpret(
    script: &Script,
    output: &Rc<Output>,
    prepare: impl FnOnce(&mut Context) -> JsResult<()>,
) -> Result<String, Failure> {
    let deadline = monotonic() + script.time();
    let context = context(script, output).and_then(|mut context| {
        prepare(&mut context)?;
        Ok(context)
    });
    let mut context = context.map_err(|error| told(&error))?;
    let value = evaluate(&script.code, &mut context, deadline)?;
    result(value, &mut context).map_err(|error| told(&error))
}

fn context(script: &Script, output: &Rc<Output>) -> JsResult<Context> {
    let mut context = Context::builder().clock(Rc::new(HostClock)).build()?;
    context.runtime_limits_mut().set_backtrace_limit(PLACES_MAX);
    console::install(&mut context, Rc::clone(output))?;
    let input = JsValue::from_json(&script.input, &mut context)?;
    context.register_global_property(js_string!("input"), input, Attribute::all())?;
    Ok(context)
}

/// Runs the program's own lines. The time of functions that the language calls back, and of
/// promises, is the host's to end.
fn evaluate(code: &str, context: &mut Context, deadline: Duration) -> Result<JsValue, Failure> {
    let program = parse(code, context).map_err(|error| told(&error))?;
    let value = {
        let mut running = pin!(program.evaluate_async_with_budget(context, STEPS_PER_LOOK));
        loop {
            match running.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
                Poll::Ready(value) => break value.map_err(|error| told(&error))?,
                Poll::Pending if monotonic() > deadline => return Err(Failure::Late),
                Poll::Pending => {}
            }
        }
    };
    context.run_jobs().map_err(|error| told(&error))?;
    if monotonic() > deadline { Err(Failure::Late) } else { Ok(value) }
}

/// Parses a program; one with `await` or `return` outside of functions is the body of one.
fn parse(code: &str, context: &mut Context) -> JsResult<Program> {
    let mut parsed = |code: &str| {
        let source = Source::from_bytes(code).with_path(Path::new("script.js"));
        Program::parse(source, None, context)
    };
    let first = parsed(code);
    // On the same lines, so that errors tell the same places.
    first.or_else(|error| {
        parsed(&format!("(async () => {{{code}\n{RESULT}}})()")).map_err(|_| error)
    })
}

/// Returns the variable `result`, or `last` where there is none, as JSON.
fn result(last: JsValue, context: &mut Context) -> JsResult<String> {
    let named =
        context.eval(Source::from_bytes("typeof result === 'undefined' ? undefined : result"))?;
    let value = settled(if named.is_undefined() { last } else { named })?;
    let json = context.intrinsics().objects().json();
    let stringify = json.get(js_string!("stringify"), context)?;
    let text = stringify.as_callable().map(|call| call.call(&json.into(), &[value], context));
    // What has no JSON form, such as undefined or a function, is no result.
    let text = text.transpose()?.and_then(|text| text.as_string());
    Ok(text.map_or_else(|| "null".to_owned(), |text| text.to_std_string_lossy()))
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
