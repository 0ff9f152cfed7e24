//! What a provider keeps of OpenAI's Responses: for the agent who had it made, and at the provider who made it.
//!
//! All agents of a host come to a provider with one key, so it is this host that tells them apart.
//! Deliberately absent: a copy of what is kept, and conversations and items by their own names.

use std::borrow::Cow;

use bytes::Bytes;
use clawhost_core::json::{items, text};
use clawhost_core::limits::PROXY_RESPONSE_ID_BYTES_MAX;
use clawhost_core::mediate::Responses;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::history::Record;
use super::refused::Refused;
use super::{Asked, Body, PATHS, Proxy};
use crate::upstream::provider::{Api, Forward, Stored};

impl Proxy {
    /// Passes on what is asked about a response: to see it or what it was made of, to stop or to delete it.
    pub(super) async fn stored(
        &self,
        agent: &str,
        parts: &Parts,
        about: &str,
    ) -> Result<Response<Body>, Refused> {
        let (id, part) = about.split_once('/').unwrap_or((about, ""));
        match (parts.method.as_str(), part) {
            ("GET", "" | "input_items") | ("DELETE", "") | ("POST", "cancel") => {}
            _ => return Err(Refused::new(StatusCode::NOT_FOUND, PATHS)),
        }
        let provider = self.maker(agent, id, StatusCode::NOT_FOUND).await?;
        let asked = asked(agent, &provider, parts)?;
        self.0.host.providers().admit(agent).await?;
        let record = Record::open(self.0.history.as_ref(), &asked, 0);
        self.pass(asked, record).await
    }

    /// Has a request that goes on from a response of the agent's asked of its maker alone, and refuses one
    /// that names what may be anybody's.
    pub(super) async fn check_previous(&self, asked: &mut Asked) -> Result<(), Refused> {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        if asked.forward.api != Api::Responses {
            return Ok(());
        }
        if let Some(why) = unowned(&asked.forward.body) {
            return Err(Refused::new(BAD, why));
        }
        asked.forward.keeper = match asked.forward.body.get("previous_response_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(self.maker(&asked.agent, id, BAD).await?),
            Some(_) => return Err(Refused::new(BAD, "`previous_response_id` is a text")),
        };
        let Some(keeper) = &asked.forward.keeper else { return Ok(()) };
        let why = "the previous response is of another provider than those that `model` means";
        let may_ask = self.0.host.providers().may_ask(asked.forward.model(), keeper)?;
        may_ask.then_some(()).ok_or_else(|| Refused::new(BAD, why))
    }

    /// Takes note of who keeps an answer, and for whom.
    pub(super) async fn made(&self, asked: &Asked, provider: &str, id: &str) {
        let is_kept = asked.forward.api == Api::Responses
            && asked.forward.body.get("store") != Some(&Value::Bool(false));
        if !is_kept || !is_id(id) {
            return;
        }
        let continuity = self.0.continuity.clone();
        let [agent, provider, id] = [&asked.agent, provider, id].map(str::to_owned);
        // It is kept, also where the client is gone by then.
        let kept = tokio::spawn(async move {
            if let Err(error) = continuity.made(&agent, &id, &provider).await {
                tracing::warn!("nobody will find the response {id} again: {error}");
            }
        });
        drop(kept.await);
    }

    /// Returns the provider that made a response for `agent`.
    async fn maker(&self, agent: &str, id: &str, otherwise: StatusCode) -> Result<String, Refused> {
        let found = self.0.continuity.maker(agent, id).await.map_err(|error| {
            tracing::warn!("who made a response cannot be read: {error}");
            Refused::internal()
        })?;
        let none = || Refused::new(otherwise, "this agent has no response of that id");
        found.ok_or_else(none)
    }
}

fn asked(agent: &str, provider: &str, parts: &Parts) -> Result<Asked, Refused> {
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default();
    let streams = query.split('&').any(|pair| pair == "stream=true");
    let stored =
        Stored { method: parts.method.clone(), path: path.clone(), query: query.to_owned() };
    let forward = Forward {
        api: Api::Stored,
        body: Cow::Owned(json!({ "model": provider, "stream": streams })),
        bytes: Bytes::new(),
        headers: super::passed(&parts.headers),
        keeper: Some(provider.to_owned()),
        stored: Some(stored),
    };
    let (agent, conversation, dialect) = (agent.to_owned(), String::new(), &Responses);
    Ok(Asked { agent, id: super::turn_id()?, dialect, path, conversation, forward, trace: None })
}

/// Says why a request is not taken that names what its provider keeps of conversations and items: nobody knows
/// for whom it does.
fn unowned(body: &Value) -> Option<&'static str> {
    if body.get("conversation").is_some_and(|named| !named.is_null()) {
        return Some(
            "`conversation` is not taken, as nobody knows whose it is: name `previous_response_id`, or send \
             the `input`",
        );
    }
    let text =
        "an item of `input` names another one, and nobody knows whose that is: send what it says";
    items(body, "input").iter().any(is_reference).then_some(text)
}

/// Says whether an item is but the name of one that its provider keeps.
fn is_reference(item: &Value) -> bool {
    let is_there = |key: &str| item.get(key).is_some_and(|value| !value.is_null());
    let says = |(key, value): (&String, &Value)| {
        !["id", "role", "status", "type"].contains(&key.as_str()) && !value.is_null()
    };
    let is_kind = match text(item, "type") {
        "" => is_there("role"),
        kind => kind != "item_reference",
    };
    item.as_object().is_some_and(|all| !is_kind || !all.iter().any(says))
}

/// Says whether a response may be asked for by that name: it becomes a part of a path, and dots may be steps.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=PROXY_RESPONSE_ID_BYTES_MAX).contains(&id.len())
        && !id.starts_with('.')
        && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_name_and_no_step_of_a_path() {
        let long = "x".repeat(PROXY_RESPONSE_ID_BYTES_MAX);
        assert!(["resp_1", "a.b:c-d", &long].into_iter().all(is_id));
        let others = ["", ".", "..", "a/b", "a?b", "a%2e", "ä", &(long.clone() + "x")];
        assert!(!others.into_iter().any(is_id));
    }

    #[test]
    fn what_says_all_of_itself_is_no_reference_whatever_it_is_called() {
        for item in [
            json!("hi"),
            json!({ "role": "user", "content": "hi" }),
            json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [] }),
            json!({ "type": "reasoning", "id": "rs_1", "summary": [] }),
            json!({ "type": "function_call_output", "call_id": "c", "output": "x" }),
        ] {
            assert!(!is_reference(&item), "{item}");
        }
        for item in [
            json!({}),
            json!({ "id": "msg_1" }),
            json!({ "type": null, "id": "msg_1", "content": "hi" }),
            json!({ "type": "item_reference", "id": "msg_1", "role": "user", "content": "hi" }),
            json!({ "type": "message", "id": "msg_1", "role": "user", "content": null }),
        ] {
            assert!(is_reference(&item), "{item}");
        }
    }
}
