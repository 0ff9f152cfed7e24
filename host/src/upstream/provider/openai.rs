//! OpenAI's chat completions, the shape that tools write, so that little is to be done; and its embeddings.

use clawhost_core::quota::Used;
use serde_json::{Map, Value, json};

use super::request::{ChatRequest, text_bytes};
use super::wire::Answer;

/// Below the endpoint, which ends with the API's version.
pub(super) const EMBEDDINGS_PATH: &str = "/embeddings";

/// Returns the body of a request without the model and the length of its completion, and the key of that.
pub(super) fn body(chat: &ChatRequest) -> (Map<String, Value>, &'static str) {
    let mut body = chat.options.clone();
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
    Some(Answer { body, used, text_bytes })
}

/// Returns the body of a request for a vector of each text, without the model.
pub(super) fn embeddings_body(texts: &[String]) -> Map<String, Value> {
    let keys = [("input", json!(texts)), ("encoding_format", json!("float"))];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Reads an answer with vectors, which [`vectors`] takes out of it.
pub(super) fn embedded(body: Value) -> Option<Answer> {
    body.get("data")?.as_array()?;
    let prompt_tokens = body.get("usage").and_then(|usage| usage.get("prompt_tokens")?.as_u64());
    let used = prompt_tokens.map(|prompt_tokens| Used { prompt_tokens, completion_tokens: 0 });
    Some(Answer { body, used, text_bytes: 0 })
}

/// Returns the vectors of an answer in the order of the texts; nothing unless each of `count` texts has
/// one vector of finite numbers.
pub(super) fn vectors(body: &Value, count: usize) -> Option<Vec<Vec<f32>>> {
    let mut vectors = vec![Vec::new(); count];
    for (place, item) in body.get("data")?.as_array()?.iter().enumerate() {
        let index = item.get("index").map_or(Some(place as u64), Value::as_u64)?;
        let vector = vectors.get_mut(usize::try_from(index).ok()?).filter(|one| one.is_empty())?;
        *vector = item.get("embedding")?.as_array()?.iter().map(number).collect::<Option<_>>()?;
    }
    vectors.iter().all(|vector| !vector.is_empty()).then_some(vectors)
}

#[expect(clippy::cast_possible_truncation, reason = "what is too large becomes infinite")]
fn number(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
}

pub(super) fn used(usage: &Value) -> Option<Used> {
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
    fn each_text_has_one_vector_of_finite_numbers_or_none_has() {
        let item = |index: u64, numbers: Value| json!({ "index": index, "embedding": numbers });
        let read = |data: Value| vectors(&json!({ "data": data }), 2);
        let turned = json!([item(1, json!([3, 4])), item(0, json!([1.5, -2]))]);
        assert_eq!(read(turned), Some(vec![vec![1.5, -2.0], vec![3.0, 4.0]]));
        assert!(read(json!([{ "embedding": [1] }, { "embedding": [2] }])).is_some());
        for wrong in [
            json!(null),
            json!([]),
            json!([item(0, json!([1]))]),
            json!([item(0, json!([1])), item(0, json!([1]))]),
            json!([item(0, json!([1])), item(2, json!([1]))]),
            json!([item(0, json!([1])), item(1, json!([]))]),
            json!([item(0, json!([1])), item(1, json!([null]))]),
            json!([item(0, json!([1])), item(1, json!(["NaN"]))]),
            json!([item(0, json!([1])), item(1, json!([1e39]))]),
            json!([item(0, json!([1])), item(1, json!("AACAPw=="))]),
            json!([item(0, json!([1])), item(1, json!([1])), item(1, json!([1]))]),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }

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
