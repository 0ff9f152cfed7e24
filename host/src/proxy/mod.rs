//! The LLM proxy: an agent whose client asks this host for completions gets the host's tools with them.
//!
//! Requests go to the manifest's providers, in the protocol they came in. Where the agent may call tools,
//! these are put beside its own, and what the model calls of them is carried out here, on the one path, as
//! the agent's calls; the client gets what the model says in the end. Where it may call none, bytes pass.
//!
//! Deliberately absent: translation between protocols, the Responses API, and any tool or provider that the
//! host does not have. Whoever calls has shown its token to `serve` by then.

mod answer;
mod events;
mod history;
mod pass;
mod refused;
mod turn;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::manifest::ProviderProtocol;
use clawhost_core::mediate::{self, Anthropic, Dialect, Offer, Offers, OpenAi, Policy, TurnBounds};
use clawhost_core::{digest, json};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use serde_json::{Value, json};

use self::answer::json_answer;
pub(crate) use self::history::HISTORY_FILE;
use self::history::{History, Record};
use self::refused::Refused;
use crate::continuity::Continuity;
use crate::host::{Host, Principal};
use crate::random;
use crate::upstream::provider::Forward;

/// What an answer carries.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// What the proxy's completions are booked under.
const CALLER: &str = "proxy";
/// Names the conversation that a request belongs to; without it, its first words do.
const CONVERSATION: HeaderName = HeaderName::from_static("x-conversation-id");
/// What a client's library says of the protocol, for the provider.
const PASSED: [HeaderName; 2] =
    [HeaderName::from_static("anthropic-version"), HeaderName::from_static("anthropic-beta")];
/// Random bytes of a turn's id.
const TURN_ID_BYTES: usize = 8;

/// How the proxy is served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyOptions {
    /// How much a turn may take.
    pub policy: Policy,
    /// Bounds of single agents.
    pub agents: BTreeMap<String, TurnBounds>,
    /// Where each agent's turns are written down; nowhere where this is absent.
    pub history: Option<PathBuf>,
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
struct Asked {
    agent: String,
    /// Which turn of the host's this is, for its records.
    id: String,
    dialect: &'static dyn Dialect,
    path: String,
    conversation: String,
    forward: Forward<'static>,
}

impl Asked {
    fn streams(&self) -> bool {
        self.forward.streams()
    }
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
        let answered = match (parts.uri.path(), &parts.method) {
            ("/v1/models", &Method::GET) => Ok(self.models()),
            (path, &Method::POST) => match dialect(path) {
                Some((dialect, protocol)) => {
                    self.complete(agent, dialect, protocol, parts, body).await
                }
                None => Err(Refused::new(StatusCode::NOT_FOUND, PATHS)),
            },
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

    /// Lists the providers by their names, in the shape of both protocols.
    fn models(&self) -> Response<Body> {
        let plans = self.0.host.providers().plans();
        let model = |name: &str| {
            json!({
                "id": name, "object": "model", "type": "model", "display_name": name,
                "owned_by": "clawhost", "created": 0, "created_at": "1970-01-01T00:00:00Z",
            })
        };
        let models: Vec<Value> = plans.iter().map(|plan| model(&plan.name)).collect();
        let list = json!({
            "object": "list", "data": models, "has_more": false, "first_id": null, "last_id": null,
        });
        json_answer(StatusCode::OK, &list)
    }

    async fn complete(
        &self,
        agent: &str,
        dialect: &'static dyn Dialect,
        protocol: ProviderProtocol,
        parts: &Parts,
        bytes: Bytes,
    ) -> Result<Response<Body>, Refused> {
        let bad = |why: String| Refused::new(StatusCode::BAD_REQUEST, why);
        let body = json::parse(&bytes).map_err(|error| bad(error.to_string()))?;
        let has = |key: &str, is_it: fn(&Value) -> bool| body.get(key).is_some_and(is_it);
        if !(has("messages", Value::is_array) && has("model", Value::is_string)) {
            return Err(bad("the body needs `model` and `messages`".to_owned()));
        }
        let conversation = format!("{}:{}", dialect.name(), conversation(&parts.headers, &body));
        let passed = parts.headers.iter().filter(|(name, _)| PASSED.contains(name));
        let headers = passed.map(|(name, value)| (name.clone(), value.clone())).collect();
        let id = random::hex::<TURN_ID_BYTES>().map_err(|_| Refused::internal())?;
        let forward = Forward { protocol, body: Cow::Owned(body), bytes, headers };
        let (agent, path) = (agent.to_owned(), parts.uri.path().to_owned());
        let asked = Asked { agent, id, dialect, path, conversation, forward };
        let offers = self.offers(&asked);
        let record = Record::open(self.0.history.as_ref(), &asked, offers.iter().count());
        match offers.is_empty() {
            true => self.pass(asked, record).await,
            false if asked.forward.count() > 1 => {
                Err(bad("`n` is 1 where the host adds tools: a turn has one course".to_owned()))
            }
            false => self.mediate(asked, offers, record).await,
        }
    }

    /// Returns the tools that the agent may call, beside those of its runner.
    fn offers(&self, asked: &Asked) -> Offers {
        let tools = self.0.host.list(&Principal(asked.agent.clone()));
        let offers = tools.iter().map(|tool| offer(tool)).collect();
        Offers::new(offers, asked.dialect.declared(&asked.forward.body))
    }

    fn policy(&self, agent: &str) -> Policy {
        let ProxyOptions { policy, agents, .. } = &self.0.options;
        let bounds = agents.get(agent).copied().unwrap_or(policy.bounds);
        Policy { bounds, ..*policy }
    }
}

const PATHS: &str = "there is POST /v1/chat/completions, POST /v1/messages and GET /v1/models";

fn dialect(path: &str) -> Option<(&'static dyn Dialect, ProviderProtocol)> {
    match path {
        "/v1/chat/completions" => Some((&OpenAi, ProviderProtocol::OpenAi)),
        "/v1/messages" => Some((&Anthropic, ProviderProtocol::Anthropic)),
        _ => None,
    }
}

/// Returns what tells a conversation from others. Its name may be long, and is kept with each turn.
fn conversation(headers: &HeaderMap, body: &Value) -> String {
    let named = headers.get(CONVERSATION).map(|id| digest::of_bytes(id.as_bytes()));
    named.unwrap_or_else(|| mediate::conversation(body))
}

/// Returns the protocol that errors of a path are told in.
fn dialect_of(path: &str) -> &'static dyn Dialect {
    dialect(path).map_or(&OpenAi, |(dialect, _)| dialect)
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
    use http::HeaderValue;

    use super::*;

    #[test]
    fn conversations_are_told_apart_by_their_names_whose_length_counts_for_nothing() {
        let named = |name: String| {
            let name = HeaderValue::from_str(&name).unwrap();
            conversation(&HeaderMap::from_iter([(CONVERSATION, name)]), &Value::Null)
        };
        let long = "x".repeat(30_000);
        assert_ne!(named(long.clone() + "1"), named(long.clone() + "2"));
        assert_eq!(named(long).len(), named("x".to_owned()).len());
    }
}
