//! Reading a chain's signatures back, while its records go by.

use std::collections::VecDeque;
use std::io::ErrorKind;

use cap_std::fs::Dir;
use clawhost_core::limits::AUDIT_BATCH_RECORDS_MAX;

use super::files::{self, SIGNATURES_SUFFIX};
use super::key::PublicKey;
use super::sign::{Signed, Statement};

/// What is signed of a chain, held against its records.
#[derive(Debug)]
pub(super) struct Seals {
    chain: String,
    left: VecDeque<Signed>,
    /// Those that fit the records so far.
    fit: Vec<Signed>,
    /// Hashes of the records since the last of them.
    hashes: Vec<String>,
    signed: u64,
    /// The earliest and the latest time of the records since then, in milliseconds since 1970.
    unsigned: Option<(i64, i64)>,
    broken: Option<String>,
}

/// Returns the signatures of a chain; none where it is not signed.
///
/// # Errors
/// The file cannot be read, or a line of it is no signature.
pub(super) fn signatures(dir: &Dir, chain: &str) -> std::io::Result<Vec<Signed>> {
    let bytes = match files::bytes(dir, &format!("{chain}{SIGNATURES_SUFFIX}")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    // What follows the last line break is nothing, or what was being written when its host was killed.
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let signed = |(number, line)| {
        serde_json::from_slice(line)
            .map_err(|_| std::io::Error::other(format!("line {number} is no signature")))
    };
    (1..).zip(whole).map(signed).collect()
}

impl Seals {
    /// Reads those of a chain; that they cannot be read, they say at the end.
    pub(super) fn read(dir: &Dir, chain: &str) -> Self {
        let read = signatures(dir, chain).map_err(|error| format!("its signatures: {error}"));
        let (left, broken) = read.map_or_else(|why| (Vec::new(), Some(why)), |left| (left, None));
        let (fit, hashes) = (Vec::new(), Vec::new());
        let (chain, left) = (chain.to_owned(), left.into());
        Self { chain, left, fit, hashes, signed: 0, unsigned: None, broken }
    }

    /// Returns the time that the records since the last signature span.
    pub(super) fn unsigned_ms(&self) -> u64 {
        self.unsigned.map_or(0, |(first, last)| last.abs_diff(first))
    }

    /// Takes the hash of the next record, and its time.
    pub(super) fn step(&mut self, hash: &str, time_ms: i64) {
        let (first, last) = self.unsigned.unwrap_or((time_ms, time_ms));
        self.unsigned = Some((first.min(time_ms), last.max(time_ms)));
        let Some(next) = self.left.front().filter(|_| self.broken.is_none()) else { return };
        self.hashes.push(hash.to_owned());
        let here = self.hashes.len();
        if next.statement.records != here as u64 && here < AUDIT_BATCH_RECORDS_MAX {
            return;
        }
        if Statement::of(&self.chain, self.signed, &self.hashes).as_ref() == Some(&next.statement) {
            self.signed += next.statement.records;
            self.hashes.clear();
            self.unsigned = None;
            self.fit.extend(self.left.pop_front());
        } else {
            let (first, last) = (self.signed + 1, self.signed + here as u64);
            self.broken = Some(format!("lines {first} to {last} are not what was signed"));
        }
    }

    /// Says for how many records there is a signature, by the one of `keys` that the chain names; nothing where it
    /// names none.
    ///
    /// # Errors
    /// Why what is signed does not hold.
    pub(super) fn finish(
        self,
        named: Option<&str>,
        keys: &[PublicKey],
    ) -> Result<Option<u64>, String> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let Some(named) = named else { return Ok(None) };
        let key = keys.iter().find(|key| key.to_string() == named);
        let key =
            key.ok_or_else(|| format!("is signed with {named}, which is not trusted here"))?;
        if let Some(wrong) = self.fit.iter().find(|signed| !signed.holds(key)) {
            let first = wrong.statement.first.saturating_add(1);
            return Err(format!("line {first}: the signature from here on is not of {named}"));
        }
        if self.left.is_empty() {
            Ok(Some(self.signed))
        } else {
            Err(format!("ends after line {}, before what else was signed", self.signed))
        }
    }
}
