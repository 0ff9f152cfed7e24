//! The life of a session: INIT → STARTING → READY → STOPPING → STOPPED, and READY ↔ ERROR.
//!
//! A stopped session can be begun anew: a client may send `claw.initialize` again until its input
//! ends. ERROR means that calls cannot be recorded; it passes when one can. Deliberately absent:
//! what happens in a state.

use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::serve::message::{Fault, INVALID_REQUEST};

/// Where a session stands (CKP 0.3.0, section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Error,
    Init,
    Ready,
    Starting,
    Stopped,
    Stopping,
}

clawhost_core::table! {
    /// Returns its name on the wire.
    pub(super) State::name: &'static str {
        Error: "ERROR", Init: "INIT", Ready: "READY", Starting: "STARTING", Stopped: "STOPPED",
        Stopping: "STOPPING",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) lasted: Duration,
}

/// Where a session stands, and since when.
#[derive(Debug)]
pub(super) struct SessionLife<T> {
    state: State,
    since: Instant,
    /// When `claw.initialize` was done.
    ready: Option<Instant>,
    /// What was agreed then.
    agreed: Option<T>,
    /// Cancelled when no more calls are taken.
    stopping: CancellationToken,
    /// Cancelled when the calls that still run have to end.
    ended: CancellationToken,
}

impl<T: Clone> SessionLife<T> {
    pub(super) fn new() -> Self {
        Self {
            state: State::Init,
            since: Instant::now(),
            ready: None,
            agreed: None,
            stopping: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Returns the time since the session began, nothing before it did.
    pub(super) fn uptime(&self) -> Duration {
        self.ready.map(|ready| ready.elapsed()).unwrap_or_default()
    }

    pub(super) const fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(super) const fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Returns what was agreed where calls are taken now.
    pub(super) fn taking_calls(&self) -> Result<T, Fault> {
        match (self.state, &self.agreed) {
            (State::Ready | State::Error, Some(agreed)) => Ok(agreed.clone()),
            _ => Err(self.wrong()),
        }
    }

    /// Says whether the session has begun, be it over again.
    pub(super) fn has_begun(&self) -> Result<(), Fault> {
        match self.state {
            State::Init | State::Starting => Err(self.wrong()),
            State::Error | State::Ready | State::Stopped | State::Stopping => Ok(()),
        }
    }

    fn wrong(&self) -> Fault {
        let message = match self.state {
            State::Init | State::Starting => "no session has begun: send claw.initialize first",
            State::Stopping => "the session is stopping and takes no more requests",
            State::Stopped => "the session has stopped: begin another with claw.initialize",
            State::Error | State::Ready => "the session cannot do this now",
        };
        refused(self.state, message)
    }

    /// Begins a session; [`SessionLife::ready`] or [`SessionLife::back`] has to follow.
    pub(super) fn begin(&mut self) -> Result<Transition, Fault> {
        match self.state {
            State::Init | State::Stopped => {
                self.stopping = CancellationToken::new();
                self.ended = CancellationToken::new();
                Ok(self.go(State::Starting))
            }
            state => Err(refused(state, "a session has begun already")),
        }
    }

    /// Gives a session up that could not begin.
    pub(super) fn back(&mut self) -> Transition {
        let before = if self.ready.is_some() { State::Stopped } else { State::Init };
        self.go(before)
    }

    /// Takes calls from now on.
    pub(super) fn ready(&mut self, agreed: T) -> Transition {
        self.ready = Some(Instant::now());
        self.agreed = Some(agreed);
        self.go(State::Ready)
    }

    /// Takes no more calls.
    pub(super) fn stop(&mut self) -> Result<Transition, Fault> {
        match self.state {
            State::Ready | State::Error => {
                self.stopping.cancel();
                Ok(self.go(State::Stopping))
            }
            _ => Err(self.wrong()),
        }
    }

    /// Ends whatever runs.
    pub(super) fn end(&self) {
        self.stopping.cancel();
        self.ended.cancel();
    }

    pub(super) fn stopped(&mut self) -> Transition {
        self.ended.cancel();
        self.agreed = None;
        self.go(State::Stopped)
    }

    /// Goes to ERROR and back; says so where that is a change.
    pub(super) fn works(&mut self, works: bool) -> Option<Transition> {
        match (self.state, works) {
            (State::Ready, false) => Some(self.go(State::Error)),
            (State::Error, true) => Some(self.go(State::Ready)),
            _ => None,
        }
    }

    fn go(&mut self, to: State) -> Transition {
        let from = std::mem::replace(&mut self.state, to);
        let lasted = std::mem::replace(&mut self.since, Instant::now()).elapsed();
        Transition { from: from.name(), to: to.name(), lasted }
    }
}

/// Returns what a request is answered with that cannot be served in this state.
fn refused(state: State, message: &str) -> Fault {
    Fault::new(INVALID_REQUEST, message).with("state", state.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_life_goes_one_way_and_begins_again() {
        let mut life = SessionLife::<u8>::new();
        assert!(life.has_begun().is_err() && life.stop().is_err());
        assert_eq!(life.begin().unwrap().to, "STARTING");
        assert!(life.begin().is_err() && life.taking_calls().is_err());
        assert_eq!(life.ready(7).to, "READY");
        assert!(life.begin().is_err());
        assert_eq!(life.taking_calls(), Ok(7));
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(life.uptime(), Duration::from_millis(30));
        let ended = life.ended().clone();
        assert_eq!(life.stop().unwrap().lasted, Duration::from_millis(30));
        assert!(life.stop().is_err() && life.taking_calls().is_err() && life.begin().is_err());
        life.stopped();
        assert!(ended.is_cancelled() && life.has_begun().is_ok());
        life.begin().unwrap();
        assert_eq!(life.back().to, "STOPPED");
        life.begin().unwrap();
        life.ready(8);
        assert!(!life.ended().is_cancelled() && life.uptime().is_zero());
        assert_eq!(life.works(true), None);
        assert_eq!(life.works(false).map(|step| step.to), Some("ERROR"));
        assert!(life.taking_calls().is_ok());
        assert_eq!(life.works(true).map(|step| step.to), Some("READY"));
    }
}
