//! The sessions of a wrapped server: what runs in each, what its client is asked, and who of them makes room.
//!
//! Deliberately absent: what is said in them, and the process they are of.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use clawhost_core::limits::{WRAP_SESSION_REQUESTS_MAX, WRAP_SESSIONS_MAX};
use http::StatusCode;
use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, RequestId};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call::Refusal;
use crate::serve::message::INVALID_REQUEST;
use crate::upstream::mcp::{NoResult, ProgramLife};

/// All of them, by id.
pub(super) type Sessions = Mutex<HashMap<String, WrapSession>>;

pub(super) struct WrapSession {
    pub(super) life: ProgramLife,
    /// What its client can be asked for.
    pub(super) can: Option<ClientCapabilities>,
    used: Instant,
    /// What ends each request under way.
    pub(super) asked: HashMap<RequestId, CancellationToken>,
    /// What its client was asked, by the ids of the questions.
    pub(super) questions: HashMap<i64, oneshot::Sender<Value>>,
    /// The id of the last of them.
    question: i64,
    /// One session leaves places for the others.
    share: Arc<Semaphore>,
    stream: Option<Listening>,
}

/// The stream of a session, which another one takes the place of.
struct Listening {
    _end: DropGuard,
    /// What it takes of all that there may be, as long as somebody reads it.
    place: Weak<OwnedSemaphorePermit>,
}

impl WrapSession {
    pub(super) fn new(life: ProgramLife, can: Option<ClientCapabilities>) -> Self {
        Self {
            life,
            can: can.map(asked_for),
            used: Instant::now(),
            asked: HashMap::new(),
            questions: HashMap::new(),
            question: 0,
            share: Arc::new(Semaphore::new(WRAP_SESSION_REQUESTS_MAX)),
            stream: None,
        }
    }

    /// Notes a question, and returns its id; those of requests that have ended are forgotten.
    pub(super) fn question(&mut self, answered: oneshot::Sender<Value>) -> i64 {
        self.questions.retain(|_, question| !question.is_closed());
        self.question += 1;
        self.questions.insert(self.question, answered);
        self.question
    }

    /// Notes a request, and returns what ends it, and its place.
    pub(super) fn begin(
        &mut self,
        id: &RequestId,
    ) -> Result<(CancellationToken, OwnedSemaphorePermit), Refusal> {
        if self.asked.contains_key(id) {
            let text = "a request with this id is still running";
            return Err(Refusal(StatusCode::BAD_REQUEST, INVALID_REQUEST, text));
        }
        let (cancelled, place) = (CancellationToken::new(), self.place()?);
        self.asked.insert(id.clone(), cancelled.clone());
        Ok((cancelled, place))
    }

    /// Takes a place among those who listen, that of its stream before where there is one, until `end`.
    pub(super) fn listen(
        &mut self,
        places: &Arc<Semaphore>,
        end: CancellationToken,
    ) -> Option<Arc<OwnedSemaphorePermit>> {
        let new = || Arc::clone(places).try_acquire_owned().ok().map(Arc::new);
        let before = self.stream.as_ref().and_then(|stream| stream.place.upgrade());
        let place = before.or_else(new)?;
        self.stream = Some(Listening { _end: end.drop_guard(), place: Arc::downgrade(&place) });
        Some(place)
    }

    fn listens(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.place.strong_count() > 0)
    }

    /// Takes one of the places that the session has.
    pub(super) fn place(&mut self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.used = Instant::now();
        let text = "too many messages of this session wait for the server";
        let place = Arc::clone(&self.share).try_acquire_owned();
        place.map_err(|_| Refusal::from(&NoResult::Silent(text)))
    }
}

/// Returns what a client can be asked for. What else it says of itself may be long, and nobody reads it.
fn asked_for(mut can: ClientCapabilities) -> ClientCapabilities {
    (can.experimental, can.extensions) = (None, None);
    can
}

/// Where there are as many as may be, ends the session unused for longest of those that wait for nothing; one
/// that listens after all others.
pub(super) fn make_room(sessions: &mut HashMap<String, WrapSession>) {
    if sessions.len() < WRAP_SESSIONS_MAX {
        return;
    }
    let idle = sessions.iter().filter(|(_, session)| session.asked.is_empty());
    let oldest = idle.min_by_key(|(_, session)| (session.listens(), session.used));
    let oldest = oldest.map(|(name, _)| name.clone());
    sessions.remove(&oldest.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use serde_json::json;

    use super::super::call::SILENT;
    use super::*;

    fn session() -> WrapSession {
        WrapSession::new(ProgramLife::default(), None)
    }

    #[test]
    fn of_what_a_client_says_of_itself_no_more_is_kept_than_it_is_asked_for() {
        let said = json!({"elicitation": {}, "roots": {}, "experimental": {"x": {"a": [1, 2]}}, "extensions": {"y": {}}});
        let can = serde_json::from_value(said).unwrap();
        let kept = WrapSession::new(ProgramLife::default(), Some(can)).can.unwrap();
        assert!(kept.elicitation.is_some() && kept.roots.is_some());
        assert!(kept.experimental.is_none() && kept.extensions.is_none());
    }

    #[test]
    fn an_id_runs_once_and_no_session_takes_every_place() {
        let mut session = session();
        let told = session.place().unwrap();
        let ids = (0..).map(RequestId::Number).take(WRAP_SESSION_REQUESTS_MAX - 1);
        let mut running: Vec<_> = ids.map(|id| session.begin(&id).unwrap()).collect();
        let twice = session.begin(&RequestId::Number(0)).unwrap_err();
        assert_eq!((twice.0, twice.1), (StatusCode::BAD_REQUEST, INVALID_REQUEST));
        let more = session.begin(&RequestId::Number(-1)).unwrap_err();
        assert_eq!((more.0, more.1), (StatusCode::SERVICE_UNAVAILABLE, SILENT));
        drop(told);
        assert!(session.begin(&RequestId::Number(0)).is_err(), "the first still runs");
        session.asked.remove(&RequestId::Number(0));
        running.push(session.begin(&RequestId::Number(0)).unwrap());
        assert!(session.place().is_err());
    }

    #[test]
    fn who_waits_for_an_answer_loses_no_session_to_another() {
        let named = |number: usize| (number.to_string(), session());
        let mut sessions: HashMap<_, _> = (0..WRAP_SESSIONS_MAX).map(named).collect();
        let now = Instant::now();
        for (number, ago) in [("3", 9), ("5", 7), ("7", 5), ("9", 2)] {
            let session = sessions.get_mut(number).unwrap();
            session.used = now.checked_sub(Duration::from_secs(ago)).unwrap();
        }
        drop(sessions.get_mut("3").unwrap().begin(&RequestId::Number(1)).unwrap());
        sessions.get_mut("3").unwrap().used = now.checked_sub(Duration::from_secs(9)).unwrap();
        let places = Arc::new(Semaphore::new(1));
        let end = CancellationToken::new();
        let _listens = sessions.get_mut("5").unwrap().listen(&places, end).unwrap();
        let before: HashSet<_> = sessions.keys().cloned().collect();
        make_room(&mut sessions);
        let left: HashSet<_> = sessions.keys().cloned().collect();
        assert_eq!(before.difference(&left).collect::<Vec<_>>(), ["7"]);
        make_room(&mut sessions);
        assert_eq!(sessions.len(), left.len(), "there is room");
    }

    #[test]
    fn a_stream_takes_the_place_of_the_one_before_and_leaves_it_at_its_end() {
        let places = Arc::new(Semaphore::new(1));
        let (mut one, mut other) = (session(), session());
        let end = CancellationToken::new;
        let (old, new) = (end(), end());
        let first = one.listen(&places, old.clone()).unwrap();
        let second = one.listen(&places, new.clone()).unwrap();
        assert!(old.is_cancelled() && !new.is_cancelled());
        drop(first);
        assert!(one.listens() && other.listen(&places, end()).is_none());
        drop(second);
        assert!(!one.listens() && other.listen(&places, end()).is_some());
    }
}
