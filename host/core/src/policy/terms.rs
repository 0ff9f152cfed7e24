//! What policies say beside their rules: how much, and what is recorded. The policies of a
//! manifest hold together, so the stricter of two bounds counts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

/// How much may happen; nothing where no policy says so.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Rates {
    /// Calls of tools, by one principal, in a minute.
    pub tool_calls_per_minute: Option<u64>,
    /// Tokens that providers read and write in an hour.
    pub tokens_per_hour: Option<u64>,
    /// What providers cost in a day (UTC), in dollars.
    pub cost_per_day_usd: Option<f64>,
}

impl Rates {
    /// Returns the lesser of each bound.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        let costs = self.cost_per_day_usd.into_iter().chain(other.cost_per_day_usd);
        Self {
            tool_calls_per_minute: least(self.tool_calls_per_minute, other.tool_calls_per_minute),
            tokens_per_hour: least(self.tokens_per_hour, other.tokens_per_hour),
            cost_per_day_usd: costs.min_by(f64::total_cmp),
        }
    }
}

/// Where records go beside the chain in the state folder, which is always written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// Nowhere else: the chain is a file.
    File,
    /// A table of the store.
    Sqlite,
    /// The system's log.
    Syslog,
    /// An address that is told.
    Webhook,
}

/// What is recorded of a call beside that it happened. The default is the least.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditTerms {
    /// The arguments, not only their digest: some policy says so.
    pub log_inputs: bool,
    /// The result, not only its digest: some policy says so.
    pub log_outputs: bool,
    /// Who was asked for approval, and what the answer was: some policy says so.
    pub log_approvals: bool,
    /// How long records are kept: the longest that any policy says, for ever where none does.
    pub retention: Option<Duration>,
    /// Everywhere that any policy sends them.
    pub destinations: BTreeSet<Destination>,
}

impl AuditTerms {
    /// Returns terms under which both are kept: nothing that one wants recorded is missing, and
    /// nothing goes before it says so.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.destinations.extend(other.destinations);
        Self {
            log_inputs: self.log_inputs || other.log_inputs,
            log_outputs: self.log_outputs || other.log_outputs,
            log_approvals: self.log_approvals || other.log_approvals,
            retention: self.retention.into_iter().chain(other.retention).max(),
            destinations: self.destinations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_of_each_rate_holds() {
        let one = Rates {
            tool_calls_per_minute: Some(30),
            cost_per_day_usd: Some(2.5),
            ..Rates::default()
        };
        let two = Rates {
            tool_calls_per_minute: Some(60),
            tokens_per_hour: Some(0),
            cost_per_day_usd: Some(1.0),
        };
        let both = Rates {
            tool_calls_per_minute: Some(30),
            tokens_per_hour: Some(0),
            cost_per_day_usd: Some(1.0),
        };
        assert_eq!(one.and(two), both);
        assert_eq!(two.and(one), both);
        assert_eq!(Rates::default().and(one), one);
    }

    #[test]
    fn everything_is_recorded_that_any_policy_wants() {
        let day = Duration::from_secs(86_400);
        let one = AuditTerms {
            log_inputs: true,
            retention: Some(day),
            destinations: BTreeSet::from([Destination::File]),
            ..AuditTerms::default()
        };
        let two = AuditTerms {
            log_approvals: true,
            retention: Some(90 * day),
            destinations: BTreeSet::from([Destination::Syslog]),
            ..AuditTerms::default()
        };
        let both = AuditTerms {
            log_inputs: true,
            log_outputs: false,
            log_approvals: true,
            retention: Some(90 * day),
            destinations: BTreeSet::from([Destination::File, Destination::Syslog]),
        };
        assert_eq!(one.clone().and(two.clone()), both);
        assert_eq!(two.and(one), both);
    }
}
