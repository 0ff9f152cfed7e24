//! Who waits for which answer of a server that is spoken to over pipes.
//!
//! An id is given out once. What comes for an id that nobody waits for, or not any longer, is
//! dropped.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::failure::Failure;
use crate::dialogue::{Caller, Dialogue};
use crate::progress::Progress;

/// What a request comes to.
pub(super) type Outcome = Result<Value, Failure>;

/// The requests of one connection that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    asked: HashMap<u64, Asked>,
    ended: bool,
}

#[derive(Debug)]
struct Asked {
    answer: oneshot::Sender<Outcome>,
    caller: Option<Arc<Dialogue>>,
    progress: Option<Progress>,
    /// Ends what the server asks meanwhile.
    over: DropGuard,
}

/// The place of one request. Dropping it forgets the request.
#[derive(Debug)]
pub(super) struct Place {
    waiting: Arc<Waiting>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiting {
    /// Waits for the answer to `id`, which `caller` wants.
    pub(super) fn place(self: &Arc<Self>, id: u64, caller: Caller) -> Place {
        let (sender, answer) = oneshot::channel();
        let over = CancellationToken::new().drop_guard();
        let (caller, progress) = (caller.dialogue, caller.progress.map(Progress::new));
        let asked = Asked { answer: sender, caller, progress, over };
        let mut table = self.0.lock();
        if !table.ended {
            table.asked.insert(id, asked);
        }
        drop(table);
        Place { waiting: Arc::clone(self), id, answer }
    }

    /// Hands an answer over, and says whether anybody waited for it.
    pub(super) fn answer(&self, id: u64, outcome: Outcome) -> bool {
        let asked = self.0.lock().asked.remove(&id);
        asked.is_some_and(|asked| asked.answer.send(outcome).is_ok())
    }

    /// Returns whose request it is that waits, and the end of it. Of several nobody knows which a server
    /// asks for.
    pub(super) fn only(&self) -> Option<(Arc<Dialogue>, CancellationToken)> {
        let table = self.0.lock();
        let mut asked = table.asked.values();
        match (asked.next(), asked.next()) {
            (Some(only), None) => {
                Some((Arc::clone(only.caller.as_ref()?), only.over.token().clone()))
            }
            _ => None,
        }
    }

    /// Lets nobody wait any longer, now or later.
    pub(super) fn end(&self) {
        let mut table = self.0.lock();
        table.ended = true;
        table.asked.clear();
    }

    /// Reports progress of the request whose token it carries: its id.
    pub(super) fn progress(&self, params: &Map<String, Value>, clean: impl FnOnce(&str) -> String) {
        let token = params.get("progressToken").and_then(Value::as_u64);
        let mut table = self.0.lock();
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

impl Place {
    /// Waits for the answer.
    pub(super) async fn answer(&mut self) -> Outcome {
        let ended = |_| Err(Failure::Gone("it ended before it answered".to_owned()));
        (&mut self.answer).await.unwrap_or_else(ended)
    }

    /// Says whether the answer is still to come.
    pub(super) fn is_open(&self) -> bool {
        self.waiting.0.lock().asked.contains_key(&self.id)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.0.lock().asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_server_asks_is_known_of_one_call_only_and_its_end_ends_it() {
        let waiting = Arc::new(Waiting::default());
        let called = || Caller { progress: None, dialogue: Some(Arc::default()) };
        assert!(waiting.only().is_none());
        let first = waiting.place(1, called());
        let (_, over) = waiting.only().unwrap();
        let second = waiting.place(2, called());
        assert!(waiting.only().is_none() && !over.is_cancelled());
        drop(second);
        assert!(waiting.only().is_some());
        drop(first);
        assert!(over.is_cancelled());
        let _nobodys = waiting.place(3, Caller::default());
        assert!(waiting.only().is_none());
    }
}
