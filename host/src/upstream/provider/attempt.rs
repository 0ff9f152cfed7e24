//! One request to one provider, and what its failure means.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::limits::{PROVIDER_ANSWER_BYTES_MAX, PROVIDER_ANSWER_MS};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;

use super::wire::{Answer, Wire};
use crate::upstream::http::{
    HttpClient, RequestLimits, ResponseBody, UpstreamError, is_plain, retry_after,
};

/// Why there is no completion, and what follows from it.
#[derive(Debug)]
pub(super) struct Failure {
    /// For the caller, after the provider's name: no word of the provider's own.
    pub(super) reason: String,
    /// For the record and the log.
    pub(super) internal: String,
    /// Whether it may have been worked on.
    pub(super) sent: Sent,
    /// Whether asking again may help.
    pub(super) passes: bool,
    /// How long the provider wants to be left alone, where it says so.
    pub(super) retry_after: Option<Duration>,
    /// Whether the request asks for what the provider's protocol has no word for.
    pub(super) untranslated: bool,
    /// Whether the provider says that it is asked too often.
    pub(super) is_busy: bool,
}

/// How far a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nothing of it was sent.
    No,
    /// It was sent, and the provider did not work on it.
    Refused,
    /// Nobody knows whether it was worked on.
    Perhaps,
}

impl Failure {
    /// Returns the failure of a provider that was not asked at all.
    pub(super) fn unasked(reason: &str, why: &str) -> Self {
        Self::new(Sent::No, reason.to_owned(), format!("{reason}: {why}"))
    }

    /// Returns the failure of a request that this provider cannot be asked, whoever asks.
    pub(super) fn untranslated(why: &str) -> Self {
        let reason = format!("cannot take it: {why}");
        Self { untranslated: true, ..Self::new(Sent::No, reason.clone(), reason) }
    }

    const fn new(sent: Sent, reason: String, internal: String) -> Self {
        let (passes, untranslated, is_busy) = (false, false, false);
        Self { reason, internal, sent, passes, retry_after: None, untranslated, is_busy }
    }

    pub(super) fn of_status(status: StatusCode, headers: &HeaderMap) -> Self {
        let reason = format!("answers {}", status.as_u16());
        let busy = status == StatusCode::TOO_MANY_REQUESTS;
        // A client error is one that the provider did not work on; a server's own may be one that it did.
        let sent = if status.is_server_error() { Sent::Perhaps } else { Sent::Refused };
        Self {
            passes: busy || status.is_server_error(),
            is_busy: busy,
            retry_after: retry_after(headers),
            ..Self::new(sent, reason.clone(), reason)
        }
    }

    pub(super) fn of_answer(reason: &str) -> Self {
        Self::new(Sent::Perhaps, reason.to_owned(), reason.to_owned())
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        use UpstreamError as E;
        let (sent, passes, reason) = match &error {
            E::Connect(_) | E::ConnectTimeout | E::Lookup(_) | E::Tls(_) => {
                (Sent::No, true, "cannot be reached")
            }
            E::ConnectionsBusy => (Sent::No, true, "waits for a free connection"),
            E::Denied(_) | E::TlsCertificate(_) => (Sent::No, false, "cannot be reached"),
            E::Deadline | E::ReadTimeout => (Sent::Perhaps, false, "does not answer in time"),
            E::BodyTooLarge { .. } | E::HeadersTooLarge => {
                (Sent::Perhaps, false, "answers too much")
            }
            E::Incomplete | E::Protocol(_) | E::RequestBody(_) => {
                (Sent::Perhaps, false, "does not answer")
            }
        };
        Self { passes, ..Self::new(sent, reason.to_owned(), error.with_cause()) }
    }
}

/// Sends one request and reads its answer.
pub(super) async fn send(
    wire: &Wire<'_>,
    body: Bytes,
    client: &HttpClient,
    until: Instant,
) -> Result<Answer, Failure> {
    let limits = RequestLimits {
        first_byte: Duration::from_millis(PROVIDER_ANSWER_MS),
        body_bytes_max: PROVIDER_ANSWER_BYTES_MAX,
        ..RequestLimits::until(until)
    };
    let response = client.send(wire.request(body)?, &limits).await?;
    if !response.status().is_success() {
        return Err(Failure::of_status(response.status(), response.headers()));
    }
    let body = read(plain(response)?).await?;
    wire.answer(&body)
        .ok_or_else(|| Failure::of_answer("answers with something else than was asked for"))
}

/// Returns an answer that comes as it is. In a coding nobody asked for, nothing could be read of it and no secret
/// be found in it.
pub(super) fn plain<B>(response: Response<B>) -> Result<Response<B>, Failure> {
    if is_plain(response.headers()) {
        return Ok(response);
    }
    let failure = match response.status().is_client_error() {
        true => Failure::of_status(response.status(), response.headers()),
        false => Failure::of_answer("answers in a coding that it was not asked for"),
    };
    Err(failure)
}

pub(super) async fn read(response: Response<ResponseBody>) -> Result<Bytes, UpstreamError> {
    Ok(response.into_body().collect().await?.to_bytes())
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_ENCODING;

    use super::*;

    #[test]
    fn an_answer_in_a_coding_is_none() {
        let of = |status: u16, coding: &'static str| {
            let answer = Response::builder().status(status).header(CONTENT_ENCODING, coding);
            plain(answer.body(()).unwrap()).err().map(|failure| failure.sent)
        };
        assert_eq!(of(200, "identity"), None);
        assert_eq!(of(200, "gzip"), Some(Sent::Perhaps));
        assert_eq!(of(400, "br"), Some(Sent::Refused));
    }
}
