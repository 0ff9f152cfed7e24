//! A body that holds on to something until it has been sent.
//!
//! What a request may use while it is answered is given back when its answer has ended, or its
//! client has gone. What may not be given up half-way is seen through instead, whether or not there is still a client.
//! Deliberately absent: any change to what is sent.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, oneshot};

use super::routes::Body;

/// Returns `response`, holding `held` as long as it is sent.
pub(super) fn until_sent<T: Send + Sync + 'static>(
    response: Response<Body>,
    held: T,
) -> Response<Body> {
    // No body has an error: what would take one only goes when its body does.
    let hold = move |never: Infallible| -> Infallible {
        let _held = &held;
        match never {}
    };
    response.map(|body| body.map_err(hold).boxed())
}

/// Sees an answer through. Whoever hangs up meanwhile misses the rest of it, of which `missed` gets the last part, or
/// nothing where nothing was missed; it is dropped when the answer has ended. Nothing where it cannot be made.
pub(super) async fn seen_through(
    answering: impl Future<Output = Response<Body>> + Send + 'static,
    missed: impl FnOnce(Option<Bytes>) + Send + 'static,
) -> Option<Response<Body>> {
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
