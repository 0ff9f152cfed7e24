//! What a model reads of a call's result: one JSON shape for all tools, bounded, its true size stated.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::values::set;
use crate::error::{CallError, ErrorKind};
use crate::reply::{Content, ResourceBody, ToolReply};
use crate::truncate;

/// Returns the envelope of a call that has no result; `details` are for programs.
pub fn refusal(code: &str, status: Option<u16>, message: &str, details: Option<Value>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    let mut envelope = json!({ "ok": false });
    details.into_iter().for_each(|details| set(&mut error, "details", details));
    status.into_iter().for_each(|status| set(&mut envelope, "status_code", status.into()));
    set(&mut envelope, "error", error);
    envelope
}

/// Returns the envelope of a call that the host refused or that ran into its end.
pub fn of_error(error: &CallError) -> Value {
    let (code, status) = match error.kind {
        ErrorKind::InvalidArguments => ("schema_validation".to_owned(), None),
        ErrorKind::Overloaded => ("overloaded".to_owned(), Some(429)),
        ErrorKind::Timeout => ("timeout".to_owned(), Some(504)),
        ErrorKind::UnknownTool => ("unsupported_tool".to_owned(), None),
        ErrorKind::Upstream => ("request_failed".to_owned(), Some(502)),
        kind => (kind.name().replace('-', "_"), None),
    };
    let details = (!error.data.is_empty()).then(|| Value::Object(error.data.clone()));
    refusal(&code, status, &error.message, details)
}

/// Returns the envelope of a tool's answer, its content cut to `bytes_max` of JSON on a character border.
///
/// An answer that `is_enveloped`, as those of HTTP services are, is passed on as the envelope it is. Whether
/// the call went well is what the reply says, never what is in it.
pub fn of_reply(reply: &ToolReply, is_enveloped: bool, bytes_max: usize) -> Value {
    if is_enveloped && let Some(envelope) = cut_envelope(reply, bytes_max) {
        return envelope;
    }
    let said = said(reply);
    if reply.is_error {
        let (text, bytes) = cut(&said, reply.said_bytes, bytes_max);
        let details = reply.error_kind.map(|kind| json!({ "kind": kind }));
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        return marked(refusal("tool_error", None, &text, details), bytes);
    }
    let (data, bytes) = cut(&said, reply.said_bytes, bytes_max);
    marked(json!({ "ok": true, "data": data }), bytes)
}

/// Returns the envelope that a reply is, all of it within `bytes_max` but for the marks of a cut; nothing
/// where it is none, or one that is too long without its content.
fn cut_envelope(reply: &ToolReply, bytes_max: usize) -> Option<Value> {
    let mut own = reply.structured.clone()?;
    let content = content_len(said_in(&own)?);
    set(&mut own, "ok", (!reply.is_error).into());
    let size = own.to_string().len();
    // Its size is stated without that of the envelope.
    let before = reply.said_bytes.map(|bytes| bytes.saturating_sub(size.saturating_sub(content)));
    let is_marked = own.get("truncated").is_some();
    if size <= bytes_max {
        return Some(marked(own, before.filter(|_| !is_marked)));
    }
    let stated = own.get("original_bytes").and_then(Value::as_u64);
    let stated = stated.and_then(|bytes| usize::try_from(bytes).ok());
    let whole = said_in(&own).map(text_len);
    shorten(&mut own, bytes_max, json_len, truncate::escaped);
    let fits = json_len(&own) <= bytes_max;
    fits.then(|| marked(own, stated.or(before).or(whole)))
}

/// Cuts what an envelope says until it takes at most `bytes_max` by `len`, each as far as `cut` leaves something of
/// it: the longest first, and what else there is of an error last, so that programs find its code where it was.
pub(super) fn shorten(
    envelope: &mut Value,
    bytes_max: usize,
    len: fn(&Value) -> usize,
    cut: fn(&str, usize) -> &str,
) {
    for place in places(envelope) {
        if len(envelope) <= bytes_max {
            return;
        }
        let Some(said) = envelope.pointer_mut(place) else { continue };
        let text = match std::mem::replace(said, "".into()) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let room = bytes_max.saturating_sub(len(envelope));
        if let Some(said) = envelope.pointer_mut(place) {
            *said = cut(&text, room).into();
        }
    }
}

/// Returns what an envelope says, the longest of it where that is an error in parts.
pub(super) fn said_in(envelope: &Value) -> Option<&Value> {
    places(envelope).first().and_then(|place| envelope.pointer(place))
}

/// Returns where an envelope says something, in the order in which it is cut.
fn places(envelope: &Value) -> Vec<&'static str> {
    let mut places = vec!["/data", "/error/details", "/error/message"];
    places.sort_by_key(|place| Reverse(envelope.pointer(place).map_or(0, json_len)));
    places.push("/error");
    places.retain(|place| envelope.pointer(place).is_some());
    places
}

/// Returns what a value takes as text.
pub(super) fn text_len(said: &Value) -> usize {
    said.as_str().map_or_else(|| json_len(said), str::len)
}

fn json_len(value: &Value) -> usize {
    value.to_string().len()
}

/// Returns a tool's answer as one value: its structured one, else its text, read as JSON where it is some.
fn said(reply: &ToolReply) -> Value {
    if let Some(value) = &reply.structured {
        return value.clone();
    }
    let text = reply.content.iter().map(block).collect::<Vec<_>>().join("\n");
    match crate::json::parse(text.as_bytes()) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) if !reply.is_error => value,
        _ => text.into(),
    }
}

/// Returns a block in words: a model that reads JSON sees no picture.
fn block(block: &Content) -> String {
    match block {
        Content::Text(text) => text.clone(),
        Content::Audio { data, mime_type } | Content::Image { data, mime_type } => {
            format!("[{mime_type}, {} bytes]", data.len())
        }
        Content::Resource { body: ResourceBody::Text(text), .. } => text.clone(),
        Content::Resource { uri, body: ResourceBody::Bytes(bytes), .. } => {
            format!("[{uri}, {} bytes]", bytes.len())
        }
        Content::Link(link) => Value::Object(link.clone()).to_string(),
    }
}

/// Returns what a value takes as JSON, a text without its quotes.
fn content_len(said: &Value) -> usize {
    let quotes = if said.is_string() { 2 } else { 0 };
    json_len(said) - quotes
}

/// Cuts a value, and returns how long the whole was where it was cut, here or `before`.
fn cut(said: &Value, before: Option<usize>, bytes_max: usize) -> (Value, Option<usize>) {
    let json = said.to_string();
    if json.len() <= bytes_max {
        return (said.clone(), before);
    }
    let text = said.as_str().unwrap_or(&json);
    let whole = before.unwrap_or(text.len());
    (truncate::escaped(text, bytes_max).into(), Some(whole))
}

fn marked(mut envelope: Value, original_bytes: Option<usize>) -> Value {
    if let Some(bytes) = original_bytes {
        set(&mut envelope, "truncated", true.into());
        set(&mut envelope, "original_bytes", bytes.into());
    }
    envelope
}
