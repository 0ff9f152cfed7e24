//! A chat request as tools write it: OpenAI's shape, closed.
//!
//! What is unknown is refused: a key that a provider knows and this host does not could ask for
//! more than was reserved (`n` is how many completions there are to be).

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::PROVIDER_REQUEST_BYTES_MAX;
use serde_json::{Map, Value};

/// What a request may say beside `model`, `messages` and how long the completion may be.
pub(super) const OPTIONS: [&str; 11] = [
    "frequency_penalty", "presence_penalty", "response_format", "seed", "stop", "temperature",
    "tool_choice", "tools", "parallel_tool_calls", "top_p", "user",
];

const ROLES: [&str; 5] = ["assistant", "developer", "system", "tool", "user"];

/// What holds no text that a model reads or writes, though it is one.
const DATA: [&str; 6] =
    ["data", "encrypted_content", "file_data", "signature", "thought_signature", "url"];
/// What else stands in answers beside what the model wrote.
const BESIDE: [&str; 11] = [
    "call_id", "finish_reason", "format", "id", "logprobs", "reasoning_details", "role", "status",
    "stop_reason", "stop_sequence", "type",
];

/// A checked request.
#[derive(Debug)]
pub(super) struct ChatRequest {
    /// The provider or model that is meant.
    pub(super) model: Option<String>,
    /// The messages as they were written: a role and text.
    pub(super) messages: Vec<Map<String, Value>>,
    /// Which of [`OPTIONS`] were given.
    pub(super) options: Map<String, Value>,
    /// The key that said how long the completion may be, for servers that know only one of them.
    pub(super) length_key: &'static str,
    /// How long it may be.
    pub(super) completion_tokens: Option<u64>,
    /// The bytes of the whole request, as JSON.
    pub(super) bytes: u64,
}

impl ChatRequest {
    /// Checks a request.
    ///
    /// # Errors
    /// -32602, and what would be right.
    pub(super) fn read(request: Value) -> Result<Self, CallError> {
        let bytes = request.to_string().len();
        if bytes > PROVIDER_REQUEST_BYTES_MAX {
            return Err(wrong(format!("it is over {PROVIDER_REQUEST_BYTES_MAX} bytes")));
        }
        let Value::Object(mut rest) = request else {
            return Err(wrong("it is no object"));
        };
        let model = model(rest.remove("model"))?;
        let messages = messages(rest.remove("messages"))?;
        let (length_key, completion_tokens) = length(&mut rest)?;
        only(&mut rest, "n", &Value::from(1))?;
        only(&mut rest, "stream", &Value::Bool(false))?;
        if let Some(key) = rest.keys().find(|key| !OPTIONS.contains(&key.as_str())) {
            return Err(wrong(format!("the key {key:?} is not served")));
        }
        let bytes = bytes as u64;
        Ok(Self { model, messages, options: rest, length_key, completion_tokens, bytes })
    }

    /// Returns the bytes of all texts that the model reads.
    pub(super) fn text_bytes(&self) -> u64 {
        self.messages
            .iter()
            .flat_map(Map::values)
            .chain(self.options.values())
            .map(text_bytes)
            .sum()
    }
}

/// Returns the error of a request that cannot be sent.
pub(super) fn wrong(what: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorKind::InvalidArguments, format!("the chat request cannot be used: {what}"))
}

fn model(model: Option<Value>) -> Result<Option<String>, CallError> {
    match model {
        None => Ok(None),
        Some(Value::String(model)) => Ok(Some(model)),
        Some(_) => Err(wrong("`model` is no text")),
    }
}

fn messages(messages: Option<Value>) -> Result<Vec<Map<String, Value>>, CallError> {
    let Some(Value::Array(list)) = messages else {
        return Err(wrong("`messages` is no list"));
    };
    if list.is_empty() {
        return Err(wrong("`messages` is empty"));
    }
    list.into_iter().map(message).collect()
}

fn message(message: Value) -> Result<Map<String, Value>, CallError> {
    let Value::Object(message) = message else {
        return Err(wrong("a message is no object"));
    };
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    if !ROLES.contains(&role) {
        return Err(wrong(format!("a message's `role` is one of {}", ROLES.join(", "))));
    }
    // A message that only calls tools has no content.
    let calls = message.contains_key("tool_calls");
    let content = message.get("content").unwrap_or(&Value::Null);
    if text_of(content).is_none() && !(calls && content.is_null()) {
        return Err(wrong("a message's `content` is text, or a list of `text` parts"));
    }
    Ok(message)
}

/// Returns the text of a message's content, nothing where it holds something else.
pub(super) fn text_of(content: &Value) -> Option<String> {
    let part = |part: &Value| {
        let is_text = part.get("type").is_some_and(|kind| kind == "text");
        part.get("text").and_then(Value::as_str).filter(|_| is_text).map(str::to_owned)
    };
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => None,
    }
}

/// Returns the bytes of the texts in `value` that a model reads as such, without keys: a picture, a file,
/// a sound or a sealed thought is text too, under one of [`DATA`].
pub(super) fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(text_bytes).sum(),
        Value::Object(object) => {
            let is_data = |key: &str| DATA.contains(&key);
            // A schema's property may be called so; what is said of it is read.
            let read = object.iter().filter(|(key, value)| !(is_data(key) && value.is_string()));
            read.map(|(_, value)| text_bytes(value)).sum()
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => 0,
    }
}

/// Returns the bytes of what a model wrote in an answer or a part of one: what says which part it is, what is sealed
/// and what says the same again is not that.
pub(crate) fn written_bytes(part: &Value) -> u64 {
    match part {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(written_bytes).sum(),
        Value::Object(object) => {
            let is_written = |key: &str| !(DATA.contains(&key) || BESIDE.contains(&key));
            let written = object.iter().filter(|(key, _)| is_written(key));
            written.map(|(_, value)| written_bytes(value)).sum()
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => 0,
    }
}

fn length(rest: &mut Map<String, Value>) -> Result<(&'static str, Option<u64>), CallError> {
    let keys = ["max_completion_tokens", "max_tokens"];
    let given: Vec<_> = keys.iter().filter_map(|key| Some((*key, rest.remove(*key)?))).collect();
    match given.as_slice() {
        [] => Ok(("max_tokens", None)),
        [(key, value)] => {
            match value.as_u64().filter(|tokens| (1..=u64::from(u32::MAX)).contains(tokens)) {
                Some(tokens) => Ok((key, Some(tokens))),
                None => Err(wrong(format!("`{key}` is no whole number above 0, or a large one"))),
            }
        }
        _ => Err(wrong("`max_tokens` and `max_completion_tokens` are the same: give one")),
    }
}

/// Takes `key` out where it says what goes without saying.
fn only(rest: &mut Map<String, Value>, key: &str, harmless: &Value) -> Result<(), CallError> {
    match rest.remove(key) {
        Some(value) if value != *harmless => Err(wrong(format!("`{key}` can only be {harmless}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hello() -> Value {
        json!({ "messages": [{ "role": "user", "content": "hello" }] })
    }

    fn with(key: &str, value: Value) -> Result<ChatRequest, String> {
        let mut request = hello();
        request[key] = value;
        ChatRequest::read(request).map_err(|error| error.message)
    }

    #[test]
    fn a_picture_is_no_text_and_what_is_said_of_a_property_is() {
        let picture = json!([{ "image_url": { "url": "data:image/png;base64,AAAA" } }]);
        assert_eq!(text_bytes(&picture), 0);
        let schema = json!({ "properties": { "data": { "type": "string" } } });
        assert_eq!(text_bytes(&schema), "string".len() as u64);
    }

    #[test]
    fn what_stands_beside_what_a_model_wrote_counts_for_nothing() {
        let token = json!({ "token": "four", "top_logprobs": [{ "token": "four" }] });
        let seal = "x".repeat(900);
        let call = json!({ "id": "call_1", "type": "function",
            "function": { "name": "f", "arguments": "{}" },
            "extra_content": { "google": { "thought_signature": seal } } });
        for (part, bytes) in [
            (
                json!([{ "finish_reason": "stop", "logprobs": { "content": [token] },
                "message": { "role": "assistant", "content": "four" } }]),
                4,
            ),
            (
                json!({ "reasoning": "hm", "reasoning_details": [{ "text": "hm", "format": "f" }] }),
                2,
            ),
            (json!([{ "type": "thinking", "thinking": "hm", "signature": seal }]), 2),
            (json!({ "tool_calls": [call] }), 3),
        ] {
            assert_eq!(written_bytes(&part), bytes, "{part}");
        }
    }

    #[test]
    fn an_ordinary_request_is_read_and_measured() {
        let chat = with("max_tokens", json!(7)).unwrap();
        assert_eq!(chat.completion_tokens, Some(7));
        let whole =
            json!({ "messages": [{ "content": "hello", "role": "user" }], "max_tokens": 7 });
        assert_eq!(chat.bytes, whole.to_string().len() as u64);
        assert_eq!(chat.text_bytes(), "userhello".len() as u64);
        let tools = with("tools", json!([{ "function": { "name": "f" } }])).unwrap();
        assert_eq!(tools.text_bytes(), "userhellof".len() as u64);
        assert_eq!(ChatRequest::read(hello()).unwrap().completion_tokens, None);
        assert_eq!(
            with("max_completion_tokens", json!(1)).unwrap().length_key,
            "max_completion_tokens"
        );
        assert_eq!(with("temperature", json!(0.5)).unwrap().options["temperature"], 0.5);
        assert!(with("n", json!(1)).is_ok() && with("stream", json!(false)).is_ok());
    }

    #[test]
    fn what_could_cost_more_than_was_reserved_is_refused() {
        for (key, value) in [
            ("n", json!(2)),
            ("best_of", json!(5)),
            ("stream", json!(true)),
            ("max_tokens", json!(0)),
            ("max_tokens", json!(9_000_000_000_000_000_000_u64)),
            ("max_tokens", json!(-1)),
            ("max_tokens", json!(1.5)),
            ("max_tokens", json!("9")),
            ("max_tokens", json!(null)),
            ("prediction", json!({})),
            ("model", json!(7)),
        ] {
            assert!(with(key, value).unwrap_err().contains(key), "{key}");
        }
        let mut both = hello();
        both["max_tokens"] = json!(1);
        both["max_completion_tokens"] = json!(1_000_000);
        assert!(ChatRequest::read(both).is_err());
    }

    #[test]
    fn only_text_is_a_message() {
        for messages in [
            json!(null),
            json!([]),
            json!(["hello"]),
            json!([{ "role": "root", "content": "x" }]),
            json!([{ "role": "user" }]),
            json!([{ "role": "user", "content": 7 }]),
            json!([{ "role": "user", "content": [{ "type": "image_url", "text": "x" }] }]),
            json!([{ "role": "user", "content": [{ "type": "text" }] }]),
        ] {
            assert!(with("messages", messages.clone()).is_err(), "{messages}");
        }
        assert!(ChatRequest::read(json!("x")).is_err());
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        assert_eq!(text_of(&parts).as_deref(), Some("ab"));
        let call = json!([{ "role": "assistant", "content": null, "tool_calls": [] }]);
        assert!(with("messages", call).is_ok());
    }
}
