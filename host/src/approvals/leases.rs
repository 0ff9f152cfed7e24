//! Approvals that cover later calls: in memory for a session, in the store for a stated time.
//!
//! Hosts that share a state folder share the timed ones, so each look-up asks the store. Deliberately
//! absent: any way for a caller to make one.

use std::time::Duration;

use clawhost_core::lease::Covers;
use clawhost_core::limits::{LEASE_CEILING_MS, LEASES_MAX};
use parking_lot::Mutex;
use rusqlite::{Connection, Row};
use serde_json::json;

use super::question::{Lease, Question, Until};
use crate::clock::after_ms;
use crate::state::{Database, DatabaseError};

/// The table of timed leases. `ends_at_ms` is in milliseconds since 1970, UTC.
pub const MIGRATIONS: &[&str] = &[include_str!("leases.sql")];

/// One that was given after now, by a clock that has been set back since, would last until the clock has caught up:
/// it covers nothing. `?1` is now.
const IN_FORCE: &str = "granted_at_ms <= ?1 AND ends_at_ms > ?1";

const COLUMNS: &str =
    "id, principal, tool, tool_digest, covers, granted_by, granted_at_ms, ends_at_ms";

/// One lease in force, as the control socket and the command line show it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Leased {
    /// Its name, by which it is revoked.
    pub id: String,
    /// Whose calls it covers.
    pub principal: String,
    /// The tool's CKP name.
    pub tool: String,
    /// The component it was given for.
    pub tool_digest: String,
    /// Which arguments.
    pub covers: Covers,
    /// Who gave it.
    pub granted_by: String,
    /// When, in milliseconds since 1970, UTC.
    pub granted_at_ms: i64,
    /// When it ends, likewise; absent where it ends with the host.
    pub ends_at_ms: Option<i64>,
}

impl Leased {
    fn allows(&self, asked: &Question) -> bool {
        self.principal == asked.principal
            && self.tool == asked.tool
            && self.tool_digest == asked.tool_digest
            && self.covers.covers(&asked.digest, &asked.arguments)
    }
}

/// All leases of one host.
#[derive(Debug)]
pub(super) struct Leases {
    database: Database,
    session: Mutex<Vec<Leased>>,
}

impl Leases {
    /// Returns the leases that `database` holds, and none of a session.
    pub(super) fn new(database: Database) -> Self {
        Self { database, session: Mutex::default() }
    }

    /// Returns a lease that covers `asked` at `now_ms`.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(super) async fn find(
        &self,
        asked: &Question,
        now_ms: i64,
    ) -> Result<Option<Leased>, DatabaseError> {
        if let Some(lease) = self.session.lock().iter().find(|lease| lease.allows(asked)) {
            return Ok(Some(lease.clone()));
        }
        let key = (now_ms, asked.principal.clone(), asked.tool.clone(), asked.tool_digest.clone());
        let timed = self.database.run(move |db| {
            let text = format!(
                "SELECT {COLUMNS} FROM leases \
                 WHERE principal = ?2 AND tool = ?3 AND tool_digest = ?4 AND {IN_FORCE}"
            );
            read(db, &text, key)
        });
        Ok(timed.await?.into_iter().find(|lease| lease.allows(asked)))
    }

    /// Keeps a lease for calls like `asked`, given by `by` at `now_ms` under the name `id`.
    ///
    /// # Errors
    /// The store does not answer, or there are too many.
    pub(super) async fn grant(
        &self,
        id: String,
        asked: &Question,
        lease: Lease,
        by: String,
        now_ms: i64,
    ) -> Result<(), String> {
        let time = match lease.until {
            Until::Session => None,
            Until::Time(time) => Some(time.min(Duration::from_millis(LEASE_CEILING_MS))),
        };
        let leased = Leased {
            id,
            principal: asked.principal.clone(),
            tool: asked.tool.clone(),
            tool_digest: asked.tool_digest.clone(),
            covers: lease.arguments,
            granted_by: by,
            granted_at_ms: now_ms,
            ends_at_ms: time.map(|time| after_ms(now_ms, time)),
        };
        let is_kept = match leased.ends_at_ms {
            None => self.keep(leased),
            Some(_) => self.store(leased, now_ms).await.map_err(|error| error.to_string())?,
        };
        let full = || format!("there are {LEASES_MAX} leases already; revoke some");
        is_kept.then_some(()).ok_or_else(full)
    }

    /// Says whether there was room.
    fn keep(&self, leased: Leased) -> bool {
        let mut session = self.session.lock();
        let has_room = session.len() < LEASES_MAX;
        if has_room {
            session.push(leased);
        }
        has_room
    }

    /// Says whether there was room.
    async fn store(&self, leased: Leased, now_ms: i64) -> Result<bool, DatabaseError> {
        let covers = json!(leased.covers).to_string();
        let storing = self.database.run(move |db| {
            let change = db.transaction()?;
            change.execute(&format!("DELETE FROM leases WHERE NOT ({IN_FORCE})"), [now_ms])?;
            let count: i64 =
                change.query_row("SELECT count(*) FROM leases", (), |row| row.get(0))?;
            if usize::try_from(count).is_ok_and(|count| count >= LEASES_MAX) {
                return Ok(false);
            }
            change.execute(
                &format!("INSERT INTO leases ({COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)"),
                (
                    leased.id, leased.principal, leased.tool, leased.tool_digest, covers,
                    leased.granted_by, leased.granted_at_ms, leased.ends_at_ms,
                ),
            )?;
            change.commit()?;
            Ok(true)
        });
        storing.await
    }

    /// Returns every lease in force at `now_ms`, oldest first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(super) async fn list(&self, now_ms: i64) -> Result<Vec<Leased>, DatabaseError> {
        let timed = self.database.run(move |db| {
            let text = format!("SELECT {COLUMNS} FROM leases WHERE {IN_FORCE}");
            read(db, &text, [now_ms])
        });
        let mut all = timed.await?;
        all.extend(self.session.lock().iter().cloned());
        all.sort_by_key(|lease| lease.granted_at_ms);
        Ok(all)
    }

    /// Ends a lease; says whether there was one.
    ///
    /// # Errors
    /// [`DatabaseError`]: it may still be in force.
    pub(super) async fn revoke(&self, id: &str) -> Result<bool, DatabaseError> {
        if self.forget(id) {
            return Ok(true);
        }
        let id = id.to_owned();
        let gone =
            self.database.run(move |db| db.execute("DELETE FROM leases WHERE id = ?1", [id]));
        Ok(gone.await? > 0)
    }

    fn forget(&self, id: &str) -> bool {
        let mut session = self.session.lock();
        let before = session.len();
        session.retain(|lease| lease.id != id);
        session.len() < before
    }
}

fn read(
    db: &Connection,
    text: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Leased>> {
    let mut statement = db.prepare(text)?;
    statement.query_map(parameters, leased)?.filter_map(Result::transpose).collect()
}

/// Returns the lease in `row`; one that cannot be read covers nothing.
fn leased(row: &Row<'_>) -> rusqlite::Result<Option<Leased>> {
    let Ok(covers) = serde_json::from_str(&row.get::<_, String>("covers")?) else {
        return Ok(None);
    };
    Ok(Some(Leased {
        id: row.get("id")?,
        principal: row.get("principal")?,
        tool: row.get("tool")?,
        tool_digest: row.get("tool_digest")?,
        covers,
        granted_by: row.get("granted_by")?,
        granted_at_ms: row.get("granted_at_ms")?,
        ends_at_ms: Some(row.get("ends_at_ms")?),
    }))
}
