//! The tables of memory stores, and everything that is done to them.
//!
//! Each part has an index of words of its own: a shared one would let the words of one part
//! change the scores of another, which is a way to read it.

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{MEMORY_ANSWER_BYTES_MAX, MEMORY_TOP_K_MAX};
use clawhost_core::manifest::StorePlan;
use rusqlite::types::Value as SqlValue;
use rusqlite::{OptionalExtension as _, Params, Transaction, params_from_iter};
use serde_json::Value;

use super::check::Row;
use super::vectors::{Near, Ranking, mixed};
use super::{Entry, Outcome, QueryKind, Sql, words};

/// The tables. The store itself keeps the totals of each part. An entry's small columns come
/// first: its age is told without reading its content.
pub const MIGRATIONS: &[&str] = &[include_str!("entries.sql"), include_str!("vectors.sql")];

/// What a part holds.
pub(super) struct Totals {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// Returns the part of `store` that is `owner`'s, if anything was ever stored there.
pub(super) fn part(change: &Transaction<'_>, store: &str, owner: &str) -> Sql<Option<i64>> {
    let sql = "SELECT id FROM memory_parts WHERE store = ?1 AND owner = ?2";
    change.query_row(sql, (store, owner), |row| row.get(0)).optional()
}

/// Returns that part, made where it is missing.
pub(super) fn make_part(change: &Transaction<'_>, store: &str, owner: &str) -> Sql<i64> {
    if let Some(part) = part(change, store, owner)? {
        return Ok(part);
    }
    change.execute("INSERT INTO memory_parts (store, owner) VALUES (?1, ?2)", (store, owner))?;
    let part = change.last_insert_rowid();
    change.execute_batch(&format!(
        "CREATE VIRTUAL TABLE memory_words_{part}
             USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'unicode61')"
    ))?;
    Ok(part)
}

pub(super) fn totals(change: &Transaction<'_>, part: i64) -> Sql<Totals> {
    let sql = "SELECT entries, bytes FROM memory_parts WHERE id = ?1";
    change.query_row(sql, [part], |row| {
        let [entries, bytes] = [row.get::<_, i64>(0)?, row.get(1)?].map(i64::unsigned_abs);
        Ok(Totals { entries, bytes })
    })
}

/// Adds an entry and returns its id: that of the entry whose key it has, where it is to take the
/// place of that one.
pub(super) fn add(
    change: &Transaction<'_>,
    part: i64,
    new: &Row,
    plan: &StorePlan,
    now_ms: i64,
) -> Sql<String> {
    let taken =
        if plan.kind.replaces() { take_out(change, part, new.key.as_deref())? } else { None };
    let id = taken.unwrap_or_else(|| new.id.clone());
    let sql = "INSERT INTO memory_entries (part, at_ms, bytes, id, key, metadata, content)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    // The vector comes later, and has its room already.
    let vector = plan.embedding.as_ref().map_or(0, |of| u64::from(of.dimensions) * 4);
    let bytes = i64::try_from(new.bytes + vector).unwrap_or(i64::MAX);
    change.execute(sql, (part, now_ms, bytes, &id, &new.key, &new.metadata, &new.content))?;
    let sql = format!("INSERT INTO memory_words_{part} (rowid, words) VALUES (?1, ?2)");
    change.execute(&sql, (change.last_insert_rowid(), &new.words))?;
    Ok(id)
}

/// Drops the entries of a key and returns the id of the newest.
fn take_out(change: &Transaction<'_>, part: i64, key: Option<&str>) -> Sql<Option<String>> {
    let Some(key) = key else { return Ok(None) };
    let sql =
        "SELECT id FROM memory_entries WHERE part = ?1 AND key = ?2 ORDER BY seq DESC LIMIT 1";
    let id = change.query_row(sql, (part, key), |row| row.get(0)).optional()?;
    if id.is_some() {
        drop_where(change, part, OF_KEY, key)?;
    }
    Ok(id)
}

/// Returns the time before which an entry is over, and is shown to nobody.
pub(super) fn since_ms(plan: &StorePlan, now_ms: i64) -> i64 {
    plan.max_age_ms.map_or(i64::MIN, |age| now_ms.saturating_sub(age))
}

/// Entries that one change drops of a part at most, for each of two reasons: whoever writes meanwhile waits for it,
/// and what takes too long is undone.
pub(super) const DROPPED_ENTRIES_MAX: usize = 20_000;
const OF_KEY: &str =
    "seq IN (SELECT seq FROM memory_entries WHERE part = ?1 AND key = ?2 LIMIT ?3)";
const OVER: &str = "seq IN (SELECT seq FROM memory_entries WHERE part = ?1 AND at_ms < ?2
    ORDER BY at_ms, seq LIMIT ?3)";
const FIRST: &str = "seq IN (SELECT seq FROM memory_entries WHERE part = ?1
    ORDER BY seq LIMIT min(?2, ?3))";

/// Drops what the store no longer keeps, the oldest first: what is over, and all but the `most` that were stored
/// last. Says whether more may be left than one change drops.
pub(super) fn retain(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    most: Option<u64>,
    now_ms: i64,
) -> Sql<bool> {
    let over = drop_where(change, part, OVER, since_ms(plan, now_ms))?;
    let many = keep_newest(change, part, most)?;
    Ok(over.max(many) >= DROPPED_ENTRIES_MAX)
}

/// Does so, and leaves as many entries as the store's compaction says.
pub(super) fn compact(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    now_ms: i64,
) -> Sql<bool> {
    let most = [plan.max_entries, plan.compacts_to].into_iter().flatten().min();
    retain(change, plan, part, most, now_ms)
}

/// Drops some of what is over in another part of the store, if anything is: its owner may never write again.
pub(super) fn retain_beside(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    now_ms: i64,
) -> Sql<()> {
    // Else each part would be looked at, and there is one for each owner.
    if plan.max_age_ms.is_none() {
        return Ok(());
    }
    let sql = "SELECT id FROM memory_parts other WHERE store = ?1 AND id <> ?2 AND EXISTS
        (SELECT 1 FROM memory_entries WHERE part = other.id AND at_ms < ?3) LIMIT 1";
    let since = since_ms(plan, now_ms);
    let other: Option<i64> =
        change.query_row(sql, (&plan.name, part, since), |row| row.get(0)).optional()?;
    other.map_or(Ok(()), |other| drop_where(change, other, OVER, since).map(drop))
}

fn keep_newest(change: &Transaction<'_>, part: i64, most: Option<u64>) -> Sql<usize> {
    let Some(most) = most else { return Ok(0) };
    match totals(change, part)?.entries.saturating_sub(most) {
        0 => Ok(0),
        over => drop_where(change, part, FIRST, i64::try_from(over).unwrap_or(i64::MAX)),
    }
}

/// Drops entries, and their words with them; returns how many. `condition` is this module's own text, in which `?3` is
/// how many may go.
fn drop_where(
    change: &Transaction<'_>,
    part: i64,
    condition: &'static str,
    value: impl rusqlite::ToSql + Copy,
) -> Sql<usize> {
    let these = format!("FROM memory_entries WHERE part = ?1 AND {condition}");
    let words = format!("DELETE FROM memory_words_{part} WHERE rowid IN (SELECT seq {these})");
    let most = i64::try_from(DROPPED_ENTRIES_MAX).unwrap_or(i64::MAX);
    change.execute(&words, (part, value, most))?;
    change.execute(&format!("DELETE {these}"), (part, value, most))
}

/// Returns what is looked for among the entries that are not older than `since_ms`.
pub(super) fn find(
    change: &Transaction<'_>,
    part: i64,
    kind: &QueryKind,
    near: Option<&Near>,
    top_k: u32,
    since_ms: i64,
) -> Outcome<Vec<Entry>> {
    match kind {
        QueryKind::Semantic { text } => {
            let words = || by_words(change, part, text, since_ms);
            let ranking = match near {
                None => words()?,
                Some(near) if near.alone => near.rank(change, part, since_ms)?,
                Some(near) => mixed([words()?, near.rank(change, part, since_ms)?]),
            };
            best(change, &ranking, top_k)
        }
        QueryKind::Key { key } => {
            let condition = "key = ?3 AND at_ms >= ?4 ORDER BY seq DESC";
            let values = [key.clone().into(), since_ms.into()];
            newest(change, part, top_k, condition, values)
        }
        QueryKind::TimeRange { from_ms, to_ms } => {
            let condition = "at_ms BETWEEN ?3 AND ?4 ORDER BY at_ms DESC, seq DESC";
            let values = [(*from_ms).max(since_ms).into(), (*to_ms).into()];
            newest(change, part, top_k, condition, values)
        }
    }
}

/// Returns the last of those that meet `condition`, in its order turned round.
fn newest(
    change: &Transaction<'_>,
    part: i64,
    top_k: u32,
    condition: &'static str,
    values: [SqlValue; 2],
) -> Outcome<Vec<Entry>> {
    let sql = format!(
        "SELECT id, key, metadata, content, at_ms, NULL FROM memory_entries
         WHERE part = ?1 AND {condition} LIMIT ?2"
    );
    let given = [part.into(), i64::from(top_k).into()];
    let found = read(change, &sql, params_from_iter(given.into_iter().chain(values)))?;
    Ok(found.map(|mut entries| {
        entries.reverse();
        entries
    }))
}

/// Returns the entries that have any word of `text`, the best first.
fn by_words(change: &Transaction<'_>, part: i64, text: &str, since_ms: i64) -> Sql<Ranking> {
    let Some(query) = words::any_of(text) else { return Ok(Ranking::new()) };
    let index = format!("memory_words_{part}");
    let sql = format!(
        "SELECT e.seq, -bm25({index}) AS score
         FROM {index} JOIN memory_entries e ON e.seq = {index}.rowid
         WHERE {index} MATCH ?1 AND e.at_ms >= ?2
         ORDER BY score DESC, e.seq DESC LIMIT ?3"
    );
    let mut select = change.prepare(&sql)?;
    let rows = select
        .query_map((query, since_ms, MEMORY_TOP_K_MAX), |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Returns the first of a ranking. Which they are is known before any content is read.
fn best(change: &Transaction<'_>, ranking: &Ranking, top_k: u32) -> Outcome<Vec<Entry>> {
    let sql = "SELECT e.id, e.key, metadata, content, at_ms, best.value ->> 1
        FROM json_each(?1) best JOIN memory_entries e ON seq = best.value ->> 0
        ORDER BY best.key LIMIT ?2";
    read(change, sql, (serde_json::json!(ranking).to_string(), top_k))
}

/// Reads entries until the answer is too long.
fn read(change: &Transaction<'_>, sql: &str, values: impl Params) -> Outcome<Vec<Entry>> {
    let mut statement = change.prepare(sql)?;
    let mut rows = statement.query(values)?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (metadata, content): (Option<String>, String) = (row.get(2)?, row.get(3)?);
        bytes += metadata.as_ref().map_or(0, String::len) + content.len();
        if bytes > MEMORY_ANSWER_BYTES_MAX {
            return Ok(Err(too_long()));
        }
        entries.push(Entry {
            id: row.get(0)?,
            key: row.get(1)?,
            metadata: metadata.as_deref().map(json).transpose()?,
            content: json(&content)?,
            timestamp_ms: row.get(4)?,
            score: row.get(5)?,
        });
    }
    Ok(Ok(entries))
}

/// What was written here is JSON: anything else is a damaged file.
pub(super) fn json(text: &str) -> Sql<Value> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, error.into())
    })
}

fn too_long() -> CallError {
    let reason = format!(
        "the answer would have more than {MEMORY_ANSWER_BYTES_MAX} bytes: ask for fewer entries with `top_k`"
    );
    CallError::new(ErrorKind::MemoryQuery, reason).with_limit(Limit::MemoryAnswerBytes)
}
