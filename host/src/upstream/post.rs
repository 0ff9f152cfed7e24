//! Sending to the one server that the operator names, and to no other: telemetry, copies of the
//! audit log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{self, EgressRules};
use clawhost_core::limits::{POST_ANSWER_BYTES_MAX, POST_MS};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};

use super::http::{CheckedRequest, HttpClient, RequestLimits, retry_after, sensitive};
use crate::outbox::Failure;
use crate::secrets::Secrets;

/// Sends bodies to one URL.
#[derive(Debug, Clone)]
pub(crate) struct Poster {
    client: HttpClient,
    rules: Arc<EgressRules>,
    url: String,
    /// The name of the bearer token.
    secret: Option<String>,
    secrets: Secrets,
}

impl Poster {
    pub(crate) fn new(
        client: &HttpClient,
        url: &str,
        secret: Option<&String>,
        secrets: &Secrets,
    ) -> Result<Self, Failure> {
        let rules = egress::endpoint(url).map_err(|error| Failure::lasting(error.internal()))?;
        let (client, rules) = (client.for_call(), Arc::new(rules));
        let (secret, secrets) = (secret.cloned(), secrets.clone());
        Ok(Self { client, rules, url: url.to_owned(), secret, secrets })
    }

    /// Sends a text of JSON; anything but a success is a failure.
    pub(crate) async fn post_json(&self, text: String) -> Result<(), Failure> {
        self.post("application/json", text.into()).await.map(|_| ())
    }

    /// Sends `body` and returns the answer of a server that took it.
    pub(crate) async fn post(
        &self,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        let request = self.request(content_type, body).await?;
        let checked = CheckedRequest::new(Arc::clone(&self.rules), request)
            .map_err(|error| Failure::lasting(error.internal()))?;
        let mut limits = RequestLimits::until(Instant::now() + Duration::from_millis(POST_MS));
        limits.body_bytes_max = POST_ANSWER_BYTES_MAX;
        let answer = self.client.send(checked, &limits).await.map_err(Failure::passing)?;
        let (head, body) = answer.into_parts();
        if !head.status.is_success() {
            return Err(refused(head.status, &head.headers));
        }
        let body = body.collect().await.map_err(Failure::passing)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    async fn request(
        &self,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let token = self.token().await?;
        let length = body.len();
        let mut request = Request::post(&self.url)
            .header(CONTENT_TYPE, content_type)
            .header(CONTENT_LENGTH, length)
            .body(Full::new(body))
            .map_err(Failure::lasting)?;
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        Ok(request)
    }

    /// Looks the token up, anew each time.
    async fn token(&self) -> Result<Option<HeaderValue>, Failure> {
        let Some(name) = &self.secret else { return Ok(None) };
        let secret = self.secrets.find(name).await.map_err(Failure::passing)?;
        let unfit = || Failure::lasting("the token cannot be sent in a header");
        sensitive("Bearer ", secret.expose()).ok_or_else(unfit).map(Some)
    }
}

/// A server that is busy or broken may take it later; one that understood and refused will not.
fn refused(status: StatusCode, headers: &HeaderMap) -> Failure {
    let reason = format!("the server answers {status}");
    let may_pass = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    Failure { reason, is_final: !may_pass, retry_after: retry_after(headers) }
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        let wait = |text| HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
        let busy = refused(StatusCode::SERVICE_UNAVAILABLE, &wait(" 7 "));
        assert_eq!((busy.is_final, busy.retry_after), (false, Some(Duration::from_secs(7))));
        let none = HeaderMap::new();
        assert!(!refused(StatusCode::TOO_MANY_REQUESTS, &none).is_final);
        assert!(refused(StatusCode::UNAUTHORIZED, &none).is_final);
        assert!(refused(StatusCode::FOUND, &none).is_final);
        let date = wait("Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(refused(StatusCode::BAD_GATEWAY, &date).retry_after, None);
    }
}
