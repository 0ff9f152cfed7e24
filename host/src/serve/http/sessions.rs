//! One agent's sessions of the older MCP revisions: how many there are, and which of them nobody uses.
//!
//! rmcp would end a session that says nothing for a while together with the call that waits in it for a person.
//! Here one is idle only while no request of it is under way and nobody listens to it. Idle ones end when their
//! agent begins a session or names one: until then each keeps its place, a worker of rmcp's and a watcher of the
//! catalog. Deliberately absent: what is said in them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use clawhost_core::limits::{HTTP_SESSION_IDLE_MS, HTTP_SESSION_MESSAGES_MAX};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::{Duration, Instant};

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

/// A request under way: as long as there is a copy of this, its session is used, and its id is that of no other.
#[derive(Debug)]
pub(super) struct Underway {
    id: RequestId,
    pub(super) session: Used,
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

    /// Ends those that are idle, and returns how many are left.
    pub(super) async fn end_idle(&self) -> usize {
        // Nobody takes up a session between the look at it and its end.
        let mut open = self.manager.sessions.write().await;
        let idle: Vec<_> = {
            let mut known = self.known.lock();
            // Those that ended by themselves are forgotten here, and new ones are used from now on.
            known.retain(|id, _| open.contains_key(id));
            for id in open.keys() {
                known.entry(Arc::clone(id)).or_default();
            }
            let idle = known.extract_if(.., |_, used| used.is_over());
            idle.filter_map(|(id, _)| open.remove(&id)).collect()
        };
        let left = open.len();
        drop(open);
        for session in idle {
            // One that has ended by itself is gone as well.
            let _ = session.close().await;
        }
        left
    }

    /// Uses the session `id`, where there is one.
    pub(super) async fn take_up(&self, id: &str) -> Option<Used> {
        self.end_idle().await;
        self.known.lock().get(id).cloned()
    }
}

impl Used {
    /// Returns the end of the session.
    pub(super) fn end(&self) -> SessionEnd {
        self.0.end.clone()
    }

    /// Begins the request `id`; nothing where one of that id is under way, which rmcp would lose sight of.
    pub(super) fn begin(&self, id: &RequestId) -> Option<Arc<Underway>> {
        let is_new = self.0.underway.lock().insert(id.clone());
        is_new.then(|| Arc::new(Underway { id: id.clone(), session: self.clone() }))
    }

    /// Says whether nobody has used the session for as long as makes it idle.
    fn is_over(&self) -> bool {
        let idle_after = Duration::from_millis(HTTP_SESSION_IDLE_MS);
        // In this order: a use that ends meanwhile has said when before it is none.
        Arc::strong_count(&self.0) == 1 && self.0.last.lock().elapsed() >= idle_after
    }
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
    use super::*;

    #[tokio::test]
    async fn an_id_is_that_of_one_request_at_a_time() {
        let (used, other) = (Used::default(), Used::default());
        let (number, text) = (RequestId::Number(1), RequestId::String("1".into()));
        let first = used.begin(&number).unwrap();
        let copy = Arc::clone(&first);
        drop(first);
        assert!(used.begin(&number).is_none());
        assert!(used.begin(&text).is_some() && other.begin(&number).is_some());
        drop(copy);
        assert!(used.begin(&number).is_some());
    }
}
