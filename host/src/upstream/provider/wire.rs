//! One request as one provider's protocol has it: where it goes, as whom, and what it says.

use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::egress::{EgressRules, endpoint, is_this_machine};
use clawhost_core::manifest::{ProviderAuthKind, ProviderPlan, ProviderProtocol};
use clawhost_core::quota::Used;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use serde_json::{Map, Value};
use url::Url;
use zeroize::Zeroizing;

use super::attempt::Failure;
use super::forward::Forward;
use super::request::ChatRequest;
use super::{anthropic, openai};
use crate::offload;
use crate::secrets::Secrets;
use crate::upstream::http::CheckedRequest;

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
    pub(super) completion_tokens: Option<u64>,
}

/// A request that lacks only the length of its completion.
pub(super) struct Wire<'a> {
    pub(super) plan: &'a ProviderPlan,
    pub(super) size: Size,
    url: Url,
    rules: Arc<EgressRules>,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Map<String, Value>,
    /// What says how long a completion may be; nothing where vectors are asked for.
    length_key: Option<&'static str>,
}

impl<'a> Wire<'a> {
    /// Translates `chat` for the provider of `plan`.
    ///
    /// # Errors
    /// What the provider cannot be asked for, or why it cannot be asked at all.
    pub(super) fn new(
        plan: &'a ProviderPlan,
        chat: &ChatRequest,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let (path, (body, length_key)) = match askable(plan)? {
            ProviderProtocol::Custom => return Err(Failure::unasked("cannot be asked", "")),
            ProviderProtocol::OpenAi => (openai::PATH, openai::body(chat, &plan.model)),
            ProviderProtocol::Anthropic => (anthropic::PATH, anthropic::body(chat, &plan.model)?),
        };
        let (bytes, text_bytes) = (chat.bytes, chat.text_bytes());
        let size = Size { bytes, text_bytes, completion_tokens: chat.completion_tokens };
        Self::to(plan, path, (body, Some(length_key)), size, secrets)
    }

    /// Asks the provider of `plan` for a vector of each text.
    ///
    /// # Errors
    /// As [`Wire::new`].
    pub(super) fn embeddings(
        plan: &'a ProviderPlan,
        model: &str,
        texts: &[String],
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        if askable(plan)? != ProviderProtocol::OpenAi {
            return Err(Failure::unasked("has no embeddings", "its protocol has none"));
        }
        let text_bytes = texts.iter().map(|text| text.len() as u64).sum();
        // The ledger refuses where there is no room for one token beside those of the texts.
        let size = Size { bytes: text_bytes, text_bytes, completion_tokens: Some(1) };
        let body = (openai::embeddings_body(model, texts), None);
        Self::to(plan, openai::EMBEDDINGS_PATH, body, size, secrets)
    }

    /// Passes on what a client of the same protocol asks.
    ///
    /// # Errors
    /// Why the provider cannot be asked at all.
    pub(super) fn passing(
        plan: &'a ProviderPlan,
        request: &Forward,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let path = match askable(plan)? {
            ProviderProtocol::Custom => return Err(Failure::unasked("cannot be asked", "")),
            ProviderProtocol::OpenAi => openai::PATH,
            ProviderProtocol::Anthropic => anthropic::PATH,
        };
        let mut body = request.body.as_object().cloned().unwrap_or_default();
        body.insert("model".to_owned(), plan.model.as_str().into());
        let key = request.length_key();
        let mut wire = Self::to(plan, path, (body, Some(key)), request.size(), secrets)?;
        wire.headers.retain(|(name, _)| !request.headers.contains_key(name));
        let own = request.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        wire.headers.extend(own);
        Ok(wire)
    }

    /// Returns the body as it is, without a bound of its completion.
    pub(super) fn plain_body(&self) -> Bytes {
        Value::Object(self.body.clone()).to_string().into()
    }

    fn to(
        plan: &'a ProviderPlan,
        path: &str,
        (body, length_key): (Map<String, Value>, Option<&'static str>),
        size: Size,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let bad = |why: String| Failure::unasked("has no usable endpoint", &why);
        let rules = endpoint(&plan.endpoint).map_err(|denied| bad(denied.to_string()))?;
        let url = Url::parse(&plan.endpoint).map_err(|error| bad(error.to_string()))?;
        let mut wire = Self {
            plan,
            size,
            url: below(url, path),
            rules: Arc::new(rules),
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body,
            length_key,
        };
        if plan.protocol == ProviderProtocol::Anthropic {
            wire.headers.push(anthropic::VERSION);
        }
        wire.authenticate(secrets)?;
        Ok(wire)
    }

    /// Returns the body of a request for a completion of at most so many tokens.
    pub(super) fn body(&self, completion_tokens: u64) -> Bytes {
        let mut body = self.body.clone();
        if let Some(key) = self.length_key {
            body.insert(key.to_owned(), completion_tokens.into());
        }
        Value::Object(body).to_string().into()
    }

    /// Returns the whole request, which goes nowhere but to the endpoint that the document names.
    ///
    /// # Errors
    /// What cannot be written down as a request.
    pub(super) fn request(&self, body: Bytes) -> Result<CheckedRequest<Full<Bytes>>, Failure> {
        let mut request = Request::post(self.url.as_str()).header(CONTENT_LENGTH, body.len());
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

    fn authenticate(&mut self, secrets: &Secrets) -> Result<(), Failure> {
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
        let key = offload::blocking(true, || secrets.resolve(name));
        let key = key.map_err(|error| no_key(&error.to_string()))?;
        let (header, text) = match auth.kind {
            ProviderAuthKind::ApiKeyHeader => {
                (self.key_header(), Zeroizing::new(key.expose().to_owned()))
            }
            _ => (AUTHORIZATION, Zeroizing::new(format!("Bearer {}", key.expose()))),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| no_key("it is no header"))?;
        value.set_sensitive(true);
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
