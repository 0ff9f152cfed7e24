//! Anthropic's messages, written from and read into OpenAI's shape: text only, no tools.

use clawhost_core::quota::Used;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::attempt::Failure;
use super::request::{ChatRequest, text_of};
use super::wire::Answer;

/// The version of the protocol, which each request has to state.
pub(super) const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// Returns the body of a request without the model and the length of its completion, and the key of that.
///
/// # Errors
/// What this protocol has no word for, or this host does not translate.
pub(super) fn body(chat: &ChatRequest) -> Result<(Map<String, Value>, &'static str), Failure> {
    let mut body = options(&chat.options)?;
    let mut system = Vec::new();
    let mut messages = Vec::new();
    for message in &chat.messages {
        let text = text(message)?;
        match message.get("role").and_then(Value::as_str) {
            Some("developer" | "system") => system.push(text),
            Some(role @ ("assistant" | "user")) => {
                messages.push(json!({ "role": role, "content": text }));
            }
            _ => return Err(untranslated("a message of a tool")),
        }
    }
    if !system.is_empty() {
        body.insert("system".to_owned(), system.join("\n\n").into());
    }
    body.insert("messages".to_owned(), messages.into());
    Ok((body, "max_tokens"))
}

fn text(message: &Map<String, Value>) -> Result<String, Failure> {
    if message.contains_key("tool_calls") {
        return Err(untranslated("`tool_calls`"));
    }
    let text = message.get("content").and_then(text_of);
    text.ok_or_else(|| untranslated("a message without text"))
}

fn options(options: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let mut translated = Map::new();
    for (key, value) in options {
        match (key.as_str(), value) {
            ("temperature" | "top_p", _) => translated.insert(key.clone(), value.clone()),
            ("stop", Value::Array(_)) => {
                translated.insert("stop_sequences".to_owned(), value.clone())
            }
            ("stop", _) => translated.insert("stop_sequences".to_owned(), json!([value])),
            ("user", _) => translated.insert("metadata".to_owned(), json!({ "user_id": value })),
            _ => return Err(untranslated(&format!("`{key}`"))),
        };
    }
    Ok(translated)
}

fn untranslated(what: &str) -> Failure {
    Failure::untranslated(&format!("{what} is not translated for `protocol: anthropic-native`"))
}

/// Reads an answer; nothing where it holds no content.
pub(super) fn answer(body: &Value) -> Option<Answer> {
    let blocks = body.get("content")?.as_array()?;
    let texts = blocks.iter().filter(|block| block.get("type").is_some_and(|kind| kind == "text"));
    let content: String =
        texts.map(|block| block.get("text").and_then(Value::as_str)).collect::<Option<_>>()?;
    let used = body.get("usage").and_then(used);
    let text_bytes = content.len() as u64;
    let mut completion = json!({
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": content },
            "finish_reason": finish_reason(body),
        }],
    });
    let parts = completion.as_object_mut()?;
    for key in ["id", "model"] {
        parts.extend(body.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    parts.extend(used.map(|used| ("usage".to_owned(), usage(used))));
    Some(Answer { body: completion, used, text_bytes })
}

fn finish_reason(body: &Value) -> &'static str {
    match body.get("stop_reason").and_then(Value::as_str) {
        Some("max_tokens" | "model_context_window_exceeded") => "length",
        Some("refusal") => "content_filter",
        _ => "stop",
    }
}

/// Tokens of a cached prompt are counted beside the others; here they are the same.
pub(super) fn used(usage: &Value) -> Option<Used> {
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached = cached.iter().filter_map(|key| usage.get(*key).and_then(Value::as_u64));
    let prompt_tokens = usage.get("input_tokens")?.as_u64()?;
    Some(Used {
        prompt_tokens: cached.fold(prompt_tokens, u64::saturating_add),
        completion_tokens: usage.get("output_tokens")?.as_u64()?,
    })
}

fn usage(used: Used) -> Value {
    json!({
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens.saturating_add(used.completion_tokens),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(request: Value) -> Result<Value, String> {
        let chat = ChatRequest::read(request).unwrap();
        body(&chat).map(|(body, _)| body.into()).map_err(|failure| failure.internal)
    }

    #[test]
    fn a_request_is_translated() {
        let body = translated(json!({
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
                { "role": "assistant", "content": "hello" },
                { "role": "developer", "content": "be kind" },
                { "role": "user", "content": "bye" },
            ],
            "stop": "END",
            "temperature": 0.5,
        }));
        let expected = json!({
            "system": "be brief\n\nbe kind",
            "messages": [
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": "hello" },
                { "role": "user", "content": "bye" },
            ],
            "stop_sequences": ["END"],
            "temperature": 0.5,
        });
        assert_eq!(body, Ok(expected));
    }

    #[test]
    fn what_has_no_translation_is_said() {
        let user = json!({ "role": "user", "content": "x" });
        let tools = json!({ "messages": [user], "tools": [] });
        assert!(translated(tools).unwrap_err().contains("`tools`"));
        let tool = json!({ "messages": [{ "role": "tool", "content": "x" }] });
        assert!(translated(tool).unwrap_err().contains("a message of a tool"));
    }

    #[test]
    fn an_answer_is_translated() {
        let body = json!({
            "id": "msg_1",
            "model": "m-1",
            "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }],
            "stop_reason": "max_tokens",
            "usage": { "input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5 },
        });
        let Answer { body: completion, used, text_bytes } = answer(&body).unwrap();
        assert_eq!(text_bytes, 2);
        assert_eq!(used, Some(Used { prompt_tokens: 7, completion_tokens: 5 }));
        let expected = json!({
            "id": "msg_1",
            "model": "m-1",
            "object": "chat.completion",
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "ab" },
                "finish_reason": "length",
            }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12 },
        });
        assert_eq!(completion, expected);
        for body in
            [json!({}), json!({ "content": "x" }), json!({ "content": [{ "type": "text" }] })]
        {
            assert!(answer(&body).is_none(), "{body}");
        }
    }
}
