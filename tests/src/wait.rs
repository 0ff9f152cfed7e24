//! Waiting for a condition with a deadline, instead of sleeping and hoping.

use std::future::Future;
use std::time::{Duration, Instant};

/// Everything on this machine that is going to happen has happened by then, however busy it is: what has not, hangs.
pub const SOON: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `look` returns something.
///
/// # Panics
/// Where it does not come true in time.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_found(what, async || look()).await
}

/// As [`until`], where to look is to wait for an answer.
///
/// # Panics
/// Where it does not come true in time.
pub async fn until_found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
    .await
}

/// As [`until`], where nothing is awaited.
///
/// # Panics
/// Where it does not come true in time.
pub fn block_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Awaits `work`.
///
/// # Panics
/// Where it does not end in time.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, work).await {
        Ok(done) => done,
        Err(_) => panic!("not within {SOON:?}: {what}"),
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
