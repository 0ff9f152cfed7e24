//! Reading a log back: does every chain hold, and if not, where does it break?

use std::io::{BufRead as _, BufReader, Read as _};

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::AUDIT_RECORD_BYTES_MAX;
use serde_json::Value;

use super::head;
use super::key::PublicKey;
use super::log::{HEAD_SUFFIX, LOG_SUFFIX, NEWEST, SIGNED_WITH, file_names};
use super::record::{CHAIN_START, FORMAT_VERSION};
use super::retention;
use super::seal::Seals;
use crate::regular;

/// What verifying one chain found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChainReport {
    /// The chain's name.
    pub chain: String,
    /// Records that hold.
    pub records: u64,
    /// Records that a signature holds for; absent where the chain is not signed. A killed host leaves
    /// the last few unsigned.
    pub signed: Option<u64>,
    /// Calls that were received and have no closing record (a killed host leaves these).
    pub unfinished_calls: u64,
    /// Where and how it breaks; absent where all of it holds.
    pub broken: Option<String>,
}

impl ChainReport {
    fn broken(chain: &str, reason: &str) -> Self {
        let broken = Some(reason.to_owned());
        Self { chain: chain.to_owned(), records: 0, signed: None, unfinished_calls: 0, broken }
    }
}

/// Whose signatures count.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The keys. A chain that is signed with another is broken.
    pub keys: Vec<PublicKey>,
    /// A chain without signatures is broken too.
    pub all_signed: bool,
}

/// Checks every chain in `dir`, oldest first, and that none is missing: each names the one
/// before it, and the file `newest` the last. Those that a later chain says were removed as old
/// are not missed.
///
/// A folder of which every file was rewritten so that all of it fits together again shows by its
/// signatures alone; what cannot be seen is an end that is missing from the newest chain, with its
/// signatures and its head, or of a killed host what neither has yet.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn verify(dir: &Dir, trust: &Trust) -> std::io::Result<Vec<ChainReport>> {
    let names = chains(dir)?;
    let links = links(dir, &names)?;
    let mut reports = Vec::new();
    for chain in &names {
        let wanted = links.iter().filter(|link| link.chain == *chain).collect();
        reports.push(verify_chain(dir, chain, wanted, trust)?);
    }
    let newest = dir.read_to_string(NEWEST).ok();
    if newest.is_none() && !names.is_empty() {
        reports
            .push(ChainReport::broken(NEWEST, "the file that names the newest chain is missing"));
    }
    let linked = links.iter().map(|link| link.chain.as_str()).chain(newest.as_deref());
    let removed = retention::removed_through(dir, &names)?.unwrap_or_default();
    let is_missed = |chain: &&str| names.iter().all(|name| name != chain) && **chain > *removed;
    let missing: std::collections::BTreeSet<&str> = linked.filter(is_missed).collect();
    let gone = "the whole chain is missing; another file names it";
    reports.extend(missing.into_iter().map(|chain| ChainReport::broken(chain, gone)));
    Ok(reports)
}

/// What a chain's first record says about the chain before it.
struct Link {
    chain: String,
    records: u64,
    hash: String,
}

fn links(dir: &Dir, names: &[String]) -> std::io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for chain in names {
        links.extend(first_record(dir, chain)?.as_ref().and_then(link));
    }
    Ok(links)
}

/// Returns the first record of a chain, where it can be read.
pub(super) fn first_record(dir: &Dir, chain: &str) -> std::io::Result<Option<Value>> {
    let Ok(file) = dir.open(format!("{chain}{LOG_SUFFIX}")) else { return Ok(None) };
    let mut first = Vec::new();
    BufReader::new(file.take(AUDIT_RECORD_BYTES_MAX as u64)).read_until(b'\n', &mut first)?;
    Ok(serde_json::from_slice(&first).ok())
}

fn link(record: &Value) -> Option<Link> {
    let previous = record.get("previous_chain")?;
    let (records, hash) = head::read(previous.get("head")?.as_str()?)?;
    Some(Link { chain: previous.get("chain")?.as_str()?.to_owned(), records, hash })
}

/// Returns every record of every chain, oldest first, without judging them.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn records(dir: &Dir) -> std::io::Result<Vec<Value>> {
    let mut records = Vec::new();
    each_record(dir, |record| records.push(record))?;
    Ok(records)
}

/// As [`records`], one after the other.
pub(crate) fn each_record(dir: &Dir, mut take: impl FnMut(Value)) -> std::io::Result<()> {
    for chain in chains(dir)? {
        let Ok(lines) = lines(dir, &chain) else { continue };
        for line in lines {
            serde_json::from_slice(&line?).into_iter().for_each(&mut take);
        }
    }
    Ok(())
}

/// Returns the lines of a chain.
pub(crate) fn lines(
    dir: &Dir,
    chain: &str,
) -> std::io::Result<impl Iterator<Item = std::io::Result<Vec<u8>>> + use<>> {
    let file = dir.open(format!("{chain}{LOG_SUFFIX}"))?;
    // A record has its place in the chain beside what is bounded.
    Ok(regular::lines(BufReader::new(file), 2 * AUDIT_RECORD_BYTES_MAX))
}

/// A chain is named by its log or by its head: deleting either one shows.
pub(crate) fn chains(dir: &Dir) -> std::io::Result<Vec<String>> {
    let mut names = std::collections::BTreeSet::new();
    for name in file_names(dir)? {
        let chain = name.strip_suffix(LOG_SUFFIX).or_else(|| name.strip_suffix(HEAD_SUFFIX));
        names.extend(chain.map(str::to_owned));
    }
    Ok(names.into_iter().collect())
}

fn verify_chain(
    dir: &Dir,
    chain: &str,
    wanted: Vec<&Link>,
    trust: &Trust,
) -> std::io::Result<ChainReport> {
    // Before the log, which may go on growing.
    let head = dir.read_to_string(format!("{chain}{HEAD_SUFFIX}")).ok();
    let known = head.ok_or("its head is missing");
    let known = known.and_then(|head| head::read(&head).ok_or("its head is damaged"));
    let hash = CHAIN_START.to_owned();
    let mut walk = Walk { wanted, known, records: 0, open_calls: 0, hash };
    let first = first_record(dir, chain)?;
    let named = first.as_ref().and_then(|record| record.get(SIGNED_WITH)?.as_str());
    let mut seals = Seals::read(dir, chain)?;
    let mut broken = match lines(dir, chain) {
        Ok(lines) => walk.through(lines, &mut seals)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("the log is missing; its head is still there".to_owned())
        }
        Err(error) => return Err(error),
    };
    broken = broken.or_else(|| walk.check_end().err());
    let signed = broken.is_none().then(|| seals.finish(named, trust)).transpose();
    Ok(ChainReport {
        chain: chain.to_owned(),
        records: walk.records,
        unfinished_calls: walk.open_calls,
        signed: signed.as_ref().ok().copied().flatten().flatten(),
        broken: broken.or_else(|| signed.err()),
    })
}

struct Walk<'a> {
    /// What later chains say about this one, until it is seen to be so.
    wanted: Vec<&'a Link>,
    /// What the head knows, or why that cannot be told. Of a killed host it is behind by what is not signed.
    known: Result<(u64, String), &'static str>,
    records: u64,
    open_calls: u64,
    /// The hash of the last record.
    hash: String,
}

impl Walk<'_> {
    /// Takes all lines; says where the first is that does not hold.
    fn through(
        &mut self,
        lines: impl Iterator<Item = std::io::Result<Vec<u8>>>,
        seals: &mut Seals,
    ) -> std::io::Result<Option<String>> {
        for (index, line) in lines.enumerate() {
            if let Err(reason) = self.step(&line?) {
                return Ok(Some(format!("line {}: {reason}", index + 1)));
            }
            seals.step(&self.hash);
        }
        Ok(None)
    }

    fn step(&mut self, line: &[u8]) -> Result<(), String> {
        let record: Value =
            serde_json::from_slice(line).map_err(|_| "is no JSON object".to_owned())?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        match record.get("v").and_then(Value::as_u64) {
            Some(FORMAT_VERSION) => {}
            Some(newer @ FORMAT_VERSION..) => {
                return Err(format!(
                    "is of format version {newer}, and this clawhost reads {FORMAT_VERSION}: a newer one wrote it and can verify it"
                ));
            }
            _ => return Err(format!("is not of format version {FORMAT_VERSION}")),
        }
        if text("prev") != self.hash {
            return Err(
                "does not follow from the line before it: one of them was edited, dropped or moved"
                    .to_owned(),
            );
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
        self.hash = digest::of_bytes(line);
        let (records, hash) = (self.records, &self.hash);
        self.wanted.retain(|link| link.records != records || link.hash != *hash);
        match &self.known {
            Ok((count, known)) if *count == records && known != hash => {
                Err("is not the one that the head knows".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_end(&self) -> Result<(), String> {
        let (count, _) = self.known.as_ref().map_err(|why| (*why).to_owned())?;
        if self.records < *count {
            return Err(format!(
                "ends after {} of {count} records: the last ones were dropped",
                self.records
            ));
        }
        match self.wanted.first() {
            Some(link) => {
                Err(format!("a later chain knows it with another record {}", link.records))
            }
            None => Ok(()),
        }
    }
}
