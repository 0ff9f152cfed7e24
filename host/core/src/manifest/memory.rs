//! `kind: Memory`: what the agent remembers, read into a [`StorePlan`] for each store.
//!
//! What a document asks for and this host does not serve is refused, so that no store does less
//! than it says: other backends than SQLite, encryption, summaries. The cognitive
//! fields (`role`, `lifecycle`, `forgetting`, `salience`, `confidence`) are advice that a runtime
//! may ignore (CKP 0.3.0, section 5.6); this one does, and notes it.

mod check;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub(crate) use self::check::{check, check_all};
use super::node::Node;
use super::primitive::Document;
use super::refs::local_name;
use crate::limits::{
    MEMORY_PART_MB, MEMORY_TOP_K_MAX, MEMORY_TOP_K_PER_CALL, MEMORY_WINDOW_ENTRIES_MAX,
};
use crate::uri::Kind;

/// What a store's `path` may be made of beside plain text.
const IDENTITY: &str = "{identity_name}";
const TENANT: &str = "{tenant_id}";
/// Bytes of a store's name.
const NAME_BYTES_MAX: usize = 128;

/// One store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlan {
    /// By which callers name it.
    pub name: String,
    /// What it does with what it is given.
    pub kind: StoreKind,
    /// Who shares what is in it.
    pub sharing: Sharing,
    /// Its own file; the host's store where absent.
    pub file: Option<FileTemplate>,
    /// How long an entry is kept: the shorter of `retention.max_age` and `checkpoint.ttl`.
    pub max_age_ms: Option<i64>,
    /// How many entries are kept, the newest: the smaller of `retention.max_entries` and
    /// `checkpoint.max_snapshots`.
    pub max_entries: Option<u64>,
    /// How many bytes one part of it may hold.
    pub max_bytes: u64,
    /// How many entries compacting leaves, the newest; none where it only applies the retention.
    pub compacts_to: Option<u64>,
    /// How many entries an answer has where the query does not say.
    pub top_k: u32,
    /// Who makes vectors of its entries; without one only words are compared.
    pub embedding: Option<EmbeddingPlan>,
}

/// Who makes vectors of a store's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingPlan {
    /// The provider that is asked.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// How many numbers the model's vectors have.
    pub dimensions: u32,
    /// Words are not looked for beside them: `search.strategy: vector-only`.
    pub alone: bool,
}

/// What a store does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// Keeps snapshots.
    Checkpoint,
    /// Appends, and keeps the order.
    Conversation,
    /// Keeps one entry a key: the last writer's.
    KeyValue,
    /// Appends; is there to be searched.
    Semantic,
    /// Keeps one entry a key, as key-value does: what is being worked on.
    Workspace,
}

impl StoreKind {
    /// Says whether a second entry of the same key takes the place of the first.
    pub const fn replaces(self) -> bool {
        matches!(self, Self::KeyValue | Self::Workspace)
    }
}

/// Whose entries stand together. Whatever a part of a store holds, no other part can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// Each identity has a part of its own.
    pub per_identity: bool,
    /// Each principal, which is who stands behind a channel, has a part of its own.
    pub per_principal: bool,
}

/// The path of a store's own file, in which names are still to be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTemplate(PathBuf);

impl FileTemplate {
    /// Returns the path for one identity and one tenant, which is the principal.
    ///
    /// Nothing where a name that is to be filled in could lead elsewhere: it has to begin with a
    /// letter or digit and hold only letters, digits, `-`, `_` and `.`, at most 128.
    pub fn resolve(&self, identity: &str, tenant: &str) -> Option<PathBuf> {
        let mut text = self.0.to_str()?.to_owned();
        for (placeholder, name) in [(IDENTITY, identity), (TENANT, tenant)] {
            if text.contains(placeholder) {
                text = text.replace(placeholder, harmless_name(name)?);
            }
        }
        Some(PathBuf::from(text))
    }
}

fn harmless_name(name: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain);
    fits.then_some(name)
}

/// Naming a strategy asks for it, unless it is switched off beside it.
fn compacts(store: &Node) -> bool {
    let named = store.get(&["compaction", "strategy"]).is_some();
    store.flag(&["compaction", "enabled"]).unwrap_or(named)
}

fn stores(primitives: &[Document]) -> impl Iterator<Item = (&Document, &Node)> {
    let memories = primitives.iter().filter(|of| of.is(Kind::Memory));
    memories.flat_map(|of| of.spec.list(&["stores"]).iter().map(move |store| (of, store)))
}

/// Returns the stores that checked documents declare.
pub(crate) fn plan(primitives: &[Document], directory: &Path) -> Vec<StorePlan> {
    stores(primitives).map(|(of, store)| read(store, &directory.join(&of.base))).collect()
}

fn read(store: &Node, base: &Path) -> StorePlan {
    let max_entries = least(
        store.number(&["retention", "max_entries"]),
        store.number(&["checkpoint", "max_snapshots"]),
    );
    let ages = [&["retention", "max_age"], &["checkpoint", "ttl"]];
    let [max_age, ttl] = ages.map(|path| store.duration(path));
    StorePlan {
        name: store.text(&["name"]).unwrap_or_default().to_owned(),
        kind: store.read(&["type"]).unwrap_or(StoreKind::Conversation),
        sharing: sharing(store),
        file: store
            .text(&["path"])
            .map(|path| FileTemplate(super::sandbox::tidy(&base.join(path)))),
        max_age_ms: least(max_age, ttl).and_then(|age| i64::try_from(age.as_millis()).ok()),
        max_entries,
        max_bytes: store.number(&["max_size_mb"]).unwrap_or(MEMORY_PART_MB) << 20,
        compacts_to: compacts_to(store, max_entries),
        top_k: top_k(store),
        embedding: embedding(store),
    }
}

fn embedding(store: &Node) -> Option<EmbeddingPlan> {
    let strategy = store.text(&["search", "strategy"]);
    let embedding = store.get(&["embedding"]).filter(|_| strategy != Some("fts-only"))?;
    Some(EmbeddingPlan {
        provider: local_name(embedding.text(&["provider_ref"])?, Kind::Provider)?,
        model: embedding.text(&["model"])?.to_owned(),
        dimensions: u32::try_from(embedding.number(&["dimensions"])?).ok()?,
        alone: strategy == Some("vector-only"),
    })
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).min()
}

/// `scope` and `isolation` say the same thing twice: each narrows, and where neither is said,
/// nobody shares anything.
fn sharing(store: &Node) -> Sharing {
    let said = [store.text(&["scope"]), store.text(&["isolation"])];
    let silent = said.iter().all(Option::is_none);
    Sharing {
        per_identity: silent || said.contains(&Some("per-identity")),
        per_principal: silent || said.contains(&Some("per-channel")),
    }
}

/// A sliding window leaves as many entries as are retained; truncating leaves half as many, so
/// that there is room to go on.
fn compacts_to(store: &Node, max_entries: Option<u64>) -> Option<u64> {
    let window = max_entries.unwrap_or(MEMORY_WINDOW_ENTRIES_MAX);
    let truncates = store.text(&["compaction", "strategy"]) == Some("truncate");
    compacts(store).then_some(if truncates { window.div_ceil(2) } else { window })
}

fn top_k(store: &Node) -> u32 {
    let said = store.number(&["search", "top_k"]).and_then(|top_k| u32::try_from(top_k).ok());
    said.unwrap_or(MEMORY_TOP_K_PER_CALL).min(MEMORY_TOP_K_MAX)
}

#[cfg(test)]
mod tests;
