//! Writing markers into texts, JSON values, replies and errors.

use std::ops::Range;

use serde_json::{Map, Value};

use super::redactor::{Found, Redactor};
use crate::error::CallError;
use crate::json;
use crate::reply::{Content, ResourceBody, ToolReply, change_texts, marked};

impl Redactor {
    /// Returns `value` with every secret in its texts and keys replaced; a number that spells
    /// one becomes text.
    pub fn json(&self, mut value: Value) -> Value {
        if self.is_in([&value]) {
            self.redact_json(&mut value);
        }
        value
    }

    /// Says whether a secret may be in one of `values`: one search in all their texts is many times faster than
    /// one in each.
    pub fn is_in<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut all = String::new();
        values.into_iter().for_each(|value| gather(value, &mut all));
        self.is_in_gathered(&all)
    }

    /// As [`is_in`](Self::is_in), of texts that were put [together](gather).
    pub fn is_in_gathered(&self, all: &str) -> bool {
        !self.is_empty() && !self.find(all.as_bytes()).is_empty()
    }

    /// Returns `reply` with every secret in it replaced, also where it is spread over text
    /// blocks that follow each other: the marker then stands where it begins.
    pub fn reply(&self, mut reply: ToolReply) -> ToolReply {
        if self.is_empty() {
            return reply;
        }
        for run in reply.content.chunk_by_mut(|a, b| a.is_text() && b.is_text()) {
            match run {
                [block] => self.redact_block(block),
                run => change_texts(
                    run,
                    |whole| self.find(whole.as_bytes()),
                    |whole, part, found| redacted(whole, part, found, &self.markers),
                ),
            }
        }
        reply
            .extras
            .values_mut()
            .chain([&mut reply.meta])
            .for_each(|more| self.redact_object(more));
        reply.structured.iter_mut().for_each(|value| self.redact_json(value));
        reply.internal.iter_mut().for_each(|text| self.redact_text(text));
        reply
    }

    /// Returns `error` with every secret in its texts and facts replaced.
    pub fn error(&self, mut error: CallError) -> CallError {
        if self.is_empty() {
            return error;
        }
        self.redact_text(&mut error.message);
        error.internal.iter_mut().for_each(|text| self.redact_text(text));
        self.redact_object(&mut error.data);
        error
    }

    /// Returns `text` with every secret in it replaced; nothing where there is none.
    pub(super) fn changed(&self, text: &str) -> Option<String> {
        let found = self.find(text.as_bytes());
        (!found.is_empty()).then(|| redacted(text, 0..text.len(), &found, &self.markers))
    }

    fn redact_text(&self, text: &mut String) {
        if let Some(changed) = self.changed(text) {
            *text = changed;
        }
    }

    fn redact_bytes(&self, bytes: &mut Vec<u8>) {
        let found = self.find(bytes);
        if !found.is_empty() {
            *bytes = to_bytes(bytes, &found, &self.markers);
        }
    }

    fn redact_json(&self, value: &mut Value) {
        json::rewrite(value, self.numeric, &mut |_, text| self.changed(text));
    }

    fn redact_object(&self, object: &mut Map<String, Value>) {
        json::rewrite_object(object, self.numeric, &mut |_, text| self.changed(text));
    }

    fn redact_block(&self, block: &mut Content) {
        match block {
            Content::Link(link) => self.redact_object(link),
            Content::Text(text) => self.redact_text(text),
            Content::Audio { data, mime_type } | Content::Image { data, mime_type } => {
                self.redact_bytes(data);
                self.redact_text(mime_type);
            }
            Content::Resource { uri, mime_type, body } => {
                self.redact_text(uri);
                mime_type.iter_mut().for_each(|text| self.redact_text(text));
                match body {
                    ResourceBody::Text(text) => self.redact_text(text),
                    ResourceBody::Bytes(bytes) => self.redact_bytes(bytes),
                }
            }
        }
    }
}

/// Adds the texts of `value` to `all`. Each ends in a byte that belongs to no escape and no word, so that what is
/// found in one of them alone is found in all of them.
pub fn gather(value: &Value, all: &mut String) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => gather_text(&number.to_string(), all),
        Value::String(text) => gather_text(text, all),
        Value::Array(items) => items.iter().for_each(|item| gather(item, all)),
        Value::Object(entries) => gather_object(entries, all),
    }
}

fn gather_object(entries: &Map<String, Value>, all: &mut String) {
    for (name, value) in entries {
        gather_text(name, all);
        gather(value, all);
    }
}

/// As [`gather`], of one text.
pub fn gather_text(text: &str, all: &mut String) {
    all.push_str(text);
    all.push('\0');
}

/// Returns the bytes `part` of `whole` with what was found in it replaced.
pub(super) fn redacted(
    whole: &str,
    part: Range<usize>,
    found: &[Found],
    markers: &[String],
) -> String {
    let marker = |found: &Found| markers.get(found.secret).map_or("", String::as_str);
    marked(whole, part, found, |found| &found.at, marker)
}

pub(super) fn to_bytes(bytes: &[u8], found: &[Found], markers: &[String]) -> Vec<u8> {
    let mut redacted = Vec::new();
    let mut kept_to = 0;
    for Found { at, secret } in found {
        redacted.extend_from_slice(bytes.get(kept_to..at.start).unwrap_or_default());
        redacted.extend(markers.get(*secret).map_or("", String::as_str).bytes());
        kept_to = at.end;
    }
    redacted.extend_from_slice(bytes.get(kept_to..).unwrap_or_default());
    redacted
}
