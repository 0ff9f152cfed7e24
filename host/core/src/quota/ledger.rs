//! What providers were asked for: reserved before a request is sent, settled when it was answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::terms::{
    Ask, NANO_USD_PER_USD, Prices, ProviderLimits, QuotaLimit, Used, estimate_tokens, nano_usd,
};
use super::window::{MINUTE_MS, SECOND_MS, Window};
use crate::error::CallError;
use crate::limits::{COMPLETION_TOKENS_MAX, PROMPT_TOKENS_MAX};
use crate::policy::{Rates, Usage};

const DAY_MS: u64 = 86_400_000;

/// The accounts of all providers.
///
/// A reservation counts as spent from the moment it is made. Whoever loses one, because the call
/// was cancelled or the host was killed, has spent it: what may have been used is counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    accounts: BTreeMap<String, Account>,
}

/// What one provider was asked for: the whole of it, to be kept as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Days since the epoch, in UTC; the next two fields are of this day.
    day: u64,
    tokens: u64,
    cost_nano_usd: u64,
    requests: Window<SECOND_MS>,
    tokens_of_hour: Window<MINUTE_MS>,
}

/// The right to send one request. Deliberately not `Clone`: it is settled or released once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is neither settled nor released is spent"]
pub struct Reservation {
    provider: String,
    prices: Prices,
    held: Used,
    /// The most that is believed of a report.
    most: Used,
    at_ms: u64,
    day: u64,
}

impl Reservation {
    /// Returns whose it is.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns what is held for it until it is settled.
    pub const fn held(&self) -> Used {
        self.held
    }

    /// Returns what `used` of it costs, in billionths of a US dollar.
    pub const fn cost_nano_usd(&self, used: Used) -> u64 {
        self.prices.cost(used)
    }

    /// Returns when it was made, in milliseconds since the epoch.
    pub const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns the day it was made on, in days since 1970, UTC.
    pub const fn day(&self) -> u64 {
        self.day
    }

    /// Returns the tokens that the completion may have, which the request has to say.
    pub const fn completion_tokens(&self) -> u64 {
        self.held.completion_tokens
    }

    /// Returns what of a provider's report is charged, for texts of so many bytes: no less than
    /// [`estimate_tokens`] of them, so that nobody is let off by a provider that reports nothing;
    /// and no more than was reserved, or than an answer that is longer can have, so that no
    /// provider uses up what others share. A prompt of which the request is only a part, and an answer that
    /// nothing bounds, may have up to [`PROMPT_TOKENS_MAX`].
    pub fn charge(&self, reported: Used, prompt_bytes: u64, answer_bytes: u64) -> Used {
        let believed = |tokens: u64, bytes: u64, most: u64| {
            tokens.max(estimate_tokens(bytes)).min(most.max(bytes))
        };
        let Used { prompt_tokens, completion_tokens } = self.most;
        Used {
            prompt_tokens: believed(reported.prompt_tokens, prompt_bytes, prompt_tokens),
            completion_tokens: believed(
                reported.completion_tokens, answer_bytes, completion_tokens,
            ),
        }
    }
}

impl Ledger {
    /// Puts back the account of `provider` as it was kept.
    pub fn restore(&mut self, provider: &str, account: Account) {
        self.accounts.insert(provider.to_owned(), account);
    }

    /// Returns the account of `provider`.
    pub fn account(&self, provider: &str) -> Option<&Account> {
        self.accounts.get(provider)
    }

    /// Returns all accounts by provider, to be kept.
    pub fn accounts(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.accounts.iter().map(|(provider, account)| (provider.as_str(), account))
    }

    /// Reserves what a request may use at most: its prompt, and the completion it asks for. One
    /// that does not ask gets what the limits leave, at most [`COMPLETION_TOKENS_MAX`].
    ///
    /// # Errors
    /// The first limit that the request would exceed; nothing was counted then.
    pub fn reserve(
        &mut self,
        ask: &Ask,
        rates: &Rates,
        now_ms: u64,
    ) -> Result<Reservation, CallError> {
        // All of them: what is asked of one is held against what all had in the last hour.
        self.accounts.values_mut().for_each(|account| account.turn(now_ms));
        let completion_tokens = self.room(ask, rates, now_ms)?;
        let held = Used { prompt_tokens: ask.prompt_tokens, completion_tokens };
        // Nobody told the model when to end: any limit of its provider does, also one of requests.
        let is_endless = ask.completion_tokens.is_none()
            && ask.limits == ProviderLimits::default()
            && self.left(ask, rates, now_ms).is_empty();
        let most = |is_beyond: bool, held: u64| if is_beyond { PROMPT_TOKENS_MAX } else { held };
        let most = Used {
            prompt_tokens: most(ask.is_open, held.prompt_tokens),
            completion_tokens: most(is_endless, held.completion_tokens),
        };
        let account = self.accounts.entry(ask.provider.clone()).or_default();
        account.turn(now_ms);
        account.tokens = account.tokens.saturating_add(held.tokens());
        account.cost_nano_usd = account.cost_nano_usd.saturating_add(ask.prices.cost(held));
        account.requests.add(now_ms, 1);
        account.tokens_of_hour.add(now_ms, held.tokens());
        let (provider, prices, day) = (ask.provider.clone(), ask.prices, account.day);
        Ok(Reservation { provider, prices, held, most, at_ms: now_ms, day })
    }

    /// Replaces a reservation by what is [charged](Reservation::charge). It may be more than was
    /// reserved: then that much is counted, on the day of the reservation.
    pub fn settle(&mut self, reservation: Reservation, used: Used) {
        let Reservation { provider, prices, held, at_ms, day, .. } = reservation;
        let Some(account) = self.accounts.get_mut(&provider) else {
            return;
        };
        account.tokens_of_hour.correct(at_ms, held.tokens(), used.tokens());
        if account.day == day {
            account.tokens = replace(account.tokens, held.tokens(), used.tokens());
            account.cost_nano_usd =
                replace(account.cost_nano_usd, prices.cost(held), prices.cost(used));
        }
    }

    /// Takes a reservation back: nothing was sent.
    pub fn release(&mut self, reservation: Reservation) {
        if let Some(account) = self.accounts.get_mut(&reservation.provider) {
            account.requests.correct(reservation.at_ms, 1, 0);
        }
        self.settle(reservation, Used::default());
    }

    /// Returns what all providers together were asked for since midnight UTC.
    pub fn usage(&self, now_ms: u64) -> Usage {
        let cost = self.sum(now_ms, |account| account.cost_nano_usd);
        Usage {
            tokens_today: self.sum(now_ms, |account| account.tokens),
            cost_today_usd: cost as f64 / NANO_USD_PER_USD,
        }
    }

    /// Returns the tokens of all providers together in the last hour.
    pub fn tokens_last_hour(&self, now_ms: u64) -> u64 {
        let totals = self.accounts.values().map(|account| account.tokens_of_hour.total(now_ms));
        totals.fold(0, u64::saturating_add)
    }

    fn sum(&self, now_ms: u64, of: fn(&Account) -> u64) -> u64 {
        let current = self.accounts.values().filter(|account| !account.is_over(now_ms));
        current.map(of).fold(0, u64::saturating_add)
    }

    /// Returns the tokens that the completion of a request may have.
    fn room(&self, ask: &Ask, rates: &Rates, now_ms: u64) -> Result<u64, CallError> {
        self.check_requests(ask, now_ms)?;
        let wanted = least(ask);
        let mut room = ask.completion_tokens.unwrap_or(COMPLETION_TOKENS_MAX);
        for (limit, left) in self.left(ask, rates, now_ms) {
            if left < wanted {
                return Err(self.exceeded(ask, limit, now_ms));
            }
            room = room.min(left);
        }
        Ok(room)
    }

    fn check_requests(&self, ask: &Ask, now_ms: u64) -> Result<(), CallError> {
        let Some(max) = ask.limits.requests_per_minute else {
            return Ok(());
        };
        let made = self.account(&ask.provider).map_or(0, |account| account.requests.total(now_ms));
        if made < max {
            return Ok(());
        }
        Err(self.exceeded(ask, QuotaLimit::RequestsPerMinute, now_ms))
    }

    /// Returns how long a completion each limit leaves room for, beside the prompt.
    fn left(&self, ask: &Ask, rates: &Rates, now_ms: u64) -> Vec<(QuotaLimit, u64)> {
        let limits = &ask.limits;
        let today = self.account(&ask.provider).map_or(0, |account| account.tokens);
        let beside =
            |max: u64, used: u64| max.saturating_sub(used).saturating_sub(ask.prompt_tokens);
        let window = |max: u64| max.saturating_sub(estimate_tokens(ask.prompt_tokens));
        let hour = || self.tokens_last_hour(now_ms);
        let all = [
            (QuotaLimit::TokensPerRequest, limits.tokens_per_request.map(|max| beside(max, 0))),
            (QuotaLimit::ContextWindow, limits.max_context_window.map(window)),
            (QuotaLimit::TokensPerDay, limits.tokens_per_day.map(|max| beside(max, today))),
            (QuotaLimit::TokensPerHour, rates.tokens_per_hour.map(|max| beside(max, hour()))),
            (
                QuotaLimit::CostPerDay,
                rates.cost_per_day_usd.map(|usd| self.payable(ask, usd, now_ms)),
            ),
            (QuotaLimit::AgentBudget, ask.left_nano_usd.map(|left| affordable(ask, left))),
        ];
        all.into_iter().filter_map(|(limit, left)| Some((limit, left?))).collect()
    }

    /// Returns how long a completion the rest of the day's money pays.
    fn payable(&self, ask: &Ask, max_usd: f64, now_ms: u64) -> u64 {
        let spent = self.sum(now_ms, |account| account.cost_nano_usd);
        affordable(ask, nano_usd(max_usd).saturating_sub(spent))
    }

    fn exceeded(&self, ask: &Ask, limit: QuotaLimit, now_ms: u64) -> CallError {
        let account = self.account(&ask.provider);
        let retry_after_ms = match limit {
            QuotaLimit::RequestsPerMinute => {
                account.and_then(|account| account.requests.frees_in_ms(now_ms))
            }
            QuotaLimit::TokensPerHour => {
                let windows = self.accounts.values().map(|account| &account.tokens_of_hour);
                windows.filter_map(|window| window.frees_in_ms(now_ms)).min()
            }
            QuotaLimit::CostPerDay | QuotaLimit::TokensPerDay => Some(DAY_MS - now_ms % DAY_MS),
            QuotaLimit::AgentBudget | QuotaLimit::ContextWindow | QuotaLimit::TokensPerRequest => {
                None
            }
        };
        limit.exceeded(&ask.provider, retry_after_ms)
    }
}

impl Account {
    /// Begins a new day where one has begun. A clock that is set back over midnight does not begin
    /// the old day anew; one that is set back further takes along what was spent.
    fn turn(&mut self, now_ms: u64) {
        self.requests.turn(now_ms);
        self.tokens_of_hour.turn(now_ms);
        let today = now_ms / DAY_MS;
        if self.is_over(now_ms) {
            (self.day, self.tokens, self.cost_nano_usd) = (today, 0, 0);
        } else if today.saturating_add(1) < self.day {
            self.day = today;
        }
    }

    const fn is_over(&self, now_ms: u64) -> bool {
        now_ms / DAY_MS > self.day
    }
}

/// Returns how long a completion there has to be room for. It is one token at least, as whoever has room for
/// none may have none for the prompt; but for what uses nothing at all, a request and no more.
fn least(ask: &Ask) -> u64 {
    match (ask.prompt_tokens, ask.completion_tokens) {
        (0, Some(0)) => 0,
        (_, completion) => completion.unwrap_or(1).max(1),
    }
}

/// Returns how long a completion so much money pays, beside the prompt.
fn affordable(ask: &Ask, nano_usd: u64) -> u64 {
    let prompt = Used { prompt_tokens: ask.prompt_tokens, completion_tokens: 0 };
    match nano_usd.checked_sub(ask.prices.cost(prompt)) {
        // Nothing may be spent: not even on what is said to cost nothing.
        None | Some(0) => 0,
        Some(left) => left.checked_div(ask.prices.output_nano_usd).unwrap_or(u64::MAX),
    }
}

const fn replace(sum: u64, before: u64, after: u64) -> u64 {
    sum.saturating_sub(before).saturating_add(after)
}
