//! The head of a chain: how many records it has and the hash of the last, in a file beside the log, so that
//! an end that was dropped shows.
//!
//! The head of a signed chain follows with each batch, so that of a killed host is behind its log. The next
//! chain names the end that it finds, by the log where that has more: of the newest chain, and of every other
//! that ended before all of it was signed, for which a file is there as long as that is so.

use std::os::unix::fs::FileExt as _;

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::AUDIT_ENDS_NAMED_MAX;
use serde_json::Value;

use super::facts::Facts;
use super::files::{
    self, HEAD_SUFFIX, SIGNATURES_SUFFIX, UNSIGNED_SUFFIX, file_names, has_ended, last_line, lines,
};

/// The facts of a chain's first record that name ends.
pub(super) const PREVIOUS: &str = "previous_chain";
pub(super) const KILLED: &str = "killed_chains";

/// Stores how many records a chain has, and the hash of the last.
pub(super) fn write(head: &std::fs::File, records: u64, hash: &str) -> std::io::Result<()> {
    // In place and of fixed size: one system call, never torn by a kill.
    head.write_all_at(format!("{}\n", text(records, hash)).as_bytes(), 0)
}

fn text(records: u64, hash: &str) -> String {
    format!("{records:020} {hash}")
}

/// Returns how many records a head knows, and the hash of the last of them. No chain is without a record.
pub(super) fn read(text: &str) -> Option<(u64, String)> {
    let (records, hash) = text.trim().split_once(' ')?;
    let records = records.parse().ok().filter(|records| *records > 0)?;
    Some((records, hash.to_owned()))
}

/// Returns what the head of a chain knows; nothing of one that was begun and has none yet. The head is stored
/// after the first record and before all else, so what comes later shows that it was there: signatures, a second
/// record, and that the chain is named as the newest.
///
/// # Errors
/// Why it cannot be told.
pub(super) fn known(
    dir: &Dir,
    chain: &str,
    is_named: bool,
) -> Result<Option<(u64, String)>, &'static str> {
    let head = format!("{chain}{HEAD_SUFFIX}");
    let stored = || files::text(dir, &head).map_err(|_| "its head is missing");
    let mut text = stored()?;
    if text.is_empty() {
        if !is_named && is_begun(dir, chain) {
            return Ok(None);
        }
        // Once more: its host may have gone on in between.
        text = stored()?;
    }
    read(&text).map(Some).ok_or("its head is damaged")
}

fn is_begun(dir: &Dir, chain: &str) -> bool {
    let records = lines(dir, chain).map(|lines| lines.take(2).count());
    matches!(records, Ok(1)) && !dir.exists(format!("{chain}{SIGNATURES_SUFFIX}"))
}

/// The ends that the next chain names.
#[derive(Debug, Default)]
pub(super) struct Ends {
    newest: Value,
    killed: Vec<Value>,
    /// The chains that nothing has to be named of once these names are signed.
    noted: Vec<String>,
}

impl Ends {
    pub(super) fn find(dir: &Dir) -> std::io::Result<Self> {
        let names = file_names(dir)?;
        let ending = |suffix| names.iter().filter_map(move |name| name.strip_suffix(suffix));
        let mut heads: Vec<&str> = ending(HEAD_SUFFIX).collect();
        heads.sort_unstable();
        // A host that was killed before its first record left a chain of nothing.
        let newest = heads.iter().rev().find_map(|chain| end(dir, chain)).unwrap_or_default();
        let ended = ending(UNSIGNED_SUFFIX).filter(|chain| has_ended(dir, chain));
        let noted: Vec<String> = ended.take(AUDIT_ENDS_NAMED_MAX).map(str::to_owned).collect();
        let killed = noted.iter().filter_map(|chain| end(dir, chain));
        let killed = killed.filter(|end| *end != newest).collect();
        Ok(Self { newest, killed, noted })
    }

    /// Returns what the next chain says about them.
    pub(super) fn facts(&mut self) -> Facts {
        let mut facts = Facts::default();
        facts.set(PREVIOUS, self.newest.take());
        if !self.killed.is_empty() {
            facts.set(KILLED, std::mem::take(&mut self.killed));
        }
        facts
    }

    /// Says whether something depends on the names.
    pub(super) fn are_needed(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Sees to it that nobody names them again.
    pub(super) fn forget(&self, dir: &Dir) {
        for chain in &self.noted {
            drop(dir.remove_file(format!("{chain}{UNSIGNED_SUFFIX}")));
        }
    }
}

/// Returns a chain's name and end; nothing where it has no record.
fn end(dir: &Dir, chain: &str) -> Option<Value> {
    let head = files::text(dir, &format!("{chain}{HEAD_SUFFIX}")).ok();
    let known = head.and_then(|head| read(&head));
    let found = last_line(dir, chain).and_then(|line| numbered(&line));
    // Where they have as many, the head: a line may have been edited since.
    let (records, hash) = found.into_iter().chain(known).max_by_key(|(records, _)| *records)?;
    Some(serde_json::json!({ "chain": chain, "head": text(records, &hash) }))
}

/// Returns the number of records up to this line, by itself, and its hash.
fn numbered(line: &[u8]) -> Option<(u64, String)> {
    let record: Value = serde_json::from_slice(line).ok()?;
    Some((record.get("seq")?.as_u64()?.saturating_add(1), digest::of_bytes(line)))
}
