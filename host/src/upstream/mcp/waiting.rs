//! Who waits for which answer of a server that is spoken to over pipes.
//!
//! An id is given out once. What comes for an id that nobody waits for, or not any longer, is
//! dropped. A server may still work on a request that was left, and ask for it: so it is known until its answer,
//! or for a while where there is none, as the protocol has it of a request that was cancelled. Whether it works on
//! nothing else any longer shows in what it answers then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{BRIDGE_LEFT_MAX, BRIDGE_LEFT_MS, BRIDGE_SILENT_MS};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::failure::Failure;
use super::message::{Denial, NOBODY, UNCLEAR};
use crate::dialogue::Caller;
use crate::progress::Progress;

/// What a request comes to.
pub(super) type Outcome = Result<Value, Failure>;

/// The requests of one connection that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    table: Mutex<Table>,
    /// Is told when the server is in doubt.
    doubts: Notify,
}

#[derive(Debug, Default)]
struct Table {
    asked: HashMap<u64, SentRequest>,
    /// What nobody waits for any longer and is not answered yet, and until when it may be asked for.
    left: HashMap<u64, Instant>,
    /// There was more of that than is kept: until when that may be asked for.
    more_left: Option<Instant>,
    /// There was a request left, and the server has answered nothing since.
    doubt: Option<Doubt>,
    ended: bool,
}

/// That a server may work on nothing but what nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubt {
    /// The newest request that it had then.
    newest: u64,
    /// When the last of those was left, so far.
    since: Instant,
}

#[derive(Debug)]
struct SentRequest {
    answer: oneshot::Sender<Outcome>,
    caller: Caller,
    progress: Option<Progress>,
    /// Ends what the server asks meanwhile.
    over: DropGuard,
}

impl Table {
    /// Returns the request that waits, and its number.
    fn only(&self) -> Result<(u64, &SentRequest), Denial> {
        let now = Instant::now();
        if self.left.values().chain(&self.more_left).any(|until| *until > now) {
            return Err(UNCLEAR);
        }
        let mut asked = self.asked.iter();
        match (asked.next(), asked.next()) {
            (Some((id, only)), None) => Ok((*id, only)),
            (Some(_), Some(_)) => Err(UNCLEAR),
            (None, _) => Err(NOBODY),
        }
    }

    /// Says whether it is still the same doubt, and nobody waits for what the server had then.
    fn hangs(&self, doubt: Doubt) -> bool {
        self.doubt == Some(doubt) && self.asked.keys().all(|id| *id > doubt.newest)
    }

    /// Doubts the server, as `id` was left. What it was given later puts nothing off: there is always more of that.
    fn doubt(&mut self, id: u64) {
        let since = Instant::now();
        self.doubt = Some(match self.doubt {
            Some(doubt) if id > doubt.newest => doubt,
            Some(doubt) => Doubt { since, ..doubt },
            None => {
                let newest = self.asked.keys().max().map_or(id, |newest| id.max(*newest));
                Doubt { newest, since }
            }
        });
    }

    /// Doubts the server, and keeps a request that was left until it is answered, or may no longer be asked for.
    fn leave(&mut self, id: u64) {
        self.doubt(id);
        let now = Instant::now();
        let until = now + Duration::from_millis(BRIDGE_LEFT_MS);
        self.left.retain(|_, until| *until > now);
        if self.left.len() < BRIDGE_LEFT_MAX {
            self.left.insert(id, until);
        } else {
            self.more_left = Some(until);
        }
    }
}

/// The place of one request. Dropping it forgets the request: one that was sent has to be left before.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    waiting: Arc<Waiting>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiting {
    /// Waits for the answer to `id`, which `caller` wants.
    pub(super) fn place(self: &Arc<Self>, id: u64, mut caller: Caller) -> WaitingPlace {
        let (sender, answer) = oneshot::channel();
        let over = CancellationToken::new().drop_guard();
        let progress = caller.progress.take().map(Progress::new);
        let asked = SentRequest { answer: sender, caller, progress, over };
        let mut table = self.table.lock();
        if !table.ended {
            table.asked.insert(id, asked);
        }
        drop(table);
        WaitingPlace { waiting: Arc::clone(self), id, answer }
    }

    /// Hands an answer over, and says whether anybody waited for it.
    pub(super) fn answer(&self, id: u64, outcome: Outcome) -> bool {
        let mut table = self.table.lock();
        table.doubt = None;
        table.left.remove(&id);
        let asked = table.asked.remove(&id);
        drop(table);
        asked.is_some_and(|asked| asked.answer.send(outcome).is_ok())
    }

    /// Hands over an answer that does not say to what it is one, and says whether a request alone waited for it.
    pub(super) fn answer_only(&self, outcome: Outcome) -> bool {
        let id = self.table.lock().only().map(|(id, _)| id);
        id.is_ok_and(|id| self.answer(id, outcome))
    }

    /// Returns whose request it is that waits, and the end of it.
    ///
    /// # Errors
    /// None does, or there are several, left or not: nobody knows which of them a server asks for.
    pub(super) fn only(&self) -> Result<(Caller, CancellationToken), Denial> {
        let table = self.table.lock();
        let (_, only) = table.only()?;
        Ok((only.caller.clone(), only.over.token().clone()))
    }

    /// Waits until a server hangs: a request was left, it was asked whether it is there, and for a while it has
    /// answered nothing at all. While somebody waits for what it had before that, it may be busy with that.
    pub(super) async fn hangs(&self) {
        let silence = Duration::from_millis(BRIDGE_SILENT_MS);
        loop {
            let doubt = self.table.lock().doubt;
            let Some(doubt) = doubt else {
                self.doubts.notified().await;
                continue;
            };
            sleep_until(doubt.since + silence).await;
            if self.table.lock().hangs(doubt) {
                return;
            }
            // It may be busy with what is waited for; another doubt has its own time.
            if self.table.lock().doubt == Some(doubt) {
                sleep(silence).await;
            }
        }
    }

    /// Lets nobody wait any longer, now or later.
    pub(super) fn end(&self) {
        let mut table = self.table.lock();
        table.ended = true;
        table.asked.clear();
        table.left.clear();
    }

    /// Reports progress of the request whose token it carries: its id.
    pub(super) fn progress(&self, params: &Map<String, Value>, clean: impl FnOnce(&str) -> String) {
        let token = params.get("progressToken").and_then(Value::as_u64);
        let mut table = self.table.lock();
        let asked = token.and_then(|token| table.asked.get_mut(&token));
        if let Some(progress) = asked.and_then(|asked| asked.progress.as_mut()) {
            report(progress, params, clean);
        }
    }
}

/// Reports what a notification says.
pub(super) fn report(
    progress: &mut Progress,
    params: &Map<String, Value>,
    clean: impl FnOnce(&str) -> String,
) {
    let number = |key: &str| params.get(key).and_then(Value::as_f64);
    if let Some(done) = number("progress").filter(|done| progress.is_due(*done)) {
        let text = params.get("message").and_then(Value::as_str).map(clean);
        progress.report(done, number("total"), text);
    }
}

impl WaitingPlace {
    /// Waits for the answer.
    pub(super) async fn answer(&mut self) -> Outcome {
        let ended = |_| Err(Failure::Gone("it ended before it answered".to_owned()));
        (&mut self.answer).await.unwrap_or_else(ended)
    }

    /// Leaves a request that the server has, and says whether its answer is still to come. The server is in
    /// doubt then, until it answers anything.
    pub(super) fn leave(&self) -> bool {
        let mut table = self.waiting.table.lock();
        let is_open = table.asked.remove(&self.id).is_some();
        if is_open {
            table.leave(self.id);
            self.waiting.doubts.notify_one();
        }
        is_open
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.waiting.table.lock().asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_server_asks_is_known_of_one_call_only_and_its_end_ends_it() {
        let waiting = Arc::new(Waiting::default());
        assert_eq!(waiting.only().unwrap_err(), NOBODY);
        let first = waiting.place(1, Caller::default());
        let (_, over) = waiting.only().unwrap();
        let second = waiting.place(2, Caller::default());
        assert_eq!(waiting.only().unwrap_err(), UNCLEAR);
        assert!(!over.is_cancelled());
        drop(second);
        assert!(waiting.only().is_ok());
        assert!(first.leave() && over.is_cancelled() && !first.leave());
    }

    #[tokio::test]
    async fn an_answer_without_a_number_is_that_of_a_request_alone() {
        let waiting = Arc::new(Waiting::default());
        assert!(!waiting.answer_only(Ok(Value::Null)));
        let mut first = waiting.place(1, Caller::default());
        let second = waiting.place(2, Caller::default());
        assert!(!waiting.answer_only(Ok(Value::Null)));
        drop(second);
        assert!(waiting.answer_only(Ok(Value::Null)));
        assert_eq!(first.answer().await, Ok(Value::Null));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_hangs_where_a_request_was_left_and_it_answers_nothing_since() {
        let waiting = Arc::new(Waiting::default());
        let silence = Duration::from_millis(BRIDGE_SILENT_MS);
        let hangs = async || tokio::time::timeout(silence * 3, waiting.hangs()).await.is_ok();
        let _slow = waiting.place(1, Caller::default());
        assert!(!hangs().await, "it may take its time for what is waited for");
        assert!(waiting.place(2, Caller::default()).leave());
        assert!(!hangs().await, "it may be busy with what is waited for");
        waiting.answer(1, Ok(Value::Null));
        assert!(!hangs().await, "it has answered since");
        assert!(waiting.place(3, Caller::default()).leave());
        waiting.answer(4, Err(Failure::Gone(String::new())));
        assert!(!hangs().await, "it is there, whatever it says of that");
        assert!(waiting.place(5, Caller::default()).leave());
        let _newer = waiting.place(7, Caller::default());
        assert!(hangs().await, "it does not come to what is newer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_has_its_time_from_when_the_last_that_it_had_was_left() {
        let waiting = Arc::new(Waiting::default());
        let silence = Duration::from_millis(BRIDGE_SILENT_MS);
        let place = |id| waiting.place(id, Caller::default());
        let hangs = waiting.hangs();
        tokio::pin!(hangs);
        let mut hang_within = async |time| tokio::time::timeout(time, &mut hangs).await.is_ok();
        let (first, second) = (place(1), place(3));
        assert!(first.leave());
        assert!(!hang_within(silence / 10 * 9).await);
        // It is there, and then in doubt again, for the same newest request.
        waiting.answer(2, Ok(Value::Null));
        assert!(second.leave());
        assert!(!hang_within(silence / 2).await, "its time began anew");
        waiting.answer(4, Ok(Value::Null));
        let (first, second) = (place(5), place(7));
        assert!(first.leave());
        assert!(!hang_within(silence * 2).await, "it may be busy with what is waited for");
        assert!(second.leave());
        assert!(!hang_within(silence / 10 * 9).await, "it has had no time without that one");
        assert!(place(9).leave());
        assert!(hang_within(silence / 5).await, "what came later puts nothing off");
    }

    #[tokio::test(start_paused = true)]
    async fn while_a_request_that_was_left_may_be_asked_for_nobody_is_asked() {
        let waiting = Arc::new(Waiting::default());
        let leave = |id| assert!(waiting.place(id, Caller::default()).leave());
        let answer = |id| assert!(!waiting.answer(id, Ok(Value::Null)));
        leave(1);
        let _other = waiting.place(2, Caller::default());
        assert!(waiting.only().is_err());
        answer(1);
        assert!(waiting.only().is_ok());
        let most = 3 + BRIDGE_LEFT_MAX as u64;
        (3..most).for_each(leave);
        (3..most).for_each(answer);
        assert!(waiting.only().is_ok());
        (3..=most).for_each(leave);
        (3..=most).for_each(answer);
        assert!(waiting.only().is_err());
        // Of a request that was cancelled the protocol wants no answer.
        let grace = Duration::from_millis(BRIDGE_LEFT_MS);
        tokio::time::advance(grace / 2).await;
        leave(1);
        tokio::time::advance(grace / 2).await;
        assert!(waiting.only().is_err());
        tokio::time::advance(grace / 2).await;
        assert!(waiting.only().is_ok());
    }
}
