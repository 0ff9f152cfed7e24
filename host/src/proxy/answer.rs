//! Answers as HTTP has them.

use bytes::Bytes;
use clawhost_core::redact::Redactor;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};

use super::Body;

/// What of a provider's headers is for its client.
const KEPT: [&str; 7] = [
    "content-type", "openai-processing-ms", "request-id", "retry-after", "retry-after-ms",
    "x-request-id", "x-should-retry",
];
/// The same for its own bounds: how such a name begins, goes on and ends. A name may hold a secret as well.
const BOUNDS: [(&str, &[&str], &[&str]); 2] = [
    ("anthropic-ratelimit-", &["requests-", "tokens-", "input-tokens-", "output-tokens-"], WHAT),
    ("x-ratelimit-", &["limit-", "remaining-", "reset-"], &["requests", "tokens"]),
];
const WHAT: &[&str] = &["limit", "remaining", "reset"];

/// Returns an answer of JSON that nobody keeps.
pub(crate) fn answer_json(status: StatusCode, json: impl Into<Bytes>) -> Response<Body> {
    let mut response = answer_of("application/json", "no-store", Full::new(json.into()).boxed());
    *response.status_mut() = status;
    response
}

/// Returns an answer of server-sent events.
pub(super) fn event_stream(body: Body) -> Response<Body> {
    answer_of("text/event-stream; charset=utf-8", "no-cache", body)
}

/// Returns an answer of that kind, of which `cache` says who may keep it.
pub(crate) fn answer_of(kind: &'static str, cache: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// Returns those of a provider's headers that are for its client, without any secret in them.
pub(super) fn kept(headers: &HeaderMap, redactor: &Redactor) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| is_kept(name.as_str()));
    let said = kept.filter_map(|(name, value)| {
        let value = redactor.bytes(value.as_bytes());
        Some((name.clone(), HeaderValue::from_bytes(&value).ok()?))
    });
    said.collect()
}

fn is_kept(name: &str) -> bool {
    let is_bound = |(begin, middles, ends): &(&str, &[&str], &[&str])| {
        let rest = name.strip_prefix(begin);
        let end = |middle: &&str| rest.and_then(|rest| rest.strip_prefix(middle));
        middles.iter().filter_map(end).any(|end| ends.contains(&end))
    };
    KEPT.contains(&name) || BOUNDS.iter().any(is_bound)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn no_header_shows_a_secret_and_only_known_ones_are_kept() {
        let redactor = Redactor::new([("KEY", b"sk-of-the-provider".as_slice())]).unwrap();
        let all = ["sk-of-the-provider", "limit-requests", "reset-tokens", "limit-"]
            .map(|end| format!("x-ratelimit-{end}"));
        let more = [
            "x-request-id",
            "x-should-retry",
            "openai-project",
            "anthropic-ratelimit-input-tokens-limit",
        ];
        let all = all.iter().map(String::as_str).chain(more);
        let value = HeaderValue::from_static("a sk-of-the-provider b");
        let headers = all.map(|name| (HeaderName::try_from(name).unwrap(), value.clone()));
        let kept = kept(&headers.collect(), &redactor);
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let known = [
            "anthropic-ratelimit-input-tokens-limit",
            "x-ratelimit-limit-requests",
            "x-ratelimit-reset-tokens",
            "x-request-id",
            "x-should-retry",
        ];
        assert_eq!(names, known);
        assert!(kept.values().all(|value| value == "a [redacted:KEY] b"), "{kept:?}");
    }
}
