//! The one reader and the one writer of a line connection.
//!
//! Each line is read once, bounded and strict, and goes to exactly one dialect: `claw.*` to the
//! Claw Kernel Protocol, everything else to MCP, so that one client may speak both. Each answer
//! is one write with its newline. Every request that is accepted is answered, even when the input
//! ends right behind it, as long as somebody reads.
//!
//! Deliberately absent: what the methods mean, and any memory that grows with what a client sends
//! without reading: requests, their bytes and unread answers are all counted.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use clawhost_core::limits::{CLAW_NOTICES_MAX, MESSAGE_BYTES_MAX};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::serve_server_with_ct;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Shutdown;
use super::calls::{Calls, host_failed};
use super::ckp::{Answer, Authority, ClawSession, Notice};
use super::connection::{Connection, Outgoing, Output, poll_out};
use super::direct::Direct;
use super::lane::{self, Inbound, Lane};
use super::mcp::{McpServer, is_unknown};
use super::message::{self, About, Fault, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND};
use crate::host::Principal;
use crate::lines::{Line, Lines};

/// Messages between the reader and MCP: enough to never wait, little enough to hold nothing.
const INBOUND_QUEUE_MAX: usize = 16;

/// Serves one connection until its input ends and everything accepted is answered, its output
/// breaks, or it is told to shut down and the grace is over. Behind the end of the input calls end at
/// once where nobody reads the answers, which `unread` tells. Says whether it ever heard a line.
pub(crate) async fn serve_lines<C, R, W>(
    calls: C,
    principal: Principal,
    (input, output): (R, W),
    unread: impl Future<Output = ()> + Send + 'static,
    shutdown: Shutdown,
) -> bool
where
    C: Calls,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let output: Output = Arc::new(parking_lot::Mutex::new(output));
    let (connection, outgoing) = Connection::new(Some(Arc::clone(&output)));
    let connection = Arc::new(connection);
    let (to_mcp, inbound) = mpsc::channel(INBOUND_QUEUE_MAX);
    // Whatever ends this function ends the tasks around it.
    let _end = connection.broken().clone().drop_guard();
    let writer = tokio::spawn(write_all(output, outgoing, Arc::clone(&connection)));
    let (notices, unasked) = mpsc::channel(CLAW_NOTICES_MAX);
    let notifier = tokio::spawn(notify_all(unasked, Arc::clone(&connection)));
    // Whoever started this process with pipes is its operator too.
    let session = ClawSession::new(calls.clone(), principal.clone(), Authority::Operator, notices);
    let direct = Direct::new();
    let dialects = Dialects {
        connection: Arc::clone(&connection),
        session: session.clone(),
        direct: direct.clone(),
        to_mcp,
    };
    let reader = tokio::spawn({
        let (calls, principal, shutdown) = (calls.clone(), principal.clone(), shutdown.clone());
        let broken = connection.broken().clone();
        async move {
            read_all(input, dialects, shutdown.told).await;
            let withdrawn = async {
                sleep(shutdown.grace).await;
                // Who is gone cannot be told what a person said: nobody is asked any longer.
                calls.services().approvals.leave(&principal.0);
            };
            tokio::join!(withdrawn, async {
                unread.await;
                broken.cancel();
            });
        }
    });
    let grace = tokio::spawn(end_after_grace(shutdown, connection.broken().clone()));

    let inbound = Arc::new(Mutex::new(inbound));
    serve_mcp(&calls, &principal, &connection, &inbound, &direct).await;

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
    direct: &Direct<C>,
) {
    let ended = async || {
        let inbound = inbound.lock().await;
        connection.broken().is_cancelled() || (inbound.is_closed() && inbound.is_empty())
    };
    while !ended().await {
        let ends = (connection.closing().clone(), connection.broken().clone());
        let server = Arc::new(McpServer::new(calls.clone(), principal.clone(), ends));
        let lane = Lane::new(Arc::clone(connection), inbound.clone());
        let token = connection.broken().child_token();
        match serve_server_with_ct(Arc::clone(&server), lane, token).await {
            Err(error) => debug!(%error, "no session yet"),
            Ok(session) => {
                direct.open(server, session.peer().clone());
                let ending = session.waiting().await;
                direct.close();
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

/// Writes what was not written at once until told to stop or the output breaks.
async fn write_all(
    output: Output,
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
        let Some(Outgoing::Line { text, bytes, written }) = next else {
            return;
        };
        let sent = tokio::select! {
            biased;
            sent = send(&output, &text) => sent,
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

async fn send(output: &Output, mut line: &[u8]) -> std::io::Result<()> {
    poll_fn(|cx| poll_out(&mut *output.lock(), cx, &mut line)).await
}

/// Sends what answers nothing, each when the one before is out.
async fn notify_all(mut unasked: mpsc::Receiver<Notice>, connection: Arc<Connection>) {
    while let Some(notice) = unasked.recv().await {
        let Notice { text, .. } = notice;
        if connection.queue(text.into_bytes()).await.is_err() {
            return;
        }
    }
}

/// Where lines go. Dropping it is how MCP learns that the input has ended.
struct Dialects<C> {
    connection: Arc<Connection>,
    session: ClawSession<C>,
    direct: Direct<C>,
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
    // Entered once for all lines.
    let mut stopped = pin!(shutdown.cancelled());
    let mut broken = pin!(connection.broken().cancelled());
    loop {
        let line = tokio::select! {
            biased;
            () = &mut stopped => return,
            () = &mut broken => return,
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
            Line::TooLong(..) => {
                let text =
                    format!("a message may have {MESSAGE_BYTES_MAX} bytes; this one was skipped");
                connection.refuse(&Fault::new(INVALID_REQUEST, text));
            }
            Line::Text(text) if text.trim_ascii().is_empty() => {}
            Line::Text(text) => {
                let is_last = lines.reader().buffer().is_empty();
                dialects.take(&text, is_last).await;
            }
        }
    }
}

impl<C: Calls> Dialects<C> {
    /// Takes one message, behind which no other waits if it `is_last`.
    async fn take(&self, text: &[u8], is_last: bool) {
        match message::read(text) {
            Err(refusal) => self.refuse(refusal).await,
            Ok(Incoming::Request { id, method, value }) => {
                if self.connection.register(&id, &method, text.len()).is_none() {
                    return;
                }
                if message::is_ckp(&method) {
                    self.answer(id, &method, value.get("params"));
                } else {
                    self.pass_on(id, &method, &value, is_last).await;
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

    /// Answers what is no message, where somebody waits for a word about it. Whoever waits for the reply that it would
    /// be hears that there is none.
    async fn refuse(&self, refusal: Fault) {
        let id = match refusal.about {
            About::Request => return self.connection.refuse(&refusal),
            About::Notification => return,
            About::Reply => refusal.id,
        };
        if id.as_ref().is_some_and(|id| self.connection.answered(id)) {
            let error = ErrorData::new(ErrorCode(refusal.code), refusal.message, None);
            // Without MCP the connection has ended.
            let _ = self.to_mcp.send(JsonRpcMessage::error(error, id)).await;
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
    async fn pass_on(&self, id: RequestId, method: &str, value: &Value, is_last: bool) {
        if let Some((answer, cancels)) = self.direct.call(&id, value) {
            self.connection.on_cancel(&id, cancels);
            return self.carry_out(id, answer, is_last).await;
        }
        let message = match message::mcp(&id, method, value) {
            Ok(message) => message,
            Err(refusal) => return self.connection.answer(&refusal),
        };
        // Before a session has begun the library would miss in it what the stateless revision's requests have.
        if is_unknown(method, &message) {
            return self.connection.answer(&Fault::new(METHOD_NOT_FOUND, "unknown method").to(id));
        }
        if self.connection.begins(&id) == Some(true) {
            let _ = self.to_mcp.send(message).await;
            return;
        }
        let (connection, to_mcp) = (Arc::clone(&self.connection), self.to_mcp.clone());
        tokio::spawn(async move {
            if !connection.may_begin(&id).await {
                return;
            }
            // Without MCP the connection has ended.
            let Ok(place) = to_mcp.reserve().await else { return };
            connection.while_open(&id, || place.send(message));
        });
    }

    /// Carries a call out: here for its first turn, where no other line waits meanwhile, which is all of it
    /// for most; and then in a task of its own.
    async fn carry_out(
        &self,
        id: RequestId,
        answer: BoxFuture<'static, ServerJsonRpcMessage>,
        is_last: bool,
    ) {
        let begins = self.connection.begins(&id);
        let connection = Arc::clone(&self.connection);
        let mut work = Box::pin(async move {
            if begins != Some(true) && !connection.may_begin(&id).await {
                return;
            }
            // A defect that panics ends neither the connection nor its reader.
            match AssertUnwindSafe(answer).catch_unwind().await {
                // Nobody waits for the answer to a call that was cancelled.
                Ok(answer) => drop(lane::queue(&connection, &answer)),
                Err(_) => connection.answer(&Fault::from(host_failed()).to(id)),
            }
        });
        let is_done = |cx: &mut Context<'_>| Poll::Ready(work.as_mut().poll(cx).is_ready());
        if !is_last || !poll_fn(is_done).await {
            tokio::spawn(work);
        }
    }
}
