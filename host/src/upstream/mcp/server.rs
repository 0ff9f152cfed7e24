//! A server that is kept going, and a call of what it offers.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::error::CallError;
use clawhost_core::exposed::ExposedKind;
use clawhost_core::limits::QUESTION_ROUNDS_MAX;
use clawhost_core::reply::ToolReply;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::offers::{ServerOffers, State};
use super::plan::{Endpoint, ServerParts, ServerPlan};
use super::relay::Restart;
use super::session::{Ask, ServerSession};
use super::supervise::Supervisor;
use super::{mirror, questions, reply, resources};
use crate::dialogue::Caller;
use crate::secrets::Secrets;

/// A server that is kept going. Cheap to clone; dropping the last clone ends it.
#[derive(Clone)]
pub struct Server(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: String,
    is_web: bool,
    /// What it asks of its callers' clients is passed on.
    may_ask: bool,
    pub(super) secrets: Secrets,
    offers: watch::Receiver<ServerOffers>,
    pub(super) session: watch::Receiver<Option<Arc<ServerSession>>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts the server of `plan`, and returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(plan: ServerPlan, parts: ServerParts) -> Self {
        Self::kept(plan, parts, None)
    }

    pub(super) fn kept(plan: ServerPlan, parts: ServerParts, relayed: Option<Restart>) -> Self {
        let (offers, offered) = watch::channel(ServerOffers::none());
        let (session, current) = watch::channel(None);
        let stop = CancellationToken::new();
        let (name, is_web) = (plan.name.clone(), matches!(plan.endpoint, Endpoint::Http { .. }));
        let may_ask = plan.expose.questions;
        let (secrets, jail, ends) = (parts.secrets.clone(), OnceLock::new(), stop.clone());
        let supervisor = Supervisor { plan, parts, relayed, offers, session, stop: ends, jail };
        let task = Mutex::new(Some(tokio::spawn(supervisor.run())));
        let (offers, session) = (offered, current);
        Self(Arc::new(Inner { name, is_web, may_ask, secrets, offers, session, stop, task }))
    }

    /// Returns the operator's name for it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns what it offers, now and from now on.
    pub fn offers(&self) -> watch::Receiver<ServerOffers> {
        self.0.offers.clone()
    }

    /// Calls `tool` with `arguments`, the text of a JSON object. While the server is being
    /// connected, the call waits within its own `timeout`; progress does not extend it. Dropping
    /// the future cancels the call. Where something of the tool was `accepted`, it has to be what
    /// the server says when it is asked.
    ///
    /// # Errors
    /// -32011 (`pins`) where it says something else; -32014 where the time is over, -32603
    /// (`upstream`) where the server is not there or ends, -32010 where it asks for more than its answer to a call, -32011 where too many calls wait.
    /// An error that the server itself answers with is a reply with `is_error`.
    pub async fn call(
        &self,
        tool: &str,
        accepted: Option<&ToolDefinition>,
        arguments: &str,
        timeout: Duration,
        caller: Caller,
    ) -> Result<ToolReply, CallError> {
        let deadline = Instant::now() + timeout;
        let called = async {
            let caller = self.heard(caller)?;
            let session = self.session(deadline).await?;
            if accepted.is_some_and(|it| !self.says(it)) {
                return Err(Failure::Changed);
            }
            let arguments = on_one_line(arguments);
            let params = format!(r#""name":{},"arguments":{arguments}"#, json!(tool));
            let headers = mirror::headers(tool, self.schema(tool).as_ref(), &arguments);
            let ask = Ask { method: "tools/call", params, headers, deadline, caller };
            self.asked(&session, ask, reply::read).await
        };
        called.await.or_else(|failure| self.failed(failure, tool, timeout))
    }

    /// Uses what it has of `kind`, with `arguments` for parameters; otherwise as [`Server::call`].
    ///
    /// # Errors
    /// Those of [`Server::call`].
    pub async fn get(
        &self,
        kind: ExposedKind,
        arguments: &str,
        timeout: Duration,
        caller: Caller,
    ) -> Result<ToolReply, CallError> {
        let deadline = Instant::now() + timeout;
        let got = async {
            let caller = self.heard(caller)?;
            let session = self.session(deadline).await?;
            let ask = resources::ask(kind, &on_one_line(arguments), deadline);
            let read = |result| resources::read(kind, result);
            self.asked(&session, Ask { caller, ..ask }, read).await
        };
        got.await.or_else(|failure| self.failed(failure, kind.method(), timeout))
    }

    /// Asks the server, and again with what the caller's client answers where the server wants that.
    async fn asked(
        &self,
        session: &ServerSession,
        mut ask: Ask,
        read: impl Fn(Value) -> Result<ToolReply, Failure>,
    ) -> Result<ToolReply, Failure> {
        let Some(asks) = ask.caller.asks() else { return read(session.ask(ask).await?) };
        for _ in 1..QUESTION_ROUNDS_MAX {
            let before = asks.waited().await;
            let outcome = read(session.ask(ask.clone()).await?);
            let Err(Failure::InputRequired(asked)) = &outcome else { return outcome };
            let answered = questions::answered(&self.0.name, asked, &ask.caller).await;
            let Some(answered) = answered else { return outcome };
            ask.caller.dialogue = Some(Arc::new(answered));
            ask.deadline += asks.waited().await.saturating_sub(before);
        }
        read(session.ask(ask).await?)
    }

    /// Returns a caller with what its client says to this server, where that is passed on at all.
    fn heard(&self, caller: Caller) -> Result<Caller, Failure> {
        let dialogue = caller.dialogue.filter(|_| self.0.may_ask);
        let dialogue = dialogue.map(|all| questions::said_to(&self.0.name, &all)).transpose()?;
        Ok(Caller { dialogue: dialogue.map(Arc::new), ..caller })
    }

    fn failed(
        &self,
        failure: Failure,
        what: &str,
        timeout: Duration,
    ) -> Result<ToolReply, CallError> {
        let failure = match failure {
            Failure::InputRequired(asked) => {
                let asked = Some(asked).filter(|_| self.0.may_ask);
                let passed_on = asked.and_then(|it| questions::passed_on(&self.0.name, it));
                Failure::InputRequired(passed_on.unwrap_or_default())
            }
            other => other,
        };
        failure.of_call(&self.0.name, what, timeout, &self.0.secrets.redactor())
    }

    /// Stops it, and returns when it is gone.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        let task = self.0.task.lock().take();
        if let Some(task) = task {
            // A task that panicked has ended as well.
            drop(task.await);
        }
    }

    /// Says whether it says of a tool what was `accepted`.
    fn says(&self, accepted: &ToolDefinition) -> bool {
        let offers = self.0.offers.borrow();
        offers.tools.iter().any(|tool| tool.says_the_same_as(accepted))
    }

    /// Returns the schema of the arguments of `tool`, where they may have to be repeated.
    fn schema(&self, tool: &str) -> Option<Value> {
        let offers = self.0.offers.borrow();
        let found = offers.tools.iter().find(|found| found.name == tool);
        found.filter(|_| self.0.is_web).map(|found| found.input_schema.clone())
    }

    /// Returns the connection, waiting until `deadline` while it is being made.
    pub(super) async fn session(&self, deadline: Instant) -> Result<Arc<ServerSession>, Failure> {
        let mut offers = self.0.offers.clone();
        let known = offers.wait_for(|offers| offers.state != State::Connecting);
        let waited = timeout_at(deadline.into(), known).await.map_err(|_| Failure::Timeout)?;
        let gone = || Failure::Gone("it was stopped".to_owned());
        if let State::Failed { reason, wants_login, .. } = &waited.map_err(|_| gone())?.state {
            let why = if *wants_login { Failure::Login } else { Failure::Gone };
            return Err(why(reason.clone()));
        }
        self.0.session.borrow().clone().ok_or_else(gone)
    }
}

/// Line breaks between the parts of JSON mean nothing; in a line they would.
fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.offers.borrow().state.clone();
        f.debug_struct("Server").field("name", &self.0.name).field("state", &state).finish()
    }
}
