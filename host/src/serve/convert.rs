//! Between the host's words and MCP's: definitions, replies, errors.
//!
//! Deliberately absent: any decision. The one table of codes is `clawhost_core::error`; this file
//! only says in which envelope a code travels.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::catalog::ToolDefinition;
use clawhost_core::error::CallError;
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, JsonObject, MetaObject, PromptMessage,
    ResourceContents, Role, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

use super::message::Fault;

/// `_meta` of a failed result: the CKP code, for example -32011.
pub(crate) const META_CODE: &str = "clawhost/code";
/// `_meta` of a failed result: its kind, for example `policy` or `file-not-found`.
pub(crate) const META_KIND: &str = "clawhost/kind";
/// `_meta` of a refused call: facts for programs, for example `{"rule_id": …}`.
pub(crate) const META_DATA: &str = "clawhost/data";
/// `_meta` of a shortened result: its true size in bytes of serialised JSON.
pub(crate) const META_CUT_FROM: &str = "clawhost/cut-from-bytes";

/// How much of 2026-07-28 a client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25 and older: structured results and their schemas are objects.
    Legacy,
    /// 2026-07-28 and newer: they may be any JSON value.
    Modern,
}

/// Returns what a client is told about a tool.
pub(crate) fn tool(definition: &ToolDefinition, era: Era) -> Tool {
    let hints = definition.annotations;
    let mut tool = Tool::new(
        definition.name.clone(),
        definition.description.clone(),
        object_schema(&definition.input_schema),
    )
    .with_annotations(ToolAnnotations::from_raw(
        None, hints.read_only, hints.destructive, hints.idempotent, hints.open_world,
    ));
    tool.title.clone_from(&definition.title);
    tool.output_schema = definition.output_schema.as_ref().and_then(|s| output_schema(s, era));
    tool
}

/// MCP wants `"type": "object"` spelt out in every input schema.
fn object_schema(schema: &Value) -> Arc<JsonObject> {
    let mut object = schema.as_object().cloned().unwrap_or_default();
    object.entry("type").or_insert_with(|| json!("object"));
    Arc::new(object)
}

fn output_schema(schema: &Value, era: Era) -> Option<Arc<JsonObject>> {
    let object = schema.as_object()?;
    let is_object = object.get("type").and_then(Value::as_str) == Some("object");
    (era == Era::Modern || is_object).then(|| Arc::new(object.clone()))
}

/// Returns a tool's answer as MCP carries it: blocks, and the structured value beside them.
pub(crate) fn reply(reply: ToolReply, era: Era) -> CallToolResult {
    let mut meta = reply.meta;
    if let Some(kind) = reply.error_kind {
        meta.insert(META_KIND.to_owned(), json!(kind));
    }
    if let Some(bytes) = reply.cut_from_bytes {
        meta.insert(META_CUT_FROM.to_owned(), json!(bytes));
    }
    let mut extras = reply.extras;
    let mut more = |(at, block)| with_extras(block, extras.remove(&at));
    let blocks = reply.content.into_iter().map(block);
    let mut content: Vec<ContentBlock> = blocks.enumerate().map(&mut more).collect();
    if let (true, Some(value)) = (content.is_empty(), &reply.structured) {
        content.push(ContentBlock::text(value.to_string()));
    }
    let mut result = CallToolResult::success(content);
    result.is_error = Some(reply.is_error);
    result.structured_content =
        reply.structured.filter(|value| era == Era::Modern || value.is_object());
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// Returns a reply's blocks that have an address of their own, as the contents of a resource.
pub(crate) fn resources(answer: ToolReply) -> Vec<ResourceContents> {
    let blocks = reply(answer, Era::Modern).content.into_iter();
    let contents = blocks.filter_map(|block| match block {
        ContentBlock::Resource(embedded) => Some(embedded.resource),
        _ => None,
    });
    contents.collect()
}

/// Returns a reply's blocks as the messages of a prompt. One that does not say whose it is, is the
/// user's.
pub(crate) fn messages(mut answer: ToolReply) -> Vec<PromptMessage> {
    let mut role = |at| answer.extras.get_mut(&at).and_then(|extras| extras.remove("role"));
    let roles: Vec<_> = (0..answer.content.len()).map(&mut role).collect();
    let blocks = reply(answer, Era::Modern).content.into_iter();
    let message = |(block, role): (ContentBlock, Option<Value>)| {
        let is_assistants = role.is_some_and(|role| role == "assistant");
        PromptMessage::new(if is_assistants { Role::Assistant } else { Role::User }, block)
    };
    blocks.zip(roles).map(message).collect()
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Audio { data, mime_type } => ContentBlock::audio(STANDARD.encode(data), mime_type),
        Content::Image { data, mime_type } => ContentBlock::image(STANDARD.encode(data), mime_type),
        Content::Resource { uri, mime_type, body } => {
            ContentBlock::resource(resource(uri, mime_type, body))
        }
        Content::Text(text) => ContentBlock::text(text),
        Content::Link(link) => {
            let text = Value::Object(link);
            match serde_json::from_value(text.clone()) {
                Ok(resource) => ContentBlock::resource_link(resource),
                Err(_) => ContentBlock::text(text.to_string()),
            }
        }
    }
}

/// Adds what a bridged server said of a block beside what it holds, as far as MCP knows it.
fn with_extras(block: ContentBlock, extras: Option<Map<String, Value>>) -> ContentBlock {
    let Some(extras) = extras else { return block };
    let Ok(Value::Object(mut whole)) = serde_json::to_value(&block) else { return block };
    for (key, value) in extras {
        match (whole.get_mut(&key).and_then(Value::as_object_mut), value) {
            (Some(inner), Value::Object(more)) => inner.extend(more),
            (_, value) => drop(whole.insert(key, value)),
        }
    }
    serde_json::from_value(Value::Object(whole)).unwrap_or(block)
}

fn resource(uri: String, mime_type: Option<String>, body: ResourceBody) -> ResourceContents {
    match body {
        ResourceBody::Bytes(bytes) => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: STANDARD.encode(bytes),
            meta: None,
        },
        ResourceBody::Text(text) => {
            ResourceContents::TextResourceContents { uri, mime_type, text, meta: None }
        }
    }
}

/// Returns a refused or failed call as MCP carries it.
///
/// # Errors
/// The two failures that are errors of the protocol on this wire: a tool nobody knows (-32602)
/// and a defect of the host (-32603). Everything else is a result that the model can read.
pub(crate) fn failure(error: CallError) -> Result<CallToolResult, ErrorData> {
    if error.kind.is_protocol_error() { Err(protocol_error(error)) } else { Ok(refused(error)) }
}

/// Returns a failure as an error of the protocol.
pub(crate) fn protocol_error(error: CallError) -> ErrorData {
    let Fault { code, message, data, .. } = error.into();
    ErrorData::new(ErrorCode(code), message, Some(Value::Object(data)))
}

fn refused(error: CallError) -> CallToolResult {
    let mut meta = Map::new();
    meta.insert(META_CODE.to_owned(), json!(error.kind.code()));
    meta.insert(META_KIND.to_owned(), json!(error.kind.name()));
    if !error.data.is_empty() {
        meta.insert(META_DATA.to_owned(), Value::Object(error.data));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(error.message)]);
    result.meta = Some(MetaObject(meta));
    result
}

/// Returns a tool's answer as the JSON that an MCP client would get.
pub(crate) fn result_json(of: ToolReply) -> Value {
    serde_json::to_value(reply(of, Era::Modern)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clawhost_core::catalog::Annotations;
    use clawhost_core::error::ErrorKind;

    use super::*;

    fn definition() -> ToolDefinition {
        ToolDefinition {
            name: "read_file".to_owned(),
            title: Some("Read a file".to_owned()),
            description: "Reads.".to_owned(),
            input_schema: json!({"properties": {"path": {"type": "string"}}}),
            output_schema: Some(json!({"type": "array"})),
            annotations: Annotations { read_only: Some(true), ..Annotations::default() },
        }
    }

    #[test]
    fn a_definition_keeps_everything_a_client_reads() {
        let shown = serde_json::to_value(tool(&definition(), Era::Modern)).unwrap();
        let expected = json!({
            "name": "read_file", "title": "Read a file", "description": "Reads.",
            "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
            "outputSchema": {"type": "array"}, "annotations": {"readOnlyHint": true},
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_older_client_is_not_shown_what_it_would_choke_on() {
        assert_eq!(tool(&definition(), Era::Legacy).output_schema, None);
        let structured = ToolReply { structured: Some(json!([1])), ..ToolReply::default() };
        let result = reply(structured.clone(), Era::Legacy);
        assert_eq!(result.structured_content, None);
        assert_eq!(result.content, vec![ContentBlock::text("[1]")]);
        assert_eq!(reply(structured, Era::Modern).structured_content, Some(json!([1])));
    }

    #[test]
    fn every_block_survives() {
        let answer = ToolReply {
            content: vec![
                Content::Text("t".to_owned()),
                Content::Image { data: vec![1, 2], mime_type: "image/png".to_owned() },
                Content::Audio { data: vec![3], mime_type: "audio/wav".to_owned() },
                Content::Resource {
                    uri: "x:1".to_owned(),
                    mime_type: None,
                    body: ResourceBody::Bytes(vec![0xff]),
                },
                Content::Resource {
                    uri: "x:2".to_owned(),
                    mime_type: Some("text/plain".to_owned()),
                    body: ResourceBody::Text("r".to_owned()),
                },
            ],
            ..ToolReply::default()
        };
        let shown = serde_json::to_value(reply(answer, Era::Modern)).unwrap();
        let expected = json!([
            {"type": "text", "text": "t"},
            {"type": "image", "data": "AQI=", "mimeType": "image/png"},
            {"type": "audio", "data": "Aw==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "blob": "/w=="}},
            {"type": "resource",
             "resource": {"uri": "x:2", "mimeType": "text/plain", "text": "r"}},
        ]);
        assert_eq!(shown["content"], expected);
        assert_eq!(shown["isError"], json!(false));
    }

    #[test]
    fn what_a_bridged_server_said_beside_its_blocks_is_kept() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let answer = ToolReply {
            content: vec![
                Content::Text("t".to_owned()),
                Content::Link(object(json!({"uri": "x:3", "name": "n", "size": 9}))),
                Content::Resource {
                    uri: "x:2".to_owned(),
                    mime_type: None,
                    body: ResourceBody::Text("r".to_owned()),
                },
            ],
            extras: [
                (0, object(json!({"annotations": {"priority": 0.7}, "unknown": 1}))),
                (2, object(json!({"resource": {"_meta": {"b": 2}}, "_meta": {"a": 1}}))),
            ]
            .into(),
            meta: object(json!({"k": "v"})),
            ..ToolReply::default()
        };
        let shown = serde_json::to_string(&reply(answer, Era::Modern)).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let expected = json!([
            {"type": "text", "text": "t", "annotations": {"priority": 0.7}},
            {"type": "resource_link", "uri": "x:3", "name": "n", "size": 9},
            {"type": "resource", "_meta": {"a": 1},
             "resource": {"uri": "x:2", "text": "r", "_meta": {"b": 2}}},
        ]);
        assert_eq!((&shown["content"], &shown["_meta"]), (&expected, &json!({"k": "v"})));
    }

    #[test]
    fn a_refusal_is_a_result_with_its_code_and_a_missing_tool_is_not() {
        let denied = CallError::new(ErrorKind::Policy, "refused").with("rule_id", "r1");
        let result = failure(denied).unwrap();
        assert_eq!(result.is_error, Some(true));
        let meta = result.meta.unwrap().0;
        assert_eq!(meta[META_CODE], json!(-32011));
        assert_eq!(meta[META_KIND], json!("policy"));
        assert_eq!(meta[META_DATA], json!({"rule_id": "r1"}));

        let unknown = CallError::new(ErrorKind::UnknownTool, "no such tool");
        assert_eq!(failure(unknown).unwrap_err().code, ErrorCode(-32602));
        let broken = CallError::new(ErrorKind::Internal, "broken").with_internal("secret");
        let error = failure(broken).unwrap_err();
        assert_eq!(error.code, ErrorCode(-32603));
        assert!(!serde_json::to_string(&error).unwrap().contains("secret"));
    }
}
