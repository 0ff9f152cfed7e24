//! Work that takes long, kept from the threads that run everything else: file I/O that may wait
//! for the disk, a large value that is checked against a schema or searched for secrets.
//!
//! Deliberately absent: asynchronous file I/O. The system has none that holds for every file.

use std::future::poll_fn;
use std::pin::pin;

use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::redact::Redactor;
use clawhost_core::reply::json_bytes;
use clawhost_core::schema::Schema;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work`: at once where it is short, otherwise so that other tasks of this thread go on
/// elsewhere meanwhile.
///
/// A runtime of one thread has no elsewhere; there, and outside of any, it runs at once too.
pub(crate) fn blocking<R>(long: bool, work: impl FnOnce() -> R) -> R {
    if long && has_other_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// Does `work`, each step of it as [`blocking`] does.
pub(crate) async fn steps<F: Future>(long: bool, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| blocking(long, || work.as_mut().poll(context))).await
}

/// Checks `value` against `schema`, off the threads that serve where it takes long.
///
/// # Errors
/// As [`Schema::check`].
pub(crate) fn check(schema: &Schema, value: &Value) -> Result<(), String> {
    schema.check_with(value, |is_long, check| blocking(is_long, check))
}

/// Returns `value` without secrets, off the threads that serve where the search takes long.
pub(crate) fn redacted(redactor: &Redactor, value: Value) -> Value {
    let is_long = json_bytes(&value) > SCREENED_AT_ONCE_BYTES_MAX;
    blocking(is_long, || redactor.json(value))
}

fn has_other_threads() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    /// How long a test waits for what must come at once.
    pub(crate) const SOON: Duration = Duration::from_secs(10);

    /// What says whether something else ran while it waited.
    type Wait = Box<dyn FnOnce() -> bool + Send>;

    /// Says whether a task of the one worker runs while another is at `work`, which waits.
    pub(crate) fn others_go_on(
        wait: Duration,
        work: impl FnOnce(Wait) -> bool + Send + 'static,
    ) -> bool {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiting = runtime.spawn(async move {
            tokio::spawn(async move { sender.send(()) });
            work(Box::new(move || receiver.recv_timeout(wait).is_ok()))
        });
        runtime.block_on(waiting).unwrap()
    }

    #[test]
    fn other_tasks_go_on_while_long_work_waits() {
        assert!(others_go_on(SOON, |wait| blocking(true, wait)));
    }

    #[test]
    fn short_work_is_done_at_once() {
        assert!(!others_go_on(Duration::ZERO, |wait| blocking(false, wait)));
    }

    #[test]
    fn other_tasks_go_on_while_a_step_of_long_work_waits() {
        let done = |long, wait: Wait| steps(long, async { wait() }).now_or_never().unwrap();
        assert!(others_go_on(SOON, move |wait| done(true, wait)));
        assert!(!others_go_on(Duration::ZERO, move |wait| done(false, wait)));
    }

    #[tokio::test]
    async fn one_thread_does_long_work_itself() {
        assert_eq!(blocking(true, || 1), 1);
        assert_eq!(steps(true, async { 1 }).await, 1);
    }

    #[test]
    fn outside_a_runtime_it_just_runs() {
        assert_eq!(blocking(true, || 1), 1);
    }
}
