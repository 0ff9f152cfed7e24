//! When a tool goes into quarantine, and for how long.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::catalog::{Origin, Tool};
use crate::limits::{
    QUARANTINE_FAILURES_MAX, QUARANTINE_MS, QUARANTINE_MS_MAX, QUARANTINE_RETENTION_MS,
};

/// `immune`: when a tool goes into quarantine, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmuneSettings {
    /// Whether there is any of this.
    pub enabled: bool,
    /// How often one failure has to happen within [`crate::limits::QUARANTINE_WINDOW_MS`].
    pub threshold: u32,
    /// The same for single tools, by CKP name.
    pub tool_thresholds: BTreeMap<String, u32>,
    /// The tools that are only watched, by CKP name.
    pub no_auto: Vec<String>,
    /// How long the first quarantine of a tool lasts.
    pub ttl: Duration,
    /// How long failures are remembered that did not happen again.
    pub retention: Duration,
}

impl Default for ImmuneSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: QUARANTINE_FAILURES_MAX,
            tool_thresholds: BTreeMap::new(),
            no_auto: Vec::new(),
            ttl: Duration::from_millis(QUARANTINE_MS),
            retention: Duration::from_millis(QUARANTINE_RETENTION_MS),
        }
    }
}

impl ImmuneSettings {
    /// Returns how many failures of one kind put a tool into quarantine; nothing where none do. What a
    /// built-in tool does is what its arguments say, and what a composite does is what its steps do, so
    /// none do there unless it has a threshold of its own.
    pub fn threshold(&self, tool: &Tool) -> Option<u32> {
        let is_built_in =
            matches!(tool.origin, Origin::BuiltIn { .. } | Origin::Composite { .. } | Origin::Own);
        self.threshold_of(&tool.names(), is_built_in)
    }

    fn threshold_of(&self, names: &[String], is_built_in: bool) -> Option<u32> {
        if names.iter().any(|name| self.no_auto.contains(name)) {
            return None;
        }
        let own = names.iter().find_map(|name| self.tool_thresholds.get(name).copied());
        own.or_else(|| (!is_built_in).then_some(self.threshold))
    }
}

/// Returns the time in quarantine after a trial that failed.
pub fn after_failed_trial(ttl_ms: i64) -> i64 {
    ttl_ms.saturating_mul(2).clamp(1, i64::try_from(QUARANTINE_MS_MAX).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_says_which_tools_only_are_watched() {
        let settings = ImmuneSettings {
            tool_thresholds: [("a", 1), ("b", 2)].map(|(of, n)| (of.to_owned(), n)).into(),
            no_auto: vec!["b".to_owned()],
            ..ImmuneSettings::default()
        };
        let threshold = |names: [&str; 2], is_built_in| {
            settings.threshold_of(&names.map(str::to_owned), is_built_in)
        };
        assert_eq!(threshold(["x", "a"], true), Some(1));
        assert_eq!(threshold(["x", "b"], false), None);
        assert_eq!(threshold(["c", "c"], false), Some(3));
        assert_eq!(threshold(["c", "c"], true), None);
    }

    #[test]
    fn each_failed_trial_doubles_the_time_up_to_a_day() {
        let hour = i64::try_from(QUARANTINE_MS).unwrap();
        let times: Vec<i64> =
            std::iter::successors(Some(hour), |ttl| Some(after_failed_trial(*ttl)))
                .take(7)
                .map(|ttl| ttl / hour)
                .collect();
        assert_eq!(times, [1, 2, 4, 8, 16, 24, 24]);
        assert_eq!(after_failed_trial(i64::MAX), 24 * hour);
    }
}
