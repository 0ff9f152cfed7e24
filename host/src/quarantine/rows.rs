//! The tables of quarantine: each change is one transaction, so that whatever ends the host leaves
//! the failures and what follows from them in step.

use clawhost_core::limits::QUARANTINE_ANOMALIES_MAX;
use clawhost_core::quarantine::{HitsByCaller, after_failed_trial};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

/// A tool that rests for somebody.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Hold {
    /// Its CKP name.
    pub tool: String,
    /// Who met its failures, and may not call it.
    pub principal: String,
    /// The kind of failure that it rests for.
    pub signature: String,
    /// Since when, in milliseconds since 1970, UTC.
    pub since_ms: i64,
    /// When one call may try whether it works again.
    pub until_ms: i64,
    /// How long it rests this time.
    pub ttl_ms: i64,
}

/// A kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// What failures of this kind have in common, as `sha256:…`.
    pub signature: String,
    /// The tool's CKP name.
    pub tool: String,
    /// What the failure is called in the record.
    pub code: String,
    /// What it says, without what differs from call to call.
    pub message: String,
    /// How often it happened.
    pub times: i64,
    /// When it first did, in milliseconds since 1970, UTC.
    pub first_ms: i64,
    /// When it last did.
    pub last_ms: i64,
    /// What helps, if somebody said so.
    pub procedure: Option<String>,
    /// Who said so.
    pub resolved_by: Option<String>,
}

/// A failure that just happened.
#[derive(Debug)]
pub(super) struct News {
    pub(super) seen: Seen,
    /// Whose call failed.
    pub(super) principal: String,
    /// How many put the tool into quarantine; nothing where none do.
    pub(super) threshold: Option<u32>,
    /// It was the trial of a tool that rests.
    pub(super) is_trial: bool,
    /// How long a first quarantine lasts.
    pub(super) ttl_ms: i64,
    /// Kinds that did not happen since are forgotten.
    pub(super) forget_before_ms: i64,
}

/// What follows from a failure.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What helps.
    pub(super) procedure: Option<String>,
    /// The tool rests, from now on or anew.
    pub(super) hold: Option<Hold>,
}

const SEEN: &str = "SELECT signature, tool, code, message, times, first_ms, last_ms, procedure, \
     resolved_by FROM anomalies";
const HOLDS: &str = "SELECT tool, principal, signature, since_ms, until_ms, ttl_ms FROM quarantine";

/// Takes note of a failure.
pub(super) fn note(db: &mut Connection, news: &News) -> rusqlite::Result<Outcome> {
    let change = db.transaction()?;
    let News { seen, threshold, principal, .. } = news;
    let known = change
        .query_row(
            "SELECT recent, procedure FROM anomalies WHERE signature = ?1",
            [&seen.signature],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)),
        )
        .optional()?;
    let (recent, procedure) = known.unwrap_or_default();
    let mut hits: HitsByCaller = serde_json::from_str(&recent).unwrap_or_default();
    let threshold = threshold.filter(|_| procedure.is_none());
    let is_too_many = hits.add(principal, seen.last_ms, threshold);
    keep(&change, seen, &hits)?;
    let hold = match procedure {
        None if news.is_trial => rest_anew(&change, news)?,
        None if is_too_many => rest(&change, news)?,
        _ => None,
    };
    forget(&change, news.forget_before_ms)?;
    change.commit()?;
    Ok(Outcome { procedure, hold })
}

fn keep(change: &Transaction<'_>, seen: &Seen, hits: &HitsByCaller) -> rusqlite::Result<()> {
    let recent = serde_json::to_string(hits).unwrap_or_default();
    let Seen { signature, tool, code, message, last_ms, .. } = seen;
    change.execute(
        "INSERT INTO anomalies (signature, tool, code, message, times, first_ms, last_ms, recent)
         VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5, ?6)
         ON CONFLICT (signature) DO UPDATE SET times = times + 1, last_ms = ?5, recent = ?6",
        params![signature, tool, code, message, last_ms, recent],
    )?;
    Ok(())
}

/// A call that was under way when the tool came to rest changes nothing.
fn rest(change: &Transaction<'_>, news: &News) -> rusqlite::Result<Option<Hold>> {
    let Seen { tool, signature, last_ms, .. } = &news.seen;
    let until_ms = last_ms.saturating_add(news.ttl_ms);
    let done = change.execute(
        "INSERT INTO quarantine VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![tool, news.principal, signature, last_ms, until_ms, news.ttl_ms],
    )?;
    if done > 0 { hold(change, news) } else { Ok(None) }
}

/// Nothing is left of a hold that somebody ended during the trial.
fn rest_anew(change: &Transaction<'_>, news: &News) -> rusqlite::Result<Option<Hold>> {
    let Seen { tool, signature, last_ms, .. } = &news.seen;
    let Some(old) = hold(change, news)? else { return Ok(None) };
    let ttl_ms = after_failed_trial(old.ttl_ms);
    change.execute(
        "UPDATE quarantine SET signature = ?3, until_ms = ?4, ttl_ms = ?5
         WHERE tool = ?1 AND principal = ?2",
        params![tool, news.principal, signature, last_ms.saturating_add(ttl_ms), ttl_ms],
    )?;
    hold(change, news)
}

/// What is old goes, and beyond the bound the oldest; what somebody wrote about a failure stays.
fn forget(change: &Transaction<'_>, before_ms: i64) -> rusqlite::Result<()> {
    change.execute(
        "DELETE FROM anomalies WHERE procedure IS NULL AND (last_ms < ?1 OR signature IN
         (SELECT signature FROM anomalies ORDER BY last_ms DESC LIMIT -1 OFFSET ?2))",
        params![before_ms, QUARANTINE_ANOMALIES_MAX],
    )?;
    Ok(())
}

fn hold(db: &Connection, news: &News) -> rusqlite::Result<Option<Hold>> {
    let select = format!("{HOLDS} WHERE tool = ?1 AND principal = ?2");
    db.query_row(&select, [&news.seen.tool, &news.principal], read_hold).optional()
}

/// Returns every tool that rests.
pub(super) fn holds(db: &Connection) -> rusqlite::Result<Vec<Hold>> {
    db.prepare(&format!("{HOLDS} ORDER BY tool, principal"))?.query_map([], read_hold)?.collect()
}

/// Returns every kind of failure, the newest first.
pub(super) fn all_seen(db: &Connection) -> rusqlite::Result<Vec<Seen>> {
    let select = format!("{SEEN} ORDER BY last_ms DESC, signature");
    db.prepare(&select)?.query_map([], read_seen)?.collect()
}

/// Ends a tool's rest, for `principal` or for everybody: its failures are counted anew. Says whether it
/// rested.
pub(super) fn release(
    db: &mut Connection,
    tool: &str,
    principal: Option<&str>,
) -> rusqlite::Result<bool> {
    let change = db.transaction()?;
    let of = params![tool, principal];
    let released = change
        .execute("DELETE FROM quarantine WHERE tool = ?1 AND (?2 IS NULL OR principal = ?2)", of)?;
    // Without a principal nothing is left of what was counted (RFC 7396: a merged null removes).
    change.execute(
        "UPDATE anomalies SET recent = CASE WHEN ?2 IS NULL THEN '{}'
         ELSE json_patch(recent, json_object(?2, NULL)) END WHERE tool = ?1",
        of,
    )?;
    change.commit()?;
    Ok(released > 0)
}

/// Keeps what helps against a kind of failure. Says whether it is known.
pub(super) fn vaccinate(
    db: &mut Connection,
    signature: &str,
    procedure: &str,
    by: &str,
) -> rusqlite::Result<bool> {
    let update =
        "UPDATE anomalies SET procedure = ?2, resolved_by = ?3, recent = '{}' WHERE signature = ?1";
    Ok(db.execute(update, params![signature, procedure, by])? > 0)
}

fn read_hold(row: &Row<'_>) -> rusqlite::Result<Hold> {
    Ok(Hold {
        tool: row.get(0)?,
        principal: row.get(1)?,
        signature: row.get(2)?,
        since_ms: row.get(3)?,
        until_ms: row.get(4)?,
        ttl_ms: row.get(5)?,
    })
}

fn read_seen(row: &Row<'_>) -> rusqlite::Result<Seen> {
    Ok(Seen {
        signature: row.get(0)?,
        tool: row.get(1)?,
        code: row.get(2)?,
        message: row.get(3)?,
        times: row.get(4)?,
        first_ms: row.get(5)?,
        last_ms: row.get(6)?,
        procedure: row.get(7)?,
        resolved_by: row.get(8)?,
    })
}
