//! Reading a log back: does every chain hold, and if not, where does it break?

use std::io::{BufRead as _, BufReader};

use cap_std::fs::Dir;
use clawhost_core::digest;
use serde_json::Value;

use super::log::{HEAD_SUFFIX, LOG_SUFFIX};
use super::record::{CHAIN_START, FORMAT_VERSION};

/// What verifying one chain found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChainReport {
    /// The chain's name.
    pub chain: String,
    /// Records that hold.
    pub records: u64,
    /// Calls that were received and have no closing record (a killed host leaves these).
    pub unfinished_calls: u64,
    /// Where and how it breaks; absent where all of it holds.
    pub broken: Option<String>,
}

/// Checks every chain in `dir`, oldest first.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn verify(dir: &Dir) -> std::io::Result<Vec<ChainReport>> {
    let names = chains(dir)?;
    names.iter().map(|chain| verify_chain(dir, chain)).collect()
}

/// Returns every record of every chain, oldest first, without judging them.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn records(dir: &Dir) -> std::io::Result<Vec<Value>> {
    let mut records = Vec::new();
    for chain in chains(dir)? {
        for line in BufReader::new(dir.open(format!("{chain}{LOG_SUFFIX}"))?).lines() {
            records.extend(serde_json::from_str::<Value>(&line?));
        }
    }
    Ok(records)
}

/// A chain is named by its log or by its head: deleting either one shows.
fn chains(dir: &Dir) -> std::io::Result<Vec<String>> {
    let mut names = std::collections::BTreeSet::new();
    for entry in dir.entries()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let chain = name.strip_suffix(LOG_SUFFIX).or_else(|| name.strip_suffix(HEAD_SUFFIX));
        names.extend(chain.map(str::to_owned));
    }
    Ok(names.into_iter().collect())
}

fn verify_chain(dir: &Dir, chain: &str) -> std::io::Result<ChainReport> {
    let mut walk = Walk::default();
    let mut broken = None;
    match dir.open(format!("{chain}{LOG_SUFFIX}")) {
        Ok(file) => {
            for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
                if let Err(reason) = walk.step(&line?) {
                    broken = Some(format!("line {}: {reason}", index + 1));
                    break;
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            broken = Some("the log is missing; its head is still there".to_owned());
        }
        Err(error) => return Err(error),
    }
    let head = dir.read_to_string(format!("{chain}{HEAD_SUFFIX}")).ok();
    let broken = broken.or_else(|| walk.check_head(head.as_deref()).err());
    Ok(ChainReport {
        chain: chain.to_owned(),
        records: walk.records,
        unfinished_calls: walk.open_calls,
        broken,
    })
}

#[derive(Debug)]
struct Walk {
    records: u64,
    open_calls: u64,
    /// Hashes of the last two records: a kill can leave the head one behind.
    hashes: [String; 2],
}

impl Default for Walk {
    fn default() -> Self {
        Self { records: 0, open_calls: 0, hashes: [String::new(), CHAIN_START.to_owned()] }
    }
}

impl Walk {
    fn step(&mut self, line: &[u8]) -> Result<(), String> {
        let record: Value = serde_json::from_slice(line).map_err(|_| "is no JSON object".to_owned())?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        if record.get("v").and_then(Value::as_u64) != Some(FORMAT_VERSION) {
            return Err(format!("is not of format version {FORMAT_VERSION}"));
        }
        if text("prev") != self.hashes[1] {
            return Err("does not follow from the line before it: one of them was edited, dropped or moved".to_owned());
        }
        if record.get("seq").and_then(Value::as_u64) != Some(self.records) {
            return Err(format!("has another number than {}", self.records));
        }
        match text("event") {
            "call.received" => self.open_calls += 1,
            "call.finished" => self.open_calls = self.open_calls.saturating_sub(1),
            _ => {}
        }
        self.records += 1;
        self.hashes.rotate_left(1);
        self.hashes[1] = digest::of_bytes(line);
        Ok(())
    }

    fn check_head(&self, head: Option<&str>) -> Result<(), String> {
        let head = head.ok_or_else(|| "its head is missing".to_owned())?;
        let (count, hash) = head.trim().split_once(' ').ok_or_else(|| "its head is damaged".to_owned())?;
        let count: u64 = count.parse().map_err(|_| "its head is damaged".to_owned())?;
        let expected = match self.records.checked_sub(count) {
            Some(0) => &self.hashes[1],
            Some(1) => &self.hashes[0],
            Some(_) => return Err(format!("has {} records, its head knows {count}", self.records)),
            None => return Err(format!("ends after {} of {count} records: the last ones were dropped", self.records)),
        };
        if expected == hash { Ok(()) } else { Err("its last line is not the one the head knows".to_owned()) }
    }
}
