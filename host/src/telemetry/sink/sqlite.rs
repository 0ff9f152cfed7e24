//! A table `events` in an SQLite file of its own.

use std::path::PathBuf;

use clawhost_core::limits::TELEMETRY_ROWS_MAX;
use rusqlite::params;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{Failure, open_private};
use crate::state::Database;

const MIGRATIONS: &[&str] = &["CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL,
        event TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT"];

/// A database that is opened when the first batch comes.
pub(in super::super) struct Sqlite {
    path: PathBuf,
    database: OnceCell<Database>,
}

impl Sqlite {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, database: OnceCell::new() }
    }

    pub(super) async fn write(&self, batch: Vec<Value>) -> Result<(), Failure> {
        let database = self.database.get_or_try_init(|| self.open()).await?;
        database.run(move |db| insert(db, &batch)).await.map_err(Failure::passing)
    }

    async fn open(&self) -> Result<Database, Failure> {
        let path = self.path.clone();
        let opening = tokio::task::spawn_blocking(move || {
            // SQLite makes a file that others can read, and its other files like that one.
            open_private(&path).map_err(Failure::passing)?;
            Database::open(&path, &[("telemetry", MIGRATIONS)]).map_err(Failure::passing)
        });
        opening.await.map_err(Failure::passing)?
    }
}

fn insert(db: &mut rusqlite::Connection, batch: &[Value]) -> rusqlite::Result<()> {
    let change = db.transaction()?;
    for record in batch {
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        change.execute(
            "INSERT INTO events (time, event, body) VALUES (?1, ?2, ?3)",
            params![text("time"), text("event"), record.to_string()],
        )?;
    }
    change.execute(
        "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?1",
        [i64::try_from(TELEMETRY_ROWS_MAX).unwrap_or(i64::MAX)],
    )?;
    change.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn nobody_else_can_read_the_file_or_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/t.db");
        let sqlite = Sqlite::new(path.clone());
        sqlite.write(vec![serde_json::json!({ "event": "x" })]).await.unwrap();
        for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{file:?}");
        }
        assert!(path.is_file());
    }
}
