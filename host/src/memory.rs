//! Memory stores: what `claw.memory.store`, `query` and `compact` do (CKP 0.3.0, section 5.6).
//!
//! A store is divided into parts, one for each who shares nothing with the others; no query
//! reaches past its own part, not even through how the words of another count in a score. What
//! is acknowledged is on disk, all of a request's entries or none, and recorded before that.
//!
//! A semantic query is answered by full-text search, ranked by BM25: words are compared without
//! regard to case and accents, and an entry with any of them is found. Scripts without spaces have no
//! words here, but what is between two punctuation marks. Where the store names an
//! `embedding`, the newest entries are also ranked by how near their vectors are to the query's, and the
//! two rankings are mixed; under `search.strategy: vector-only` that ranking stands alone. The score is
//! higher for the better; of equal ones the newer comes first.
//!
//! What is wrong with a request is -32602; a request that this store cannot carry out (its part
//! is full, the answer is too long) is -32031; a store that does not answer is -32030.
//!
//! Deliberately absent: summaries, encryption, and backends other than SQLite. A
//! document that asks for them is refused when it is loaded.

mod check;
mod embed;
mod files;
mod keys;
mod rows;
mod turns;
mod vectors;
mod words;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::MEMORY_QUERY_MS;
use clawhost_core::manifest::StorePlan;
use clawhost_core::screen::{Finding, Screens, Tokens};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::{Value, json};

use self::check::Row;
use self::embed::Embedding;
use self::files::Files;
pub use self::keys::{KeyEntry, Keys, MIGRATIONS as KEYS_MIGRATIONS, OwnKeys, Space};
pub use self::rows::MIGRATIONS;
use self::turns::Turns;
use crate::audit::{AuditLog, Event, Facts};
use crate::clock::Clock;
use crate::state::{Database, DatabaseError};
use crate::upstream::provider::Providers;

/// The stores of one run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stores: Vec<StorePlan>,
    database: Database,
    files: Files,
    audit: Arc<AuditLog>,
    screens: ArcSwap<Screens>,
    tokens: Tokens,
    providers: Option<Providers>,
    clock: Clock,
    turns: Turns,
}

/// Who remembers: what a store's sharing is told by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Who stands behind the channel.
    pub principal: String,
    /// The identity that the request names.
    pub identity: String,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// How.
    pub kind: QueryKind,
    /// How many entries the answer has at most: 1 to [`clawhost_core::limits::MEMORY_TOP_K_MAX`].
    /// Where it is not said, the store's `search.top_k` holds for semantic queries and the
    /// greatest number for others.
    pub top_k: Option<u32>,
}

/// How entries are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryKind {
    /// The entries of a key in the order in which they were stored; where there are too many, the
    /// newest of them. Stores that keep one entry a key have one.
    Key {
        /// The key.
        key: String,
    },
    /// The entries with any of these words, and those that mean the like where the store knows that,
    /// the best first.
    Semantic {
        /// The words.
        text: String,
    },
    /// The entries of a time, both ends included, in the order of time; where there are too many,
    /// the newest of them.
    TimeRange {
        /// Milliseconds since 1970, UTC.
        from_ms: i64,
        /// As `from_ms`, and not before it.
        to_ms: i64,
    },
}

/// What is to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Any JSON, at most [`clawhost_core::limits::MEMORY_CONTENT_BYTES_MAX`].
    pub content: Value,
    /// A name for it. Without one it can be found by time and words only.
    pub key: Option<String>,
    /// Given back as it is; nothing looks for it.
    pub metadata: Option<Value>,
}

/// What is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// As [`Memory::store`] returned it.
    pub id: String,
    /// What was stored.
    pub content: Value,
    /// Its key.
    pub key: Option<String>,
    /// How well it answers a semantic query: the higher, the better. Scores of different queries
    /// do not compare.
    pub score: Option<f64>,
    /// When it was stored, in milliseconds since 1970, UTC.
    pub timestamp_ms: i64,
    /// What was stored beside it.
    pub metadata: Option<Value>,
}

/// What a query found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The entries, in the order of their query.
    pub entries: Vec<Entry>,
    /// What the store was to compare and could not, and why.
    pub note: Option<String>,
}

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Entries before, those included whose time was over.
    pub before: u64,
    /// Entries after.
    pub after: u64,
}

/// What the database says.
type Sql<T> = rusqlite::Result<T>;
/// What the work of one request comes to: the store may fail, or refuse.
type Outcome<T> = Sql<Result<T, CallError>>;

impl Memory {
    /// Returns these stores. They are kept in `database`, which has to have [`MIGRATIONS`], but for those with a
    /// file of their own. What is to be stored is searched by `screens` first. `providers` make the vectors;
    /// without them words alone are compared.
    pub fn new(
        stores: Vec<StorePlan>,
        database: Database,
        audit: Arc<AuditLog>,
        screens: (Screens, Tokens),
        providers: Option<Providers>,
    ) -> Self {
        Self::with_clock(stores, database, audit, screens, providers, Clock::system())
    }

    fn with_clock(
        stores: Vec<StorePlan>,
        database: Database,
        audit: Arc<AuditLog>,
        (screens, tokens): (Screens, Tokens),
        providers: Option<Providers>,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Inner {
            stores,
            database,
            files: Files::default(),
            audit,
            screens: ArcSwap::from_pointee(screens),
            tokens,
            providers,
            clock,
            turns: Turns::default(),
        }))
    }

    /// Searches what is to be stored from now on by `screens`.
    pub(crate) fn hold_to(&self, screens: Screens) {
        self.0.screens.store(Arc::new(screens));
    }

    /// Returns the names of the stores, in the order of the documents.
    pub fn stores(&self) -> impl Iterator<Item = &str> {
        self.0.stores.iter().map(|store| store.name.as_str())
    }

    /// Returns what `query` finds in the caller's part of `store`.
    ///
    /// # Errors
    /// As the module's page says.
    pub async fn query(
        &self,
        scope: &Scope,
        store: &str,
        query: Query,
    ) -> Result<Found, CallError> {
        let plan = self.plan(store)?;
        let top_k = check::query(&query, &plan)?;
        let database = self.database(&plan, scope).await?;
        let (owner, now) = (owner(&plan, scope), self.0.clock.now_ms());
        let _turn = self.0.turns.take(&scope.principal).await;
        let providers = self.0.providers.as_ref();
        let embedding = Embedding::of(&plan, providers, &scope.principal, now);
        let (near, note) = match (&query.kind, embedding) {
            (QueryKind::Semantic { text }, Some(embedding)) => {
                embedding.near(&database, &owner, text).await?
            }
            _ => (None, None),
        };
        let work = move |change: &Transaction<'_>| {
            let Some(part) = rows::part(change, &plan.name, &owner)? else {
                return Ok(Ok(Vec::new()));
            };
            rows::find(change, part, &query.kind, near.as_ref(), top_k, rows::since_ms(&plan, now))
        };
        let limit = Duration::from_millis(MEMORY_QUERY_MS);
        let found = database.search(limit, move |db: &mut Connection| {
            let change = db.transaction_with_behavior(TransactionBehavior::Deferred)?;
            work(&change)
        });
        let entries = found.await.map_err(unfound)??;
        Ok(Found { entries, note })
    }

    /// Returns an entry as it may be stored: a filter takes parts out of it, or refuses it.
    fn screened(&self, entry: NewEntry) -> Result<NewEntry, CallError> {
        let screens = self.0.screens.load();
        let pass = |value| {
            let screened = screens.memory(value, &self.0.tokens);
            for Finding { check, policy, what, .. } in &screened.findings {
                tracing::warn!(check, policy, "a filter found {what} in what is to be remembered");
            }
            screened.blocked.map_or(Ok(screened.value), Err)
        };
        if let Some(key) = entry.key.as_deref().map(Value::from)
            && pass(key.clone())? != key
        {
            // Without its parts it might be the key of another entry.
            let text = "the key holds what a filter takes out of what is remembered";
            return Err(CallError::new(ErrorKind::InvalidArguments, text));
        }
        let metadata = entry.metadata.map(pass).transpose()?;
        Ok(NewEntry { content: pass(entry.content)?, metadata, key: entry.key })
    }

    /// Adds entries to the caller's part of `store`, all of them or none, and returns their ids
    /// in the same order. When it returns they are on disk.
    ///
    /// An entry that takes the place of another of its key takes over its id too.
    ///
    /// # Errors
    /// As the module's page says.
    pub async fn store(
        &self,
        scope: &Scope,
        store: &str,
        entries: Vec<NewEntry>,
    ) -> Result<Vec<String>, CallError> {
        let plan = self.plan(store)?;
        let entries = entries.into_iter().map(|entry| self.screened(entry));
        let new = check::entries(entries.collect::<Result<_, _>>()?)?;
        let database = self.database(&plan, scope).await?;
        let (owner, new) = (owner(&plan, scope), Arc::from(new));
        loop {
            let facts = facts(scope, store);
            if let Some(ids) = self.store_once(&database, (&plan, &owner), &new, facts).await? {
                return Ok(ids);
            }
        }
    }

    /// Adds entries where no more has to make room for them than one change may drop; else drops that much, and
    /// returns nothing.
    async fn store_once(
        &self,
        database: &Database,
        (plan, owner): (&StorePlan, &str),
        new: &Arc<[Row]>,
        mut facts: Facts,
    ) -> Result<Option<Vec<String>>, CallError> {
        let (plan, owner, new) = (plan.clone(), owner.to_owned(), Arc::clone(new));
        let (audit, now) = (Arc::clone(&self.0.audit), self.0.clock.now_ms());
        let work = move |change: &Transaction<'_>| {
            let part = rows::make_part(change, &plan.name, &owner)?;
            if rows::retain(change, &plan, part, plan.max_entries, now)? {
                return Ok(Ok(None));
            }
            let ids = match add(change, &plan, part, &new, now)? {
                Ok(ids) => ids,
                Err(refused) => return Ok(Err(refused)),
            };
            facts.set("entries", ids.len());
            facts.set("ids_digest", digest::of_json(&json!(ids)));
            Ok(record(&audit, Event::MemoryStored, &facts).map(|()| Some(ids)))
        };
        transact(database, work).await
    }

    /// Drops what the store's retention and compaction no longer keep of the caller's part.
    ///
    /// # Errors
    /// As the module's page says.
    pub async fn compact(&self, scope: &Scope, store: &str) -> Result<Compacted, CallError> {
        let plan = self.plan(store)?;
        let database = self.database(&plan, scope).await?;
        let owner = owner(&plan, scope);
        let mut first = None;
        loop {
            let facts = facts(scope, store);
            let (done, more) = self.compact_some(&database, &plan, &owner, facts).await?;
            let before = *first.get_or_insert(done.before);
            if !more {
                return Ok(Compacted { before, ..done });
            }
        }
    }

    /// Does so as far as one change may. Says whether more may be left.
    async fn compact_some(
        &self,
        database: &Database,
        plan: &StorePlan,
        owner: &str,
        mut facts: Facts,
    ) -> Result<(Compacted, bool), CallError> {
        let (plan, owner, now) = (plan.clone(), owner.to_owned(), self.0.clock.now_ms());
        let audit = Arc::clone(&self.0.audit);
        let work = move |change: &Transaction<'_>| {
            let Some(part) = rows::part(change, &plan.name, &owner)? else {
                return Ok(Ok((Compacted { before: 0, after: 0 }, false)));
            };
            let before = rows::totals(change, part)?.entries;
            let more = rows::compact(change, &plan, part, now)?;
            let done = Compacted { before, after: rows::totals(change, part)?.entries };
            facts.set("before", done.before);
            facts.set("after", done.after);
            Ok(record(&audit, Event::MemoryCompacted, &facts).map(|()| (done, more)))
        };
        transact(database, work).await
    }

    fn plan(&self, store: &str) -> Result<StorePlan, CallError> {
        let plan = self.0.stores.iter().find(|plan| plan.name == store);
        plan.cloned().ok_or_else(|| {
            let names: Vec<&str> = self.0.stores.iter().map(|plan| plan.name.as_str()).collect();
            let reason =
                format!("there is no memory store `{store}`; there are: {}", names.join(", "));
            CallError::new(ErrorKind::InvalidArguments, reason)
        })
    }

    /// Returns the file that the caller's part of a store is in.
    async fn database(&self, plan: &StorePlan, scope: &Scope) -> Result<Database, CallError> {
        match &plan.file {
            None => Ok(self.0.database.clone()),
            Some(file) => self.0.files.open(file, scope).await,
        }
    }
}

/// Does `work` in one transaction, which counts only where `work` did not refuse.
async fn transact<T: Send + 'static>(
    database: &Database,
    work: impl FnOnce(&Transaction<'_>) -> Outcome<T> + Send + 'static,
) -> Result<T, CallError> {
    let done = database.run(move |db: &mut Connection| {
        let change = db.transaction()?;
        let done = work(&change)?;
        if done.is_ok() {
            change.commit()?;
        }
        Ok(done)
    });
    done.await.map_err(backend)?
}

fn unfound(error: DatabaseError) -> CallError {
    match error {
        DatabaseError::TooLong => {
            let text =
                format!("the query took more than {MEMORY_QUERY_MS} ms: ask for fewer words");
            CallError::new(ErrorKind::MemoryQuery, text).with_limit(Limit::MemoryQuery)
        }
        error => backend(error),
    }
}

fn backend(error: DatabaseError) -> CallError {
    error.into_call_error(ErrorKind::MemoryBackend)
}

/// Returns whose part of a store `scope` is in, as a text that no other owner has.
fn owner(plan: &StorePlan, scope: &Scope) -> String {
    let identity = plan.sharing.per_identity.then_some(&scope.identity);
    let principal = plan.sharing.per_principal.then_some(&scope.principal);
    json!([identity, principal]).to_string()
}

/// What a record says of every change.
fn facts(scope: &Scope, store: &str) -> Facts {
    let facts = [
        ("principal", scope.principal.as_str()),
        ("identity", scope.identity.as_str()),
        ("store", store),
    ];
    facts.into_iter().collect()
}

fn add(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    new: &[Row],
    now_ms: i64,
) -> Outcome<Vec<String>> {
    let mut ids = Vec::with_capacity(new.len());
    for row in new {
        ids.push(rows::add(change, part, row, plan, now_ms)?);
    }
    rows::retain(change, plan, part, plan.max_entries, now_ms)?;
    rows::retain_beside(change, plan, part, now_ms)?;
    let full = rows::totals(change, part)?.bytes > plan.max_bytes;
    Ok(if full { Err(too_large(plan)) } else { Ok(ids) })
}

fn too_large(plan: &StorePlan) -> CallError {
    // Without a number to be left, compacting makes no room.
    let way = if plan.compacts_to.is_some() { "compact it or give" } else { "give" };
    let reason = format!(
        "the memory store `{}` is full: {} MiB; {way} it a retention",
        plan.name,
        plan.max_bytes >> 20
    );
    CallError::new(ErrorKind::MemoryQuery, reason).with_limit(Limit::MemorySize)
}

/// Records a change that is about to count: without a record there is none.
fn record(audit: &AuditLog, event: Event, facts: &Facts) -> Result<(), CallError> {
    let recorded = audit.append(event, facts);
    recorded.map_err(|error| CallError::unrecorded("the change could not be recorded", &error))
}

#[cfg(test)]
mod tests;
