//! One session: what it is, what it may do now, and what of it still runs.

use std::sync::Arc;

use clawhost_core::error::CallError;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::life::{SessionLife, State, Transition};
use super::method::{Method, Served};
use super::notice::Notice;
use crate::approvals::Reachable;
use crate::clock::whole_ms;
use crate::gate::SessionTerms;
use crate::host::Principal;
use crate::offload;
use crate::replay::stopped;
use crate::serve::calls::{Calls, guarded};
use crate::serve::message::{Fault, INVALID_PARAMS, Outcome};
use crate::serve::params::Params;
use crate::telemetry::{Event, TraceParent};

/// What whoever speaks on a connection may do beside calling tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// Nothing.
    Agent,
    /// Answer for the operator: the parent process of a host on standard input.
    Operator,
}

/// One session of one client, and of what trace its next requests are part. Cheap to clone; the last clone
/// ends what it runs.
#[derive(Debug, Clone)]
pub(crate) struct ClawSession<C>(Arc<Inner<C>>, Option<TraceParent>);

#[derive(Debug)]
pub(super) struct Inner<C> {
    pub(super) calls: C,
    pub(super) principal: Principal,
    pub(super) authority: Authority,
    /// Where messages go that answer nothing.
    pub(super) notices: mpsc::Sender<Notice>,
    life: Mutex<SessionLife<Arc<Agreed>>>,
    /// Requests that were taken and are not answered yet.
    running: watch::Sender<usize>,
    /// Their own ids, of calls.
    request_ids: Arc<Mutex<Vec<String>>>,
}

/// What `claw.initialize` settled.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) served: Served,
    pub(super) manifest: Arc<SessionTerms>,
    /// The digest of what the manifest narrows, which is part of what each request says.
    pub(super) narrowing: String,
    /// The client wants to hear how calls go on.
    pub(super) progress: bool,
    /// Questions about this session's calls can be answered on it.
    pub(super) _reach: Option<Reachable>,
}

/// How a request is answered.
pub(crate) enum Answer {
    /// When it ends. What comes with the outcome is to be dropped behind the answer.
    Later(BoxFuture<'static, (Outcome, Option<RunningPlace>)>),
    Now(Outcome),
}

/// A request's place among the running ones, until it is answered.
#[derive(Debug)]
pub(crate) struct RunningPlace {
    running: watch::Sender<usize>,
    request_ids: Arc<Mutex<Vec<String>>>,
    request_id: Option<String>,
}

impl RunningPlace {
    fn name(&mut self, request_id: String) {
        self.request_ids.lock().push(request_id.clone());
        self.request_id = Some(request_id);
    }
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        if let Some(own) = &self.request_id {
            let mut ids = self.request_ids.lock();
            if let Some(index) = ids.iter().position(|id| id == own) {
                ids.swap_remove(index);
            }
        }
        self.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// The right to carry out one request.
pub(super) struct Ticket {
    pub(super) agreed: Arc<Agreed>,
    /// Cancelled when the request has to end.
    pub(super) ended: CancellationToken,
    place: RunningPlace,
}

impl<C> Drop for Inner<C> {
    fn drop(&mut self) {
        self.life.get_mut().end();
    }
}

impl<C: Calls> ClawSession<C> {
    /// Returns a session of `principal` that has not begun. What it has to say unasked goes to
    /// `notices`.
    pub(crate) fn new(
        calls: C,
        principal: Principal,
        authority: Authority,
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        let inner = Inner {
            calls,
            principal,
            authority,
            notices,
            life: Mutex::new(SessionLife::new()),
            running: watch::Sender::new(0),
            request_ids: Arc::default(),
        };
        Self(Arc::new(inner), None)
    }

    /// Returns the session for requests that are part of `trace`.
    pub(crate) fn traced(self, trace: Option<TraceParent>) -> Self {
        Self(self.0, trace)
    }

    pub(super) fn trace(&self) -> Option<TraceParent> {
        self.1
    }

    /// Takes one request. Order counts: one that begins or ends the session holds for the next.
    pub(crate) fn request(&self, method: &str, params: Option<&Value>) -> Answer {
        let calls = self.0.calls.clone();
        match self.take(method, params) {
            Err(fault) => Answer::Now(Err(fault)),
            Ok(Answer::Now(outcome)) => Answer::Now(outcome.map(|result| shown(&calls, result))),
            Ok(Answer::Later(work)) => Answer::Later(Box::pin(async move {
                let (outcome, place) = work.await;
                (outcome.map(|result| shown(&calls, result)), place)
            })),
        }
    }

    /// Takes one notification; one that makes no sense is ignored, as JSON-RPC has it.
    pub(crate) fn notification(&self, method: &str, params: Option<&Value>) {
        if method == "claw.swarm.broadcast"
            && let Err(fault) = self.swarm_broadcast(Params::of(params))
        {
            tracing::debug!(?fault, "a message to a swarm is dropped");
        }
    }

    /// Says whether a session runs, or ran.
    pub(crate) fn has_begun(&self) -> bool {
        self.life().has_begun().is_ok()
    }

    /// Ends whatever runs; a client that has gone away hears nothing of it.
    pub(crate) fn end(&self) {
        self.life().end();
    }

    /// Says whether the session has come to its end. It may be begun again.
    pub(crate) fn has_stopped(&self) -> bool {
        self.life().state() == State::Stopped
    }

    pub(crate) fn is_busy(&self) -> bool {
        *self.0.running.borrow() > 0
    }

    fn take(&self, name: &str, params: Option<&Value>) -> Result<Answer, Fault> {
        let method = Method::named(name, self.served())?;
        if params.is_some_and(|params| !params.is_object()) {
            return Err(Fault::new(INVALID_PARAMS, "`params` has to be an object"));
        }
        let params = Params::of(params);
        match method {
            Method::Initialize => self.initialize(params).map(now),
            Method::Shutdown => self.shutdown(params),
            Method::Status => self.status().map(now),
            Method::ToolApprove => self.word(params, true),
            Method::ToolCall => self.tool_call(params),
            Method::ToolDeny => self.word(params, false),
            Method::MemoryCompact => self.memory_compact(params),
            Method::MemoryQuery => self.memory_query(params),
            Method::MemoryStore => self.memory_store(params),
            Method::SwarmDelegate => self.swarm_delegate(params),
            Method::SwarmDiscover => self.swarm_discover(params),
            Method::SwarmReport => self.swarm_report(params),
        }
    }

    fn served(&self) -> Served {
        let current = || Served::by(&self.0.calls.services().manifest, &self.0.calls.catalog());
        self.life().taking_calls().map_or_else(|_| current(), |agreed| agreed.served)
    }

    fn status(&self) -> Outcome {
        let life = self.life();
        life.has_begun()?;
        Ok(status(life.state(), life.uptime()))
    }

    /// Takes a request that has to be carried out while the session takes calls.
    pub(super) fn ticket(&self) -> Result<Ticket, Fault> {
        let life = self.life();
        let agreed = life.taking_calls()?;
        let ended = life.ended().clone();
        // Under the lock: a shutdown that begins now waits for this request.
        self.0.running.send_modify(|running| *running += 1);
        let (running, request_ids) = (self.0.running.clone(), Arc::clone(&self.0.request_ids));
        let place = RunningPlace { running, request_ids, request_id: None };
        drop(life);
        Ok(Ticket { agreed, ended, place })
    }

    /// Notes a step, and tells whoever observes the host.
    pub(super) fn tell(&self, step: Transition) {
        let duration_ms = whole_ms(step.lasted);
        tracing::debug!(from = step.from, to = step.to, duration_ms, "a session's step");
        let event = Event::Lifecycle { from: step.from, to: step.to, duration_ms };
        self.0.calls.services().telemetry.emit(event);
    }

    pub(super) fn inner(&self) -> &Arc<Inner<C>> {
        &self.0
    }

    pub(super) fn running(&self) -> watch::Receiver<usize> {
        self.0.running.subscribe()
    }

    pub(super) fn life(&self) -> MutexGuard<'_, SessionLife<Arc<Agreed>>> {
        self.0.life.lock()
    }

    pub(super) fn runs(&self, request_id: &str) -> bool {
        self.0.request_ids.lock().iter().any(|id| id == request_id)
    }

    /// Opens the way to the person behind this session, where there is one.
    pub(super) fn reach(&self) -> Option<Reachable> {
        let reach = self.0.calls.services().approvals.reach();
        let is_operator = self.0.authority == Authority::Operator;
        is_operator.then(|| reach.open_for(&self.0.principal.0))
    }

    /// Goes to ERROR and back with what a call tells of the host.
    pub(super) fn works(&self, works: bool) {
        let step = self.life().works(works);
        step.into_iter().for_each(|step| self.tell(step));
    }
}

impl<C> Inner<C> {
    pub(super) fn state(&self) -> Value {
        let life = self.life.lock();
        status(life.state(), life.uptime())
    }
}

impl Ticket {
    /// Names the request, so that what is said about it finds it.
    pub(super) fn name(&mut self, request_id: &str) {
        self.place.name(request_id.to_owned());
    }

    /// Returns how the request is answered: with what `work` comes to, unless the session ends
    /// before. Until then the request counts as running.
    pub(super) fn later(
        self,
        work: impl Future<Output = Result<Value, CallError>> + Send + 'static,
    ) -> Answer {
        let Self { ended, place, .. } = self;
        Answer::Later(Box::pin(async move {
            (until(&ended, guarded(work)).await.map_err(Fault::from), Some(place))
        }))
    }
}

pub(super) async fn until<T>(
    ended: &CancellationToken,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = ended.cancelled() => {
            Err(stopped())
        }
    }
}

/// Returns `result` without secrets, wherever it had them from.
fn shown<C: Calls>(calls: &C, result: Value) -> Value {
    offload::redacted(&calls.services().secrets.redactor(), result)
}

fn status(state: State, uptime: std::time::Duration) -> Value {
    json!({"state": state.name(), "uptime_ms": whole_ms(uptime)})
}

fn now(result: Value) -> Answer {
    Answer::Now(Ok(result))
}
