//! What a tool answered, in the shape every dialect and every executor shares.

use serde_json::Value;

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
    /// The same as one JSON value, for programs.
    pub structured: Option<Value>,
    /// The tool ran and says, or shows, that it failed.
    pub is_error: bool,
    /// Why, for programs: a tool-error variant (`file-not-found`) or a fault (`trap`, `exit`).
    pub error_kind: Option<&'static str>,
    /// The full text of a failure, for the audit record only.
    pub internal: Option<String>,
    /// The size before it was cut, in bytes of serialised JSON; absent where nothing was cut.
    pub cut_from_bytes: Option<usize>,
}

impl ToolReply {
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
