//! OpenAI's chat completions: the shape that tools write, so little is to be done.

use clawhost_core::quota::Used;
use serde_json::{Map, Value};

use super::request::{ChatRequest, text_bytes};
use super::wire::Answer;

/// Below the endpoint, which ends with the API's version.
pub(super) const PATH: &str = "/chat/completions";

/// Returns the body of a request without the length of its completion, and the key of that.
pub(super) fn body(chat: &ChatRequest, model: &str) -> (Map<String, Value>, &'static str) {
    let mut body = chat.options.clone();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), chat.messages.clone().into());
    (body, chat.length_key)
}

/// Reads an answer; nothing where it holds no message.
pub(super) fn answer(body: Value) -> Option<Answer> {
    let choices = body.get("choices")?.as_array()?;
    let whole = |choice: &Value| choice.get("message").is_some_and(Value::is_object);
    if choices.is_empty() || !choices.iter().all(whole) {
        return None;
    }
    let used = body.get("usage").and_then(used);
    let messages = choices.iter().filter_map(|choice| choice.get("message")?.as_object());
    // Who speaks is not written by the model.
    let written = messages.flatten().filter(|(key, _)| *key != "role");
    let text_bytes = written.map(|(_, value)| text_bytes(value)).sum();
    Some(Answer { completion: body, used, text_bytes })
}

fn used(usage: &Value) -> Option<Used> {
    Some(Used {
        prompt_tokens: usage.get("prompt_tokens")?.as_u64()?,
        completion_tokens: usage.get("completion_tokens")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_completion_is_none() {
        for body in [
            json!(null),
            json!({}),
            json!({ "choices": [] }),
            json!({ "choices": {} }),
            json!({ "choices": [{}] }),
            json!({ "error": { "message": "no" } }),
        ] {
            assert!(answer(body.clone()).is_none(), "{body}");
        }
    }

    #[test]
    fn all_that_the_model_wrote_is_measured() {
        let call = json!({ "function": { "name": "f", "arguments": "{}" } });
        let calls = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        let says = json!({ "role": "assistant", "content": "hello" });
        let body = json!({ "choices": [{ "message": calls }, { "message": says }] });
        assert_eq!(answer(body).unwrap().text_bytes, "f{}hello".len() as u64);
    }

    #[test]
    fn only_whole_counts_are_believed() {
        let read = |usage: Value| {
            let message = json!({ "role": "assistant", "content": "x" });
            answer(json!({ "choices": [{ "message": message }], "usage": usage })).unwrap().used
        };
        let used = read(json!({ "prompt_tokens": 3, "completion_tokens": 4 }));
        assert_eq!(used, Some(Used { prompt_tokens: 3, completion_tokens: 4 }));
        assert_eq!(read(json!({ "prompt_tokens": -3, "completion_tokens": 4 })), None);
        assert_eq!(read(json!({ "prompt_tokens": 3.5, "completion_tokens": 4 })), None);
        assert_eq!(read(json!({ "prompt_tokens": 3 })), None);
        assert_eq!(read(json!(null)), None);
    }
}
