//! A tool's answer as `claw.tool.call` carries it: blocks of text, images and resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use serde_json::{Map, Value, json};

use super::members::put;
use crate::serve::convert::{META_CUT_FROM, META_KIND};

/// Returns a result. A structured value without blocks becomes a block of text.
pub(super) fn result(reply: ToolReply) -> Value {
    let mut meta = Map::new();
    if let Some(kind) = reply.error_kind {
        meta.insert(META_KIND.to_owned(), json!(kind));
    }
    if let Some(bytes) = reply.cut_from_bytes {
        meta.insert(META_CUT_FROM.to_owned(), json!(bytes));
    }
    let mut content: Vec<Value> = reply.content.into_iter().map(block).collect();
    if let (true, Some(value)) = (content.is_empty(), &reply.structured) {
        content.push(text(&value.to_string()));
    }
    let mut result = json!({"content": content, "isError": reply.is_error});
    put(&mut result, "_meta", (!meta.is_empty()).then_some(Value::Object(meta)));
    result
}

fn block(content: Content) -> Value {
    match content {
        // The protocol has no block for sound.
        Content::Audio { data, mime_type } => {
            resource(AUDIO_URI, Some(&mime_type), &ResourceBody::Bytes(data))
        }
        Content::Image { data, mime_type } => {
            json!({"type": "image", "data": STANDARD.encode(data), "mimeType": mime_type})
        }
        Content::Resource { uri, mime_type, body } => resource(&uri, mime_type.as_deref(), &body),
        Content::Text(value) => text(&value),
    }
}

/// What a recording is called that has no address of its own.
const AUDIO_URI: &str = "urn:clawhost:audio";

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn resource(uri: &str, mime_type: Option<&str>, body: &ResourceBody) -> Value {
    let mut resource = json!({"uri": uri});
    put(&mut resource, "mimeType", mime_type.map(Value::from));
    match body {
        ResourceBody::Bytes(bytes) => {
            put(&mut resource, "blob", Some(STANDARD.encode(bytes).into()))
        }
        ResourceBody::Text(text) => put(&mut resource, "text", Some(text.as_str().into())),
    }
    json!({"type": "resource", "resource": resource})
}

#[cfg(test)]
mod tests {
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
