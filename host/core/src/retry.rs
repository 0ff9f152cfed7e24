//! Which failures pass, and how long to wait before trying again.
//!
//! The waits are those of the protocol's runtime profile (section 5). There is no jitter: the
//! callers of one host are few, and a plan that is always the same can be tested. Deliberately
//! absent: waiting, which the host does.

use serde::Deserialize;

use crate::error::{CallError, ErrorKind};
use crate::limits::{RETRY_ATTEMPTS_MAX, RETRY_DELAY_CEILING_MS, RETRY_DELAY_MS};

/// How the wait between two attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// Every wait is the first one.
    Constant,
    /// Every wait is twice the one before.
    #[default]
    Exponential,
    /// Every wait is one first wait longer than the one before.
    Linear,
}

/// How often something is tried, and how long it waits in between: the block `retry` of a
/// document, with the protocol's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RetryPlan {
    /// All attempts, the first one included.
    pub max_attempts: u64,
    /// How the wait grows.
    pub backoff: Backoff,
    /// The first wait, in milliseconds.
    pub initial_delay_ms: u64,
}

impl RetryPlan {
    /// One attempt.
    pub const ONCE: Self =
        Self { max_attempts: 1, backoff: Backoff::Constant, initial_delay_ms: RETRY_DELAY_MS };

    /// Returns the milliseconds to wait after `failed` attempts, at most
    /// [`RETRY_DELAY_CEILING_MS`]; nothing where that was the last one.
    pub fn delay_ms(&self, failed: u32) -> Option<u64> {
        if failed == 0 || u64::from(failed) >= self.max_attempts {
            return None;
        }
        let factor = match self.backoff {
            Backoff::Constant => 1,
            Backoff::Linear => u64::from(failed),
            Backoff::Exponential => 2_u64.saturating_pow(failed - 1),
        };
        Some(self.initial_delay_ms.saturating_mul(factor).min(RETRY_DELAY_CEILING_MS))
    }
}

impl Default for RetryPlan {
    fn default() -> Self {
        Self {
            max_attempts: u64::from(RETRY_ATTEMPTS_MAX),
            backoff: Backoff::Exponential,
            initial_delay_ms: RETRY_DELAY_MS,
        }
    }
}

/// Says whether a call that failed like this may succeed when it is made again: what is behind
/// the host failed, or there was no room for the call. Refusals, timeouts and the failures of a
/// tool itself do not pass.
pub fn is_transient(error: &CallError) -> bool {
    match error.kind {
        ErrorKind::ProviderUnavailable | ErrorKind::Upstream => true,
        ErrorKind::Overloaded => error.data.get("stage").is_some_and(|stage| stage == "pool"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(backoff: Backoff) -> Vec<u64> {
        let plan = RetryPlan { max_attempts: 8, backoff, ..RetryPlan::default() };
        (1..).map_while(|failed| plan.delay_ms(failed)).collect()
    }

    #[test]
    fn waits_grow_as_the_profile_says_up_to_the_ceiling() {
        assert_eq!(delays(Backoff::Constant), [1_000; 7]);
        assert_eq!(delays(Backoff::Linear), [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]);
        assert_eq!(
            delays(Backoff::Exponential),
            [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(RetryPlan::default().delay_ms(2), Some(2_000));
        assert_eq!(RetryPlan::default().delay_ms(3), None);
        assert_eq!(RetryPlan::ONCE.delay_ms(1), None);
        let endless = RetryPlan { max_attempts: u64::MAX, ..RetryPlan::default() };
        assert_eq!(endless.delay_ms(u32::MAX - 1), Some(30_000));
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let error = |kind| CallError::new(kind, "");
        assert!(is_transient(&error(ErrorKind::Upstream)));
        assert!(is_transient(&error(ErrorKind::ProviderUnavailable)));
        assert!(is_transient(&error(ErrorKind::Overloaded).with("stage", "pool")));
        assert!(!is_transient(&error(ErrorKind::Overloaded).with("stage", "quota")));
        for kind in [
            ErrorKind::Overloaded,
            ErrorKind::Policy,
            ErrorKind::ProviderQuota,
            ErrorKind::Sandbox,
            ErrorKind::Timeout,
            ErrorKind::ToolFault,
            ErrorKind::Internal,
            ErrorKind::PeerFailed,
        ] {
            assert!(!is_transient(&error(kind)), "{kind:?}");
        }
    }
}
