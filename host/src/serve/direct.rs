//! Calls of tools that go to their handler at once, and not through the loop of a session.
//!
//! On that way a call passes four tasks, and each step may wake another core, which costs more than the call. What
//! serves is the same: rmcp's own handler with rmcp's own checks. Deliberately absent: other methods, and
//! requests that say their revision themselves, which are not of a session.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, Service as _};
use serde::Deserialize as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::mcp::McpServer;

type Session<C> = (Arc<McpServer<C>>, Peer<RoleServer>);

/// The session of one connection, as long as there is one.
#[derive(Clone)]
pub(super) struct Direct<C>(Arc<Mutex<Option<Session<C>>>>);

impl<C: Calls> Direct<C> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Lets calls go to `server`, where its session began with a handshake.
    pub(super) fn open(&self, server: Arc<McpServer<C>>, peer: Peer<RoleServer>) {
        *self.0.lock() = peer.peer_info().is_some().then_some((server, peer));
    }

    /// Lets no more calls through: the session has ended.
    pub(super) fn close(&self) {
        self.0.lock().take();
    }

    /// Returns what answers the request `id` and what cancels it; nothing where it has to go to the session.
    pub(super) fn call(
        &self,
        id: &RequestId,
        message: &Value,
    ) -> Option<(BoxFuture<'static, ServerJsonRpcMessage>, CancellationToken)> {
        let (server, peer) = self.0.lock().clone()?;
        let request = CallToolRequest::deserialize(message).ok()?;
        let mut request = ClientRequest::CallToolRequest(request);
        let id = id.clone();
        let mut context = RequestContext::new(id.clone(), peer);
        std::mem::swap(&mut context.meta, request.get_meta_mut());
        std::mem::swap(&mut context.extensions, request.extensions_mut());
        if context.meta.protocol_version().is_some() {
            return None;
        }
        let cancels = context.ct.clone();
        // On the heap at once: it is large, and is handed on more than once before it begins.
        let answer: BoxFuture<'static, _> = Box::pin(async move {
            match server.handle_request(request, context).await {
                Ok(result) => JsonRpcMessage::response(result, id),
                Err(error) => JsonRpcMessage::error(error, Some(id)),
            }
        });
        Some((answer, cancels))
    }
}
