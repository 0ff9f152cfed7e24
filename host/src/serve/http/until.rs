//! A body that ends when the server does.
//!
//! A stream that tells a client of changes has no end of its own; without this one, a server that
//! is asked to stop would wait for its clients. Deliberately absent: any change to what is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Passes `body` on until a token is cancelled.
pub(super) struct Until {
    body: super::routes::Body,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Until {
    /// Returns `body`, ending with `token` at the latest.
    pub(super) fn cancelled(
        body: super::routes::Body,
        token: CancellationToken,
    ) -> super::routes::Body {
        let end = Box::pin(token.cancelled_owned());
        Self { body, end }.boxed()
    }
}

impl Body for Until {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}
