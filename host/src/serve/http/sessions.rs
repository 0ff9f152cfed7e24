//! One agent's sessions of the older MCP revisions: how many there are, and which of them nobody uses.
//!
//! rmcp would end a session that says nothing for a while together with the call that waits in it for a person.
//! Here one is idle only while no request of it is under way and nobody listens to it. Idle ones end when their
//! agent begins a session or names one: until then each keeps its place, a worker of rmcp's and a watcher of the
//! catalog. Many a client leaves its session behind: where an agent has as many as it may, the longest unused one
//! ends. Deliberately absent: what is said in them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use clawhost_core::limits::{HTTP_SESSION_IDLE_MS, HTTP_SESSION_MESSAGES_MAX};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::{Duration, Instant};

use super::admission::Permit;
use crate::serve::mcp::SessionEnd;

/// All of them.
pub(super) struct McpSessions {
    manager: Arc<LocalSessionManager>,
    /// What is known about each, by its id.
    known: Mutex<BTreeMap<SessionId, Used>>,
}

/// That a session is used, as long as there is a copy of this beside the one that is kept here. When a copy goes, the
/// session was used last.
#[derive(Debug, Clone, Default)]
pub(super) struct Used(Arc<Session>);

#[derive(Debug)]
struct Session {
    end: SessionEnd,
    last: Mutex<Instant>,
    /// The ids of its requests that are under way.
    underway: Mutex<HashSet<RequestId>>,
}

/// A request under way: as long as there is a copy of this, its session is used, its id is that of no other, and it
/// counts among those of its agent.
#[derive(Debug)]
pub(super) struct Underway {
    id: RequestId,
    pub(super) session: Used,
    _permit: Permit,
}

impl McpSessions {
    /// Returns an agent's sessions: none yet.
    pub(super) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        // Which are idle is said here.
        manager.session_config.keep_alive = None;
        // What is answered or cancelled is kept for nobody.
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

    /// Uses the session `id`, where there is one.
    pub(super) async fn take_up(&self, id: &str) -> Option<Used> {
        self.make_room(usize::MAX).await;
        self.known.lock().get(id).cloned()
    }
}

impl Used {
    /// Returns the end of the session.
    pub(super) fn end(&self) -> SessionEnd {
        self.0.end.clone()
    }

    /// Begins the request `id`; nothing where one of that id is under way, which rmcp would lose sight of.
    pub(super) fn begin(&self, id: &RequestId, permit: &Permit) -> Option<Arc<Underway>> {
        let is_new = self.0.underway.lock().insert(id.clone());
        let underway = || {
            let (id, session, _permit) = (id.clone(), self.clone(), Arc::clone(permit));
            Arc::new(Underway { id, session, _permit })
        };
        is_new.then(underway)
    }

    /// Returns for how long nobody has used the session; nothing while somebody does.
    fn unused(&self) -> Option<Duration> {
        // In this order: a use that ends meanwhile has said when before it is none.
        (Arc::strong_count(&self.0) == 1).then(|| self.0.last.lock().elapsed())
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

impl Default for Session {
    fn default() -> Self {
        let (end, underway) = (SessionEnd::default(), Mutex::default());
        Self { end, last: Mutex::new(Instant::now()), underway }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.session.0.underway.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

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

    #[tokio::test]
    async fn an_id_is_that_of_one_request_at_a_time() {
        let (used, other) = (Used::default(), Used::default());
        let (number, text) = (RequestId::Number(1), RequestId::String("1".into()));
        let all = Arc::new(Semaphore::new(1));
        let permit = Arc::new(Arc::clone(&all).try_acquire_owned().unwrap());
        let first = used.begin(&number, &permit).unwrap();
        let copy = Arc::clone(&first);
        drop(first);
        assert!(used.begin(&number, &permit).is_none());
        assert!(used.begin(&text, &permit).is_some() && other.begin(&number, &permit).is_some());
        drop(permit);
        assert_eq!(all.available_permits(), 0, "it is under way");
        drop(copy);
        assert_eq!(all.available_permits(), 1);
        let permit = Arc::new(all.try_acquire_owned().unwrap());
        assert!(used.begin(&number, &permit).is_some());
    }
}
