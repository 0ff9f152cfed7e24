//! Every text of a value or a reply, with the name it stands under.

use serde_json::{Map, Value};

use super::find::{Hit, replace};
use crate::json;
use crate::reply::{Content, ResourceBody, ToolReply, change_texts};

/// Is shown a text, and the name it is the value of, where it has one; returns what to take out.
pub(super) type Look<'a> = dyn FnMut(Option<&str>, &str) -> Vec<Hit> + 'a;

/// Shows `look` every text and number in `value`, names included.
pub(super) fn value(value: &Value, look: &mut Look<'_>) {
    under(None, value, look);
}

fn under(key: Option<&str>, value: &Value, look: &mut Look<'_>) {
    match value {
        Value::String(text) => drop(look(key, text)),
        Value::Number(number) => drop(look(key, &number.to_string())),
        Value::Array(items) => items.iter().for_each(|item| under(key, item, look)),
        Value::Object(entries) => {
            let pair = json::pair(entries);
            for (name, value) in entries {
                look(None, name);
                under(Some(pair.name_of(name)), value, look);
            }
        }
        Value::Bool(_) | Value::Null => {}
    }
}

/// Says whether `is` holds for any text in `of`.
pub(super) fn any(of: &Value, is: impl Fn(&str) -> bool) -> bool {
    let mut found = false;
    value(of, &mut |_, text| {
        found = found || is(text);
        Vec::new()
    });
    found
}

/// Takes out of `value` what `look` says.
pub(super) fn rewrite(value: &mut Value, look: &mut Look<'_>) {
    json::rewrite(value, true, &mut |key, text| changed(key, text, look));
}

/// Likewise, for an object.
pub(super) fn rewrite_object(entries: &mut Map<String, Value>, look: &mut Look<'_>) {
    json::rewrite_object(entries, true, &mut |key, text| changed(key, text, look));
}

/// Likewise, for text blocks that follow each other as one text: what was sent in pieces is whole
/// again to a reader.
pub(super) fn pieces(reply: &mut ToolReply, look: &mut Look<'_>) {
    let runs = reply.content.chunk_by_mut(|one, next| one.is_text() && next.is_text());
    runs.filter(|run| run.len() > 1)
        .for_each(|run| change_texts(run, |whole| look(None, whole), replace));
}

/// Likewise, for every text in `reply`, the one for the record included.
pub(super) fn reply(reply: &mut ToolReply, look: &mut Look<'_>) {
    for block in &mut reply.content {
        match block {
            Content::Text(body) => text(body, look),
            Content::Resource { uri, mime_type, body } => {
                text(uri, look);
                mime_type.iter_mut().for_each(|kind| text(kind, look));
                if let ResourceBody::Text(body) = body {
                    text(body, look);
                }
            }
            Content::Link(link) => rewrite_object(link, look),
            Content::Audio { mime_type, .. } | Content::Image { mime_type, .. } => {
                text(mime_type, look);
            }
        }
    }
    for more in reply.extras.values_mut().chain([&mut reply.meta]) {
        rewrite_object(more, look);
    }
    reply.structured.iter_mut().for_each(|value| rewrite(value, look));
    reply.internal.iter_mut().for_each(|internal| text(internal, look));
}

/// Takes out of `text` what `look` says.
pub(super) fn text(text: &mut String, look: &mut Look<'_>) {
    if let Some(changed) = changed(None, text, look) {
        *text = changed;
    }
}

fn changed(key: Option<&str>, text: &str, look: &mut Look<'_>) -> Option<String> {
    let hits = look(key, text);
    (!hits.is_empty()).then(|| replace(text, 0..text.len(), &hits))
}
