//! The way back from whoever runs a call to whoever makes it.
//!
//! What a server wants to know before it answers is asked here while the call waits, whatever the
//! revisions of the two sides. Only a client and a server of the stateless revision (MCP 2026-07-28,
//! multi round-trip requests) need nothing of it: there the question is the answer to the call, and the
//! caller comes again with what it has brought.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clawhost_core::limits::{QUESTION_ANSWER_MS, QUESTION_ROUNDS_MAX};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::progress::ProgressSink;

/// Who waits for the answer to a call.
#[derive(Clone, Default)]
pub struct Caller {
    /// Where progress goes.
    pub progress: Option<ProgressSink>,
    /// What its client can be asked for, where it can be asked at all.
    pub dialogue: Option<Arc<Dialogue>>,
    /// The trace that the call is part of, as the next one is told.
    pub trace: Option<String>,
}

impl Caller {
    /// Returns where its client is asked while the call waits.
    pub(crate) fn asks(&self) -> Option<Arc<Asks>> {
        self.dialogue.as_ref()?.asks.clone()
    }
}

/// What a caller's client can be asked for, and what it has brought.
#[derive(Debug, Clone, Default)]
pub struct Dialogue {
    /// What it can do of `elicitation`, `roots` and `sampling`, in MCP's words.
    pub capabilities: Map<String, Value>,
    /// Its answers to what was asked before, by the names of the questions.
    pub responses: Option<Value>,
    /// What the server gave it to bring back.
    pub state: Option<String>,
    /// It takes the questions of a stateless server as its answer, and comes again.
    pub comes_again: bool,
    /// Where it is asked while its call waits.
    pub asks: Option<Arc<Asks>>,
}

impl Dialogue {
    /// Says whether it answers something.
    pub fn is_answer(&self) -> bool {
        self.responses.is_some() || self.state.is_some()
    }

    /// Asks the client, and returns its answers by the names of the questions: nothing where it cannot be
    /// asked one of them, or does not answer in time. `requests` are MCP's `inputRequests`; without any, nobody
    /// is asked.
    pub async fn ask(&self, requests: Value) -> Option<Value> {
        let can = |request: &Value| {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            method.split_once('/').is_some_and(|(what, _)| self.capabilities.contains_key(what))
        };
        let all = requests.as_object()?;
        if all.is_empty() {
            return Some(requests);
        }
        let can_all = all.values().all(can);
        self.asks.as_ref().filter(|_| can_all)?.ask(requests).await
    }
}

/// What a call asks the client that made it: one thing at a time, and not without end.
#[derive(Default)]
pub struct Asks {
    asked: AtomicUsize,
    clean: OnceLock<(Box<Clean>, Box<Clean>)>,
    now: watch::Sender<Option<Arc<ServerQuestion>>>,
    /// How long its client was waited for; held while something is asked.
    waited: tokio::sync::Mutex<Duration>,
}

/// Takes out of what is asked, or answered, what may not pass; nothing where none of it may.
type Clean = dyn Fn(Value) -> Option<Value> + Send + Sync;

/// What is asked at the moment.
pub(crate) type Asking = watch::Receiver<Option<Arc<ServerQuestion>>>;

/// Something asked.
#[derive(Debug)]
pub struct ServerQuestion {
    /// What, in MCP's words: `inputRequests`.
    pub requests: Value,
    answers: Mutex<Option<oneshot::Sender<Value>>>,
}

impl ServerQuestion {
    /// Says whether somebody still waits for an answer.
    pub fn is_open(&self) -> bool {
        self.answers.lock().as_ref().is_some_and(|answers| !answers.is_closed())
    }

    /// Answers it, by the names of the questions, or says that there is no answer. Of many, one counts.
    pub fn answer(&self, answers: Option<Value>) {
        let sender = self.answers.lock().take();
        if let (Some(sender), Some(answers)) = (sender, answers) {
            // Whoever asked may have gone.
            let _ = sender.send(answers);
        }
    }
}

impl Asks {
    /// Has `asked` take out of everything that is asked what may not leave, and `answered` of what is answered what
    /// may not reach whoever asks; before, nothing is asked.
    pub fn cleaned_by(
        &self,
        asked: impl Fn(Value) -> Option<Value> + Send + Sync + 'static,
        answered: impl Fn(Value) -> Option<Value> + Send + Sync + 'static,
    ) {
        // A call that is tried again is the same call.
        let _ = self.clean.set((Box::new(asked), Box::new(answered)));
    }

    /// Returns what is asked, from now on.
    pub fn now(&self) -> Asking {
        self.now.subscribe()
    }

    /// Returns how long the client was waited for in all, once nothing is asked.
    pub async fn waited(&self) -> Duration {
        *self.waited.lock().await
    }

    async fn ask(&self, requests: Value) -> Option<Value> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= QUESTION_ROUNDS_MAX {
            return None;
        }
        let mut waited = self.waited.lock().await;
        let (sender, answered) = oneshot::channel();
        let (clean_asked, clean_answered) = self.clean.get()?;
        let requests = clean_asked(requests)?;
        let (answers, since) = (Mutex::new(Some(sender)), Instant::now());
        self.now.send_replace(Some(Arc::new(ServerQuestion { requests, answers })));
        let left = Duration::from_millis(QUESTION_ANSWER_MS).saturating_sub(*waited);
        let answer = timeout(left, answered).await;
        *waited += since.elapsed();
        self.now.send_replace(None);
        clean_answered(answer.ok()?.ok()?)
    }
}

clawhost_core::shows!(Asks { now });

clawhost_core::shows!(Caller { dialogue });

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dialogue() -> (Dialogue, Arc<Asks>) {
        let asks = Arc::new(Asks::default());
        asks.cleaned_by(Some, |answer| Some(answer).filter(|it| it != &json!("secret")));
        let capabilities = Map::from_iter([("elicitation".to_owned(), json!({}))]);
        (Dialogue { capabilities, asks: Some(Arc::clone(&asks)), ..Dialogue::default() }, asks)
    }

    fn form() -> Value {
        json!({"q": {"method": "elicitation/create", "params": {"message": "Who?"}}})
    }

    #[tokio::test(start_paused = true)]
    async fn one_thing_is_asked_at_a_time_and_not_without_end() {
        let (dialogue, asks) = dialogue();
        let mut now = asks.now();
        let answering = async {
            for n in 0..QUESTION_ROUNDS_MAX {
                let asked = now.wait_for(|it| it.as_ref().is_some_and(|it| it.is_open())).await;
                let asked = asked.unwrap().clone().unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.answer(Some(json!(n)));
                asked.answer(Some(json!("too late")));
            }
        };
        let asking = (0..2 * QUESTION_ROUNDS_MAX).map(|_| dialogue.ask(form()));
        let (answers, ()) = tokio::join!(futures_util::future::join_all(asking), answering);
        let expected = (0..QUESTION_ROUNDS_MAX).map(|n| Some(json!(n)));
        assert!(answers.into_iter().filter(Option::is_some).eq(expected));
        assert_eq!(asks.waited().await.as_secs(), QUESTION_ROUNDS_MAX as u64);
    }

    #[tokio::test]
    async fn what_may_not_reach_whoever_asks_is_no_answer() {
        let (dialogue, asks) = dialogue();
        for (answer, expected) in [("secret", None), ("plain", Some(json!("plain")))] {
            let mut now = asks.now();
            let answering = async {
                let asked = now.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                asked.answer(Some(json!(answer)));
            };
            let (answered, ()) = tokio::join!(dialogue.ask(form()), answering);
            assert_eq!(answered, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_for_one_answer_in_all_or_asks_what_cannot_be_asked() {
        let (dialogue, asks) = dialogue();
        assert_eq!(dialogue.ask(form()).await, None);
        assert_eq!(dialogue.ask(form()).await, None);
        assert_eq!(asks.waited().await, Duration::from_millis(QUESTION_ANSWER_MS));
        for unable in [json!({"q": {"method": "roots/list"}}), json!({"q": 7}), json!(7)] {
            assert_eq!(dialogue.ask(unable).await, None);
        }
        assert_eq!(Dialogue::default().ask(form()).await, None);
        assert_eq!(Dialogue::default().ask(json!({})).await, Some(json!({})));
        // What nobody cleans is not asked.
        let asks = Some(Arc::default());
        assert_eq!(Dialogue { asks, ..dialogue }.ask(form()).await, None);
    }
}
