//! The embedded store: one SQLite file, one thread that writes to it and one that searches it.
//!
//! What has been answered is on disk: the log is synchronised before a write returns, so neither
//! `kill -9` nor a power failure loses it. Several hosts may share one file; they wait for each
//! other. Deliberately absent: any table. Each module that keeps something brings its own, as a
//! list of steps that is only ever appended to.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{DATABASE_JOB_MS, DATABASE_JOBS_MAX, DATABASE_WAIT_MS};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::regular;

/// The file in the state folder.
pub const DATABASE_FILE: &str = "clawhost.db";

/// A module's tables: its name, and the SQL that takes them from each version to the next.
pub type Migrations = (&'static str, &'static [&'static str]);

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle to the threads. Cheap to clone; the last one closes the file.
#[derive(Clone)]
pub struct Database {
    jobs: mpsc::Sender<Job>,
    /// Searches may take long, so they hold nothing up; a store in memory has one connection.
    searches: mpsc::Sender<Job>,
}

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Somebody else writes to it, for longer than anybody waits.
    #[error("another host or program keeps the store busy: try again once it is done")]
    Busy,
    /// The file cannot be made.
    #[error("{0}")]
    File(#[from] io::Error),
    /// The work or the whole thread is gone, which only a defect can cause.
    #[error("the store has stopped")]
    Stopped,
    /// A search or other work took longer than it may.
    #[error("the store took too long")]
    TooLong,
    /// What SQLite says: a full disk, a damaged file, a constraint.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
    /// The file was written by a newer host.
    #[error(
        "the store's tables `{module}` have version {found}, and this clawhost knows {known}: a newer clawhost wrote it"
    )]
    TooNew {
        /// Whose tables.
        module: &'static str,
        /// The version in the file.
        found: usize,
        /// The newest version this host knows.
        known: usize,
    },
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::OperationInterrupted) => Self::TooLong,
            _ => Self::Sqlite(error),
        }
    }
}

impl DatabaseError {
    /// Returns the error of a call that needed the store; only the record sees the details.
    pub fn into_call_error(self, kind: ErrorKind) -> CallError {
        CallError::new(kind, "the host's store cannot be used now").with_internal(self.to_string())
    }
}

impl Database {
    /// Opens or makes the store at `path` and brings its tables up to date. Where it is missing, it and its
    /// folders are made for this user only.
    ///
    /// # Errors
    /// [`DatabaseError`]: the file cannot be opened, is damaged, or is newer than this host.
    pub fn open(path: &Path, migrations: &[Migrations]) -> Result<Self, DatabaseError> {
        // SQLite makes a file that others can read, and its other files like that one.
        regular::open_private(path)?;
        let mut connection = Connection::open(path)?;
        // Readers beside a writer; and the log is synchronised with each write.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        prepare(&connection)?;
        write_alone(&mut connection);
        migrate(&mut connection, migrations)?;
        let reader = Connection::open(path)?;
        prepare(&reader)?;
        reader.pragma_update(None, "query_only", true)?;
        Ok(Self { jobs: start("store", connection)?, searches: start("store-search", reader)? })
    }

    /// Opens the store at `path`, off the threads that serve.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub(crate) async fn open_own(
        path: PathBuf,
        migrations: &'static [Migrations],
    ) -> Result<Self, DatabaseError> {
        let opening = tokio::task::spawn_blocking(move || Self::open(&path, migrations));
        opening.await.map_err(|_| DatabaseError::Stopped)?
    }

    /// Makes a store that lives as long as its handles: for hosts that keep nothing.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn in_memory(migrations: &[Migrations]) -> Result<Self, DatabaseError> {
        let mut connection = Connection::open_in_memory()?;
        prepare(&connection)?;
        write_alone(&mut connection);
        migrate(&mut connection, migrations)?;
        let jobs = start("store", connection)?;
        Ok(Self { searches: jobs.clone(), jobs })
    }

    /// Does `work` on the store's thread and returns what it came to. Work that was handed over
    /// is done even where nobody waits for it any more; what takes over [`DATABASE_JOB_MS`] is broken
    /// off and undone.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        send(&self.jobs, JOB, || false, work).await
    }

    /// Returns a number that is another one once somebody beside this handle and its clones has written.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn version(&self) -> Result<i64, DatabaseError> {
        self.run(|db| db.pragma_query_value(None, "data_version", |row| row.get(0))).await
    }

    /// Moves what was written from the log into the file, so that the next start has no log to read. Another host
    /// that uses the file keeps it from that, which is no harm: nobody waits for anybody.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(crate) async fn settle(&self) -> Result<(), DatabaseError> {
        self.run(|db| {
            // It would wait for readers with every writer kept out.
            db.busy_timeout(Duration::ZERO)?;
            let settled = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
            db.busy_timeout(Duration::from_millis(DATABASE_WAIT_MS))?;
            settled
        })
        .await
    }

    /// Says whether both are handles to one open store.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.jobs.same_channel(&other.jobs)
    }

    /// Does `work`, which only reads, beside the writes. It is broken off after `limit`, and
    /// where nobody waits for it any more.
    ///
    /// # Errors
    /// [`DatabaseError::TooLong`], and as [`Database::run`].
    pub async fn search<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let waits = Arc::new(());
        let waiter = Arc::downgrade(&waits);
        let outcome = send(&self.searches, limit, move || waiter.strong_count() == 0, work).await;
        drop(waits);
        outcome
    }
}

/// Has the thread behind `queue` do `work`, as [`bounded`].
async fn send<T: Send + 'static>(
    queue: &mpsc::Sender<Job>,
    limit: Duration,
    is_abandoned: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, DatabaseError> {
    let (done, outcome) = oneshot::channel();
    let job: Job = Box::new(move |connection| {
        // Where nobody waits any more, nobody hears of it.
        let _ = done.send(bounded(connection, limit, is_abandoned, work));
    });
    queue.send(job).await.map_err(|_| DatabaseError::Stopped)?;
    Ok(outcome.await.map_err(|_| DatabaseError::Stopped)??)
}

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;
const JOB: Duration = Duration::from_millis(DATABASE_JOB_MS);

/// Does `work` until `limit` is over or it `is_abandoned`.
fn bounded<T>(
    connection: &mut Connection,
    limit: Duration,
    is_abandoned: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let end = Instant::now() + limit;
    let over = move || is_abandoned() || Instant::now() >= end;
    connection.progress_handler(STEPS_PER_LOOK, Some(over))?;
    let outcome = work(connection);
    connection.progress_handler(STEPS_PER_LOOK, None::<fn() -> bool>)?;
    outcome
}

/// Sets what every connection has.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(DATABASE_WAIT_MS))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// Starts the thread of `connection`, which ends with the last handle.
fn start(name: &str, mut connection: Connection) -> Result<mpsc::Sender<Job>, DatabaseError> {
    let (jobs, mut queue) = mpsc::channel::<Job>(DATABASE_JOBS_MAX);
    let work = move || {
        while let Some(job) = queue.blocking_recv() {
            // A defect of one job fails that job: its transaction is rolled back, and whoever
            // waits for it is told.
            drop(catch_unwind(AssertUnwindSafe(|| job(&mut connection))));
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|_| DatabaseError::Stopped)?;
    Ok(jobs)
}

clawhost_core::shows!(Database {});

/// From now on a transaction waits for other hosts' before its first read: what it decides by that would be refused
/// when it writes, without a wait, where another host wrote in between.
fn write_alone(connection: &mut Connection) {
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
}

/// Brings each module's tables up to date, in one transaction: a host that is killed meanwhile
/// leaves them as they were.
fn migrate(connection: &mut Connection, migrations: &[Migrations]) -> Result<(), DatabaseError> {
    // As a rule nothing has changed since the last start: no write, and no wait for another host's.
    let current = bounded(connection, JOB, || false, |db| is_current(db, migrations));
    match current.map_err(DatabaseError::from) {
        Ok(true) => return Ok(()),
        Err(error @ DatabaseError::TooLong) => return Err(error),
        _ => {}
    }
    let change = connection.transaction()?;
    change.execute_batch(
        "CREATE TABLE IF NOT EXISTS modules (name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT",
    )?;
    for (module, steps) in migrations {
        let found = version(&change, module)?;
        if found > steps.len() {
            return Err(DatabaseError::TooNew { module, found, known: steps.len() });
        }
        for step in steps.iter().skip(found) {
            change.execute_batch(step)?;
        }
        change.execute(
            "INSERT INTO modules VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET version = ?2",
            (module, i64::try_from(steps.len()).unwrap_or(i64::MAX)),
        )?;
    }
    Ok(change.commit()?)
}

/// Says whether every module's tables have the newest version; an error where there are none yet.
fn is_current(connection: &Connection, migrations: &[Migrations]) -> rusqlite::Result<bool> {
    let mut rows = connection.prepare("SELECT name, version FROM modules")?;
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: HashMap<String, i64> = rows.collect::<rusqlite::Result<_>>()?;
    let found = |module: &str| found.get(module).and_then(|version| usize::try_from(*version).ok());
    Ok(migrations.iter().all(|(module, steps)| found(module) == Some(steps.len())))
}

fn version(connection: &Connection, module: &str) -> rusqlite::Result<usize> {
    let mut rows = connection.prepare("SELECT version FROM modules WHERE name = ?1")?;
    let found = rows.query_map([module], |row| row.get::<_, i64>(0))?.next().transpose()?;
    Ok(found.and_then(|version| usize::try_from(version).ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const FIRST: &str = "CREATE TABLE notes (text TEXT NOT NULL) STRICT";
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    const SECOND: &str = "ALTER TABLE notes ADD COLUMN at INTEGER NOT NULL DEFAULT 7";

    #[tokio::test]
    async fn tables_are_brought_from_each_version_to_the_next_and_keep_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        let old = Database::open(&path, &[("notes", &[FIRST])]).unwrap();
        old.run(|db| db.execute("INSERT INTO notes VALUES ('a')", ())).await.unwrap();
        drop(old);
        let new = Database::open(&path, &[("notes", &[FIRST, SECOND])]).unwrap();
        let read = |db: &mut Connection| {
            db.query_row("SELECT text, at FROM notes", (), |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })
        };
        assert_eq!(new.run(read).await.unwrap(), ("a".to_owned(), 7));
        let older = Database::open(&path, &[("notes", &[FIRST])]).unwrap_err();
        assert!(matches!(older, DatabaseError::TooNew { found: 2, known: 1, .. }), "{older}");
    }

    #[tokio::test]
    async fn a_defect_of_one_job_fails_that_job_and_undoes_it() {
        let db = Database::in_memory(&[("notes", &[FIRST])]).unwrap();
        let defect = db.run(|db| -> rusqlite::Result<()> {
            let change = db.transaction()?;
            change.execute("INSERT INTO notes VALUES ('a')", ())?;
            panic!("a defect")
        });
        assert!(matches!(defect.await, Err(DatabaseError::Stopped)));
        let count = |db: &mut Connection| {
            db.query_row("SELECT count(*) FROM notes", (), |row| row.get::<_, i64>(0))
        };
        assert_eq!(db.run(count).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn who_does_not_get_a_turn_is_told_that_another_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        let db = Database::open(&path, &[("notes", &[FIRST])]).unwrap();
        let mut other = Connection::open(&path).unwrap();
        let _turn = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let write = |db: &mut Connection| {
            db.busy_timeout(Duration::ZERO)?;
            db.transaction().map(drop)
        };
        let refused = db.run(write).await.unwrap_err();
        assert!(matches!(refused, DatabaseError::Busy), "{refused}");
    }

    #[tokio::test]
    async fn nobody_writes_between_what_a_change_reads_and_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        let db = Database::open(&path, &[("notes", &[FIRST])]).unwrap();
        let other = Connection::open(&path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        let change = move |db: &mut Connection| {
            let change = db.transaction()?;
            change.query_row("SELECT count(*) FROM notes", (), |row| row.get::<_, i64>(0))?;
            let beside = other.execute("INSERT INTO notes VALUES ('b')", ());
            change.execute("INSERT INTO notes VALUES ('a')", ())?;
            change.commit()?;
            Ok(beside)
        };
        let beside = db.run(change).await.unwrap().unwrap_err();
        assert_eq!(beside.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    }

    #[tokio::test]
    async fn only_its_owner_reads_a_store_in_a_folder_that_others_read() {
        let folder = tempfile::tempdir().unwrap();
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).unwrap();
        let db = Database::open(&folder.path().join("db"), &[("notes", &[FIRST])]).unwrap();
        db.run(|db| db.execute("INSERT INTO notes VALUES ('a')", ())).await.unwrap();
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert!(files.len() > 1, "{files:?}");
        for file in files {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{file:?}");
        }
    }

    #[test]
    fn tables_that_are_up_to_date_are_opened_without_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        drop(Database::open(&path, &[("notes", &[FIRST])]).unwrap());
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let beside_a_writer = Database::open(&path, &[("notes", &[FIRST])]);
        assert!(beside_a_writer.is_ok(), "{beside_a_writer:?}");
    }

    #[tokio::test]
    async fn what_was_written_is_in_the_file_itself_once_it_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("db"), &[("notes", &[FIRST])]).unwrap();
        let log = || std::fs::metadata(folder.path().join("db-wal")).unwrap().len();
        assert!(log() > 0);
        db.settle().await.unwrap();
        assert_eq!(log(), 0);
        Database::in_memory(&[]).unwrap().settle().await.unwrap();
    }

    #[tokio::test]
    async fn settling_waits_for_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Database::open(&path, &[("notes", &[FIRST])]).unwrap();
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM notes").unwrap();
        db.run(|db| db.execute("INSERT INTO notes VALUES ('a')", ())).await.unwrap();
        let begun = std::time::Instant::now();
        db.settle().await.unwrap();
        assert!(begun.elapsed() < Duration::from_millis(DATABASE_WAIT_MS / 2));
    }

    #[tokio::test]
    async fn a_search_is_broken_off_and_holds_no_write_up() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("db"), &[("notes", &[FIRST])]).unwrap();
        let endless = |db: &mut Connection| db.query_row(ENDLESS, (), |row| row.get::<_, i64>(0));
        let limit = Duration::from_secs(3_600);
        let abandoned = tokio::spawn({
            let db = db.clone();
            async move { db.search(limit, endless).await }
        });
        db.run(|db| db.execute("INSERT INTO notes VALUES ('a')", ())).await.unwrap();
        abandoned.abort();
        assert!(abandoned.await.unwrap_err().is_cancelled());
        let short = db.search(Duration::from_millis(20), endless).await.unwrap_err();
        assert!(matches!(short, DatabaseError::TooLong), "{short}");
        let write = |db: &mut Connection| db.execute("INSERT INTO notes VALUES ('b')", ());
        assert!(db.search(limit, write).await.is_err(), "a search only reads");
        let count = |db: &mut Connection| {
            db.query_row("SELECT count(*) FROM notes", (), |row| row.get::<_, i64>(0))
        };
        assert_eq!(db.search(limit, count).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_without_an_end_holds_the_store_up_no_longer_than_the_bound() {
        let db = Database::in_memory(&[("notes", &[FIRST])]).unwrap();
        let view = format!("CREATE VIEW pins AS {ENDLESS}");
        db.run(move |db| db.execute_batch(&view)).await.unwrap();
        let work = |db: &mut Connection| {
            let change = db.transaction()?;
            change.execute("INSERT INTO notes VALUES ('a')", ())?;
            change.query_row("SELECT * FROM pins", (), |row| row.get::<_, i64>(0))
        };
        let broken = send(&db.jobs, Duration::from_millis(20), || false, work).await.unwrap_err();
        assert_eq!(broken.to_string(), "the store took too long");
        let count = |db: &mut Connection| {
            db.query_row("SELECT count(*) FROM notes", (), |row| row.get::<_, i64>(0))
        };
        assert_eq!(db.run(count).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn work_is_done_even_where_nobody_waits_for_it() {
        let db = Database::in_memory(&[("notes", &[FIRST])]).unwrap();
        let insert = db.run(|db| db.execute("INSERT INTO notes VALUES ('a')", ()));
        let waker = futures_util::task::noop_waker();
        let mut insert = Box::pin(insert);
        let _ = insert.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        drop(insert);
        let count = |db: &mut Connection| {
            db.query_row("SELECT count(*) FROM notes", (), |row| row.get::<_, i64>(0))
        };
        assert_eq!(db.run(count).await.unwrap(), 1);
    }
}
