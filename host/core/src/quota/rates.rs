//! Calls a minute, of each principal by itself.

use std::collections::BTreeMap;

use super::window::{SECOND_MS, Window};
use crate::error::{CallError, ErrorKind, Limit};
use crate::limits::CALL_RATES_PRINCIPALS_MAX;

/// Counts the calls of each principal that began in the last minute, and those that are to begin.
///
/// A call holds its place from before a person is asked until it begins: however many are approved at
/// once, no more begin in a minute than may, and none was approved in vain.
#[derive(Debug, Clone)]
pub struct CallRates {
    /// Which bound a refusal names.
    bound: Limit,
    principals: BTreeMap<String, Calls>,
}

impl Default for CallRates {
    fn default() -> Self {
        Self::of(Limit::ToolCallsPerMinute)
    }
}

/// The calls of one principal.
#[derive(Debug, Clone, Default)]
struct Calls {
    begun: Window<SECOND_MS>,
    /// How many were admitted, or are being asked about, and have not begun.
    held: u64,
}

impl CallRates {
    /// Counts for that bound.
    pub const fn of(bound: Limit) -> Self {
        Self { bound, principals: BTreeMap::new() }
    }

    /// Holds a place for a call of `principal`, which may make `limit_per_minute` of them in any 60
    /// seconds. It is held until [`CallRates::spend`] or [`CallRates::release`]. A call that is refused
    /// holds none.
    ///
    /// # Errors
    /// -32011 with `data.stage` `quota` and the bound as `data.limit` where they are used up, and
    /// `CALL_RATES_PRINCIPALS_MAX` where more principals than that call at once.
    pub fn hold(
        &mut self,
        principal: &str,
        limit_per_minute: u64,
        now_ms: u64,
    ) -> Result<(), CallError> {
        let bound = self.bound;
        let Some(calls) = self.calls(principal, now_ms) else {
            return Err(exceeded(
                Limit::CallRatesPrincipals,
                "too many callers at once; try again later",
                None,
            ));
        };
        calls.begun.turn(now_ms);
        if calls.begun.total(now_ms).saturating_add(calls.held) >= limit_per_minute {
            return Err(calls.used_up(bound, limit_per_minute, now_ms));
        }
        calls.held += 1;
        Ok(())
    }

    /// Counts a call of `principal` that held a place, and begins at `now_ms`.
    pub fn spend(&mut self, principal: &str, now_ms: u64) {
        if let Some(calls) = self.principals.get_mut(principal) {
            calls.held = calls.held.saturating_sub(1);
            calls.begun.add(now_ms, 1);
        }
    }

    /// Gives back the place of a call of `principal` that does not begin.
    pub fn release(&mut self, principal: &str) {
        if let Some(calls) = self.principals.get_mut(principal) {
            calls.held = calls.held.saturating_sub(1);
        }
    }

    /// Returns the calls of `principal`; nothing where there is no room for another.
    fn calls(&mut self, principal: &str, now_ms: u64) -> Option<&mut Calls> {
        let known = self.principals.contains_key(principal);
        if !known && self.principals.len() >= CALL_RATES_PRINCIPALS_MAX {
            self.principals.retain(|_, calls| {
                calls.begun.turn(now_ms);
                calls.held > 0 || !calls.begun.is_idle(now_ms)
            });
        }
        let room = known || self.principals.len() < CALL_RATES_PRINCIPALS_MAX;
        room.then(|| self.principals.entry(principal.to_owned()).or_default())
    }
}

impl Calls {
    /// Returns the refusal of one more. Nobody knows when one that waits for a person begins.
    fn used_up(&self, bound: Limit, limit_per_minute: u64, now_ms: u64) -> CallError {
        let of = if bound == Limit::CallsPerMinute { "calls of this tool" } else { "tool calls" };
        let waiting = match self.held {
            0 => String::new(),
            held => format!(", with {held} that wait to begin"),
        };
        let message = format!("more than {limit_per_minute} {of} a minute{waiting}");
        exceeded(bound, &message, self.begun.frees_in_ms(now_ms))
    }
}

fn exceeded(limit: Limit, message: &str, retry_after_ms: Option<u64>) -> CallError {
    let error =
        CallError::new(ErrorKind::Overloaded, message).with("stage", "quota").with_limit(limit);
    match retry_after_ms {
        Some(ms) => error.with("retry_after_ms", ms),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a call that begins at once.
    fn call(
        rates: &mut CallRates,
        principal: &str,
        limit: u64,
        now_ms: u64,
    ) -> Result<(), CallError> {
        rates.hold(principal, limit, now_ms)?;
        rates.spend(principal, now_ms);
        Ok(())
    }

    #[test]
    fn a_place_that_is_given_back_leaves_room_for_another() {
        let mut rates = CallRates::default();
        call(&mut rates, "a", 2, 0).unwrap();
        rates.hold("a", 2, 5_000).unwrap();
        assert!(rates.hold("a", 2, 6_000).is_err());
        rates.release("a");
        rates.release("nobody");
        assert!(rates.hold("a", 2, 6_000).is_ok());
        assert!(rates.hold("a", 2, 6_000).is_err());
    }

    #[test]
    fn calls_that_wait_for_longer_than_a_minute_and_begin_at_once_are_no_more_than_may() {
        let mut rates = CallRates::default();
        rates.hold("a", 2, 0).unwrap();
        rates.hold("a", 2, 0).unwrap();
        let refused = rates.hold("a", 2, 300_000).unwrap_err();
        assert_eq!(refused.message, "more than 2 tool calls a minute, with 2 that wait to begin");
        assert!(!refused.data.contains_key("retry_after_ms"), "{refused:?}");
        rates.spend("a", 300_000);
        rates.spend("a", 300_000);
        assert!(rates.hold("a", 2, 359_999).is_err());
        assert!(rates.hold("a", 2, 361_000).is_ok());
    }

    #[test]
    fn whoever_waits_keeps_its_place_when_others_make_room() {
        let mut rates = CallRates::default();
        rates.hold("waits", 1, 0).unwrap();
        for n in 1..CALL_RATES_PRINCIPALS_MAX {
            call(&mut rates, &n.to_string(), 1, 0).unwrap();
        }
        assert!(rates.hold("new", 1, 120_000).is_ok());
        assert!(rates.hold("waits", 1, 120_000).is_err());
    }

    #[test]
    fn each_principal_has_its_own_minute() {
        let mut rates = CallRates::default();
        assert!(call(&mut rates, "a", 2, 0).is_ok());
        assert!(call(&mut rates, "a", 2, 30_000).is_ok());
        let error = call(&mut rates, "a", 2, 59_999).unwrap_err();
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Overloaded, -32011));
        assert_eq!(error.data["stage"], "quota");
        assert_eq!(error.data["limit"], "tool_calls_per_minute");
        assert_eq!(error.data["retry_after_ms"], 1_001);
        assert!(call(&mut rates, "b", 2, 59_999).is_ok());
        // What was refused did not count: the first call has left, the second has not.
        assert!(call(&mut rates, "a", 2, 61_000).is_ok());
        assert!(call(&mut rates, "a", 2, 61_000).is_err());
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nobody_for_longer_than_the_window() {
        let mut rates = CallRates::default();
        for n in 0..CALL_RATES_PRINCIPALS_MAX {
            call(&mut rates, &n.to_string(), 1, 10_000_000).unwrap();
        }
        assert!(call(&mut rates, "0", 1, 5_000).is_err());
        assert!(call(&mut rates, "new", 1, 5_000).is_err());
        assert!(call(&mut rates, "0", 1, 66_000).is_ok());
        assert!(call(&mut rates, "new", 1, 66_000).is_ok());
    }

    #[test]
    fn calls_of_one_tool_are_told_as_such() {
        let mut rates = CallRates::of(Limit::CallsPerMinute);
        call(&mut rates, "a", 1, 0).unwrap();
        let error = call(&mut rates, "a", 1, 0).unwrap_err();
        assert_eq!(error.message, "more than 1 calls of this tool a minute");
        assert_eq!(error.data["limit"], "rate_policy.calls_per_minute");
    }

    #[test]
    fn zero_means_none() {
        assert!(CallRates::default().hold("a", 0, 1).is_err());
    }

    #[test]
    fn principals_that_stopped_calling_make_room_for_others() {
        let mut rates = CallRates::default();
        for n in 0..CALL_RATES_PRINCIPALS_MAX {
            call(&mut rates, &n.to_string(), 1, 0).unwrap();
        }
        assert!(call(&mut rates, "new", 1, 0).is_err());
        assert!(call(&mut rates, "new", 1, 120_000).is_ok());
        assert_eq!(rates.principals.len(), 1);
    }
}
