//! Anthropic's messages.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::choice::rename_choice;
use super::dialect::{Answered, Dialect, Events, ModelCall};
use super::offers::{Offer, Offers};
use super::values::{
    anchor_of, at, id_of, in_one_piece, is_refusal, list, push, set, take_items, texts,
};
use crate::catalog::refused_by_claude;
use crate::json::{items, text};

/// Anthropic's messages.
#[derive(Debug)]
pub struct Anthropic;

impl Dialect for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn declared(&self, request: &Value) -> Vec<String> {
        items(request, "tools").iter().map(|tool| text(tool, "name").to_owned()).collect()
    }

    fn inject(&self, request: &mut Value, offers: &Offers) {
        in_one_piece(request);
        rename_choice(request, offers);
        // As a runner sends it back that a tool's success ended a turn: this API takes no such message.
        list(request, "messages").into_iter().for_each(|all| all.retain(|one| !is_silent(one)));
        // One that is refused takes all others with it; the catalog's notes say which these are.
        let takes = |offer: &&Offer| refused_by_claude(&offer.schema).is_none();
        for offer in offers.iter().filter(takes) {
            let tool = json!({
                "name": offer.name,
                "description": offer.description,
                "input_schema": offer.schema,
            });
            push(request, "tools", tool);
        }
    }

    fn is_error(&self, answer: &Value) -> bool {
        text(answer, "type") == "error" || is_refusal(answer, "content")
    }

    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall> {
        let blocks = answer.get_mut("content").and_then(Value::as_array_mut);
        let calls = blocks.into_iter().flatten().filter(|block| is_call(block)).enumerate();
        let mut known = BTreeSet::new();
        let read = |(place, call): (usize, &mut Value)| {
            let id = id_of(call, "id", format!("toolu_{round}_{place}"), &mut known);
            let name = text(call, "name").to_owned();
            let input = call.get("input").cloned().unwrap_or_else(|| json!({}));
            let wrong = || "the arguments are no JSON object".to_owned();
            ModelCall {
                id,
                name,
                arguments: Some(input).filter(Value::is_object).ok_or_else(wrong),
            }
        };
        calls.map(read).collect()
    }

    fn is_cut(&self, answer: &Value) -> bool {
        matches!(text(answer, "stop_reason"), "max_tokens" | "model_context_window_exceeded")
    }

    fn append(&self, request: &mut Value, answer: &Value, kept: usize, results: &[Answered]) {
        let mut calls = 0;
        let blocks = items(answer, "content").iter().take_while(|block| {
            calls += usize::from(is_call(block));
            calls <= kept
        });
        let mut blocks: Vec<Value> = blocks.cloned().collect();
        for call in
            blocks.iter_mut().filter(|block| is_call(block) && !at(block, "input").is_object())
        {
            set(call, "input", json!({}));
        }
        push(request, "messages", json!({ "role": "assistant", "content": blocks }));
        let results: Vec<Value> =
            results.iter().map(|(id, result)| tool_result(id, result)).collect();
        push(request, "messages", json!({ "role": "user", "content": results }));
    }

    fn results<'m>(&self, message: &'m mut Value) -> Vec<&'m mut Value> {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        let results =
            blocks.into_iter().flatten().filter(|block| text(block, "type") == "tool_result");
        results.filter_map(|block| block.get_mut("content")).collect()
    }

    fn has_results(&self, message: &Value) -> bool {
        items(message, "content").iter().any(|block| text(block, "type") == "tool_result")
    }

    /// The tools stay in the request, as messages that mention tools need them; none may be called.
    fn without_tools(&self, request: &mut Value, instruction: &str) {
        set(request, "tool_choice", json!({ "type": "none" }));
        push(request, "messages", json!({ "role": "user", "content": instruction }));
    }

    fn end(&self, answer: &mut Value) {
        set(answer, "content", json!([{ "type": "text", "text": "" }]));
        set(answer, "stop_reason", "end_turn".into());
    }

    fn events(&self, mut answer: Value, _asked: &Value) -> Events {
        let blocks = take_items(&mut answer, "content").into_iter().enumerate();
        let mut delta = json!({ "stop_reason": null, "stop_sequence": null });
        for key in ENDS {
            if let Some(last) = answer.get_mut(key) {
                set(&mut delta, key, last.take());
            }
        }
        let mut usage = at(&answer, "usage").clone();
        let end = event("message_delta", &json!({ "delta": delta, "usage": usage }))
            + &event("message_stop", &json!({}));
        set(&mut usage, "output_tokens", 0.into());
        set(&mut answer, "content", json!([]));
        set(&mut answer, "stop_reason", Value::Null);
        set(&mut answer, "stop_sequence", Value::Null);
        set(&mut answer, "usage", usage);
        let start = event("message_start", &json!({ "message": answer }));
        let blocks = blocks.map(|(index, block)| block_events(index, &block));
        Box::new([start].into_iter().chain(blocks).chain([end]))
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": message } })
    }

    fn error_event(&self, error: &Value) -> String {
        format!("event: error\ndata: {error}\n\n")
    }

    fn message(&self, answer: &Value) -> Value {
        json!({ "role": "assistant", "content": at(answer, "content") })
    }

    fn anchor(&self, message: &Value) -> Option<String> {
        let blocks = items(message, "content").iter();
        let ids: Vec<&str> =
            blocks.filter(|block| is_call(block)).map(|call| text(call, "id")).collect();
        (text(message, "role") == "assistant")
            .then(|| anchor_of(&ids, &texts(at(message, "content"))))
    }
}

/// What of an answer is known at its end: clients take what its last event does not say for nothing.
const ENDS: [&str; 4] = ["container", "stop_details", "stop_reason", "stop_sequence"];

/// The blocks of which clients put their input together.
const INPUT_STREAMS: [&str; 3] = ["mcp_tool_use", "server_tool_use", "tool_use"];

fn is_call(block: &Value) -> bool {
    text(block, "type") == "tool_use"
}

/// Says whether a message is the model's and has no words at all, as [`Dialect::end`] makes it.
fn is_silent(message: &Value) -> bool {
    let blocks = items(message, "content");
    let is_empty = |block: &Value| text(block, "type") == "text" && text(block, "text").is_empty();
    text(message, "role") == "assistant"
        && (*at(message, "content") == "" || !blocks.is_empty() && blocks.iter().all(is_empty))
}

fn tool_result(id: &str, result: &Value) -> Value {
    let mut block =
        json!({ "type": "tool_result", "tool_use_id": id, "content": result.to_string() });
    if at(result, "ok") != true {
        set(&mut block, "is_error", true.into());
    }
    block
}

/// Returns the start of a block, what streams of it, and its end. A block of a kind that does not stream
/// comes whole with its start.
fn block_events(index: usize, block: &Value) -> String {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    let mut take = |key: &str, kind: &str, empty: Value| {
        if let Some(value) = block.get(key).filter(|value| value.is_string()) {
            set(&mut start, key, empty);
            deltas.push(json!({ "type": kind, key: value }));
        }
    };
    match text(block, "type") {
        "text" => take("text", "text_delta", "".into()),
        "thinking" => {
            take("thinking", "thinking_delta", "".into());
            take("signature", "signature_delta", "".into());
        }
        _ => {}
    }
    if let Some(input) = block.get("input").filter(|_| INPUT_STREAMS.contains(&text(block, "type")))
    {
        set(&mut start, "input", json!({}));
        deltas.push(json!({ "type": "input_json_delta", "partial_json": input.to_string() }));
    }
    let numbered = |more: Value| {
        let mut data = more;
        set(&mut data, "index", index.into());
        data
    };
    let mut events = event("content_block_start", &numbered(json!({ "content_block": start })));
    for delta in deltas {
        events += &event("content_block_delta", &numbered(json!({ "delta": delta })));
    }
    events + &event("content_block_stop", &numbered(json!({})))
}

/// The JSON of a value has no line break in it.
fn event(name: &str, data: &Value) -> String {
    let mut typed = Map::from_iter([("type".to_owned(), name.into())]);
    typed.extend(data.as_object().cloned().unwrap_or_default());
    format!("event: {name}\ndata: {}\n\n", Value::Object(typed))
}
