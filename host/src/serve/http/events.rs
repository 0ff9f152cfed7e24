//! A body of server-sent events: what a session says unasked.
//!
//! The body gives back what it listens on when it ends, so that a client that lost its connection
//! can listen again. Deliberately absent: event ids. What nobody listened to is not sent again.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::Value;
use tokio::sync::mpsc;

/// Where a session's notifications wait while nobody listens.
pub(super) type Waiting = Arc<Mutex<Option<mpsc::Receiver<Value>>>>;

/// Returns where `notices` wait.
pub(super) fn waiting(notices: mpsc::Receiver<Value>) -> Waiting {
    Arc::new(Mutex::new(Some(notices)))
}

/// The notifications of one session, as they come.
pub(super) struct Events {
    notices: Option<mpsc::Receiver<Value>>,
    waiting: Waiting,
}

impl Events {
    /// Listens; nothing where somebody does already.
    pub(super) fn listen(waiting: &Waiting) -> Option<Self> {
        let notices = waiting.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Self { notices: Some(notices), waiting: Arc::clone(waiting) })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = self.notices.take();
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(notices) = &mut self.notices else { return Poll::Ready(None) };
        // The JSON of a value has no line break in it.
        let event = |notice: Value| Frame::data(Bytes::from(format!("data: {notice}\n\n")));
        notices.poll_recv(context).map(|notice| notice.map(|notice| Ok(event(notice))))
    }
}
