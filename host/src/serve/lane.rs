//! The way between the framer and rmcp: whole messages, no bytes.
//!
//! A lane can be opened again and again over the same input. Deliberately absent: framing, and any
//! answer of its own.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::connection::Connection;
use super::message::{Fault, INTERNAL_ERROR};

/// The messages of one connection, for one lane after the other.
#[derive(Debug, Clone)]
pub(crate) struct Inbound {
    messages: Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    ended: Arc<AtomicBool>,
}

impl Inbound {
    /// Returns the inbound side over what the reader sends.
    pub(crate) fn new(messages: mpsc::Receiver<ClientJsonRpcMessage>) -> Self {
        Self { messages: Arc::new(Mutex::new(messages)), ended: Arc::default() }
    }

    /// Says whether a lane has seen the end of the input.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns the next message. Cancel safe.
    async fn next(&self) -> Option<ClientJsonRpcMessage> {
        let message = self.messages.lock().await.recv().await;
        if message.is_none() {
            self.ended.store(true, Ordering::Release);
        }
        message
    }
}

/// The output is gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
pub(crate) struct LaneClosed;

/// One session's transport.
#[derive(Debug)]
pub(crate) struct Lane {
    connection: Arc<Connection>,
    inbound: Inbound,
}

impl Lane {
    /// Returns a lane that takes up where the one before ended.
    pub(crate) const fn new(connection: Arc<Connection>, inbound: Inbound) -> Self {
        Self { connection, inbound }
    }

    /// Queues a message now, so that the order of calls is the order on the wire.
    fn queue(&self, message: &ServerJsonRpcMessage) -> Option<oneshot::Receiver<()>> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => Some(error.id.as_ref()?),
            JsonRpcMessage::Notification(_) => None,
            JsonRpcMessage::Request(request) => {
                let text = serde_json::to_vec(message).ok()?;
                return Some(self.connection.ask(&request.id, text));
            }
        };
        let text = serde_json::to_vec(message);
        match (id, text) {
            (Some(id), Ok(text)) => self.connection.reply(id, text),
            (Some(id), Err(_)) => {
                let fault = Fault::new(INTERNAL_ERROR, "the answer has no JSON");
                self.connection.reply(id, fault.to(id.clone()).to_line())
            }
            (None, Ok(text)) => Some(self.connection.notify(text)),
            (None, Err(_)) => None,
        }
    }
}

impl Transport<RoleServer> for Lane {
    type Error = LaneClosed;

    fn name() -> Cow<'static, str> {
        "line".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), LaneClosed>> + Send + 'static {
        let written = self.queue(&message);
        async move {
            match written {
                None => Ok(()),
                Some(written) => written.await.map_err(|_| LaneClosed),
            }
        }
    }

    /// Returns the next message. At the end of the input it first lets every call finish, then
    /// ends the subscriptions; rmcp would give the calls a fixed time only.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(message) = self.inbound.next().await {
            return Some(message);
        }
        self.connection.idle().await;
        self.connection.closing().cancel();
        None
    }

    async fn close(&mut self) -> Result<(), LaneClosed> {
        Ok(())
    }
}
