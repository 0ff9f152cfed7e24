//! A body that holds on to something until it has been sent.
//!
//! What a request may use while it is answered is given back when its answer has ended, or its
//! client has gone. What may not be given up half-way is seen through instead, whether or not there is still a client.
//! Deliberately absent: any change to what is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, oneshot};

/// Passes `body` on and drops `_held` with it.
struct HeldBody<T> {
    body: super::routes::Body,
    _held: T,
}

/// Returns `response`, holding `held` as long as it is sent.
pub(super) fn until_sent<T: Send + Sync + Unpin + 'static>(
    response: Response<super::routes::Body>,
    held: T,
) -> Response<super::routes::Body> {
    response.map(|body| HeldBody { body, _held: held }.boxed())
}

/// Sees an answer through. Whoever hangs up meanwhile misses the rest of it, of which `missed` gets the last part, or
/// nothing where nothing was missed; it is dropped when the answer has ended. Nothing where it cannot be made.
pub(super) async fn seen_through(
    answering: impl Future<Output = Response<super::routes::Body>> + Send + 'static,
    missed: impl FnOnce(Option<Bytes>) + Send + 'static,
) -> Option<Response<super::routes::Body>> {
    let (sender, answer) = oneshot::channel();
    tokio::spawn(async move {
        let (parts, mut body) = answering.await.into_parts();
        let (frames, rest) = mpsc::channel(1);
        let rest = stream::unfold(rest, |mut rest| async { Some((rest.recv().await?, rest)) });
        // Of either, an error says that there is nobody to send it to.
        let _ = sender.send(Response::from_parts(parts, StreamBody::new(rest).boxed()));
        let mut last = None;
        while let Some(frame) = body.frame().await {
            if let Err(SendError(Ok(frame))) = frames.send(frame).await {
                last = frame.into_data().ok().or(last);
            }
        }
        missed(last);
    });
    answer.await.ok()
}

impl<T: Unpin> Body for HeldBody<T> {
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
