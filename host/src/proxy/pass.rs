//! Requests without tools of ours: the provider's bytes pass, but for what may not leave this host.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clawhost_core::json::{items, text};
use clawhost_core::limits::{
    PROXY_EVENT_BYTES_MAX, PROXY_EVENT_READ_BYTES_MAX, PROXY_HISTORY_TEXT_BYTES_MAX,
    PROXY_NAMES_KEPT_MAX, PROXY_PASS_MS, SCREENED_AT_ONCE_BYTES_MAX,
};
use clawhost_core::mediate::{self, Dialect};
use clawhost_core::redact::Redactor;
use futures_util::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::answer::kept;
use super::history::Record;
use super::refused::Refused;
use super::{Body, CALLER, Completed, ModelRequest, Proxy};
use crate::offload;
use crate::sandbox::{Masked, mask};
use crate::sse::Events;
use crate::upstream::http::ResponseBody;
use crate::upstream::provider::{
    Answered, Api, Caller, Forward, Forwarded, HeldReservation, written_bytes,
};

impl Proxy {
    pub(super) async fn pass(&self, asked: ModelRequest, mut record: Record) -> Completed {
        let forwarded = self.ask(&asked.agent, &asked.forward, PROXY_PASS_MS).await;
        let Forwarded { provider, model, response } =
            forwarded.inspect_err(|refused| record.refuse(refused, asked.dialect))?;
        record.answered_by(&provider, &model, response.status());
        let (parts, body) = response.into_parts();
        let redactor = self.0.host.secrets().redactor();
        let body = match body {
            Answered::Whole(whole) => {
                let is_long = whole.len() > SCREENED_AT_ONCE_BYTES_MAX;
                let (whole, answer) = offload::blocking(is_long, || read(&redactor, &whole));
                if parts.status.is_success() {
                    self.made_of(&asked, &provider, &answer).await;
                    // Who asks for one that failed before gets it.
                    let is_asked_for = matches!(asked.forward.api, Api::Stored(_));
                    if !is_asked_for && asked.dialect.is_error(&answer) {
                        record.answered_by(&provider, &model, StatusCode::BAD_GATEWAY);
                    }
                }
                record.finish(&answer);
                Full::new(whole).boxed()
            }
            Answered::Stream(body, held) => {
                let body = mask(Response::new(body), Arc::clone(&redactor)).into_body();
                let choices = asked.forward.body.get("n").and_then(Value::as_u64).unwrap_or(1);
                let seen = Seen { choices, is_kept: asked.is_kept(), ..Seen::default() };
                let (dialect, held) = (asked.dialect, Some(held));
                let told = Told { seen, record, held, dialect, has_ended: false };
                let begun = BytesMut::new();
                events(Passing { proxy: self.clone(), asked, body, told, begun })
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = parts.status;
        *response.headers_mut() = kept(&parts.headers, &redactor);
        Ok(response)
    }

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

/// Returns an answer without secrets, and what it says.
fn read(redactor: &Redactor, whole: &Bytes) -> (Bytes, Value) {
    let whole = Bytes::from(redactor.bytes(whole).into_owned());
    let answer = serde_json::from_slice(&whole).unwrap_or_default();
    (whole, answer)
}

/// A stream on its way.
struct Passing {
    proxy: Proxy,
    asked: ModelRequest,
    body: Masked<ResponseBody>,
    told: Told,
    /// The beginning of an event that has not ended.
    begun: BytesMut,
}

impl Passing {
    /// Takes note of what was made as soon as it has a name: the client may come back before the end.
    async fn note(&mut self) {
        let new = std::mem::take(&mut self.told.seen.new);
        self.proxy.made(&self.asked, self.told.record.provider(), new).await;
    }

    /// Returns what the stream ends with: where its answer has not, that it broke off. The end of the connection is
    /// all that some servers show that were killed.
    fn last(&mut self) -> Bytes {
        if self.told.seen.has_end() {
            return std::mem::take(&mut self.begun).freeze();
        }
        tracing::warn!("a stream through the proxy ended before its answer");
        self.broke_off()
    }

    fn broke_off(&self) -> Bytes {
        let dialect = self.asked.dialect;
        let event = dialect.error_event(&dialect.error(502, BROKE_OFF));
        // A client takes it for no part of what had begun.
        Bytes::from(format!("\n\n{event}"))
    }
}

/// What was read of a stream, and the record that tells it however the stream ends.
struct Told {
    seen: Seen,
    record: Record,
    /// What is to be charged.
    held: Option<Box<HeldReservation>>,
    dialect: &'static dyn Dialect,
    /// The provider says no more, whatever that makes of its answer.
    has_ended: bool,
}

impl Told {
    /// Charges what the provider said that it used.
    fn settle(&mut self) -> Option<JoinHandle<()>> {
        let runtime = Handle::try_current().ok()?;
        let held = self.held.take()?;
        let (usage, said) = (Value::from(self.seen.usage.clone()), self.seen.said);
        Some(runtime.spawn(async move { held.settle(&usage, said).await }))
    }
}

impl Drop for Told {
    /// An answer that has ended is whole, also where nobody reads on to the end of its stream.
    fn drop(&mut self) {
        if self.seen.is_over {
            drop(self.settle());
        }
        self.record.got(&self.seen.told());
        let body = self.seen.error.take();
        if self.seen.is_over && body.is_none() {
            self.record.end();
        } else if self.has_ended || body.is_some() {
            let refused = Refused { body, ..Refused::new(StatusCode::BAD_GATEWAY, BROKE_OFF) };
            self.record.refuse(&refused, self.dialect);
        }
    }
}

const BROKE_OFF: &str = "the provider broke off";

/// Passes events on. A stream that breaks off ends with an error that clients can tell from its end.
fn events(passing: Passing) -> Body {
    let stream = stream::unfold(Some(passing), |passing| async move {
        let mut passing = passing?;
        match passing.body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                passing.told.seen.see(&data);
                passing.note().await;
                let whole = whole(&mut passing.begun, &data);
                Some((Ok(Frame::data(whole)), Some(passing)))
            }
            Some(Err(error)) if !passing.told.seen.is_over => {
                tracing::warn!("a stream through the proxy broke off: {error}");
                passing.told.has_ended = true;
                Some((Ok(Frame::data(passing.broke_off())), None))
            }
            // Behind the end of an answer nothing of it breaks off.
            _ => {
                passing.told.has_ended = true;
                passing.told.seen.end();
                passing.note().await;
                let last = passing.last();
                // The stream ends when that is on disk, as the next request may be held against it.
                if let Some(settling) = passing.told.settle() {
                    drop(settling.await);
                }
                (!last.is_empty()).then(|| (Ok(Frame::data(last)), None))
            }
        }
    });
    StreamBody::new(stream).boxed()
}

/// Takes what has come, and returns the events that have ended with it; what has `begun` of another stays. Where a
/// stream breaks off, no client could read a part of one, nor what follows it: a name alone is an event to them.
fn whole(begun: &mut BytesMut, data: &[u8]) -> Bytes {
    let from = begun.len().saturating_sub(1);
    begun.extend_from_slice(data);
    let new = begun.get(from..).unwrap_or_default();
    let empty = new.windows(2).rposition(|two| matches!(two, b"\n\n" | b"\n\r" | b"\r\r"));
    let end = empty.map_or(0, |at| from + at + 2);
    // Behind a return it is a part of that line's end.
    let end = end + usize::from(begun.get(end) == Some(&b'\n'));
    let is_long = begun.len() - end > PROXY_EVENT_BYTES_MAX;
    begun.split_to(if is_long { begun.len() } else { end }).freeze()
}

/// What was read of a stream in passing: what it used, and its text for the history.
#[derive(Default)]
struct Seen {
    events: Events,
    usage: Map<String, Value>,
    /// It said that the answer has ended.
    is_over: bool,
    /// It said what is the end of the answer where nothing comes after it.
    may_be_over: bool,
    /// Choices that were asked for, those of them that have begun, and those that have ended.
    choices: u64,
    begun: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    /// It said that there is none, and why.
    error: Option<Value>,
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
        while let Some(event) = self.events.next(&mut data, PROXY_EVENT_READ_BYTES_MAX) {
            self.hear(&event);
        }
    }

    /// Takes what the end of the stream cut off as an event all the same.
    fn end(&mut self) {
        let cut = self.events.next(&mut b"\n\n".as_slice(), PROXY_EVENT_READ_BYTES_MAX);
        cut.iter().for_each(|event| self.hear(event));
        let have_ended = !self.ended.is_empty() && self.begun.is_subset(&self.ended);
        self.is_over |= self.may_be_over || have_ended;
    }

    fn hear(&mut self, event: &[u8]) {
        self.is_over |= event == b"[DONE]";
        // What is too long to be read may be its end, as that of a response, which says all of it again.
        self.may_be_over |= event.len() > PROXY_EVENT_READ_BYTES_MAX;
        let is_long = event.len() > SCREENED_AT_ONCE_BYTES_MAX;
        let event: Value =
            offload::blocking(is_long, || serde_json::from_slice(event)).unwrap_or_default();
        self.is_over |= LAST.contains(&text(&event, "type"));
        items(&event, "choices").iter().for_each(|choice| self.hear_choice(choice));
        self.error = error_of(&event).or_else(|| self.error.take());
        for id in mediate::made(&event, self.is_kept) {
            if self.made.len() < PROXY_NAMES_KEPT_MAX && self.made.insert(id.to_owned()) {
                self.new.push(id.to_owned());
            }
        }
        let choices = items(&event, "choices").iter();
        let deltas = choices.chain([&event]).filter_map(|from| from.get("delta"));
        self.said += deltas.map(written_bytes).sum::<u64>();
        let places = ["/usage", "/message/usage", "/response/usage"];
        let usage = places.iter().find_map(|place| event.pointer(place));
        let usage = usage.and_then(Value::as_object).cloned().unwrap_or_default();
        // What says nothing takes nothing back.
        self.usage.extend(usage.into_iter().filter(|(_, used)| !used.is_null()));
    }

    fn hear_choice(&mut self, choice: &Value) {
        let index = choice.get("index").and_then(Value::as_u64).unwrap_or_default();
        if index < self.choices {
            self.begun.insert(index);
        }
        if !self.is_over && !text(choice, "finish_reason").is_empty() {
            self.ended.insert(index);
            self.is_over = self.ended.len() as u64 >= self.choices;
        }
    }

    /// Says whether it came to the end of an answer, or said why there is none.
    fn has_end(&self) -> bool {
        self.is_over || self.error.is_some()
    }

    fn told(&self) -> Value {
        let text = String::from_utf8_lossy(&self.text);
        json!({ "usage": self.usage, "sse": text, "bytes": self.bytes })
    }
}

/// The events that are the end of their answers, or say why these end.
const LAST: [&str; 4] =
    ["message_stop", "response.completed", "response.failed", "response.incomplete"];

fn error_of(event: &Value) -> Option<Value> {
    let places = ["/error", "/response/error"];
    let error = places.iter().filter_map(|place| event.pointer(place)).find(|at| !at.is_null());
    match error {
        Some(error) => Some(json!({ "error": error })),
        None => (text(event, "type") == "error").then(|| event.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_seen_however_a_stream_is_cut() {
        let stream = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n: x\n\ndata: {\"text\":\"\\\"usage\\\"\"}\n\ndata: {\"usage\":{\"input_tokens\":null,\"output_tokens\":9}}";
        for size in [1, 7, stream.len()] {
            let mut seen = Seen::default();
            stream.as_bytes().chunks(size).for_each(|part| seen.see(part));
            seen.end();
            assert_eq!(Value::from(seen.usage), json!({ "input_tokens": 7, "output_tokens": 9 }));
            assert_eq!(seen.bytes, stream.len());
        }
    }

    #[test]
    fn what_ends_an_answer_and_what_says_that_there_is_none_is_seen() {
        let seen_of = |choices: u64, events: &[&str]| {
            let mut seen = Seen { choices, ..Seen::default() };
            events.iter().for_each(|event| seen.see(format!("data: {event}\n\n").as_bytes()));
            let is_over = seen.is_over;
            seen.end();
            (is_over, seen.is_over, seen.error)
        };
        let seen = |events: &[&str]| seen_of(1, events);
        let part = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"error":null}"#;
        assert_eq!(seen(&[part]), (false, false, None));
        // All choices that were asked for have to end, and what is long may be anything.
        let choice = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let other = r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#;
        let long = format!("\"{}\"", "x".repeat(PROXY_EVENT_READ_BYTES_MAX));
        assert_eq!(seen(&[part, choice]), (true, true, None));
        for (choices, events) in [(2, [choice, choice]), (1, [part, &long])] {
            assert_eq!(seen_of(choices, &events), (false, true, None));
        }
        assert_eq!(seen_of(2, &[choice, other]), (true, true, None));
        let begun = r#"{"choices":[{"index":1,"delta":{"content":"y"},"finish_reason":null}]}"#;
        assert_eq!(seen_of(2, &[choice, begun]), (false, false, None));
        for end in [
            "[DONE]",
            r#"{"type":"message_stop"}"#,
            r#"{"type":"response.completed","response":{"error":null}}"#,
            r#"{"type":"response.incomplete"}"#,
        ] {
            assert_eq!(seen(&[part, end]), (true, true, None));
        }
        for error in [
            r#"{"error":{"message":"m"}}"#,
            r#"{"type":"error","error":{"message":"m"}}"#,
            r#"{"type":"response.failed","response":{"error":{"message":"m"}}}"#,
        ] {
            let error = seen(&[error, part]).2;
            assert_eq!(error, Some(json!({ "error": { "message": "m" } })));
        }
        let error = r#"{"type":"error","message":"m"}"#;
        assert_eq!(seen(&[error]).2, serde_json::from_str(error).ok());
    }

    #[test]
    fn the_end_of_a_response_is_read_with_the_pictures_in_it() {
        let picture = json!({ "type": "image_generation_call", "result": "x".repeat(3_000_000) });
        let response = json!({ "output": [picture], "usage": { "input_tokens": 7 } });
        let event = json!({ "type": "response.completed", "response": response });
        let mut seen = Seen::default();
        let stream = format!("data: {event}\n\n");
        stream.as_bytes().chunks(50_000).for_each(|part| seen.see(part));
        assert_eq!((seen.is_over, &seen.usage["input_tokens"]), (true, &json!(7)));
    }

    #[test]
    fn an_event_passes_when_it_has_ended_or_is_long() {
        let mut begun = BytesMut::new();
        let mut pass = |data: &[u8]| whole(&mut begun, data);
        assert_eq!(pass(b"event: a\ndata: {"), "");
        assert_eq!(pass(b"}\n"), "");
        assert_eq!(pass(b"\nevent: b\n"), "event: a\ndata: {}\n\n");
        assert_eq!(pass(b"data: x\r\n\r"), "event: b\ndata: x\r\n\r");
        assert_eq!(pass(b"\n: c"), "\n");
        assert_eq!(pass(b"\r\r"), ": c\r\r");
        assert_eq!(pass(b"data: y\r\n\r\nda"), "data: y\r\n\r\n");
        let long = vec![b'x'; PROXY_EVENT_BYTES_MAX];
        assert_eq!(pass(&long).len(), 2 + PROXY_EVENT_BYTES_MAX);
        assert_eq!(pass(b"y\n\nz"), "y\n\n");
        assert_eq!(begun, "z");
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
