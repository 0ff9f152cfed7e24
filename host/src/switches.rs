//! The operator's switches: tools that are off, whatever the manifest says.
//!
//! A switch is about a tool's CKP name, whoever offers the tool, and outlives the host. The gate asks
//! here for a list and for a call alike. Deliberately absent: who may use a switch, which the callers
//! of this module have settled, and any way for a tool or an agent to get here.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::catalog::NoTool;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::APPROVAL_REASON_BYTES_MAX;
use clawhost_core::{truncate, visible};
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::audit::{AuditLog, Event};
use crate::clock;
use crate::state::{Database, DatabaseError};

/// The table of this module.
pub const MIGRATIONS: &[&str] = &[include_str!("switches/switches.sql")];

/// Why a tool is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Off {
    /// Who switched it off.
    pub by: String,
    /// Why, in words that callers read.
    pub reason: Option<String>,
    /// When, in milliseconds since 1970, UTC.
    pub since_ms: i64,
    /// The calls that ran then were ended.
    pub cuts: bool,
    /// It is in the store.
    is_kept: bool,
}

impl Off {
    /// Returns it as programs read it.
    pub fn to_json(&self, tool: &str) -> Value {
        json!({"tool": tool, "by": self.by, "reason": self.reason, "since_ms": self.since_ms})
    }
}

/// What is done with a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// The tool is off; with `now`, its running calls end as well.
    Off {
        /// End the running calls.
        now: bool,
    },
    /// The tool is as the manifest has it.
    On,
}

/// Why a switch could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// No record, no change; a tool that was to be off is off as long as this host runs.
    #[error("it could not be recorded: {0}")]
    Audit(#[source] std::io::Error),
    /// A tool that was to be off is off as long as this host runs.
    #[error("it could not be kept: {0}")]
    Database(#[from] DatabaseError),
    /// It names no tool, or more than one.
    #[error(transparent)]
    Name(#[from] NoTool),
}

type All = BTreeMap<String, Off>;

/// The switches of one state folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Switches {
    database: Database,
    audit: Arc<AuditLog>,
    off: Arc<watch::Sender<All>>,
}

impl Switches {
    /// Returns the switches that `database` has, which has to have [`MIGRATIONS`]; what becomes of them
    /// is noted in `audit`.
    ///
    /// # Errors
    /// [`DatabaseError`]: it is not known what is off, so nothing may be served.
    pub async fn open(database: Database, audit: Arc<AuditLog>) -> Result<Self, DatabaseError> {
        let switches = Self { database, audit, off: Arc::new(watch::Sender::new(All::new())) };
        switches.reread().await?;
        Ok(switches)
    }

    /// Takes in what others have kept. Says whether anything is another way now.
    ///
    /// # Errors
    /// [`DatabaseError`]: what was known counts on.
    pub(crate) async fn reread(&self) -> Result<bool, DatabaseError> {
        let off = Arc::clone(&self.off);
        // On the store's own thread: what this host keeps meanwhile is not undone.
        let work = move |db: &mut Connection| {
            let kept = read(db)?;
            Ok(off.send_if_modified(|all| {
                let before = all.len();
                all.retain(|tool, off| !off.is_kept || kept.contains_key(tool));
                let left = all.len();
                for (tool, off) in kept {
                    all.entry(tool).or_insert(off);
                }
                left < before || all.len() > left
            }))
        };
        self.database.run(work).await
    }

    /// Returns what hosts on a store keep off, by CKP name, for whoever only looks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn kept(database: &Database) -> Result<BTreeMap<String, Off>, DatabaseError> {
        database.run(read).await
    }

    /// Returns all that is off, by CKP name.
    pub fn all(&self) -> BTreeMap<String, Off> {
        self.off.borrow().clone()
    }

    /// Says whether a tool is off, with who, why and since when.
    pub fn get(&self, tool: &str) -> Option<Off> {
        self.off.borrow().get(tool).cloned()
    }

    /// Refuses where a tool is off.
    ///
    /// # Errors
    /// -32011, `data.stage` being `disabled`.
    pub fn check(&self, tool: &str) -> Result<(), CallError> {
        let off = self.off.borrow();
        off.get(tool).map_or(Ok(()), |off| Err(refusal(tool, off)))
    }

    /// Waits until a tool is switched off together with its running calls, and says so.
    pub async fn cut(&self, tool: &str) -> CallError {
        let mut changes = self.off.subscribe();
        loop {
            let cut = changes.borrow_and_update().get(tool).filter(|off| off.cuts).cloned();
            if let Some(off) = cut {
                return refusal(tool, &off);
            }
            if changes.changed().await.is_err() {
                // Its sender lives as long as this value.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Turns the switch of a tool, by its CKP name. Says whether it was the other way before.
    ///
    /// Off counts from now on, and is then recorded and kept; on is recorded and kept before it counts.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub async fn turn(
        &self,
        tool: &str,
        to: Turn,
        by: &str,
        reason: Option<&str>,
    ) -> Result<bool, SwitchError> {
        let reason =
            reason.map(|text| visible::line(truncate::text(text, APPROVAL_REASON_BYTES_MAX)));
        match to {
            Turn::Off { now } => {
                let since_ms = clock::now_ms();
                let off = Off { by: by.to_owned(), reason, since_ms, cuts: now, is_kept: false };
                self.off.send_modify(|all| drop(all.insert(tool.to_owned(), off.clone())));
                self.record(Event::ToolDisabled, tool, by, off.reason.as_deref())?;
                self.keep(tool, off).await
            }
            Turn::On => {
                self.record(Event::ToolEnabled, tool, by, reason.as_deref())?;
                self.forget(tool).await
            }
        }
    }

    /// Keeps a switch that is off. It is off here as of then, too, where it was turned on meanwhile.
    async fn keep(&self, tool: &str, off: Off) -> Result<bool, SwitchError> {
        let tool = tool.to_owned();
        let insert = "INSERT INTO disabled_tools (tool, by, reason, since_ms) \
             VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tool) DO NOTHING";
        let all = Arc::clone(&self.off);
        let work = move |db: &mut Connection| {
            let new = db.execute(insert, params![tool, off.by, off.reason, off.since_ms])?;
            all.send_modify(|all| all.entry(tool).or_insert(off).is_kept = true);
            Ok(new)
        };
        Ok(self.database.run(work).await? > 0)
    }

    /// Forgets a switch that is off, in the store and here at once: of two turns at the same time, the one counts
    /// in both that the store took last.
    async fn forget(&self, tool: &str) -> Result<bool, SwitchError> {
        let (tool, all) = (tool.to_owned(), Arc::clone(&self.off));
        let delete = "DELETE FROM disabled_tools WHERE tool = ?1";
        let work = move |db: &mut Connection| {
            let gone = db.execute(delete, [&tool])?;
            all.send_modify(|all| drop(all.remove(&tool)));
            Ok(gone)
        };
        Ok(self.database.run(work).await? > 0)
    }

    fn record(
        &self,
        event: Event,
        tool: &str,
        by: &str,
        reason: Option<&str>,
    ) -> Result<(), SwitchError> {
        let reason = reason.map(|reason| ("reason", reason));
        let facts = [("tool", tool), ("by", by)].into_iter().chain(reason);
        self.audit.note(event, facts).map_err(SwitchError::Audit)
    }
}

fn refusal(tool: &str, off: &Off) -> CallError {
    let why = off.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let text = format!("the operator has disabled the tool `{tool}`{why}");
    CallError::new(ErrorKind::Disabled, text)
        .with("stage", "disabled")
        .with("tool", tool)
        .with_internal(format!("disabled by {} since {}", off.by, clock::rfc3339(off.since_ms)))
}

fn read(db: &mut Connection) -> rusqlite::Result<All> {
    let row = |row: &Row<'_>| {
        let (by, reason, since_ms) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, Off { by, reason, since_ms, cuts: false, is_kept: true }))
    };
    let mut statement = db.prepare("SELECT tool, by, reason, since_ms FROM disabled_tools")?;
    statement.query_map([], row)?.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::audit::Terms;

    async fn opened(database: &Database) -> (Switches, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let audit = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        (Switches::open(database.clone(), audit).await.unwrap(), folder)
    }

    fn database() -> Database {
        Database::in_memory(&[("switches", MIGRATIONS)]).unwrap()
    }

    #[tokio::test]
    async fn a_switch_counts_at_once_outlives_the_host_and_is_recorded() {
        let database = database();
        let (switches, folder) = opened(&database).await;
        let off = Turn::Off { now: false };
        assert!(switches.turn("a", off.clone(), "operator", Some("leaks\u{1b}")).await.unwrap());
        assert!(!switches.turn("a", off, "operator", None).await.unwrap());
        let error = switches.check("a").unwrap_err();
        assert_eq!((error.kind.code(), &error.data["stage"]), (-32011, &"disabled".into()));
        assert!(switches.check("b").is_ok());

        let (later, _folder) = opened(&database).await;
        let kept = later.get("a").unwrap();
        assert_eq!((&*kept.by, kept.reason.as_deref()), ("operator", Some("leaks\\u{1b}")));
        assert!(later.turn("a", Turn::On, "operator", None).await.unwrap());
        assert!(later.check("a").is_ok());

        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let records = crate::audit::records(&dir).unwrap();
        let told = &records[1];
        assert_eq!((&told["event"], &told["by"]), (&"tool.disabled".into(), &"operator".into()));
    }

    #[tokio::test]
    async fn what_another_host_turns_counts_once_it_is_read() {
        let database = database();
        let ((mine, _a), (other, _b)) = (opened(&database).await, opened(&database).await);
        let off = Turn::Off { now: false };
        other.turn("a", off.clone(), "operator", None).await.unwrap();
        mine.turn("b", off, "operator", None).await.unwrap();
        assert!(mine.check("a").is_ok());
        assert!(mine.reread().await.unwrap() && !mine.reread().await.unwrap());
        assert!(mine.check("a").is_err() && mine.check("b").is_err());
        other.turn("b", Turn::On, "operator", None).await.unwrap();
        assert!(mine.reread().await.unwrap() && mine.check("b").is_ok());
    }

    #[tokio::test]
    async fn of_turns_at_the_same_time_the_one_counts_that_the_store_took_last() {
        let (switches, _folder) = opened(&database()).await;
        let by = "operator".to_owned();
        let off = Off { by, reason: None, since_ms: 0, cuts: false, is_kept: false };
        // It is off, and before that is kept somebody turns it on.
        switches.off.send_modify(|all| drop(all.insert("a".to_owned(), off.clone())));
        switches.forget("a").await.unwrap();
        assert!(switches.check("a").is_ok());
        switches.keep("a", off).await.unwrap();
        assert!(switches.check("a").is_err());
        assert!(!switches.reread().await.unwrap());
    }

    #[tokio::test]
    async fn running_calls_end_only_where_that_is_said() {
        let (switches, _folder) = opened(&database()).await;
        switches.turn("a", Turn::Off { now: false }, "operator", None).await.unwrap();
        let cut = switches.cut("a");
        let mut cut = std::pin::pin!(cut);
        assert!(tokio::time::timeout(Duration::from_millis(20), cut.as_mut()).await.is_err());
        switches.turn("a", Turn::Off { now: true }, "operator", Some("now")).await.unwrap();
        assert!(cut.await.message.ends_with("`a`: now"));
    }
}
