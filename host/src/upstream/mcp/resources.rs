//! What a server has beside tools: its lists, and what using one of them returns, as a call's reply.
//!
//! A resource is a block with an address, a message of a prompt a block with a `role` beside it, and
//! completions are a structured value. Deliberately absent: subscriptions to single resources.

use std::collections::BTreeSet;
use std::time::Instant;

use clawhost_core::exposed::{Exposed, ExposedKind, List, name_of};
use clawhost_core::redact::Redactor;
use clawhost_core::reply::ToolReply;
use serde_json::{Value, json};
use tracing::debug;

use super::failure::Failure;
use super::mirror;
use super::reply::{self, list, object, wrong};
use super::session::{Ask, ServerSession};
use crate::offload;

impl ServerSession {
    /// Returns the lists of `kinds`. One that cannot be had is empty: the tools are there all the same.
    pub(super) async fn exposed(
        &self,
        kinds: &[ExposedKind],
        redactor: &Redactor,
        deadline: Instant,
    ) -> Exposed {
        let mut all = Exposed::default();
        for list in kinds.iter().flat_map(|kind| kind.lists()) {
            let (method, key) = list.method();
            let items = self.pages(method, key, deadline).await.unwrap_or_else(|failure| {
                debug!("a server's {key} cannot be listed: {}", failure.told(redactor));
                Vec::new()
            });
            let mut seen = BTreeSet::new();
            let shown = items.iter().filter_map(|item| shown(*list, item, redactor));
            let once = shown.filter(|item| seen.insert(name_of(*list, item).to_owned()));
            all.0.insert(*list, offload::blocking(true, || once.collect()));
        }
        all
    }
}

fn shown(list: List, item: &Value, redactor: &Redactor) -> Option<Value> {
    Some(redactor.json(list.cleaned(item)?))
}

/// Returns the request that uses `kind`, whose parameters are `arguments`, the text of a JSON object.
pub(super) fn ask(kind: ExposedKind, arguments: &str, deadline: Instant) -> Ask {
    let members = arguments.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let given: Value = serde_json::from_str(arguments).unwrap_or_default();
    let named = ["uri", "name"].into_iter().find_map(|key| given.get(key)?.as_str());
    let headers = named.map(|name| mirror::headers(name, None, arguments)).unwrap_or_default();
    let params = members.unwrap_or_default().trim().to_owned();
    Ask { params, headers, ..Ask::new(kind.method(), deadline) }
}

/// Reads what the use of `kind` returns.
pub(super) fn read(kind: ExposedKind, result: Value) -> Result<ToolReply, Failure> {
    let mut result = object(Some(result));
    if result.get("resultType").is_some_and(|kind| kind == "input_required") {
        return Err(Failure::InputRequired(Value::Object(result)));
    }
    let (key, block): (_, fn(Value) -> Value) = match kind {
        ExposedKind::Completions => ("completion", std::convert::identity),
        ExposedKind::Prompts => ("messages", message),
        ExposedKind::Resources => ("contents", resource),
    };
    let used = result.remove(key).ok_or_else(|| wrong(format!("the result has no `{key}`")))?;
    if kind == ExposedKind::Completions {
        return Ok(ToolReply { structured: Some(used), ..ToolReply::default() });
    }
    let blocks = list(Some(used))?.into_iter().map(block).collect();
    result.insert("content".to_owned(), Value::Array(blocks));
    if let Some(description) = result.remove("description") {
        let beside = json!({"description": description});
        result.insert("structuredContent".to_owned(), beside);
    }
    reply::read(Value::Object(result))
}

fn resource(content: Value) -> Value {
    let block = [("type".to_owned(), json!("resource")), ("resource".to_owned(), content)];
    Value::Object(block.into_iter().collect())
}

/// Returns the content of a message with its role, which is all there is to a message.
fn message(mut message: Value) -> Value {
    let mut block = message.get_mut("content").map(Value::take).unwrap_or_default();
    if let (Some(block), Some(role)) = (block.as_object_mut(), message.get("role")) {
        block.insert("role".to_owned(), role.clone());
    }
    block
}

#[cfg(test)]
mod tests {
    use clawhost_core::reply::Content;

    use super::*;

    #[test]
    fn contents_and_messages_become_blocks() {
        let contents = json!({"contents": [
            {"uri": "x:1", "mimeType": "text/plain", "text": "t", "_meta": {"a": 1}},
            {"uri": "x:2", "blob": "/w=="},
        ]});
        let reply = read(ExposedKind::Resources, contents).unwrap();
        assert!(reply.content.iter().all(|block| matches!(block, Content::Resource { .. })));
        assert_eq!(reply.extras[&0]["resource"], json!({"_meta": {"a": 1}}));
        let messages = json!({"description": "d", "messages": [
            {"role": "assistant", "content": {"type": "text", "text": "t"}},
        ]});
        let reply = read(ExposedKind::Prompts, messages).unwrap();
        assert_eq!(reply.content, [Content::Text("t".to_owned())]);
        assert_eq!(reply.extras[&0]["role"], json!("assistant"));
        assert_eq!(reply.structured, Some(json!({"description": "d"})));
        let completion = json!({"completion": {"values": ["a"]}});
        let reply = read(ExposedKind::Completions, completion).unwrap();
        assert_eq!(reply.structured, Some(json!({"values": ["a"]})));
    }

    #[test]
    fn what_is_none_of_them_is_wrong() {
        for (kind, result) in [
            (ExposedKind::Completions, json!({})),
            (ExposedKind::Prompts, json!({"messages": {}})),
            (ExposedKind::Prompts, json!({"messages": ["hi"]})),
            (ExposedKind::Prompts, json!({"messages": [{"role": "user", "content": "hi"}]})),
            (ExposedKind::Resources, json!({"contents": [{"uri": "x:1"}]})),
            (ExposedKind::Resources, json!(7)),
        ] {
            let read = read(kind, result.clone());
            assert!(matches!(read, Err(Failure::Wrong(_))), "{result}: {read:?}");
        }
    }

    #[test]
    fn the_arguments_are_the_parameters() {
        let ask = ask(ExposedKind::Resources, r#" {"uri":"x:1"} "#, Instant::now());
        assert_eq!((ask.method, ask.params.as_str()), ("resources/read", r#""uri":"x:1""#));
        assert_eq!(ask.headers["mcp-name"], "x:1");
    }
}
