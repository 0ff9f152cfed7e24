//! What one agent may ask for, and spend, in a window of time that slides.

use crate::error::{CallError, ErrorKind, Limit};
use crate::limits::BUDGET_PIECE_MS;

/// What an agent may use. Absent is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Costs of completions, in billionths of a US dollar.
    pub limit_nano_usd: Option<u64>,
    /// Requests through the proxy.
    pub requests_max: Option<u64>,
    /// In which time, in milliseconds.
    pub window_ms: u64,
    /// What is too much is said aloud, and goes on.
    pub is_soft: bool,
}

/// What an agent used in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Requests.
    pub requests: u64,
    /// Costs, in billionths of a US dollar.
    pub nano_usd: u64,
    /// When the oldest piece of it began, in milliseconds since the epoch.
    pub oldest_ms: u64,
}

impl Budget {
    /// Says whether there is room for one more request of `agent`.
    ///
    /// # Errors
    /// -32011, and when there may be room again.
    pub fn check(&self, agent: &str, spent: &Spent, now_ms: u64) -> Result<(), CallError> {
        let limit = if self.requests_max.is_some_and(|max| spent.requests >= max) {
            Limit::MaxRequests
        } else if self.limit_nano_usd.is_some_and(|max| spent.nano_usd >= max) {
            Limit::LimitUsd
        } else {
            return Ok(());
        };
        let minutes = self.window_ms / BUDGET_PIECE_MS;
        let message = format!("the budget of `{agent}` is used up: `{limit}` in {minutes} minutes");
        let free_ms = spent.oldest_ms.saturating_add(self.window_ms + BUDGET_PIECE_MS);
        Err(CallError::new(ErrorKind::Overloaded, message)
            .with("stage", "budget")
            .with_limit(limit)
            .with("retry_after_ms", free_ms.saturating_sub(now_ms)))
    }

    /// Returns what may still be spent; nothing where no limit binds.
    pub fn left_nano_usd(&self, spent: &Spent) -> Option<u64> {
        let max = self.limit_nano_usd.filter(|_| !self.is_soft)?;
        Some(max.saturating_sub(spent.nano_usd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_when_it_is_used_up_and_says_when_it_frees() {
        let budget = Budget {
            limit_nano_usd: Some(10),
            requests_max: Some(2),
            window_ms: 3_600_000,
            is_soft: false,
        };
        let check = |requests, nano_usd| {
            let error =
                budget.check("ada", &Spent { requests, nano_usd, oldest_ms: 60_000 }, 120_000);
            error.map_err(|error| {
                (error.data["limit"].clone(), error.data["retry_after_ms"].clone())
            })
        };
        assert_eq!(check(1, 9), Ok(()));
        let wait = serde_json::json!(3_600_000);
        assert_eq!(check(2, 0), Err(("max_requests".into(), wait.clone())));
        assert_eq!(check(0, 10), Err(("limit_usd".into(), wait)));
        let spent = Spent { nano_usd: 4, ..Spent::default() };
        assert_eq!(budget.left_nano_usd(&spent), Some(6));
        assert_eq!(Budget { is_soft: true, ..budget }.left_nano_usd(&spent), None);
    }
}
