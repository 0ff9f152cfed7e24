//! What a server answers to a call, in the host's own words. Nothing is lost that MCP knows of.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use serde_json::{Map, Value};

use super::failure::Failure;

type Object = Map<String, Value>;

/// What this host itself says in a result's `_meta`, and nobody in its name.
const OWN_META: &str = "clawhost/";

/// Reads a result of `tools/call`.
pub(super) fn read(result: Value) -> Result<ToolReply, Failure> {
    let Value::Object(mut result) = result else { return Err(wrong("the result is no object")) };
    let kind = result.get("resultType").filter(|kind| !kind.is_null());
    match kind.map(Value::as_str) {
        None | Some(Some("complete")) => {}
        Some(Some("input_required")) => return Err(Failure::InputRequired(Value::Object(result))),
        Some(_) => return Err(wrong("the result is of an unknown type")),
    }
    let mut reply = ToolReply {
        is_error: is_error(result.get("isError"))?,
        structured: result.remove("structuredContent"),
        meta: object(result.remove("_meta")),
        ..ToolReply::default()
    };
    reply.meta.retain(|key, _| !key.starts_with(OWN_META));
    for (at, block) in list(result.remove("content"))?.into_iter().enumerate() {
        let (content, extras) = read_block(object(Some(block)))?;
        reply.content.push(content);
        add(&mut reply.extras, at, extras);
    }
    Ok(reply)
}

/// Says whether a result is one of a failure. What says neither is not taken for a success.
fn is_error(said: Option<&Value>) -> Result<bool, Failure> {
    match said {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(is_error)) => Ok(*is_error),
        Some(_) => Err(wrong("the `isError` of the result is neither true nor false")),
    }
}

pub(super) fn list(content: Option<Value>) -> Result<Vec<Value>, Failure> {
    match content {
        Some(Value::Array(blocks)) => Ok(blocks),
        None => Ok(Vec::new()),
        Some(_) => Err(wrong("the content of the result is no list")),
    }
}

fn add(extras: &mut BTreeMap<usize, Object>, at: usize, more: Object) {
    if !more.is_empty() {
        extras.insert(at, more);
    }
}

/// Returns a block, and what else was said of it.
fn read_block(mut block: Object) -> Result<(Content, Object), Failure> {
    let kind = take(&mut block, "type")?;
    let content = match kind.as_str() {
        "text" => Content::Text(take(&mut block, "text")?),
        "image" => Content::Image {
            data: data(&mut block, "data")?,
            mime_type: take(&mut block, "mimeType")?,
        },
        "audio" => Content::Audio {
            data: data(&mut block, "data")?,
            mime_type: take(&mut block, "mimeType")?,
        },
        "resource" => return resource(block),
        "resource_link" => return Ok((Content::Link(block), Object::new())),
        _ => return Err(wrong("a block of the result is of an unknown type")),
    };
    Ok((content, block))
}

fn resource(mut block: Object) -> Result<(Content, Object), Failure> {
    let mut resource = object(block.remove("resource"));
    let uri = take(&mut resource, "uri")?;
    let mime_type = take(&mut resource, "mimeType").ok();
    let body = match take(&mut resource, "text") {
        Ok(text) => ResourceBody::Text(text),
        Err(_) => ResourceBody::Bytes(data(&mut resource, "blob")?),
    };
    if !resource.is_empty() {
        block.insert("resource".to_owned(), Value::Object(resource));
    }
    Ok((Content::Resource { uri, mime_type, body }, block))
}

fn data(block: &mut Object, key: &str) -> Result<Vec<u8>, Failure> {
    let text = take(block, key)?;
    STANDARD.decode(text).map_err(|_| wrong("a block of the result is no base64"))
}

fn take(block: &mut Object, key: &str) -> Result<String, Failure> {
    match block.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(wrong(format!("a block of the result has no `{key}`"))),
    }
}

pub(super) fn object(value: Option<Value>) -> Object {
    match value {
        Some(Value::Object(object)) => object,
        _ => Object::new(),
    }
}

pub(super) fn wrong(reason: impl Into<String>) -> Failure {
    Failure::Wrong(reason.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_block_and_all_that_is_said_of_it_is_kept() {
        let reply = read(json!({
            "content": [
                {"type": "text", "text": "t", "annotations": {"priority": 0.5}},
                {"type": "image", "data": "AQI=", "mimeType": "image/png"},
                {"type": "audio", "data": "Aw==", "mimeType": "audio/wav", "_meta": {"a": 1}},
                {"type": "resource", "resource": {"uri": "x:1", "text": "r", "_meta": {"b": 2}}},
                {"type": "resource", "resource": {"uri": "x:2", "blob": "/w==", "mimeType": "x/y"}},
                {"type": "resource_link", "uri": "x:3", "name": "n", "size": 9},
            ],
            "structuredContent": [1],
            "isError": true,
            "_meta": {"k": "v", "clawhost/code": -32011},
        }))
        .unwrap();
        assert_eq!(reply.content.len(), 6);
        assert_eq!(
            reply.extras[&0],
            *json!({"annotations": {"priority": 0.5}}).as_object().unwrap()
        );
        assert_eq!(reply.extras[&2], *json!({"_meta": {"a": 1}}).as_object().unwrap());
        assert_eq!(
            reply.extras[&3],
            *json!({"resource": {"_meta": {"b": 2}}}).as_object().unwrap()
        );
        let Content::Link(link) = &reply.content[5] else { panic!() };
        assert_eq!(link["uri"], json!("x:3"));
        assert_eq!((reply.structured, reply.is_error), (Some(json!([1])), true));
        assert_eq!(reply.meta, *json!({"k": "v"}).as_object().unwrap());
    }

    #[test]
    fn what_is_no_result_is_none() {
        for result in [
            json!(7),
            json!({"content": {}}),
            json!({"content": [7]}),
            json!({"content": [{"type": "text"}]}),
            json!({"content": [{"type": "image", "data": "?", "mimeType": "a/b"}]}),
            json!({"content": [{"type": "resource", "resource": {"uri": "x:1"}}]}),
            json!({"content": [{"type": "hologram", "text": "x"}]}),
            json!({"content": [], "resultType": "task"}),
            json!({"content": [], "resultType": ["input_required"]}),
            json!({"content": [], "isError": "true"}),
            json!({"content": [], "isError": 1}),
        ] {
            assert!(matches!(read(result.clone()), Err(Failure::Wrong(_))), "{result}");
        }
        let asks = json!({"resultType": "input_required", "inputRequests": {}});
        assert_eq!(read(asks.clone()), Err(Failure::InputRequired(asks)));
        assert_eq!(read(json!({"structuredContent": null})).unwrap().structured, Some(Value::Null));
        assert!(!read(json!({"content": [], "isError": null})).unwrap().is_error);
    }
}
