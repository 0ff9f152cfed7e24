//! Requests of clients that speak a provider's protocol themselves, passed on as they are.
//!
//! Only the model's name changes, where the client means a provider by another, and the length of a
//! completion is put in where a quota needs one. What each key has stays in the client's own bytes otherwise, and the
//! answer stays the provider's. Deliberately absent: translation between protocols; a provider of another one
//! is passed over, and it is said why.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{
    COMPLETIONS_MAX, EGRESS_BODY_BYTES_MAX, PROVIDER_ANSWER_BYTES_MAX, PROVIDER_ANSWER_MS,
};
use clawhost_core::manifest::ProviderPlan;
use clawhost_core::quota::{ProviderLimits, Reservation, Used};
use http::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use super::api::Api;
use super::attempt::{self, Failure, Sent};
use super::chain::first_of;
use super::providers::Inner;
use super::request::written_bytes;
use super::wire::Wire;
use super::{Caller, Providers, anthropic, openai};
use crate::upstream::http::{HttpClient, RequestLimits, ResponseBody, is_of};

/// A request as a client wrote it.
#[derive(Debug, Clone)]
pub struct Forward<'a> {
    /// What it asks for.
    pub api: Api,
    /// Its body, an object; null where it has none.
    pub body: Cow<'a, Value>,
    /// The same as it came; what did not change of it is sent so.
    pub bytes: Bytes,
    /// The host says something else in the body than its client did.
    pub is_changed: bool,
    /// What else the protocol says in headers.
    pub headers: HeaderMap,
    /// The provider that keeps what it names: nobody else is asked.
    pub keeper: Option<String>,
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
    Stream(ResponseBody, Box<HeldReservation>),
}

/// What is reserved for an answer that is still coming. Dropped, it is spent.
#[derive(Debug)]
pub struct HeldReservation {
    providers: Providers,
    caller: Caller,
    plan: ProviderPlan,
    api: Api,
    reservation: Reservation,
    prompt_bytes: u64,
}

impl HeldReservation {
    /// Charges what the provider's last `usage` reports, for an answer of so many bytes of text; without a
    /// report all that is reserved is spent.
    pub async fn settle(self, usage: &Value, answer_bytes: u64) {
        let used = used(&self.api, usage);
        self.charge(used, answer_bytes).await;
    }

    async fn charge(self, used: Option<Used>, answer_bytes: u64) {
        let Self { providers, caller, plan, reservation, prompt_bytes, .. } = self;
        let spent = (prompt_bytes, answer_bytes);
        providers.0.settle(&caller, &plan, reservation, used, spent).await;
    }

    /// Reads an answer and charges it; one that streams is for whoever reads it.
    async fn read(
        self,
        response: Response<ResponseBody>,
        streams: bool,
    ) -> Result<Response<Answered>, Failure> {
        let (parts, body) = response.into_parts();
        let is_refusal = !parts.status.is_success();
        // What is asked of an answer may be written in more ways than one.
        let streams = streams || matches!(self.api, Api::Stored(_));
        if streams && !is_refusal && is_of(&parts.headers, "text/event-stream") {
            return Ok(Response::from_parts(parts, Answered::Stream(body, Box::new(self))));
        }
        let whole = attempt::read(Response::new(body)).await?;
        if is_refusal {
            let Self { providers, caller, reservation, .. } = self;
            providers.0.give_back(&caller, reservation, Sent::Refused).await;
            return Ok(Response::from_parts(parts, Answered::Whole(whole)));
        }
        let Some((used, text_bytes)) = charge(&self.api, &whole) else {
            return Err(Failure::of_answer("answers with something else than was asked for"));
        };
        let is_bounded = self.providers.0.is_bounded(&self.plan, &self.caller);
        let charging = self.charge(used, text_bytes);
        if is_bounded {
            charging.await;
        } else {
            // No limit looks at it, so nobody waits until it is on disk.
            drop(tokio::spawn(charging));
        }
        Ok(Response::from_parts(parts, Answered::Whole(whole)))
    }
}

fn used(api: &Api, usage: &Value) -> Option<Used> {
    match api {
        Api::Chat => openai::used(usage),
        // The same words, but that one counts what was cached beside the rest.
        Api::Messages | Api::Responses => anthropic::used(usage),
        Api::Count | Api::Stored(_) => None,
    }
}

impl Forward<'_> {
    /// Returns the provider or model that is meant: who keeps it, where no other is named.
    pub fn model(&self) -> &str {
        let named = self.body.get("model").and_then(Value::as_str);
        named.or(self.keeper.as_deref()).unwrap_or_default()
    }

    /// Says whether the answer is to come as a stream.
    pub fn streams(&self) -> bool {
        if let Api::Stored(stored) = &self.api {
            return stored.query.split('&').any(|pair| pair == "stream=true");
        }
        self.body.get("stream").and_then(Value::as_bool).unwrap_or_default()
    }

    /// Says what of it does not tell how much may be written: anything but one length and one small count.
    pub fn unclear(&self) -> Option<String> {
        let given = |key: &str| self.body.get(key).filter(|value| !value.is_null());
        let is_odd = |key: &str, most: u64| {
            given(key).is_some_and(|value| value.as_u64().is_none_or(|number| number > most))
        };
        if is_odd("n", COMPLETIONS_MAX) {
            return Some(format!("`n` is a whole number, at most {COMPLETIONS_MAX}"));
        }
        let lengths = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let odd = lengths.iter().find(|key| is_odd(key, u64::from(u32::MAX)));
        let odd = odd.map(|key| format!("`{key}` is a whole number, and no large one"));
        let is_many = lengths.iter().filter(|key| given(key).is_some()).count() > 1;
        odd.or_else(|| is_many.then(|| format!("of {}, one is given", lengths.join(", "))))
    }

    pub(super) fn length_key(&self) -> &'static str {
        self.api.length_key(&self.body)
    }

    /// Returns how long one completion may be, where the client says so.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.api {
            api if api.writes_nothing() => Some(0),
            _ => self.body.get(self.length_key()).and_then(Value::as_u64),
        }
    }

    /// Returns how many completions are asked for.
    pub(super) fn count(&self) -> u64 {
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
        let (chain, others) = self.0.askable(caller, request)?;
        let client = self.0.client.for_call();
        let client = &client;
        let answer = first_of(caller, &chain, deadline, |plan, until| async move {
            let is_bounded = self.0.is_bounded(plan, caller);
            match Wire::passing(plan, request, is_bounded, &self.0.secrets).await {
                Ok(wire) => {
                    let pass = || self.pass(caller, &wire, request, client, (until, deadline));
                    self.0.again(plan, until, pass).await
                }
                Err(failure) => Ok(Err(failure)),
            }
        });
        answer.await.map_err(|mut error| {
            if !others.is_empty() {
                error.message.push_str(&format!("; passed over: {others}"));
            }
            error
        })
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
        let body = match request.length() {
            None if self.0.is_bounded(plan, caller) => {
                wire.body(Some(reservation.completion_tokens() / request.count()))
            }
            _ => plain.clone(),
        };
        let limits = limits(request.streams(), until, deadline);
        let response = match open(wire, body, client, limits).await {
            Ok(response) => response,
            Err(failure) => {
                self.0.give_back(caller, reservation, failure.sent).await;
                return Ok(Err(failure));
            }
        };
        let held = HeldReservation {
            providers: self.clone(),
            caller: caller.clone(),
            plan: plan.clone(),
            api: request.api.clone(),
            reservation,
            prompt_bytes: wire.size.text_bytes,
        };
        let (provider, model) = (plan.name.clone(), plan.model.clone());
        let answer = held.read(response, request.streams()).await;
        Ok(answer.map(|response| Forwarded { provider, model, response }))
    }
}

impl Inner {
    /// Returns the providers that `request` may come to, and what the others among those meant speak.
    fn askable(
        &self,
        caller: &Caller,
        request: &Forward<'_>,
    ) -> Result<(Vec<&ProviderPlan>, String), CallError> {
        let mut all = self.chain(Some(request.model()))?;
        if let Some(keeper) = &request.keeper {
            all.retain(|plan| plan.name == *keeper);
        }
        let fits = |plan: &&ProviderPlan| plan.protocol == request.api.protocol();
        let is_meant = all.first().is_some_and(fits);
        let (chain, others): (Vec<_>, Vec<_>) = all.into_iter().partition(fits);
        let others = others.into_iter().map(speaks).collect::<Vec<_>>().join("; ");
        if chain.is_empty() {
            return Err(self.of_another_protocol(&others, &request.api));
        }
        // One that would be asked later is told of where its turn comes.
        if !is_meant {
            let path = request.api.path();
            tracing::warn!(caller = caller.tool, "passed over for a request to {path}: {others}");
        }
        Ok((chain, others))
    }

    /// Says whether a limit looks at what requests to a provider use.
    pub(super) fn is_bounded(&self, plan: &ProviderPlan, caller: &Caller) -> bool {
        plan.limits != ProviderLimits::default()
            || self.budget(&caller.agent).is_some()
            || self.rates.tokens_per_hour.is_some()
            || self.rates.cost_per_day_usd.is_some()
    }

    /// Returns the error of a request whose providers, of which `others` tells, do not know what it asks for.
    fn of_another_protocol(&self, others: &str, api: &Api) -> CallError {
        let path = api.path();
        let fits = self.plans.iter().filter(|plan| plan.protocol == api.protocol());
        let fits = fits.map(|plan| format!("`{}`", plan.name)).collect::<Vec<_>>();
        let fits = match fits.is_empty() {
            true => format!("the manifest has no provider for {path}"),
            false => format!("for {path} there is {}", fits.join(", ")),
        };
        CallError::new(ErrorKind::InvalidArguments, format!("{others}; {fits}"))
    }
}

/// Says what a provider speaks, and where clients ask it.
fn speaks(plan: &ProviderPlan) -> String {
    let (name, protocol) = (&plan.name, plan.protocol.name());
    match Api::of(plan.protocol) {
        Some(api) => format!("`{name}` speaks `{protocol}`, which is asked at {}", api.path()),
        None => format!("`{name}` speaks `{protocol}`, which is not served"),
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
        return attempt::plain(response);
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

/// Returns what an answer says it used, and the bytes of what the model wrote; nothing where it is no
/// answer to that.
fn charge(api: &Api, body: &[u8]) -> Option<(Option<Used>, u64)> {
    if matches!(api, Api::Stored(_)) && body.is_empty() {
        return Some((Some(Used::default()), 0));
    }
    let body = clawhost_core::json::parse(body).ok()?;
    let written = api.said(&body)?;
    if api.writes_nothing() {
        return Some((Some(Used::default()), 0));
    }
    let used = body.get("usage").and_then(|usage| used(api, usage));
    Some((used, written_bytes(written)))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::api::StoredCall;
    use super::*;

    #[test]
    fn what_writes_nothing_uses_nothing_however_long_its_answer_is() {
        let (path, query) = ("/v1/responses/r".to_owned(), String::new());
        let stored = Api::Stored(StoredCall { method: Method::GET, path, query });
        let answer =
            br#"{"output":[{"text":"said before"}],"usage":{"input_tokens":7,"output_tokens":9}}"#;
        let none = Some((Some(Used::default()), 0));
        assert_eq!(charge(&stored, answer), none);
        assert_eq!(charge(&Api::Count, br#"{"input_tokens":7}"#), none);
        let used = Used { prompt_tokens: 7, completion_tokens: 9 };
        assert_eq!(charge(&Api::Responses, answer), Some((Some(used), 11)));
    }
}
