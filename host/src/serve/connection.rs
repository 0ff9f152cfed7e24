//! What is open on one connection: requests without an answer, answers nobody has read.
//!
//! A request is registered before MCP sees it and forgotten when its answer is queued or it is
//! cancelled, so each gets one answer and no more. Deliberately absent: reading and writing.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawhost_core::error::ErrorKind;
use clawhost_core::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_REQUESTS_MAX, CONNECTION_RESERVE_MAX, URGENT_REQUEST_BYTES_MAX,
};
use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::framer::UNREAD_ANSWERS_MAX;
use super::message::{Fault, INVALID_REQUEST, is_ckp, is_urgent};

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Stop: everything worth writing has been queued before this.
    End,
    /// Write this line.
    Line {
        /// Without its newline.
        text: Vec<u8>,
        /// Told when the line is out.
        written: Option<oneshot::Sender<()>>,
        /// The place the answer holds until it is read.
        slot: Option<OwnedSemaphorePermit>,
    },
}

/// The open requests and the way to the writer.
#[derive(Debug)]
pub(crate) struct Connection {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    slots: Arc<Semaphore>,
    /// Bytes of queued lines.
    unread: watch::Sender<usize>,
    open: Mutex<Open>,
    /// Ids of this host's own requests without an answer, newest last.
    asked: Mutex<VecDeque<RequestId>>,
    /// Requests that hold up the end of the connection.
    busy: watch::Sender<usize>,
    closing: CancellationToken,
    broken: CancellationToken,
    heard: AtomicBool,
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
    slot: OwnedSemaphorePermit,
    /// Lives as long as the client likes, so the end of the connection does not wait for it.
    endless: bool,
    /// Can be cancelled, which is MCP's: the Claw Kernel Protocol owes each request an answer.
    cancellable: bool,
}

impl Connection {
    /// Returns a connection and what its writer has to write.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        let (outgoing, receiver) = mpsc::unbounded_channel();
        let connection = Self {
            outgoing,
            slots: Arc::new(Semaphore::new(UNREAD_ANSWERS_MAX)),
            unread: watch::Sender::new(0),
            open: Mutex::default(),
            asked: Mutex::default(),
            busy: watch::Sender::new(0),
            closing: CancellationToken::new(),
            broken: CancellationToken::new(),
            heard: AtomicBool::new(false),
        };
        (connection, receiver)
    }

    /// Notes that the client has sent a line.
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

    /// Waits for a place for one more answer, while too many answers or too many bytes of them are
    /// unread; none comes when the connection has ended.
    pub(crate) async fn answer_slot(&self) -> Option<OwnedSemaphorePermit> {
        let slot = async {
            self.unread.subscribe().wait_for(|bytes| *bytes < CONNECTION_BYTES_MAX).await.ok()?;
            Arc::clone(&self.slots).acquire_owned().await.ok()
        };
        tokio::select! {
            biased;
            () = self.broken.cancelled() => None,
            slot = slot => slot,
        }
    }

    /// Counts a line of `bytes` as read.
    pub(crate) fn written(&self, bytes: usize) {
        self.unread.send_modify(|unread| *unread = unread.saturating_sub(bytes));
    }

    /// Accepts a request, or answers it with a refusal and returns nothing.
    pub(crate) fn register(
        &self,
        id: &RequestId,
        method: &str,
        bytes: usize,
        slot: OwnedSemaphorePermit,
    ) -> Option<()> {
        let mut open = self.open();
        if let Some(refusal) = open.refuses(id, method, bytes) {
            drop(open);
            self.refuse(&refusal, slot);
            return None;
        }
        let endless = method == "subscriptions/listen";
        let cancellable = !is_ckp(method);
        open.bytes += bytes;
        open.busy += usize::from(!endless);
        open.requests.insert(id.clone(), Request { bytes, slot, endless, cancellable });
        self.count(&open);
        Some(())
    }

    /// Forgets a request that its client has cancelled; says whether there was one.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let mut open = self.open();
        if open.requests.get(id).is_some_and(|request| !request.cancellable) {
            return false;
        }
        let found = open.close(id).is_some();
        if found {
            open.cancelled.push_back(id.clone());
            if open.cancelled.len() > CONNECTION_REQUESTS_MAX {
                open.cancelled.pop_front();
            }
            self.count(&open);
        }
        found
    }

    /// Queues the answer to an open request. Returns a receiver that hears when it is written, or
    /// nothing where the request has been cancelled or answered.
    pub(crate) fn reply(&self, id: &RequestId, text: Vec<u8>) -> Option<oneshot::Receiver<()>> {
        let mut open = self.open();
        let request = open.close(id)?;
        // Queued under the lock: once nothing is open, everything is queued.
        let receiver = self.queue(text, Some(request.slot));
        self.count(&open);
        Some(receiver)
    }

    /// Queues a message that answers nothing.
    pub(crate) fn notify(&self, text: Vec<u8>) -> oneshot::Receiver<()> {
        self.queue(text, None)
    }

    /// Queues a request of this host's own.
    pub(crate) fn ask(&self, id: &RequestId, text: Vec<u8>) -> oneshot::Receiver<()> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was withdrawn may never be answered: the oldest make room.
        if asked.len() >= CONNECTION_REQUESTS_MAX {
            asked.pop_front();
        }
        asked.push_back(id.clone());
        self.queue(text, None)
    }

    /// Says whether an answer belongs to a request of this host's own, each of which has one.
    pub(crate) fn answered(&self, id: &RequestId) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn refuse(&self, refusal: &Fault, slot: OwnedSemaphorePermit) {
        drop(self.queue(refusal.to_line(), Some(slot)));
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

    fn queue(&self, text: Vec<u8>, slot: Option<OwnedSemaphorePermit>) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        self.unread.send_modify(|unread| *unread += text.len());
        // Without a writer the line is dropped, and with it `written`: the receiver hears that.
        let _ = self.outgoing.send(Outgoing::Line { text, written: Some(written), slot });
        receiver
    }

    fn count(&self, open: &Open) {
        self.busy.send_replace(open.busy);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
            return Some(overloaded(id, "CONNECTION_REQUESTS_MAX", CONNECTION_REQUESTS_MAX));
        }
        if self.bytes + bytes > CONNECTION_BYTES_MAX + reserve * URGENT_REQUEST_BYTES_MAX {
            return Some(overloaded(id, "CONNECTION_BYTES_MAX", CONNECTION_BYTES_MAX));
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

fn overloaded(id: &RequestId, limit: &str, value: usize) -> Fault {
    let kind = ErrorKind::Overloaded;
    Fault::new(kind.code(), "too many requests run on this connection")
        .with("kind", kind.name())
        .with("limit", limit)
        .with("value", value)
        .to(id.clone())
}
