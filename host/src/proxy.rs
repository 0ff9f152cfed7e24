//! The LLM proxy: an agent whose client asks this host for completions gets the host's tools with them.
//!
//! Requests go to the manifest's providers, in the protocol they came in. Where the agent may call tools,
//! these are put beside its own, and what the model calls of them is carried out here, on the one path, as
//! the agent's calls; the client gets what the model says in the end. Where it may call none, bytes pass.
//!
//! Deliberately absent: translation between protocols, and any tool or provider that the host does not have.
//! Whoever calls has shown its token to `serve` by then.

mod answer;
mod events;
mod history;
mod pass;
mod refused;
mod stored;
mod turn;

use std::borrow::Cow;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::limits::{PROXY_TRACESTATE_BYTES_MAX, SCREENED_AT_ONCE_BYTES_MAX};
use clawhost_core::mediate::{self, Anthropic, Dialect, Offer, Offers, OpenAi, Policy, Responses};
use clawhost_core::{digest, json};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use serde_json::{Value, json};

pub(crate) use self::answer::{answer_json, answer_of};
pub(crate) use self::history::HISTORY_FILE;
use self::history::{History, Record};
use self::refused::Refused;
use crate::continuity::Continuity;
use crate::host::{Host, Principal};
use crate::offload;
use crate::random;
use crate::telemetry::{TRACEPARENT, TraceParent};
use crate::upstream::provider::{Api, Forward};

/// What an answer carries.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// What a request comes to.
type Completed = Result<Response<Body>, Refused>;

/// What the proxy's completions are booked under.
const CALLER: &str = "proxy";
/// Names the conversation that a request belongs to; without it, its first words do.
const CONVERSATION: HeaderName = HeaderName::from_static("x-conversation-id");
/// What a client's library says of the protocol, for the provider.
const PASSED: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("openai-beta"),
];
/// What others say of the trace that a request is part of (W3C), for the provider.
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Random bytes of a turn's id.
const TURN_ID_BYTES: usize = 8;

/// How the proxy is served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyOptions {
    /// How much a turn may take of an agent for whom nothing was compiled.
    pub policy: Policy,
    /// Where each agent's turns are written down; nowhere where this is absent.
    pub history: Option<PathBuf>,
    /// What models begin with, as `provider/model`, that fill in every argument.
    pub prune_sentinels: Vec<String>,
}

/// The proxy of one host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Proxy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    options: ProxyOptions,
    continuity: Continuity,
    history: Option<History>,
}

/// A request of an agent.
struct ModelRequest {
    agent: String,
    /// Which turn of the host's this is, for its records.
    id: String,
    dialect: &'static dyn Dialect,
    conversation: String,
    forward: Forward<'static>,
    trace: Option<TraceParent>,
}

impl Proxy {
    /// Returns the proxy of `host`.
    pub fn new(host: Host, options: ProxyOptions) -> Self {
        let continuity = Continuity::new(host.database().clone());
        let history =
            options.history.clone().map(|folder| History::start(folder, host.secrets().clone()));
        Self(Arc::new(Inner { host, options, continuity, history }))
    }

    /// Answers a request of `agent`, whoever that is; its errors are those of the path's protocol.
    pub(crate) async fn answer(&self, agent: &str, parts: &Parts, body: Bytes) -> Response<Body> {
        let path = parts.uri.path();
        let answered = match (&parts.method, Api::at(path)) {
            (&Method::POST, Some(api)) => self.complete(agent, api, parts, body).await,
            (_, None) if let Some(about) = path.strip_prefix(RESPONSES) => {
                self.stored(agent, parts, about).await
            }
            (&Method::GET | &Method::HEAD, None) => self.models(path),
            _ => Err(Refused::new(StatusCode::NOT_FOUND, PATHS)),
        };
        answered.unwrap_or_else(|refused| refused.answer(dialect_of(parts.uri.path())))
    }

    /// Waits until what was written down so far is on disk.
    pub async fn flush(&self) {
        if let Some(history) = &self.0.history {
            history.flush().await;
        }
    }

    /// Lists the providers by their names, in the shape of both protocols, or shows one of them.
    fn models(&self, path: &str) -> Completed {
        let plans = self.0.host.providers().plans();
        let model = |name: &str| {
            json!({
                "id": name, "object": "model", "type": "model", "display_name": name,
                "owned_by": "clawhost", "created": 0, "created_at": "1970-01-01T00:00:00Z",
            })
        };
        let answer = match path.strip_prefix(MODELS).map(|rest| rest.strip_prefix('/')) {
            Some(None) if path == MODELS => {
                let models: Vec<Value> = plans.iter().map(|plan| model(&plan.name)).collect();
                json!({
                    "object": "list", "data": models, "has_more": false, "first_id": null, "last_id": null,
                })
            }
            Some(Some(name)) => {
                self.0.host.providers().check_model(name)?;
                model(name)
            }
            _ => return Err(Refused::new(StatusCode::NOT_FOUND, PATHS)),
        };
        Ok(answer_json(StatusCode::OK, answer.to_string()))
    }

    async fn complete(&self, agent: &str, api: Api, parts: &Parts, bytes: Bytes) -> Completed {
        let mut asked = asked(agent, api, parts, bytes)?;
        self.write_out(&mut asked).await?;
        self.check_named(&mut asked).await?;
        let offers = self.offers(&asked);
        if asked.forward.api == Api::Count {
            return self.count(asked, &offers).await;
        }
        if let Some(why) =
            asked.dialect.unmediated(&asked.forward.body).filter(|_| !offers.is_empty())
        {
            return Err(Refused::new(StatusCode::BAD_REQUEST, why));
        }
        let mut record = self.record(&asked, offers.iter().count());
        if let Err(error) = self.0.host.providers().admit(agent).await {
            let refused = Refused::from(error);
            record.refuse(&refused, asked.dialect);
            return Err(refused);
        }
        match offers.is_empty() {
            true => self.pass(asked, record).await,
            false => self.mediate(asked, offers, record).await,
        }
    }

    /// Asks how long a prompt is, with all that is put into it.
    async fn count(&self, mut asked: ModelRequest, offers: &Offers) -> Completed {
        self.0.host.providers().admit(&asked.agent).await?;
        if !offers.is_empty() {
            let mut body = std::mem::take(asked.forward.body.to_mut());
            asked.forward.is_changed = true;
            mediate::weave(asked.dialect, &mut body, self.kept(&asked).await);
            asked.dialect.inject(&mut body, offers);
            asked.forward.body = Cow::Owned(body);
        }
        let record = Record::open(None, &asked, 0, false);
        self.pass(asked, record).await
    }

    /// Begins the record of a turn that has so many tools of ours.
    fn record(&self, asked: &ModelRequest, tools: usize) -> Record {
        let is_compiled = self.0.host.manifest().agents.contains_key(&asked.agent);
        Record::open(self.0.history.as_ref(), asked, tools, is_compiled)
    }

    /// Returns the tools that the agent may call, beside those of its runner.
    fn offers(&self, asked: &ModelRequest) -> Offers {
        let tools = self.0.host.list(&Principal(asked.agent.clone()));
        let offers = tools.iter().map(|tool| offer(tool)).collect();
        let offers = Offers::new(offers, asked.dialect.declared(&asked.forward.body));
        offers.pruning(self.is_pruned(asked.forward.model()))
    }

    fn is_pruned(&self, model: &str) -> bool {
        let plan = self.0.host.providers().named(model);
        let meant = plan.map(|plan| format!("{}/{}", plan.name, plan.model)).unwrap_or_default();
        self.0.options.prune_sentinels.iter().any(|begin| meant.starts_with(begin))
    }

    fn policy(&self, asked: &ModelRequest) -> Policy {
        let policy = self.0.options.policy;
        let compiled = self.0.host.manifest().agents.get(&asked.agent).map(|of| of.policy);
        Policy { bounds: compiled.unwrap_or(policy.bounds), ..policy }
    }
}

const MODELS: &str = "/v1/models";
const RESPONSES: &str = "/v1/responses/";
const PATHS: &str = "there is POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, \
                     POST /v1/messages/count_tokens and GET /v1/models; of a response that its provider keeps, GET, \
                     DELETE, GET …/input_items and POST …/cancel";

/// Reads a request, as far as it is not its provider's to judge.
fn asked(agent: &str, api: Api, parts: &Parts, bytes: Bytes) -> Result<ModelRequest, Refused> {
    let bad = |why: String| Refused::new(StatusCode::BAD_REQUEST, why);
    let is_long = bytes.len() > SCREENED_AT_ONCE_BYTES_MAX;
    let body = offload::blocking(is_long, || json::parse(&bytes));
    let body = body.map_err(|error| bad(error.to_string()))?;
    let dialect = dialect(&api);
    let is_said = match body.get(dialect.messages()) {
        Some(Value::Array(_)) => true,
        // What is said may be one text, or be kept by who answers.
        None | Some(Value::Null | Value::String(_)) => api == Api::Responses,
        Some(_) => false,
    };
    if !is_said || !body.get("model").is_some_and(Value::is_string) {
        let key = dialect.messages();
        return Err(bad(format!("the body needs `model`, and what is said as the list `{key}`")));
    }
    let conversation =
        format!("{}:{}", dialect.name(), conversation(dialect, &parts.headers, &body));
    let trace = TraceParent::of(&parts.headers);
    let headers = passed(&parts.headers);
    let (body, is_changed) = (Cow::Owned(body), false);
    let forward = Forward { api, body, bytes, is_changed, headers, keeper: None };
    if let Some(why) = forward.unclear() {
        return Err(bad(why));
    }
    let agent = agent.to_owned();
    Ok(ModelRequest { agent, id: turn_id()?, dialect, conversation, forward, trace })
}

fn turn_id() -> Result<String, Refused> {
    random::hex::<TURN_ID_BYTES>().map_err(|_| Refused::internal())
}

/// Returns what of a client's headers is for the provider.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let passed = headers.iter().filter(|(name, _)| PASSED.contains(name));
    let mut passed: HeaderMap = passed.map(|(name, value)| (name.clone(), value.clone())).collect();
    let trace = TraceParent::of(headers).map(|trace| HeaderValue::from_str(&trace.to_string()));
    if let Some(Ok(trace)) = trace {
        passed.insert(TRACEPARENT, trace);
        let state = headers.get_all(TRACESTATE).iter().map(HeaderValue::as_bytes);
        let state = state.collect::<Vec<_>>().join(&b',');
        let fits = (1..=PROXY_TRACESTATE_BYTES_MAX).contains(&state.len());
        let state = fits.then(|| HeaderValue::from_bytes(&state).ok()).flatten();
        passed.extend(state.map(|state| (TRACESTATE, state)));
    }
    passed
}

fn dialect(api: &Api) -> &'static dyn Dialect {
    match api {
        Api::Chat => &OpenAi,
        Api::Count | Api::Messages => &Anthropic,
        Api::Responses | Api::Stored(_) => &Responses,
    }
}

/// Returns what tells a conversation from others. Its name may be long, and is kept with each turn.
fn conversation(dialect: &dyn Dialect, headers: &HeaderMap, body: &Value) -> String {
    let named = headers.get(CONVERSATION).map(|id| digest::of_bytes(id.as_bytes()));
    named.unwrap_or_else(|| mediate::conversation(dialect, body))
}

/// Returns the protocol that errors of a path are told in.
fn dialect_of(path: &str) -> &'static dyn Dialect {
    Api::at(path).map_or(&OpenAi, |api| dialect(&api))
}

/// Returns what is answered to a request that does not come as far as the proxy.
pub(crate) fn denied(path: &str, status: StatusCode, text: &str) -> Response<Body> {
    Refused::new(status, text).answer(dialect_of(path))
}

fn offer(tool: &Tool) -> Offer {
    let service = match &tool.origin {
        Origin::Bridged { server, .. } => server.clone(),
        Origin::Service { service } => service.clone(),
        _ => String::new(),
    };
    Offer {
        tool: tool.canonical().into_owned(),
        name: String::new(),
        known_as: vec![tool.definition.name.clone(), tool.ckp_name.clone()],
        description: tool.definition.description.clone(),
        schema: tool.definition.input_schema.clone(),
        service,
        // Its own word is enough: all that follows is which calls a turn may make again.
        read_only: tool.definition.annotations.read_only == Some(true),
        is_terminal: tool.managed.as_ref().is_some_and(|granted| granted.tool.is_terminal()),
        is_enveloped: matches!(tool.origin, Origin::Service { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_passed_on_once_and_what_is_said_of_it_within_bounds() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (parent, tail) = (format!("01-{TRACE}-{}", "x".repeat(6_000)), format!("00-{TRACE}"));
        let told = |states: &[&str]| {
            let lines = states.iter().map(|state| ("tracestate", *state));
            let lines = lines.chain([(TRACEPARENT, parent.as_str()), (TRACEPARENT, &tail)]);
            let name = |name: &'static str| HeaderName::from_static(name);
            let line = |(own, value)| (name(own), HeaderValue::from_str(value).unwrap());
            let passed = passed(&lines.map(line).collect());
            assert_eq!(passed.get_all(TRACEPARENT).iter().collect::<Vec<_>>(), [&*tail]);
            let states = passed.get_all(TRACESTATE).iter();
            states.map(|state| state.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(&["a=b", "c=d"]), ["a=b,c=d"]);
        assert!(told(&[]).is_empty());
        assert!(told(&["a=bcdefg"; 61]).len() <= 1);
        assert!(told(&["a=bcdefgh"; 61]).is_empty());
    }

    #[test]
    fn what_a_library_says_of_the_protocol_is_passed_on_and_who_asks_is_not() {
        let all = PASSED
            .into_iter()
            .chain(["authorization", "openai-project"].map(HeaderName::from_static));
        let all = all.map(|name| (name, HeaderValue::from_static("x")));
        let passed = passed(&all.collect());
        assert_eq!(passed.len(), PASSED.len());
        assert!(PASSED.iter().all(|name| passed.contains_key(name)), "{passed:?}");
    }

    #[test]
    fn conversations_are_told_apart_by_their_names_whose_length_counts_for_nothing() {
        let named = |name: String| {
            let name = HeaderValue::from_str(&name).unwrap();
            conversation(&OpenAi, &HeaderMap::from_iter([(CONVERSATION, name)]), &Value::Null)
        };
        let long = "x".repeat(30_000);
        assert_ne!(named(long.clone() + "1"), named(long.clone() + "2"));
        assert_eq!(named(long).len(), named("x".to_owned()).len());
    }
}
