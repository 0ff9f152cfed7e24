//! What one call may use up in its directories, and what it has used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clawhost_core::grants::CallLimits;
use clawhost_core::{error, limits};

use crate::offload;

/// A piece of I/O over more bytes is taken to be the long kind: a file of this size that is emptied or removed.
const INLINE_BYTES_MAX: u64 = 1_048_576;

/// A piece of I/O that takes longer has waited for the disk: a copy takes a hundredth of it.
const SLOW_IO: Duration = Duration::from_millis(1);

/// Bytes after such a piece that are taken to be the long kind too: what the system reads ahead, twice. Not for
/// good: on a busy machine a copy takes long now and then.
const WARY_BYTES: u64 = 262_144;

/// A quota of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Limit {
    /// Files and directories created.
    CreateEntries,
    /// Directory entries listed, over all listings.
    ListEntries,
    /// Files and directories held open at once.
    OpenFiles,
    /// Bytes written, or by which files grew.
    WriteBytes,
}

clawhost_core::table! {
    /// Returns what `data.limit` of a refusal says.
    pub Limit::named: error::Limit {
        CreateEntries: error::Limit::CreateEntries, ListEntries: error::Limit::ListEntries,
        OpenFiles: error::Limit::OpenFiles, WriteBytes: error::Limit::WriteBytes,
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.named(), f)
    }
}

/// The quotas of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsLimits {
    /// Files and directories it may create.
    pub create_entries: u64,
    /// Directory entries it may list.
    pub list_entries: u64,
    /// Files, directories and listings it may hold open at once.
    pub open_files: u64,
    /// Bytes it may write, or let files grow by.
    pub write_bytes: u64,
}

impl FsLimits {
    /// Returns the quotas of a call under `limits`.
    #[must_use]
    pub fn of(limits: &CallLimits) -> Self {
        Self {
            create_entries: limits.create_entries,
            open_files: u64::from(limits.open_files),
            write_bytes: limits.write_bytes,
            ..Self::default()
        }
    }
}

impl Default for FsLimits {
    fn default() -> Self {
        Self {
            create_entries: limits::CREATE_ENTRIES_MAX,
            list_entries: limits::LIST_ENTRIES_MAX,
            open_files: u64::from(limits::OPEN_FILES_MAX),
            write_bytes: limits::WRITE_BYTES_MAX,
        }
    }
}

/// Counts what one call uses. Shared by its descriptors and streams.
#[derive(Debug, Default)]
pub struct Meter {
    limits: FsLimits,
    created: AtomicU64,
    listed: AtomicU64,
    opened: AtomicU64,
    written: AtomicU64,
    work: AtomicU64,
    /// Bytes for which it may have to wait, as it just had to.
    wary: AtomicU64,
    #[cfg(test)]
    moved: AtomicU64,
    exceeded: std::sync::OnceLock<Limit>,
}

impl Meter {
    /// Returns a meter with nothing used.
    #[must_use]
    pub fn new(limits: FsLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes `amount` of `limit`, or nothing where less is left.
    ///
    /// # Errors
    /// The limit, when `amount` is more than what is left of it.
    pub fn take(&self, limit: Limit, amount: u64) -> Result<(), Limit> {
        let (used, max) = self.counter(limit);
        let sum = |used: u64| used.checked_add(amount).filter(|sum| *sum <= max);
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok() {
            return Ok(());
        }
        self.exceeded.get_or_init(|| limit);
        Err(limit)
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&self, limit: Limit, amount: u64) {
        self.counter(limit).0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Counts work done on the guest's behalf: bytes moved, entries and path components visited.
    pub fn add_work(&self, units: u64) {
        self.work.fetch_add(units, Ordering::Relaxed);
    }

    /// Returns the work since the last look, and starts anew.
    pub fn take_work(&self) -> u64 {
        self.work.swap(0, Ordering::Relaxed)
    }

    /// Runs one piece of file I/O that moves `bytes`, so that other calls do not wait for it where
    /// it may be long. Most is a copy of what the system has in memory: handing that over would start a thread for
    /// many a piece, as the next one comes before the thread is awake.
    pub fn io<R>(&self, bytes: u64, io: impl FnOnce() -> R) -> R {
        #[cfg(test)]
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let wary = self.wary.load(Ordering::Relaxed);
        // That it was handed over is not the disk's slowness.
        let timed = || {
            let started = Instant::now();
            (io(), started.elapsed() > SLOW_IO)
        };
        let (result, is_slow) = offload::blocking(wary > 0 || bytes > INLINE_BYTES_MAX, timed);
        let left = if is_slow { WARY_BYTES } else { wary.saturating_sub(bytes.max(1)) };
        self.wary.store(left, Ordering::Relaxed);
        result
    }

    /// Returns the first limit the call ran into.
    #[must_use]
    pub fn exceeded(&self) -> Option<Limit> {
        self.exceeded.get().copied()
    }

    /// Takes one open handle, given back when the returned value is dropped.
    ///
    /// # Errors
    /// The limit, when no handle is left.
    pub fn hold(self: &Arc<Self>) -> Result<Hold, Limit> {
        self.take(Limit::OpenFiles, 1)?;
        Ok(Hold(Arc::clone(self)))
    }

    /// Returns the bytes moved through [`Meter::io`].
    #[cfg(test)]
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn counter(&self, limit: Limit) -> (&AtomicU64, u64) {
        match limit {
            Limit::CreateEntries => (&self.created, self.limits.create_entries),
            Limit::ListEntries => (&self.listed, self.limits.list_entries),
            Limit::OpenFiles => (&self.opened, self.limits.open_files),
            Limit::WriteBytes => (&self.written, self.limits.write_bytes),
        }
    }
}

/// One open handle of a call.
#[derive(Debug)]
pub struct Hold(Arc<Meter>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.give_back(Limit::OpenFiles, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::tests::{SOON, others_go_on};

    #[test]
    fn a_limit_is_taken_whole_or_not_at_all() {
        let meter = Meter::new(FsLimits { write_bytes: 10, ..FsLimits::default() });
        assert_eq!(meter.take(Limit::WriteBytes, 10), Ok(()));
        assert_eq!(meter.take(Limit::WriteBytes, 1), Err(Limit::WriteBytes));
        meter.give_back(Limit::WriteBytes, 4);
        assert_eq!(meter.take(Limit::WriteBytes, u64::MAX), Err(Limit::WriteBytes));
        assert_eq!(meter.take(Limit::WriteBytes, 4), Ok(()));
        assert_eq!(meter.exceeded(), Some(Limit::WriteBytes));
    }

    #[test]
    fn a_large_piece_and_those_of_a_call_that_had_to_wait_are_handed_over_and_no_others() {
        let meter = || Arc::new(Meter::new(FsLimits::default()));
        let others_go_on = |meter: &Arc<Meter>, bytes: u64, wait: Duration| {
            let meter = Arc::clone(meter);
            others_go_on(wait, move |wait| meter.io(bytes, wait))
        };
        assert!(!others_go_on(&meter(), INLINE_BYTES_MAX, Duration::ZERO));
        assert!(others_go_on(&meter(), INLINE_BYTES_MAX + 1, SOON));
        let waited = meter();
        assert!(!others_go_on(&waited, 1, 2 * SLOW_IO));
        assert!(others_go_on(&waited, 1, SOON));
    }

    #[test]
    fn a_call_that_does_not_wait_any_more_is_not_taken_to() {
        let meter = Meter::new(FsLimits::default());
        meter.wary.store(WARY_BYTES, Ordering::Relaxed);
        // On a busy machine one of them may take long.
        assert!((0..10_000).any(|_| {
            meter.io(65_536, || ());
            meter.wary.load(Ordering::Relaxed) == 0
        }));
    }

    #[test]
    fn a_dropped_handle_can_be_taken_again() {
        let meter = Arc::new(Meter::new(FsLimits { open_files: 1, ..FsLimits::default() }));
        let first = meter.hold().unwrap();
        assert!(meter.hold().is_err());
        drop(first);
        assert!(meter.hold().is_ok());
    }
}
