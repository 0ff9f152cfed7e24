//! OpenAI's chat completions.

use serde_json::{Map, Value, json};

use super::offers::Offers;
use super::{
    Dialect, ModelCall, anchor_of, at, items, push, remove, rename_choice, set, text, texts,
    without_nulls,
};

/// OpenAI's chat completions.
#[derive(Debug)]
pub struct OpenAi;

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn declared(&self, request: &Value) -> Vec<String> {
        let tools = items(request, "tools").iter().map(|tool| name_of(tool).to_owned());
        let functions = items(request, "functions").iter();
        tools.chain(functions.map(|function| text(function, "name").to_owned())).collect()
    }

    fn inject(&self, request: &mut Value, offers: &Offers) {
        upgrade(request);
        remove(request, &["stream", "stream_options"]);
        rename_choice(request, "/tool_choice/function/name", offers);
        for offer in offers.iter() {
            let function = json!({
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.schema,
            });
            push(request, "tools", json!({ "type": "function", "function": function }));
        }
    }

    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall> {
        let calls = answer.pointer_mut("/choices/0/message/tool_calls");
        let calls = calls.and_then(Value::as_array_mut).into_iter().flatten().enumerate();
        let read = |(place, call): (usize, &mut Value)| {
            if text(call, "id").is_empty() {
                set(call, "id", format!("call_{round}_{place}").into());
            }
            let (id, name) = (text(call, "id").to_owned(), name_of(call).to_owned());
            ModelCall { id, name, arguments: arguments(call) }
        };
        calls.map(read).collect()
    }

    fn append(
        &self,
        request: &mut Value,
        answer: &Value,
        kept: usize,
        results: &[(String, Value)],
    ) {
        let mut message = self.message(answer);
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        if let Some(calls) = calls {
            calls.truncate(kept);
            // What no server can read back is not sent back.
            calls.iter_mut().filter(|call| arguments(call).is_err()).for_each(|call| {
                let arguments = call.pointer_mut("/function/arguments");
                arguments.into_iter().for_each(|text| *text = "{}".into());
            });
        }
        push(request, "messages", message);
        for (id, result) in results {
            let content = result.to_string();
            let result = json!({ "role": "tool", "tool_call_id": id, "content": content });
            push(request, "messages", result);
        }
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

    fn events(&self, answer: &Value, asked: &Value) -> String {
        let mut events: String =
            items(answer, "choices").iter().map(|c| choice(answer, c)).collect();
        let usage = answer.get("usage").filter(|usage| usage.is_object());
        let wanted = asked.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        if let Some(usage) = usage.filter(|_| wanted) {
            let mut chunk = chunk(answer, &[]);
            set(&mut chunk, "usage", usage.clone());
            events.push_str(&event(&chunk));
        }
        events + DONE
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        let code = (status == 404).then_some("model_not_found");
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
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

/// Returns the name of a tool, or of the tool that a call is of.
fn name_of(tool: &Value) -> &str {
    let named = ["function", "custom"].into_iter().find_map(|kind| tool.get(kind)?.get("name"));
    named.and_then(Value::as_str).unwrap_or_default()
}

/// Reads the arguments of a call, which are JSON in a text. Models leave them out where there are none.
fn arguments(call: &Value) -> Result<Value, String> {
    let written = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
    if written.trim().is_empty() {
        return Ok(json!({}));
    }
    match crate::json::parse(written.as_bytes()) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("the arguments are no JSON object".to_owned()),
        Err(error) => Err(format!("the arguments cannot be read: {error}")),
    }
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

fn choice(answer: &Value, choice: &Value) -> String {
    let mut more = choice.as_object().cloned().unwrap_or_default();
    let mut message = more.remove("message").map(|own| without_nulls(&own)).unwrap_or_default();
    let finish = more.remove("finish_reason").unwrap_or_default();
    let index = more.remove("index").unwrap_or_else(|| 0.into());
    let calls = message.remove("tool_calls").unwrap_or_default();
    message.remove("role");
    let say = |more: Map<String, Value>, delta: Value, finish: &Value| {
        let mut choice = Value::Object(more);
        set(&mut choice, "index", index.clone());
        set(&mut choice, "delta", delta);
        set(&mut choice, "finish_reason", finish.clone());
        event(&chunk(answer, &[choice]))
    };
    let none = Map::new;
    let mut events = say(none(), json!({ "role": "assistant", "content": "" }), &Value::Null);
    if !message.is_empty() {
        events += &say(more, message.into(), &Value::Null);
    }
    for (place, call) in calls.as_array().into_iter().flatten().enumerate() {
        let mut call = call.clone();
        set(&mut call, "index", place.into());
        events += &say(none(), json!({ "tool_calls": [call] }), &Value::Null);
    }
    events + &say(none(), json!({}), &finish)
}

/// Returns a chunk of `answer` with these choices.
fn chunk(answer: &Value, choices: &[Value]) -> Value {
    let mut chunk = answer.clone();
    remove(&mut chunk, &["usage"]);
    set(&mut chunk, "object", "chat.completion.chunk".into());
    set(&mut chunk, "choices", choices.into());
    chunk
}

/// The JSON of a value has no line break in it.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
