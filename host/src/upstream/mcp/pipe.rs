//! A server that is a jailed program: one line of JSON a message, both ways.
//!
//! It is the lines of the host's own framer that read what it says. What is no message is
//! skipped; a server that says much and answers little is a flood, and is stopped, and so is one that goes on
//! with a call that was given up and answers nothing else: no call outlives its time there for long.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{
    BRIDGE_ANSWERS_MAX, BRIDGE_MESSAGE_BYTES_MAX, BRIDGE_STOP_MS, GUEST_LOG_LINE_BYTES_MAX,
    WRAP_UNASKED_BYTES_MAX, WRAP_UNASKED_MAX,
};
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, Semaphore, broadcast, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::complaints::{Complaints, ErrorLines};
use super::failure::Failure;
use super::flood::{self, Allowance};
use super::message::{self, NOBODY, Said};
use super::questions::Granted;
use super::waiting::{Outcome, Waiting, WaitingPlace};
use crate::dialogue::Caller;
use crate::jail::Child;
use crate::lines::Line;
use crate::secrets::Secrets;

/// Lines that wait to be written. A request waits for its place here on its own time.
const OUTGOING_MAX: usize = 4;

/// The way to say something to the server.
#[derive(Debug)]
pub(super) struct Pipe {
    outgoing: mpsc::Sender<String>,
    waiting: Arc<Waiting>,
    unasked: broadcast::WeakSender<Value>,
}

/// What keeps a server that is a program going, and hears it.
#[derive(Debug)]
pub(super) struct Driver {
    child: Child,
    complaints: Complaints,
    outgoing: mpsc::Receiver<String>,
    hears: Hears,
}

impl Pipe {
    /// Returns the way to `child`, and what has to run for it to work.
    pub(super) fn open(
        child: Child,
        complaints: Complaints,
        secrets: Secrets,
        (changed, granted): (Arc<Notify>, Option<Arc<Granted>>),
    ) -> (Self, Driver) {
        let (back, outgoing) = mpsc::channel(OUTGOING_MAX);
        let waiting = Arc::new(Waiting::default());
        let unasked = broadcast::Sender::new(WRAP_UNASKED_MAX);
        let pipe = Self {
            outgoing: back.clone(),
            waiting: Arc::clone(&waiting),
            unasked: unasked.downgrade(),
        };
        let answers = Arc::new(Semaphore::new(BRIDGE_ANSWERS_MAX));
        let hears = Hears { answers, back, changed, granted, secrets, waiting, unasked };
        (pipe, Driver { child, complaints, outgoing, hears })
    }

    /// Returns what the server says unasked from now on, until it ends; nothing where it has ended.
    pub(super) fn unasked(&self) -> Option<broadcast::Receiver<Value>> {
        self.unasked.upgrade().map(|unasked| unasked.subscribe())
    }

    /// Sends the request `id` and waits for its answer. Dropping it cancels the request, where it
    /// may be cancelled, and asks by the number behind `id` whether the server is still there: what belongs to
    /// the handshake is forgotten, and asks for nothing.
    pub(super) async fn ask(
        &self,
        id: u64,
        line: String,
        may_cancel: bool,
        caller: Caller,
    ) -> Outcome {
        let place = self.waiting.place(id, caller);
        let mut asking = Asking { pipe: self, place, id, sent: false };
        self.tell(line).await?;
        asking.sent = may_cancel;
        asking.place.answer().await
    }

    /// Sends a line.
    pub(super) async fn tell(&self, line: String) -> Result<(), Failure> {
        let ended = |_| Failure::Gone("it has ended".to_owned());
        self.outgoing.send(line).await.map_err(ended)
    }
}

/// A request under way.
struct Asking<'a> {
    pipe: &'a Pipe,
    place: WaitingPlace,
    id: u64,
    /// Whether the server is told when nobody waits any longer.
    sent: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.sent && self.place.leave() {
            // A server that does not read is not told.
            drop(self.pipe.outgoing.try_send(message::cancelled(self.id)));
            drop(self.pipe.outgoing.try_send(message::request(self.id + 1, "ping", "")));
        }
    }
}

impl Driver {
    /// Runs until the server ends or `stop` says so, and returns why; nothing of it is left then.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> String {
        let mut errors = self.child.stderr.take().map(Complaints::lines);
        let (input, output) = (self.child.stdin.take(), self.child.stdout.take());
        let reason = tokio::select! {
            reason = self.hears.all(output) => reason,
            reason = write_all(input, self.outgoing) => reason,
            reason = complained(&mut self.complaints, &mut errors) => reason,
            () = self.hears.waiting.hangs() => "it answers nothing since a call was given up".to_owned(),
            () = stop.cancelled() => "it was told to stop".to_owned(),
        };
        self.hears.waiting.end();
        let ending = end(&mut self.child).await;
        // What it said last is often why.
        let rest = self.complaints.read(&mut errors);
        drop(timeout(Duration::from_millis(BRIDGE_STOP_MS), rest).await);
        format!("{reason}{ending}{}", self.complaints.last_words())
    }
}

/// Hears what it complains of, until that is a flood. A program may close its standard error and go on.
async fn complained(complaints: &mut Complaints, errors: &mut Option<ErrorLines>) -> String {
    if complaints.read(errors).await {
        return "it says too much on its standard error".to_owned();
    }
    std::future::pending().await
}

/// Waits for the end of a program whose input is closed, and kills it where it does not come.
async fn end(child: &mut Child) -> String {
    match timeout(Duration::from_millis(BRIDGE_STOP_MS), child.wait()).await {
        Ok(Ok(status)) => format!(" ({status})"),
        _ => {
            child.kill().await;
            " (and was killed)".to_owned()
        }
    }
}

async fn write_all(input: Option<ChildStdin>, mut outgoing: mpsc::Receiver<String>) -> String {
    let Some(mut input) = input else { return "it has no input".to_owned() };
    while let Some(mut line) = outgoing.recv().await {
        line.push('\n');
        if let Err(error) = input.write_all(line.as_bytes()).await {
            return format!("it does not read its input: {error}");
        }
    }
    "nobody speaks to it any longer".to_owned()
}

/// What becomes of what the server says.
#[derive(Debug)]
struct Hears {
    /// What is still to be answered of its own requests.
    answers: Arc<Semaphore>,
    back: mpsc::Sender<String>,
    /// Is told when the server's tools have changed.
    changed: Arc<Notify>,
    granted: Option<Arc<Granted>>,
    secrets: Secrets,
    waiting: Arc<Waiting>,
    unasked: broadcast::Sender<Value>,
}

impl Hears {
    /// Reads until the output ends or is a flood.
    async fn all(&self, output: Option<ChildStdout>) -> String {
        let Some(output) = output else { return "it has no output".to_owned() };
        let mut lines = flood::bounded(output, BRIDGE_MESSAGE_BYTES_MAX);
        let mut allowance = Allowance::new();
        loop {
            let (bytes, wanted) = match lines.next().await {
                Ok(Some(Line::Text(text))) => {
                    (text.len(), self.hear(message::read(&text), text.len()))
                }
                Ok(Some(Line::TooLong(beginning, bytes))) => {
                    (bytes, self.hear(message::unread(&beginning), bytes))
                }
                Ok(None) if flood::is_flood(&mut lines) => {
                    return "it says too much that nobody asked for".to_owned();
                }
                Ok(None) => return "it ended".to_owned(),
                Err(error) => return format!("it cannot be read: {error}"),
            };
            allowance.count(&mut lines, bytes, wanted);
        }
    }

    /// Takes one message of so many bytes, and says whether somebody waited for it.
    fn hear(&self, said: Said, bytes: usize) -> bool {
        match said {
            Said::Answer(id, outcome) => return self.waiting.answer(id, outcome),
            Said::Unread => return self.waiting.answer_only(Err(Failure::too_long())),
            Said::Asks { id, method, params } => self.asked(id, method, params),
            Said::Tells { method, params } => match method.as_str() {
                "notifications/progress" => {
                    let clean = |text: &str| self.secrets.short(text, GUEST_LOG_LINE_BYTES_MAX);
                    self.waiting.progress(&params, clean);
                }
                told => {
                    if told.ends_with("/list_changed") {
                        self.changed.notify_one();
                    }
                    self.pass_on(told, &params, bytes);
                }
            },
            Said::Nothing => {}
        }
        false
    }

    /// Lets those hear a notification who listen. What is about one request is no business of all.
    fn pass_on(&self, method: &str, params: &Map<String, Value>, bytes: usize) {
        let is_for_all = method != "notifications/cancelled" && bytes <= WRAP_UNASKED_BYTES_MAX;
        if is_for_all && self.unasked.receiver_count() > 0 {
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            // They may be gone by now.
            let _ = self.unasked.send(self.secrets.redactor().json(message));
        }
    }

    /// Answers a request of the server's own: at once, or where somebody is asked for the one call that runs,
    /// when they have answered, and where it asks faster than it reads, when it reads. One that does not read at all
    /// is not answered any longer.
    fn asked(&self, id: Value, method: String, params: Value) {
        let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() else { return };
        let only = self.waiting.only();
        let (granted, back) = (self.granted.clone(), self.back.clone());
        let answer = async move {
            let asks = (&id, method.as_str(), params);
            let (caller, over) = match &only {
                Ok((caller, over)) => (Ok(caller), over.clone()),
                Err(why) => (Err(*why), CancellationToken::new()),
            };
            let answer = Granted::answer(granted.as_deref(), asks, caller);
            let answer = over.run_until_cancelled(answer).await;
            let answer = answer.unwrap_or_else(|| message::denial(&id, &method, NOBODY));
            // It may have ended by then.
            drop(back.send(answer).await);
            drop(place);
        };
        let mut answer = Box::pin(answer);
        if answer.as_mut().now_or_never().is_none() {
            tokio::spawn(answer);
        }
    }
}
