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

use clawhost_core::limits::{CLAW_NOTICES_MAX, CONNECTION_REQUESTS_MAX, MESSAGE_BYTES_MAX};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::serve_server_with_ct;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Shutdown;
use super::calls::Calls;
use super::ckp::{Answer, Authority, Session};
use super::connection::{Connection, Outgoing};
use super::lane::{Inbound, Lane};
use super::lines::{Line, Lines};
use super::mcp::McpServer;
use super::message::{self, Fault, INVALID_REQUEST, Incoming};
use crate::host::Principal;

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

    serve_mcp(&calls, &principal, &connection, &Inbound::new(inbound)).await;

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
    while !inbound.ended() && !connection.broken().is_cancelled() {
        let server = McpServer::new(calls.clone(), principal.clone(), connection.closing().clone());
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
        let Some(Outgoing::Line { mut text, written, slot }) = next else {
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
        drop(slot);
        if let Some(written) = written {
            // Nobody waits any more: the line is out all the same.
            let _ = written.send(());
        }
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

/// Where lines go.
struct Dialects<C> {
    connection: Arc<Connection>,
    session: Session<C>,
    to_mcp: mpsc::Sender<ClientJsonRpcMessage>,
}

/// Reads lines until the input ends; dropping `to_mcp` is how MCP learns of it.
async fn read_all<C: Calls, R: AsyncRead + Unpin>(
    input: R,
    Dialects { connection, session, to_mcp }: Dialects<C>,
    shutdown: CancellationToken,
) {
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
            Err(error) => {
                debug!(%error, "the input cannot be read");
                return;
            }
        };
        connection.hear();
        // Waits while too many answers are unread: a client that does not read is not read.
        let Some(slot) = connection.answer_slot().await else {
            return;
        };
        let accepted = match &line {
            Line::TooLong => Err(too_long()),
            Line::Text(text) if text.trim_ascii().is_empty() => Ok(None),
            Line::Text(text) => accept(text, &connection),
        };
        match accepted {
            Ok(None) => {}
            Ok(Some(accepted)) if message::is_ckp(accepted.incoming.method()) => {
                answer(accepted, &session, &connection, slot);
            }
            Ok(Some(accepted)) => {
                let Some(message) = admit(accepted, &connection, slot) else {
                    continue;
                };
                if to_mcp.send(message).await.is_err() {
                    return;
                }
            }
            Err(refusal) => connection.refuse(&refusal, slot),
        }
    }
}

fn too_long() -> Fault {
    let text = format!("a message may have {MESSAGE_BYTES_MAX} bytes; this one was skipped");
    Fault::new(INVALID_REQUEST, text)
}

/// A line that is for one of the dialects.
struct Accepted {
    incoming: Incoming,
    bytes: usize,
}

/// Says what a line is: a message for a dialect, one for nobody (then it needs no answer either),
/// or a refusal.
fn accept(text: &[u8], connection: &Connection) -> Result<Option<Accepted>, Fault> {
    let incoming = message::read(text)?;
    match &incoming {
        Incoming::Notification { method, value } => {
            let wanted = match method.as_str() {
                "notifications/cancelled" => cancels(value, connection),
                "notifications/initialized" => true,
                method => message::is_ckp(method),
            };
            Ok(wanted.then_some(Accepted { incoming, bytes: text.len() }))
        }
        Incoming::Reply { id, .. } => {
            let wanted = id.as_ref().is_some_and(|id| connection.answered(id));
            Ok(wanted.then_some(Accepted { incoming, bytes: text.len() }))
        }
        Incoming::Request { .. } => Ok(Some(Accepted { incoming, bytes: text.len() })),
    }
}

fn cancels(value: &Value, connection: &Connection) -> bool {
    let id = value.pointer("/params/requestId").and_then(message::request_id);
    id.is_some_and(|id| connection.cancel(&id))
}

/// Hands a message to the session of the Claw Kernel Protocol, and its answer to the writer.
fn answer<C: Calls>(
    Accepted { incoming, bytes }: Accepted,
    session: &Session<C>,
    connection: &Arc<Connection>,
    slot: OwnedSemaphorePermit,
) {
    let (id, method, value) = match incoming {
        Incoming::Request { id, method, value } => (id, method, value),
        Incoming::Notification { method, value } => {
            return session.notification(&method, value.get("params"));
        }
        Incoming::Reply { .. } => return,
    };
    if connection.register(&id, &method, bytes, slot).is_none() {
        return;
    }
    match session.request(&method, value.get("params")) {
        Answer::Now(outcome) => drop(connection.reply(&id, message::line(&id, outcome))),
        Answer::Later(work) => {
            let connection = Arc::clone(connection);
            tokio::spawn(async move {
                let done = tokio::select! {
                    biased;
                    () = connection.broken().cancelled() => None,
                    done = work => Some(done),
                };
                let Some((outcome, place)) = done else { return };
                drop(connection.reply(&id, message::line(&id, outcome)));
                // A shutdown that waits for this request is answered behind it.
                drop(place);
            });
        }
    }
}

/// Registers a request and returns what MCP shall see; a refused one is answered here.
fn admit(
    Accepted { incoming, bytes }: Accepted,
    connection: &Connection,
    slot: OwnedSemaphorePermit,
) -> Option<ClientJsonRpcMessage> {
    let value = match incoming {
        Incoming::Request { id, method, value } => {
            connection.register(&id, &method, bytes, slot)?;
            let parsed = serde_json::from_value(value);
            if parsed.is_err() {
                let text = format!("this is no request that {CONNECTION_NAME} understands");
                connection.answer(&Fault::new(INVALID_REQUEST, text).to(id));
            }
            return parsed.ok();
        }
        Incoming::Notification { value, .. } | Incoming::Reply { value, .. } => value,
    };
    // One of these that cannot be read is ignored, as JSON-RPC has it.
    serde_json::from_value(value).ok()
}

/// Who answers on this connection.
const CONNECTION_NAME: &str = "clawhost";

/// How many answers may be unread before the reader waits: one for each running request, and as
/// many refusals.
pub(crate) const UNREAD_ANSWERS_MAX: usize = 2 * CONNECTION_REQUESTS_MAX;
