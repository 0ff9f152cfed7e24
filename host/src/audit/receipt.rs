//! A receipt: one record, and what shows to somebody with the public key alone that it was written
//! so, and when it was signed nothing before it was missing.

use cap_std::fs::Dir;
use clawhost_core::limits::AUDIT_BATCH_RECORDS_MAX;
use clawhost_core::{digest, merkle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::lines;
use super::key::PublicKey;
use super::seal::signatures;
use super::sign::{Signed, Statement, leaves};

/// One record and its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The record's line, as it was written.
    record: String,
    /// What leads to the root, as hexadecimal digits.
    path: Vec<String>,
    #[serde(flatten)]
    signed: Signed,
}

/// Why a receipt proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoProof {
    /// Another key, or what was signed was altered.
    #[error("the signature does not hold under this key")]
    Signature,
    /// The record is not one of the batch.
    #[error("the record is not the one that was signed")]
    Record,
}

impl Receipt {
    /// Returns the receipt of the record that `wanted` picks in a chain; none where there is none, or it is not
    /// signed yet.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub fn find(
        dir: &Dir,
        chain: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> std::io::Result<Option<Self>> {
        let mut lines = lines(dir, chain)?;
        for signed in signatures(dir, chain)? {
            let batch = usize::try_from(signed.statement.records).unwrap_or(usize::MAX);
            let batch = lines.by_ref().take(batch.min(AUDIT_BATCH_RECORDS_MAX));
            let batch = batch.collect::<std::io::Result<Vec<Vec<u8>>>>()?;
            let is_it =
                |line: &Vec<u8>| serde_json::from_slice(line).is_ok_and(|line| wanted(&line));
            if let Some(index) = batch.iter().position(is_it) {
                let hashes: Vec<String> = batch.iter().map(|line| digest::of_bytes(line)).collect();
                let path = merkle::path(&leaves(&hashes), index).unwrap_or_default();
                let path = path.iter().map(|hash| digest::hex(hash)).collect();
                let record =
                    batch.get(index).map(|line| String::from_utf8_lossy(line).into_owned());
                return Ok(record.map(|record| Self { record, path, signed }));
            }
        }
        Ok(None)
    }

    /// Returns the record, unchecked.
    fn record(&self) -> Result<Value, NoProof> {
        serde_json::from_str(&self.record).map_err(|_| NoProof::Record)
    }

    /// Checks it, and returns the record.
    ///
    /// # Errors
    /// [`NoProof`].
    pub fn verify(&self, key: &PublicKey) -> Result<Value, NoProof> {
        if !self.signed.holds(key) {
            return Err(NoProof::Signature);
        }
        let Statement { first, records, root, .. } = &self.signed.statement;
        let record = self.record()?;
        let seq = record.get("seq").and_then(Value::as_u64).ok_or(NoProof::Record)?;
        let leaf = leaves(&[digest::of_bytes(self.record.as_bytes())]);
        let hash = |text: &String| digest::unhex(text)?.try_into().ok();
        let path: Option<Vec<merkle::Hash>> = self.path.iter().map(hash).collect();
        let climbed = leaf.first().zip(path).zip(seq.checked_sub(*first));
        let climbed =
            climbed.and_then(|((leaf, path), index)| merkle::climb(*leaf, index, *records, &path));
        match climbed {
            Some(climbed) if digest::hex(&climbed) == *root => Ok(record),
            _ => Err(NoProof::Record),
        }
    }
}
