//! OpenAI's chat completions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::choice::rename_choice;
use super::dialect::{Answered, Dialect, Events, ModelCall};
use super::offers::Offers;
use super::values::{
    anchor_of, at, id_of, in_one_piece, is_refusal, push, remove, set, take_items, texts,
    without_nulls,
};
use crate::json::{items, text};
use crate::limits::PROXY_EVENT_VALUE_BYTES_MAX;
use crate::reply::json_bytes;

/// OpenAI's chat completions.
#[derive(Debug)]
pub struct OpenAi;

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn unmediated(&self, request: &Value) -> Option<&'static str> {
        let is_many = at(request, "n").as_u64().is_some_and(|n| n > 1);
        is_many.then_some("`n` is 1 where the host adds tools: a turn has one course")
    }

    fn declared(&self, request: &Value) -> Vec<String> {
        let tools = items(request, "tools").iter().map(|tool| name_of(tool).to_owned());
        let functions = items(request, "functions").iter();
        tools.chain(functions.map(|function| text(function, "name").to_owned())).collect()
    }

    fn inject(&self, request: &mut Value, offers: &Offers) {
        upgrade(request);
        in_one_piece(request);
        rename_choice(request, offers);
        for offer in offers.iter() {
            let function = json!({
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.schema,
            });
            push(request, "tools", json!({ "type": "function", "function": function }));
        }
    }

    fn is_error(&self, answer: &Value) -> bool {
        is_refusal(answer, "choices")
    }

    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall> {
        // Nobody asked for more, and what they call of ours is nobody's.
        if let Some(choices) = answer.get_mut("choices").and_then(Value::as_array_mut) {
            choices.truncate(1);
        }
        let calls = answer.pointer_mut("/choices/0/message/tool_calls");
        let calls = calls.and_then(Value::as_array_mut).into_iter().flatten().enumerate();
        let mut known = BTreeSet::new();
        let read = |(place, call): (usize, &mut Value)| {
            let id = id_of(call, "id", format!("call_{round}_{place}"), &mut known);
            ModelCall { id, name: name_of(call).to_owned(), arguments: arguments(call) }
        };
        calls.map(read).collect()
    }

    fn is_cut(&self, answer: &Value) -> bool {
        let finish = answer.pointer("/choices/0/finish_reason").and_then(Value::as_str);
        matches!(finish, Some("content_filter" | "length"))
    }

    fn append(&self, request: &mut Value, answer: &Value, kept: usize, results: &[Answered]) {
        let mut message = self.message(answer);
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        if let Some(calls) = calls {
            calls.truncate(kept);
            let functions = calls.iter_mut().filter_map(|call| call.get_mut("function"));
            functions.for_each(write_arguments);
        }
        push(request, "messages", message);
        for (id, result) in results {
            let content = result.to_string();
            let result = json!({ "role": "tool", "tool_call_id": id, "content": content });
            push(request, "messages", result);
        }
    }

    fn results<'m>(&self, message: &'m mut Value) -> Vec<&'m mut Value> {
        let is_result = text(message, "role") == "tool";
        message.get_mut("content").filter(|_| is_result).into_iter().collect()
    }

    fn has_results(&self, message: &Value) -> bool {
        matches!(text(message, "role"), "function" | "tool")
    }

    fn without_tools(&self, request: &mut Value, instruction: &str) {
        remove(request, &["tools", "tool_choice", "parallel_tool_calls"]);
        push(request, "messages", json!({ "role": "user", "content": instruction }));
    }

    fn end(&self, answer: &mut Value) {
        if let Some(choice) = answer.pointer_mut("/choices/0") {
            set(choice, "message", json!({ "role": "assistant", "content": "" }));
            set(choice, "finish_reason", "stop".into());
        }
    }

    fn deliver(&self, asked: &Value, answer: &mut Value) {
        let is_legacy = asked.get("functions").is_some();
        let Some(choice) = answer.pointer_mut("/choices/0").filter(|_| is_legacy) else {
            return;
        };
        let function = choice.pointer("/message/tool_calls/0/function").cloned();
        if let (Some(function), Some(message)) = (function, choice.get_mut("message")) {
            remove(message, &["tool_calls"]);
            set(message, "function_call", function);
            set(choice, "finish_reason", "function_call".into());
        }
    }

    fn events(&self, mut answer: Value, asked: &Value) -> Events {
        let head = head(&answer);
        let choices = take_items(&mut answer, "choices");
        let wanted = asked.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        let usage = at(&answer, "usage");
        let usage = (wanted && usage.is_object()).then(|| {
            let mut chunk = chunk(&head, &[]);
            set(&mut chunk, "usage", usage.clone());
            event(&chunk)
        });
        remove(&mut answer, &HEAD);
        remove(&mut answer, &["choices", "object", "usage"]);
        // What is left is said in the first chunk, which all clients keep.
        let said =
            choices.into_iter().flat_map(move |said| choice(head.clone(), answer.take(), said));
        Box::new(said.chain(usage).chain([DONE.to_owned()]))
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
    }

    fn error_event(&self, error: &Value) -> String {
        event(error) + DONE
    }

    fn message(&self, answer: &Value) -> Value {
        let mut message =
            without_nulls(answer.pointer("/choices/0/message").unwrap_or(&Value::Null));
        // A message that only calls tools has this key all the same.
        message.entry("content").or_insert(Value::Null);
        message.into()
    }

    fn anchor(&self, message: &Value) -> Option<String> {
        let ids: Vec<&str> =
            items(message, "tool_calls").iter().map(|call| text(call, "id")).collect();
        let legacy = message.get("function_call").map(Value::to_string).unwrap_or_default();
        let said = texts(at(message, "content")) + &legacy;
        (text(message, "role") == "assistant").then(|| anchor_of(&ids, &said))
    }
}

const DONE: &str = "data: [DONE]\n\n";
/// What the chunks of a stream have in common.
const HEAD: [&str; 5] = ["created", "id", "model", "service_tier", "system_fingerprint"];

/// Returns the name of a tool, or of the tool that a call is of.
fn name_of(tool: &Value) -> &str {
    let named = ["function", "custom"].into_iter().find_map(|kind| tool.get(kind)?.get("name"));
    named.and_then(Value::as_str).unwrap_or_default()
}

fn arguments(call: &Value) -> Result<Value, String> {
    match at(call, "custom") {
        Value::Null => read_arguments(at(at(call, "function"), "arguments")),
        _ => Err(NO_FUNCTION.to_owned()),
    }
}

/// What is said of a call that has a text, or something else, where a tool of ours has its arguments.
pub(super) const NO_FUNCTION: &str = "this tool is a function: call it with arguments as JSON";

/// Reads the arguments of a call, which are JSON in a text; some servers write the object itself. Models leave
/// them out where there are none.
pub(super) fn read_arguments(written: &Value) -> Result<Value, String> {
    let read = match written {
        Value::Null => return Ok(json!({})),
        Value::String(text) if text.trim().is_empty() => return Ok(json!({})),
        Value::String(text) => crate::json::parse(text.as_bytes()),
        other => Ok(other.clone()),
    };
    match read {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("the arguments are no JSON object".to_owned()),
        Err(error) => Err(format!("the arguments cannot be read: {error}")),
    }
}

/// Writes the arguments in `call` as every server can read them back: as a text, and none where they cannot be
/// read.
pub(super) fn write_arguments(call: &mut Value) {
    let written = at(call, "arguments");
    let text = match read_arguments(written) {
        Ok(_) if written.is_string() => return,
        Ok(arguments) => arguments.to_string(),
        Err(_) => "{}".to_owned(),
    };
    set(call, "arguments", text.into());
}

/// Says the same with `tools` that a request says with the `functions` of old.
fn upgrade(request: &mut Value) {
    if request.get("functions").is_none() && request.get("function_call").is_none() {
        return;
    }
    for function in items(request, "functions").to_vec() {
        push(request, "tools", json!({ "type": "function", "function": function }));
    }
    match request.get("function_call").cloned() {
        Some(choice @ Value::String(_)) => set(request, "tool_choice", choice),
        Some(function) => {
            set(request, "tool_choice", json!({ "type": "function", "function": function }));
        }
        None => {}
    }
    // Such a runner takes one call at a time.
    set(request, "parallel_tool_calls", false.into());
    remove(request, &["functions", "function_call"]);
}

/// Returns the events of one choice, each made when it is asked for. The first says what is said `once`.
fn choice(
    head: Map<String, Value>,
    mut once: Value,
    mut choice: Value,
) -> impl Iterator<Item = String> {
    let mut message = choice.get_mut("message").map(Value::take).unwrap_or_default();
    let calls = take_items(&mut message, "tool_calls").into_iter().enumerate();
    remove(&mut message, &["role", "tool_calls"]);
    let message = without_nulls(&message);
    let finish = choice.get_mut("finish_reason").map(Value::take).unwrap_or_default();
    let index = at(&choice, "index").as_u64().unwrap_or_default();
    let none = || json!({});
    // A message that only calls tools has no text, not even an empty one.
    let is_text = message.get("content").is_some_and(Value::is_string);
    let begin = json!({ "role": "assistant", "content": is_text.then_some("") });
    let begin = (none(), begin, Value::Null);
    remove(&mut choice, &["message"]);
    let said = (!message.is_empty()).then(|| (choice, message.into(), Value::Null));
    let calls = calls.map(move |(place, mut call)| {
        set(&mut call, "index", place.into());
        (none(), json!({ "tool_calls": [call] }), Value::Null)
    });
    let parts = [begin].into_iter().chain(said).chain(calls).chain([(none(), none(), finish)]);
    parts.map(move |(mut choice, delta, finish)| {
        set(&mut choice, "index", index.into());
        set(&mut choice, "delta", delta);
        set(&mut choice, "finish_reason", finish);
        let mut chunk = chunk(&head, &[choice]);
        if let (Some(chunk), Value::Object(once)) = (chunk.as_object_mut(), once.take()) {
            chunk.extend(once);
        }
        event(&chunk)
    })
}

/// Returns what every chunk of `answer` says again.
fn head(answer: &Value) -> Map<String, Value> {
    let short = |key: &&str| {
        let value = answer.get(*key)?;
        let is_short = json_bytes(value) <= PROXY_EVENT_VALUE_BYTES_MAX;
        is_short.then(|| ((*key).to_owned(), value.clone()))
    };
    HEAD.iter().filter_map(short).collect()
}

fn chunk(head: &Map<String, Value>, choices: &[Value]) -> Value {
    let mut chunk = Value::Object(head.clone());
    set(&mut chunk, "object", "chat.completion.chunk".into());
    set(&mut chunk, "choices", choices.into());
    chunk
}

/// The JSON of a value has no line break in it.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
