//! One request as one provider's protocol has it: where it goes, as whom, and what it says.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::egress::{EgressRules, endpoint, is_this_machine};
use clawhost_core::manifest::{ProviderAuthKind, ProviderPlan, ProviderProtocol};
use clawhost_core::quota::Used;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use super::api::Api;
use super::attempt::Failure;
use super::forward::Forward;
use super::open::is_open;
use super::request::{ChatRequest, text_bytes};
use super::written::Written;
use super::{anthropic, openai};
use crate::secrets::Secrets;
use crate::upstream::http::{CheckedRequest, sensitive};

/// A completion in OpenAI's shape, or the body of an answer with vectors, and what the provider says it
/// took.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Value,
    pub(super) used: Option<Used>,
    /// The bytes of what the model wrote.
    pub(super) text_bytes: u64,
}

/// What a request can use up, as far as that is known before it is sent.
pub(super) struct Size {
    /// The bytes of the whole request.
    pub(super) bytes: u64,
    /// Those of all texts that the model reads.
    pub(super) text_bytes: u64,
    /// Whether it [`is_open`].
    pub(super) is_open: bool,
    pub(super) completion_tokens: Option<u64>,
}

/// A request that lacks only the length of its completion.
pub(super) struct Wire<'a> {
    pub(super) plan: &'a ProviderPlan,
    pub(super) size: Size,
    method: Method,
    url: Url,
    rules: Arc<EgressRules>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, but for the model.
    body: Cow<'a, Map<String, Value>>,
    /// What a client wrote, and whether the body says anything else.
    came: (&'a [u8], bool),
    model: &'a str,
    /// What says how long a completion may be; nothing where vectors are asked for.
    length_key: Option<&'static str>,
}

impl<'a> Wire<'a> {
    /// Translates `chat` for the provider of `plan`.
    ///
    /// # Errors
    /// What the provider cannot be asked for, or why it cannot be asked at all.
    pub(super) async fn new(
        plan: &'a ProviderPlan,
        chat: &ChatRequest,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let (path, (body, length_key)) = match askable(plan)? {
            ProviderProtocol::Custom => return Err(Failure::unasked("cannot be asked", "")),
            ProviderProtocol::OpenAi => (Api::Chat.below(), openai::body(chat)),
            ProviderProtocol::Anthropic => (Api::Messages.below(), anthropic::body(chat)?),
        };
        let (bytes, text_bytes) = (chat.bytes, chat.text_bytes());
        let completion_tokens = chat.completion_tokens;
        let size = Size { bytes, text_bytes, is_open: false, completion_tokens };
        let body = (Cow::Owned(body), Some(length_key));
        Self::to((plan, &plan.model), path, body, size, secrets).await
    }

    /// Asks the provider of `plan` for a vector of each text.
    ///
    /// # Errors
    /// As [`Wire::new`].
    pub(super) async fn embeddings(
        plan: &'a ProviderPlan,
        model: &'a str,
        texts: &[String],
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        if askable(plan)? != ProviderProtocol::OpenAi {
            return Err(Failure::unasked("has no embeddings", "its protocol has none"));
        }
        let text_bytes = texts.iter().map(|text| text.len() as u64).sum();
        // The ledger refuses where there is no room for one token beside those of the texts.
        let size =
            Size { bytes: text_bytes, text_bytes, is_open: false, completion_tokens: Some(1) };
        let body = (Cow::Owned(openai::embeddings_body(texts)), None);
        Self::to((plan, model), openai::EMBEDDINGS_PATH, body, size, secrets).await
    }

    /// Passes on what a client of the same protocol asks. Returns also what is sent where no length is
    /// put in, which is what is measured: the client's own bytes, unless it `is_bounded` without a length
    /// or the model has to change.
    ///
    /// # Errors
    /// Why the provider cannot be asked at all.
    pub(super) async fn passing(
        plan: &'a ProviderPlan,
        request: &'a Forward<'_>,
        is_bounded: bool,
        secrets: &Secrets,
    ) -> Result<(Self, Bytes), Failure> {
        askable(plan)?;
        let body = request.body.as_object().map(Cow::Borrowed).unwrap_or_default();
        let body = (body, Some(request.length_key()));
        let length = request.length();
        let completion_tokens = length.map(|length| length.saturating_mul(request.count()));
        // A count is a request and no more: nothing is made of it.
        let is_open = !request.api.writes_nothing() && is_open(&request.body);
        let text_bytes = text_bytes(&request.body);
        let size = Size { bytes: 0, text_bytes, is_open, completion_tokens };
        let path = request.api.below();
        let mut wire = Self::to((plan, &plan.model), path, body, size, secrets).await?;
        wire.came = (request.bytes.as_ref(), request.is_changed);
        wire.method = request.api.method();
        if !request.api.query().is_empty() {
            let query = joined(&wire.url, request.api.query());
            wire.url.set_query(Some(&query));
        }
        wire.headers.retain(|(name, _)| !request.headers.contains_key(name));
        let own = request.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        wire.headers.extend(own);
        let names_it = request.model() == plan.model;
        let is_whole = length.is_some() || !is_bounded;
        let plain = if request.body.is_null() {
            Bytes::new()
        } else if names_it && is_whole && !request.is_changed {
            request.bytes.clone()
        } else {
            wire.body(None)
        };
        wire.size.bytes = plain.len() as u64;
        if request.api.writes_nothing() {
            (wire.size.bytes, wire.size.text_bytes) = (0, 0);
        }
        Ok((wire, plain))
    }

    async fn to(
        (plan, model): (&'a ProviderPlan, &'a str),
        path: &str,
        (body, length_key): (Cow<'a, Map<String, Value>>, Option<&'static str>),
        size: Size,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let bad = |why: String| Failure::unasked("has no usable endpoint", &why);
        let rules = endpoint(&plan.endpoint).map_err(|denied| bad(denied.to_string()))?;
        let url = Url::parse(&plan.endpoint).map_err(|error| bad(error.to_string()))?;
        let mut wire = Self {
            plan,
            size,
            method: Method::POST,
            url: below(url, path),
            rules: Arc::new(rules),
            headers: vec![
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            ],
            body,
            came: (&[], false),
            model,
            length_key,
        };
        if plan.protocol == ProviderProtocol::Anthropic {
            wire.headers.push(anthropic::VERSION);
        }
        wire.authenticate(secrets).await?;
        Ok(wire)
    }

    /// Returns the body, which asks for a completion of at most so many tokens where that is given.
    pub(super) fn body(&self, completion_tokens: Option<u64>) -> Bytes {
        let (model, tokens) = (Value::from(self.model), completion_tokens.map(Value::from));
        let body = self.body.iter().map(|(key, value)| (key.as_str(), value));
        let length = self.length_key.zip(tokens.as_ref());
        let own: Vec<_> = [("model", &model)].into_iter().chain(length).collect();
        let (came, is_changed) = self.came;
        Written::new(came, is_changed).with(body.collect(), &own).into()
    }

    /// Returns the whole request, which goes nowhere but to the endpoint that the document names.
    ///
    /// # Errors
    /// What cannot be written down as a request.
    pub(super) fn request(&self, body: Bytes) -> Result<CheckedRequest<Full<Bytes>>, Failure> {
        let made = Request::builder().method(self.method.clone()).uri(self.url.as_str());
        let mut request = made.header(CONTENT_LENGTH, body.len());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let bad = |why: String| Failure::unasked("has no usable endpoint", &why);
        let request = request.body(Full::new(body)).map_err(|error| bad(error.to_string()))?;
        CheckedRequest::new(Arc::clone(&self.rules), request)
            .map_err(|denied| bad(denied.to_string()))
    }

    /// Reads the body of an answer that succeeded; nothing where it is not what was asked for.
    pub(super) fn answer(&self, body: &[u8]) -> Option<Answer> {
        let body = clawhost_core::json::parse(body).ok()?;
        match self.plan.protocol {
            ProviderProtocol::Anthropic => anthropic::answer(&body),
            ProviderProtocol::OpenAi if self.length_key.is_none() => openai::embedded(body),
            ProviderProtocol::OpenAi => openai::answer(body),
            ProviderProtocol::Custom => None,
        }
    }

    async fn authenticate(&mut self, secrets: &Secrets) -> Result<(), Failure> {
        let auth = &self.plan.auth;
        if auth.kind == ProviderAuthKind::None {
            return Ok(());
        }
        let here = self.url.host().is_some_and(is_this_machine);
        if self.url.scheme() != "https" && !here {
            let why = "a key goes over https, or to this machine only";
            return Err(Failure::unasked("has no safe endpoint", why));
        }
        let no_key = |why: &str| Failure::unasked("has no key", why);
        let name = auth.secret_ref.as_deref().unwrap_or_default();
        let key = secrets.find(name).await.map_err(|error| no_key(&error.to_string()))?;
        let (header, before) = match auth.kind {
            ProviderAuthKind::ApiKeyHeader => (self.key_header(), ""),
            _ => (AUTHORIZATION, "Bearer "),
        };
        let value = sensitive(before, key.expose()).ok_or_else(|| no_key("it is no header"))?;
        self.headers.push((header, value));
        Ok(())
    }

    const fn key_header(&self) -> HeaderName {
        match self.plan.protocol {
            ProviderProtocol::Anthropic => HeaderName::from_static("x-api-key"),
            _ => HeaderName::from_static("api-key"),
        }
    }
}

/// Returns what the provider of `plan` speaks, where this version does.
fn askable(plan: &ProviderPlan) -> Result<ProviderProtocol, Failure> {
    let unserved = plan.unserved.as_ref();
    unserved.map_or(Ok(plan.protocol), |why| Err(Failure::unasked("cannot be asked", why)))
}

/// Appends a path to an endpoint, the query of which stays.
fn below(mut url: Url, path: &str) -> Url {
    let whole = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&whole);
    url.set_fragment(None);
    url
}

/// Returns the query of an endpoint with what a client asks beside it, but for what the operator says already.
fn joined(endpoint: &Url, asked: &str) -> String {
    let is_said = |name: &str| endpoint.query_pairs().any(|(own, _)| own == name);
    let is_new = |part: &&str| {
        form_urlencoded::parse(part.as_bytes()).next().is_some_and(|(name, _)| !is_said(&name))
    };
    let own = endpoint.query().filter(|own| !own.is_empty());
    own.into_iter().chain(asked.split('&').filter(is_new)).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use clawhost_core::manifest::ProviderAuth;
    use clawhost_core::quota::{Prices, ProviderLimits};
    use clawhost_core::retry::RetryPlan;
    use http::HeaderMap;
    use serde_json::json;

    use super::*;

    fn plan() -> ProviderPlan {
        ProviderPlan {
            name: "p".to_owned(),
            protocol: ProviderProtocol::OpenAi,
            endpoint: "http://127.0.0.1:9/v1".to_owned(),
            model: "m".to_owned(),
            auth: ProviderAuth { kind: ProviderAuthKind::None, secret_ref: None },
            limits: ProviderLimits::default(),
            prices: Prices::default(),
            fallback: Vec::new(),
            retry: RetryPlan::ONCE,
            unserved: None,
            at: String::new(),
        }
    }

    async fn sent(bytes: &'static str, is_bounded: bool) -> (Bytes, Value) {
        let (plan, secrets, bytes) = (plan(), Secrets::none(), Bytes::from(bytes));
        let body = Cow::Owned(serde_json::from_slice(&bytes).unwrap());
        let headers = HeaderMap::new();
        let (api, is_changed) = (Api::Chat, false);
        let request = Forward { api, body, bytes, is_changed, headers, keeper: None };
        let passing = Wire::passing(&plan, &request, is_bounded, &secrets);
        let (wire, plain) = passing.await.unwrap();
        assert_eq!(wire.size.bytes, plain.len() as u64);
        (plain, serde_json::from_slice(&wire.body(Some(7))).unwrap())
    }

    #[test]
    fn a_client_asks_beside_what_the_operator_says_and_never_over_it() {
        let joined = |own: &str, asked: &str| {
            let url = Url::parse(&format!("http://127.0.0.1/v1{own}")).unwrap();
            super::joined(&url, asked)
        };
        assert_eq!(joined("", "include[]=a&limit=2"), "include[]=a&limit=2");
        assert_eq!(joined("?", ""), "");
        assert_eq!(joined("?version=1", "vers%69on=2&&limit=2&version"), "version=1&limit=2");
    }

    #[tokio::test]
    async fn what_is_sent_is_what_was_measured() {
        const OWN: &str = r#"{ "model": "m", "seed": 1e3 }"#;
        assert_eq!(sent(OWN, false).await.0, OWN);
        // What gets a length is written anew, and may be longer for it.
        let (plain, bounded) = sent(OWN, true).await;
        assert_eq!(plain, r#"{"model":"m","seed":1e3}"#);
        assert_eq!(bounded, json!({ "model": "m", "seed": 1000.0, "max_tokens": 7 }));
        let (plain, bounded) = sent(r#"{"model": "p", "max_tokens": null}"#, false).await;
        assert_eq!(plain, r#"{"max_tokens":null,"model":"m"}"#);
        assert_eq!(bounded, json!({ "model": "m", "max_tokens": 7 }));
    }
}
