//! Room on the disk for the end of what has begun: a call whose opening record fitted is one whose
//! closing record fits as well.

use cap_std::fs::File;
use clawhost_core::limits::AUDIT_RECORD_BYTES_MAX;

use super::record::Event;

/// The longest closing record: its facts, and what every line has beside them.
const CLOSING_BYTES: u64 = AUDIT_RECORD_BYTES_MAX as u64 + 1_024;
/// Asked for beside what is needed, so that one call in dozens asks.
const AHEAD_BYTES: u64 = AUDIT_RECORD_BYTES_MAX as u64;

/// What one chain's file has beyond its last line.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Where it ends, in bytes from the beginning of the file.
    end: u64,
    /// Calls whose closing record is still to come.
    open_calls: u64,
}

impl Room {
    /// Sees to it that after the first `len` bytes of `log` a line of `bytes` about `event` fits,
    /// and then the end of every open call. The end of a call takes what was kept for it.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn keep(
        &mut self,
        log: &File,
        len: u64,
        event: Event,
        bytes: u64,
    ) -> std::io::Result<()> {
        let opens = u64::from(event == Event::Received);
        let needed = len + bytes + (self.open_calls + opens) * CLOSING_BYTES;
        if event == Event::Finished || needed <= self.end {
            return Ok(());
        }
        let reserve = |end| reserve(log, len, end);
        self.end = reserve(needed + AHEAD_BYTES).or_else(|_| reserve(needed))?;
        Ok(())
    }

    /// Counts a line about `event` that was written.
    pub(super) fn count(&mut self, event: Event) {
        match event {
            Event::Received => self.open_calls += 1,
            Event::Finished => self.open_calls = self.open_calls.saturating_sub(1),
            _ => {}
        }
    }

    /// Notes that the file was cut: what was kept beyond its end is gone.
    pub(super) fn lose(&mut self) {
        self.end = 0;
    }
}

/// Reserves the bytes from `len` to `end`, and returns where what is there now ends.
#[cfg(target_os = "linux")]
fn reserve(log: &File, len: u64, end: u64) -> std::io::Result<u64> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::{Errno, retry_on_intr};

    match retry_on_intr(|| fallocate(log, FallocateFlags::KEEP_SIZE, len, end - len)) {
        Ok(()) => Ok(end),
        // This file system keeps no room: as good as it gets, and not asked again.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(u64::MAX),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64, _: u64) -> std::io::Result<u64> {
    Ok(u64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn every_open_call_has_room_for_its_end_and_few_calls_ask_for_it() {
        let file = File::from_std(tempfile::tempfile().unwrap());
        let (mut room, mut len, mut asked) = (Room::default(), 0, 0);
        for _ in 0..100 {
            for event in [Event::Received, Event::ApprovalAsked, Event::Finished] {
                let before = room.end;
                room.keep(&file, len, event, 500).unwrap();
                asked += u32::from(room.end != before);
                len += 500;
                room.count(event);
                assert!(room.end >= len + room.open_calls * CLOSING_BYTES);
            }
        }
        assert!(room.end == u64::MAX || (2..10).contains(&asked), "{asked}");
        assert_eq!((room.open_calls, file.metadata().unwrap().len()), (0, 0));
        room.lose();
        room.keep(&file, len, Event::Received, 500).unwrap();
        assert!(room.end >= len + 500 + CLOSING_BYTES);
    }
}
