//! Waiting for a condition with a deadline, instead of sleeping and hoping.

use std::future::Future;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `look` returns something, for at most `longest`, and says how long it took.
///
/// # Panics
/// Where it does not come true in time.
pub async fn until<T>(
    what: &str,
    longest: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> (T, Duration) {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return (found, started.elapsed());
        }
        assert!(started.elapsed() < longest, "not within {longest:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Awaits `work` for at most `longest`.
///
/// # Panics
/// Where it does not end in time.
pub async fn within<T>(what: &str, longest: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(longest, work).await {
        Ok(done) => done,
        Err(_) => panic!("not within {longest:?}: {what}"),
    }
}
