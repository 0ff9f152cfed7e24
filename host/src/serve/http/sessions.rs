//! One agent's sessions of the older MCP revisions: how many there are, and which of them nobody uses.
//!
//! rmcp would end a session that says nothing for a while together with the call that waits in it for a person.
//! Here one is idle only while no request of it is under way and nobody listens to it. Idle ones end when their
//! agent begins a session or names one: until then they take a place and do nothing. Deliberately absent: what is
//! said in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::limits::{HTTP_SESSION_IDLE_MS, HTTP_SESSION_MESSAGES_MAX};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::{Duration, Instant};

use crate::serve::mcp::SessionEnd;

/// All of them.
pub(super) struct McpSessions {
    manager: Arc<LocalSessionManager>,
    /// What is known about each, by its id.
    known: Mutex<BTreeMap<String, (SessionEnd, Used)>>,
}

/// That a session is used, as long as there is a copy of this beside the one that is kept here. When a copy goes, the
/// session was used last.
#[derive(Debug, Clone)]
pub(super) struct Used(Arc<Mutex<Instant>>);

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
            known.retain(|id, _| open.contains_key(id.as_str()));
            for id in open.keys() {
                known.entry(id.to_string()).or_default();
            }
            let idle = known.extract_if(.., |_, (_, used)| used.is_over());
            idle.filter_map(|(id, _)| open.remove(id.as_str())).collect()
        };
        let left = open.len();
        drop(open);
        for session in idle {
            // One that has ended by itself is gone as well.
            let _ = session.close().await;
        }
        left
    }

    /// Uses the session `id`, where there is one, and returns its end.
    pub(super) async fn take_up(&self, id: &str) -> Option<(SessionEnd, Used)> {
        self.end_idle().await;
        self.known.lock().get(id).cloned()
    }
}

impl Used {
    /// Says whether nobody has used the session for as long as makes it idle.
    fn is_over(&self) -> bool {
        let idle_after = Duration::from_millis(HTTP_SESSION_IDLE_MS);
        // In this order: a use that ends meanwhile has said when before it is none.
        Arc::strong_count(&self.0) == 1 && self.0.lock().elapsed() >= idle_after
    }
}

impl Default for Used {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        *self.0.lock() = Instant::now();
    }
}
