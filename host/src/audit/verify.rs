//! Reading a log back: does every chain hold, and if not, where does it break?

use std::collections::BTreeSet;

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::json::text;
use clawhost_core::limits::AUDIT_UNSIGNED_MS;
use serde_json::Value;

use super::files::{self, NEWEST, chains, first_record, lines};
use super::head;
use super::key::PublicKey;
use super::log::SIGNED_WITH;
use super::record::{self, CHAIN_START, FORMAT_VERSION};
use super::retention;
use super::seal::Seals;

/// What verifying one chain found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChainReport {
    /// The chain's name.
    pub chain: String,
    /// Records that hold.
    pub records: u64,
    /// Records that a signature holds for; absent where the chain is not signed, and where it does not hold by
    /// itself. A killed host leaves the last few unsigned.
    pub signed: Option<u64>,
    /// Calls that were received and have no closing record (a killed host leaves these).
    pub unfinished_calls: u64,
    /// It has its first record and no head yet: its host starts, or was killed then.
    pub begun: bool,
    /// Where and how it breaks; absent where all of it holds.
    pub broken: Option<String>,
}

impl ChainReport {
    fn missing(chain: &str, why: &str) -> Self {
        let (chain, broken) = (chain.to_owned(), Some(why.to_owned()));
        Self { chain, records: 0, signed: None, unfinished_calls: 0, begun: false, broken }
    }
}

/// A chain that was checked by itself.
struct Judged {
    report: ChainReport,
    /// What time its end spans that is not signed, in milliseconds.
    unsigned_ms: u64,
}

/// Whose signatures count.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The keys. A chain that is signed with another is broken.
    pub keys: Vec<PublicKey>,
    /// A chain that is not signed to its end is broken too, unless the signed first record of another names
    /// that end and no more lacks a signature than a killed host leaves; and what was removed as old is only what such
    /// a record says.
    pub all_signed: bool,
}

/// Checks every chain in `dir`, oldest first, and that none is missing: each names the one
/// before it, and the file `newest` the last. Those that a later chain says were removed as old
/// are not missed.
///
/// A folder of which every file was rewritten so that all of it fits together again shows by its
/// signatures alone. What cannot be seen is an end that is missing from the newest chain, with its
/// signatures and its head, or newest chains that are missing whole; and other records in the place of the last that
/// a killed host would have left unsigned, until a later chain names that end.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn verify(dir: &Dir, trust: &Trust) -> std::io::Result<Vec<ChainReport>> {
    // Before the chains: a host that starts meanwhile names one that is not among them.
    let newest = files::text(dir, NEWEST).ok();
    let names = chains(dir)?;
    let links = links(dir, &names)?;
    let mut found = Vec::new();
    for chain in &names {
        let wanted = links.iter().filter(|link| link.chain == *chain).collect();
        let is_named = newest.as_ref() == Some(chain);
        found.push(verify_chain(dir, chain, is_named, wanted, &trust.keys)?);
    }
    // What a first record says that is not signed, anybody may have written.
    let counts = |it: &&Judged| !trust.all_signed || it.report.signed > Some(0);
    let counted: BTreeSet<String> =
        found.iter().filter(counts).map(|it| it.report.chain.clone()).collect();
    if trust.all_signed {
        want_signed(&mut found, links.iter().filter(|link| counted.contains(&link.by)));
    }
    let mut reports: Vec<ChainReport> = found.into_iter().map(|it| it.report).collect();
    // Of a host that was killed as it began the first chain of all, nothing is there to name it yet.
    let is_named = reports.len() > 1 || reports.iter().any(|report| report.records > 1);
    if is_named && files::text(dir, NEWEST).is_err() {
        let why = "the file that names the newest chain is missing";
        reports.push(ChainReport::missing(NEWEST, why));
    }
    let linked = links.iter().map(|link| link.chain.as_str()).chain(newest.as_deref());
    let removed = retention::removed_through(dir, &counted)?.unwrap_or_default();
    let is_missed = |chain: &&str| names.iter().all(|name| name != chain) && **chain > *removed;
    let missing: BTreeSet<&str> = linked.filter(is_missed).collect();
    let gone = "the whole chain is missing; another file names it";
    reports.extend(missing.into_iter().map(|chain| ChainReport::missing(chain, gone)));
    Ok(reports)
}

/// Breaks every chain that is not signed to its end, but for that of a killed host: one of `links` names the
/// end, and no more lacks a signature than such a host leaves.
fn want_signed<'l>(found: &mut [Judged], links: impl Iterator<Item = &'l Link>) {
    let named: BTreeSet<_> = links.map(|link| (link.chain.as_str(), link.records)).collect();
    for Judged { report, unsigned_ms } in found.iter_mut().filter(|it| it.report.broken.is_none()) {
        let is_named = named.contains(&(report.chain.as_str(), report.records));
        if report.signed.is_none() || !is_named || *unsigned_ms > AUDIT_UNSIGNED_MS {
            report.broken = unsigned(report);
        }
    }
}

fn unsigned(report: &ChainReport) -> Option<String> {
    let records = report.records;
    match report.signed {
        None => Some("is not signed".to_owned()),
        Some(signed) if signed < records => Some(format!(
            "lines {} to {records} are not signed: its host runs, was killed, or the signatures were taken away",
            signed + 1
        )),
        Some(_) => None,
    }
}

/// What a chain's first record says about the end of another.
struct Link {
    /// The chain that says it.
    by: String,
    chain: String,
    records: u64,
    hash: String,
}

fn links(dir: &Dir, names: &[String]) -> std::io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for chain in names {
        let Some(first) = first_record(dir, chain)? else { continue };
        let killed = first.get(head::KILLED).and_then(Value::as_array);
        let ends = first.get(head::PREVIOUS).into_iter().chain(killed.into_iter().flatten());
        links.extend(ends.filter_map(|end| link(chain, end)));
    }
    Ok(links)
}

fn link(by: &str, end: &Value) -> Option<Link> {
    let (records, hash) = head::read(end.get("head")?.as_str()?)?;
    let chain = end.get("chain")?.as_str()?.to_owned();
    Some(Link { by: by.to_owned(), chain, records, hash })
}

/// Checks a chain by itself. That it is named as the newest shows that its head was there.
fn verify_chain(
    dir: &Dir,
    chain: &str,
    is_named: bool,
    wanted: Vec<&Link>,
    keys: &[PublicKey],
) -> std::io::Result<Judged> {
    // Before the log, which may go on growing.
    let head = head::known(dir, chain, is_named);
    let known = head.as_ref().ok().cloned().flatten();
    let hash = CHAIN_START.to_owned();
    let mut walk = Walk { wanted, known, records: 0, open_calls: 0, hash, time_ms: 0 };
    let first = first_record(dir, chain)?;
    let named = first.as_ref().and_then(|record| record.get(SIGNED_WITH)?.as_str());
    let mut seals = Seals::read(dir, chain)?;
    let walked = match lines(dir, chain) {
        Ok(lines) => walk.through(lines, &mut seals)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("the log is missing; its head is still there".to_owned())
        }
        Err(error) => return Err(error),
    };
    let unsigned_ms = seals.unsigned_ms();
    let begun = head == Ok(None);
    let whole = walked.and_then(|()| head.map_err(str::to_owned));
    let whole = whole.and_then(|_| walk.check_end());
    let signed = whole.and_then(|()| seals.finish(named, keys));
    let report = ChainReport {
        chain: chain.to_owned(),
        records: walk.records,
        unfinished_calls: walk.open_calls,
        begun,
        broken: signed.as_ref().err().cloned(),
        signed: signed.ok().flatten(),
    };
    Ok(Judged { report, unsigned_ms })
}

struct Walk<'a> {
    /// What later chains say about this one, until it is seen to be so.
    wanted: Vec<&'a Link>,
    /// What the head knows, if it can be told. Of a killed host it is behind by what is not signed.
    known: Option<(u64, String)>,
    records: u64,
    open_calls: u64,
    /// The hash of the last record.
    hash: String,
    /// Its time, in milliseconds since 1970; 0 where it has none.
    time_ms: i64,
}

impl Walk<'_> {
    /// Takes all lines; says where the first is that does not hold, and how.
    fn through(
        &mut self,
        lines: impl Iterator<Item = std::io::Result<Vec<u8>>>,
        seals: &mut Seals,
    ) -> std::io::Result<Result<(), String>> {
        let mut lines = lines.peekable();
        while let Some(line) = lines.next().transpose()? {
            let next = lines.peek().and_then(|next| next.as_deref().ok());
            if let Err(broken) = self.step(&line, next) {
                return Ok(Err(format!("line {}: {broken}", self.records + 1)));
            }
            seals.step(&self.hash, self.time_ms);
        }
        Ok(Ok(()))
    }

    /// Takes a line; says how the one after those that are counted then does not hold.
    fn step(&mut self, line: &[u8], next: Option<&[u8]>) -> Result<(), String> {
        let at = self.records + 1;
        let record: Value = serde_json::from_slice(line).map_err(|_| "is no JSON object")?;
        check_version(&record)?;
        let was =
            record.get("seq").and_then(Value::as_u64).ok_or("has no number")?.saturating_add(1);
        if was != at {
            return Err(format!("was line {was}: lines were dropped, added or moved here"));
        }
        let hash = digest::of_bytes(line);
        let is_of_head = self.known.as_ref().filter(|(count, _)| *count == at);
        let is_of_head = is_of_head.map(|(_, known)| *known == hash);
        if text(&record, "prev") != self.hash {
            // What the line after it or the head knows is as it was written: then the one before it is not.
            let next: Option<Value> = next.and_then(|next| serde_json::from_slice(next).ok());
            let is_known = next.is_some_and(|next| text(&next, "prev") == hash);
            if is_known || is_of_head == Some(true) {
                self.records = self.records.saturating_sub(1);
            }
            return Err("was edited: it does not fit the lines beside it".to_owned());
        }
        if is_of_head == Some(false) {
            return Err("was edited: the head knows another".to_owned());
        }
        match text(&record, "event") {
            "call.received" => self.open_calls += 1,
            "call.finished" => self.open_calls = self.open_calls.saturating_sub(1),
            _ => {}
        }
        (self.records, self.hash) = (at, hash);
        self.time_ms = record::time_ms(&record).unwrap_or_default();
        self.wanted.retain(|link| link.records != at || link.hash != self.hash);
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let (records, known) = (self.records, self.known.as_ref().map_or(0, |(count, _)| *count));
        if records < known {
            return Err(format!(
                "ends after {records} of {known} records: the last ones were dropped"
            ));
        }
        self.wanted.first().map_or(Ok(()), |link| {
            Err(format!("a later chain knows it with another record {}", link.records))
        })
    }
}

fn check_version(record: &Value) -> Result<(), String> {
    match record.get("v").and_then(Value::as_u64) {
        Some(FORMAT_VERSION) => Ok(()),
        Some(newer @ FORMAT_VERSION..) => Err(format!(
            "is of format version {newer}, and this clawhost reads {FORMAT_VERSION}: a newer one wrote it and can verify it"
        )),
        _ => Err(format!("is not of format version {FORMAT_VERSION}")),
    }
}
