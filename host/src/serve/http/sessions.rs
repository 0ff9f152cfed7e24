//! One agent's sessions of the older MCP revisions: how many there are, and which of them nobody uses.
//!
//! rmcp would end a session that says nothing for a while together with the call that waits in it for a person.
//! Here one is idle only while no request of it is under way and nobody listens to it. Idle ones end when their
//! agent begins a session or names one: until then each keeps its place, a worker of rmcp's and a watcher of the
//! catalog. Many a client leaves its session behind: where an agent has as many as it may, the longest unused one
//! ends. rmcp forgets what it has answered: the last answers that found their client gone are kept here for a while.
//! Deliberately absent: anything else that is said in them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::limits::{
    HTTP_ANSWER_KEPT_MS, HTTP_SESSION_IDLE_MS, HTTP_SESSION_MESSAGES_MAX, REPLY_BYTES_MAX,
};
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::admission::Permit;
use crate::serve::mcp::SessionEnd;

pub(super) struct McpSessions {
    manager: Arc<LocalSessionManager>,
    /// What is known about each, by its id.
    known: Mutex<BTreeMap<SessionId, Used>>,
}

/// That a session is used, as long as there is a copy of this beside the one that is kept here. When a copy goes, the
/// session was used last.
#[derive(Debug, Clone, Default)]
pub(super) struct Used(Arc<HttpSession>);

#[derive(Debug)]
struct HttpSession {
    end: SessionEnd,
    last: Mutex<Instant>,
    /// The ids of its requests that are under way.
    underway: Mutex<HashSet<RequestId>>,
    /// The newest answers that found their clients gone, the newest last.
    missed: Mutex<VecDeque<Missed>>,
}

/// An answer that its client may come back for.
#[derive(Debug)]
struct Missed {
    /// The stream that it ends, and its place there.
    id: EventId,
    event: Bytes,
    since: Instant,
}

/// An answer with what is around it. A longer one is a list, which is cheap to ask for again.
const ANSWER_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;

/// A request under way: as long as there is a copy of this, its session is used, its id is that of no other, and it
/// counts among those of its agent.
#[derive(Debug)]
pub(super) struct OpenRequest {
    id: RequestId,
    pub(super) session: Used,
    _permit: Permit,
}

impl McpSessions {
    pub(super) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        // Which are idle is said here.
        manager.session_config.keep_alive = None;
        // What is cancelled is kept for nobody.
        manager.session_config.completed_cache_ttl = Duration::ZERO;
        manager.session_config.channel_capacity = HTTP_SESSION_MESSAGES_MAX;
        Self { manager: Arc::new(manager), known: Mutex::default() }
    }

    /// Returns what rmcp knows of them.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        Arc::clone(&self.manager)
    }

    /// Ends those that are idle; and where that does not leave fewer than `fewer_than`, of those that nobody uses the
    /// ones that were used longest ago. Their clients, if there still are any, begin new ones. Returns how many are left.
    pub(super) async fn make_room(&self, fewer_than: usize) -> usize {
        // Nobody takes up a session between the look at it and its end.
        let mut open = self.manager.sessions.write().await;
        let ended: Vec<_> = {
            let mut known = self.known.lock();
            // Those that ended by themselves are forgotten here, and new ones are used from now on.
            known.retain(|id, _| open.contains_key(id));
            for id in open.keys() {
                known.entry(Arc::clone(id)).or_default();
            }
            let over = over(&known, fewer_than);
            known.retain(|id, _| !over.contains(id));
            over.iter().filter_map(|id| open.remove(id)).collect()
        };
        let left = open.len();
        drop(open);
        for session in ended {
            // One that has ended by itself is gone as well.
            let _ = session.close().await;
        }
        left
    }

    pub(super) async fn take_up(&self, id: &str) -> Option<Used> {
        self.make_room(usize::MAX).await;
        self.known.lock().get(id).cloned()
    }
}

impl Used {
    pub(super) fn end(&self) -> SessionEnd {
        self.0.end.clone()
    }

    /// Begins the request `id`; nothing where one of that id is under way, which rmcp would lose sight of.
    pub(super) fn begin(&self, id: &RequestId, permit: &Permit) -> Option<Arc<OpenRequest>> {
        let is_new = self.0.underway.lock().insert(id.clone());
        let underway = || {
            let (id, session, _permit) = (id.clone(), self.clone(), Arc::clone(permit));
            Arc::new(OpenRequest { id, session, _permit })
        };
        is_new.then(underway)
    }

    /// Keeps the event that ends a stream, where its client had gone.
    pub(super) fn keep(&self, event: Bytes) {
        if event.len() > ANSWER_BYTES_MAX {
            return;
        }
        let id = std::str::from_utf8(&event).ok().and_then(EventId::of_answer);
        let Some(id) = id else { return };
        let mut missed = self.0.fresh();
        if missed.len() >= HTTP_SESSION_MESSAGES_MAX {
            missed.pop_front();
        }
        missed.push_back(Missed { id, event, since: Instant::now() });
    }

    /// Returns what a client missed that had this event last.
    pub(super) fn missed(&self, last: EventId) -> Option<Bytes> {
        let missed = self.0.fresh();
        let is_meant = |it: &&Missed| it.id.stream == last.stream && it.id.place > last.place;
        missed.iter().find(is_meant).map(|it| it.event.clone())
    }

    /// Returns for how long nobody has used the session; nothing while somebody does.
    fn unused(&self) -> Option<Duration> {
        // In this order: a use that ends meanwhile has said when before it is none.
        (Arc::strong_count(&self.0) == 1).then(|| self.0.last.lock().elapsed())
    }
}

/// The id of a server-sent event of the answer to a request, as rmcp writes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventId {
    place: u64,
    /// The stream of the request.
    stream: u64,
}

impl EventId {
    pub(super) fn read(id: &str) -> Option<Self> {
        let (place, stream) = id.split_once('/')?;
        Some(Self { place: place.parse().ok()?, stream: stream.parse().ok()? })
    }

    /// Reads that of an event which is an answer: reports of progress, too, have one.
    fn of_answer(event: &str) -> Option<Self> {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        let answer: Value = serde_json::from_str(field("data: ")?).ok()?;
        answer.get("result").or_else(|| answer.get("error"))?;
        Self::read(field("id: ")?)
    }
}

/// Returns which are to end: the idle ones, and of those that nobody uses as many more, the longest unused first, as
/// leave fewer than `fewer_than`.
fn over(known: &BTreeMap<SessionId, Used>, fewer_than: usize) -> Vec<SessionId> {
    let idle_after = Duration::from_millis(HTTP_SESSION_IDLE_MS);
    let too_many = (known.len() + 1).saturating_sub(fewer_than);
    let mut unused: Vec<_> =
        known.iter().filter_map(|(id, used)| Some((used.unused()?, id))).collect();
    unused.sort_by_key(|(unused, _)| Reverse(*unused));
    let of_these = unused.into_iter().enumerate();
    let ends =
        of_these.take_while(|(place, (unused, _))| *place < too_many || *unused >= idle_after);
    ends.map(|(_, (_, id))| Arc::clone(id)).collect()
}

impl HttpSession {
    /// Returns the missed answers, without those that were kept for long enough.
    fn fresh(&self) -> MutexGuard<'_, VecDeque<Missed>> {
        let mut missed = self.missed.lock();
        missed.retain(|it| it.since.elapsed() < Duration::from_millis(HTTP_ANSWER_KEPT_MS));
        missed
    }
}

impl Default for HttpSession {
    fn default() -> Self {
        let (end, underway, missed) = <(SessionEnd, _, _)>::default();
        Self { end, last: Mutex::new(Instant::now()), underway, missed }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.session.0.underway.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::super::admission::Right;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_used_makes_no_room_and_what_is_unused_longest_goes_first() {
        let mut known = BTreeMap::new();
        for name in ["c", "b", "a"] {
            known.insert(SessionId::from(name), Used::default());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let over = |fewer_than| over(&known, fewer_than).iter().map(ToString::to_string).collect();
        let ended: [Vec<String>; 4] = [over(usize::MAX), over(4), over(3), over(2)];
        assert_eq!(ended, [vec![], vec![], vec!["c"], vec!["c", "b"]]);
        let used: Vec<_> = known.values().cloned().collect();
        let none: Vec<String> = over(1);
        assert!(none.is_empty());
        drop(used);
        tokio::time::advance(Duration::from_millis(HTTP_SESSION_IDLE_MS)).await;
        let all: Vec<String> = over(usize::MAX);
        assert_eq!(all.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_missed_answers_are_kept_for_a_while() {
        let used = Used::default();
        let event =
            |stream: usize| Bytes::from(format!("data: {{\"result\":{{}}}}\nid: 2/{stream}\n\n"));
        let missed = |last: &str| used.missed(EventId::read(last)?);
        for stream in 0..=HTTP_SESSION_MESSAGES_MAX {
            used.keep(event(stream));
        }
        used.keep(Bytes::from_static(b":\n\n"));
        used.keep(Bytes::from_static(
            b"data: {\"method\":\"notifications/progress\"}\nid: 3/9\n\n",
        ));
        used.keep(Bytes::from(format!(
            "data: {{\"result\":\"{}\"}}\nid: 2/9\n\n",
            "x".repeat(ANSWER_BYTES_MAX)
        )));
        assert_eq!(missed("0/1"), Some(event(1)));
        for nothing in ["0/0", "2/1", "0/9", "1", ""] {
            assert_eq!(missed(nothing), None, "{nothing}");
        }
        tokio::time::advance(Duration::from_millis(HTTP_ANSWER_KEPT_MS)).await;
        assert_eq!(missed("0/1"), None);
    }

    #[tokio::test]
    async fn an_id_is_that_of_one_request_at_a_time() {
        let (used, other) = (Used::default(), Used::default());
        let (number, text) = (RequestId::Number(1), RequestId::String("1".into()));
        let all = Arc::new(Semaphore::new(1));
        let permit = Right::short(Arc::clone(&all).try_acquire_owned().unwrap());
        let first = used.begin(&number, &permit).unwrap();
        let copy = Arc::clone(&first);
        drop(first);
        assert!(used.begin(&number, &permit).is_none());
        assert!(used.begin(&text, &permit).is_some() && other.begin(&number, &permit).is_some());
        drop(permit);
        assert_eq!(all.available_permits(), 0, "it is under way");
        drop(copy);
        assert_eq!(all.available_permits(), 1);
        let permit = Right::short(all.try_acquire_owned().unwrap());
        assert!(used.begin(&number, &permit).is_some());
    }
}
