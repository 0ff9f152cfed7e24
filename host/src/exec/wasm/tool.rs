//! What a tool of our own world answers, in the shape that every executor shares.

use clawhost_core::json;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use serde_json::Value;

use super::Answer;
use crate::offload;
use crate::sandbox::bindings::exports::claw::tool::tool::{self, ToolError};
use crate::sandbox::log::CallLog;

/// Returns the answer that a tool gave, whose call has `log`.
pub(super) fn answer(returned: Result<tool::Output, ToolError>, log: &CallLog) -> Answer {
    let output = returned.map_err(|error| Box::new(tool_error(error, log)))?;
    let bytes = size_of(&output);
    let structured = output.structured.as_deref().map(parse_structured).transpose();
    let structured =
        structured.map_err(|reason| Box::new(ToolReply::error("invalid-result", reason)))?;
    let content = output.content.into_iter().map(block).collect();
    Ok((ToolReply { content, structured, ..ToolReply::default() }, bytes))
}

fn parse_structured(text: &str) -> Result<Value, String> {
    let is_long = text.len() > SCREENED_AT_ONCE_BYTES_MAX;
    offload::blocking(is_long, || json::parse(text.as_bytes()))
        .map_err(|error| format!("the tool's structured result cannot be read: {error}"))
}

fn size_of(output: &tool::Output) -> usize {
    let blocks: usize = output.content.iter().map(size_of_block).sum();
    blocks + output.structured.as_ref().map_or(0, String::len)
}

fn size_of_block(block: &tool::Content) -> usize {
    match block {
        tool::Content::Text(text) => text.len(),
        tool::Content::Image(blob) | tool::Content::Audio(blob) => {
            blob.data.len() + blob.mime_type.len()
        }
        tool::Content::Resource(resource) => {
            let body = match &resource.body {
                tool::ResourceBody::Text(text) => text.len(),
                tool::ResourceBody::Bytes(bytes) => bytes.len(),
            };
            body + resource.uri.len() + resource.mime_type.as_ref().map_or(0, String::len)
        }
    }
}

fn block(block: tool::Content) -> Content {
    match block {
        tool::Content::Text(text) => Content::Text(text),
        tool::Content::Image(blob) => Content::Image { data: blob.data, mime_type: blob.mime_type },
        tool::Content::Audio(blob) => Content::Audio { data: blob.data, mime_type: blob.mime_type },
        tool::Content::Resource(resource) => Content::Resource {
            uri: resource.uri,
            mime_type: resource.mime_type,
            body: match resource.body {
                tool::ResourceBody::Text(text) => ResourceBody::Text(text),
                tool::ResourceBody::Bytes(bytes) => ResourceBody::Bytes(bytes),
            },
        },
    }
}

fn tool_error(error: ToolError, log: &CallLog) -> ToolReply {
    let (kind, text) = match error {
        ToolError::NotFound(text) => ("not-found", text),
        ToolError::InvalidArgs(text) => ("invalid-args", text),
        ToolError::ExecutionFailed(text) => ("execution-failed", text),
        ToolError::PermissionDenied(text) => ("permission-denied", text),
        ToolError::FileNotFound(text) => ("file-not-found", text),
        ToolError::InvalidPath(text) => ("invalid-path", text),
        ToolError::Timeout(text) => ("timeout", text),
    };
    // Of a longer one the record keeps no more, and whatever is held on to is searched for secrets again.
    let text = log.short(&text);
    let told = format!("{kind}: {text}");
    ToolReply { internal: Some(text), ..ToolReply::error(kind, told) }
}

#[cfg(test)]
mod tests {
    use clawhost_core::limits::ERROR_TEXT_BYTES_MAX;

    use super::*;
    use crate::offload::tests::{SOON, others_go_on};
    use crate::secrets::Secrets;

    #[test]
    fn other_tasks_go_on_while_a_long_result_is_read() {
        let long = format!("[{}0]", "0,".repeat(1_000_000));
        assert!(others_go_on(SOON, move |wait| parse_structured(&long).is_ok() && wait()));
    }

    #[test]
    fn of_a_long_error_no_more_is_held_than_is_told() {
        let log = CallLog::new("t", Secrets::none());
        let long = ToolError::ExecutionFailed("x".repeat(10 * ERROR_TEXT_BYTES_MAX));
        let reply = tool_error(long, &log);
        assert_eq!(reply.internal.map(|text| text.len()), Some(ERROR_TEXT_BYTES_MAX));
    }
}
