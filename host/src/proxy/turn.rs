//! Turns with tools of ours: the model is asked until it is done, and its calls are made here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::json::items;
use clawhost_core::limits::PROXY_TURN_BYTES_MAX;
use clawhost_core::mediate::{self, Done, Job, Kept, Offers, Step, Turn, TurnBounds};
use futures_util::stream;
use http::StatusCode;
use serde_json::Value;
use tokio::time::{timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::answer::{answer_json, event_stream};
use super::events::{self, Doing, KEEPALIVE};
use super::history::Record;
use super::refused::{Refused, SHOULD_RETRY};
use super::{Completed, ModelRequest, Proxy};
use crate::clock::whole_ms;
use crate::gate::CallContext;
use crate::host::{Principal, ToolCall};
use crate::offload;
use crate::upstream::provider::{Answered, Forward};

/// A turn on its way, and its record, which tells of its calls however the turn ends.
struct Course {
    turn: Turn,
    record: Record,
}

impl Drop for Course {
    fn drop(&mut self) {
        self.record.trace(&self.turn);
    }
}

/// What a call may take beyond its own clock: waiting for a place, or for a word of the operator.
const CALL_SLACK: Duration = Duration::from_secs(1);

impl Proxy {
    /// Carries a turn out. It ends when nobody waits for its answer any more.
    pub(super) async fn mediate(
        &self,
        asked: ModelRequest,
        offers: Offers,
        record: Record,
    ) -> Completed {
        let (dialect, streams) = (asked.dialect, asked.forward.streams());
        let request = asked.forward.body.clone().into_owned();
        let doing = Doing::default();
        let turn = self.clone().turn(asked, offers, record, Arc::clone(&doing));
        let mut turn = AbortOnDropHandle::new(tokio::spawn(turn));
        if !streams {
            let answer = turn.await.unwrap_or_else(|_| Err(Refused::internal()))?;
            return Ok(answer_json(StatusCode::OK, answer.to_string()));
        }
        // What is over before the first comment has a status of its own.
        match timeout(KEEPALIVE, &mut turn).await {
            Ok(ended) => {
                let answer = ended.unwrap_or_else(|_| Err(Refused::internal()))?;
                Ok(event_stream(events::body(stream::iter(dialect.events(answer, &request)))))
            }
            Err(_) => Ok(event_stream(events::stream(turn, dialect, request, doing))),
        }
    }

    /// Carries a turn out within its time, and returns its answer.
    async fn turn(
        self,
        asked: ModelRequest,
        offers: Offers,
        record: Record,
        doing: Doing,
    ) -> Result<Value, Refused> {
        let policy = self.policy(&asked);
        let mut request = asked.forward.body.clone().into_owned();
        mediate::weave(asked.dialect, &mut request, self.kept(&asked).await);
        let turn = Turn::new(asked.dialect, request, offers, policy);
        let mut course = Course { turn, record };
        let bounds = policy.bounds;
        let total = Duration::from_millis(bounds.total_timeout_ms);
        let begun = Instant::now();
        let rounds = self.rounds(&asked, &mut course, bounds, begun, &doing);
        let ended = timeout_at((begun + total).into(), rounds).await;
        let late = || Refused::new(StatusCode::BAD_GATEWAY, "the turn timed out");
        let ended = ended.unwrap_or_else(|_| Err(late()));
        let has_acted = course.turn.has_acted();
        let ended = ended.map_err(|refused| {
            let is_final = refused.is_final || has_acted;
            Refused { is_final, ..refused }
        });
        let done = ended.inspect_err(|refused| course.record.refuse(refused, asked.dialect))?;
        let Done { answer, hidden } = done;
        self.made_of(&asked, course.record.provider(), &answer).await;
        let mut answer = self.redacted(answer);
        asked.dialect.deliver(&asked.forward.body, &mut answer);
        if !hidden.is_empty() {
            self.keep(&asked, &answer, hidden).await;
        }
        course.record.finish(&answer);
        Ok(answer)
    }

    async fn rounds(
        &self,
        asked: &ModelRequest,
        course: &mut Course,
        bounds: TurnBounds,
        begun: Instant,
        doing: &Doing,
    ) -> Result<Done, Refused> {
        let Course { turn, record } = course;
        loop {
            *doing.lock() = format!("managed tool round {} waiting on model", turn.rounds() + 1);
            let spent = |begun: Instant| whole_ms(begun.elapsed());
            let left = bounds.total_timeout_ms.saturating_sub(spent(begun));
            let answer = self.model(asked, turn.request(), left, record).await?;
            match turn.hear(answer, spent(begun))? {
                Step::Done(done) => return Ok(*done),
                Step::Ask => continue,
                Step::Run => {}
            }
            let mut made = 0;
            while let Some(job) = turn.job(spent(begun))? {
                made += 1;
                *doing.lock() = format!("executing {}", job.tool);
                let id = format!("{}.{}.{made}", asked.id, turn.rounds() + 1);
                let called = Instant::now();
                let result = self.call(asked, id, job, bounds, begun).await;
                turn.ran(result, spent(called));
            }
            if let Step::Done(done) = turn.close() {
                return Ok(*done);
            }
        }
    }

    /// Asks the model once, for an answer in one piece.
    async fn model(
        &self,
        asked: &ModelRequest,
        request: &Value,
        patience_ms: u64,
        record: &mut Record,
    ) -> Result<Value, Refused> {
        let forward = Forward {
            body: Cow::Borrowed(request),
            bytes: asked.forward.bytes.clone(),
            is_changed: true,
            api: asked.forward.api.clone(),
            headers: asked.forward.headers.clone(),
            keeper: asked.forward.keeper.clone(),
        };
        let forwarded = self.ask(&asked.agent, &forward, patience_ms).await?;
        let status = forwarded.response.status();
        let told = forwarded.response.headers().get(SHOULD_RETRY);
        let is_final = told.is_some_and(|word| word == "false");
        record.answered_by(&forwarded.provider, &forwarded.model, status);
        let Answered::Whole(body) = forwarded.response.into_body() else {
            return Err(Refused::internal());
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let status = match status.is_success() {
            true if asked.dialect.is_error(&body) => StatusCode::BAD_GATEWAY,
            true => return Ok(body),
            false => status,
        };
        let body = Some(self.redacted(body)).filter(Value::is_object);
        let refused = Refused::new(status, "the provider refuses the request");
        Err(Refused { body, is_final, ..refused })
    }

    /// Makes one call of a turn that has `begun` as the agent's own, and returns what the model is told of it.
    async fn call(
        &self,
        asked: &ModelRequest,
        id: String,
        job: Job,
        bounds: TurnBounds,
        begun: Instant,
    ) -> Value {
        let patience = Duration::from_millis(job.timeout_ms);
        let (principal, trace) = (Principal(asked.agent.clone()), asked.trace);
        let is_enveloped = job.is_enveloped;
        let call = ToolCall {
            timeout: Some(patience),
            context: CallContext { request_id: Some(id), trace, ..CallContext::default() },
            ..ToolCall::new(principal, job.tool, job.arguments)
        };
        let last = begun + Duration::from_millis(bounds.calls_end_ms());
        let end = last.min(Instant::now() + patience + CALL_SLACK);
        match timeout_at(end.into(), self.0.host.call(call)).await {
            Ok(Ok(reply)) => mediate::of_reply(&reply, is_enveloped, bounds.max_tool_result_bytes),
            Ok(Err(error)) => mediate::of_error(&error),
            Err(_) => mediate::refusal("timeout", Some(504), "the call took too long", None),
        }
    }

    /// Returns what is kept of the conversation. A turn goes on without it.
    pub(super) async fn kept(&self, asked: &ModelRequest) -> Vec<Kept> {
        let kept = self.0.continuity.turns(&asked.agent, &asked.conversation).await;
        kept.unwrap_or_else(|error| {
            tracing::warn!("hidden messages of earlier turns cannot be read: {error}");
            Vec::new()
        })
    }

    /// Keeps what the client has not seen of a turn, under what it got: that is what it sends back.
    async fn keep(&self, asked: &ModelRequest, answer: &Value, hidden: Vec<Value>) {
        let anchor = asked.dialect.anchor(&asked.dialect.message(answer)).unwrap_or_default();
        let hidden = self.redacted(hidden.into());
        let mut hidden = hidden.as_array().cloned().unwrap_or_default();
        mediate::fit(asked.dialect, &mut hidden, PROXY_TURN_BYTES_MAX);
        let place = items(&asked.forward.body, asked.dialect.messages()).len();
        let turn = Kept { anchor, place, hidden };
        if let Err(error) = self.0.continuity.keep(&asked.agent, &asked.conversation, turn).await {
            tracing::warn!("hidden messages of a turn cannot be kept: {error}");
        }
    }

    /// Returns `value` without any secret in it.
    fn redacted(&self, value: Value) -> Value {
        offload::redacted(&self.0.host.secrets().redactor(), value)
    }
}
