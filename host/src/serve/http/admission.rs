//! What one agent may have under way over HTTP: requests, a few beside them that are urgent, and streams.
//!
//! Deliberately absent: what is asked, and how many connections the server has for everybody (`places`).

use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::{
    HTTP_GIVEN_BACK_MS, HTTP_REQUESTS_PER_AGENT_MAX, HTTP_STREAMS_PER_AGENT_MAX,
    HTTP_URGENT_PER_AGENT_MAX, MESSAGE_BYTES_MAX, URGENT_REQUEST_BYTES_MAX,
};
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, timeout};

use super::body::read_request;
use super::guard::Denied;
use super::places::{Busy, Seat};
use super::routes::Request;
use crate::serve::message::{self, Incoming};

/// What is left of what one agent may have under way.
pub(super) struct Bounds {
    requests: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// A whole request, and what there is room for.
pub(super) struct Asked {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) room: Room,
}

/// What a request keeps until it is answered: its connection, and its right to be answered.
pub(super) type Held = (Busy, OwnedSemaphorePermit);

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Whatever it is.
    Any,
    /// Only what can end a call that runs, or is about it.
    Urgent,
}

impl Bounds {
    /// Returns the bounds of an agent that has nothing under way.
    pub(super) fn new() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(HTTP_REQUESTS_PER_AGENT_MAX)),
            urgent: Arc::new(Semaphore::new(HTTP_URGENT_PER_AGENT_MAX)),
            streams: Arc::new(Semaphore::new(HTTP_STREAMS_PER_AGENT_MAX)),
        }
    }

    /// Takes the right to one more request, before anything of its body is read, and reads it. Where there is
    /// none left, it may still turn out to be urgent.
    pub(super) async fn admit(
        &self,
        request: Request,
        seat: &Arc<Seat>,
    ) -> Result<(Asked, Held), Denied> {
        let permit = match self.request().await {
            Ok(permit) => permit,
            Err(full) => return self.admit_urgent(request, seat, full).await,
        };
        let held = (busy(seat, Room::Any)?, permit);
        let (parts, body) = read_request(request, MESSAGE_BYTES_MAX).await?;
        Ok((Asked { parts, body, room: Room::Any }, held))
    }

    /// Reads what can be urgent, and takes the right to that. Not the other way round: half a message would keep
    /// from others what there is little of.
    async fn admit_urgent(
        &self,
        request: Request,
        seat: &Arc<Seat>,
        full: Denied,
    ) -> Result<(Asked, Held), Denied> {
        if ![Method::POST, Method::DELETE].contains(request.method()) {
            return Err(full);
        }
        let (parts, body) = match read_request(request, URGENT_REQUEST_BYTES_MAX).await {
            Err(denied) if denied.status == StatusCode::PAYLOAD_TOO_LARGE => return Err(full),
            read => read?,
        };
        let permit = Arc::clone(&self.urgent).try_acquire_owned().map_err(|_| full)?;
        let room = Room::Urgent;
        Ok((Asked { parts, body, room }, (busy(seat, room)?, permit)))
    }

    /// Takes the right to one more request.
    pub(super) async fn request(&self) -> Result<OwnedSemaphorePermit, Denied> {
        one_of(&self.requests, HTTP_REQUESTS_PER_AGENT_MAX, "requests").await
    }

    /// Takes the right to one more stream that does not end by itself.
    pub(super) async fn stream(&self) -> Result<OwnedSemaphorePermit, Denied> {
        one_of(&self.streams, HTTP_STREAMS_PER_AGENT_MAX, "streams").await
    }
}

impl Room {
    /// Refuses what is not urgent where there is room for nothing else.
    pub(super) fn admits(self, incoming: &Incoming) -> Result<(), Denied> {
        match incoming {
            Incoming::Request { method, .. }
                if self == Self::Urgent && !message::is_urgent(method) =>
            {
                Err(too_many(HTTP_REQUESTS_PER_AGENT_MAX, "requests"))
            }
            _ => Ok(()),
        }
    }
}

/// Keeps the connection of a request whose sender is known.
pub(super) fn busy(seat: &Arc<Seat>, room: Room) -> Result<Busy, Denied> {
    let text = "there is no room for this connection now";
    seat.busy(room == Room::Urgent)
        .ok_or_else(|| Denied::new(StatusCode::SERVICE_UNAVAILABLE, text))
}

/// Takes one of an agent's `max`. What its clients hold that have just hung up is given back in a moment.
async fn one_of(
    all: &Arc<Semaphore>,
    max: usize,
    what: &str,
) -> Result<OwnedSemaphorePermit, Denied> {
    let patience = Duration::from_millis(HTTP_GIVEN_BACK_MS);
    let taken = timeout(patience, Arc::clone(all).acquire_owned()).await;
    taken.ok().and_then(Result::ok).ok_or_else(|| too_many(max, what))
}

fn too_many(max: usize, what: &str) -> Denied {
    let text = format!("this agent has {max} {what} open; end one first");
    Denied::new(StatusCode::TOO_MANY_REQUESTS, text)
}
