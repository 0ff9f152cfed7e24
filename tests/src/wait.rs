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

/// Makes up to `tries` attempts, until one takes at most `longest`: the machine may be busy for a moment, while
/// what is late by design is late every time. `work` has the number of the attempt, and says how long it took.
///
/// # Panics
/// Where every attempt takes longer.
pub async fn best(
    what: &str,
    tries: usize,
    longest: Duration,
    mut work: impl AsyncFnMut(usize) -> Duration,
) {
    let mut best = Duration::MAX;
    for attempt in 0..tries {
        best = best.min(work(attempt).await);
        if best <= longest {
            return;
        }
    }
    panic!("not within {longest:?}, but {best:?}: {what}");
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
