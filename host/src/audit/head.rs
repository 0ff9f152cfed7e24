//! The head of a chain: how many records it has and the hash of the last, in a file beside the log, so that
//! an end that was dropped shows.
//!
//! The head of a signed chain follows with each batch, so that of a killed host is behind its log. The next
//! chain names the end that it finds, by the log where that has more.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use cap_std::fs::Dir;
use clawhost_core::digest;
use clawhost_core::limits::AUDIT_RECORD_BYTES_MAX;
use serde_json::Value;

use super::log::{HEAD_SUFFIX, LOG_SUFFIX, file_names};

/// What the end of a log is read of: a record has its place in the chain beside what is bounded.
const TAIL_BYTES: u64 = 2 * AUDIT_RECORD_BYTES_MAX as u64;

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

/// Returns the newest chain's name and end, as the link of the next one.
pub(super) fn newest(dir: &Dir) -> std::io::Result<Value> {
    let names = file_names(dir)?.into_iter();
    let newest = names.filter(|name| name.ends_with(HEAD_SUFFIX)).max();
    let Some(name) = newest else { return Ok(Value::Null) };
    let chain = name.strip_suffix(HEAD_SUFFIX).unwrap_or(&name);
    let head = dir.read_to_string(&name)?;
    let known = read(&head).map_or(0, |(records, _)| records);
    let end = match last_record(dir, chain)? {
        Some((records, hash)) if records > known => text(records, &hash),
        _ => head.trim().to_owned(),
    };
    Ok(serde_json::json!({ "chain": chain, "head": end }))
}

/// Returns the number of records by the last whole line of a log, and the hash of that line.
fn last_record(dir: &Dir, chain: &str) -> std::io::Result<Option<(u64, String)>> {
    let Ok(mut log) = dir.open(format!("{chain}{LOG_SUFFIX}")) else { return Ok(None) };
    let start = log.metadata()?.len().saturating_sub(TAIL_BYTES);
    log.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail)?;
    // What follows the last line break is nothing, or half a line.
    let Some(line) = tail.rsplit(|byte| *byte == b'\n').nth(1) else { return Ok(None) };
    let record: Option<Value> = serde_json::from_slice(line).ok();
    let number = record.and_then(|record| record.get("seq")?.as_u64());
    Ok(number.map(|number| (number.saturating_add(1), digest::of_bytes(line))))
}
