//! The providers of one manifest, and a completion for a tool.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::{Manifest, ProviderPlan};
use clawhost_core::policy::{Rates, Usage};
use clawhost_core::quota::{Budget, Used};
use parking_lot::RwLock;
use serde_json::Value;

use super::attempt::{self, Failure};
use super::book::Book;
use super::chain::first_of;
use super::costs::{Caller, Cost};
use super::request::ChatRequest;
use super::wire::Wire;
use crate::secrets::Secrets;
use crate::state::{Database, DatabaseError};
use crate::upstream::http::HttpClient;

/// The providers of one manifest. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Providers(pub(super) Arc<Inner>);

/// Is told the provider, the tokens and the cost in US dollars of each completion; must not block.
pub type UsageSink = Box<dyn Fn(&str, Used, f64) + Send + Sync>;

pub(super) struct Inner {
    pub(super) plans: Vec<ProviderPlan>,
    pub(super) rates: Rates,
    pub(super) client: HttpClient,
    pub(super) secrets: Secrets,
    pub(super) book: Book,
    pub(super) told: OnceLock<UsageSink>,
    budgets: RwLock<BTreeMap<String, Budget>>,
}

impl Providers {
    /// Returns `plans`, the first of which is asked where a request names none, with what
    /// `database` says was used of them. `database` has to have [`MIGRATIONS`](super::MIGRATIONS).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        plans: Vec<ProviderPlan>,
        rates: Rates,
        client: HttpClient,
        secrets: Secrets,
        database: Database,
    ) -> Result<Self, DatabaseError> {
        let book = Book::open(database).await?;
        let (told, budgets) = (OnceLock::new(), RwLock::default());
        Ok(Self(Arc::new(Inner { plans, rates, client, secrets, book, told, budgets })))
    }

    /// Tells `sink` what each completion from now on uses; only the first sink is.
    pub fn tell(&self, sink: UsageSink) {
        // A second one would be a defect of the host, and harmless.
        let _ = self.0.told.set(sink);
    }

    /// Holds agents to the budgets that `manifest` gives them, from now on.
    pub fn hold_to(&self, manifest: &Manifest) {
        let agents = manifest.agents.iter();
        let budgets = agents.filter_map(|(name, of)| Some((name.clone(), of.budget?)));
        *self.0.budgets.write() = budgets.collect();
    }

    /// Counts a request of `agent` itself, which its budget may have no room for.
    ///
    /// # Errors
    /// -32011, and when there may be room again.
    pub async fn admit(&self, agent: &str) -> Result<(), CallError> {
        match self.0.budget(agent) {
            Some(budget) => self.0.book.admit(agent, budget).await,
            None => Ok(()),
        }
    }

    /// Takes in what other hosts with the same store asked for.
    ///
    /// # Errors
    /// [`DatabaseError`]: what was known counts on.
    pub(crate) async fn reread(&self) -> Result<(), DatabaseError> {
        self.0.book.reread().await
    }

    /// Returns what this host's providers were asked for since midnight UTC. What another host
    /// with the same store adds shows once [`Providers::reread`] is told of it, or with this one's next request.
    pub fn usage(&self) -> Usage {
        self.0.book.usage()
    }

    /// Returns the tokens of the last hour.
    pub fn tokens_last_hour(&self) -> u64 {
        self.0.book.tokens_last_hour()
    }

    /// Returns the providers, in the manifest's order.
    pub fn plans(&self) -> &[ProviderPlan] {
        &self.0.plans
    }

    /// Returns the provider that a request means by `model`.
    pub fn named(&self, model: &str) -> Option<&ProviderPlan> {
        self.0.named(model)
    }

    /// Says whether `name` is a provider or its model, as a request may name it.
    ///
    /// # Errors
    /// -32602, naming those there are.
    pub fn check_model(&self, name: &str) -> Result<(), CallError> {
        self.0.named(name).map(drop).ok_or_else(|| self.0.unknown(name))
    }

    /// Says whether a request that names `model` may come to the provider `name`.
    ///
    /// # Errors
    /// As [`Providers::check_model`].
    pub fn may_ask(&self, model: &str, name: &str) -> Result<bool, CallError> {
        Ok(self.0.chain(Some(model))?.iter().any(|plan| plan.name == name))
    }

    /// Returns what completions cost on the last `days` days, today included (UTC), the dearest
    /// first: the costs of `agent`, or of all of them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn costs(
        &self,
        days: u32,
        agent: Option<String>,
    ) -> Result<Vec<Cost>, DatabaseError> {
        self.0.book.costs(days, agent).await
    }

    /// Asks for the completion of a chat `request`, an OpenAI-shaped object, and returns an
    /// OpenAI-shaped answer. `model` may name a provider or its model; without it, the manifest's
    /// first provider is asked. Where one fails, its fallbacks are asked in their order; each gets
    /// an equal share of the time that is left, so that one that hangs does not take all of it.
    /// `caller` is for the log, and whose costs it adds to.
    ///
    /// # Errors
    /// -32602 for a request that is none or that no provider's protocol can say, -32021 or -32011 where a quota refuses it, -32020 where
    /// no provider answers until `deadline`.
    pub async fn complete(
        &self,
        caller: &Caller,
        request: Value,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let chat = ChatRequest::read(request)?;
        let chain = self.0.chain(chat.model.as_deref())?;
        let client = self.0.client.for_call();
        let (inner, chat, client) = (&self.0, &chat, &client);
        first_of(caller, &chain, deadline, |plan, until| async move {
            match Wire::new(plan, chat, &inner.secrets).await {
                Ok(wire) => inner.ask(caller, &wire, client, until).await,
                Err(failure) => Ok(Err(failure)),
            }
        })
        .await
    }
}

clawhost_core::shows!(Inner { plans });

impl Inner {
    pub(super) fn budget(&self, agent: &str) -> Option<Budget> {
        self.budgets.read().get(agent).copied()
    }

    pub(super) fn named(&self, model: &str) -> Option<&ProviderPlan> {
        let by_name = self.plans.iter().find(|plan| plan.name == model);
        by_name.or_else(|| self.plans.iter().find(|plan| plan.model == model))
    }

    pub(super) fn unknown(&self, model: &str) -> CallError {
        let names: Vec<&str> = self.plans.iter().map(|plan| plan.name.as_str()).collect();
        let message = format!("no provider is called {model:?}; there are: {}", names.join(", "));
        CallError::new(ErrorKind::InvalidArguments, message)
    }

    /// Asks one provider, again where it fails for a passing reason. The outer error ends the
    /// whole request, the inner one leaves it to the next provider.
    pub(super) async fn ask(
        &self,
        caller: &Caller,
        wire: &Wire<'_>,
        client: &HttpClient,
        until: Instant,
    ) -> Result<Result<Value, Failure>, CallError> {
        self.again(wire.plan, until, || self.attempt(caller, wire, client, until)).await
    }

    /// Reserves, sends and settles one request.
    async fn attempt(
        &self,
        caller: &Caller,
        wire: &Wire<'_>,
        client: &HttpClient,
        until: Instant,
    ) -> Result<Result<Value, Failure>, CallError> {
        let reservation = self.reserve(caller, wire).await?;
        let body = wire.body(Some(reservation.completion_tokens()));
        match attempt::send(wire, body, client, until).await {
            Ok(answer) => {
                let spent = (wire.size.text_bytes, answer.text_bytes);
                self.settle(caller, wire.plan, reservation, answer.used, spent).await;
                Ok(Ok(answer.body))
            }
            Err(failure) => {
                self.give_back(caller, reservation, failure.sent).await;
                Ok(Err(failure))
            }
        }
    }
}
