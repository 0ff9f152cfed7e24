//! What is open on one connection: requests without an answer, answers nobody has read.
//!
//! A request is registered before a dialect sees it and forgotten when its answer is queued or it
//! is cancelled, so each gets one answer and no more. It begins when there is room for its answer
//! beside those that are unread and those that are being made, so a client that does not read
//! makes the host hold no more than [`CONNECTION_BYTES_MAX`] of answers: each counts as what its
//! method may answer until it is queued, and then as what it is. Deliberately absent: reading and
//! writing.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};

use clawhost_core::error::{ErrorKind, Limit};
use clawhost_core::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_REQUESTS_MAX, CONNECTION_RESERVE_MAX, MEMORY_ANSWER_BYTES_MAX,
    MESSAGE_BYTES_MAX, REPLY_BYTES_MAX, URGENT_REQUEST_BYTES_MAX,
};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio::io::AsyncWrite;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::message::{Fault, INVALID_REQUEST, is_ckp, is_urgent};
use crate::watched::change;

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Stop: everything worth writing has been queued before this.
    End,
    Line {
        /// What of it is not out, with its newline.
        text: Vec<u8>,
        /// So much it counts while it is unread.
        bytes: usize,
        written: oneshot::Sender<()>,
    },
}

/// What lines are written to, by the writer and, where none waits, at once.
pub(crate) type Output = Arc<Mutex<dyn AsyncWrite + Send + Unpin>>;

/// The open requests and the way out.
pub(crate) struct Connection {
    /// Absent where everything waits for the writer.
    output: Option<Output>,
    /// Lines that the writer has not written whole. One is added under the lock of the output.
    waiting: AtomicUsize,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    answers: watch::Sender<Answers>,
    open: Mutex<Open>,
    /// Ids of this host's own requests without an answer, newest last.
    asked: Mutex<VecDeque<RequestId>>,
    /// Requests that hold up the end of the connection.
    busy: watch::Sender<usize>,
    closing: CancellationToken,
    broken: CancellationToken,
    heard: AtomicBool,
}

/// Bytes of answers.
#[derive(Debug, Default)]
struct Answers {
    /// Of those that wait to be read.
    unread: usize,
    /// Set aside for those that are being made.
    expected: usize,
}

#[derive(Debug, Default)]
struct Open {
    requests: HashMap<RequestId, Request>,
    bytes: usize,
    /// Requests that end by themselves.
    busy: usize,
    /// Ids of cancelled requests, newest last: a late answer must not pass for a new one's.
    cancelled: VecDeque<RequestId>,
}

#[derive(Debug)]
struct Request {
    bytes: usize,
    /// What its answer may have.
    answer_bytes: usize,
    /// So much is set aside for it.
    begun: bool,
    /// Lives as long as the client likes, so the end of the connection does not wait for it.
    endless: bool,
    /// Can be cancelled, which is MCP's: the Claw Kernel Protocol owes each request an answer.
    cancellable: bool,
    /// Is told when it is.
    cancels: Option<CancellationToken>,
}

impl Connection {
    /// Returns a connection and what its writer has to write: what `output` does not take at once.
    pub(crate) fn new(output: Option<Output>) -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        let (outgoing, receiver) = mpsc::unbounded_channel();
        let connection = Self {
            output,
            waiting: AtomicUsize::new(0),
            outgoing,
            answers: watch::Sender::default(),
            open: Mutex::default(),
            asked: Mutex::default(),
            busy: watch::Sender::new(0),
            closing: CancellationToken::new(),
            broken: CancellationToken::new(),
            heard: AtomicBool::new(false),
        };
        (connection, receiver)
    }

    pub(crate) fn hear(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Says whether the client ever sent a line.
    pub(crate) fn heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Cancelled when no more requests come and all but subscriptions are answered.
    pub(crate) const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Cancelled when the output is gone or the time is up: running calls end.
    pub(crate) const fn broken(&self) -> &CancellationToken {
        &self.broken
    }

    /// Waits while too many answers are unread; false when the connection has ended.
    pub(crate) async fn may_read(&self) -> bool {
        let has_room = |answers: &Answers| answers.unread < CONNECTION_BYTES_MAX;
        if has_room(&self.answers.borrow()) {
            return !self.broken.is_cancelled();
        }
        let mut answers = self.answers.subscribe();
        self.broken.run_until_cancelled(answers.wait_for(has_room)).await.is_some()
    }

    /// Counts a line that counted `bytes` as read.
    pub(crate) fn written(&self, bytes: usize) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        change(&self.answers, |answers| answers.unread = answers.unread.saturating_sub(bytes));
    }

    /// Says whether the request `id` may begin, and sets room aside for its answer; nothing where
    /// it has to wait for room.
    pub(crate) fn begins(&self, id: &RequestId) -> Option<bool> {
        let mut open = self.open.lock();
        let Some(request) = open.requests.get_mut(id) else {
            return Some(false);
        };
        // Nobody waits for there to be less room.
        self.answers.send_if_modified(|answers| {
            let held = answers.unread + answers.expected + request.answer_bytes;
            request.begun = request.answer_bytes == 0 || held <= CONNECTION_BYTES_MAX;
            answers.expected += if request.begun { request.answer_bytes } else { 0 };
            false
        });
        request.begun.then_some(true)
    }

    /// Waits until the request `id` may begin; false where it was cancelled meanwhile or the
    /// connection has ended.
    pub(crate) async fn may_begin(&self, id: &RequestId) -> bool {
        let mut answers = self.answers.subscribe();
        loop {
            answers.borrow_and_update();
            if let Some(begins) = self.begins(id) {
                return begins;
            }
            if self.broken.run_until_cancelled(answers.changed()).await.is_none() {
                return false;
            }
        }
    }

    /// Accepts a request, or answers it with a refusal and returns nothing.
    pub(crate) fn register(&self, id: &RequestId, method: &str, bytes: usize) -> Option<()> {
        let mut open = self.open.lock();
        if let Some(refusal) = open.refuses(id, method, bytes) {
            self.refuse(&refusal);
            return None;
        }
        let endless = method == "subscriptions/listen";
        let cancellable = !is_ckp(method);
        open.bytes += bytes;
        open.busy += usize::from(!endless);
        let answer_bytes = answer_bytes(method);
        let (begun, cancels) = (false, None);
        let request = Request { bytes, answer_bytes, begun, endless, cancellable, cancels };
        open.requests.insert(id.clone(), request);
        self.count(&open);
        Some(())
    }

    /// Does something for the request `id`, unless it was cancelled; nobody cancels it meanwhile, so that what is
    /// said of that comes later.
    pub(crate) fn while_open(&self, id: &RequestId, act: impl FnOnce()) {
        let open = self.open.lock();
        if open.requests.contains_key(id) {
            act();
        }
    }

    /// Cancels `token` when the request `id` is.
    pub(crate) fn on_cancel(&self, id: &RequestId, token: CancellationToken) {
        if let Some(request) = self.open.lock().requests.get_mut(id) {
            request.cancels = Some(token);
        }
    }

    /// Forgets a request that its client has cancelled; says whether there was one.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let mut open = self.open.lock();
        if open.requests.get(id).is_some_and(|request| !request.cancellable) {
            return false;
        }
        let found = open.close(id);
        if let Some(request) = &found {
            request.cancels.iter().for_each(CancellationToken::cancel);
            self.made(request);
            remember(&mut open.cancelled, id);
            self.count(&open);
        }
        found.is_some()
    }

    /// Queues the answer to an open request. Returns a receiver that hears when it is written, or
    /// nothing where the request has been cancelled or answered.
    pub(crate) fn reply(&self, id: &RequestId, text: Vec<u8>) -> Option<oneshot::Receiver<()>> {
        let mut open = self.open.lock();
        let request = open.close(id)?;
        self.made(&request);
        // Queued under the lock: once nothing is open, everything is queued.
        let receiver = self.queue(text);
        self.count(&open);
        Some(receiver)
    }

    /// Queues a request of this host's own.
    pub(crate) fn ask(&self, id: &RequestId, text: Vec<u8>) -> oneshot::Receiver<()> {
        let mut asked = self.asked.lock();
        // One that was withdrawn may never be answered.
        remember(&mut asked, id);
        self.queue(text)
    }

    /// Says whether an answer belongs to a request of this host's own, each of which has one.
    pub(crate) fn answered(&self, id: &RequestId) -> bool {
        let mut asked = self.asked.lock();
        let place = asked.iter().position(|other| other == id);
        place.and_then(|place| asked.remove(place)).is_some()
    }

    /// Answers an open request with a refusal.
    pub(crate) fn answer(&self, refusal: &Fault) {
        if let Some(id) = &refusal.id {
            drop(self.reply(id, refusal.to_line()));
        }
    }

    /// Answers a message that is no open request.
    pub(crate) fn refuse(&self, refusal: &Fault) {
        drop(self.queue(refusal.to_line()));
    }

    /// Waits until every request but subscriptions is answered.
    pub(crate) async fn idle(&self) {
        let mut busy = self.busy.subscribe();
        tokio::select! {
            () = self.broken.cancelled() => {}
            // The sender is ours, so this ends only with zero.
            _ = busy.wait_for(|busy| *busy == 0) => {}
        }
    }

    /// Ends the writer behind everything queued so far.
    pub(crate) fn end(&self) {
        // Without a writer there is nothing left to end.
        let _ = self.outgoing.send(Outgoing::End);
    }

    /// Gives back what was set aside for an answer that is no longer being made.
    fn made(&self, request: &Request) {
        let bytes = if request.begun { request.answer_bytes } else { 0 };
        change(&self.answers, |answers| {
            answers.expected = answers.expected.saturating_sub(bytes);
        });
    }

    /// Writes a line as far as the output takes it now, and queues the rest: a task that only writes is
    /// woken on another core, which costs as much as a call.
    pub(crate) fn queue(&self, mut text: Vec<u8>) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        let bytes = text.len().max(LINE_COST_BYTES);
        text.push(b'\n');
        let mut output = self.output.as_ref().map(|output| output.lock());
        if let Some(output) = &mut output
            && self.waiting.load(Ordering::Acquire) == 0
        {
            let (mut rest, mut context) = (text.as_slice(), Context::from_waker(Waker::noop()));
            // Of an output that fails, the writer hears.
            if let Poll::Ready(Ok(())) = poll_out(&mut **output, &mut context, &mut rest) {
                let _ = written.send(());
                return receiver;
            }
            let out = text.len() - rest.len();
            drop(text.drain(..out));
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        change(&self.answers, |answers| answers.unread += bytes);
        // Without a writer the line is dropped, and with it `written`: the receiver hears that.
        let _ = self.outgoing.send(Outgoing::Line { text, bytes, written });
        receiver
    }

    fn count(&self, open: &Open) {
        change(&self.busy, |busy| *busy = open.busy);
    }
}

clawhost_core::shows!(Connection { open });

impl Open {
    fn refuses(&self, id: &RequestId, method: &str, bytes: usize) -> Option<Fault> {
        if self.requests.contains_key(id) {
            let text = "a request with this id is still running";
            return Some(Fault::new(INVALID_REQUEST, text).to(id.clone()));
        }
        if self.cancelled.contains(id) {
            let text = "a request with this id was cancelled: use a new id";
            return Some(Fault::new(INVALID_REQUEST, text).to(id.clone()));
        }
        let urgent = is_urgent(method) && bytes <= URGENT_REQUEST_BYTES_MAX;
        let reserve = if urgent { CONNECTION_RESERVE_MAX } else { 0 };
        if self.requests.len() >= CONNECTION_REQUESTS_MAX + reserve {
            return Some(overloaded(id, Limit::ConnectionRequests, CONNECTION_REQUESTS_MAX));
        }
        if self.bytes + bytes > CONNECTION_BYTES_MAX + reserve * URGENT_REQUEST_BYTES_MAX {
            return Some(overloaded(id, Limit::ConnectionBytes, CONNECTION_BYTES_MAX));
        }
        None
    }

    fn close(&mut self, id: &RequestId) -> Option<Request> {
        let request = self.requests.remove(id)?;
        self.bytes = self.bytes.saturating_sub(request.bytes);
        self.busy = self.busy.saturating_sub(usize::from(!request.endless));
        Some(request)
    }
}

/// Writes `text` as far as `output` takes it, and says when all of it is out; `text` is what is not.
pub(super) fn poll_out(
    mut output: &mut (dyn AsyncWrite + Send + Unpin),
    cx: &mut Context<'_>,
    text: &mut &[u8],
) -> Poll<io::Result<()>> {
    while !text.is_empty() {
        match ready!(Pin::new(&mut output).poll_write(cx, text))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            bytes => *text = text.get(bytes..).unwrap_or_default(),
        }
    }
    Pin::new(&mut output).poll_flush(cx)
}

/// What an unread line counts at least. So an answer for each running
/// request can be unread, and as many refusals.
const LINE_COST_BYTES: usize = CONNECTION_BYTES_MAX / (2 * CONNECTION_REQUESTS_MAX);

/// Keeps `id` among the newest.
fn remember(ids: &mut VecDeque<RequestId>, id: &RequestId) {
    if ids.len() >= CONNECTION_REQUESTS_MAX {
        ids.pop_front();
    }
    ids.push_back(id.clone());
}

/// Returns how long an answer to `method` may well be.
fn answer_bytes(method: &str) -> usize {
    match method {
        "claw.memory.query" => MEMORY_ANSWER_BYTES_MAX,
        // As long as the catalog is.
        "tools/list" => MESSAGE_BYTES_MAX,
        // What is said meanwhile is short, and what ends calls must not wait for them.
        "subscriptions/listen" => 0,
        urgent if is_urgent(urgent) => 0,
        _ => REPLY_BYTES_MAX,
    }
}

fn overloaded(id: &RequestId, limit: Limit, value: usize) -> Fault {
    let kind = ErrorKind::Overloaded;
    Fault::new(kind.code(), "too many requests run on this connection")
        .with("kind", kind.name())
        .with("stage", "connection")
        .with("limit", limit.name())
        .with("value", value)
        .to(id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a connection with five requests whose answers may have a quarter of the bound.
    fn five() -> (Connection, [RequestId; 5], mpsc::UnboundedReceiver<Outgoing>) {
        let (connection, outgoing) = Connection::new(None);
        let ids = [1, 2, 3, 4, 5].map(RequestId::Number);
        for id in &ids {
            connection.register(id, "tools/list", 10).unwrap();
        }
        (connection, ids, outgoing)
    }

    #[tokio::test]
    async fn a_request_begins_when_there_is_room_for_its_answer() {
        let (connection, ids, _outgoing) = five();
        let [first, .., last] = &ids;
        let begun: Vec<_> = ids.iter().map(|id| connection.begins(id)).collect();
        assert_eq!(begun, [Some(true), Some(true), Some(true), Some(true), None]);
        let text = vec![b'x'; MESSAGE_BYTES_MAX];
        drop(connection.reply(first, text).unwrap());
        assert_eq!(connection.begins(last), None, "nobody has read it");
        let word = RequestId::Number(6);
        connection.register(&word, "claw.tool.approve", 10).unwrap();
        assert_eq!(connection.begins(&word), Some(true), "what ends calls waits for none");
        let (begins, ()) = tokio::join!(connection.may_begin(last), async {
            connection.written(MESSAGE_BYTES_MAX);
        });
        assert!(begins);
    }

    #[tokio::test]
    async fn what_is_cancelled_gives_its_room_back_and_does_not_begin() {
        let (connection, ids, _outgoing) = five();
        let [first, .., last] = &ids;
        assert_eq!(ids.iter().filter_map(|id| connection.begins(id)).count(), 4);
        let (begins, cancelled) =
            tokio::join!(connection.may_begin(last), async { connection.cancel(last) });
        assert!(cancelled && !begins);
        assert!(connection.cancel(first));
        connection.while_open(first, || panic!("it is passed on behind its end"));
        let next = RequestId::Number(6);
        connection.register(&next, "claw.memory.query", 10).unwrap();
        assert_eq!(connection.begins(&next), Some(true), "there is room again");
        let mut is_passed_on = false;
        connection.while_open(&next, || is_passed_on = true);
        assert!(is_passed_on);
    }
}
