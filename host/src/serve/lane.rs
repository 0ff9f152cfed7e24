//! The way between the framer and rmcp: whole messages, no bytes.
//!
//! A lane can be opened again and again over the same input. Deliberately absent: framing, and any
//! answer of its own.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::connection::Connection;
use super::message::{Fault, INTERNAL_ERROR};

/// The messages of one connection, for one lane after the other.
pub(crate) type Inbound = Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>;

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
}

/// Queues a message now, so that the order of calls is the order on the wire.
pub(super) fn queue(
    connection: &Connection,
    message: &ServerJsonRpcMessage,
) -> Option<oneshot::Receiver<()>> {
    let text = serde_json::to_vec(message);
    let id = match message {
        JsonRpcMessage::Response(response) => &response.id,
        JsonRpcMessage::Error(error) => error.id.as_ref()?,
        JsonRpcMessage::Notification(_) => return Some(connection.queue(text.ok()?)),
        JsonRpcMessage::Request(request) => {
            return Some(connection.ask(&request.id, text.ok()?));
        }
    };
    let text = text.unwrap_or_else(|_| {
        Fault::new(INTERNAL_ERROR, "the answer has no JSON").to(id.clone()).to_line()
    });
    connection.reply(id, text)
}

impl Transport<RoleServer> for Lane {
    /// The output is gone.
    type Error = RecvError;

    fn name() -> Cow<'static, str> {
        "line".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), RecvError>> + Send + 'static {
        let written = queue(&self.connection, &message);
        async move {
            match written {
                None => Ok(()),
                Some(written) => written.await,
            }
        }
    }

    /// Returns the next message. At the end of the input it first lets every call finish, then
    /// ends the subscriptions; rmcp would give the calls a fixed time only.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.inbound.lock().await.recv().await;
        if message.is_some() {
            return message;
        }
        self.connection.idle().await;
        self.connection.closing().cancel();
        None
    }

    async fn close(&mut self) -> Result<(), RecvError> {
        Ok(())
    }
}
