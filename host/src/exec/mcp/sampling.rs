//! What a bridged server asks of a model (MCP's `sampling/createMessage`), asked of the manifest's provider
//! that the operator names: on the one path of completions, for the agent that calls and within its budget.
//!
//! It has the time of its call, and ends with it. Deliberately absent: pictures, sounds and tools, and any
//! say of the server in which model is asked.

use std::slice::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use clawhost_core::limits::{SAMPLING_TOKENS_MAX, SAMPLINGS_CALL_MAX};
use serde_json::{Value, json};

use crate::dialogue::Model;
use crate::gate::{Admitted, Gate};
use crate::offload;
use crate::secrets::Secrets;
use crate::upstream::provider::{Caller, Providers};

/// The completions of one call.
pub(super) struct Sampling {
    provider: String,
    providers: Providers,
    secrets: Secrets,
    caller: Caller,
    ends_at: Instant,
    asked: AtomicUsize,
}

impl Sampling {
    /// Returns what asks `provider` for the tool of `admitted`.
    pub(super) fn of(provider: &str, gate: &Gate, admitted: &Admitted) -> Self {
        let (sides, tool) = (gate.sides(), admitted.resolved().tool());
        Self {
            provider: provider.to_owned(),
            providers: sides.providers.clone(),
            secrets: sides.secrets.clone(),
            caller: Caller::new(admitted.principal(), &tool.ckp_name),
            ends_at: Instant::now() + admitted.timeout(),
            asked: AtomicUsize::new(0),
        }
    }

    /// Takes known secrets out: a server has its own, and what it says to a model leaves the host.
    fn cleaned(&self, value: Value) -> Value {
        offload::blocking(true, || self.secrets.redactor().json(value))
    }
}

#[async_trait]
impl Model for Sampling {
    async fn says(&self, params: Value) -> Option<Value> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= SAMPLINGS_CALL_MAX {
            return None;
        }
        let request = self.cleaned(request(&self.provider, &params)?);
        let answer = self.providers.complete(&self.caller, request, self.ends_at).await;
        let refused =
            |error: &_| tracing::debug!(caller = self.caller.tool, "no completion: {error}");
        said(&self.provider, &answer.inspect_err(refused).ok()?).map(|said| self.cleaned(said))
    }
}

/// Returns the chat request that asks `provider` what `params` ask; nothing where it has no words for it.
fn request(provider: &str, params: &Value) -> Option<Value> {
    if ["tools", "toolChoice"].iter().any(|key| params.get(key).is_some()) {
        return None;
    }
    let system = params.get("systemPrompt");
    let system = system.map(|text| Some(json!({"role": "system", "content": text.as_str()?})));
    let messages = params.get("messages")?.as_array()?.iter().map(message);
    let messages: Vec<Value> = system.into_iter().chain(messages).collect::<Option<_>>()?;
    let tokens = params.get("maxTokens")?.as_u64()?.min(SAMPLING_TOKENS_MAX);
    let mut request = json!({"model": provider, "messages": messages, "max_tokens": tokens});
    // What MCP calls it, what a chat request calls it, and whether it has the form that both know.
    type Form = fn(&Value) -> bool;
    let settings: [(&str, &str, Form); 2] =
        [("temperature", "temperature", Value::is_number), ("stopSequences", "stop", are_texts)];
    for (asked, said, is_it) in settings {
        if let (Some(value), Some(request)) = (params.get(asked), request.as_object_mut()) {
            request.insert(said.to_owned(), Some(value).filter(|it| is_it(it))?.clone());
        }
    }
    Some(request)
}

fn are_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn message(message: &Value) -> Option<Value> {
    let role = message.get("role")?.as_str().filter(|role| ["assistant", "user"].contains(role))?;
    let content = message.get("content")?;
    let blocks = content.as_array().map_or_else(|| from_ref(content), Vec::as_slice);
    let text = |block: &Value| match block.get("type")?.as_str()? {
        "text" => Some(json!({"type": "text", "text": block.get("text")?.as_str()?})),
        _ => None,
    };
    let texts: Vec<Value> = blocks.iter().map(text).collect::<Option<_>>()?;
    Some(json!({"role": role, "content": texts}))
}

/// Returns what a completion says, in MCP's words.
fn said(provider: &str, answer: &Value) -> Option<Value> {
    let choice = answer.get("choices")?.get(0)?;
    let text = choice.get("message")?.get("content")?.as_str()?;
    let reason = match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => "maxTokens",
        _ => "endTurn",
    };
    let model = answer.get("model").and_then(Value::as_str).unwrap_or(provider);
    let content = json!({"type": "text", "text": text});
    Some(json!({"role": "assistant", "content": content, "model": model, "stopReason": reason}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(key: &str, value: Value) -> Option<Value> {
        let content = json!({"type": "text", "text": "hi", "annotations": {}});
        let mut params =
            json!({"maxTokens": 9, "messages": [{"role": "user", "content": content}]});
        params[key] = value;
        request("p", &params)
    }

    #[test]
    fn a_question_becomes_a_chat_request_of_the_provider_that_is_named() {
        let asked = asks("modelPreferences", json!({"hints": [{"name": "dearest"}]})).unwrap();
        let content = json!([{"type": "text", "text": "hi"}]);
        let expected = json!({"model": "p", "max_tokens": 9, "messages": [{"role": "user", "content": content}]});
        assert_eq!(asked, expected);
        let asked = asks("systemPrompt", json!("Be brief.")).unwrap();
        assert_eq!(asked["messages"][0], json!({"role": "system", "content": "Be brief."}));
        assert_eq!(asks("stopSequences", json!(["."])).unwrap()["stop"], json!(["."]));
        assert_eq!(asks("maxTokens", json!(u64::MAX)).unwrap()["max_tokens"], SAMPLING_TOKENS_MAX);
    }

    #[test]
    fn what_no_chat_request_says_is_not_asked() {
        let block = |block: Value| json!([{"role": "user", "content": block}]);
        for (key, value) in [
            ("tools", json!([])),
            ("toolChoice", json!({"mode": "none"})),
            ("systemPrompt", json!([{"type": "image_url", "image_url": {"url": "x"}}])),
            ("systemPrompt", json!(null)),
            ("temperature", json!({"url": "x"})),
            ("stopSequences", json!("x")),
            ("stopSequences", json!(["x", {"data": "y"}])),
            ("maxTokens", json!(-1)),
            ("maxTokens", json!(null)),
            ("messages", json!("hi")),
            ("messages", json!([{"role": "system", "content": {"type": "text", "text": "x"}}])),
            ("messages", block(json!({"type": "image", "data": "", "mimeType": "image/png"}))),
            ("messages", block(json!([{"type": "text", "text": "x"}, {"type": "tool_use"}]))),
            ("messages", block(json!("hi"))),
        ] {
            assert_eq!(asks(key, value.clone()), None, "{key}: {value}");
        }
    }

    #[test]
    fn a_completion_becomes_an_answer() {
        let answer = |finish: &str| json!({"model": "m", "choices": [{"message": {"content": "yes"}, "finish_reason": finish}]});
        let expected = json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m", "stopReason": "endTurn"});
        assert_eq!(said("p", &answer("stop")), Some(expected));
        assert_eq!(said("p", &answer("length")).unwrap()["stopReason"], "maxTokens");
        assert_eq!(said("p", &json!({"choices": [{"message": {"content": null}}]})), None);
    }
}
