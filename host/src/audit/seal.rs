//! Reading a chain's signatures back, while its records go by.

use std::collections::VecDeque;
use std::io::ErrorKind;

use cap_std::fs::Dir;
use clawhost_core::limits::AUDIT_BATCH_RECORDS_MAX;

use super::key::PublicKey;
use super::sign::{SIGNATURES_SUFFIX, Signed, Statement};
use super::verify::Trust;

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
    broken: Option<String>,
}

/// Returns the signatures of a chain, as far as they are whole; none where it is not signed.
pub(super) fn signatures(dir: &Dir, chain: &str) -> std::io::Result<Vec<Signed>> {
    match dir.read_to_string(format!("{chain}{SIGNATURES_SUFFIX}")) {
        // What was being written when its host was killed is no line.
        Ok(text) => Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

impl Seals {
    pub(super) fn read(dir: &Dir, chain: &str) -> std::io::Result<Self> {
        let (left, chain) = (signatures(dir, chain)?.into(), chain.to_owned());
        Ok(Self { chain, left, fit: Vec::new(), hashes: Vec::new(), signed: 0, broken: None })
    }

    /// Takes the hash of the next record.
    pub(super) fn step(&mut self, hash: &str) {
        let Some(next) = self.left.front().filter(|_| self.broken.is_none()) else { return };
        self.hashes.push(hash.to_owned());
        let here = self.hashes.len();
        if next.statement.records != here as u64 && here < AUDIT_BATCH_RECORDS_MAX {
            return;
        }
        if Statement::of(&self.chain, self.signed, &self.hashes).as_ref() == Some(&next.statement) {
            self.signed += next.statement.records;
            self.hashes.clear();
            self.fit.extend(self.left.pop_front());
        } else {
            self.broken =
                Some(format!("record {}: what follows is not what was signed", self.signed));
        }
    }

    /// Says for how many records there is a signature, by the key that the chain names.
    ///
    /// # Errors
    /// Why what is signed does not hold.
    pub(super) fn finish(self, named: Option<&str>, trust: &Trust) -> Result<Option<u64>, String> {
        let Some(named) = named else {
            let unsigned = trust.all_signed.then(|| "is not signed".to_owned());
            return unsigned.map_or(Ok(None), Err);
        };
        let is_named = |key: &&PublicKey| key.to_string() == named;
        let key = trust.keys.iter().find(is_named);
        let key =
            key.ok_or_else(|| format!("is signed with {named}, which is not trusted here"))?;
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if let Some(wrong) = self.fit.iter().find(|signed| !signed.holds(key)) {
            let first = wrong.statement.first;
            return Err(format!("record {first}: the signature from here on is not of {named}"));
        }
        if self.left.is_empty() {
            Ok(Some(self.signed))
        } else {
            Err(format!("ends before what was signed after record {}", self.signed))
        }
    }
}
