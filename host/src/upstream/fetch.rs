//! Requests to servers that the operator names, and on to where these send.
//!
//! A redirect within the same server is followed as it is. One to another leaves every credential
//! behind, goes to public addresses over TLS only, and is checked like any request of a guest.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use clawhost_core::egress::{self, EgressRules, HostRules};
use clawhost_core::limits::{REDIRECTS_MAX, REGISTRY_REASON_BYTES_MAX};
use clawhost_core::truncate;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use url::Url;
use zeroize::Zeroizing;

use super::http::{
    CheckedRequest, HttpClient, RequestLimits, ResponseBody, UpstreamError, sensitive,
};

pub(crate) type Answer = Response<ResponseBody>;

/// Why there is no answer, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfetched(pub(crate) String);

impl Unfetched {
    /// Says why `url` gives nothing. Servers name addresses of any length.
    fn at(url: &Url, why: &dyn std::fmt::Display) -> Self {
        Self(format!("{}: {why}", truncate::text(url.as_str(), REGISTRY_REASON_BYTES_MAX)))
    }
}

/// The way out.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) client: HttpClient,
    /// When all of it has to be over.
    pub(crate) until: Instant,
}

/// One request, which may be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Bytes of the answer that are read.
    pub(crate) bytes_max: u64,
}

impl Ask {
    pub(crate) fn get(url: Url, bytes_max: u64) -> Self {
        let (method, headers, body) = (Method::GET, HeaderMap::new(), Bytes::new());
        Self { method, url, headers, body, bytes_max }
    }
}

impl Web {
    /// Sends one request under `rules`, and follows nothing.
    pub(crate) async fn send(&self, rules: EgressRules, ask: Ask) -> Result<Answer, Unfetched> {
        let url = ask.url.clone();
        let failed = |why: &dyn std::fmt::Display| Unfetched::at(&url, why);
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

    /// Sends a GET to the server that its URL names, and follows where it is sent. Anything else
    /// would be sent again as it is, even where a 303 asks for a GET.
    pub(crate) async fn follow(&self, mut ask: Ask) -> Result<Answer, Unfetched> {
        let named = ask.url.clone();
        let mut rules = own(&named)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(rules, ask.clone()).await?;
            let Some(next) = redirect(&ask.url, answer.status(), answer.headers())? else {
                return Ok(answer);
            };
            rules = if next.origin() == named.origin() {
                own(&named)?
            } else {
                // They are not sent again where it sends back.
                ask.headers.clear();
                public(&next)?
            };
            ask.url = next;
        }
        Err(Unfetched(format!("{named}: sends elsewhere more than {REDIRECTS_MAX} times")))
    }
}

/// The rules for a server that the operator named.
pub(crate) fn own(url: &Url) -> Result<EgressRules, Unfetched> {
    let rules = egress::endpoint(url.as_str());
    rules.map_err(|denied| Unfetched::at(url, &denied.internal()))
}

/// The rules for a server that another named.
pub(crate) fn public(url: &Url) -> Result<EgressRules, Unfetched> {
    if url.scheme() != "https" {
        return Err(Unfetched::at(url, &"another server is only asked over https"));
    }
    Ok(EgressRules::of(HostRules::Any))
}

/// Returns where an answer with this status sends; nothing where it is the answer itself.
pub(crate) fn redirect(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Url>, Unfetched> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| from.join(location).ok());
    let nowhere = || Unfetched::at(from, &"sends elsewhere and does not say where");
    next.map(Some).ok_or_else(nowhere)
}

/// Returns the whole body.
pub(crate) async fn body(url: &Url, answer: Answer) -> Result<Bytes, Unfetched> {
    let body = answer.into_body().collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| Unfetched::at(url, &error))
}

/// Returns the body of a success; nothing where the answer is 404.
pub(crate) async fn found(url: &Url, answer: Answer) -> Result<Option<Bytes>, Unfetched> {
    match answer.status() {
        StatusCode::OK => body(url, answer).await.map(Some),
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(Unfetched::at(url, &format!("the server answers {}", status.as_u16()))),
    }
}

/// Returns Basic credentials.
pub(crate) fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let plain = Zeroizing::new(format!("{user}:{password}"));
    sensitive("Basic ", &BASE64_STANDARD.encode(plain.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_address_that_a_server_names_the_beginning_is_shown() {
        let url = Url::parse(&format!("http://far.example/{}", "x".repeat(20_000))).unwrap();
        let Err(Unfetched(why)) = public(&url) else { panic!("it is no https") };
        assert!(why.starts_with("http://far.example/x") && why.ends_with("over https"), "{why}");
        assert!(why.len() < 2 * REGISTRY_REASON_BYTES_MAX, "{why}");
    }
}
