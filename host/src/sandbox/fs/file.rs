//! An open regular file.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use clawhost_core::grants::Access;
use rustix::fs::{OFlags, Timestamps};
use rustix::io::Errno;

use super::fault::Fault;
use super::folder::Folder;
use super::meter::{Hold, Limit, Meter};
use super::open::OpenHow;
use super::rules::Rules;
use super::stat::{FileFacts, Id, Kind};

/// Bytes moved by one system call, on the thread that runs the guest: some ten microseconds of
/// copying.
pub const CHUNK_BYTES_MAX: usize = 65_536;
/// Bytes one `read` returns, whatever the guest asks for: bounds what the host allocates.
pub const READ_BYTES_MAX: usize = 1_048_576;

/// An open regular file of a call.
#[derive(Debug)]
pub struct OpenFile {
    file: std::fs::File,
    access: Access,
    /// The granted directory that this access is of.
    granted: Id,
    read: bool,
    write: bool,
    /// Its bytes when it was opened, where that was only to read it.
    size: u64,
    meter: Arc<Meter>,
    _hold: Hold,
}

/// How a regular file is opened: never waiting for a peer, never taking a terminal, never
/// through a link, and not yet truncated.
pub(super) fn open_flags(how: OpenHow) -> OFlags {
    let mode = match (how.read || !how.write, how.changes_bytes()) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// Fails for a regular file with several names: a change would show under all of them.
pub(super) fn require_one_name(facts: &FileFacts) -> Result<(), Fault> {
    if facts.kind == Kind::File && facts.links > 1 { Err(Fault::HardLinked) } else { Ok(()) }
}

impl OpenFile {
    pub(super) fn new(
        file: std::fs::File,
        &Folder { access, granted, .. }: &Folder,
        how: OpenHow,
        meter: Arc<Meter>,
        hold: Hold,
    ) -> Self {
        // An open for nothing in particular may read, as in POSIX.
        let read = how.read || !how.write;
        Self { file, access, granted, read, write: how.write, size: 0, meter, _hold: hold }
    }

    /// Checks the handle itself, now that no rename can exchange what it stands for.
    pub(super) fn require_open(&mut self, how: &OpenHow, rules: &Rules) -> Result<(), Fault> {
        let facts = self.facts()?;
        self.size = if how.changes_bytes() { 0 } else { facts.size };
        if facts.kind != Kind::File {
            return Err(Fault::Special);
        }
        rules.enter(facts.id, self.access)?;
        if how.changes_bytes() { require_one_name(&facts) } else { Ok(()) }
    }

    /// Returns the facts about the file.
    ///
    /// # Errors
    /// Whatever the system answers.
    pub fn facts(&self) -> Result<FileFacts, Fault> {
        FileFacts::of_file(&self.file)
    }

    /// Says whether it was opened for reading.
    #[must_use]
    pub const fn reads(&self) -> bool {
        self.read
    }

    /// Says whether it was opened for writing.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.write
    }

    /// Reads up to `size` bytes at `offset`, at most [`CHUNK_BYTES_MAX`]; none at the end.
    ///
    /// # Errors
    /// Not opened for reading, or the system's answer.
    pub fn read_at(&self, size: usize, offset: u64) -> Result<Vec<u8>, Fault> {
        self.piece(size, offset).map(|(bytes, _)| bytes)
    }

    /// As [`OpenFile::read_at`], and says whether the file ends there.
    pub(super) fn piece(&self, size: usize, offset: u64) -> Result<(Vec<u8>, bool), Fault> {
        if !self.read {
            return Err(Errno::BADF.into());
        }
        // One more than is there, which shows the end, and no more: a guest that asks for much of a small file
        // costs little.
        let there = match self.size.saturating_sub(offset) {
            0 => self.facts()?.size.saturating_sub(offset),
            there => there,
        };
        let there = usize::try_from(there).unwrap_or(usize::MAX).saturating_add(1);
        let size = size.min(there).min(CHUNK_BYTES_MAX);
        let mut bytes = vec![0; size];
        let count =
            self.meter.io(as_u64(size), || retry(|| self.file.read_at(&mut bytes, offset)))?;
        bytes.truncate(count);
        self.meter.add_work(as_u64(count));
        Ok((bytes, count < size))
    }

    /// Writes `bytes`, at most [`CHUNK_BYTES_MAX`], at `offset`, and returns how many it wrote.
    ///
    /// # Errors
    /// Not opened for writing, the write quota (then nothing is written), or the system's
    /// answer.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Fault> {
        let bytes = first_chunk(bytes);
        let end = offset.checked_add(as_u64(bytes.len())).ok_or(Fault::Os(Errno::FBIG))?;
        let growth = end.saturating_sub(self.writable_facts()?.size);
        self.charged(bytes.len(), growth, || retry(|| self.file.write_at(bytes, offset)))
    }

    /// Writes `bytes`, at most [`CHUNK_BYTES_MAX`], at the end of the file, whoever else
    /// appends, and returns how many it wrote.
    ///
    /// # Errors
    /// Not opened for writing, the write quota (then nothing is written), or the system's
    /// answer.
    pub fn append(&self, bytes: &[u8]) -> Result<usize, Fault> {
        let bytes = first_chunk(bytes);
        self.writable_facts()?;
        self.charged(bytes.len(), 0, || append(&self.file, bytes))
    }

    /// Sets the size; growth counts as bytes written.
    ///
    /// # Errors
    /// Not opened for writing, the write quota, or the system's answer.
    pub fn set_size(&self, size: u64) -> Result<(), Fault> {
        let now = self.writable_facts()?.size;
        let growth = size.saturating_sub(now);
        self.meter.take(Limit::WriteBytes, growth)?;
        let refund = |_: &_| self.meter.give_back(Limit::WriteBytes, growth);
        let resize = || self.file.set_len(size);
        let done = self.meter.io(size.abs_diff(now), resize);
        Ok(done.inspect_err(refund)?)
    }

    /// Sets the times.
    ///
    /// # Errors
    /// A read-only grant, several names, or the system's answer.
    pub fn set_times(&self, times: &Timestamps) -> Result<(), Fault> {
        if self.access == Access::ReadOnly {
            return Err(Fault::ReadOnly(self.granted));
        }
        require_one_name(&self.facts()?)?;
        Ok(rustix::fs::futimens(&self.file, times)?)
    }

    /// Fails unless the quota reaches for `len` bytes at `offset`; takes nothing of it.
    fn require_quota(&self, len: usize, offset: u64) -> Result<(), Fault> {
        let end = offset.checked_add(as_u64(len)).ok_or(Fault::Os(Errno::FBIG))?;
        let cost = as_u64(len).max(end.saturating_sub(self.writable_facts()?.size));
        self.meter.take(Limit::WriteBytes, cost)?;
        self.meter.give_back(Limit::WriteBytes, cost);
        Ok(())
    }

    #[cfg(test)]
    pub(super) const fn handle(&self) -> &std::fs::File {
        &self.file
    }

    /// Waits until its bytes are on the disk, and `all` that is known of it.
    pub(super) fn sync(&self, all: bool) -> Result<(), Fault> {
        Ok(if all { self.file.sync_all() } else { self.file.sync_data() }?)
    }

    /// Empties the file, at open only: the open asked for it and the grant was checked.
    pub(super) fn truncate(&self) -> Result<(), Fault> {
        let size = self.facts()?.size;
        Ok(self.meter.io(size, || self.file.set_len(0))?)
    }

    fn writable_facts(&self) -> Result<FileFacts, Fault> {
        if !self.write {
            return Err(if self.access == Access::ReadOnly {
                Fault::ReadOnly(self.granted)
            } else {
                Errno::BADF.into()
            });
        }
        let facts = self.facts()?;
        require_one_name(&facts)?;
        Ok(facts)
    }

    /// Writes against the quota, which counts what was written or, where that is more, by how
    /// much the file grew: a hole is not free.
    fn charged(
        &self,
        len: usize,
        growth: u64,
        write: impl FnOnce() -> Result<usize, Fault>,
    ) -> Result<usize, Fault> {
        let len = as_u64(len);
        let cost = len.max(growth);
        self.meter.take(Limit::WriteBytes, cost)?;
        self.meter.add_work(len);
        self.meter.io(len, write).inspect_err(|_| self.meter.give_back(Limit::WriteBytes, cost))
    }
}

/// Reads up to `len` bytes at `offset`, with a yield between chunks, so that a deadline ends it; and says whether
/// the file ends there.
pub(super) async fn read_chunks(
    file: &OpenFile,
    len: usize,
    offset: u64,
) -> Result<(Vec<u8>, bool), Fault> {
    let (mut bytes, mut ended) = file.piece(len, offset)?;
    while !ended && bytes.len() < len {
        tokio::task::yield_now().await;
        let Some(next) = offset.checked_add(as_u64(bytes.len())) else {
            break;
        };
        let (more, is_end) = file.piece(len.saturating_sub(bytes.len()), next)?;
        bytes.extend(more);
        ended = is_end;
    }
    Ok((bytes, ended))
}

/// Writes all of `bytes` at `offset`, with a yield between chunks, and returns how many it
/// wrote. Where the quota does not reach for all of them, it writes none.
pub(super) async fn write_chunks(file: &OpenFile, bytes: &[u8], offset: u64) -> Result<u64, Fault> {
    file.require_quota(bytes.len(), offset)?;
    let mut rest = bytes;
    let mut at = offset;
    loop {
        let count = file.write_at(rest, at)?;
        rest = rest.get(count..).unwrap_or_default();
        at = at.saturating_add(as_u64(count));
        if rest.is_empty() || count == 0 {
            return Ok(at.saturating_sub(offset));
        }
        tokio::task::yield_now().await;
    }
}

fn first_chunk(bytes: &[u8]) -> &[u8] {
    bytes.get(..CHUNK_BYTES_MAX).unwrap_or(bytes)
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn retry(mut call: impl FnMut() -> std::io::Result<usize>) -> Result<usize, Fault> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return Ok(result?),
        }
    }
}

/// Appends in one step, where the system can: two calls that append to one file both succeed.
#[cfg(target_os = "linux")]
fn append(file: &std::fs::File, bytes: &[u8]) -> Result<usize, Fault> {
    use rustix::io::{ReadWriteFlags, pwritev2};

    let slices = [std::io::IoSlice::new(bytes)];
    loop {
        match pwritev2(file, &slices, 0, ReadWriteFlags::APPEND) {
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => return append_at_size(file, bytes),
            result => return Ok(result?),
        }
    }
}

/// Appends in one step, where the system can.
#[cfg(not(target_os = "linux"))]
fn append(file: &std::fs::File, bytes: &[u8]) -> Result<usize, Fault> {
    append_at_size(file, bytes)
}

fn append_at_size(file: &std::fs::File, bytes: &[u8]) -> Result<usize, Fault> {
    let size = FileFacts::of_file(file)?.size;
    retry(|| file.write_at(bytes, size))
}
