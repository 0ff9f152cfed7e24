//! The rows of the replay window. A row without an answer is a request that runs, or whose host
//! died while it ran.

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    REPLAY_ANSWER_BYTES_MAX, REPLAY_BYTES_MAX, REPLAY_KEPT_MS, REPLAY_ROWS_MAX,
    REPLAY_UNKNOWN_KEPT_MS, REPLAY_WINDOW_MS,
};
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Answer, Key};

/// The tables. The store itself keeps each principal's totals, so that no bound is counted anew
/// at each request.
pub const MIGRATIONS: &[&str] = &[include_str!("table.sql")];

/// What the store knows of a request.
pub(super) enum Known {
    /// What it came to.
    Answered(String),
    /// There is no room for it.
    Full { limit: Limit, value: u64 },
    /// Nothing so far; from now on it is known as running.
    New,
    /// Its id, with other parameters.
    OtherParameters,
    /// It began and never ended.
    Unknown,
}

/// Looks a request up, and takes its place where it is new.
pub(super) fn claim(
    db: &mut Connection,
    key: &Key,
    digest: &str,
    now_ms: i64,
) -> rusqlite::Result<Known> {
    let change = db.transaction()?;
    sweep(&change, now_ms)?;
    let known = match look_up(&change, key)? {
        Some((first, _)) if first != digest => Known::OtherParameters,
        Some((_, Some(answer))) => Known::Answered(answer),
        Some((_, None)) => Known::Unknown,
        None => match make_room(&change, &key.principal, now_ms)? {
            Some((limit, value)) => Known::Full { limit, value },
            None => {
                insert(&change, key, digest, now_ms)?;
                Known::New
            }
        },
    };
    change.commit()?;
    Ok(known)
}

/// Drops what is past its time, and what a clock that went wrong dated into the future.
fn sweep(change: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM replays WHERE (at_ms < ?1 OR at_ms > ?2)
        AND (answer IS NOT NULL OR at_ms NOT BETWEEN ?3 AND ?4)";
    let (from, to) = around(now_ms, REPLAY_KEPT_MS);
    let (unknown_from, unknown_to) = around(now_ms, REPLAY_UNKNOWN_KEPT_MS);
    change.prepare(sql)?.execute((from, to, unknown_from, unknown_to))?;
    Ok(())
}

fn around(now_ms: i64, span_ms: i64) -> (i64, i64) {
    (now_ms.saturating_sub(span_ms), now_ms.saturating_add(span_ms))
}

fn look_up(
    change: &Transaction<'_>,
    key: &Key,
) -> rusqlite::Result<Option<(String, Option<String>)>> {
    let sql = "SELECT digest, answer FROM replays
        WHERE principal = ?1 AND method = ?2 AND request_id = ?3";
    change
        .prepare(sql)?
        .query_row((&key.principal, key.method, &key.request_id), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
}

fn insert(
    change: &Transaction<'_>,
    key: &Key,
    digest: &str,
    now_ms: i64,
) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO replays (principal, method, request_id, digest, at_ms)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    change.prepare(sql)?.execute((&key.principal, key.method, &key.request_id, digest, now_ms))
}

/// Returns the bound that stands in the way of one more row of `principal`. Where one does, the
/// rows that are kept longer than was promised go first.
fn make_room(
    change: &Transaction<'_>,
    principal: &str,
    now_ms: i64,
) -> rusqlite::Result<Option<(Limit, u64)>> {
    if bound_reached(change, principal)?.is_none() {
        return Ok(None);
    }
    let sql = "DELETE FROM replays WHERE principal = ?1 AND at_ms < ?2 AND answer IS NOT NULL";
    change.prepare(sql)?.execute((principal, now_ms.saturating_sub(REPLAY_WINDOW_MS)))?;
    bound_reached(change, principal)
}

fn bound_reached(
    change: &Transaction<'_>,
    principal: &str,
) -> rusqlite::Result<Option<(Limit, u64)>> {
    let sql = "SELECT count, bytes FROM replay_totals WHERE principal = ?1";
    let totals = change
        .prepare(sql)?
        .query_row([principal], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let (count, bytes) = totals.unwrap_or((0, 0));
    let reached = [
        (Limit::ReplayRows, count, REPLAY_ROWS_MAX),
        (Limit::ReplayBytes, bytes, REPLAY_BYTES_MAX),
    ];
    let reached = reached.into_iter().find(|(_, used, most)| used >= most);
    Ok(reached.map(|(limit, _, most)| (limit, most.unsigned_abs())))
}

/// Adds its answer to a running request, whose row may be gone if it ran for very long, or the clock was set meanwhile.
pub(super) fn keep(
    db: &mut Connection,
    key: &Key,
    digest: &str,
    answer: &str,
    now_ms: i64,
) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO replays VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (principal, method, request_id)
        DO UPDATE SET at_ms = ?5, answer = ?6, bytes = ?7 WHERE digest = ?4";
    let bytes = i64::try_from(answer.len()).unwrap_or(i64::MAX);
    let Key { principal, method, request_id } = key;
    db.prepare(sql)?.execute((principal, method, request_id, digest, now_ms, answer, bytes))
}

/// Drops a request that did nothing.
pub(super) fn forget(db: &mut Connection, key: &Key) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM replays WHERE principal = ?1 AND method = ?2 AND request_id = ?3";
    db.prepare(sql)?.execute((&key.principal, key.method, &key.request_id))
}

/// An answer as it is kept: what the caller was told, not what only the record knows.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Kept {
    Result(Value),
    Error { kind: String, message: String, data: Map<String, Value> },
}

/// Writes an answer as JSON.
pub(super) fn write_answer(answer: &Answer) -> String {
    let kept = match answer.clone() {
        Ok(result) => Kept::Result(result),
        Err(CallError { kind, message, data, .. }) => {
            Kept::Error { kind: kind.name().to_owned(), message, data }
        }
    };
    let text = json!(kept).to_string();
    if text.len() <= REPLAY_ANSWER_BYTES_MAX { text } else { write_answer(&Err(too_long())) }
}

fn too_long() -> CallError {
    let reason = "the request was carried out; its answer was too long to be given again";
    CallError::new(ErrorKind::Internal, reason)
        .with("stage", "replay")
        .with_limit(Limit::ReplayAnswerBytes)
}

/// Reads what [`write_answer`] wrote.
pub(super) fn read_answer(text: &str) -> Answer {
    match serde_json::from_str(text).map_err(|_| unreadable())? {
        Kept::Result(result) => Ok(result),
        Kept::Error { kind, message, data } => {
            let kind = ErrorKind::named(&kind).ok_or_else(unreadable)?;
            Err(CallError { data, ..CallError::new(kind, message) })
        }
    }
}

fn unreadable() -> CallError {
    CallError::new(ErrorKind::Internal, "the kept answer of this request cannot be read")
        .with("stage", "replay")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let error = CallError::new(ErrorKind::ApprovalTimeout, "nobody came").with("rule_id", "r");
        for answer in [Ok(json!({"a": [1, null, "é"]})), Ok(Value::Null), Err(error)] {
            assert_eq!(read_answer(&write_answer(&answer)), answer);
        }
    }

    #[test]
    fn what_only_the_record_knows_is_not_kept() {
        let error = CallError::new(ErrorKind::Internal, "no").with_internal("canary");
        assert!(!write_answer(&Err(error)).contains("canary"));
    }

    #[test]
    fn an_answer_that_is_too_long_is_said_to_have_been() {
        let text = write_answer(&Ok("x".repeat(REPLAY_ANSWER_BYTES_MAX).into()));
        assert!(text.len() < 1_000);
        assert_eq!(read_answer(&text), Err(too_long()));
    }

    #[test]
    fn a_damaged_answer_is_an_error() {
        for text in ["", "[]", "{}", r#"{"error":{"kind":"nothing","message":"","data":{}}}"#] {
            assert_eq!(read_answer(text), Err(unreadable()), "{text}");
        }
    }
}
