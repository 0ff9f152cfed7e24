//! OpenAI's Responses.
//!
//! What is said is a list of items, of which some are calls, and a provider may keep the list: then a runner
//! names the answer before, and the provider knows what was hidden of it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::choice::rename_choice;
use super::dialect::{Answered, Dialect, Events, ModelCall};
use super::offers::Offers;
use super::openai::{NO_FUNCTION, OpenAi, read_arguments, write_arguments};
use super::values::{
    anchor_of, at, id_of, in_one_piece, is_refusal, list, push, remove, set, take_items, texts,
};
use crate::json::{items, text};
use crate::limits::PROXY_EVENT_VALUE_BYTES_MAX;

/// OpenAI's Responses.
#[derive(Debug)]
pub struct Responses;

impl Dialect for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn messages(&self) -> &'static str {
        "input"
    }

    fn unmediated(&self, request: &Value) -> Option<&'static str> {
        let text = "`background` is false where the host adds tools: somebody has to wait";
        (at(request, "background") == true).then_some(text)
    }

    fn declared(&self, request: &Value) -> Vec<String> {
        let all = items(request, "tools").iter();
        all.flat_map(|tool| std::iter::once(tool).chain(items(tool, "tools")))
            .map(name_of)
            .collect()
    }

    fn inject(&self, request: &mut Value, offers: &Offers) {
        if let said @ Value::String(_) = at(request, "input") {
            let said = json!([{ "role": "user", "content": said }]);
            set(request, "input", said);
        }
        in_one_piece(request);
        rename_choice(request, offers);
        for offer in offers.iter() {
            let tool = json!({
                "type": "function",
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.schema,
                // Without a word, schemas have to be of the strict kind here.
                "strict": false,
            });
            push(request, "tools", tool);
        }
    }

    fn is_error(&self, answer: &Value) -> bool {
        text(answer, "status") == "failed" || is_refusal(answer, "output")
    }

    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall> {
        let calls = list(answer, "output").into_iter().flatten().filter(|item| is_call(item));
        let mut known = BTreeSet::new();
        let read = |(place, call): (usize, &mut Value)| {
            let id = id_of(call, "call_id", format!("call_{round}_{place}"), &mut known);
            let arguments = match text(call, "type") {
                "function_call" => read_arguments(at(call, "arguments")),
                _ => Err(NO_FUNCTION.to_owned()),
            };
            ModelCall { id, name: name_of(call), arguments }
        };
        calls.enumerate().map(read).collect()
    }

    fn is_cut(&self, answer: &Value) -> bool {
        text(answer, "status") == "incomplete"
    }

    fn append(&self, request: &mut Value, answer: &Value, kept: usize, results: &[Answered]) {
        let is_stored = at(request, "store") != false;
        let mut said: Vec<Value> = Vec::new();
        let mut calls = 0;
        for item in items(answer, "output") {
            calls += usize::from(is_call(item));
            // Its result is no text.
            let is_strange = is_call(item) && output_of(item).is_none();
            if calls > kept || is_strange {
                forget_thoughts(&mut said);
            }
            if calls > kept {
                break;
            }
            // What nobody keeps cannot be named again.
            let is_lost = is_thought(item) && !is_stored && at(item, "encrypted_content").is_null();
            if !is_strange && !is_lost {
                said.push(repeatable(item));
            }
        }
        let made: Vec<Value> = said.iter().filter(|item| is_call(item)).cloned().collect();
        forget_thoughts(&mut said);
        for item in said {
            push(request, "input", item);
        }
        for call in made {
            let id = text(&call, "call_id");
            let result = results.iter().find(|(own, _)| own == id);
            let (Some((_, result)), Some(kind)) = (result, output_of(&call)) else { continue };
            let output = json!({ "type": kind, "call_id": id, "output": result.to_string() });
            push(request, "input", output);
        }
    }

    fn results<'m>(&self, item: &'m mut Value) -> Vec<&'m mut Value> {
        let kinds = ["custom_tool_call_output", "function_call_output"];
        let is_result = kinds.contains(&text(item, "type"));
        item.get_mut("output").filter(|_| is_result).into_iter().collect()
    }

    fn has_results(&self, item: &Value) -> bool {
        text(item, "type").ends_with("_call_output")
    }

    fn without_tools(&self, request: &mut Value, instruction: &str) {
        remove(request, &["tools", "tool_choice", "parallel_tool_calls", "max_tool_calls"]);
        push(request, "input", json!({ "role": "user", "content": instruction }));
    }

    fn end(&self, answer: &mut Value) {
        let part = json!({ "type": "output_text", "text": "", "annotations": [] });
        let id = format!("msg_{}", text(answer, "id"));
        let message = json!({
            "type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part],
        });
        set(answer, "output", json!([message]));
        set(answer, "status", "completed".into());
    }

    /// An answer repeats what was asked, which was more than the runner did.
    fn deliver(&self, asked: &Value, answer: &mut Value) {
        let said = [
            ("tools", json!([])),
            ("tool_choice", "auto".into()),
            ("parallel_tool_calls", true.into()),
        ];
        for (key, usual) in
            said.into_iter().filter(|(key, _)| answer.get(key).is_some()).collect::<Vec<_>>()
        {
            set(answer, key, asked.get(key).cloned().unwrap_or(usual));
        }
    }

    fn events(&self, mut answer: Value, _asked: &Value) -> Events {
        let end = match text(&answer, "status") {
            status @ ("failed" | "incomplete") => format!("response.{status}"),
            _ => "response.completed".to_owned(),
        };
        let whole = (end, json!({ "response": answer }));
        let output = take_items(&mut answer, "output").into_iter().enumerate();
        for (key, value) in
            [("status", "in_progress".into()), ("usage", Value::Null), ("output", json!([]))]
        {
            set(&mut answer, key, value);
        }
        let begun = ["response.created", "response.in_progress"]
            .map(|name| (name.to_owned(), json!({ "response": answer })));
        let said = begun.into_iter().chain(output.flat_map(item_events)).chain([whole]);
        Box::new((0_u64..).zip(said).map(|(number, (name, data))| event(&name, number, data)))
    }

    fn error(&self, status: u16, message: &str) -> Value {
        OpenAi.error(status, message)
    }

    /// Clients read one of the two places.
    fn error_event(&self, error: &Value) -> String {
        let mut data = error.clone();
        for key in ["code", "message", "param"] {
            set(&mut data, key, at(at(error, "error"), key).clone());
        }
        event("error", 0, data)
    }

    fn message(&self, answer: &Value) -> Value {
        let first = items(answer, "output").iter().find(|item| self.anchor(item).is_some());
        first.cloned().unwrap_or_default()
    }

    fn anchor(&self, item: &Value) -> Option<String> {
        if is_call(item) {
            return Some(anchor_of(&[text(item, "call_id")], ""));
        }
        (text(item, "role") == "assistant").then(|| anchor_of(&[], &texts(at(item, "content"))))
    }

    fn leads(&self, item: &Value) -> bool {
        is_thought(item)
    }
}

/// Says whether an item is a call that somebody has to answer, which its provider does not.
fn is_call(item: &Value) -> bool {
    let kind = text(item, "type");
    kind == "function_call"
        || kind.ends_with("_call") && item.get("call_id").is_some_and(Value::is_string)
}

fn is_thought(item: &Value) -> bool {
    text(item, "type") == "reasoning"
}

/// A thought stands before what came of it, or nowhere.
fn forget_thoughts(said: &mut Vec<Value>) {
    while said.last().is_some_and(is_thought) {
        said.pop();
    }
}

/// Returns what the result of a call is, where it is a text.
fn output_of(call: &Value) -> Option<&'static str> {
    match text(call, "type") {
        "custom_tool_call" => Some("custom_tool_call_output"),
        "function_call" => Some("function_call_output"),
        _ => None,
    }
}

/// Returns an item as a provider can read it back.
fn repeatable(item: &Value) -> Value {
    let mut item = item.clone();
    if text(&item, "type") == "function_call" {
        write_arguments(&mut item);
    }
    item
}

/// Returns the name of a tool, or of the tool that a call is of; those of the provider's own kinds are
/// called like these.
fn name_of(tool: &Value) -> String {
    let kind = text(tool, "type");
    let own = || kind.strip_suffix("_call").unwrap_or(kind);
    Some(text(tool, "name")).filter(|name| !name.is_empty()).unwrap_or_else(own).to_owned()
}

/// An event: its name, and what it says.
type Said = (String, Value);

/// A list of an item whose parts stream: its key, and what its events call a part and the part's number.
type Parts = (&'static str, &'static str, &'static str);

const CONTENT: Parts = ("content", "content_part", "content_index");
const SUMMARY: Parts = ("summary", "reasoning_summary_part", "summary_index");

/// Returns the lists of an item of that kind.
fn lists(kind: &str) -> &'static [Parts] {
    match kind {
        "message" => &[CONTENT],
        "reasoning" => &[SUMMARY, CONTENT],
        _ => &[],
    }
}

/// Returns what the events of a text that is all of an item of that kind are called, and its key. One of another
/// kind comes whole: clients take no such event for it.
fn written(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "custom_tool_call" => Some(("custom_tool_call_input", "input")),
        "function_call" => Some(("function_call_arguments", "arguments")),
        "mcp_call" => Some(("mcp_call_arguments", "arguments")),
        _ => None,
    }
}

/// Returns the events of one item, each made when it is asked for.
fn item_events((index, mut item): (usize, Value)) -> impl Iterator<Item = Said> {
    let end =
        ("response.output_item.done".to_owned(), json!({ "output_index": index, "item": item }));
    let id = Some(text(&item, "id")).filter(|id| id.len() <= PROXY_EVENT_VALUE_BYTES_MAX);
    let place = json!({ "item_id": id.unwrap_or_default(), "output_index": index });
    let (lists, written) = (lists(text(&item, "type")), written(text(&item, "type")));
    let mut parts = Vec::new();
    for (key, list, number) in lists {
        let all = item.get_mut(*key).and_then(Value::as_array_mut).map(std::mem::take);
        let all = all.unwrap_or_default().into_iter().enumerate();
        parts.extend(all.map(|(at, part)| (*list, *number, at, part)));
    }
    let written = written.and_then(|(name, key)| {
        let value = item.get_mut(key).filter(|value| value.is_string())?;
        Some((name, key, std::mem::replace(value, "".into())))
    });
    if item.get("status").is_some() {
        set(&mut item, "status", "in_progress".into());
    }
    let begin =
        ("response.output_item.added".to_owned(), json!({ "output_index": index, "item": item }));
    let own = place.clone();
    let written =
        written.into_iter().flat_map(move |(name, key, value)| texts_of(name, key, &own, &value));
    let parts = parts.into_iter().flat_map(move |(list, number, at, part)| {
        let mut place = place.clone();
        set(&mut place, number, at.into());
        part_events(list, &place, &part)
    });
    std::iter::once(begin).chain(parts).chain(written).chain([end])
}

/// Returns the events of one part of an item.
fn part_events(list: &str, place: &Value, part: &Value) -> Vec<Said> {
    let (name, key) = match text(part, "type") {
        "output_text" => ("output_text", "text"),
        "reasoning_text" => ("reasoning_text", "text"),
        "refusal" => ("refusal", "refusal"),
        "summary_text" => ("reasoning_summary_text", "text"),
        _ => ("", ""),
    };
    let with = |more: &[(&str, &Value)]| {
        let mut data = place.clone();
        more.iter().for_each(|(key, value)| set(&mut data, key, (*value).clone()));
        data
    };
    let mut empty = part.clone();
    let said = empty.get_mut(key).map(|said| std::mem::replace(said, "".into()));
    let notes = take_items(&mut empty, "annotations").into_iter().enumerate();
    if empty.get("annotations").is_some() {
        set(&mut empty, "annotations", json!([]));
    }
    let notes = notes.map(|(at, note)| {
        let data = with(&[("annotation_index", &at.into()), ("annotation", &note)]);
        ("response.output_text.annotation.added".to_owned(), data)
    });
    let mut events = vec![(format!("response.{list}.added"), with(&[("part", &empty)]))];
    if let Some(said) = said {
        let [delta, done] = texts_of(name, key, place, &said);
        events.extend([delta].into_iter().chain(notes).chain([done]));
    }
    events.push((format!("response.{list}.done"), with(&[("part", part)])));
    events
}

/// Returns the two events of a text that streams: all of it at once, and that it is all.
fn texts_of(name: &str, key: &str, place: &Value, said: &Value) -> [Said; 2] {
    [("delta", "delta"), ("done", key)].map(|(event, key)| {
        let mut data = place.clone();
        set(&mut data, key, said.clone());
        if name == "output_text" {
            set(&mut data, "logprobs", json!([]));
        }
        (format!("response.{name}.{event}"), data)
    })
}

/// The JSON of a value has no line break in it.
fn event(name: &str, number: u64, data: Value) -> String {
    let mut typed = Map::from_iter([
        ("type".to_owned(), name.into()),
        ("sequence_number".to_owned(), number.into()),
    ]);
    if let Value::Object(data) = data {
        typed.extend(data);
    }
    format!("event: {name}\ndata: {}\n\n", Value::Object(typed))
}
