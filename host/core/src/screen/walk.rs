//! Every text of a value or a reply, with the name it stands under.

use serde_json::{Map, Value};

use crate::reply::{Content, ResourceBody, ToolReply};

/// Is shown a text, and the name it is the value of, where it has one.
pub(super) type Look<'a> = dyn FnMut(Option<&str>, &str) + 'a;
/// Returns what to put in the place of a text, nothing where it stays.
pub(super) type Change<'a> = dyn FnMut(Option<&str>, &str) -> Option<String> + 'a;

/// Shows `look` every text in `value`, names included.
pub(super) fn value(value: &Value, look: &mut Look<'_>) {
    under(None, value, look);
}

fn under(key: Option<&str>, value: &Value, look: &mut Look<'_>) {
    match value {
        Value::String(text) => look(key, text),
        Value::Array(items) => items.iter().for_each(|item| under(key, item, look)),
        Value::Object(entries) => {
            for (name, value) in entries {
                look(None, name);
                under(Some(name), value, look);
            }
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => {}
    }
}

/// Says whether `is` holds for any text in `of`.
pub(super) fn any(of: &Value, is: impl Fn(&str) -> bool) -> bool {
    let mut found = false;
    value(of, &mut |_, text| found = found || is(text));
    found
}

/// Shows `look` every text in `reply`, the one for the record included.
pub(super) fn reply(reply: &ToolReply, look: &mut Look<'_>) {
    for block in &reply.content {
        match block {
            Content::Text(text) => look(None, text),
            Content::Resource { uri, body, .. } => {
                look(None, uri);
                if let ResourceBody::Text(text) = body {
                    look(None, text);
                }
            }
            Content::Audio { .. } | Content::Image { .. } => {}
        }
    }
    if let Some(structured) = &reply.structured {
        value(structured, look);
    }
    if let Some(internal) = &reply.internal {
        look(None, internal);
    }
}

/// Returns `value` with its texts changed. Where two names become one, the last value stays.
pub(super) fn rewrite(value: Value, change: &mut Change<'_>) -> Value {
    rewrite_under(None, value, change)
}

fn rewrite_under(key: Option<&str>, value: Value, change: &mut Change<'_>) -> Value {
    match value {
        Value::String(text) => Value::String(change(key, &text).unwrap_or(text)),
        Value::Array(items) => {
            items.into_iter().map(|item| rewrite_under(key, item, change)).collect()
        }
        Value::Object(entries) => {
            let mut changed = Map::new();
            for (name, value) in entries {
                let value = rewrite_under(Some(&name), value, change);
                changed.insert(change(None, &name).unwrap_or(name), value);
            }
            Value::Object(changed)
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => value,
    }
}

/// Returns `reply` with its texts changed.
pub(super) fn rewrite_reply(mut reply: ToolReply, change: &mut Change<'_>) -> ToolReply {
    for block in &mut reply.content {
        match block {
            Content::Text(text) => rewrite_text(text, change),
            Content::Resource { uri, body, .. } => {
                rewrite_text(uri, change);
                if let ResourceBody::Text(text) = body {
                    rewrite_text(text, change);
                }
            }
            Content::Audio { .. } | Content::Image { .. } => {}
        }
    }
    reply.structured = reply.structured.map(|value| rewrite(value, change));
    reply.internal.iter_mut().for_each(|text| rewrite_text(text, change));
    reply
}

fn rewrite_text(text: &mut String, change: &mut Change<'_>) {
    if let Some(changed) = change(None, text) {
        *text = changed;
    }
}
