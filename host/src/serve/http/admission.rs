//! What one agent may have under way over HTTP: requests, a few beside them that are urgent, and streams.
//!
//! Deliberately absent: what is asked, and how many connections the server has for everybody (`seats`).

use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::{
    CONNECTION_BYTES_MAX, HTTP_GIVEN_BACK_MS, HTTP_REQUESTS_PER_AGENT_MAX,
    HTTP_STREAMS_PER_AGENT_MAX, HTTP_URGENT_PER_AGENT_MAX, MESSAGE_BYTES_MAX,
    PROXY_LARGE_REQUESTS_MAX, PROXY_REQUEST_BYTES_MAX, SCREENED_AT_ONCE_BYTES_MAX,
    URGENT_REQUEST_BYTES_MAX,
};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, timeout};

use super::body::read_request;
use super::guard::Denied;
use super::routes::Request;
use super::seats::{Busy, Seat};
use crate::serve::message::{self, Incoming};

/// What is left of what one agent may have under way.
pub(super) struct Bounds {
    requests: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    large: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

pub(super) type ReadRequest = (Parts, Bytes);

/// The right to one request, as long as there is a copy: the request itself has one, and whatever goes on for it
/// when its client has hung up.
pub(super) type Permit = Arc<Right>;

/// One of an agent's requests, and the bytes of a long one: what is made of these takes many times as much.
#[derive(Debug)]
pub(super) struct Right {
    _request: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// What a request keeps until it is answered: its connection, and its right to be answered.
pub(super) type HeldRoom = (Busy, Permit);

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Whatever it is.
    Any,
    /// Only what can end a call that runs, or is about it.
    Urgent,
}

impl Bounds {
    pub(super) fn new() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(HTTP_REQUESTS_PER_AGENT_MAX)),
            urgent: Arc::new(Semaphore::new(HTTP_URGENT_PER_AGENT_MAX)),
            streams: Arc::new(Semaphore::new(HTTP_STREAMS_PER_AGENT_MAX)),
            large: Arc::new(Semaphore::new(PROXY_LARGE_REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(CONNECTION_BYTES_MAX)),
        }
    }

    /// Takes the right to one more request, before anything of its body is read, and reads it. Where there is
    /// none left, it may still turn out to be urgent.
    pub(super) async fn admit(
        &self,
        request: Request,
        seat: &Arc<Seat>,
    ) -> Result<(ReadRequest, HeldRoom), Denied> {
        seat.touch();
        let one = match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(one) => one,
            Err(_) if may_be_urgent(&request) => return self.admit_small(request, seat).await,
            Err(_) => self.one().await?,
        };
        let busy = busy(seat, Room::Any)?;
        let asked = read_request(request, MESSAGE_BYTES_MAX).await?;
        let bytes = self.bytes(asked.1.len()).await?;
        Ok((asked, (busy, Arc::new(Right { _request: one, _bytes: bytes }))))
    }

    /// Takes the bytes of a long message; a short one, as whatever ends a call is, takes none.
    async fn bytes(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Denied> {
        if bytes <= SCREENED_AT_ONCE_BYTES_MAX {
            return Ok(None);
        }
        let many = u32::try_from(bytes).unwrap_or(u32::MAX);
        let taken = given_back(Arc::clone(&self.bytes).acquire_many_owned(many)).await;
        taken.map(Some).ok_or_else(|| too_many(CONNECTION_BYTES_MAX, "bytes of long requests"))
    }

    /// Reads what may be urgent, and takes the right to what it is. Not the other way round: half a message would
    /// keep from others what there is little of.
    async fn admit_small(
        &self,
        request: Request,
        seat: &Arc<Seat>,
    ) -> Result<(ReadRequest, HeldRoom), Denied> {
        let asked = match read_request(request, URGENT_REQUEST_BYTES_MAX).await {
            Err(denied) if denied.status == StatusCode::PAYLOAD_TOO_LARGE => {
                return Err(too_many(HTTP_REQUESTS_PER_AGENT_MAX, "requests"));
            }
            read => read?,
        };
        let (room, permit) = match self.urgent(&asked) {
            Some(permit) => (Room::Urgent, permit),
            None => (Room::Any, self.request().await?),
        };
        Ok((asked, (busy(seat, room)?, permit)))
    }

    /// Takes the right to one more urgent request, where it is one.
    fn urgent(&self, asked: &ReadRequest) -> Option<Permit> {
        let permit = is_urgent(asked).then(|| Arc::clone(&self.urgent).try_acquire_owned().ok());
        permit.flatten().map(Right::short)
    }

    pub(super) async fn request(&self) -> Result<Permit, Denied> {
        self.one().await.map(Right::short)
    }

    async fn one(&self) -> Result<OwnedSemaphorePermit, Denied> {
        one_of(&self.requests, HTTP_REQUESTS_PER_AGENT_MAX, "requests").await
    }

    /// Takes the right to one more stream that does not end by itself.
    pub(super) async fn stream(&self) -> Result<OwnedSemaphorePermit, Denied> {
        one_of(&self.streams, HTTP_STREAMS_PER_AGENT_MAX, "streams").await
    }

    /// Reads a request for a completion, whose head says that it has so many `bytes`, and takes the right to a long
    /// one: what is longer than any other message may be is one of few, and all else takes its bytes.
    pub(super) async fn completion<R>(
        &self,
        bytes: u64,
        read: impl FnOnce(usize) -> R,
    ) -> Result<(ReadRequest, Option<OwnedSemaphorePermit>), Denied>
    where
        R: Future<Output = Result<ReadRequest, Denied>>,
    {
        if bytes > MESSAGE_BYTES_MAX as u64 {
            let large = one_of(&self.large, PROXY_LARGE_REQUESTS_MAX, "large requests").await?;
            return Ok((read(PROXY_REQUEST_BYTES_MAX).await?, Some(large)));
        }
        let asked = read(MESSAGE_BYTES_MAX).await?;
        let long = self.bytes(asked.1.len()).await?;
        Ok((asked, long))
    }
}

impl Right {
    /// Returns the right to a request that takes no bytes of its agent's.
    pub(super) fn short(request: OwnedSemaphorePermit) -> Permit {
        Arc::new(Self { _request: request, _bytes: None })
    }
}

/// Says whether a request can be urgent, by what is known before it is read.
fn may_be_urgent(request: &Request) -> bool {
    let is_small = request.body().size_hint().lower() <= URGENT_REQUEST_BYTES_MAX as u64;
    is_small && [Method::POST, Method::DELETE].contains(request.method())
}

/// Says whether a request can end a call that runs, or is about it.
fn is_urgent((parts, body): &ReadRequest) -> bool {
    parts.method == Method::DELETE
        || message::read(body).is_ok_and(|incoming| match incoming {
            Incoming::Request { method, .. } => message::is_urgent(&method),
            Incoming::Notification { .. } | Incoming::Reply { .. } => true,
        })
}

/// Keeps the connection of a request whose sender is known.
pub(super) fn busy(seat: &Arc<Seat>, room: Room) -> Result<Busy, Denied> {
    let text = "there is no room for this connection now";
    seat.busy(room == Room::Urgent)
        .ok_or_else(|| Denied::new(StatusCode::SERVICE_UNAVAILABLE, text))
}

/// Waits a moment for what is to be taken: by then what clients held that have just hung up is given back.
pub(super) async fn given_back<T, E>(taking: impl Future<Output = Result<T, E>>) -> Option<T> {
    let patience = Duration::from_millis(HTTP_GIVEN_BACK_MS);
    timeout(patience, taking).await.ok().and_then(Result::ok)
}

/// Takes one of an agent's `max`.
async fn one_of(
    all: &Arc<Semaphore>,
    max: usize,
    what: &str,
) -> Result<OwnedSemaphorePermit, Denied> {
    given_back(Arc::clone(all).acquire_owned()).await.ok_or_else(|| too_many(max, what))
}

fn too_many(max: usize, what: &str) -> Denied {
    let text = format!("this agent has {max} {what} open; end one first");
    Denied::new(StatusCode::TOO_MANY_REQUESTS, text)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_requests_of_an_agent_have_so_many_bytes_together() {
        let (bounds, mut held) = (Bounds::new(), Vec::new());
        for _ in 0..CONNECTION_BYTES_MAX / MESSAGE_BYTES_MAX {
            held.push(bounds.bytes(MESSAGE_BYTES_MAX).await.unwrap());
        }
        let denied = bounds.bytes(SCREENED_AT_ONCE_BYTES_MAX + 1).await.unwrap_err();
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        // What could end one of them is heard.
        assert!(bounds.bytes(SCREENED_AT_ONCE_BYTES_MAX).await.unwrap().is_none());
        held.pop();
        assert!(bounds.bytes(MESSAGE_BYTES_MAX).await.is_ok());
    }

    async fn completed(
        bounds: &Bounds,
        bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, Denied> {
        let (parts, ()) = http::Request::new(()).into_parts();
        let read = |bytes_max: usize| {
            assert!(bytes <= bytes_max, "{bytes_max}");
            ready(Ok((parts, Bytes::from(vec![b' '; bytes]))))
        };
        bounds.completion(bytes as u64, read).await.map(|(_, long)| long)
    }

    #[tokio::test(start_paused = true)]
    async fn few_requests_of_an_agent_are_large_at_once() {
        let bounds = Bounds::new();
        let (small, mut held) = (MESSAGE_BYTES_MAX, Vec::new());
        for _ in 0..PROXY_LARGE_REQUESTS_MAX {
            held.push(completed(&bounds, small + 1).await.unwrap());
        }
        let denied = completed(&bounds, small + 1).await.unwrap_err();
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(completed(&bounds, small).await.unwrap().is_some());
        held.pop();
        assert!(completed(&bounds, small + 1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn long_completions_have_as_many_bytes_together_as_other_requests() {
        let bounds = Bounds::new();
        let mut held = vec![bounds.bytes(MESSAGE_BYTES_MAX).await.unwrap()];
        for _ in 1..CONNECTION_BYTES_MAX / MESSAGE_BYTES_MAX {
            held.push(completed(&bounds, MESSAGE_BYTES_MAX).await.unwrap());
        }
        let denied = completed(&bounds, SCREENED_AT_ONCE_BYTES_MAX + 1).await.unwrap_err();
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(completed(&bounds, SCREENED_AT_ONCE_BYTES_MAX).await.unwrap().is_none());
        held.pop();
        assert!(completed(&bounds, MESSAGE_BYTES_MAX).await.is_ok());
    }
}
