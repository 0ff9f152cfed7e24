//! Completions of language models, for tools, and vectors, for memory stores: the manifest's providers,
//! within their quotas.
//!
//! Nothing connects before the first completion. Each attempt is reserved in the ledger before it
//! is sent, so that no number of callers beside each other exceeds a limit; what was sent and not
//! answered is spent. A request that a quota refuses is refused: it does not go to the next
//! provider, whose own quota it would use up in the other's place.
//!
//! Deliberately absent: tokens that have to be fetched (OAuth) and transports other than HTTP; for
//! tools, whose requests are translated, streaming and content other than text too.

mod anthropic;
mod api;
mod attempt;
mod book;
mod costs;
mod embed;
mod forward;
mod open;
mod openai;
mod request;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::PROMPT_TOKENS_MAX;
use clawhost_core::manifest::{Manifest, ProviderPlan};
use clawhost_core::policy::{Rates, Usage};
use clawhost_core::quota::{Ask, Budget, Reservation, Used};
use parking_lot::RwLock;
use serde_json::Value;

pub use self::api::{Api, Stored};
use self::attempt::{Failure, Sent};
use self::book::Book;
pub use self::book::MIGRATIONS;
pub(crate) use self::book::read_costs;
pub use self::costs::{Caller, Cost};
pub use self::embed::{Embed, EmbedError};
pub use self::forward::{Answered, Forward, Forwarded, Held};
use self::request::ChatRequest;
use self::wire::Wire;
use super::http::HttpClient;
use crate::secrets::Secrets;
use crate::state::{Database, DatabaseError};

/// The providers of one manifest. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Providers(Arc<Inner>);

/// Is told the provider, the tokens and the cost in US dollars of each completion; must not block.
pub type UsageSink = Box<dyn Fn(&str, Used, f64) + Send + Sync>;

struct Inner {
    plans: Vec<ProviderPlan>,
    rates: Rates,
    client: HttpClient,
    secrets: Secrets,
    book: Book,
    told: OnceLock<UsageSink>,
    budgets: RwLock<BTreeMap<String, Budget>>,
}

impl Providers {
    /// Returns `plans`, the first of which is asked where a request names none, with what
    /// `database` says was used of them. `database` has to have [`MIGRATIONS`].
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

    /// Returns what this host's providers were asked for since midnight UTC. What another host
    /// with the same store adds shows with this one's next request.
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
    /// Returns who is asked, in order: the provider that is meant, and its fallbacks.
    fn chain(&self, model: Option<&str>) -> Result<Vec<&ProviderPlan>, CallError> {
        let Some(first) = self.plans.first() else {
            let message = "the manifest has no provider";
            return Err(CallError::new(ErrorKind::ProviderUnavailable, message));
        };
        let meant = match model {
            None => first,
            Some(model) => self.named(model).ok_or_else(|| self.unknown(model))?,
        };
        let mut chain = vec![meant];
        for name in &meant.fallback {
            let next = self.plans.iter().find(|plan| plan.name == *name);
            chain.extend(next.filter(|next| chain.iter().all(|known| known.name != next.name)));
        }
        Ok(chain)
    }

    fn budget(&self, agent: &str) -> Option<Budget> {
        self.budgets.read().get(agent).copied()
    }

    fn named(&self, model: &str) -> Option<&ProviderPlan> {
        let by_name = self.plans.iter().find(|plan| plan.name == model);
        by_name.or_else(|| self.plans.iter().find(|plan| plan.model == model))
    }

    fn unknown(&self, model: &str) -> CallError {
        let names: Vec<&str> = self.plans.iter().map(|plan| plan.name.as_str()).collect();
        let message = format!("no provider is called {model:?}; there are: {}", names.join(", "));
        CallError::new(ErrorKind::InvalidArguments, message)
    }

    /// Asks one provider, again where it fails for a passing reason. The outer error ends the
    /// whole request, the inner one leaves it to the next provider.
    async fn ask(
        &self,
        caller: &Caller,
        wire: &Wire<'_>,
        client: &HttpClient,
        until: Instant,
    ) -> Result<Result<Value, Failure>, CallError> {
        self.again(wire.plan, until, || self.attempt(caller, wire, client, until)).await
    }

    /// Makes attempts as often as `plan` says, as [`Inner::ask`] has it.
    async fn again<T, A>(
        &self,
        plan: &ProviderPlan,
        until: Instant,
        attempt: impl Fn() -> A,
    ) -> Result<Result<T, Failure>, CallError>
    where
        A: Future<Output = Result<Result<T, Failure>, CallError>>,
    {
        let (mut made, mut before) = (0, None);
        loop {
            made += 1;
            let failure = match (attempt().await, before) {
                (Ok(Ok(answer)), _) => return Ok(Ok(answer)),
                (Ok(Err(failure)), _) => failure,
                // A quota leaves no room for another try: what the last one came to stands.
                (Err(_), Some(failure)) => return Ok(Err(failure)),
                (Err(error), None) => return Err(error),
            };
            let wait = plan.retry.delay_ms(made, 0).filter(|_| failure.passes);
            let wait = wait
                .map(|ms| Duration::from_millis(ms).max(failure.retry_after.unwrap_or_default()));
            let again = wait.and_then(|wait| tokio::time::Instant::now().checked_add(wait));
            match again.filter(|again| *again < until.into()) {
                Some(again) => tokio::time::sleep_until(again).await,
                None => return Ok(Err(failure)),
            }
            before = Some(failure);
        }
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

    async fn reserve(&self, caller: &Caller, wire: &Wire<'_>) -> Result<Reservation, CallError> {
        let (plan, size) = (wire.plan, &wire.size);
        // What is read beside the request may fill the model's window, whatever the request's own length.
        let window = match size.is_open && self.is_bounded(plan, caller) {
            true => plan.limits.max_context_window.unwrap_or(PROMPT_TOKENS_MAX),
            false => 0,
        };
        let ask = Ask {
            provider: plan.name.clone(),
            limits: plan.limits,
            prices: plan.prices,
            prompt_tokens: size.bytes.max(window),
            is_open: size.is_open,
            completion_tokens: size.completion_tokens,
            left_nano_usd: None,
        };
        let made = self.book.reserve(caller, ask, self.rates, self.budget(&caller.agent)).await;
        made.map_err(|mut error| {
            if window > 0 {
                let why = "; it refers to what stands elsewhere, which may have as many tokens as the model reads: the provider's `max_context_window`, or";
                error.message.push_str(&format!("{why} {PROMPT_TOKENS_MAX}"));
            }
            error
        })
    }

    /// Charges what the provider reports for texts of so many bytes, of the prompt and of the answer.
    async fn settle(
        &self,
        caller: &Caller,
        plan: &ProviderPlan,
        held: Reservation,
        reported: Option<Used>,
        (prompt_bytes, answer_bytes): (u64, u64),
    ) {
        let used = reported.map(|used| charged(&held, used, prompt_bytes, answer_bytes));
        if let (Some(told), Some(used)) = (self.told.get(), used) {
            told(&plan.name, used, plan.prices.cost_usd(used));
        }
        self.book.settle(caller, held, used).await;
    }

    /// Takes back what a failed request did not use.
    async fn give_back(&self, caller: &Caller, held: Reservation, sent: Sent) {
        match sent {
            Sent::No => self.book.release(caller, held).await,
            Sent::Refused => self.book.settle(caller, held, Some(Used::default())).await,
            // It may have been worked on: then it is spent.
            Sent::Perhaps => drop(held),
        }
    }
}

/// Asks the providers of `chain` in their order until one answers, each with an equal share of the time until
/// `deadline`. The outer error of `ask` ends it, the inner one leaves it to the next provider.
///
/// # Errors
/// That of `ask`, or that none answers; `data.busy` says whether the last one had too much to do, and
/// `data.retry_after_ms` for how long it wants to be left alone.
async fn first_of<'p, T, A>(
    caller: &Caller,
    chain: &[&'p ProviderPlan],
    deadline: Instant,
    ask: impl Fn(&'p ProviderPlan, Instant) -> A,
) -> Result<T, CallError>
where
    A: Future<Output = Result<Result<T, Failure>, CallError>>,
{
    let mut failures = Vec::new();
    for (index, plan) in chain.iter().enumerate() {
        let failure = match ask(plan, share(deadline, chain.len() - index)).await? {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let (provider, why) = (plan.name.as_str(), &failure.internal);
        tracing::warn!(caller = caller.tool, provider, "no completion: {why}");
        failures.push((provider, failure));
    }
    let last = failures.last().map(|(_, failure)| failure);
    let error = unavailable(&failures).with("busy", last.is_some_and(|last| last.is_busy));
    let patience = last.and_then(|last| last.retry_after).map(|patience| patience.as_millis());
    Err(match patience.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => error.with("retry_after_ms", ms),
        None => error,
    })
}

/// Returns what a completion is charged; a report of more than can be is logged.
fn charged(held: &Reservation, reported: Used, prompt_bytes: u64, answer_bytes: u64) -> Used {
    let used = held.charge(reported, prompt_bytes, answer_bytes);
    if used.prompt_tokens < reported.prompt_tokens
        || used.completion_tokens < reported.completion_tokens
    {
        let provider = held.provider();
        tracing::warn!(provider, "it reports {reported:?}, which cannot be; charged is {used:?}");
    }
    used
}

/// Says what a provider speaks, and where clients ask it.
fn speaks(plan: &ProviderPlan) -> String {
    let (name, protocol) = (&plan.name, plan.protocol.name());
    match Api::of(plan.protocol) {
        Some(api) => format!("`{name}` speaks `{protocol}`, which is asked at {}", api.path()),
        None => format!("`{name}` speaks `{protocol}`, which is not served"),
    }
}

/// Returns when the first of `askers` has used up an equal share of the time until `deadline`.
fn share(deadline: Instant, askers: usize) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + left / u32::try_from(askers).unwrap_or(u32::MAX).max(1)
}

fn unavailable(failures: &[(&str, Failure)]) -> CallError {
    let list = |say: fn(&Failure) -> &str| {
        let said = failures.iter().map(|(name, failure)| format!("`{name}` {}", say(failure)));
        said.collect::<Vec<_>>().join("; ")
    };
    let reasons = list(|failure| &failure.reason);
    if failures.iter().all(|(_, failure)| failure.untranslated) {
        return request::wrong(reasons);
    }
    let message = format!("no provider answers: {reasons}");
    CallError::new(ErrorKind::ProviderUnavailable, message)
        .with_internal(list(|failure| &failure.internal))
}
