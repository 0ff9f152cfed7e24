//! Entries and queries become vectors: the one provider that the store names is asked.
//!
//! A write never waits for a provider. Entries get their vectors while a query waits, the newest
//! first, in a bounded number and time; what has none yet is found by its words. Where the provider
//! fails, words alone are compared, and the answer says so. Vectors of another length than the store
//! says are an error, as no query would ever be compared by them.

use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{
    MEMORY_EMBED_MS, MEMORY_EMBEDDED_PER_QUERY_MAX, MEMORY_EMBEDDED_TEXTS_MAX, MEMORY_QUERY_MS,
};
use clawhost_core::manifest::{EmbeddingPlan, StorePlan};
use rusqlite::Connection;

use super::vectors::{Near, Space, beginning, unit};
use super::{backend, rows};
use crate::state::Database;
use crate::upstream::provider::{Caller, Embed, EmbedError, Providers};

/// What costs are recorded under.
const METHOD: &str = "claw.memory.query";

/// One query's way to vectors.
pub(super) struct Embedding<'a> {
    plan: &'a EmbeddingPlan,
    store: &'a str,
    providers: &'a Providers,
    caller: Caller,
    space: Space,
    /// Entries before are over.
    since_ms: i64,
    until: Instant,
}

impl<'a> Embedding<'a> {
    /// Returns the way for a query of `principal`; nothing where the store compares words alone.
    pub(super) fn of(
        store: &'a StorePlan,
        providers: Option<&'a Providers>,
        principal: &str,
        now_ms: i64,
    ) -> Option<Self> {
        let plan = store.embedding.as_ref()?;
        Some(Self {
            plan,
            store: &store.name,
            providers: providers?,
            caller: Caller::new(principal, METHOD),
            space: Space::new(plan),
            since_ms: rows::since_ms(store, now_ms),
            until: Instant::now() + Duration::from_millis(MEMORY_EMBED_MS),
        })
    }

    /// Returns a query as a vector, after entries of `owner`'s part got theirs; and a word to whoever asks
    /// where not everything was compared by it.
    ///
    /// # Errors
    /// -32031 where vectors are not as long as the store says, -32030.
    pub(super) async fn near(
        &self,
        database: &Database,
        owner: &str,
        text: &str,
    ) -> Result<(Option<Near>, Option<String>), CallError> {
        let vector = match self.vectors(&[beginning(text)]).await? {
            Ok(mut vectors) => vectors.pop().unwrap_or_default(),
            Err(EmbedError { error, .. }) => {
                return Ok((None, Some(self.note("only words were compared", &error))));
            }
        };
        let note = self.catch_up(database, owner).await?;
        let note = note.map(|error| self.note("some entries were compared by words only", &error));
        let (space, alone) = (self.space.clone(), self.plan.alone);
        Ok((Some(Near { space, vector, alone }), note))
    }

    fn note(&self, what: &str, error: &CallError) -> String {
        tracing::warn!(store = self.store, "{what}: {error}");
        format!("{what}: {}", error.message)
    }

    /// Gives entries their vectors; returns why some still have none.
    async fn catch_up(
        &self,
        database: &Database,
        owner: &str,
    ) -> Result<Option<CallError>, CallError> {
        let mut most = MEMORY_EMBEDDED_TEXTS_MAX;
        for _ in 0..MEMORY_EMBEDDED_PER_QUERY_MAX / MEMORY_EMBEDDED_TEXTS_MAX {
            let missing = self.missing(database, owner, most).await?;
            if missing.is_empty() {
                return Ok(None);
            }
            let (seqs, texts): (Vec<i64>, Vec<String>) = missing.into_iter().unzip();
            let vectors = match self.vectors(&texts).await? {
                Ok(vectors) => vectors,
                // The query was taken a moment ago, so it is these texts: one of them is found out, and
                // asked about no more.
                Err(EmbedError { is_final: true, .. }) if most == 1 => vec![Vec::new()],
                Err(EmbedError { is_final: true, .. }) => {
                    most = 1;
                    continue;
                }
                Err(EmbedError { error, .. }) => return Ok(Some(error)),
            };
            let space = self.space.clone();
            let vectors: Vec<_> = seqs.into_iter().zip(vectors).collect();
            let kept = database.run(move |db: &mut Connection| {
                let change = db.transaction()?;
                space.keep(&change, &vectors)?;
                change.commit()
            });
            kept.await.map_err(backend)?;
        }
        let left = self.missing(database, owner, 1).await?;
        let more =
            || CallError::new(ErrorKind::MemoryQuery, "there are more than one query embeds");
        Ok((!left.is_empty()).then(more))
    }

    async fn missing(
        &self,
        database: &Database,
        owner: &str,
        most: u32,
    ) -> Result<Vec<(i64, String)>, CallError> {
        let (space, since_ms) = (self.space.clone(), self.since_ms);
        let (store, owner) = (self.store.to_owned(), owner.to_owned());
        let found = database.search(Duration::from_millis(MEMORY_QUERY_MS), move |db| {
            let change = db.transaction()?;
            let part = rows::part(&change, &store, &owner)?;
            part.map_or(Ok(Vec::new()), |part| space.missing(&change, part, since_ms, most))
        });
        found.await.map_err(backend)
    }

    async fn vectors(
        &self,
        texts: &[String],
    ) -> Result<Result<Vec<Vec<f32>>, EmbedError>, CallError> {
        let EmbeddingPlan { provider, model, dimensions, .. } = self.plan;
        let embed = Embed { provider, model, texts };
        let vectors = match self.providers.embed(&self.caller, embed, self.until).await {
            Ok(vectors) => vectors,
            Err(error) => return Ok(Err(error)),
        };
        match vectors.iter().map(Vec::len).find(|len| *len != *dimensions as usize) {
            None => Ok(Ok(vectors.into_iter().map(unit).collect())),
            Some(len) => {
                let reason = format!(
                    "the model `{model}` of `{provider}` makes vectors of {len} numbers, and the store `{}` says {dimensions}: write `dimensions: {len}` there; its entries are embedded anew",
                    self.store
                );
                Err(CallError::new(ErrorKind::MemoryQuery, reason))
            }
        }
    }
}
