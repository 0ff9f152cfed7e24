//! The head of a chain: how many records it has and the hash of the last, in a file beside the log, so that
//! an end that was dropped shows.
//!
//! The head of a signed chain follows with each batch, so that of a killed host is behind its log. The next
//! chain names the ends that it finds, by the log where that has more: of the newest chain, and of every other
//! that ended and that no signed record named yet, for which a file is there as long as that is so.

use std::os::unix::fs::FileExt as _;

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::AUDIT_ENDS_NAMED_MAX;
use serde_json::Value;

use super::facts::Facts;
use super::files::{
    self, HEAD_SUFFIX, NEWEST_SUFFIX, SIGNATURES_SUFFIX, UNNAMED_SUFFIX, file_names, has_ended,
    last_line, lines,
};
use super::opening::{ENDED, PREVIOUS};

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
    is_newest: bool,
) -> Result<Option<(u64, String)>, &'static str> {
    let head = format!("{chain}{HEAD_SUFFIX}");
    let stored = || files::text(dir, &head).map_err(|_| "its head is missing");
    let mut text = stored()?;
    if text.is_empty() {
        if !is_newest && is_begun(dir, chain) {
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

/// How far a chain goes, or went when it was named.
#[derive(Debug)]
pub(super) struct End {
    pub chain: String,
    pub records: u64,
    /// The hash of the last of them.
    pub hash: String,
}

impl End {
    /// Finds that of a chain; none where it has no record.
    fn find(dir: &Dir, chain: &str) -> Option<Self> {
        let head = files::text(dir, &format!("{chain}{HEAD_SUFFIX}")).ok();
        let known = head.and_then(|head| read(&head));
        let found = last_line(dir, chain).and_then(|line| numbered(&line));
        // Where they have as many, the head: a line may have been edited since.
        let (records, hash) = found.into_iter().chain(known).max_by_key(|(records, _)| *records)?;
        Some(Self { chain: chain.to_owned(), records, hash })
    }

    /// Reads what a first record says about it.
    pub(super) fn read(fact: &Value) -> Option<Self> {
        let (records, hash) = read(fact.get("head")?.as_str()?)?;
        let chain = fact.get("chain")?.as_str()?.to_owned();
        Some(Self { chain, records, hash })
    }

    fn fact(&self) -> Value {
        serde_json::json!({ "chain": self.chain, "head": text(self.records, &self.hash) })
    }
}

/// Returns the number of records up to this line, by itself, and its hash.
fn numbered(line: &[u8]) -> Option<(u64, String)> {
    let record: Value = serde_json::from_slice(line).ok()?;
    Some((record.get("seq")?.as_u64()?.saturating_add(1), digest::of_bytes(line)))
}

/// The ends that the next chain names.
#[derive(Debug)]
pub(super) struct Ends {
    newest: Option<End>,
    /// Those of other chains.
    ended: Vec<End>,
    /// The chains that nothing has to be named of once these names are signed.
    noted: Vec<String>,
}

impl Ends {
    pub(super) fn find(dir: &Dir) -> std::io::Result<Self> {
        let names = file_names(dir)?;
        let ending = |suffix| names.iter().filter_map(move |name| name.strip_suffix(suffix));
        // Before any end is looked for: what has ended keeps the one that is found.
        let ended = ending(UNNAMED_SUFFIX).filter(|chain| has_ended(dir, chain));
        let noted: Vec<String> = ended.take(AUDIT_ENDS_NAMED_MAX).map(str::to_owned).collect();
        let mut heads: Vec<&str> = ending(HEAD_SUFFIX).collect();
        heads.sort_unstable();
        // A host that was killed before its first record left a chain of nothing.
        let newest = heads.iter().rev().find_map(|chain| End::find(dir, chain));
        let is_newest = |chain: &str| newest.as_ref().is_some_and(|newest| newest.chain == chain);
        let others = noted.iter().filter(|chain| !is_newest(chain));
        let ended = others.filter_map(|chain| End::find(dir, chain)).collect();
        Ok(Self { newest, ended, noted })
    }

    /// Returns what the next chain says about them.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        facts.set(PREVIOUS, self.newest.as_ref().map_or(Value::Null, End::fact));
        if !self.ended.is_empty() {
            facts.set(ENDED, self.ended.iter().map(End::fact).collect::<Value>());
        }
        facts
    }

    /// Sees to it that nobody names them again, and that nothing is left of a host that was killed as it named its
    /// chain the newest.
    pub(super) fn forget(&self, dir: &Dir) {
        for chain in &self.noted {
            for suffix in [NEWEST_SUFFIX, UNNAMED_SUFFIX] {
                drop(dir.remove_file(format!("{chain}{suffix}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::limits::AUDIT_RECORD_BYTES_MAX;

    use super::*;
    use crate::audit::record::CHAIN_START;

    #[test]
    fn a_first_record_holds_as_many_ends_as_it_may_name() {
        let end = || End {
            chain: format!("9999999999999-{}-999", i32::MAX),
            records: u64::MAX,
            hash: digest::text(&CHAIN_START),
        };
        let ended = std::iter::repeat_with(end).take(AUDIT_ENDS_NAMED_MAX).collect();
        let ends = Ends { newest: Some(end()), ended, noted: Vec::new() };
        // What else a first record says is less than the rest.
        assert!(ends.facts().bytes() < AUDIT_RECORD_BYTES_MAX - 1_024);
    }
}
