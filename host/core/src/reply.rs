//! What a tool answered, in the shape every dialect and every executor shares.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::error::exit;
use crate::json;

/// One block of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A recording.
    Audio {
        /// The raw bytes.
        data: Vec<u8>,
        /// For example `audio/wav`.
        mime_type: String,
    },
    /// A picture.
    Image {
        /// The raw bytes.
        data: Vec<u8>,
        /// For example `image/png`.
        mime_type: String,
    },
    /// Where there is more, as MCP writes it: `uri`, `name` and what else is known of it.
    Link(Map<String, Value>),
    /// Content with an address of its own.
    Resource {
        /// The address.
        uri: String,
        /// The media type, where known.
        mime_type: Option<String>,
        /// The content.
        body: ResourceBody,
    },
    /// Text.
    Text(String),
}

/// The content of a resource block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Anything else.
    Bytes(Vec<u8>),
    /// UTF-8 text.
    Text(String),
}

/// The result of a call that was executed: the tool's answer, good or bad.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolReply {
    /// Blocks in the order to show them.
    pub content: Vec<Content>,
    /// What else a bridged server said of the block of that number, as MCP writes it: `annotations`,
    /// `_meta`.
    pub extras: BTreeMap<usize, Map<String, Value>>,
    /// What else it said of the whole result: its `_meta`.
    pub meta: Map<String, Value>,
    /// The same as one JSON value, for programs.
    pub structured: Option<Value>,
    /// That value says of an answer how it came about, and holds it: where it is too long, what it holds becomes
    /// a text, which can be cut.
    pub is_envelope: bool,
    /// The tool ran and says, or shows, that it failed.
    pub is_error: bool,
    /// Why, for programs: a tool-error variant (`file-not-found`) or a fault (`trap`, `exit`).
    pub error_kind: Option<&'static str>,
    /// The full text of a failure, for the audit record only.
    pub internal: Option<String>,
    /// The size before it was cut, in bytes of serialised JSON; absent where nothing was cut.
    pub cut_from_bytes: Option<usize>,
    /// The same of what it says alone: of the structured value as JSON, else of its texts.
    pub said_bytes: Option<usize>,
}

/// Returns about how long `value` is as text, in bytes, without writing it.
pub fn json_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 3,
        Value::Array(values) => values.iter().map(json_bytes).sum::<usize>() + 2,
        Value::Object(object) => members_bytes(object) + 2,
        // A number, a word: as long as most are, with a comma.
        _ => 8,
    }
}

fn members_bytes(object: &Map<String, Value>) -> usize {
    object.iter().map(|(key, value)| key.len() + 4 + json_bytes(value)).sum()
}

impl Content {
    pub(crate) const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads text blocks as one text, as what is looked for may lie across them, and where `find` finds something
/// gives each block what `part` makes of its own range.
pub(crate) fn change_texts<H>(
    run: &mut [Content],
    find: impl FnOnce(&str) -> Vec<H>,
    part: impl Fn(&str, Range<usize>, &[H]) -> String,
) {
    let whole: String = run.iter().filter_map(Content::text).collect();
    let found = find(&whole);
    if found.is_empty() {
        return;
    }
    let mut start = 0;
    for block in run {
        if let Content::Text(text) = block {
            let own = start..start + text.len();
            start = own.end;
            *text = part(&whole, own, &found);
        }
    }
}

/// Returns the bytes `part` of `whole` with a marker in the place of each of `found`, which are in order and apart
/// from each other. What began before the part has its marker there, and only its bytes are missing here.
pub(crate) fn marked<'f, H>(
    whole: &str,
    part: Range<usize>,
    found: &'f [H],
    at: fn(&H) -> &Range<usize>,
    marker: impl Fn(&'f H) -> &'f str,
) -> String {
    let mut text = String::with_capacity(part.len());
    let mut done = part.start;
    let first = found.partition_point(|one| at(one).end <= part.start);
    for one in found.iter().skip(first).take_while(|one| at(one).start < part.end) {
        let (start, end) = (at(one).start, at(one).end);
        let (from, to) = (whole.floor_char_boundary(start), whole.ceil_char_boundary(end));
        text.push_str(whole.get(done..from.max(done)).unwrap_or_default());
        text.push_str(if start >= part.start { marker(one) } else { "" });
        done = to.clamp(done, part.end);
    }
    text.push_str(whole.get(done..part.end).unwrap_or_default());
    text
}

impl ToolReply {
    /// Returns the exit code of a verb that made the call, as [`ErrorKind::exit_code`] is that of one without a reply.
    ///
    /// [`ErrorKind::exit_code`]: crate::error::ErrorKind::exit_code
    pub const fn exit_code(&self) -> u8 {
        if self.is_error { exit::TOOL_FAILED } else { exit::OK }
    }

    /// Returns its texts in their order, without what is for people.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(Content::text)
    }

    /// Returns what the tool answered, for records: its structured part, else the list of its texts.
    pub fn result(&self) -> Cow<'_, Value> {
        let texts = || Cow::Owned(self.texts().collect());
        self.structured.as_ref().map_or_else(texts, Cow::Borrowed)
    }

    /// Returns what programs see of it: its structured part, else what its texts hold.
    pub fn into_value(mut self) -> Value {
        self.structured.take().unwrap_or_else(|| self.read())
    }

    /// Returns what its texts hold: one text is the JSON that it holds, or itself; several are joined by
    /// line breaks.
    pub fn read(&self) -> Value {
        match self.texts().collect::<Vec<_>>().as_slice() {
            [text] => json::parse(text.as_bytes()).unwrap_or_else(|_| Value::from(*text)),
            texts => Value::from(texts.join("\n")),
        }
    }

    /// Returns about how many bytes it holds: its contents and all that is said of them as they are, its JSON
    /// written out.
    pub fn bytes(&self) -> usize {
        let blocks = self.content.iter().map(|block| match block {
            Content::Text(text) => text.len(),
            Content::Link(link) => members_bytes(link),
            Content::Audio { data, mime_type } | Content::Image { data, mime_type } => {
                data.len() + mime_type.len()
            }
            Content::Resource { uri, mime_type, body } => {
                let body = match body {
                    ResourceBody::Text(text) => text.len(),
                    ResourceBody::Bytes(bytes) => bytes.len(),
                };
                body + uri.len() + mime_type.as_deref().map_or(0, str::len)
            }
        });
        let more = self.extras.values().chain([&self.meta]).map(members_bytes);
        blocks.chain(more).sum::<usize>() + self.structured.as_ref().map_or(0, json_bytes)
    }

    /// Returns a failed result with one line of text.
    pub fn error(kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::Text(text.into())],
            is_error: true,
            error_kind: Some(kind),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_that_says_it_failed_ends_a_verb_as_a_failed_tool_does() {
        let failed = ToolReply { is_error: true, ..ToolReply::default() };
        assert_eq!(failed.exit_code(), crate::error::ErrorKind::ToolFault.exit_code());
        assert_eq!(ToolReply::default().exit_code(), exit::OK);
    }

    #[test]
    fn whatever_is_said_counts_among_its_bytes() {
        const LONG_BYTES: usize = 10_000;
        let long = || "x".repeat(LONG_BYTES);
        let object = || Map::from_iter([(long(), json!(1))]);
        let body = || ResourceBody::Text("t".to_owned());
        let block = |block| ToolReply { content: vec![block], ..ToolReply::default() };
        for reply in [
            block(Content::Text(long())),
            block(Content::Link(object())),
            block(Content::Audio { data: vec![1], mime_type: long() }),
            block(Content::Image { data: vec![1; LONG_BYTES], mime_type: "a/b".to_owned() }),
            block(Content::Resource { uri: long(), mime_type: None, body: body() }),
            block(Content::Resource {
                uri: "x:1".to_owned(),
                mime_type: Some(long()),
                body: body(),
            }),
            ToolReply { meta: object(), ..ToolReply::default() },
            ToolReply { extras: BTreeMap::from([(0, object())]), ..ToolReply::default() },
            ToolReply { structured: Some(Value::Object(object())), ..ToolReply::default() },
        ] {
            assert!((LONG_BYTES..LONG_BYTES + 100).contains(&reply.bytes()), "{}", reply.bytes());
        }
    }
}
