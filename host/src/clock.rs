//! The time of day, which only this module asks the system for.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns milliseconds since 1970, UTC; zero where the system's clock stands before that.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
