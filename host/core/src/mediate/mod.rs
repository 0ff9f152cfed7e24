//! Tools that a model calls and its runner never sees: what is put into a request, what becomes of each
//! answer, and what the runner gets in the end.
//!
//! Requests and answers stay the JSON they came as; a [`Dialect`] knows where things stand in it, so that
//! what this host does not know passes through. Deliberately absent: carrying a call out, asking a model,
//! the time, and translation between the dialects.

mod anthropic;
pub(crate) mod bounds;
mod continuity;
mod envelope;
mod named;
mod offers;
mod openai;
mod repeats;
mod responses;
#[cfg(test)]
mod tests;
mod turn;
mod usage;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub use self::anthropic::Anthropic;
pub use self::bounds::TurnBounds;
pub use self::continuity::{Kept, conversation, fit, weave};
pub use self::envelope::{of_error, of_reply, refusal};
pub use self::named::{Named, made, named, spoken, write_out};
pub use self::offers::{Offer, Offers};
pub use self::openai::OpenAi;
pub use self::responses::Responses;
pub use self::turn::{Done, Failed, Job, Policy, Repeat, Step, Turn};
use crate::json::{items, text};

/// The events of a stream, one after the other.
pub type Events = Box<dyn Iterator<Item = String> + Send + Sync>;

/// A call of a tool as a model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// What its result has to name.
    pub id: String,
    /// The tool, as the model calls it.
    pub name: String,
    /// An object, or why there is none.
    pub arguments: Result<Value, String>,
}

/// Where things stand in the requests and answers of one kind of provider.
pub trait Dialect: Sync + std::fmt::Debug {
    /// Returns what the dialect is called in records.
    fn name(&self) -> &'static str;

    /// Returns the key of what was said so far.
    fn messages(&self) -> &'static str {
        "messages"
    }

    /// Says why tools of ours cannot be put into a request.
    fn unmediated(&self, _request: &Value) -> Option<&'static str> {
        None
    }

    /// Returns the names of the runner's own tools.
    fn declared(&self, request: &Value) -> Vec<String>;

    /// Puts `offers` behind the runner's own tools, and asks for the answer in one piece.
    fn inject(&self, request: &mut Value, offers: &Offers);

    /// Says whether an answer is none, but an error.
    fn is_error(&self, answer: &Value) -> bool;

    /// Returns the calls that an answer makes, in order. Ids that are missing, or there twice, are put in,
    /// as results need them; a second answer beside the first is taken out.
    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall>;

    /// Says whether an answer ends where its room did, so that its last call may be a part of one.
    fn is_cut(&self, answer: &Value) -> bool;

    /// Appends to a request what the model said, with its first `kept` calls, and their results by id.
    fn append(&self, request: &mut Value, answer: &Value, kept: usize, results: &[(String, Value)]);

    /// Returns the results that a message of [`Dialect::append`] holds.
    fn results<'m>(&self, message: &'m mut Value) -> Vec<&'m mut Value>;

    /// Says whether a message brings what calls came to, of the runner's own tools too.
    fn has_results(&self, message: &Value) -> bool;

    /// Takes all tools away, and tells the model why.
    fn without_tools(&self, request: &mut Value, instruction: &str);

    /// Turns an answer that calls tools into one that says nothing more.
    fn end(&self, answer: &mut Value);

    /// Gives an answer the form in which the runner's request `asked` for it.
    fn deliver(&self, _asked: &Value, _answer: &mut Value) {}

    /// Returns an answer as the server-sent events of a stream, each made when it is asked for: together
    /// they are many times as long as the answer.
    fn events(&self, answer: Value, asked: &Value) -> Events;

    /// Returns the body of an error of that HTTP status.
    fn error(&self, status: u16, message: &str) -> Value;

    /// Returns an error as the end of a stream.
    fn error_event(&self, error: &Value) -> String;

    /// Returns the message that an answer holds, as a runner sends it back.
    fn message(&self, answer: &Value) -> Value;

    /// Returns what tells a message of the model from its others: the ids of its calls, else its text.
    /// Nothing for messages of others.
    fn anchor(&self, message: &Value) -> Option<String>;

    /// Says whether a message is nothing by itself and belongs to the one behind it.
    fn leads(&self, _message: &Value) -> bool {
        false
    }
}

/// Says whether an answer says nothing under `key`, but why.
fn is_refusal(answer: &Value, key: &str) -> bool {
    items(answer, key).is_empty() && !at(answer, "error").is_null()
}

/// Returns the list `key` to add to, which is made where it is missing or null.
fn list<'v>(object: &'v mut Value, key: &str) -> Option<&'v mut Vec<Value>> {
    let list = object.as_object_mut()?.entry(key).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut()
}

fn push(object: &mut Value, key: &str, item: Value) {
    if let Some(list) = list(object, key) {
        list.push(item);
    }
}

/// Returns the id of a call, under `key`; `spare` is put in where it has none, or that of one before it.
fn id_of(call: &mut Value, key: &str, spare: String, known: &mut BTreeSet<String>) -> String {
    let mut id = text(call, key).to_owned();
    if id.is_empty() || known.contains(&id) {
        id = spare;
        while known.contains(&id) {
            id.push('_');
        }
        set(call, key, id.as_str().into());
    }
    known.insert(id.clone());
    id
}

fn set(object: &mut Value, key: &str, value: Value) {
    object.as_object_mut().and_then(|object| object.insert(key.to_owned(), value));
}

fn remove(object: &mut Value, keys: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Takes the items of the list `key` out; none where it is no list.
fn take_items(object: &mut Value, key: &str) -> Vec<Value> {
    match object.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn at<'v>(object: &'v Value, key: &str) -> &'v Value {
    object.get(key).unwrap_or(&Value::Null)
}

/// Returns the texts of a message's content: text, or a list of blocks of which some are.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(|block| text(block, "text")).collect(),
        _ => String::new(),
    }
}

/// Asks for the answer in one piece, whatever the runner asked for.
fn in_one_piece(request: &mut Value) {
    remove(request, &["stream_options"]);
    if let Some(streams) = request.get_mut("stream") {
        *streams = false.into();
    }
}

/// A choice of tools by our names means those that the model was shown.
fn rename_choice(request: &mut Value, offers: &Offers) {
    let Some(choice) = request.get_mut("tool_choice") else { return };
    for name in chosen(choice).into_iter().filter_map(name_in) {
        if let Some(offer) = name.as_str().and_then(|name| offers.find(name)) {
            *name = offer.name.as_str().into();
        }
    }
}

/// Leaves the choice of a tool to the model where the runner's choice would have it call ours in every round. One
/// that the runner's own tools meet as well stays: the runner waits for such a call.
fn free_choice(request: &mut Value, offers: &Offers) {
    let Some(choice) = request.get_mut("tool_choice") else { return };
    let is_ours = |name: &mut Value| name.as_str().is_some_and(|name| offers.find(name).is_some());
    let are_ours = chosen(choice).into_iter().all(|tool| name_in(tool).is_some_and(is_ours));
    let is_any = *choice == "required" || text(choice, "type") == "any";
    if !(are_ours || is_any && offers.are_all()) {
        return;
    }
    if let Some(place) = several(choice) {
        // Which tools may be called stays as it is.
        let mode = choice.pointer_mut(place).and_then(|several| several.get_mut("mode"));
        mode.into_iter().for_each(|mode| *mode = "auto".into());
    } else if matches!(text(choice, "type"), "any" | "tool") {
        remove(choice, &["name"]);
        set(choice, "type", "auto".into());
    } else {
        *choice = "auto".into();
    }
}

/// Returns where a choice names several tools, of which one may have to be called.
fn several(choice: &Value) -> Option<&'static str> {
    let places = ["/allowed_tools", ""];
    places.into_iter().find(|at| choice.pointer(at).is_some_and(|of| of.get("tools").is_some()))
}

/// Returns the tools that a choice names.
fn chosen(choice: &mut Value) -> Vec<&mut Value> {
    let Some(place) = several(choice) else { return vec![choice] };
    let tools = choice.pointer_mut(place).and_then(|several| several.get_mut("tools"));
    tools.and_then(Value::as_array_mut).into_iter().flatten().collect()
}

fn name_in(tool: &mut Value) -> Option<&mut Value> {
    let place = if tool.get("function").is_some() { "/function/name" } else { "/name" };
    tool.pointer_mut(place)
}

/// Returns what anchors a message: two with equal ids, or with equal words, are taken for the same.
fn anchor_of(ids: &[&str], said: &str) -> String {
    if ids.is_empty() {
        let words: Vec<&str> = said.split_whitespace().collect();
        return crate::digest::of_bytes(words.join(" ").as_bytes());
    }
    format!("calls:{}", crate::digest::of_bytes(ids.join("\n").as_bytes()))
}

/// Returns an object without what is null.
fn without_nulls(object: &Value) -> Map<String, Value> {
    let object = object.as_object().cloned().unwrap_or_default();
    object.into_iter().filter(|(_, value)| !value.is_null()).collect()
}
