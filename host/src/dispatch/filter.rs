//! What every reply passes on its way out: the result schemas, then the size cap.

use clawhost_core::catalog::Tool;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::truncate;
use serde_json::Value;

use crate::offload;

/// Returns `reply` checked against the tool's result schemas and cut to `bytes_max`.
pub(super) fn apply(tool: &Tool, reply: ToolReply, bytes_max: usize) -> ToolReply {
    truncate::reply(check(tool, reply), bytes_max)
}

/// A result that breaks the tool's own promise is a failed result, not an answer.
fn check(tool: &Tool, reply: ToolReply) -> ToolReply {
    if reply.is_error || tool.output.is_empty() {
        return reply;
    }
    let structured = reply.structured.as_ref().unwrap_or(&Value::Null);
    match tool.output.iter().find_map(|schema| offload::check(schema, structured).err()) {
        None => reply,
        Some(reason) => {
            let text = "the tool's result does not match its output schema".to_owned();
            ToolReply {
                internal: Some(reason),
                content: vec![Content::Text(text)],
                ..ToolReply::error("invalid-result", "")
            }
        }
    }
}
