//! Tasks that outlive the host: one row each, as long as it has not ended.
//!
//! Who had a task is not kept: after a restart it goes to whoever is ready.

use clawhost_core::error::{CallError, ErrorKind};
use rusqlite::params;

use super::board::Held;
use crate::state::{Database, DatabaseError};

/// The tables of this module.
pub const MIGRATIONS: &[&str] = &["CREATE TABLE swarm_tasks (
        swarm TEXT NOT NULL,
        task TEXT NOT NULL,
        held TEXT NOT NULL,
        PRIMARY KEY (swarm, task)
    ) STRICT"];

/// Writes what changed: each task as it is now, nothing for one that ended.
pub(super) async fn save(
    database: &Database,
    swarm: String,
    changed: Vec<(String, Option<Held>)>,
) -> Result<(), CallError> {
    let rows: Result<Vec<_>, serde_json::Error> = changed
        .into_iter()
        .map(|(id, held)| Ok((id, held.as_ref().map(serde_json::to_string).transpose()?)))
        .collect();
    let rows = rows.map_err(|error| {
        CallError::new(ErrorKind::Internal, "a task cannot be kept")
            .with_internal(error.to_string())
    })?;
    let write = move |db: &mut rusqlite::Connection| {
        let change = db.transaction()?;
        for (id, held) in &rows {
            match held {
                None => change.execute(
                    "DELETE FROM swarm_tasks WHERE swarm = ?1 AND task = ?2",
                    params![swarm, id],
                )?,
                Some(held) => change.execute(
                    "INSERT OR REPLACE INTO swarm_tasks VALUES (?1, ?2, ?3)",
                    params![swarm, id, held],
                )?,
            };
        }
        change.commit()
    };
    database.run(write).await.map_err(|error| error.into_call_error(ErrorKind::PeerUnreachable))
}

/// Reads the tasks of `swarm` that have not ended, in the order they came; rows that cannot be
/// read are left alone.
pub(super) async fn load(database: &Database, swarm: String) -> Result<Vec<Held>, DatabaseError> {
    let read = move |db: &mut rusqlite::Connection| {
        let mut rows =
            db.prepare("SELECT held FROM swarm_tasks WHERE swarm = ?1 ORDER BY rowid")?;
        let texts = rows.query_map([&swarm], |row| row.get::<_, String>(0))?;
        texts.collect::<rusqlite::Result<Vec<String>>>()
    };
    let texts = database.run(read).await?;
    Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
}
