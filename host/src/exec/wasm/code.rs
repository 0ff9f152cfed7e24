//! One call of each kind of component: arguments in, an answer out.

use bytes::Bytes;
use clawhost_core::json::{self, Length};
use clawhost_core::limits::{FUNCTION_CALL_BYTES_MAX, GUEST_LOG_BYTES_MAX};
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::truncate;
use serde_json::{Map, Value, json};
use wasmtime::component::{ComponentExportIndex, Instance, Val};
use wasmtime::{Store, format_err};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;

use super::{Answer, Job, tool};
use crate::engine;
use crate::engine::kinds::{Function, Kind, value};
use crate::sandbox::CallState;
use crate::sandbox::bindings::GuestIndices;
use crate::sandbox::clock::Exceeded;
use crate::sandbox::log::CallLog;

/// What is to be entered, and with what.
pub(super) enum Code<'a> {
    /// `call` of our own world.
    Tool { indices: &'a GuestIndices, name: &'a String, arguments: &'a String },
    /// `run` of a command, whose state has its arguments and input already.
    Command { run: ComponentExportIndex, stdout: MemoryOutputPipe, stdout_bytes_max: usize },
    /// An exported function.
    Function { function: &'a Function, arguments: Vec<Val> },
}

impl<'a> Code<'a> {
    /// Returns what `job` enters, and `state` prepared for it.
    ///
    /// # Errors
    /// The failed call, where the arguments have no form in the component's types.
    pub(super) fn of(
        component: &'a engine::Code,
        job: &Job<'a>,
        state: &mut CallState,
    ) -> Result<Self, Box<ToolReply>> {
        let Job { name, arguments, .. } = *job;
        match &component.kind {
            Kind::Tool(indices) => Ok(Self::Tool { indices, name, arguments }),
            Kind::Command(run) => Ok(command(*run, job, state)),
            Kind::Functions(functions) => {
                let given = parsed(job);
                let function = functions.get(name).ok_or_else(|| {
                    Box::new(ToolReply::error(
                        "not-found",
                        format!("the component has no `{name}`"),
                    ))
                })?;
                let arguments = value::arguments(&function.params, &given).map_err(|why| {
                    Box::new(ToolReply::error("invalid-args", format!("invalid-args: {why}")))
                })?;
                Ok(Self::Function { function, arguments })
            }
        }
    }

    /// Calls.
    ///
    /// # Errors
    /// A trap, an exit or a limit; the store is then not to be entered again.
    pub(super) async fn call(
        self,
        store: &mut Store<CallState>,
        instance: &Instance,
    ) -> wasmtime::Result<Answer> {
        match self {
            Self::Tool { indices, name, arguments } => {
                let guest = indices.load(&mut *store, instance)?;
                let returned =
                    guest.claw_tool_tool().call_call(&mut *store, name, arguments).await?;
                Ok(tool::answer(returned, &store.data().log))
            }
            Self::Command { run, stdout, stdout_bytes_max } => {
                let ended = enter(store, instance, &run, &[], true).await;
                let stdout = stdout.contents();
                // A program that cannot write more may end in any way.
                if stdout.len() > stdout_bytes_max {
                    return Err(Exceeded::Output.into());
                }
                let stderr = store.data().log.streams().contents();
                Ok(exited(exit_code(ended)?, stdout, stderr))
            }
            Self::Function { function, arguments } => {
                store.set_hostcall_fuel(FUNCTION_CALL_BYTES_MAX);
                let returns = function.result.is_some();
                let value = enter(store, instance, &function.export, &arguments, returns).await?;
                Ok(returned(value, &store.data().log))
            }
        }
    }
}

fn parsed(job: &Job<'_>) -> Value {
    // The gate has parsed them before.
    json::parse(job.arguments.as_bytes()).unwrap_or_default()
}

fn command<'a>(run: ComponentExportIndex, job: &Job<'_>, state: &mut CallState) -> Code<'a> {
    let given = parsed(job);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let args = given.get("args").and_then(Value::as_array).into_iter().flatten();
    let args: Vec<String> =
        std::iter::once(job.name.to_owned()).chain(args.filter_map(text)).collect();
    let stdin = given.get("stdin").and_then(text).unwrap_or_default();
    let stdout_bytes_max = usize::try_from(job.grants.limits.output_bytes).unwrap_or(usize::MAX);
    // One byte more tells a program that wrote too much from one that wrote all it may.
    let stdout = MemoryOutputPipe::new(stdout_bytes_max.saturating_add(1));
    state.for_command(job.grants, &args, stdin, stdout.clone());
    Code::Command { run, stdout, stdout_bytes_max }
}

/// Enters an exported function and returns what it returns.
async fn enter(
    store: &mut Store<CallState>,
    instance: &Instance,
    export: &ComponentExportIndex,
    arguments: &[Val],
    returns: bool,
) -> wasmtime::Result<Option<Val>> {
    let func = instance.get_func(&mut *store, export);
    let func = func.ok_or_else(|| format_err!("the function is not there"))?;
    let mut results = vec![Val::Bool(false); usize::from(returns)];
    func.call_async(store, arguments, &mut results).await?;
    Ok(results.pop())
}

fn exit_code(ended: wasmtime::Result<Option<Val>>) -> wasmtime::Result<i32> {
    match ended {
        Ok(returned) => Ok(i32::from(matches!(returned, Some(Val::Result(Err(_)))))),
        Err(error) => error.downcast_ref::<I32Exit>().map(|exit| exit.0).ok_or(error),
    }
}

/// Returns the answer of a program that ended.
fn exited(code: i32, stdout: Bytes, stderr: Bytes) -> Answer {
    let bytes = stdout.len() + stderr.len();
    let [stdout, stderr] = [stdout, stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let mut content = vec![Content::Text(stdout.clone())];
    // Moved, as a macro would copy it once more.
    let structured = Map::from_iter([
        ("stdout".to_owned(), Value::from(stdout)),
        ("stderr".to_owned(), Value::from(stderr.as_str())),
        ("exit_code".to_owned(), Value::from(code)),
    ]);
    let reply = ToolReply { structured: Some(structured.into()), ..ToolReply::default() };
    if code == 0 {
        return Ok((ToolReply { content, ..reply }, bytes));
    }
    content.push(Content::Text(format!("exit code {code}; standard error: {stderr}")));
    let internal = Some(truncate::text(&stderr, GUEST_LOG_BYTES_MAX).to_owned());
    let error_kind = Some("exit");
    Err(Box::new(ToolReply { content, is_error: true, error_kind, internal, ..reply }))
}

/// Returns the answer of a function that returned, whose call has `log`.
fn returned(value: Option<Val>, log: &CallLog) -> Answer {
    let value = match value {
        None | Some(Val::Result(Ok(None))) => return Ok((ToolReply::default(), 0)),
        Some(Val::Result(Err(value))) => return Err(Box::new(failed(value, log))),
        Some(Val::Result(Ok(Some(value)))) => *value,
        Some(value) => value,
    };
    let content = match &value {
        Val::String(text) => vec![Content::Text(text.clone())],
        _ => Vec::new(),
    };
    let value =
        value::json(value).map_err(|why| Box::new(ToolReply::error("invalid-result", why)))?;
    let structured = json!({"result": value});
    let bytes = Length::of(&structured).plain;
    Ok((ToolReply { content, structured: Some(structured), ..ToolReply::default() }, bytes))
}

/// Returns the failure that a function tells of by the error of its `result`. It may be about the arguments, as
/// a function has no other way to refuse them: the kind is one that counts for no quarantine.
fn failed(value: Option<Box<Val>>, log: &CallLog) -> ToolReply {
    let text = match value.map(|value| value::json(*value)) {
        None => "the function failed".to_owned(),
        Some(Ok(Value::String(text)) | Err(text)) => text,
        Some(Ok(value)) => value.to_string(),
    };
    let text = log.short(&text);
    ToolReply { internal: Some(text.clone()), ..ToolReply::error("function-error", text) }
}
