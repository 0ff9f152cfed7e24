//! The threads that components are compiled on: few at a time, and behind the host's own.

use tokio::sync::OwnedSemaphorePermit;

use super::LoadError;

/// How much lower than the host's own the priority of a compiling thread is.
pub(super) const COMPILING_NICE: i32 = 10;

/// The right to read, compile and describe one component. It goes along with the work, onto
/// its thread too: work that nobody waits for any more still counts until it ends.
pub(crate) type Turn = OwnedSemaphorePermit;

/// Runs `work` on a thread of its own, at low priority: compiling never starves calls. The
/// turn comes back with the result, or ends with the work where nobody waits for it.
///
/// # Errors
/// No thread can be had, or `work` panics.
pub(crate) async fn background<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Turn), LoadError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("compile".to_owned())
        .spawn(move || {
            // On Linux priorities are per thread. Failing to lower one is harmless.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::setpriority_process(
                Some(rustix::thread::gettid()),
                COMPILING_NICE,
            );
            // The receiver is gone where the load was cancelled; the result is then unused.
            drop(sender.send((work(), turn)));
        })
        .map_err(|error| LoadError::Passing(format!("no thread to compile on: {error}")))?;
    let failed = |_| LoadError::Unusable("the compiler failed on this component".to_owned());
    receiver.await.map_err(failed)
}

/// What reading or compiling a component takes: as much as the files are long, or tens of MiB. Where this is
/// dropped, after all of it, it is given back to the system; the allocator would keep it for ever.
pub(super) struct Scratch;

impl Drop for Scratch {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        #[expect(unsafe_code, reason = "libc has it only unsafely")]
        // SAFETY: it takes no pointer, and any thread may call it at any time.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
