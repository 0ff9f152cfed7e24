//! Requests of clients that speak a provider's protocol themselves, passed on as they are.
//!
//! Only the model's name changes, where the client means a provider by another, and the length of a
//! completion is put in where a quota needs one. The bytes stay those of the client otherwise, and the
//! answer stays the provider's. Deliberately absent: translation between protocols.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{EGRESS_BODY_BYTES_MAX, PROVIDER_ANSWER_BYTES_MAX, PROVIDER_ANSWER_MS};
use clawhost_core::manifest::{ProviderPlan, ProviderProtocol};
use clawhost_core::quota::{ProviderLimits, Reservation, Used};
use http::{HeaderMap, Response, StatusCode, header};
use serde_json::Value;

use super::attempt::{self, Failure};
use super::request::text_bytes;
use super::wire::Wire;
use super::{Caller, Inner, Providers, anthropic, first_of, openai};
use crate::upstream::http::{HttpClient, RequestLimits, ResponseBody};

/// A request as a client wrote it.
#[derive(Debug, Clone)]
pub struct Forward<'a> {
    /// What it is written in.
    pub protocol: ProviderProtocol,
    /// Its body, an object.
    pub body: Cow<'a, Value>,
    /// The same as it came; what is sent where nothing has to change. Empty where it did.
    pub bytes: Bytes,
    /// What else the protocol says in headers.
    pub headers: HeaderMap,
}

/// What a provider answered.
#[derive(Debug)]
pub struct Forwarded {
    /// Who.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// The answer: a completion, or the provider's refusal of the request.
    pub response: Response<Answered>,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Answered {
    /// All of it; what it used is charged.
    Whole(Bytes),
    /// A stream of events, and what is to be charged when it has ended.
    Stream(ResponseBody, Box<Held>),
}

/// What is reserved for an answer that is still coming. Dropped, it is spent.
#[derive(Debug)]
pub struct Held {
    providers: Providers,
    caller: Caller,
    plan: ProviderPlan,
    reservation: Reservation,
    prompt_bytes: u64,
}

impl Held {
    /// Charges what the provider's last `usage` reports; without one all that is reserved is spent.
    pub async fn settle(self, usage: &Value) {
        let used = used(self.plan.protocol, usage);
        self.charge(used, 0).await;
    }

    async fn charge(self, used: Option<Used>, answer_bytes: u64) {
        let Self { providers, caller, plan, reservation, prompt_bytes } = self;
        let spent = (prompt_bytes, answer_bytes);
        providers.0.settle(&caller, &plan, reservation, used, spent).await;
    }
}

fn used(protocol: ProviderProtocol, usage: &Value) -> Option<Used> {
    match protocol {
        ProviderProtocol::Anthropic => anthropic::used(usage),
        ProviderProtocol::OpenAi => openai::used(usage),
        ProviderProtocol::Custom => None,
    }
}

impl Forward<'_> {
    /// Says whether the answer is to come as a stream.
    pub fn streams(&self) -> bool {
        self.body.get("stream").and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn length_key(&self) -> &'static str {
        match self.body.get("max_completion_tokens") {
            Some(_) => "max_completion_tokens",
            None => "max_tokens",
        }
    }

    /// Returns how long one completion may be, where the client says so.
    pub(super) fn length(&self) -> Option<u64> {
        self.body.get(self.length_key()).and_then(Value::as_u64)
    }

    /// Returns how many completions are asked for.
    pub fn count(&self) -> u64 {
        self.body.get("n").and_then(Value::as_u64).unwrap_or(1).max(1)
    }
}

impl Providers {
    /// Passes `request` on to the provider that its `model` names, by name or by model, and where that
    /// fails to its fallbacks of the same protocol, each with an equal share of the time that is left. An
    /// answer that streams may go on until `deadline`.
    ///
    /// # Errors
    /// -32602 where no provider of that protocol is called so, -32021 or -32011 where a quota refuses it,
    /// -32020 where none answers; `data.busy` says whether the last one had too much to do.
    pub async fn forward(
        &self,
        caller: &Caller,
        request: &Forward<'_>,
        deadline: Instant,
    ) -> Result<Forwarded, CallError> {
        let model = request.body.get("model").and_then(Value::as_str).unwrap_or_default();
        let mut chain = self.0.chain(Some(model))?;
        if chain.first().is_some_and(|plan| plan.protocol != request.protocol) {
            let message =
                format!("the provider of {model:?} speaks another protocol than this one");
            return Err(CallError::new(ErrorKind::InvalidArguments, message));
        }
        chain.retain(|plan| plan.protocol == request.protocol);
        let client = self.0.client.clone().for_call();
        let client = &client;
        first_of(caller, &chain, deadline, |plan, until| async move {
            let is_bounded = self.0.is_bounded(plan);
            match Wire::passing(plan, request, is_bounded, &self.0.secrets).await {
                Ok(wire) => {
                    let pass = || self.pass(caller, &wire, request, client, (until, deadline));
                    self.0.again(plan, until, pass).await
                }
                Err(failure) => Ok(Err(failure)),
            }
        })
        .await
    }

    async fn pass(
        &self,
        caller: &Caller,
        (wire, plain): &(Wire<'_>, Bytes),
        request: &Forward<'_>,
        client: &HttpClient,
        (until, deadline): (Instant, Instant),
    ) -> Result<Result<Forwarded, Failure>, CallError> {
        let plan = wire.plan;
        let reservation = self.0.reserve(caller, wire).await?;
        let is_bounded = self.0.is_bounded(plan);
        let body = match request.length() {
            None if is_bounded => {
                wire.body(Some(reservation.completion_tokens() / request.count()))
            }
            _ => plain.clone(),
        };
        let streams = request.streams();
        let forwarded = |response| {
            let (provider, model) = (plan.name.clone(), plan.model.clone());
            Ok(Ok(Forwarded { provider, model, response }))
        };
        let response = match open(wire, body, client, limits(streams, until, deadline)).await {
            Ok(response) => response,
            Err(failure) => {
                self.0.give_back(caller, reservation, failure.sent).await;
                return Ok(Err(failure));
            }
        };
        let is_refusal = !response.status().is_success();
        let (parts, body) = response.into_parts();
        let (providers, prompt_bytes) = (self.clone(), wire.size.text_bytes);
        let (own, caller) = (plan.clone(), caller.clone());
        let held = Held { providers, caller, plan: own, reservation, prompt_bytes };
        if streams && !is_refusal && is_stream(&parts.headers) {
            let body = Answered::Stream(body, Box::new(held));
            return forwarded(Response::from_parts(parts, body));
        }
        let whole = match attempt::read(Response::new(body)).await {
            Ok(whole) => whole,
            Err(error) => return Ok(Err(error.into())),
        };
        if is_refusal {
            held.charge(Some(Used::default()), 0).await;
            return forwarded(Response::from_parts(parts, Answered::Whole(whole)));
        }
        let Some((used, text_bytes)) = charge(plan.protocol, &whole) else {
            return Ok(Err(Failure::of_answer("answers with something else than a completion")));
        };
        let charging = held.charge(used, text_bytes);
        if is_bounded {
            charging.await;
        } else {
            // No limit looks at it, so nobody waits until it is on disk.
            drop(tokio::spawn(charging));
        }
        forwarded(Response::from_parts(parts, Answered::Whole(whole)))
    }
}

impl Inner {
    /// Says whether a limit looks at what requests to a provider use.
    fn is_bounded(&self, plan: &ProviderPlan) -> bool {
        plan.limits != ProviderLimits::default()
            || self.rates.tokens_per_hour.is_some()
            || self.rates.cost_per_day_usd.is_some()
    }
}

/// A client's error is for the client, unless it is about this host's key.
async fn open(
    wire: &Wire<'_>,
    body: Bytes,
    client: &HttpClient,
    limits: RequestLimits,
) -> Result<Response<ResponseBody>, Failure> {
    let response = client.send(wire.request(body)?, &limits).await?;
    let status = response.status();
    let is_ours = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::REQUEST_TIMEOUT,
    ];
    if status.is_success() || (status.is_client_error() && !is_ours.contains(&status)) {
        return Ok(response);
    }
    Err(Failure::of_status(status, response.headers()))
}

fn limits(streams: bool, until: Instant, deadline: Instant) -> RequestLimits {
    let patience = Duration::from_millis(PROVIDER_ANSWER_MS);
    let left = until.saturating_duration_since(Instant::now());
    let limits = RequestLimits::until(if streams { deadline } else { until });
    RequestLimits {
        connect: limits.connect.min(left),
        first_byte: patience.min(left),
        between_bytes: patience,
        body_bytes_max: if streams { EGRESS_BODY_BYTES_MAX } else { PROVIDER_ANSWER_BYTES_MAX },
        ..limits
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Returns what an answer says it used, and the bytes of what the model wrote; nothing where it is no
/// completion.
fn charge(protocol: ProviderProtocol, body: &[u8]) -> Option<(Option<Used>, u64)> {
    let body = clawhost_core::json::parse(body).ok()?;
    let said = match protocol {
        ProviderProtocol::OpenAi => body.get("choices").filter(|said| said.is_array())?,
        _ => body.get("content").filter(|said| said.is_array())?,
    };
    let used = body.get("usage").and_then(|usage| used(protocol, usage));
    Some((used, text_bytes(said)))
}
