//! What waits to be taken by the members of swarms, each with bounded room.
//!
//! Tasks and reports wait for an identity, and whichever of its sessions asks first gets them;
//! they wait also while none is connected. Messages go to every session that is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use clawhost_core::limits::{SWARM_AGENTS_MAX, SWARM_EVENTS_BYTES_MAX, SWARM_EVENTS_MAX};
use tokio::sync::Notify;

use super::task::SwarmEvent;

/// The boxes of all identities.
#[derive(Debug, Default)]
pub(super) struct Post {
    boxes: BTreeMap<String, Letters>,
    sessions: u64,
}

#[derive(Debug, Default)]
struct Letters {
    kept: Queue,
    sessions: BTreeMap<u64, Queue>,
    wake: Arc<Notify>,
}

/// Events of one taker. The oldest goes first where there are too many, and is counted.
#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<SwarmEvent>,
    bytes: usize,
    missed: u64,
}

impl Post {
    /// Opens a session of `name`; returns its number and who wakes it.
    pub(super) fn join(&mut self, name: &str) -> (u64, Arc<Notify>) {
        self.sessions += 1;
        let letters = self.boxes.entry(name.to_owned()).or_default();
        letters.sessions.insert(self.sessions, Queue::default());
        (self.sessions, Arc::clone(&letters.wake))
    }

    /// Closes a session. Where it was the last, tasks that nobody took are told again to the next.
    pub(super) fn leave(&mut self, name: &str, session: u64) {
        let Some(letters) = self.boxes.get_mut(name) else { return };
        letters.sessions.remove(&session);
        if letters.sessions.is_empty() {
            letters.kept.events.retain(|event| !matches!(event, SwarmEvent::Task { .. }));
            if letters.kept.is_empty() {
                self.boxes.remove(name);
            }
        }
    }

    pub(super) fn is_present(&self, name: &str) -> bool {
        self.boxes.get(name).is_some_and(|letters| !letters.sessions.is_empty())
    }

    /// Keeps `event` for `name`. Nothing is kept for more identities than a swarm can have.
    pub(super) fn put(&mut self, name: &str, event: SwarmEvent) {
        if self.boxes.len() >= SWARM_AGENTS_MAX && !self.boxes.contains_key(name) {
            return;
        }
        let letters = self.boxes.entry(name.to_owned()).or_default();
        letters.kept.push(event);
        letters.wake.notify_waiters();
    }

    /// Gives `event` to every session of `name`.
    pub(super) fn put_each(&mut self, name: &str, event: &SwarmEvent) {
        let Some(letters) = self.boxes.get_mut(name) else { return };
        letters.sessions.values_mut().for_each(|queue| queue.push(event.clone()));
        letters.wake.notify_waiters();
    }

    /// Takes the next event of a session.
    pub(super) fn take(&mut self, name: &str, session: u64) -> Option<SwarmEvent> {
        let letters = self.boxes.get_mut(name)?;
        let own = letters.sessions.get_mut(&session)?;
        own.take().or_else(|| letters.kept.take())
    }
}

impl Queue {
    fn push(&mut self, event: SwarmEvent) {
        self.bytes += event.own_bytes();
        self.events.push_back(event);
        while self.events.len() > SWARM_EVENTS_MAX || self.bytes > SWARM_EVENTS_BYTES_MAX {
            self.drop_oldest();
        }
    }

    /// A lost task would never end: reports and messages go before it.
    fn drop_oldest(&mut self) {
        let small = |event: &SwarmEvent| !matches!(event, SwarmEvent::Task { .. });
        let oldest = self.events.iter().position(small).unwrap_or(0);
        let dropped = self.events.remove(oldest);
        self.bytes -= dropped.map_or(0, |event| event.own_bytes());
        self.missed += 1;
    }

    fn take(&mut self) -> Option<SwarmEvent> {
        match std::mem::take(&mut self.missed) {
            0 => {
                let event = self.events.pop_front()?;
                self.bytes -= event.own_bytes();
                Some(event)
            }
            missed => Some(SwarmEvent::Missed(missed)),
        }
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.missed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(number: usize) -> SwarmEvent {
        say(&json!(number))
    }

    fn say(message: &serde_json::Value) -> SwarmEvent {
        SwarmEvent::Message { swarm: "s".into(), from: "a".into(), message: message.into() }
    }

    #[test]
    fn a_slow_session_loses_the_oldest_and_is_told_how_many() {
        let mut post = Post::default();
        let (slow, _) = post.join("bee");
        let (quick, _) = post.join("bee");
        for number in 0..SWARM_EVENTS_MAX + 2 {
            post.put_each("bee", &message(number));
            assert_eq!(post.take("bee", quick), Some(message(number)));
        }
        assert_eq!(post.take("bee", slow), Some(SwarmEvent::Missed(2)));
        assert_eq!(post.take("bee", slow), Some(message(2)));
    }

    #[test]
    fn long_events_are_bounded_in_sum_and_short_ones_have_room_again() {
        let mut post = Post::default();
        let (slow, _) = post.join("bee");
        let long = say(&json!("x".repeat(SWARM_EVENTS_BYTES_MAX / 2 - 2)));
        for event in [&message(0), &long, &long] {
            post.put_each("bee", event);
        }
        assert_eq!(post.take("bee", slow), Some(SwarmEvent::Missed(1)));
        assert_eq!(post.take("bee", slow), Some(long.clone()));
        for event in [&message(1), &long] {
            post.put_each("bee", event);
        }
        assert_eq!(post.take("bee", slow), Some(SwarmEvent::Missed(1)));
        assert_eq!(post.take("bee", slow), Some(message(1)));
        assert_eq!(post.take("bee", slow), Some(long));
        assert_eq!(post.boxes["bee"].sessions[&slow].bytes, 0);
    }

    #[test]
    fn what_is_kept_is_taken_once_and_also_later() {
        let mut post = Post::default();
        post.put("bee", message(1));
        let (first, _) = post.join("bee");
        let (second, _) = post.join("bee");
        assert_eq!(post.take("bee", second), Some(message(1)));
        assert_eq!(post.take("bee", first), None);
        post.leave("bee", first);
        assert!(post.is_present("bee"));
        post.leave("bee", second);
        assert!(!post.is_present("bee") && post.boxes.is_empty());
    }
}
