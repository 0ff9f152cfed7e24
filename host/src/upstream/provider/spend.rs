//! What a request may use, and what it is charged.

use clawhost_core::error::CallError;
use clawhost_core::limits::PROMPT_TOKENS_MAX;
use clawhost_core::manifest::ProviderPlan;
use clawhost_core::quota::{Ask, Reservation, Used};

use super::attempt::Sent;
use super::costs::Caller;
use super::providers::Inner;
use super::wire::Wire;

impl Inner {
    pub(super) async fn reserve(
        &self,
        caller: &Caller,
        wire: &Wire<'_>,
    ) -> Result<Reservation, CallError> {
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
    pub(super) async fn settle(
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
    pub(super) async fn give_back(&self, caller: &Caller, held: Reservation, sent: Sent) {
        match sent {
            Sent::No => self.book.release(caller, held).await,
            Sent::Refused => self.book.settle(caller, held, Some(Used::default())).await,
            // It may have been worked on: then it is spent.
            Sent::Perhaps => drop(held),
        }
    }
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
