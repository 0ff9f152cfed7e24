//! A call's place among those that its principal may make in a minute, of all tools or of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::error::{CallError, Limit};
use clawhost_core::quota::CallRates;
use parking_lot::Mutex;

use crate::clock;

/// The calls of single tools, each counted by itself: the callers of one take no room of those of another.
#[derive(Debug, Default)]
pub(super) struct ToolRates(Mutex<BTreeMap<String, Arc<Mutex<CallRates>>>>);

impl ToolRates {
    /// Returns what counts the calls of `tool`.
    pub(super) fn of(&self, tool: &str) -> Arc<Mutex<CallRates>> {
        let none = || Arc::new(Mutex::new(CallRates::of(Limit::CallsPerMinute)));
        Arc::clone(self.0.lock().entry(tool.to_owned()).or_insert_with(none))
    }
}

/// A place, from before a person is asked until the call begins.
///
/// Dropped before, it is given back: a call that is refused, cancelled or admitted anew is none of its
/// minute.
#[derive(Debug)]
pub(super) struct RateHold {
    rates: Arc<Mutex<CallRates>>,
    principal: String,
    is_spent: bool,
}

impl RateHold {
    /// Takes a place of `principal`, who may make so many calls in a minute.
    ///
    /// # Errors
    /// As [`CallRates::hold`].
    pub(super) fn take(
        rates: &Arc<Mutex<CallRates>>,
        principal: &str,
        limit_per_minute: u64,
    ) -> Result<Self, CallError> {
        rates.lock().hold(principal, limit_per_minute, now_ms())?;
        let rates = Arc::clone(rates);
        Ok(Self { rates, principal: principal.to_owned(), is_spent: false })
    }

    /// Counts the call, which begins now.
    pub(super) fn spend(mut self) {
        self.is_spent = true;
        self.rates.lock().spend(&self.principal, now_ms());
    }
}

impl Drop for RateHold {
    fn drop(&mut self) {
        if !self.is_spent {
            self.rates.lock().release(&self.principal);
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clawhost_core::limits::CALL_RATES_PRINCIPALS_MAX;

    use super::*;

    #[test]
    fn the_callers_of_one_tool_take_no_room_of_those_of_another() {
        let all = ToolRates::default();
        let call =
            |tool, caller: &str| RateHold::take(&all.of(tool), caller, 1).map(RateHold::spend);
        for caller in 0..CALL_RATES_PRINCIPALS_MAX {
            call("a", &caller.to_string()).unwrap();
        }
        assert!(call("a", "new").is_err());
        assert!(call("b", "new").is_ok() && call("b", "0").is_ok());
        assert!(call("b", "new").is_err(), "it is counted");
    }

    #[test]
    fn a_place_is_given_back_unless_the_call_begins() {
        let rates = Arc::default();
        let first = RateHold::take(&rates, "me", 1).unwrap();
        assert!(RateHold::take(&rates, "me", 1).is_err());
        drop(first);
        RateHold::take(&rates, "me", 1).unwrap().spend();
        assert!(RateHold::take(&rates, "me", 1).is_err());
    }
}
