//! When there are too many failures of one kind.

use std::collections::BTreeMap;

use crate::limits::QUARANTINE_WINDOW_MS;

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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

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
}
