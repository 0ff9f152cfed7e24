//! What is asked of a provider, within which limits, at which price; and which limit said no.

use serde::Deserialize;

use crate::error::{CallError, ErrorKind, Limit};

/// What a provider's document allows. Absent is unlimited, zero is none.
///
/// All but the window are kept whatever the prompt is made of: until it is answered, a prompt
/// counts as [`Ask::prompt_tokens`], which is more than it can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct ProviderLimits {
    /// Tokens between two midnights UTC, of prompts and completions.
    pub tokens_per_day: Option<u64>,
    /// Tokens of one request, its completion included.
    pub tokens_per_request: Option<u64>,
    /// Requests in any 60 seconds.
    pub requests_per_minute: Option<u64>,
    /// Tokens the model can look at at once, its completion included. The provider keeps this one
    /// itself, so a prompt counts as [`estimate_tokens`] here.
    pub max_context_window: Option<u64>,
}

/// Billionths in a US dollar.
pub(crate) const NANO_USD_PER_USD: f64 = 1e9;

/// What one token costs, in billionths of a US dollar. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prices {
    /// One token of the prompt.
    pub input_nano_usd: u64,
    /// One token of the completion.
    pub output_nano_usd: u64,
}

/// A request that is about to be sent.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The provider's name.
    pub provider: String,
    /// What it allows.
    pub limits: ProviderLimits,
    /// What it costs.
    pub prices: Prices,
    /// The most tokens the prompt can have: the bytes of the request, as no token is shorter; and more
    /// where the request `is_open`.
    pub prompt_tokens: u64,
    /// Whether the prompt is more than the request: what a provider keeps, finds or loads is read too.
    pub is_open: bool,
    /// Tokens the completion may have; absent where the request does not say.
    pub completion_tokens: Option<u64>,
    /// What is left of the agent's own budget, in billionths of a US dollar; absent where it has none.
    pub left_nano_usd: Option<u64>,
}

/// What a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the completion.
    pub completion_tokens: u64,
}

/// One of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaLimit {
    /// [`Ask::left_nano_usd`].
    AgentBudget,
    /// [`cost_per_day_usd`](crate::policy::Rates::cost_per_day_usd).
    CostPerDay,
    /// [`ProviderLimits::max_context_window`].
    ContextWindow,
    /// [`ProviderLimits::requests_per_minute`].
    RequestsPerMinute,
    /// [`ProviderLimits::tokens_per_day`].
    TokensPerDay,
    /// [`tokens_per_hour`](crate::policy::Rates::tokens_per_hour).
    TokensPerHour,
    /// [`ProviderLimits::tokens_per_request`].
    TokensPerRequest,
}

/// Returns an amount in billionths of a US dollar, rounded, so that one which is written and read again
/// stays as it is; what is no number or below zero is nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub fn nano_usd(usd: f64) -> u64 {
    (usd * NANO_USD_PER_USD).round() as u64
}

/// Returns how many tokens a text of `bytes` has at least: one for four bytes, rounded up, which is
/// what English has; other scripts have more.
pub const fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

impl Prices {
    /// Returns the prices of tokens that cost this much a million, in US dollars; a fraction of a
    /// billionth is rounded up, and what is no number or below zero costs nothing.
    pub fn per_million_usd(input: f64, output: f64) -> Self {
        // A dollar a million is a thousand billionths a token. What a product is above the number that is meant
        // (16.1 times 1000 is 16100.000000000002) is no fraction. `as` saturates.
        const EXACT: f64 = 1.0 - 4.0 * f64::EPSILON;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let nano_usd = |usd: f64| (usd * 1_000.0 * EXACT).ceil() as u64;
        Self { input_nano_usd: nano_usd(input), output_nano_usd: nano_usd(output) }
    }

    /// Returns what `used` costs, in US dollars, for measurements; the ledger counts exactly.
    #[expect(clippy::cast_precision_loss, reason = "a measurement, not a bill")]
    pub fn cost_usd(self, used: Used) -> f64 {
        self.cost(used) as f64 / NANO_USD_PER_USD
    }

    pub(super) const fn cost(self, used: Used) -> u64 {
        let input = self.input_nano_usd.saturating_mul(used.prompt_tokens);
        input.saturating_add(self.output_nano_usd.saturating_mul(used.completion_tokens))
    }
}

impl Used {
    pub(super) const fn tokens(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

table! {
    /// Returns what `data.limit` says: the key of the document that states it.
    QuotaLimit::limit: Limit {
        AgentBudget: Limit::LimitUsd, CostPerDay: Limit::CostPerDay,
        ContextWindow: Limit::ContextWindow, RequestsPerMinute: Limit::RequestsPerMinute,
        TokensPerDay: Limit::TokensPerDay, TokensPerHour: Limit::TokensPerHour,
        TokensPerRequest: Limit::TokensPerRequest,
    }
}

impl QuotaLimit {
    /// Returns the refusal of a request to `provider`, with the milliseconds until there may be
    /// room again, where that is a matter of time.
    pub(super) fn exceeded(self, provider: &str, retry_after_ms: Option<u64>) -> CallError {
        let limit = self.limit();
        let message = match self {
            Self::AgentBudget => {
                "the request would exceed the agent's budget, `limit_usd`".to_owned()
            }
            _ => format!("the request would exceed `{limit}` of provider `{provider}`"),
        };
        let error = CallError::new(self.kind(), message)
            .with("stage", "provider")
            .with_limit(limit)
            .with("provider", provider);
        match retry_after_ms {
            Some(ms) => error.with("retry_after_ms", ms),
            None => error,
        }
    }

    /// A provider's limits have a code of their own; those of policies have the policies'.
    const fn kind(self) -> ErrorKind {
        match self {
            Self::AgentBudget | Self::CostPerDay | Self::TokensPerHour => ErrorKind::Overloaded,
            _ => ErrorKind::ProviderQuota,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_rounded_up_and_nonsense_costs_nothing() {
        let prices = Prices::per_million_usd(0.15, 0.000_1);
        assert_eq!((prices.input_nano_usd, prices.output_nano_usd), (150, 1));
        assert_eq!(
            prices.cost(Used { prompt_tokens: 1_000_000, completion_tokens: 2 }),
            150_000_002
        );
        let prices = Prices::per_million_usd(16.1, 4.03);
        assert_eq!((prices.input_nano_usd, prices.output_nano_usd), (16_100, 4_030));
        assert_eq!(Prices::per_million_usd(f64::NAN, -1.0), Prices::default());
        assert_eq!(Prices::per_million_usd(f64::INFINITY, 0.0).input_nano_usd, u64::MAX);
    }

    #[test]
    fn an_amount_is_the_same_when_it_was_written_and_read() {
        for amount in [1, 333_333_333, 4_350_000_001] {
            assert_eq!(nano_usd(amount as f64 / NANO_USD_PER_USD), amount);
        }
        assert_eq!([4.35, -1.0, f64::NAN].map(nano_usd), [4_350_000_000, 0, 0]);
    }

    #[test]
    fn an_estimate_is_rounded_up() {
        assert_eq!([0, 1, 4, 5].map(estimate_tokens), [0, 1, 1, 2]);
    }

    #[test]
    fn a_refusal_has_the_code_of_whoever_set_the_limit() {
        let code = |limit: QuotaLimit| {
            let error = limit.exceeded("p", None);
            // The gate's own `quota` says that nothing ran; a tool that asks a provider runs.
            assert_eq!(error.data["stage"], "provider");
            error.kind.code()
        };
        assert_eq!(code(QuotaLimit::TokensPerDay), -32021);
        assert_eq!(code(QuotaLimit::RequestsPerMinute), -32021);
        assert_eq!(code(QuotaLimit::TokensPerHour), -32011);
        assert_eq!(code(QuotaLimit::CostPerDay), -32011);
    }
}
