//! What a request refers to beyond itself: a conversation that the provider keeps, a picture at an address,
//! a search. Its own length says nothing of how long the prompt is then.
//!
//! What is not known to be all there is refers to something else. Deliberately absent: finding out how long
//! that is.

use clawhost_core::json::{items, text};
use serde_json::Value;

/// What a request's text or object may be called that says all of itself, in the three protocols.
const CLOSED: [&str; 33] = [
    "encoding_format", "function_call", "functions", "include", "input", "instructions",
    "logit_bias", "messages", "metadata", "modalities", "model", "output_config", "prediction",
    "prompt_cache_key", "prompt_cache_retention", "reasoning", "reasoning_effort",
    "response_format", "safety_identifier", "service_tier", "stop", "stop_sequences",
    "stream_options", "system", "text", "thinking", "tool_choice", "tools", "truncation", "user",
    "verbosity", "anthropic_version", "cache_control",
];

/// What is said, and each part of it: text, or bytes of which a token is no shorter than one.
const SAID: [&str; 16] = [
    "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output",
    "input_text", "message", "output_text", "reasoning", "reasoning_text", "redacted_thinking",
    "refusal", "summary_text", "text", "thinking", "tool_result", "tool_use",
];

/// Says whether the model reads, or may read, more than stands in `request`. A picture counts as that,
/// as few bytes of it can be many tokens.
pub(super) fn is_open(request: &Value) -> bool {
    let is_closed = |(key, value): (&String, &Value)| match value {
        Value::Bool(_) | Value::Null | Value::Number(_) => true,
        _ => CLOSED.contains(&key.as_str()),
    };
    let is_own = |tool: &Value| matches!(text(tool, "type"), "" | "custom" | "function");
    !(request.as_object().is_some_and(|all| all.iter().all(is_closed))
        && items(request, "tools").iter().all(is_own)
        && are_said(request, &["messages", "input", "system", "instructions"]))
}

/// Says whether all items of these lists are said in full.
fn are_said(of: &Value, keys: &[&str]) -> bool {
    keys.iter().flat_map(|key| items(of, key)).all(is_said)
}

fn is_said(item: &Value) -> bool {
    let is_kind = match text(item, "type") {
        // A thing with neither kind nor speaker is the name of another.
        "" => item.get("role").is_some(),
        kind => SAID.contains(&kind),
    };
    item.is_string()
        || is_kind
            && item.get("audio").is_none_or(Value::is_null)
            && are_said(item, &["content", "output", "summary"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(key: &str, value: Value) -> bool {
        let mut request = json!({ "model": "m", "input": "q", "stream": true, "seed": 1 });
        request[key] = value;
        is_open(&request)
    }

    fn say(content: impl Into<Value>) -> Value {
        json!([{ "role": "user", "content": content.into() }])
    }

    #[test]
    fn a_request_that_says_all_of_itself_is_closed() {
        for (key, value) in [
            ("input", say(json!("q"))),
            ("input", say(json!([{ "type": "input_text", "text": "q" }]))),
            ("input", json!([{ "type": "function_call_output", "call_id": "c", "output": "x" }])),
            ("messages", say(json!([{ "type": "tool_result", "content": "x" }]))),
            ("messages", say(json!([{ "type": "tool_use", "input": { "type": "image" } }]))),
            ("system", json!([{ "type": "text", "text": "q" }])),
            ("tools", json!([{ "type": "function", "parameters": { "type": "object" } }])),
            ("tools", json!([{ "name": "f", "input_schema": {} }])),
            ("previous_response_id", Value::Null),
            ("strange", json!(7)),
        ] {
            assert!(!with(key, value.clone()), "{key}: {value}");
        }
    }

    #[test]
    fn a_request_that_refers_to_something_is_open() {
        let picture = json!({ "type": "image_url", "image_url": { "url": "http://x/y.png" } });
        for (key, value) in [
            ("previous_response_id", json!("r")),
            ("conversation", json!({ "id": "c" })),
            ("prompt", json!({ "id": "p" })),
            ("strange", json!("x")),
            ("input", json!([{ "type": "item_reference", "id": "i" }])),
            ("input", json!([{ "id": "i" }])),
            ("input", say(json!([{ "type": "input_file", "file_id": "f" }]))),
            (
                "input",
                json!([{ "type": "function_call_output", "output": [{ "type": "input_image" }] }]),
            ),
            ("messages", say(json!([picture]))),
            ("messages", say(json!([{ "type": "tool_result", "content": [{ "type": "image" }] }]))),
            ("messages", json!([{ "role": "assistant", "audio": { "id": "a" } }])),
            ("tools", json!([{ "type": "web_search" }])),
        ] {
            assert!(with(key, value.clone()), "{key}: {value}");
        }
    }
}
