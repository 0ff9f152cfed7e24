//! Quarantine: a tool that fails again and again in the same way is not run for a while by who met that,
//! then one call tries whether it works again.
//!
//! The store has the say, and hosts that share a state folder share it: what others wrote there counts
//! when [`Quarantine::reread`] is told of it. A tool that rests stays listed: it comes back by itself,
//! and its refusal says when. Deliberately absent: which failures count, which
//! core decides, and who may release, which the callers of this module have settled.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{APPROVAL_REASON_BYTES_MAX, QUARANTINE_PROCEDURE_BYTES_MAX};
use clawhost_core::quarantine::{self as core, Anomaly, ImmuneSettings};
use clawhost_core::{truncate, visible};
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::Value;

pub use self::rows::{Hold, Seen};
use self::rows::{News, Outcome};
use crate::audit::{AuditLog, Event};
use crate::clock::{Clock, rfc3339};
use crate::state::{Database, DatabaseError};

/// The tables of this module.
pub const MIGRATIONS: &[&str] = &[
    include_str!("quarantine/quarantine.sql"),
    include_str!("quarantine/quarantine_by_caller.sql"),
];

/// Why something about a quarantine could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// No record, no change.
    #[error("it could not be recorded: {0}")]
    Audit(#[source] std::io::Error),
    /// The store cannot be used.
    #[error("it could not be kept: {0}")]
    Database(#[from] DatabaseError),
}

/// The quarantine of one state folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Quarantine {
    database: Database,
    audit: Arc<AuditLog>,
    clock: Clock,
    known: Arc<Mutex<Known>>,
}

/// A tool, and who calls it.
type Key = (String, String);

/// What this host last read, so that a call of a healthy tool costs nothing.
#[derive(Debug, Default)]
struct Known {
    held: BTreeMap<Key, Hold>,
    /// What a call tries just now.
    trials: BTreeSet<Key>,
}

/// The one call that tries whether a tool works again. Dropped before anything is learnt from it, it
/// leaves the next call to try.
#[derive(Debug)]
pub struct Trial {
    key: Key,
    known: Arc<Mutex<Known>>,
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.known.lock().trials.remove(&self.key);
    }
}

/// A failure of a tool, and what a call of it was.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// The tool's CKP name.
    pub tool: &'a str,
    /// Who called it.
    pub principal: &'a str,
    /// How many of its kind are too many; nothing where none are.
    pub threshold: Option<u32>,
    /// What happened, without secrets.
    pub anomaly: &'a Anomaly,
    /// What the tool got.
    pub arguments: &'a Value,
    /// The call was a trial.
    pub is_trial: bool,
}

/// What a failure has taught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// The kind of failure.
    pub signature: String,
    /// What helps, if somebody said so.
    pub procedure: Option<String>,
}

impl Quarantine {
    /// Returns the quarantine that `database` has, which has to have [`MIGRATIONS`]; what becomes of it
    /// is noted in `audit`.
    ///
    /// # Errors
    /// [`DatabaseError`]: it is not known what rests, so nothing may be served.
    pub(crate) async fn open(
        database: Database,
        audit: Arc<AuditLog>,
        clock: Clock,
    ) -> Result<Self, DatabaseError> {
        let quarantine = Self { database, audit, clock, known: Arc::default() };
        quarantine.reread().await?;
        Ok(quarantine)
    }

    /// Takes in what others have written.
    ///
    /// # Errors
    /// [`DatabaseError`]: what was known counts on.
    pub(crate) async fn reread(&self) -> Result<(), DatabaseError> {
        self.run(|_| Ok(())).await
    }

    /// Does `work` on the store and takes in what rests then: in the store's own order, so that nothing
    /// older comes after.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let known = Arc::clone(&self.known);
        let work = move |db: &mut Connection| {
            let done = work(db)?;
            let keyed = |hold: Hold| ((hold.tool.clone(), hold.principal.clone()), hold);
            known.lock().held = rows::holds(db)?.into_iter().map(keyed).collect();
            Ok(done)
        };
        self.database.run(work).await
    }

    /// Lets a call of `tool` by `principal` on, as a trial where its quarantine is over.
    ///
    /// # Errors
    /// -32011, `data.stage` being `quarantine`.
    pub fn enter(
        &self,
        tool: &str,
        principal: &str,
        immune: &ImmuneSettings,
    ) -> Result<Option<Trial>, CallError> {
        let mut known = self.known.lock();
        if !immune.enabled || known.held.is_empty() {
            return Ok(None);
        }
        let key = (tool.to_owned(), principal.to_owned());
        let Some(hold) = known.held.get(&key).cloned() else { return Ok(None) };
        if hold.lasts(self.clock.now_ms()) || !known.trials.insert(key.clone()) {
            return Err(refusal(&hold));
        }
        Ok(Some(Trial { key, known: Arc::clone(&self.known) }))
    }

    /// Says whether [`Quarantine::enter`] refuses a call because its time is not over.
    pub fn rests(&self, tool: &str, principal: &str, immune: &ImmuneSettings) -> bool {
        let known = self.known.lock();
        if !immune.enabled || known.held.is_empty() {
            return false;
        }
        let hold = known.held.get(&(tool.to_owned(), principal.to_owned()));
        hold.is_some_and(|hold| hold.lasts(self.clock.now_ms()))
    }

    /// Takes note of a failure, and says what is known about its kind. What cannot be kept is said in
    /// the log, and the call's own answer stands.
    pub async fn learn(&self, failure: Failure<'_>, immune: &ImmuneSettings) -> Option<Lesson> {
        if !immune.enabled {
            return None;
        }
        let news = self.news(failure, immune);
        let seen = news.seen.clone();
        let kept = self.run(move |db| rows::note(db, &news)).await;
        let kept = kept.inspect_err(|error| {
            tracing::warn!("a failure of `{}` could not be kept: {error}", seen.tool);
        });
        let Outcome { procedure, hold } = kept.ok()?;
        hold.iter().for_each(|hold| self.tell(hold));
        Some(Lesson { signature: seen.signature, procedure })
    }

    fn news(&self, failure: Failure<'_>, immune: &ImmuneSettings) -> News {
        let Failure { tool, principal, threshold, anomaly, arguments, is_trial } = failure;
        let now_ms = self.clock.now_ms();
        let ms = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let seen = Seen {
            signature: core::signature(tool, anomaly, arguments),
            tool: tool.to_owned(),
            code: anomaly.code.to_owned(),
            message: visible::line(&core::normalised(&anomaly.message)),
            times: 1,
            first_ms: now_ms,
            last_ms: now_ms,
            procedure: None,
            resolved_by: None,
        };
        News {
            seen,
            principal: principal.to_owned(),
            threshold,
            is_trial,
            ttl_ms: ms(immune.ttl),
            forget_before_ms: now_ms.saturating_sub(ms(immune.retention)),
        }
    }

    fn tell(&self, Hold { tool, principal, signature, until_ms, .. }: &Hold) {
        let until = rfc3339(*until_ms);
        tracing::warn!(
            "`{tool}` is in quarantine for `{principal}` until {until}: it failed again and again"
        );
        let facts = [
            ("tool", tool.as_str()),
            ("principal", principal),
            ("signature", signature),
            ("until", &until),
        ];
        if let Err(error) = self.audit.note(Event::ToolQuarantined, facts) {
            tracing::error!("a quarantine could not be recorded: {error}");
        }
    }

    /// Ends the quarantine of a tool whose trial went well.
    pub async fn passed(&self, trial: Trial) {
        let (tool, principal) = &trial.key;
        let released = self.end(tool, Some(principal), "trial", None).await;
        if let Err(error) = released {
            tracing::warn!("the quarantine of `{tool}` could not be ended: {error}");
        }
    }

    /// Ends the quarantine of a tool, by its CKP name, for everybody. Says whether there was one.
    ///
    /// # Errors
    /// [`QuarantineError`]; it then goes on.
    pub async fn release(
        &self,
        tool: &str,
        by: &str,
        reason: Option<&str>,
    ) -> Result<bool, QuarantineError> {
        self.end(tool, None, by, reason).await
    }

    async fn end(
        &self,
        tool: &str,
        principal: Option<&str>,
        by: &str,
        reason: Option<&str>,
    ) -> Result<bool, QuarantineError> {
        let reason =
            reason.map(|text| visible::line(truncate::text(text, APPROVAL_REASON_BYTES_MAX)));
        let facts = [
            ("tool", Some(tool)),
            ("principal", principal),
            ("by", Some(by)),
            ("reason", reason.as_deref()),
        ];
        let facts: Vec<_> = facts.into_iter().filter_map(|(key, it)| Some((key, it?))).collect();
        self.audit.note(Event::ToolReleased, facts).map_err(QuarantineError::Audit)?;
        let (tool, principal) = (tool.to_owned(), principal.map(str::to_owned));
        Ok(self.run(move |db| rows::release(db, &tool, principal.as_deref())).await?)
    }

    /// Keeps what helps against a kind of failure: who meets it is told, and it no longer counts. Says
    /// whether that kind is known.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub async fn vaccinate(
        &self,
        signature: &str,
        procedure: &str,
        by: &str,
    ) -> Result<bool, QuarantineError> {
        let procedure = visible::block(truncate::text(procedure, QUARANTINE_PROCEDURE_BYTES_MAX));
        let facts = [("signature", signature), ("by", by), ("procedure", procedure.as_str())];
        self.audit.note(Event::AnomalyResolved, facts).map_err(QuarantineError::Audit)?;
        let (signature, by) = (signature.to_owned(), by.to_owned());
        let work = move |db: &mut Connection| rows::vaccinate(db, &signature, &procedure, &by);
        Ok(self.database.run(work).await?)
    }

    /// Returns every tool that rests.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn holds(&self) -> Result<Vec<Hold>, DatabaseError> {
        Self::kept(&self.database).await
    }

    /// Returns what rests for hosts on a store, for whoever only looks.
    pub(crate) async fn kept(database: &Database) -> Result<Vec<Hold>, DatabaseError> {
        database.run(|db| rows::holds(db)).await
    }

    /// Returns for whom a tool rests, by its CKP name, as this host last read it.
    pub fn resting(&self, tool: &str) -> Vec<Hold> {
        self.known.lock().held.values().filter(|hold| hold.tool == tool).cloned().collect()
    }

    /// Returns every kind of failure that is remembered, the newest first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn anomalies(&self) -> Result<Vec<Seen>, DatabaseError> {
        Self::remembered(&self.database).await
    }

    /// Returns what hosts on a store remember of failures, for whoever only looks.
    pub(crate) async fn remembered(database: &Database) -> Result<Vec<Seen>, DatabaseError> {
        database.run(|db| rows::all_seen(db)).await
    }
}

impl Hold {
    /// Says whether its time is not over. A clock that was set back to before it began would have it last until the
    /// clock has caught up: a call may try then.
    const fn lasts(&self, now_ms: i64) -> bool {
        now_ms < self.until_ms && now_ms >= self.until_ms.saturating_sub(self.ttl_ms)
    }

    /// Says until when it rests, and for whom.
    pub(crate) fn told(&self) -> String {
        format!("rests until {} for `{}`", rfc3339(self.until_ms), self.principal)
    }
}

fn refusal(hold: &Hold) -> CallError {
    let Hold { tool, signature, until_ms, .. } = hold;
    let until = rfc3339(*until_ms);
    let text = format!(
        "`{tool}` is in quarantine, as it failed again and again; it is tried again after {until}"
    );
    CallError::new(ErrorKind::Quarantined, text)
        .with("stage", "quarantine")
        .with_limit(Limit::QuarantineThreshold)
        .with("tool", tool.as_str())
        .with("until", until)
        .with_internal(format!("the failure {signature}"))
}
