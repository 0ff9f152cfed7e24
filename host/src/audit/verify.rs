//! Reading a log back: does every chain hold, and if not, where does it break?

use std::collections::{BTreeMap, BTreeSet};

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::json::text;
use clawhost_core::limits::AUDIT_UNSIGNED_MS;
use serde_json::Value;

use super::files::{self, NEWEST, lines};
use super::head::{self, End};
use super::key::PublicKey;
use super::opening::Opening;
use super::record::{self, CHAIN_START, FORMAT_VERSION};
use super::seal::Seals;

/// How often the chains are read at the most, where hosts that start remove old ones meanwhile.
const READS_MAX: usize = 3;

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
    /// The latest time of its records, in milliseconds since 1970.
    latest_ms: i64,
}

/// What somebody who removes old chains has to know of one.
#[derive(Debug)]
pub(super) struct Verdict {
    pub chain: String,
    /// The latest time of its records, in milliseconds since 1970.
    pub latest_ms: i64,
    /// How it breaks; absent where it holds.
    pub broken: Option<String>,
    /// A first record that counts says that it was removed: this is what a killed host left of it.
    pub is_removed: bool,
}

/// Whose signatures count.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The keys. A chain that is signed with another is broken.
    pub keys: Vec<PublicKey>,
    /// A chain that is not signed to its end is broken too, unless the signed first record of another names
    /// that end and no more lacks a signature than a killed host leaves, which is never the first record of several;
    /// and what was removed as old is only what such a record says.
    pub all_signed: bool,
}

/// Checks every chain in `dir`, oldest first, and that none is missing: each names the one
/// before it, and the file `newest` the last. Those that a later chain says were removed as old
/// are not missed.
///
/// A folder of which every file was rewritten so that all of it fits together again shows by its
/// signatures alone. What cannot be seen is an end that is missing with its signatures and its head, until a later
/// chain names it, or newest chains that are missing whole; and other records in the place of the last that
/// a killed host would have left unsigned, until then too.
///
/// # Errors
/// The folder cannot be read. A file that cannot breaks its chain.
pub fn verify(dir: &Dir, trust: &Trust) -> std::io::Result<Vec<ChainReport>> {
    let mut left = READS_MAX;
    loop {
        // Before the chains: a host that starts meanwhile names one that is not among them.
        let newest = files::newest(dir);
        let openings = Opening::all(dir)?;
        let (found, counted) = checked(dir, &openings, newest.as_deref(), trust);
        let mut reports: Vec<ChainReport> = found.into_iter().map(|it| it.report).collect();
        left -= 1;
        if left > 0 && any_has_gone(dir, &reports)? {
            continue;
        }
        reports.extend(missing_newest(dir, &reports));
        reports.extend(missing_chains(dir, &openings, &counted, newest.as_deref()));
        return Ok(reports);
    }
}

/// Says whether a chain that does not hold has gone since it was read. A host that started may have removed it as old
/// and was only half done then; what is there now says whether anybody misses it.
fn any_has_gone(dir: &Dir, reports: &[ChainReport]) -> std::io::Result<bool> {
    let mut broken = reports.iter().filter(|report| report.broken.is_some()).peekable();
    if broken.peek().is_none() {
        return Ok(false);
    }
    let there = files::chains(dir)?;
    Ok(broken.any(|report| !there.contains(&report.chain)))
}

/// As [`verify`], of `chains` alone, in order. Of the others, those are read that say something of them.
pub(super) fn judge(dir: &Dir, chains: &[String], trust: &Trust) -> std::io::Result<Vec<Verdict>> {
    let newest = files::newest(dir);
    let mut openings = Opening::all(dir)?;
    let is_meant = |chain: &String| chains.contains(chain);
    openings.retain(|opening| {
        let names = opening.ends.iter().any(|end| is_meant(&end.chain));
        names || is_meant(&opening.chain) || opening.removed_through.as_ref() >= chains.first()
    });
    let (found, counted) = checked(dir, &openings, newest.as_deref(), trust);
    let removed = removed_through(&counted);
    let verdict = |Judged { report, latest_ms, .. }| Verdict {
        is_removed: removed.is_some_and(|removed| report.chain.as_str() <= removed),
        chain: report.chain,
        latest_ms,
        broken: report.broken,
    };
    Ok(found.into_iter().map(verdict).filter(|it| is_meant(&it.chain)).collect())
}

/// Checks the chains of `openings`, and returns those of these that count beside: what one says that is not signed,
/// anybody may have written.
fn checked<'a>(
    dir: &Dir,
    openings: &'a [Opening],
    newest: Option<&str>,
    trust: &Trust,
) -> (Vec<Judged>, Vec<&'a Opening>) {
    let mut found = each_by_itself(dir, openings, newest, &trust.keys);
    let counts = |it: &Judged| !trust.all_signed || it.report.signed > Some(0);
    let pairs = openings.iter().zip(&found).filter(|(_, it)| counts(it));
    let counted: Vec<&Opening> = pairs.map(|(opening, _)| opening).collect();
    if trust.all_signed {
        want_signed(&mut found, &counted);
    }
    (found, counted)
}

/// Returns the last chain of which one of the counted first records says that it was removed.
fn removed_through<'a>(counted: &[&'a Opening]) -> Option<&'a str> {
    counted.iter().filter_map(|opening| opening.removed_through.as_deref()).max()
}

fn each_by_itself(
    dir: &Dir,
    openings: &[Opening],
    newest: Option<&str>,
    keys: &[PublicKey],
) -> Vec<Judged> {
    let mut named: BTreeMap<&str, Vec<&End>> = BTreeMap::new();
    for end in openings.iter().flat_map(|opening| &opening.ends) {
        named.entry(&end.chain).or_default().push(end);
    }
    let judge = |opening: &Opening| {
        let wanted = named.remove(opening.chain.as_str()).unwrap_or_default();
        verify_chain(dir, opening, newest == Some(opening.chain.as_str()), wanted, keys)
    };
    openings.iter().map(judge).collect()
}

/// Breaks every chain that is not signed to its end, but for that of a killed host: one of the counted first records
/// names the end, and no more lacks a signature than such a host leaves. It leaves no second record without a signature
/// for the first: that anybody may have written, and the next host names whatever it finds.
fn want_signed(found: &mut [Judged], counted: &[&Opening]) {
    let ends = counted.iter().flat_map(|opening| &opening.ends);
    let named: BTreeSet<_> = ends.map(|end| (end.chain.as_str(), end.records)).collect();
    for Judged { report, unsigned_ms, .. } in
        found.iter_mut().filter(|it| it.report.broken.is_none())
    {
        let is_named = named.contains(&(report.chain.as_str(), report.records));
        let begins_signed = report.signed.is_some_and(|signed| signed > 0 || report.records <= 1);
        if !begins_signed || !is_named || *unsigned_ms > AUDIT_UNSIGNED_MS {
            report.broken = unsigned(report);
        }
    }
}

/// Reports that no file names the newest chain, where there was one.
fn missing_newest(dir: &Dir, reports: &[ChainReport]) -> Option<ChainReport> {
    // Of a host that was killed as it began the first chain of all, nothing is there to name it yet.
    let was_there = reports.len() > 1 || reports.iter().any(|report| report.records > 1);
    // Read only now: the first host of all may have named its chain after the chains were listed.
    let is_missing = was_there && files::newest(dir).is_none();
    let why = "the file that names the newest chain is missing, or names none";
    is_missing.then(|| ChainReport::missing(NEWEST, why))
}

/// Reports the chains that others name, or the file `newest`, and that are not there; but for those that a counted
/// first record says were removed as old.
fn missing_chains(
    dir: &Dir,
    openings: &[Opening],
    counted: &[&Opening],
    newest: Option<&str>,
) -> Vec<ChainReport> {
    let there: BTreeSet<&str> = openings.iter().map(|opening| opening.chain.as_str()).collect();
    let ends = openings.iter().flat_map(|opening| &opening.ends);
    let named: BTreeSet<&str> = ends.map(|end| end.chain.as_str()).chain(newest).collect();
    let removed = removed_through(counted);
    let missed = named.difference(&there).filter(|chain| **chain > removed.unwrap_or_default());
    // A folder that is read while chains begin may show one, and not the one before it.
    let missed = missed.filter(|chain| files::first_record(dir, chain).is_none());
    let why = "the whole chain is missing; another file names it";
    missed.map(|chain| ChainReport::missing(chain, why)).collect()
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

/// Checks a chain by itself, and that the ends are in it that others name. That it is named as the newest shows that
/// its head was there.
fn verify_chain(
    dir: &Dir,
    opening: &Opening,
    is_newest: bool,
    wanted: Vec<&End>,
    keys: &[PublicKey],
) -> Judged {
    let chain = &opening.chain;
    // Before the log, which may go on growing.
    let head = head::known(dir, chain, is_newest);
    let known = head.as_ref().ok().cloned().flatten();
    let hash = digest::text(&CHAIN_START);
    let mut walk =
        Walk { wanted, known, records: 0, open_calls: 0, hash, time_ms: 0, latest_ms: 0 };
    let mut seals = Seals::read(dir, chain);
    let walked = match lines(dir, chain) {
        Ok(_) if opening.is_moved => Err("line 1: is of a chain of another name".to_owned()),
        Ok(lines) => walk.through(lines, &mut seals),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("the log is missing; its head is still there".to_owned())
        }
        Err(error) => Err(format!("the log cannot be read: {error}")),
    };
    let unsigned_ms = seals.unsigned_ms();
    let begun = head == Ok(None);
    let whole = walked.and_then(|()| head.map_err(str::to_owned));
    let whole = whole.and_then(|_| walk.check_end());
    let signed = whole.and_then(|()| seals.finish(opening.signed_with.as_deref(), keys));
    let report = ChainReport {
        chain: chain.clone(),
        records: walk.records,
        unfinished_calls: walk.open_calls,
        begun,
        broken: signed.as_ref().err().cloned(),
        signed: signed.ok().flatten(),
    };
    Judged { report, unsigned_ms, latest_ms: walk.latest_ms }
}

struct Walk<'a> {
    /// What later chains say about this one, until it is seen to be so.
    wanted: Vec<&'a End>,
    /// What the head knows, if it can be told. Of a killed host it is behind by what is not signed.
    known: Option<(u64, String)>,
    records: u64,
    open_calls: u64,
    /// The hash of the last record.
    hash: String,
    /// Its time, in milliseconds since 1970; 0 where it has none.
    time_ms: i64,
    /// The latest time of all so far.
    latest_ms: i64,
}

impl Walk<'_> {
    /// Takes all lines; says where the first is that does not hold, and how.
    fn through(
        &mut self,
        lines: impl Iterator<Item = std::io::Result<Vec<u8>>>,
        seals: &mut Seals,
    ) -> Result<(), String> {
        let mut lines = lines.peekable();
        while let Some(line) = lines.next() {
            let next = lines.peek().and_then(|next| next.as_deref().ok());
            let stepped = match line {
                Ok(line) => self.step(&line, next),
                Err(error) => Err(format!("cannot be read: {error}")),
            };
            stepped.map_err(|broken| format!("line {}: {broken}", self.records + 1))?;
            seals.step(&self.hash, self.time_ms);
        }
        Ok(())
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
        self.latest_ms = self.latest_ms.max(self.time_ms);
        self.wanted.retain(|end| end.records != at || end.hash != self.hash);
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let (records, known) = (self.records, self.known.as_ref().map_or(0, |(count, _)| *count));
        if records < known {
            return Err(format!(
                "ends after {records} of {known} records: the last ones were dropped"
            ));
        }
        self.wanted.first().map_or(Ok(()), |end| {
            Err(format!("a later chain knows it with another record {}", end.records))
        })
    }
}

fn check_version(record: &Value) -> Result<(), String> {
    match record.get("v").and_then(Value::as_u64) {
        Some(FORMAT_VERSION) => Ok(()),
        Some(newer @ FORMAT_VERSION..) => Err(format!(
            "is of format version {newer}, and this clawhost reads {FORMAT_VERSION}: \
             a newer one wrote it and can verify it"
        )),
        _ => Err(format!("is not of format version {FORMAT_VERSION}")),
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;
    use crate::audit::{AuditLog, Terms};

    #[test]
    fn a_chain_that_was_removed_while_it_was_read_is_asked_about_again_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (0..3).for_each(|_| drop(AuditLog::open(&dir, Terms::default()).unwrap()));
        let first = files::chains(&dir).unwrap().remove(0);
        // In the order in which who removes a chain does it.
        dir.remove_file(format!("{first}{}", files::HEAD_SUFFIX)).unwrap();
        let reports = verify(&dir, &Trust::default()).unwrap();
        assert_eq!(reports[0].broken.as_deref(), Some("its head is missing"));
        assert!(!any_has_gone(&dir, &reports).unwrap());
        dir.remove_file(format!("{first}{}", files::LOG_SUFFIX)).unwrap();
        assert!(any_has_gone(&dir, &reports).unwrap());
    }
}
