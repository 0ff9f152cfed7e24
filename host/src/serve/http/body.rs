//! Bodies in, answers out: what every path does alike.
//!
//! Deliberately absent: what a body means.

use std::fmt::Display;

use bytes::Bytes;
use clawhost_core::limits::{EVENTS_INTERVAL_MS, HTTP_BODY_READ_MS, MESSAGE_BYTES_MAX};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, LengthLimitError, Limited, StreamBody};
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::guard::Denied;
use super::routes::{Body, Request};
pub(super) use crate::proxy::answer_json;
use crate::proxy::answer_of;
use crate::serve::message::Fault;
use crate::upstream::http::is_of;

/// Refuses a body of another type than JSON: a page can send those to any address unasked.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Denied> {
    if is_of(headers, "application/json") {
        return Ok(());
    }
    let text = "the body has to be of the type application/json";
    Err(Denied::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
}

/// Takes a request apart. Only what is posted has a body, which is JSON of at most `bytes_max`.
pub(super) async fn read_request(
    request: Request,
    bytes_max: usize,
) -> Result<(Parts, Bytes), Denied> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return Ok((parts, Bytes::new()));
    }
    require_json(&parts.headers)?;
    let body = read_bounded(body, bytes_max).await?;
    Ok((parts, body))
}

/// Reads a body that is one message, bounded in size and time.
pub(super) async fn read_body(body: hyper::body::Incoming) -> Result<Bytes, Denied> {
    read_bounded(body, MESSAGE_BYTES_MAX).await
}

/// As [`read_body`], with a bound of its own.
pub(super) async fn read_bounded(
    body: hyper::body::Incoming,
    bytes_max: usize,
) -> Result<Bytes, Denied> {
    let reading = Limited::new(body, bytes_max).collect();
    match timeout(Duration::from_millis(HTTP_BODY_READ_MS), reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("a body may have {bytes_max} bytes");
            Err(Denied::new(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Ok(Err(_)) => Err(Denied::new(StatusCode::BAD_REQUEST, "the body cannot be read")),
        Err(_) => Err(Denied::new(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// Returns the answer to a request that gets no further.
pub(super) fn denied(denial: &Denied) -> Response<Body> {
    let mut response = answer_json(denial.status, json!({"error": denial.text}).to_string());
    response.headers_mut().extend(denial.header.clone());
    response
}

pub(super) fn refused(status: StatusCode, refusal: &Fault) -> Response<Body> {
    answer_json(status, refusal.to_line())
}

/// Returns the answer to what wants none.
pub(super) fn accepted() -> Response<Body> {
    answer_json(StatusCode::ACCEPTED, "")
}

/// Returns JSON, written without a line break, as a server-sent event.
pub(super) fn event(json: &impl Display) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}

/// Returns an answer of server-sent events, with a sign of life where there are none for a while.
pub(super) fn event_stream(
    events: impl Stream<Item = Bytes> + Send + Sync + 'static,
) -> Response<Body> {
    let pause = Duration::from_millis(EVENTS_INTERVAL_MS);
    let frames = stream::unfold(Box::pin(events), move |mut events| async move {
        let quiet = |_| Some(Bytes::from_static(b":\n\n"));
        let event = timeout(pause, events.next()).await.unwrap_or_else(quiet)?;
        Some((Ok(Frame::data(event)), events))
    });
    answer_of("text/event-stream", "no-store", Body::new(StreamBody::new(frames)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;
    use crate::serve::accept::http_server;

    #[tokio::test(start_paused = true)]
    async fn half_a_body_is_waited_for_and_not_for_ever() {
        let (mut client, stream) = tokio::io::duplex(1_024);
        let half = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nhalf";
        client.write_all(half).await.unwrap();
        let answer = async |request: Request| {
            let read = read_body(request.into_body()).await;
            Ok::<_, Infallible>(read.map_or_else(|denial| denied(&denial), |_| accepted()))
        };
        let begun = Instant::now();
        let served = http_server().serve_connection(TokioIo::new(stream), service_fn(answer));
        let served = tokio::spawn(served);
        let mut status = [0; 12];
        let heard = client.read_exact(&mut status);
        timeout(Duration::from_secs(600), heard).await.unwrap().unwrap();
        assert_eq!(&status, b"HTTP/1.1 408");
        assert_eq!(begun.elapsed().as_secs(), HTTP_BODY_READ_MS / 1_000);
        served.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_events_shows_that_it_lives() {
        let said = stream::once(async { event(&json!("a\nb")) }).chain(stream::pending());
        let mut body = event_stream(said).into_body();
        for expected in [&b"data: \"a\\nb\"\n\n"[..], b":\n\n", b":\n\n"] {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), expected);
        }
        let ended = event_stream(stream::empty()).into_body().frame().await;
        assert!(ended.is_none());
    }
}
