//! The files that chains lie in: what they are called, and how they are read.

use std::collections::BTreeSet;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use clawhost_core::limits::AUDIT_RECORD_BYTES_MAX;
use serde_json::Value;

use crate::regular;

/// Ending of a chain's file.
pub(super) const LOG_SUFFIX: &str = ".jsonl";
/// Ending of the file that holds its count and last hash.
pub(super) const HEAD_SUFFIX: &str = ".head";
/// Ending of the file that holds its signatures, a line each.
pub(super) const SIGNATURES_SUFFIX: &str = ".signatures";
/// Ending of the empty file that is there until a signed record of another chain names the end of a signed one.
pub(super) const UNNAMED_SUFFIX: &str = ".unnamed";
/// Name of the file that names the newest chain.
pub(super) const NEWEST: &str = "newest";
/// Ending of the file that takes the place of that one.
pub(super) const NEWEST_SUFFIX: &str = ".newest";
/// Endings of a chain's files, in the order in which they go. The log is the last: it says how old the chain is, so
/// the next host that removes old ones takes what a killed one left of it.
pub(super) const CHAIN_SUFFIXES: [&str; 5] =
    [UNNAMED_SUFFIX, NEWEST_SUFFIX, SIGNATURES_SUFFIX, HEAD_SUFFIX, LOG_SUFFIX];

/// The longest line: a record has its place in the chain beside what is bounded. A longer one is neither read nor written.
pub(super) const LINE_BYTES_MAX: usize = 2 * AUDIT_RECORD_BYTES_MAX;

pub(super) fn create(dir: &Dir, name: &str, appending: bool) -> std::io::Result<File> {
    dir.open_with(
        name,
        OpenOptions::new().append(appending).write(true).create_new(true).mode(0o600),
    )
}

/// Removes the files of a chain, as far as they are there, up to the first that cannot be removed.
pub(super) fn remove(dir: &Dir, chain: &str, failed: impl Fn(std::io::Error)) {
    for suffix in CHAIN_SUFFIXES {
        match dir.remove_file(format!("{chain}{suffix}")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return failed(error),
            _ => {}
        }
    }
}

/// Returns the names of the regular files in `dir`: reading anything else could block.
pub(super) fn file_names(dir: &Dir) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Returns what a file of `dir` holds, if that is a regular one.
pub(super) fn bytes(dir: &Dir, name: &str) -> std::io::Result<Vec<u8>> {
    let (mut file, _) = regular::open_in(dir, name)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`bytes`], of text.
pub(super) fn text(dir: &Dir, name: &str) -> std::io::Result<String> {
    String::from_utf8(bytes(dir, name)?).map_err(std::io::Error::other)
}

/// Returns the name of the newest chain, where the file that names it does.
pub(super) fn newest(dir: &Dir) -> Option<String> {
    text(dir, NEWEST).ok().filter(|chain| !chain.trim().is_empty())
}

/// A chain is named by its log or by its head: deleting either one shows. Where both are empty, its host was
/// killed before the first record, and there is none.
pub(crate) fn chains(dir: &Dir) -> std::io::Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for name in file_names(dir)? {
        let chain = name.strip_suffix(LOG_SUFFIX).or_else(|| name.strip_suffix(HEAD_SUFFIX));
        let is_empty = || dir.metadata(&name).is_ok_and(|file| file.len() == 0);
        names.extend(chain.filter(|_| !is_empty()).map(str::to_owned));
    }
    Ok(names.into_iter().collect())
}

/// Says whether nobody writes to a chain any more: its host holds the head from before the first record on. What has
/// no head is left of a chain that was being removed.
pub(super) fn has_ended(dir: &Dir, chain: &str) -> bool {
    match regular::open_in(dir, &format!("{chain}{HEAD_SUFFIX}")) {
        Ok((head, _)) => head.into_std().try_lock().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Returns the whole lines of a chain. Half a line at its end is none: a machine that stopped left it, and
/// nobody was told that it is there.
pub(crate) fn lines(
    dir: &Dir,
    chain: &str,
) -> std::io::Result<impl Iterator<Item = std::io::Result<Vec<u8>>> + use<>> {
    let (mut log, bytes) = regular::open_in(dir, &format!("{chain}{LOG_SUFFIX}"))?;
    let whole = bytes - half_line(&mut log, bytes)?;
    log.rewind()?;
    Ok(regular::lines(BufReader::new(log.take(whole)), LINE_BYTES_MAX))
}

/// Returns how long the half of a line is that a log of so many bytes ends in. More than a line can be is none: it is
/// read, as what it is.
fn half_line(log: &mut File, bytes: u64) -> std::io::Result<u64> {
    if tail(log, bytes, 1)?.last().is_none_or(|last| *last == b'\n') {
        return Ok(0);
    }
    let tail = tail(log, bytes, LINE_BYTES_MAX as u64 + 1)?;
    let half = tail.iter().rev().take_while(|byte| **byte != b'\n').count();
    Ok(if half > LINE_BYTES_MAX { 0 } else { half as u64 })
}

/// Returns the last bytes of a log of so many, `most` at the most.
fn tail(log: &mut File, bytes: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let start = bytes.saturating_sub(most);
    log.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    log.take(bytes - start).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Returns the first record of a chain, where it can be read.
pub(super) fn first_record(dir: &Dir, chain: &str) -> Option<Value> {
    let first = lines(dir, chain).ok()?.next()?.ok()?;
    serde_json::from_slice(&first).ok()
}

/// Returns the last whole line of a chain, where it can be read.
pub(super) fn last_line(dir: &Dir, chain: &str) -> Option<Vec<u8>> {
    let (mut log, bytes) = regular::open_in(dir, &format!("{chain}{LOG_SUFFIX}")).ok()?;
    // What follows the last line break is nothing, or half a line.
    tail(&mut log, bytes, LINE_BYTES_MAX as u64)
        .ok()?
        .rsplit(|byte| *byte == b'\n')
        .nth(1)
        .map(<[u8]>::to_vec)
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
