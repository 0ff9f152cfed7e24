//! A stream that says a turn goes on until it is over, and then says its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clawhost_core::limits::PROXY_KEEPALIVE_MS;
use clawhost_core::mediate::{Dialect, Events};
use clawhost_core::visible;
use futures_util::{Stream, StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Body;
use super::refused::Refused;

/// What a turn does now, for whoever waits for it.
pub(super) type Doing = Arc<Mutex<String>>;

/// A turn that is carried out. Dropped, it ends.
pub(super) type Underway = AbortOnDropHandle<Result<Value, Refused>>;

pub(super) const KEEPALIVE: Duration = Duration::from_millis(PROXY_KEEPALIVE_MS);

/// Returns the events of a turn: comments while it goes on, the first at once, and then its answer or its
/// error.
pub(super) fn stream(
    turn: Underway,
    dialect: &'static dyn Dialect,
    asked: Value,
    doing: Doing,
) -> Body {
    let waiting = Some((turn, asked, doing, Duration::ZERO));
    let parts = stream::unfold(waiting, move |waiting| async move {
        let (mut turn, asked, doing, patience) = waiting?;
        let one = |event: String| -> Events { Box::new([event].into_iter()) };
        let (events, next) = match timeout(patience, &mut turn).await {
            Err(_) => {
                let comment = format!(": {}\n\n", visible::line(&doing.lock()));
                (one(comment), Some((turn, asked, doing, KEEPALIVE)))
            }
            Ok(ended) => match ended.unwrap_or_else(|_| Err(Refused::internal())) {
                Ok(answer) => (dialect.events(answer, &asked), None),
                Err(refused) => (one(dialect.error_event(&refused.json(dialect))), None),
            },
        };
        Some((events, next))
    });
    body(parts.flat_map(stream::iter))
}

/// Returns events, each made when the client has room for it.
pub(super) fn body(events: impl Stream<Item = String> + Send + Sync + 'static) -> Body {
    let frames = events.map(|event| Ok(Frame::data(Bytes::from(event))));
    BodyExt::boxed(StreamBody::new(frames))
}
