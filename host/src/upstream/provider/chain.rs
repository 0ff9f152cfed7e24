//! Who is asked, in which order, how often, and for how long.

use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::ProviderPlan;

use super::attempt::Failure;
use super::costs::Caller;
use super::providers::Inner;
use super::request;
use crate::clock;

impl Inner {
    /// Returns who is asked, in order: the provider that is meant, and its fallbacks.
    pub(super) fn chain(&self, model: Option<&str>) -> Result<Vec<&ProviderPlan>, CallError> {
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

    /// Makes attempts as often as `plan` says, as [`Inner::ask`] has it.
    pub(super) async fn again<T, A>(
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
}

/// Asks the providers of `chain` in their order until one answers, each with an equal share of the time until
/// `deadline`. The outer error of `ask` ends it, the inner one leaves it to the next provider.
///
/// # Errors
/// That of `ask`, or that none answers; `data.busy` says whether the last one had too much to do, and
/// `data.retry_after_ms` for how long it wants to be left alone.
pub(super) async fn first_of<'p, T, A>(
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
    Err(match last.and_then(|last| last.retry_after) {
        Some(patience) => error.with("retry_after_ms", clock::whole_ms(patience)),
        None => error,
    })
}

/// Returns when the first of `askers` has used up an equal share of the time until `deadline`.
fn share(deadline: Instant, askers: usize) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + left / u32::try_from(askers).unwrap_or(u32::MAX).max(1)
}

pub(super) fn unavailable(failures: &[(&str, Failure)]) -> CallError {
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
