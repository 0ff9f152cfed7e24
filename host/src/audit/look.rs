//! Looking at the log while hosts write it: what a chain said last, and which of all calls fit.
//!
//! Files are read from their ends, and only so much of them. Deliberately absent: judging, which
//! `verify` does.

use std::io::{Read as _, Seek as _, SeekFrom};

use clawhost_core::limits::{AUDIT_SEARCH_BYTES_MAX, AUDIT_TAIL_BYTES_MAX, AUDIT_WINDOW_BYTES_MAX};
use serde_json::Value;
use tokio::sync::watch;

use super::files::{LOG_SUFFIX, chains};
use super::log::AuditLog;
use super::verify::{ChainReport, Trust, verify};
use crate::regular;

/// What a chain said from a place on.
#[derive(Debug, Default)]
pub struct Tail {
    /// Its records, oldest first.
    pub records: Vec<Value>,
    /// Where the next look begins, in bytes.
    pub at: u64,
    /// Older records were passed over.
    pub skipped: bool,
}

/// Calls that fit, newest first.
#[derive(Debug, Default)]
pub struct Found {
    /// Their closing records, each with its `chain`.
    pub calls: Vec<Value>,
    /// Where a search goes on; absent where all was searched.
    pub next: Option<Place>,
}

/// A place in the log: all of the chain before a byte, and every older chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The chain's name.
    pub chain: String,
    /// Bytes from its beginning.
    pub end: u64,
}

impl AuditLog {
    /// Returns the name of this process's chain.
    pub fn chain(&self) -> &str {
        &self.name
    }

    /// Returns a receiver of the bytes that the chain of this process has.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Returns what the chain of this process says from byte `from` on, or last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn tail(&self, from: Option<u64>) -> std::io::Result<Tail> {
        let end = *self.grown.borrow();
        let first = end.saturating_sub(AUDIT_TAIL_BYTES_MAX);
        let start = from.filter(|from| (first..=end).contains(from));
        let window = self.window(&self.name, start.unwrap_or(first), end)?;
        let records = window.lines().filter_map(|(_, line)| serde_json::from_slice(line).ok());
        let skipped = start.is_none() && first > 0;
        Ok(Tail { records: records.collect(), at: window.end(), skipped })
    }

    /// Returns up to `max` calls that ended and fit, newest first, of all that is older than `before`.
    /// One search reads so many bytes, and says where it stopped.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub fn search(
        &self,
        before: Option<&Place>,
        max: usize,
        fits: impl Fn(&Value) -> bool,
    ) -> std::io::Result<Found> {
        let (mut found, mut read) = (Found::default(), 0);
        for chain in chains(&self.dir)?.into_iter().rev() {
            let Ok(file) = self.dir.metadata(format!("{chain}{LOG_SUFFIX}")) else { continue };
            let mut end = match before {
                Some(place) if chain > place.chain => continue,
                Some(place) if chain == place.chain => place.end.min(file.len()),
                _ => file.len(),
            };
            while end > 0 {
                let window =
                    self.window(&chain, end.saturating_sub(AUDIT_WINDOW_BYTES_MAX), end)?;
                for (at, line) in window.lines().collect::<Vec<_>>().into_iter().rev() {
                    found.calls.extend(ended(&chain, line).filter(&fits));
                    if found.calls.len() == max {
                        found.next = Some(Place { chain, end: at });
                        return Ok(found);
                    }
                }
                read += end - window.start;
                // A line that fills a window is none that a host wrote.
                end = if window.start < end { window.start } else { 0 };
                if read >= AUDIT_SEARCH_BYTES_MAX {
                    found.next = Some(Place { chain, end });
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Checks every chain, as [`verify`] does, by the key that this process signs with.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub fn verify(&self) -> std::io::Result<Vec<ChainReport>> {
        verify(&self.dir, &Trust { keys: self.key.into_iter().collect(), all_signed: false })
    }

    /// Reads the whole lines of a chain that begin at `start` or later and end by `end`.
    fn window(&self, chain: &str, start: u64, end: u64) -> std::io::Result<Window> {
        let (mut file, _) = regular::open_in(&self.dir, &format!("{chain}{LOG_SUFFIX}"))?;
        // With the byte before, which says whether a line begins here.
        let from = start.saturating_sub(1);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(end - from).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        bytes.truncate(whole);
        let begins = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let skipped = if start == 0 { 0 } else { begins(&bytes).unwrap_or(whole) };
        bytes.drain(..skipped);
        Ok(Window { start: from + skipped as u64, bytes })
    }
}

/// Whole lines of a chain.
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns each line, and where in the chain it begins.
    fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines.scan(self.start, |at, line| {
            let begins = *at;
            *at += line.len() as u64;
            Some((begins, line))
        })
    }
}

/// Returns the closing record of a call with its chain; nothing where a line is something else.
fn ended(chain: &str, line: &[u8]) -> Option<Value> {
    let mut record: Value = serde_json::from_slice(line).ok()?;
    let is_it = record.get("event").and_then(Value::as_str) == Some("call.finished");
    record.as_object_mut().filter(|_| is_it)?.insert("chain".to_owned(), chain.into());
    Some(record)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use clawhost_core::reply::ToolReply;

    use super::*;
    use crate::audit::{CallSpan, Terms};

    fn log(dir: &Dir, calls: std::ops::Range<usize>) -> Arc<AuditLog> {
        let log = Arc::new(AuditLog::open(dir, Terms::default()).unwrap());
        for call in calls {
            let span = CallSpan::open(&log, &call.to_string(), "p", "t", "sha256:0", &[]).unwrap();
            span.close(&Ok(ToolReply::default())).unwrap();
        }
        log
    }

    fn numbers(found: &[Value]) -> Vec<usize> {
        found.iter().map(|one| one["call"].as_str().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn a_tail_goes_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let log = log(&dir, 0..2);
        let first = log.tail(None).unwrap();
        assert_eq!((first.records.len(), first.skipped), (5, false));
        assert_eq!(first.at, *log.grown().borrow());
        assert!(log.tail(Some(first.at)).unwrap().records.is_empty());
        drop(CallSpan::open(&log, "2", "p", "t", "sha256:0", &[]).unwrap());
        let next = log.tail(Some(first.at)).unwrap();
        assert_eq!(numbers(&next.records), [2, 2]);
        // A place that this chain never had is no place to go on from.
        assert_eq!(log.tail(Some(u64::MAX)).unwrap().records.len(), 7);
    }

    #[test]
    fn a_long_chain_is_shown_from_its_end_by_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let log = log(&dir, 0..600);
        let tail = log.tail(None).unwrap();
        assert!(tail.skipped && tail.records.len() > 100 && tail.records.len() < 1_200);
        assert_eq!(tail.records.last().unwrap()["call"], "599");
    }

    #[test]
    fn a_search_reads_back_through_all_chains_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        drop(log(&dir, 0..3));
        let log = log(&dir, 3..5);
        let mut place = None;
        let mut all = Vec::new();
        loop {
            let found = log.search(place.as_ref(), 2, |_| true).unwrap();
            all.extend(numbers(&found.calls));
            place = found.next;
            if place.is_none() {
                break;
            }
        }
        assert_eq!(all, [4, 3, 2, 1, 0]);
        let odd = |one: &Value| one["call"] == "1" || one["call"] == "3";
        assert_eq!(numbers(&log.search(None, 9, odd).unwrap().calls), [3, 1]);
        assert!(log.verify().unwrap().iter().all(|report| report.broken.is_none()));
    }
}
