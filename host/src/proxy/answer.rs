//! Answers as HTTP has them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use super::Body;

/// What of a provider's headers is for its client.
const KEPT: [&str; 4] = ["content-type", "request-id", "retry-after", "x-request-id"];
/// The same, by how they begin.
const KEPT_FAMILIES: [&str; 3] = ["anthropic-ratelimit-", "openai-", "x-ratelimit-"];

pub(super) fn json_answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns an answer of server-sent events.
pub(super) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Returns those of a provider's headers that are for its client.
pub(super) fn kept(headers: &HeaderMap) -> HeaderMap {
    let is_kept = |name: &str| {
        KEPT.contains(&name) || KEPT_FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let kept = headers.iter().filter(|(name, _)| is_kept(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
