//! What the attempts of one call share: its time, and the word of the person who allowed it.

use std::time::{Duration, Instant};

use clawhost_core::error::CallError;
use clawhost_core::retry::RetryPlan;

/// The attempts of one call so far. Each is admitted anew, so that what changed meanwhile (a
/// rule, a quota, the component) binds it; a person is asked once about one tool and arguments.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: u32,
    plan: Option<RetryPlan>,
    ends_at: Option<Instant>,
    /// The digest of what a person has allowed.
    pub(super) approved: Option<String>,
}

impl Attempts {
    /// Counts an attempt of a tool with this plan.
    pub(super) fn begin(&mut self, plan: RetryPlan) {
        self.made += 1;
        self.plan = Some(plan);
    }

    /// Takes back an attempt that came to nothing before it ran.
    pub(super) fn unbegin(&mut self) {
        self.made = self.made.saturating_sub(1);
    }

    /// Starts the clock that all attempts share, with the first one that is admitted.
    pub(super) fn start_clock(&mut self, timeout: Duration) {
        self.ends_at.get_or_insert_with(|| Instant::now() + timeout);
    }

    /// Returns the time an attempt may have: what the caller gives, or what is left of it.
    pub(super) fn time_left(&self, asked: Option<Duration>) -> Option<Duration> {
        let left = self.ends_at.map(|end| end.saturating_duration_since(Instant::now()));
        asked.into_iter().chain(left).min()
    }

    /// Returns how many attempts were begun.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// Returns the time that this attempt may run: of one whose timeout passes, an equal share of
    /// what is left for all that may follow, and otherwise all of it.
    pub(super) fn share(&self) -> Option<Duration> {
        let plan = self.plan.filter(|plan| plan.on.timeout)?;
        let left = u32::try_from(plan.max_attempts).unwrap_or(u32::MAX);
        let left = left.saturating_sub(self.made).saturating_add(1);
        Some(self.time_left(None)? / left)
    }

    /// Returns how long to wait before the next attempt; nothing where `error` is final, the
    /// attempts are used up, or the wait would reach the end of the call's time.
    pub(super) fn next_in(&self, error: &CallError, luck_permille: u64) -> Option<Duration> {
        let plan = self.plan.filter(|plan| plan.on.passes(error))?;
        let delay = Duration::from_millis(plan.delay_ms(self.made, luck_permille)?);
        (self.time_left(None)? > delay).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::error::ErrorKind;

    use super::*;

    fn failing() -> CallError {
        CallError::new(ErrorKind::Upstream, "no")
    }

    #[test]
    fn passing_failures_are_tried_again_as_often_as_the_plan_says() {
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        for _ in 0..4 {
            attempts.begin(RetryPlan::default());
            attempts.start_clock(Duration::from_secs(60));
            waits.push(attempts.next_in(&failing(), 0).map(|wait| wait.as_millis()));
        }
        assert_eq!(waits, [Some(1_000), Some(2_000), None, None]);
    }

    #[test]
    fn a_wait_that_would_reach_the_deadline_is_not_begun() {
        let mut attempts = Attempts::default();
        attempts.begin(RetryPlan::default());
        attempts.start_clock(Duration::from_millis(900));
        assert_eq!(attempts.next_in(&failing(), 0), None);
        assert!(
            attempts.time_left(Some(Duration::from_secs(9))) <= Some(Duration::from_millis(900))
        );
    }

    #[test]
    fn what_does_not_pass_is_final() {
        let mut attempts = Attempts::default();
        attempts.begin(RetryPlan::default());
        attempts.start_clock(Duration::from_secs(60));
        for kind in [ErrorKind::Policy, ErrorKind::Timeout, ErrorKind::ProviderQuota] {
            assert_eq!(attempts.next_in(&CallError::new(kind, "no"), 0), None);
        }
    }

    #[test]
    fn attempts_whose_timeout_passes_share_the_time_and_others_have_all_of_it() {
        use clawhost_core::retry::RetryOn;
        let mut attempts = Attempts::default();
        let on = RetryOn { timeout: true, ..RetryOn::default() };
        attempts.begin(RetryPlan { on, ..RetryPlan::default() });
        attempts.start_clock(Duration::from_secs(90));
        let first = attempts.share().unwrap();
        assert!(first <= Duration::from_secs(30) && first > Duration::from_secs(29), "{first:?}");
        attempts.begin(RetryPlan { on, ..RetryPlan::default() });
        assert!(attempts.share().unwrap() > Duration::from_secs(44));
        attempts.begin(RetryPlan::default());
        assert_eq!(attempts.share(), None);
    }
}
