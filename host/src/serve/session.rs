//! What the host itself knows of an MCP session over HTTP, beside what the protocol library does: its end, the way
//! to its client, and the calls in it that went to their handler at once.
//!
//! Deliberately absent: beginning a session, which is the library's.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clawhost_core::limits::HTTP_SESSION_TOUCH_MS;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::RequestId;
use rmcp::service::Peer;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionHandle, LocalSessionManager,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The sessions of one agent.
pub(super) struct HttpSessions {
    library: Arc<LocalSessionManager>,
    known: Mutex<BTreeMap<String, HttpSession>>,
}

/// One session, which the transport puts into the extensions of its requests.
#[derive(Debug, Clone)]
pub(super) struct HttpSession(Arc<State>);

#[derive(Debug)]
struct State {
    end: CancellationToken,
    handle: LocalSessionHandle,
    /// What cancels the calls that the library does not know, by the ids of their requests.
    open: Mutex<HashMap<RequestId, CancellationToken>>,
    peer: OnceLock<Peer<RoleServer>>,
    /// When the library last heard that it is used.
    touched: Mutex<Instant>,
}

/// A call that the library does not know, until it is dropped.
pub(super) struct OpenCall {
    id: RequestId,
    session: HttpSession,
    /// Cancelled when the client cancels it, or the session ends.
    pub(super) cancels: CancellationToken,
}

impl HttpSessions {
    /// Returns an agent's sessions, which are those of `library`.
    pub(super) fn new(library: Arc<LocalSessionManager>) -> Self {
        Self { library, known: Mutex::default() }
    }

    /// Returns the session `id`, where there is one.
    pub(super) async fn find(&self, id: &str) -> Option<HttpSession> {
        let open = self.library.sessions.read().await;
        let handle = open.get(id)?;
        let mut known = self.known.lock();
        if let Some(session) = known.get(id) {
            return Some(session.clone());
        }
        // Those that ended by themselves are forgotten when another begins, so that no request walks over all.
        known.retain(|id, _| open.contains_key(id.as_str()));
        let session = HttpSession::new(handle.clone());
        Some(known.entry(id.to_owned()).or_insert(session).clone())
    }

    /// Ends what still waits in a session that its client has ended.
    pub(super) fn end(&self, id: &str) {
        if let Some(session) = self.known.lock().remove(id) {
            session.0.end.cancel();
        }
    }

    /// Returns how many there are.
    pub(super) async fn count(&self) -> usize {
        self.library.sessions.read().await.len()
    }
}

impl HttpSession {
    fn new(handle: LocalSessionHandle) -> Self {
        let (end, open, peer) = Default::default();
        Self(Arc::new(State { end, handle, open, peer, touched: Mutex::new(Instant::now()) }))
    }

    /// Cancelled when it ends.
    pub(super) fn end(&self) -> &CancellationToken {
        &self.0.end
    }

    /// Notes that its client is ready, and the way to it.
    pub(super) fn ready(&self, peer: Peer<RoleServer>) {
        // One that says so again is the same one.
        let _ = self.0.peer.set(peer);
    }

    /// Returns the way to its client, once that is ready and as long as the session lasts.
    pub(super) fn peer(&self) -> Option<Peer<RoleServer>> {
        self.0.peer.get().filter(|peer| !peer.is_transport_closed()).cloned()
    }

    /// Says whether the request `id` is a call that still runs, of those that the library does not know.
    pub(super) fn has_open(&self, id: &RequestId) -> bool {
        self.0.open.lock().contains_key(id)
    }

    /// Notes that the request `id` is a call that runs; nothing where there is one already.
    pub(super) fn open(&self, id: &RequestId) -> Option<OpenCall> {
        let mut open = self.0.open.lock();
        if open.contains_key(id) {
            return None;
        }
        let cancels = self.0.end.child_token();
        open.insert(id.clone(), cancels.clone());
        Some(OpenCall { id: id.clone(), session: self.clone(), cancels })
    }

    /// Cancels the call whose request is `id`, where the library does not know it.
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(cancels) = self.0.open.lock().get(id) {
            cancels.cancel();
        }
    }

    /// Has the library know, now and then, that the session is used: it ends idle ones.
    fn touch(&self) {
        let mut touched = self.0.touched.lock();
        if touched.elapsed() < Duration::from_millis(HTTP_SESSION_TOUCH_MS) {
            return;
        }
        *touched = Instant::now();
        let handle = self.0.handle.clone();
        // A word that changes nothing: it closes a stream that there is not. One that has ended needs none.
        tokio::spawn(async move { handle.close_request_wise_channel(u64::MAX).await.ok() });
    }
}

impl OpenCall {
    /// Notes that the session is used.
    pub(super) fn touch(&self) {
        self.session.touch();
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.session.0.open.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::transport::streamable_http_server::SessionManager as _;

    use super::*;

    #[tokio::test]
    async fn what_ended_by_itself_is_forgotten_when_another_begins_and_not_at_each_request() {
        let library = Arc::new(LocalSessionManager::default());
        let sessions = HttpSessions::new(Arc::clone(&library));
        let mut begun = Vec::new();
        for _ in 0..3 {
            begun.push(library.create_session().await.unwrap());
        }
        let [(first, _), (second, _), (third, _)] = &begun[..] else { unreachable!() };
        let one = sessions.find(first).await.unwrap();
        sessions.find(second).await.unwrap();
        library.close_session(second).await.unwrap();
        assert!(sessions.find(second).await.is_none());
        assert!(Arc::ptr_eq(&one.0, &sessions.find(first).await.unwrap().0));
        assert_eq!(sessions.known.lock().len(), 2, "a request looks at its own session only");
        sessions.find(third).await.unwrap();
        let known: Vec<_> = sessions.known.lock().keys().cloned().collect();
        assert!(known.len() == 2 && !known.iter().any(|id| **id == **second), "{known:?}");
        assert!(sessions.find("nobody's").await.is_none());
    }

    #[tokio::test]
    async fn an_id_is_one_call_s_until_that_ends_and_the_end_of_the_session_cancels_it() {
        let library = Arc::new(LocalSessionManager::default());
        let sessions = HttpSessions::new(Arc::clone(&library));
        let (id, _transport) = library.create_session().await.unwrap();
        let session = sessions.find(&id).await.unwrap();
        let (seven, eight) = (RequestId::Number(7), RequestId::Number(8));
        let call = session.open(&seven).unwrap();
        assert!(session.open(&seven).is_none() && session.has_open(&seven));
        drop(call);
        let (seven, other) = (session.open(&seven).unwrap(), session.open(&eight).unwrap());
        session.cancel(&eight);
        assert!(other.cancels.is_cancelled() && !seven.cancels.is_cancelled());
        sessions.end(&id);
        assert!(seven.cancels.is_cancelled() && session.end().is_cancelled());
    }
}
