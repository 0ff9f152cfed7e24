//! Calls a minute, of each principal by itself.

use std::collections::BTreeMap;

use super::window::{SECOND_MS, Window};
use crate::error::{CallError, ErrorKind};
use crate::limits::CALL_RATES_PRINCIPALS_MAX;

/// Counts the calls of each principal over the last minute.
#[derive(Debug, Clone, Default)]
pub struct CallRates {
    principals: BTreeMap<String, Window<SECOND_MS>>,
}

impl CallRates {
    /// Counts a call of `principal`, which may make `limit_per_minute` of them in any 60 seconds.
    /// A call that is refused is not counted.
    ///
    /// # Errors
    /// -32011 with `data.stage` `quota` and `data.limit` `tool_calls_per_minute`, where they are
    /// used up, or where more principals than [`CALL_RATES_PRINCIPALS_MAX`] call at once.
    pub fn take(
        &mut self,
        principal: &str,
        limit_per_minute: u64,
        now_ms: u64,
    ) -> Result<(), CallError> {
        self.open(principal, limit_per_minute, now_ms)?.add(now_ms, 1);
        Ok(())
    }

    /// Takes back a call of `principal` that was counted at `at_ms`.
    pub fn give_back(&mut self, principal: &str, at_ms: u64) {
        if let Some(calls) = self.principals.get_mut(principal) {
            calls.correct(at_ms, 1, 0);
        }
    }

    /// Says whether [`CallRates::take`] would succeed now; counts nothing.
    ///
    /// # Errors
    /// As [`CallRates::take`].
    pub fn left(
        &mut self,
        principal: &str,
        limit_per_minute: u64,
        now_ms: u64,
    ) -> Result<(), CallError> {
        self.open(principal, limit_per_minute, now_ms).map(|_| ())
    }

    /// Returns the window of `principal`, in which there is room for a call.
    fn open(
        &mut self,
        principal: &str,
        limit_per_minute: u64,
        now_ms: u64,
    ) -> Result<&mut Window<SECOND_MS>, CallError> {
        let Some(calls) = self.window(principal, now_ms) else {
            return Err(exceeded("too many callers at once; try again later", None));
        };
        calls.turn(now_ms);
        if calls.total(now_ms) >= limit_per_minute {
            let message = format!("more than {limit_per_minute} tool calls a minute");
            return Err(exceeded(&message, calls.frees_in_ms(now_ms)));
        }
        Ok(calls)
    }

    /// Returns the window of `principal`; nothing where there is no room for another.
    fn window(&mut self, principal: &str, now_ms: u64) -> Option<&mut Window<SECOND_MS>> {
        let known = self.principals.contains_key(principal);
        if !known && self.principals.len() >= CALL_RATES_PRINCIPALS_MAX {
            self.principals.retain(|_, calls| {
                calls.turn(now_ms);
                !calls.is_idle(now_ms)
            });
        }
        let room = known || self.principals.len() < CALL_RATES_PRINCIPALS_MAX;
        room.then(|| self.principals.entry(principal.to_owned()).or_default())
    }
}

fn exceeded(message: &str, retry_after_ms: Option<u64>) -> CallError {
    let error = CallError::new(ErrorKind::Overloaded, message)
        .with("stage", "quota")
        .with("limit", "tool_calls_per_minute");
    match retry_after_ms {
        Some(ms) => error.with("retry_after_ms", ms),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_what_is_left_counts_nothing() {
        let mut rates = CallRates::default();
        for _ in 0..3 {
            assert!(rates.left("a", 1, 0).is_ok());
        }
        assert!(rates.take("a", 1, 0).is_ok());
        assert_eq!(rates.left("a", 1, 0), rates.take("a", 1, 0));
        assert!(rates.left("a", 1, 0).is_err());
    }

    #[test]
    fn a_call_that_is_taken_back_leaves_room_for_another() {
        let mut rates = CallRates::default();
        rates.take("a", 2, 0).unwrap();
        rates.take("a", 2, 5_000).unwrap();
        rates.give_back("a", 5_000);
        rates.give_back("nobody", 5_000);
        assert!(rates.take("a", 2, 6_000).is_ok());
        assert!(rates.take("a", 2, 6_000).is_err());
    }

    #[test]
    fn each_principal_has_its_own_minute() {
        let mut rates = CallRates::default();
        assert!(rates.take("a", 2, 0).is_ok());
        assert!(rates.take("a", 2, 30_000).is_ok());
        let error = rates.take("a", 2, 59_999).unwrap_err();
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Overloaded, -32011));
        assert_eq!(error.data["stage"], "quota");
        assert_eq!(error.data["limit"], "tool_calls_per_minute");
        assert_eq!(error.data["retry_after_ms"], 1_001);
        assert!(rates.take("b", 2, 59_999).is_ok());
        // What was refused did not count: the first call has left, the second has not.
        assert!(rates.take("a", 2, 61_000).is_ok());
        assert!(rates.take("a", 2, 61_000).is_err());
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nobody_for_longer_than_the_window() {
        let mut rates = CallRates::default();
        for n in 0..CALL_RATES_PRINCIPALS_MAX {
            rates.take(&n.to_string(), 1, 10_000_000).unwrap();
        }
        assert!(rates.take("0", 1, 5_000).is_err());
        assert!(rates.take("new", 1, 5_000).is_err());
        assert!(rates.take("0", 1, 66_000).is_ok());
        assert!(rates.take("new", 1, 66_000).is_ok());
    }

    #[test]
    fn zero_means_none() {
        assert!(CallRates::default().take("a", 0, 1).is_err());
    }

    #[test]
    fn principals_that_stopped_calling_make_room_for_others() {
        let mut rates = CallRates::default();
        for n in 0..CALL_RATES_PRINCIPALS_MAX {
            rates.take(&n.to_string(), 1, 0).unwrap();
        }
        assert!(rates.take("new", 1, 0).is_err());
        assert!(rates.take("new", 1, 120_000).is_ok());
        assert_eq!(rates.principals.len(), 1);
    }
}
