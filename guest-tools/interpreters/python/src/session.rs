//! One program in one interpreter: its input, its time, its result.

use std::borrow::Cow;
use std::rc::Rc;

use claw_script::{Failure, Output, Script, monotonic};
use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult,
    PrintWriter, PrintWriterCallback, ResourceLimits, ResourceTracker,
};

use crate::system;

/// Makes `input` of the JSON text `_json`.
const READ: &str = "import json as _read\ninput = _read.loads(_json)";
/// Makes JSON text of `_value`.
const WRITE: &str =
    "import json as _write\n_write.dumps(_value, ensure_ascii=False, allow_nan=False)";
/// The function by which a prelude reaches what is around it.
const HOST: &str = "_host";
/// The same, for a prelude that awaits the answer.
const START: &str = "_start";
/// The function by which a prelude learns what it may call.
const LIST: &str = "_list";
/// What the interpreter gives in the place of a value that is nested too deeply.
const DEEP: &str = "<deeply nested>";
/// Places in the program that an error tells, the innermost first.
const FRAMES_MAX: usize = 8;

/// What a program asks with.
type Texts = (String, String);

/// What a program has beside its input.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have no text")]
pub struct Host<'a> {
    /// Python that runs before it.
    pub prelude: &'a str,
    /// What the functions `_host` and, awaited, `_start` answer to two texts each; all that wait are asked at once.
    pub answers: &'a dyn Fn(&[Texts]) -> Vec<String>,
    /// What the function `_list` returns.
    pub list: &'a dyn Fn() -> String,
}

/// Runs a program, which has what `host` gives it, and returns its result as JSON.
///
/// # Errors
/// It failed, or its time was over.
pub fn interpret(
    script: &Script,
    output: &Rc<Output>,
    host: Option<Host<'_>>,
) -> Result<String, Failure> {
    let start = monotonic();
    let limits = ResourceLimits::default().max_duration(script.time());
    let tracker = ResourceTracker::new(limits);
    let repl = MontyRepl::new("script.py", tracker, CompileOptions::default());
    let mut printer = Printer(output);
    let mut feed = |repl, code: &str, inputs| feed(repl, code, inputs, &mut printer, host);
    let (repl, read) =
        feed(repl, READ, one("_json", MontyObject::String(script.input.to_string())));
    read.map_err(|error| failure(&repl, error.summary()))?;
    let (repl, prepared) = feed(repl, host.map_or("None", |host| host.prelude), Vec::new());
    prepared.map_err(|error| failure(&repl, error.summary()))?;
    let (repl, last) = feed(repl, &script.code, Vec::new());
    let last = last.map_err(|error| failure(&repl, told(&error)))?;
    // The interpreter counts its own time, and not that of what it waited for.
    if monotonic().saturating_sub(start) > script.time() {
        return Err(Failure::Late);
    }
    let (repl, named) = feed(repl, "result", Vec::new());
    let value = match named {
        Err(error) if error.exc_type() == ExcType::NameError => last,
        named => named.map_err(|error| failure(&repl, error.summary()))?,
    };
    let formless = |why: String| format!("the result has no JSON form: {why}");
    if let Some(why) = unwritable(&value) {
        return Err(Failure::Program(formless(why)));
    }
    let (repl, json) = feed(repl, WRITE, one("_value", value));
    match json.map_err(|error| failure(&repl, formless(error.summary())))? {
        MontyObject::String(json) => Ok(json),
        other => Err(Failure::Program(formless(other.to_string()))),
    }
}

fn one(name: &str, value: MontyObject) -> Vec<(String, MontyObject)> {
    vec![(name.to_owned(), value)]
}

/// Says what in `value` the interpreter does not take back, so that it cannot be written there.
fn unwritable(value: &MontyObject) -> Option<String> {
    let any = |items: &[MontyObject]| items.iter().find_map(unwritable);
    match value {
        MontyObject::Cycle(..) => Some("a value contains itself".to_owned()),
        MontyObject::ClassInstance(one) => {
            Some(format!("a value is of the class {}", one.class_type.name))
        }
        MontyObject::Repr(text) if text == DEEP => Some("a value is nested too deeply".to_owned()),
        MontyObject::Repr(_) => Some("a value is of a type that has none".to_owned()),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => any(items),
        MontyObject::Dict(pairs) => {
            pairs.iter().find_map(|(name, value)| unwritable(name).or_else(|| unwritable(value)))
        }
        _ => None,
    }
}

/// Runs lines of Python with these variables, and answers what they ask of the system.
fn feed(
    repl: MontyRepl,
    code: &str,
    inputs: Vec<(String, MontyObject)>,
    printer: &mut Printer<'_>,
    host: Option<Host<'_>>,
) -> (MontyRepl, Result<MontyObject, MontyException>) {
    let mut started = Vec::new();
    let mut step = repl.feed_start(code, inputs, PrintWriter::Callback(printer));
    loop {
        let print = PrintWriter::Callback(printer);
        step = match step {
            Ok(ReplProgress::Complete { repl, value }) => return (repl, Ok(value)),
            Ok(ReplProgress::OsCall(call)) => call.resume_with(print, |call| system::answer(&call)),
            Ok(ReplProgress::NameLookup(asked)) => {
                let found = [HOST, START, LIST].into_iter().find(|name| asked.name == *name);
                let found = found.filter(|_| host.is_some()).map(function);
                asked.resume(NameLookupResult::from(found), print)
            }
            Ok(ReplProgress::FunctionCall(call)) => match texts(&call) {
                Some(texts) if call.function_name == START => {
                    started.push((call.call_id, texts));
                    call.resume_pending(print)
                }
                texts => {
                    let answer = answer(host, &call.function_name, texts);
                    call.resume(answer, print)
                }
            },
            Ok(ReplProgress::ResolveFutures(waiting)) => {
                let answers = answers(host, std::mem::take(&mut started));
                if answers.is_empty() {
                    let why = "it waits for something outside, and there is nothing";
                    return (waiting.into_repl(), Err(MontyException::runtime_error(why)));
                }
                waiting.resume(answers, print)
            }
            Err(failed) => {
                let ReplStartError { repl, error } = *failed;
                return (repl, Err(error));
            }
        };
    }
}

fn function(name: &str) -> MontyObject {
    MontyObject::Function { name: name.to_owned(), docstring: None }
}

/// Returns the two texts that a function was given.
fn texts(call: &ReplFunctionCall) -> Option<Texts> {
    match &call.args[..] {
        [MontyObject::String(first), MontyObject::String(second)] => {
            Some((first.clone(), second.clone()))
        }
        _ => None,
    }
}

fn answer(host: Option<Host<'_>>, name: &str, texts: Option<Texts>) -> ExtFunctionResult {
    let answer = host.and_then(|host| match (name, texts) {
        (HOST, Some(texts)) => (host.answers)(&[texts]).pop(),
        (LIST, _) => Some((host.list)()),
        _ => None,
    });
    match answer {
        Some(answer) => MontyObject::String(answer).into(),
        None => ExtFunctionResult::NotFound(name.to_owned()),
    }
}

/// Asks for all that was started, at once.
fn answers(host: Option<Host<'_>>, started: Vec<(u32, Texts)>) -> Vec<(u32, ExtFunctionResult)> {
    let (ids, texts): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let answers = host.map(|host| (host.answers)(&texts)).unwrap_or_default();
    ids.into_iter().zip(answers.into_iter().map(|it| MontyObject::String(it).into())).collect()
}

/// The time is looked at first: an error that it was over cannot be caught by the program, but
/// the program can raise one that looks the same.
fn failure(repl: &MontyRepl, message: String) -> Failure {
    let tracker = repl.tracker();
    if tracker.max_duration().is_some_and(|max| tracker.elapsed() > max) {
        return Failure::Late;
    }
    Failure::Program(message)
}

/// What went wrong, then where, so that a long way there hides nothing.
fn told(error: &MontyException) -> String {
    let places = error.traceback().iter().rev().take(FRAMES_MAX).map(ToString::to_string);
    format!("{}\n{}", error.summary(), places.collect::<String>())
}

struct Printer<'a>(&'a Output);

impl PrintWriterCallback for Printer<'_> {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.0.print(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.0.print(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}
