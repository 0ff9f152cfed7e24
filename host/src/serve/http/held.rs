//! A body that holds on to something until it has been sent.
//!
//! What a request may use while it is answered is given back when its answer has ended, or its
//! client has gone. Deliberately absent: any change to what is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// Passes `body` on and drops `_held` with it.
struct Held<T> {
    body: super::routes::Body,
    _held: T,
}

/// Returns `response`, holding `held` as long as it is sent.
pub(super) fn until_sent<T: Send + Sync + Unpin + 'static>(
    response: Response<super::routes::Body>,
    held: T,
) -> Response<super::routes::Body> {
    response.map(|body| Held { body, _held: held }.boxed())
}

impl<T: Unpin> Body for Held<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
