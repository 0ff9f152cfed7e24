//! A tool's answer as `claw.tool.call` carries it: MCP's, with the blocks that the protocol has.

use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use serde_json::Value;

use crate::serve::convert::{self, Era};

/// What a recording is called that has no address of its own.
const AUDIO_URI: &str = "urn:clawhost:audio";

/// Returns a result. A structured value without blocks becomes a block of text.
pub(super) fn result(mut reply: ToolReply) -> Value {
    reply.extras.clear();
    reply.content = reply.content.into_iter().map(block).collect();
    let mut result = convert::reply(reply, Era::Legacy);
    result.result_type = None;
    result.structured_content = None;
    // Text, numbers and JSON values always have a JSON form.
    serde_json::to_value(result).unwrap_or_default()
}

/// The protocol has no block for sound, and none for a link.
fn block(content: Content) -> Content {
    match content {
        Content::Audio { data, mime_type } => Content::Resource {
            uri: AUDIO_URI.to_owned(),
            mime_type: Some(mime_type),
            body: ResourceBody::Bytes(data),
        },
        Content::Link(link) => Content::Text(Value::Object(link).to_string()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_block_is_one_of_the_protocol_s() {
        let reply = ToolReply {
            content: vec![
                Content::Text("t".to_owned()),
                Content::Image { data: vec![1, 2], mime_type: "image/png".to_owned() },
                Content::Audio { data: vec![3], mime_type: "audio/wav".to_owned() },
                Content::Resource {
                    uri: "x:2".to_owned(),
                    mime_type: None,
                    body: ResourceBody::Text("r".to_owned()),
                },
            ],
            structured: Some(json!({"n": 1})),
            ..ToolReply::default()
        };
        let expected = json!({"isError": false, "content": [
            {"type": "text", "text": "t"},
            {"type": "image", "data": "AQI=", "mimeType": "image/png"},
            {"type": "resource", "resource":
                {"uri": AUDIO_URI, "mimeType": "audio/wav", "blob": "Aw=="}},
            {"type": "resource", "resource": {"uri": "x:2", "text": "r"}},
        ]});
        assert_eq!(result(reply), expected);
    }

    #[test]
    fn a_failure_and_a_value_are_shown() {
        let failed = result(ToolReply::error("file-not-found", "no file"));
        assert_eq!(failed["isError"], json!(true));
        assert_eq!(failed["_meta"], json!({"clawhost/kind": "file-not-found"}));
        let value = ToolReply { structured: Some(json!([1])), ..ToolReply::default() };
        assert_eq!(result(value)["content"], json!([{"type": "text", "text": "[1]"}]));
    }
}
