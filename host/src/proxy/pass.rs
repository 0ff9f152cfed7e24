//! Requests without tools of ours: the provider's bytes pass, but for what may not leave this host.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::json::items;
use clawhost_core::limits::{PROXY_HISTORY_TEXT_BYTES_MAX, PROXY_NAMES_KEPT_MAX, PROXY_PASS_MS};
use clawhost_core::mediate;
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Map, Value, json};

use super::answer::kept;
use super::history::Record;
use super::refused::Refused;
use super::{Asked, Body, CALLER, Proxy};
use crate::sandbox::{Masked, mask};
use crate::sse::Events;
use crate::upstream::http::ResponseBody;
use crate::upstream::provider::{Answered, Caller, Forward, Forwarded, Held};

impl Proxy {
    /// Passes a request on, and its answer back.
    pub(super) async fn pass(
        &self,
        asked: Asked,
        mut record: Record,
    ) -> Result<Response<Body>, Refused> {
        let forwarded = self.ask(&asked.agent, &asked.forward, PROXY_PASS_MS).await;
        let Forwarded { provider, model, response } =
            forwarded.inspect_err(|refused| record.refuse(refused, asked.dialect))?;
        record.answered_by(&provider, &model, response.status());
        let (parts, body) = response.into_parts();
        let redactor = self.0.host.secrets().redactor();
        let body = match body {
            Answered::Whole(whole) => {
                let whole = Bytes::from(redactor.bytes(&whole).into_owned());
                let answer: Value = serde_json::from_slice(&whole).unwrap_or_default();
                if parts.status.is_success() {
                    self.made_of(&asked, &provider, &answer).await;
                }
                record.finish(&answer);
                Full::new(whole).boxed()
            }
            Answered::Stream(body, held) => {
                let body = mask(Response::new(body), Arc::clone(&redactor)).into_body();
                let seen = Seen { is_kept: asked.is_kept(), ..Seen::default() };
                events(Passing { proxy: self.clone(), asked, body, held, seen, record })
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = parts.status;
        *response.headers_mut() = kept(&parts.headers, &redactor);
        Ok(response)
    }

    /// Asks the provider that a request means.
    pub(super) async fn ask(
        &self,
        agent: &str,
        forward: &Forward<'_>,
        patience_ms: u64,
    ) -> Result<Forwarded, Refused> {
        let caller = Caller::new(agent, CALLER);
        let deadline = Instant::now() + Duration::from_millis(patience_ms);
        let providers = self.0.host.providers();
        Ok(providers.forward(&caller, forward, deadline).await?)
    }
}

/// A stream on its way.
struct Passing {
    proxy: Proxy,
    asked: Asked,
    body: Masked<ResponseBody>,
    held: Box<Held>,
    seen: Seen,
    record: Record,
}

impl Passing {
    /// Takes note of what was made as soon as it has a name: the client may come back before the end.
    async fn note(&mut self) {
        let new = std::mem::take(&mut self.seen.new);
        self.proxy.made(&self.asked, self.record.provider(), new).await;
    }
}

/// Passes events on. A stream that breaks off ends with an error that clients can tell from its end.
fn events(passing: Passing) -> Body {
    let stream = stream::unfold(Some(passing), |passing| async move {
        let mut passing = passing?;
        match passing.body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                passing.seen.see(&data);
                passing.note().await;
                Some((Ok(Frame::data(data)), Some(passing)))
            }
            Some(Err(error)) => {
                tracing::warn!("a stream through the proxy broke off: {error}");
                let dialect = passing.asked.dialect;
                let error = dialect.error(502, "the provider broke off");
                let event = Bytes::from(dialect.error_event(&error));
                Some((Ok(Frame::data(event)), None))
            }
            None => {
                passing.seen.end();
                passing.note().await;
                let Passing { held, seen, mut record, .. } = passing;
                let usage = Value::from(seen.usage.clone());
                // The stream ends when that is on disk, as the next request may be held against it.
                let said = seen.said;
                drop(tokio::spawn(async move { held.settle(&usage, said).await }).await);
                record.finish(&seen.told());
                None
            }
        }
    });
    StreamBody::new(stream).boxed()
}

/// What was read of a stream in passing: what it used, and its text for the history.
#[derive(Default)]
struct Seen {
    events: Events,
    usage: Map<String, Value>,
    /// The provider keeps the answer itself.
    is_kept: bool,
    /// The names of what was made, and those of them that were not noted yet.
    made: BTreeSet<String>,
    new: Vec<String>,
    text: Vec<u8>,
    /// Bytes of what the model wrote.
    said: u64,
    bytes: usize,
}

impl Seen {
    fn see(&mut self, mut data: &[u8]) {
        self.bytes += data.len();
        let room = PROXY_HISTORY_TEXT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.extend(data.iter().take(room));
        while let Some(event) = self.events.next(&mut data, PROXY_HISTORY_TEXT_BYTES_MAX) {
            self.hear(&event);
        }
    }

    /// Takes what the end of the stream cut off as an event all the same.
    fn end(&mut self) {
        let cut = self.events.next(&mut b"\n\n".as_slice(), PROXY_HISTORY_TEXT_BYTES_MAX);
        cut.iter().for_each(|event| self.hear(event));
    }

    fn hear(&mut self, event: &[u8]) {
        let event: Value = serde_json::from_slice(event).unwrap_or_default();
        for id in mediate::made(&event, self.is_kept) {
            if self.made.len() < PROXY_NAMES_KEPT_MAX && self.made.insert(id.to_owned()) {
                self.new.push(id.to_owned());
            }
        }
        let choices = items(&event, "choices").iter();
        let deltas = choices.chain([&event]).filter_map(|from| from.get("delta"));
        self.said += deltas.map(written).sum::<u64>();
        let places = ["/usage", "/message/usage", "/response/usage"];
        let usage = places.iter().find_map(|place| event.pointer(place));
        self.usage.extend(usage.and_then(Value::as_object).cloned().unwrap_or_default());
    }

    fn told(self) -> Value {
        let text = String::from_utf8_lossy(&self.text);
        json!({ "usage": self.usage, "sse": text, "bytes": self.bytes })
    }
}

/// Returns the bytes of what the model wrote in a part of its answer, without what says which part it is.
fn written(delta: &Value) -> u64 {
    match delta {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(written).sum(),
        Value::Object(object) => {
            let names = ["id", "role", "signature", "stop_reason", "stop_sequence", "type"];
            let said = object.iter().filter(|(key, _)| !names.contains(&key.as_str()));
            said.map(|(_, value)| written(value)).sum()
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_seen_however_a_stream_is_cut() {
        let stream = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n: x\n\ndata: {\"text\":\"\\\"usage\\\"\"}\n\ndata: {\"usage\":{\"output_tokens\":9}}";
        for size in [1, 7, stream.len()] {
            let mut seen = Seen::default();
            stream.as_bytes().chunks(size).for_each(|part| seen.see(part));
            seen.end();
            assert_eq!(Value::from(seen.usage), json!({ "input_tokens": 7, "output_tokens": 9 }));
            assert_eq!(seen.bytes, stream.len());
        }
    }

    #[test]
    fn names_are_noted_once_and_so_many_of_one_answer() {
        let mut seen = Seen::default();
        let see = |seen: &mut Seen, id: &str| {
            seen.see(format!("data: {{\"item\":{{\"id\":\"{id}\"}}}}\n\n").as_bytes());
        };
        see(&mut seen, "a");
        see(&mut seen, "a");
        see(&mut seen, &"x".repeat(60_000));
        assert_eq!(std::mem::take(&mut seen.new), ["a"]);
        (0..=PROXY_NAMES_KEPT_MAX).for_each(|number| see(&mut seen, &number.to_string()));
        assert_eq!(
            (seen.made.len(), seen.new.len()),
            (PROXY_NAMES_KEPT_MAX, PROXY_NAMES_KEPT_MAX - 1)
        );
    }

    #[test]
    fn what_the_model_wrote_is_counted_once_and_nothing_else_is() {
        let mut seen = Seen::default();
        for event in [
            json!({ "type": "response.output_text.delta", "delta": "four" }),
            json!({ "type": "response.output_text.done", "text": "four" }),
            json!({ "choices": [{ "delta": { "role": "assistant", "content": "four" } }] }),
            json!({ "delta": { "type": "text_delta", "text": "four" } }),
            json!({ "delta": { "type": "input_json_delta", "partial_json": "four" } }),
        ] {
            seen.see(format!("data: {event}\n\n").as_bytes());
        }
        assert_eq!(seen.said, 16);
    }
}
