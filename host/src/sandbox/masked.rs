//! An answer whose secrets are masked while it streams past.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use clawhost_core::redact::Redactor;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::upstream::http::is_plain;

/// Held bytes are searched again once this part of them is new, so that a long secret which comes
/// byte by byte is not searched for each time.
const SEARCH_AGAIN: usize = 16;

/// A body in which every secret that `redactor` knows is `*`, at the same length. The end of a
/// part that may be the start of a secret waits for what follows.
pub(crate) struct Masked<B> {
    body: B,
    redactor: Arc<Redactor>,
    /// As they came.
    held: BytesMut,
    /// How many of the held bytes were searched.
    searched: usize,
    /// How many of the held bytes are the end of a secret, whatever follows.
    covered: usize,
    /// Trailers, which come after what is still held.
    last: Option<Frame<Bytes>>,
}

/// What keeps the mask from seeing a secret in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// A coding.
    Compressed,
    /// The rest of it, which was not sent.
    Partial,
}

impl Cover {
    /// Returns what would hide a secret in `answer` from [`mask`], if anything.
    pub(crate) fn of<B>(answer: &Response<B>) -> Option<Self> {
        if !is_plain(answer.headers()) {
            return Some(Self::Compressed);
        }
        (answer.status() == StatusCode::PARTIAL_CONTENT).then_some(Self::Partial)
    }
}

/// Returns `response` with its headers and body masked.
pub(crate) fn mask<B>(response: Response<B>, redactor: Arc<Redactor>) -> Response<Masked<B>> {
    let (mut parts, body) = response.into_parts();
    mask_headers(&mut parts.headers, &redactor);
    let held = BytesMut::new();
    let masked = Masked { body, redactor, held, searched: 0, covered: 0, last: None };
    Response::from_parts(parts, masked)
}

/// Masks what headers say. One that is called by a secret is left out: a service may call one as it was asked to.
fn mask_headers(headers: &mut HeaderMap, redactor: &Redactor) {
    let shows = |name: &&HeaderName| matches!(redactor.text(name.as_str()), Cow::Owned(_));
    for name in headers.keys().filter(shows).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        redactor.mask(&mut bytes);
        if bytes != value.as_bytes() {
            // Stars are fine in a header, so nothing is lost here.
            *value = HeaderValue::from_bytes(&bytes).unwrap_or(HeaderValue::from_static("*"));
        }
    }
}

impl<B> Masked<B> {
    /// Takes more of the body, and returns what of it can go on.
    fn take(&mut self, data: &[u8]) -> Bytes {
        self.held.extend_from_slice(data);
        let new = self.held.len().saturating_sub(self.searched);
        if new < self.searched / SEARCH_AGAIN {
            return Bytes::new();
        }
        // Before anything is masked: one secret may go on where another ends.
        self.pass(self.redactor.unfinished(&self.held))
    }

    /// Returns what was held, when nothing follows that would make it a secret.
    fn rest(&mut self) -> Bytes {
        self.pass(0)
    }

    /// Returns what is held but for the last bytes, as many as `wait` for what follows.
    fn pass(&mut self, wait: usize) -> Bytes {
        let passed = self.held.len().saturating_sub(wait);
        let waiting = BytesMut::from(self.held.get(passed..).unwrap_or_default());
        self.redactor.mask(&mut self.held);
        self.held.get_mut(..self.covered).unwrap_or_default().fill(b'*');
        let shown = self.held.split_to(passed).freeze();
        self.covered = self.held.iter().take_while(|byte| **byte == b'*').count();
        (self.searched, self.held) = (waiting.len(), waiting);
        shown
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Masked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(trailers) = this.last.take() {
                return Poll::Ready(Some(Ok(trailers)));
            }
            let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
            let frame = match frame.transpose() {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(None) if this.held.is_empty() => return Poll::Ready(None),
                Ok(None) => None,
                Ok(Some(frame)) => Some(frame),
            };
            let passed = match frame.map(Frame::into_data) {
                Some(Ok(data)) => this.take(&data),
                Some(Err(other)) => {
                    let trailers = other.into_trailers().map(|mut trailers| {
                        mask_headers(&mut trailers, &this.redactor);
                        Frame::trailers(trailers)
                    });
                    this.last = trailers.ok();
                    this.rest()
                }
                None => this.rest(),
            };
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(passed))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.held.is_empty() && self.last.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(held));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http_body_util::BodyExt as _;

    use super::*;

    /// Gives its parts one by one, then the trailers.
    struct Parts(VecDeque<&'static str>, Option<HeaderMap>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let data = self.0.pop_front().map(|part| Frame::data(Bytes::from(part)));
            let frame = data.or_else(|| self.1.take().map(Frame::trailers));
            Poll::Ready(frame.map(Ok))
        }
    }

    fn masked(parts: &[&'static str], trailers: Option<HeaderMap>) -> Masked<Parts> {
        let redactor = Redactor::new([("T", b"abcdefgh".as_slice())]).unwrap();
        let parts = Parts(parts.iter().copied().collect(), trailers);
        mask(Response::new(parts), Arc::new(redactor)).into_body()
    }

    async fn read(parts: &[&'static str]) -> String {
        let bytes = masked(parts, None).collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_secret_is_masked_wherever_the_parts_are_cut() {
        assert_eq!(read(&["x abcdefgh y"]).await, "x ******** y");
        assert_eq!(read(&["x abc", "", "defgh y"]).await, "x ******** y");
        assert_eq!(read(&["a", "b", "c", "d", "e", "f", "g", "h"]).await, "********");
        assert_eq!(read(&["YWJjZG", "VmZ2g="]).await, "**********g=");
        assert_eq!(read(&["x abcdefg"]).await, "x abcdefg");
        assert_eq!(read(&["%61b%", "63%6", "4efgh"]).await, "*".repeat(14));
        assert_eq!(read(&["\\", "u006", "1b&#9", "9;defgh"]).await, "*".repeat(17));
        assert_eq!(read(&[]).await, "");
    }

    #[tokio::test]
    async fn a_secret_that_goes_on_where_another_ends_is_masked_wherever_the_parts_are_cut() {
        let values = [("A", "abcdefgh"), ("B", "abcdefgh:ijklmnop"), ("C", "qrstuvqr")];
        let values = values.map(|(name, value)| (name, value.as_bytes()));
        let redactor = Arc::new(Redactor::new(values).unwrap());
        for text in ["x abcdefgh:ijklmnop y", "x abcdefgh:ij y", "qrstuvqrstuvqr", "qrstuvqrs"] {
            let mut whole = text.as_bytes().to_vec();
            redactor.mask(&mut whole);
            for at in 0..=text.len() {
                let (first, rest) = text.split_at(at);
                let parts = Parts([first, rest].into(), None);
                let body = mask(Response::new(parts), Arc::clone(&redactor)).into_body();
                assert_eq!(body.collect().await.unwrap().to_bytes(), whole, "{first:?} {rest:?}");
            }
        }
    }

    #[tokio::test]
    async fn what_cannot_be_the_start_of_a_secret_does_not_wait() {
        let mut body = masked(&["data: {}\n", "x"], None);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "data: {}\n");
    }

    #[test]
    fn a_long_secret_that_comes_byte_by_byte_is_not_searched_for_each_time() {
        let value: String = (0..100).map(|number| format!("{number:02}")).collect();
        let redactor = Redactor::new([("T", value.as_bytes())]).unwrap();
        let parts = Parts(VecDeque::new(), None);
        let mut body = mask(Response::new(parts), Arc::new(redactor)).into_body();
        let (start, end) = value.as_bytes().split_at(64);
        assert_eq!(body.take(start), "");
        let passed: Vec<Bytes> = end.chunks(1).map(|byte| body.take(byte)).collect();
        assert_eq!([passed.concat(), body.rest().to_vec()].concat(), b"*".repeat(200));
        // A sixteenth of what is held has to be new.
        assert_eq!(body.take(start), "");
        let passed = [b"!", b"!", b"!", b"!"].map(|byte| body.take(byte).len());
        assert_eq!(passed, [0, 0, 0, 68]);
    }

    #[tokio::test]
    async fn trailers_come_last_and_are_masked_too() {
        let trailers = [(http::header::ETAG, HeaderValue::from_static("abcdefgh"))];
        let body = masked(&["x", "a"], Some(trailers.into_iter().collect()));
        let whole = body.collect().await.unwrap();
        assert_eq!(whole.trailers().unwrap()[http::header::ETAG], "********");
        assert_eq!(whole.to_bytes(), "xa");
    }

    #[test]
    fn headers_are_masked() {
        let redactor = Redactor::new([("T", b"abcdefgh".as_slice())]).unwrap();
        let response = Response::builder().header("location", "/?t=abcdefgh");
        let response = response.header("Abcdefgh", "1").header("x-6162636465666768", "2");
        let response = mask(response.body(()).unwrap(), Arc::new(redactor));
        assert_eq!(response.headers()["location"], "/?t=********");
        assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
    }
}
