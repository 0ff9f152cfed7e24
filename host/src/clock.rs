//! The time of day, which only this module asks the system for.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};

/// Returns milliseconds since 1970, UTC; zero where the system's clock stands before that.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the whole milliseconds of `time`.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns when `time` from `now_ms` is over.
pub(crate) fn after_ms(now_ms: i64, time: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Returns milliseconds since 1970 as RFC 3339 has them, in UTC.
pub(crate) fn rfc3339(ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(ms).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns the milliseconds since 1970, UTC, of a time as RFC 3339 has it.
pub(crate) fn read_rfc3339(time: &str) -> Option<i64> {
    Some(DateTime::parse_from_rfc3339(time).ok()?.timestamp_millis())
}

/// Says what time it is: the system's time of day, one that nobody sets, or a test's. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    pub(crate) fn system() -> Self {
        Self(Arc::new(now_ms))
    }

    /// Returns a clock that counts from zero, whatever the time of day is set to: for what may last so long.
    pub(crate) fn steady() -> Self {
        let start = Instant::now();
        Self(Arc::new(move || i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns a clock that stands where `ms` says.
    #[cfg(test)]
    pub(crate) fn of(ms: &Arc<std::sync::atomic::AtomicI64>) -> Self {
        let ms = Arc::clone(ms);
        Self(Arc::new(move || ms.load(std::sync::atomic::Ordering::SeqCst)))
    }

    /// Returns milliseconds since 1970, UTC, or since whenever it counts from.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

clawhost_core::shows!(Clock {});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_knows_no_time_of_day() {
        let (steady, system) = (Clock::steady(), Clock::system());
        let first = steady.now_ms();
        assert!((0..1_000_000).contains(&first) && system.now_ms() > first + 1_000_000_000);
        assert!(steady.now_ms() >= first);
    }
}
