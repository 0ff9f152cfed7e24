//! Which failures pass, and how long to wait before trying again.
//!
//! The waits are those of the protocol's runtime profile (section 5), where no definition of the
//! operator says more. Deliberately absent: waiting, which the host does, and luck, which is an
//! argument.

use serde::Deserialize;

use crate::error::{CallError, ErrorKind};
use crate::limits::{RETRY_ATTEMPTS_MAX, RETRY_DELAY_CEILING_MS, RETRY_DELAY_MS};

/// How the wait between two attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// Every wait is the first one.
    Constant,
    /// Every wait is a multiple of the one before, the double where nothing else is said.
    #[default]
    Exponential,
    /// Every wait is one first wait longer than the one before.
    Linear,
}

/// The failures that are worth another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOn {
    /// There was no room for the call, or a rate was used up.
    pub rate_limited: bool,
    /// An attempt took too long. It then gets no more than its share of the time that is left.
    pub timeout: bool,
    /// What is behind the host failed, or there was no room for an instance.
    pub unavailable: bool,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RetryOn {
    const DEFAULT: Self = Self { rate_limited: false, timeout: false, unavailable: true };

    /// Says whether a call that failed like this may succeed when it is made again. Refusals by
    /// policy and the failures of a tool itself do not pass.
    pub fn passes(self, error: &CallError) -> bool {
        let stage = error.data.get("stage").and_then(serde_json::Value::as_str);
        match (error.kind, stage) {
            (ErrorKind::ProviderUnavailable | ErrorKind::Upstream, _) => self.unavailable,
            (ErrorKind::Timeout, _) => self.timeout,
            (ErrorKind::Overloaded, Some("pool")) => self.unavailable || self.rate_limited,
            (ErrorKind::Overloaded, Some("queue" | "quota")) => self.rate_limited,
            _ => false,
        }
    }
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
    /// What an exponential wait is multiplied by, in thousandths.
    #[serde(skip)]
    pub multiplier_permille: u64,
    /// The longest wait, in milliseconds.
    #[serde(skip)]
    pub delay_max_ms: u64,
    /// How much of a wait luck may take off, in thousandths.
    #[serde(skip)]
    pub jitter_permille: u64,
    /// The failures that are worth it.
    #[serde(skip)]
    pub on: RetryOn,
}

/// From so many steps on every wait is the longest one.
const STEPS_MAX: u32 = 64;

impl RetryPlan {
    /// One attempt.
    pub const ONCE: Self = Self { max_attempts: 1, ..Self::DEFAULT };
    const DEFAULT: Self = Self {
        max_attempts: RETRY_ATTEMPTS_MAX as u64,
        backoff: Backoff::Exponential,
        initial_delay_ms: RETRY_DELAY_MS,
        multiplier_permille: 2_000,
        delay_max_ms: RETRY_DELAY_CEILING_MS,
        jitter_permille: 0,
        on: RetryOn::DEFAULT,
    };

    /// Returns the milliseconds to wait after `failed` attempts; nothing where that was the last one.
    /// `luck_permille` says how much of the jitter is taken off.
    pub fn delay_ms(&self, failed: u32, luck_permille: u64) -> Option<u64> {
        if failed == 0 || u64::from(failed) >= self.max_attempts {
            return None;
        }
        let first = self.initial_delay_ms;
        let delay = match self.backoff {
            Backoff::Constant => first,
            Backoff::Linear => first.saturating_mul(u64::from(failed)),
            Backoff::Exponential => (1..failed.min(STEPS_MAX)).fold(first, |delay, _| {
                (delay.saturating_mul(self.multiplier_permille) / 1_000).min(self.delay_max_ms)
            }),
        };
        let delay = delay.min(self.delay_max_ms);
        let luck = luck_permille.min(1_000).saturating_mul(self.jitter_permille.min(1_000));
        Some(delay - delay.saturating_mul(luck) / 1_000_000)
    }
}

impl Default for RetryPlan {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(backoff: Backoff) -> Vec<u64> {
        let plan = RetryPlan { max_attempts: 8, backoff, ..RetryPlan::default() };
        (1..).map_while(|failed| plan.delay_ms(failed, 1_000)).collect()
    }

    #[test]
    fn waits_grow_as_the_profile_says_up_to_the_ceiling() {
        assert_eq!(delays(Backoff::Constant), [1_000; 7]);
        assert_eq!(delays(Backoff::Linear), [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]);
        assert_eq!(
            delays(Backoff::Exponential),
            [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(RetryPlan::default().delay_ms(2, 0), Some(2_000));
        assert_eq!(RetryPlan::default().delay_ms(3, 0), None);
        assert_eq!(RetryPlan::ONCE.delay_ms(1, 0), None);
        let endless = RetryPlan { max_attempts: u64::MAX, ..RetryPlan::default() };
        assert_eq!(endless.delay_ms(u32::MAX - 1, 0), Some(30_000));
    }

    #[test]
    fn a_definition_sets_the_multiple_the_ceiling_and_how_much_luck_takes_off() {
        let plan = RetryPlan {
            max_attempts: 9,
            initial_delay_ms: 100,
            multiplier_permille: 1_500,
            delay_max_ms: 300,
            jitter_permille: 500,
            ..RetryPlan::default()
        };
        let delays = |luck| (1..=4).filter_map(|failed| plan.delay_ms(failed, luck)).collect();
        let (longest, shortest): (Vec<u64>, Vec<u64>) = (delays(0), delays(1_000));
        assert_eq!(longest, [100, 150, 225, 300]);
        assert_eq!(shortest, [50, 75, 113, 150]);
        assert_eq!(plan.delay_ms(1, u64::MAX), Some(50));
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let error = |kind| CallError::new(kind, "");
        let at = |stage| error(ErrorKind::Overloaded).with("stage", stage);
        let unstated = RetryOn::default();
        assert!(unstated.passes(&error(ErrorKind::Upstream)));
        assert!(unstated.passes(&error(ErrorKind::ProviderUnavailable)));
        assert!(unstated.passes(&at("pool")) && !unstated.passes(&at("quota")));
        assert!(!unstated.passes(&error(ErrorKind::Timeout)));
        let all = RetryOn { rate_limited: true, timeout: true, unavailable: true };
        assert!(all.passes(&error(ErrorKind::Timeout)) && all.passes(&at("quota")));
        assert!(!all.passes(&at("repair")));
        for kind in [
            ErrorKind::InvalidArguments,
            ErrorKind::Overloaded,
            ErrorKind::Policy,
            ErrorKind::ProviderQuota,
            ErrorKind::Quarantined,
            ErrorKind::Sandbox,
            ErrorKind::ToolFault,
            ErrorKind::Internal,
            ErrorKind::PeerFailed,
        ] {
            assert!(!all.passes(&error(kind)), "{kind:?}");
        }
    }
}
