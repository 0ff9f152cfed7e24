//! Every text of a value or a reply, with the name it stands under.

use serde_json::Value;

use crate::json::{self, Change};
use crate::reply::{Content, ResourceBody, ToolReply};

/// Is shown a text, and the name it is the value of, where it has one.
pub(super) type Look<'a> = dyn FnMut(Option<&str>, &str) + 'a;

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

/// Has `change` look at every text in `reply`, the one for the record included, and put another
/// in its place.
pub(super) fn reply(reply: &mut ToolReply, change: &mut Change<'_>) {
    for block in &mut reply.content {
        match block {
            Content::Text(text) => rewrite(text, change),
            Content::Resource { uri, body, .. } => {
                rewrite(uri, change);
                if let ResourceBody::Text(text) = body {
                    rewrite(text, change);
                }
            }
            Content::Link(link) => json::rewrite_object(link, false, change),
            Content::Audio { .. } | Content::Image { .. } => {}
        }
    }
    for more in reply.extras.values_mut().chain([&mut reply.meta]) {
        json::rewrite_object(more, false, change);
    }
    reply.structured.iter_mut().for_each(|value| json::rewrite(value, false, change));
    reply.internal.iter_mut().for_each(|text| rewrite(text, change));
}

fn rewrite(text: &mut String, change: &mut Change<'_>) {
    if let Some(changed) = change(None, text) {
        *text = changed;
    }
}
