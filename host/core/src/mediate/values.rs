//! Parts of requests and answers: what is read of them, put into them, and taken out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::digest;
pub(super) use crate::json::set;
use crate::json::{items, text};

/// Says whether an answer says nothing under `key`, but why.
pub(super) fn is_refusal(answer: &Value, key: &str) -> bool {
    items(answer, key).is_empty() && !at(answer, "error").is_null()
}

/// Returns the list `key` to add to, which is made where it is missing or null.
pub(super) fn list<'v>(object: &'v mut Value, key: &str) -> Option<&'v mut Vec<Value>> {
    let list = object.as_object_mut()?.entry(key).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut()
}

pub(super) fn push(object: &mut Value, key: &str, item: Value) {
    if let Some(list) = list(object, key) {
        list.push(item);
    }
}

/// Returns the id of a call, under `key`; `spare` is put in where it has none, or that of one before it.
pub(super) fn id_of(
    call: &mut Value,
    key: &str,
    spare: String,
    known: &mut BTreeSet<String>,
) -> String {
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

pub(super) fn remove(object: &mut Value, keys: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Takes the items of the list `key` out; none where it is no list.
pub(super) fn take_items(object: &mut Value, key: &str) -> Vec<Value> {
    match object.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

pub(super) fn at<'v>(object: &'v Value, key: &str) -> &'v Value {
    object.get(key).unwrap_or(&Value::Null)
}

/// Asks for the answer in one piece, whatever the runner asked for.
pub(super) fn in_one_piece(request: &mut Value) {
    remove(request, &["stream_options"]);
    if let Some(streams) = request.get_mut("stream") {
        *streams = false.into();
    }
}

/// Returns the texts of a message's content: text, or a list of blocks of which some are.
pub(super) fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(|block| text(block, "text")).collect(),
        _ => String::new(),
    }
}

/// Returns what anchors a message: two with equal ids, or with equal words, are taken for the same.
pub(super) fn anchor_of(ids: &[&str], said: &str) -> String {
    if ids.is_empty() {
        let words: Vec<&str> = said.split_whitespace().collect();
        return digest::of_bytes(words.join(" ").as_bytes());
    }
    format!("calls:{}", digest::of_bytes(ids.join("\n").as_bytes()))
}

pub(super) fn without_nulls(object: &Value) -> Map<String, Value> {
    let object = object.as_object().cloned().unwrap_or_default();
    object.into_iter().filter(|(_, value)| !value.is_null()).collect()
}
