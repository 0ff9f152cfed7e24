//! File I/O that may wait for the disk, kept from the threads that run everything else.
//!
//! Deliberately absent: asynchronous file I/O. The system has none that holds for every file.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes one call moves on the thread that runs it, before its I/O is taken to be the long kind:
/// enough for most calls, and too little for the system to make a writer wait for the disk.
pub(super) const INLINE_BYTES_MAX: u64 = 1_048_576;

/// Runs `io` for a call that has moved `moved` bytes: at once where that is little, otherwise so
/// that other tasks of this thread go on elsewhere meanwhile.
///
/// A runtime of one thread has no elsewhere; there, and outside of any, it runs at once too.
pub(super) fn blocking<R>(moved: u64, io: impl FnOnce() -> R) -> R {
    if moved > INLINE_BYTES_MAX && has_other_threads() {
        tokio::task::block_in_place(io)
    } else {
        io()
    }
}

fn has_other_threads() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// How long a test waits for what must come at once.
    const SOON: Duration = Duration::from_secs(10);

    /// Says whether a task of the one worker runs while another does I/O after `moved` bytes.
    fn others_go_on(moved: u64, wait: Duration) -> bool {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiting = runtime.spawn(async move {
            tokio::spawn(async move { sender.send(()) });
            blocking(moved, || receiver.recv_timeout(wait).is_ok())
        });
        runtime.block_on(waiting).unwrap()
    }

    #[test]
    fn other_tasks_go_on_while_a_call_that_has_moved_much_waits() {
        assert!(others_go_on(INLINE_BYTES_MAX + 1, SOON));
    }

    #[test]
    fn little_is_moved_at_once() {
        assert!(!others_go_on(INLINE_BYTES_MAX, Duration::ZERO));
    }

    #[tokio::test]
    async fn one_thread_moves_much_itself() {
        assert_eq!(blocking(u64::MAX, || 1), 1);
    }

    #[test]
    fn outside_a_runtime_it_just_runs() {
        assert_eq!(blocking(u64::MAX, || 1), 1);
    }
}
