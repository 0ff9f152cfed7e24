//! What a model reads of a call's result: one JSON shape for all tools, bounded, its true size stated.

use serde_json::{Map, Value, json};

use crate::error::{CallError, ErrorKind};
use crate::reply::{Content, ResourceBody, ToolReply};
use crate::truncate;

/// Returns the envelope of a call that has no result; `details` are for programs.
pub fn refusal(code: &str, status: Option<u16>, message: &str, details: Option<Value>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    let mut envelope = json!({ "ok": false });
    details.into_iter().for_each(|details| super::set(&mut error, "details", details));
    status.into_iter().for_each(|status| super::set(&mut envelope, "status_code", status.into()));
    super::set(&mut envelope, "error", error);
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
/// An answer that is an envelope already, as those of HTTP services are, is passed on as one.
pub fn of_reply(reply: &ToolReply, bytes_max: usize) -> Value {
    let said = said(reply);
    if let (Some(Value::Object(own)), Value::Object(_)) = (&reply.structured, &said)
        && own.get("ok").is_some_and(Value::is_boolean)
        && (own.contains_key("data") || own.contains_key("error"))
    {
        return cut_envelope(own.clone(), reply, bytes_max);
    }
    if reply.is_error {
        let (text, bytes) = cut(&said, reply, bytes_max);
        let details = reply.error_kind.map(|kind| json!({ "kind": kind }));
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        return marked(refusal("tool_error", None, &text, details), bytes);
    }
    let (data, bytes) = cut(&said, reply, bytes_max);
    marked(json!({ "ok": true, "data": data }), bytes)
}

fn cut_envelope(mut own: Map<String, Value>, reply: &ToolReply, bytes_max: usize) -> Value {
    let key = if own.contains_key("data") { "data" } else { "error" };
    let said = own.remove(key).unwrap_or_default();
    if said.to_string().len() <= bytes_max {
        own.insert(key.to_owned(), said);
        return own.into();
    }
    let stated = own.get("original_bytes").and_then(Value::as_u64);
    let (said, bytes) = cut(&said, reply, bytes_max);
    let whole = stated.and_then(|bytes| usize::try_from(bytes).ok());
    if key == "error" {
        own.insert(key.to_owned(), json!({ "code": "tool_error", "message": said }));
    } else {
        own.insert(key.to_owned(), said);
    }
    marked(own.into(), whole.or(bytes))
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

/// Cuts a value, and returns how long the whole was where it was cut, here or before.
fn cut(said: &Value, reply: &ToolReply, bytes_max: usize) -> (Value, Option<usize>) {
    let json = said.to_string();
    if json.len() <= bytes_max {
        return (said.clone(), reply.cut_from_bytes);
    }
    let text = said.as_str().unwrap_or(&json);
    let whole = reply.cut_from_bytes.unwrap_or(text.len());
    (truncate::escaped(text, bytes_max).into(), Some(whole))
}

fn marked(mut envelope: Value, original_bytes: Option<usize>) -> Value {
    if let Some(bytes) = original_bytes {
        super::set(&mut envelope, "truncated", true.into());
        super::set(&mut envelope, "original_bytes", bytes.into());
    }
    envelope
}
