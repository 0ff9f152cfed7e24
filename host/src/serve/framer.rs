//! The one reader and the one writer of a line connection.
//!
//! Each line is read once, bounded and strict, and goes to exactly one dialect: `claw.*` to the
//! Claw Kernel Protocol, everything else to MCP, so that one client may speak both. Each answer
//! is one write with its newline. Every request that is accepted is answered, even when the input
//! ends right behind it.
//!
//! Deliberately absent: what the methods mean, and any memory that grows with what a client sends
//! without reading: requests, their bytes and unread answers are all counted.

use std::sync::Arc;

use clawhost_core::limits::{CLAW_NOTICES_MAX, MESSAGE_BYTES_MAX};
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use rmcp::service::serve_server_with_ct;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Shutdown;
use super::calls::Calls;
use super::ckp::{Answer, Authority, Session};
use super::connection::{Connection, Outgoing};
use super::lane::{Inbound, Lane};
use super::mcp::McpServer;
use super::message::{self, Fault, INVALID_REQUEST, Incoming};
use crate::host::Principal;
use crate::lines::{Line, Lines};

/// Messages between the reader and MCP: enough to never wait, little enough to hold nothing.
const INBOUND_QUEUE_MAX: usize = 16;

/// Serves one connection until its input ends and everything accepted is answered, its output
/// breaks, or it is told to shut down and the grace is over. Says whether it ever heard a line.
pub(crate) async fn serve_lines<C, R, W>(
    calls: C,
    principal: Principal,
    (input, output): (R, W),
    shutdown: Shutdown,
) -> bool
where
    C: Calls,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (connection, outgoing) = Connection::new();
    let connection = Arc::new(connection);
    let (to_mcp, inbound) = mpsc::channel(INBOUND_QUEUE_MAX);
    // Whatever ends this function ends the tasks around it.
    let _end = connection.broken().clone().drop_guard();
    let writer = tokio::spawn(write_all(output, outgoing, Arc::clone(&connection)));
    let (notices, unasked) = mpsc::channel(CLAW_NOTICES_MAX);
    let notifier = tokio::spawn(notify_all(unasked, Arc::clone(&connection)));
    // Whoever started this process with pipes is its operator too.
    let session = Session::new(calls.clone(), principal.clone(), Authority::Operator, notices);
    let dialects =
        Dialects { connection: Arc::clone(&connection), session: session.clone(), to_mcp };
    let reader = tokio::spawn({
        let (calls, principal, shutdown) = (calls.clone(), principal.clone(), shutdown.clone());
        async move {
            read_all(input, dialects, shutdown.told).await;
            // Who is gone cannot be told what a person said: nobody is asked any longer.
            sleep(shutdown.grace).await;
            calls.services().approvals.leave(&principal.0);
        }
    });
    let grace = tokio::spawn(end_after_grace(shutdown, connection.broken().clone()));

    serve_mcp(&calls, &principal, &connection, &Arc::new(Mutex::new(inbound))).await;

    grace.abort();
    reader.abort();
    notifier.abort();
    session.end();
    drop(session);
    connection.end();
    if let Err(error) = writer.await {
        debug!(%error, "the writer did not end well");
    }
    connection.heard()
}

/// Serves MCP again and again over the same lines: a client whose first message is out of order
/// ends the session it tried to begin, and nothing else.
async fn serve_mcp<C: Calls>(
    calls: &C,
    principal: &Principal,
    connection: &Arc<Connection>,
    inbound: &Inbound,
) {
    let ended = async || {
        let inbound = inbound.lock().await;
        connection.broken().is_cancelled() || (inbound.is_closed() && inbound.is_empty())
    };
    while !ended().await {
        let ends = (connection.closing().clone(), connection.broken().clone());
        let server = McpServer::new(calls.clone(), principal.clone(), ends);
        let lane = Lane::new(Arc::clone(connection), inbound.clone());
        let token = connection.broken().child_token();
        match serve_server_with_ct(server, lane, token).await {
            Err(error) => debug!(%error, "no session yet"),
            Ok(session) => {
                let ending = session.waiting().await;
                debug!(?ending, "the session ended");
            }
        }
    }
    // What the other dialect accepted is answered too.
    connection.idle().await;
}

async fn end_after_grace(shutdown: Shutdown, broken: CancellationToken) {
    shutdown.told.cancelled().await;
    sleep(shutdown.grace).await;
    broken.cancel();
}

/// Writes answers, each in one piece, until told to stop or the output breaks.
async fn write_all<W: AsyncWrite + Unpin>(
    mut output: W,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    connection: Arc<Connection>,
) {
    let broken = connection.broken();
    loop {
        let next = tokio::select! {
            biased;
            next = outgoing.recv() => next,
            () = broken.cancelled() => return,
        };
        let Some(Outgoing::Line { mut text, written }) = next else {
            return;
        };
        let bytes = text.len();
        text.push(b'\n');
        let sent = tokio::select! {
            biased;
            sent = send(&mut output, &text) => sent,
            // The grace is over, and nobody reads.
            () = broken.cancelled() => return,
        };
        if let Err(error) = sent {
            debug!(%error, "the output is closed");
            broken.cancel();
            return;
        }
        connection.written(bytes);
        // Where nobody waits any more the line is out all the same.
        let _ = written.send(());
    }
}

async fn send<W: AsyncWrite + Unpin>(output: &mut W, line: &[u8]) -> std::io::Result<()> {
    output.write_all(line).await?;
    output.flush().await
}

/// Sends what answers nothing, each when the one before is out.
async fn notify_all(mut unasked: mpsc::Receiver<Value>, connection: Arc<Connection>) {
    while let Some(notice) = unasked.recv().await {
        let text = serde_json::to_vec(&notice).unwrap_or_default();
        if connection.notify(text).await.is_err() {
            return;
        }
    }
}

/// Where lines go. Dropping it is how MCP learns that the input has ended.
struct Dialects<C> {
    connection: Arc<Connection>,
    session: Session<C>,
    to_mcp: mpsc::Sender<ClientJsonRpcMessage>,
}

/// Reads lines until the input ends.
async fn read_all<C: Calls, R: AsyncRead + Unpin>(
    input: R,
    dialects: Dialects<C>,
    shutdown: CancellationToken,
) {
    let connection = &dialects.connection;
    let mut lines = Lines::new(BufReader::new(input), MESSAGE_BYTES_MAX);
    loop {
        let line = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = connection.broken().cancelled() => return,
            line = lines.next() => line,
        };
        let line = match line {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => return debug!(%error, "the input cannot be read"),
        };
        connection.hear();
        // Waits while too many answers are unread: a client that does not read is not read.
        if !connection.may_read().await {
            return;
        }
        match line {
            Line::TooLong => {
                let text =
                    format!("a message may have {MESSAGE_BYTES_MAX} bytes; this one was skipped");
                connection.refuse(&Fault::new(INVALID_REQUEST, text));
            }
            Line::Text(text) if text.trim_ascii().is_empty() => {}
            Line::Text(text) => dialects.take(&text).await,
        }
    }
}

impl<C: Calls> Dialects<C> {
    /// Takes one message.
    async fn take(&self, text: &[u8]) {
        match message::read(text) {
            Err(refusal) => self.connection.refuse(&refusal),
            Ok(Incoming::Request { id, method, value }) => {
                if self.connection.register(&id, &method, text.len()).is_none() {
                    return;
                }
                if message::is_ckp(&method) {
                    self.answer(id, &method, value.get("params"));
                } else {
                    self.pass_on(id, value).await;
                }
            }
            Ok(Incoming::Notification { method, value }) if message::is_ckp(&method) => {
                self.session.notification(&method, value.get("params"));
            }
            Ok(incoming) if self.is_wanted(&incoming) => {
                // One that cannot be read is ignored, as JSON-RPC has it.
                if let Ok(message) = serde_json::from_value(incoming.into_value()) {
                    // Without MCP the connection has ended.
                    let _ = self.to_mcp.send(message).await;
                }
            }
            Ok(_) => {}
        }
    }

    /// Says whether a notification or a reply means something to MCP.
    fn is_wanted(&self, incoming: &Incoming) -> bool {
        match incoming {
            Incoming::Notification { method, value } if method == "notifications/cancelled" => {
                let id = value.pointer("/params/requestId").and_then(message::request_id);
                id.is_some_and(|id| self.connection.cancel(&id))
            }
            Incoming::Reply { id, .. } => {
                id.as_ref().is_some_and(|id| self.connection.answered(id))
            }
            other => other.method() == "notifications/initialized",
        }
    }

    /// Has the session of the Claw Kernel Protocol answer a request.
    fn answer(&self, id: RequestId, method: &str, params: Option<&Value>) {
        let work = match self.session.request(method, params) {
            Answer::Now(outcome) => {
                return drop(self.connection.reply(&id, message::line(&id, outcome)));
            }
            Answer::Later(work) => work,
        };
        let connection = Arc::clone(&self.connection);
        tokio::spawn(async move {
            if !connection.may_begin(&id).await {
                return;
            }
            let (outcome, place) = tokio::select! {
                biased;
                () = connection.broken().cancelled() => return,
                done = work => done,
            };
            drop(connection.reply(&id, message::line(&id, outcome)));
            // A shutdown that waits for this request is answered behind it.
            drop(place);
        });
    }

    /// Hands a request to MCP, when there is room for its answer. Meanwhile lines are read: one of
    /// them may be what makes room.
    async fn pass_on(&self, id: RequestId, value: Value) {
        let Ok(message) = serde_json::from_value(value) else {
            let text = "this is no request that clawhost understands";
            return self.connection.answer(&Fault::new(INVALID_REQUEST, text).to(id));
        };
        if self.connection.begins(&id) == Some(true) {
            let _ = self.to_mcp.send(message).await;
            return;
        }
        let (connection, to_mcp) = (Arc::clone(&self.connection), self.to_mcp.clone());
        tokio::spawn(async move {
            if connection.may_begin(&id).await {
                let _ = to_mcp.send(message).await;
            }
        });
    }
}
