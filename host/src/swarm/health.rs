//! Agents that failed too often in a row, and how long they get no more work.

use std::collections::BTreeMap;

use clawhost_core::manifest::Breaker;

/// What is known of the agents of one swarm.
#[derive(Debug, Default)]
pub(super) struct Health(BTreeMap<String, Record>);

#[derive(Debug, Default)]
struct Record {
    failures: u64,
    broken_until_ms: i64,
}

impl Health {
    /// Says whether `name` gets no work now.
    pub(super) fn is_broken(&self, name: &str, now_ms: i64) -> bool {
        self.0.get(name).is_some_and(|record| now_ms < record.broken_until_ms)
    }

    /// Counts a failure; without a breaker, nothing comes of it.
    pub(super) fn failed(&mut self, name: &str, breaker: Option<Breaker>, now_ms: i64) {
        let Some(breaker) = breaker else { return };
        let record = self.0.entry(name.to_owned()).or_default();
        record.failures += 1;
        if record.failures >= breaker.failures {
            let reset = i64::try_from(breaker.reset.as_millis()).unwrap_or(i64::MAX);
            *record = Record { failures: 0, broken_until_ms: now_ms.saturating_add(reset) };
        }
    }

    /// Forgets what went wrong before.
    pub(super) fn succeeded(&mut self, name: &str) {
        self.0.remove(name);
    }
}
