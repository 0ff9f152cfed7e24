//! Quarantine: which failures are a tool's own, when there are too many of one kind, and for how long
//! the tool then rests.
//!
//! What is told as the caller's mistake, what policy refused and what the host itself did wrong never
//! count. Arguments can make a tool fail all the same, so failures are counted for each caller, and a tool
//! rests for who met them: nobody takes it from another. Deliberately absent: keeping anything, and the
//! time, which is an argument.

mod signature;

pub use signature::{normalised, signature};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::catalog::{Origin, Tool};
use crate::error::{CallError, ErrorKind};
use crate::limits::{
    QUARANTINE_FAILURES_MAX, QUARANTINE_MS, QUARANTINE_MS_MAX, QUARANTINE_RETENTION_MS,
    QUARANTINE_WINDOW_MS,
};
use crate::reply::ToolReply;

/// `immune`: when a tool goes into quarantine, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmuneSettings {
    /// Whether there is any of this.
    pub enabled: bool,
    /// How often one failure has to happen within [`QUARANTINE_WINDOW_MS`].
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

/// A failure that is the tool's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is called, as in the record.
    pub code: &'static str,
    /// What the caller read.
    pub message: String,
}

/// Returns the failure of a call that ran, where it is the tool's own. `had_its_time` says that the
/// caller gave no less time than the tool has.
pub fn anomaly(outcome: &Result<ToolReply, CallError>, had_its_time: bool) -> Option<Anomaly> {
    match outcome {
        Ok(reply) => {
            let code = reply.error_kind.filter(|kind| is_own_fault(kind))?;
            Some(Anomaly { code, message: text(reply) })
        }
        Err(error) => {
            let counts = match error.kind {
                ErrorKind::Timeout => had_its_time,
                ErrorKind::ToolFault | ErrorKind::Upstream => true,
                _ => false,
            };
            counts.then(|| Anomaly { code: error.kind.name(), message: error.message.clone() })
        }
    }
}

/// A tool of our own world has other words for arguments than `execution-failed`. A program's exit code, a
/// function's error, and what a server or a service says of a call may be about them: those have no others.
fn is_own_fault(kind: &str) -> bool {
    matches!(kind, "execution-failed" | "invalid-result" | "postcondition" | "trap")
}

fn text(reply: &ToolReply) -> String {
    reply.texts().collect::<Vec<_>>().join(" ")
}

/// When a failure happened to whom.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct HitsByCaller(BTreeMap<String, Hits>);

impl HitsByCaller {
    /// Adds one of `caller`, forgets those before the window, and says whether it met `threshold`.
    pub fn add(&mut self, caller: &str, now_ms: i64, threshold: Option<u32>) -> bool {
        let is_too_many = self.0.entry(caller.to_owned()).or_default().add(now_ms, threshold);
        self.0.retain(|_, hits| hits.are_left(now_ms));
        is_too_many
    }
}

/// The last times at which a failure happened, oldest first: as many as any threshold needs.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Hits(Vec<i64>);

impl Hits {
    /// Forgets those before the window, and says whether any is left.
    fn are_left(&mut self, now_ms: i64) -> bool {
        let window = i64::try_from(QUARANTINE_WINDOW_MS).unwrap_or(i64::MAX);
        self.0.retain(|at| now_ms.saturating_sub(*at) < window);
        !self.0.is_empty()
    }

    /// Adds one, forgets those before the window, and says whether `threshold` is reached.
    fn add(&mut self, now_ms: i64, threshold: Option<u32>) -> bool {
        self.are_left(now_ms);
        self.0.push(now_ms);
        let Some(threshold) = threshold.and_then(|of| usize::try_from(of).ok()) else {
            self.0.clear();
            return false;
        };
        let more = self.0.len().saturating_sub(threshold.max(1));
        self.0.drain(..more);
        self.0.len() >= threshold
    }
}

/// Returns the time in quarantine after a trial that failed.
pub fn after_failed_trial(ttl_ms: i64) -> i64 {
    ttl_ms.saturating_mul(2).clamp(1, i64::try_from(QUARANTINE_MS_MAX).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    fn failed(kind: ErrorKind) -> Result<ToolReply, CallError> {
        Err(CallError::new(kind, "no"))
    }

    #[test]
    fn only_what_is_the_tools_own_counts() {
        let own = [ErrorKind::Timeout, ErrorKind::ToolFault, ErrorKind::Upstream];
        for kind in ErrorKind::ALL {
            assert_eq!(anomaly(&failed(kind), true).is_some(), own.contains(&kind), "{kind:?}");
        }
        for (kind, counts) in [
            ("trap", true),
            ("execution-failed", true),
            ("invalid-result", true),
            ("unchecked-result", false),
            ("postcondition", true),
            ("exit", false),
            ("file-not-found", false),
            ("function-error", false),
            ("invalid-args", false),
            ("invalid-path", false),
            ("not-found", false),
            ("permission-denied", false),
            ("server-error", false),
            ("service-error", false),
            ("timeout", false),
        ] {
            let reply = Ok(ToolReply::error(kind, "no"));
            assert_eq!(anomaly(&reply, true).is_some(), counts, "{kind}");
        }
        assert_eq!(anomaly(&Ok(ToolReply::default()), true), None);
    }

    #[test]
    fn a_caller_that_gives_a_tool_too_little_time_gets_it_into_no_quarantine() {
        assert_eq!(anomaly(&failed(ErrorKind::Timeout), false), None);
        assert!(anomaly(&failed(ErrorKind::Upstream), false).is_some());
    }

    #[test]
    fn as_many_as_the_threshold_within_the_window_are_too_many() {
        let mut hits = Hits::default();
        let added = [0, 1, 9].map(|minute| hits.add(minute * MINUTE_MS, Some(3)));
        assert_eq!(added, [false, false, true]);
        let mut spread = Hits::default();
        let added = [0, 1, 10, 11, 12].map(|minute| spread.add(minute * MINUTE_MS, Some(3)));
        assert_eq!(added, [false, false, false, false, true]);
        assert!(Hits::default().add(0, Some(1)));
    }

    #[test]
    fn each_caller_is_counted_alone_and_forgotten_in_time() {
        let mut hits = HitsByCaller::default();
        let added = ["a", "b", "a", "b", "a"].map(|caller| hits.add(caller, 0, Some(3)));
        assert_eq!(added, [false, false, false, false, true]);
        assert!(!hits.add("c", 10 * MINUTE_MS, Some(3)));
        assert_eq!(hits.0.keys().collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn no_more_times_are_kept_than_are_needed() {
        let mut hits = Hits::default();
        for at in 0..1_000 {
            hits.add(at, Some(3));
        }
        assert_eq!(hits.0, [997, 998, 999]);
        assert!(!hits.add(1_000, None) && hits.0.is_empty());
    }

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
