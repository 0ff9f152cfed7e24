//! Requests to servers that the operator names, and on to where these send.
//!
//! A redirect within the same server is followed as it is. One to another leaves every credential
//! behind, goes to public addresses over TLS only, and is checked like any request of a guest.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use clawhost_core::egress::{self, EgressRules, HostRules};
use clawhost_core::limits::REDIRECTS_MAX;
use http::header::{CONTENT_LENGTH, HeaderMap, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use url::Url;

use super::Trouble;
use crate::upstream::http::{
    CheckedRequest, HttpClient, RequestLimits, ResponseBody, UpstreamError,
};

pub(super) type Answer = Response<ResponseBody>;

/// The way out.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) client: HttpClient,
    /// When all of it has to be over.
    pub(super) until: Instant,
}

/// One request, which may be sent again.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Bytes of the answer that are read.
    pub(super) bytes_max: u64,
}

impl Ask {
    pub(super) fn get(url: Url, bytes_max: u64) -> Self {
        let (method, headers, body) = (Method::GET, HeaderMap::new(), Bytes::new());
        Self { method, url, headers, body, bytes_max }
    }
}

impl Web {
    /// Sends one request under `rules`, and follows nothing.
    pub(super) async fn send(&self, rules: EgressRules, ask: Ask) -> Result<Answer, Trouble> {
        let url = ask.url.clone();
        let failed = |why: &dyn std::fmt::Display| Trouble::Server(format!("{url}: {why}"));
        let mut request = Request::new(Full::new(ask.body.clone()));
        *request.uri_mut() = url.as_str().parse().map_err(|error| failed(&error))?;
        request.headers_mut().extend(ask.headers);
        if matches!(ask.method, Method::POST | Method::PUT) {
            request.headers_mut().insert(CONTENT_LENGTH, ask.body.len().into());
        }
        *request.method_mut() = ask.method;
        let request = CheckedRequest::new(Arc::new(rules), request)
            .map_err(|denied| failed(&denied.internal()))?;
        let limits =
            RequestLimits { body_bytes_max: ask.bytes_max, ..RequestLimits::until(self.until) };
        self.client.send(request, &limits).await.map_err(|error| match error {
            UpstreamError::Denied(denied) => failed(&denied.internal()),
            error => failed(&error),
        })
    }

    /// Sends a request to the server that its URL names, and follows where it is sent.
    pub(super) async fn follow(&self, mut ask: Ask) -> Result<Answer, Trouble> {
        let named = ask.url.clone();
        let mut rules = own(&named)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(rules, ask.clone()).await?;
            let Some(next) = redirect(&ask.url, &answer)? else { return Ok(answer) };
            rules = match next.origin() == named.origin() {
                true => own(&named)?,
                false => public(&next)?,
            };
            if next.origin() != named.origin() {
                // They are not sent again where it sends back.
                ask.headers.clear();
            }
            ask.url = next;
        }
        Err(Trouble::Server(format!("{named}: sends elsewhere more than {REDIRECTS_MAX} times")))
    }
}

/// The rules for a server that the operator named.
pub(super) fn own(url: &Url) -> Result<EgressRules, Trouble> {
    let rules = egress::endpoint(url.as_str());
    rules.map_err(|denied| Trouble::Server(format!("{url}: {}", denied.internal())))
}

/// The rules for a server that another named.
pub(super) fn public(url: &Url) -> Result<EgressRules, Trouble> {
    if url.scheme() != "https" {
        return Err(Trouble::Server(format!("{url}: another server is only asked over https")));
    }
    Ok(EgressRules {
        hosts: HostRules::Any,
        blocked: Vec::new(),
        block_private: true,
        ports: Vec::new(),
    })
}

/// Returns where an answer sends; nothing where it is the answer itself.
fn redirect(from: &Url, answer: &Answer) -> Result<Option<Url>, Trouble> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| from.join(location).ok());
    let nowhere = || Trouble::Server(format!("{from}: sends elsewhere and does not say where"));
    next.map(Some).ok_or_else(nowhere)
}

/// Returns the whole body.
pub(super) async fn body(url: &Url, answer: Answer) -> Result<Bytes, Trouble> {
    let body = answer.into_body().collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| Trouble::Server(format!("{url}: {error}")))
}

/// Returns the body of a success; nothing where the answer is 404.
pub(super) async fn found(url: &Url, answer: Answer) -> Result<Option<Bytes>, Trouble> {
    match answer.status() {
        StatusCode::OK => body(url, answer).await.map(Some),
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(Trouble::Server(format!("{url}: the server answers {}", status.as_u16()))),
    }
}
