//! The places a copy can be in.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clawhost_core::limits::AUDIT_COPY_ROWS_MAX;
use rusqlite::params;
use serde_json::Value;
use tokio::net::UnixDatagram;

use crate::outbox::{Failure, Place};
use crate::state::Database;
use crate::upstream::post::Poster;

/// The tables of this module.
pub const MIGRATIONS: &[&str] = &["CREATE TABLE audit_records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL,
        event TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT"];

/// Facility `authpriv` (10), severity `informational` (6): RFC 5424, section 6.2.1.
const PRIORITY: u8 = 10 * 8 + 6;

/// A copy, and the count of what is missing there.
pub(super) struct CopyPlace {
    pub(super) to: To,
    pub(super) missing: Arc<AtomicU64>,
}

/// Where a copy is.
pub(super) enum To {
    Database(Database),
    Syslog(PathBuf),
    Webhook(Poster),
}

impl Place for CopyPlace {
    type Item = Arc<str>;

    fn name(&self) -> &'static str {
        match self.to {
            To::Database(_) => "the copy of the audit log in the store",
            To::Syslog(_) => "the copy of the audit log in the system's log",
            To::Webhook(_) => "the copy of the audit log at the webhook",
        }
    }

    async fn take(&mut self, lines: &[Arc<str>]) -> Result<(), Failure> {
        match &self.to {
            To::Database(database) => insert(database, lines.to_vec()).await,
            To::Syslog(socket) => log(socket, lines).await,
            To::Webhook(poster) => {
                let records = lines.iter().map(|line| read(line)).collect();
                poster.post_json(&Value::Array(records)).await
            }
        }
    }

    fn lost(&self, count: u64) {
        self.missing.fetch_add(count, Ordering::Relaxed);
    }
}

fn read(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

async fn insert(database: &Database, lines: Vec<Arc<str>>) -> Result<(), Failure> {
    let write = move |db: &mut rusqlite::Connection| {
        let change = db.transaction()?;
        for line in &lines {
            let record = read(line);
            let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
            change.execute(
                "INSERT INTO audit_records (time, event, record) VALUES (?1, ?2, ?3)",
                params![text("time"), text("event"), line.trim_end()],
            )?;
        }
        change.execute(
            "DELETE FROM audit_records WHERE id <= (SELECT max(id) FROM audit_records) - ?1",
            [i64::try_from(AUDIT_COPY_ROWS_MAX).unwrap_or(i64::MAX)],
        )?;
        change.commit()
    };
    database.run(write).await.map_err(Failure::passing)
}

/// Sends each record as one message (RFC 5424), anew connected: the log may have been restarted.
async fn log(socket: &PathBuf, lines: &[Arc<str>]) -> Result<(), Failure> {
    let sender = UnixDatagram::unbound().map_err(Failure::passing)?;
    sender.connect(socket).map_err(Failure::passing)?;
    for line in lines {
        sender.send(message(line).as_bytes()).await.map_err(Failure::passing)?;
    }
    Ok(())
}

fn message(line: &str) -> String {
    let record = read(line);
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or("-");
    let (time, event, process) = (text("time"), text("event"), std::process::id());
    format!("<{PRIORITY}>1 {time} - clawhost {process} {event} - {}", line.trim_end())
}
