//! The places that connections take, and who gives one up when there is none left.
//!
//! A connection on which somebody known has a request in flight keeps its place. Every other one
//! is idle: opened and silent, refused, between two requests, or with one that there is no room for
//! yet. Ordinary requests leave a part of all places alone, so that the operator's word always finds
//! one. When all places are taken, a new connection gets the place of the one that has been idle
//! longest, counted from its last sign of somebody known, so whoever opens connections and says
//! nothing shuts nobody out. Only answers that are still being made count as in flight;
//! what the system has yet to deliver does not. Deliberately absent: addresses. Clients behind
//! one proxy share theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::limits::{HTTP_CONNECTIONS_MAX, HTTP_RESERVED_PART_MAX};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) struct Seats {
    changed: Notify,
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, State>,
}

#[derive(Debug)]
struct State {
    evicted: CancellationToken,
    idle_since: Option<Instant>,
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    evicted: CancellationToken,
    id: u64,
    seats: Arc<Seats>,
}

/// A request in flight; while it lasts, its connection keeps its place.
#[derive(Debug)]
pub(super) struct Busy(Arc<Seat>);

impl Seats {
    pub(super) fn all() -> Arc<Self> {
        Self::new(HTTP_CONNECTIONS_MAX)
    }

    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { changed: Notify::new(), max, taken: Mutex::default() })
    }

    /// Takes a place, from the connection that has been idle longest where none is free. Waits
    /// only while every connection has a request in flight. One task at a time may wait.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            if let Some(seat) = self.try_take() {
                return Arc::new(seat);
            }
            // A change since the look above is remembered.
            self.changed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.taken.lock();
        if taken.seats.len() >= self.max {
            taken.evict()?;
        }
        let (id, evicted) = (taken.next, CancellationToken::new());
        taken.next = id.wrapping_add(1);
        let state = State { evicted: evicted.clone(), idle_since: Some(Instant::now()) };
        taken.seats.insert(id, state);
        drop(taken);
        let seats = Arc::clone(self);
        Some(Seat { evicted, id, seats })
    }

    /// Returns how many connections may have an ordinary request in flight.
    const fn ordinary(&self) -> usize {
        self.max - self.max / HTTP_RESERVED_PART_MAX
    }
}

impl Taken {
    /// Frees the place of the connection that has been idle longest, or of none.
    fn evict(&mut self) -> Option<()> {
        let idle = |(id, state): (&u64, &State)| state.idle_since.map(|since| (since, *id));
        let (_, id) = self.seats.iter().filter_map(idle).min()?;
        self.seats.remove(&id)?.evicted.cancel();
        Some(())
    }
}

impl Seat {
    /// Waits until another connection has got this place: this one must close.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Notes that somebody known sends a request: of those that are idle, this gives up its place last.
    pub(super) fn touch(&self) {
        let mut taken = self.seats.taken.lock();
        let idle_since = taken.seats.get_mut(&self.id).and_then(|state| state.idle_since.as_mut());
        if let Some(idle_since) = idle_since {
            *idle_since = Instant::now();
        }
    }

    /// Keeps the place for a request of somebody known; nothing where it has just been lost, or
    /// where only places for urgent ones are left.
    pub(super) fn busy(self: &Arc<Self>, urgent: bool) -> Option<Busy> {
        let mut taken = self.seats.taken.lock();
        let busy = taken.seats.values().filter(|state| state.idle_since.is_none()).count();
        if !urgent && busy >= self.seats.ordinary() {
            return None;
        }
        taken.seats.get_mut(&self.id)?.idle_since = None;
        Some(Busy(Arc::clone(self)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken.lock().seats.remove(&self.id);
        self.seats.changed.notify_one();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(state) = self.0.seats.taken.lock().seats.get_mut(&self.0.id) {
            state.idle_since = Some(Instant::now());
        }
        self.0.seats.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn take(seats: &Arc<Seats>) -> Option<Arc<Seat>> {
        seats.take().now_or_never()
    }

    fn is_evicted(seat: &Seat) -> bool {
        seat.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn the_longest_idle_connection_makes_room() {
        let seats = Seats::new(2);
        let (first, second) = (take(&seats).unwrap(), take(&seats).unwrap());
        let third = take(&seats).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&second));
        assert!(first.busy(false).is_none());
        drop(first);
        drop(second.busy(false).unwrap());
        let _fourth = take(&seats).unwrap();
        assert!(is_evicted(&third) && !is_evicted(&second));
    }

    #[tokio::test]
    async fn a_sign_of_somebody_known_counts_as_use() {
        let seats = Seats::new(2);
        let (first, second) = (take(&seats).unwrap(), take(&seats).unwrap());
        first.touch();
        let _third = take(&seats).unwrap();
        assert!(is_evicted(&second) && !is_evicted(&first));
    }

    #[tokio::test]
    async fn a_request_in_flight_keeps_its_connection() {
        let seats = Seats::new(2);
        let (first, second) = (take(&seats).unwrap(), take(&seats).unwrap());
        let (one, two) = (first.busy(false).unwrap(), second.busy(false).unwrap());
        let mut waiting = std::pin::pin!(seats.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(two);
        assert!(waiting.as_mut().now_or_never().is_some());
        assert!(is_evicted(&second) && !is_evicted(&first));
        drop(one);
    }

    #[tokio::test]
    async fn urgent_requests_find_a_place_where_ordinary_ones_do_not() {
        let seats = Seats::new(HTTP_RESERVED_PART_MAX);
        let held: Vec<_> = (0..HTTP_RESERVED_PART_MAX).map(|_| take(&seats).unwrap()).collect();
        let (last, others) = held.split_last().unwrap();
        let _busy: Vec<_> = others.iter().map(|seat| seat.busy(false).unwrap()).collect();
        assert!(last.busy(false).is_none());
        assert!(last.busy(true).is_some());
        assert!(take(&seats).is_some(), "somebody new is let in");
    }

    #[tokio::test]
    async fn a_closed_connection_frees_its_place() {
        let seats = Seats::new(1);
        let first = take(&seats).unwrap();
        let busy = first.busy(false).unwrap();
        assert!(take(&seats).is_none());
        drop((first, busy));
        assert!(take(&seats).is_some());
    }
}
