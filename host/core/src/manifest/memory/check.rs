//! What a Memory document may not say: what this host does not serve, and what contradicts itself.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::{IDENTITY, NAME_BYTES_MAX, TENANT, compacts, stores};
use crate::limits::{MEMORY_SIZE_CEILING_MB, MEMORY_STORES_MAX, MEMORY_TOP_K_MAX};
use crate::manifest::node::{Node, Place};
use crate::manifest::primitive::Primitive;
use crate::manifest::problem::Problems;
use crate::manifest::shape::shown;

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Primitive, problems: &mut Problems) {
    let stores = of.spec.get(&["stores"]).map(Node::items).unwrap_or_default();
    for store in stores {
        Check { of, store, problems }.all();
    }
    if stores.len() > MEMORY_STORES_MAX {
        let reason = format!("more than {MEMORY_STORES_MAX} stores");
        problems.invalid(&of.source, of.at, reason, "declare fewer");
    }
}

struct Check<'a> {
    of: &'a Primitive,
    store: &'a Node,
    problems: &'a mut Problems,
}

impl Check<'_> {
    fn all(&mut self) {
        self.name();
        self.unserved();
        self.search();
        self.path();
        self.size();
        self.checkpoint();
    }

    fn refuse(&mut self, at: Place, reason: impl Into<String>, help: impl Into<String>) {
        self.problems.invalid(&self.of.source, at, reason, help);
    }

    fn name(&mut self) {
        let Some(node) = self.store.get(&["name"]) else { return };
        let name = node.as_text().unwrap_or_default();
        if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let reason = format!("the store name `{}` is not allowed", shown(name));
            self.refuse(node.at, reason, format!("at most {NAME_BYTES_MAX} bytes, on one line"));
        }
    }

    fn unserved(&mut self) {
        if let Some(node) = self.store.get(&["backend"]).filter(|n| n.as_text() != Some("sqlite")) {
            let backend = shown(node.as_text().unwrap_or_default());
            let reason = format!("`backend: {backend}` is not served by this version");
            self.refuse(node.at, reason, "write `backend: sqlite`, or leave it out");
        }
        if let Some(node) = self.store.get(&["embedding"]) {
            let reason = "`embedding` is not served by this version";
            self.refuse(
                node.at,
                reason,
                "take it out: semantic queries are answered by ranked full-text search",
            );
        }
        if let Some(node) = self
            .store
            .get(&["encryption"])
            .filter(|_| self.store.flag(&["encryption"]) == Some(true))
        {
            let reason = "`encryption: true` is not served by this version";
            self.refuse(
                node.at,
                reason,
                "take it out, and keep the state folder on an encrypted disk",
            );
        }
        if let Some(node) =
            self.store.get(&["compaction", "strategy"]).filter(|_| summarizes(self.store))
        {
            let reason = "`strategy: summarize` is not served by this version";
            self.refuse(node.at, reason, "write `truncate` or `sliding-window`");
        }
    }

    fn search(&mut self) {
        if let Some(node) =
            self.store.get(&["search", "strategy"]).filter(|n| n.as_text() != Some("fts-only"))
        {
            let strategy = shown(node.as_text().unwrap_or_default());
            let reason = format!("`strategy: {strategy}` is not served by this version");
            self.refuse(
                node.at,
                reason,
                "write `fts-only`, or leave it out: nothing is embedded here",
            );
        }
        if let Some(node) = self.store.get(&["search", "fusion"]) {
            self.refuse(
                node.at,
                "`fusion` has nothing to join",
                "take it out: there is one search, of the full text",
            );
        }
        let top_k = self.store.number(&["search", "top_k"]).unwrap_or(0);
        if let Some(node) =
            self.store.get(&["search", "top_k"]).filter(|_| top_k > u64::from(MEMORY_TOP_K_MAX))
        {
            self.refuse(
                node.at,
                format!("`top_k` is {top_k}"),
                format!("write {MEMORY_TOP_K_MAX} or less"),
            );
        }
    }

    fn path(&mut self) {
        let Some(node) = self.store.get(&["path"]) else { return };
        let text = node.as_text().unwrap_or_default();
        if !is_path(text) {
            let reason = format!("`{}` is no path of a store", shown(text));
            let help = "write the path of a file, absolute or relative to this document, without `..`; {identity_name} and {tenant_id} are filled in";
            self.refuse(node.at, reason, help);
        }
    }

    fn size(&mut self) {
        let size = self.store.number(&["max_size_mb"]).unwrap_or(0);
        if let Some(node) =
            self.store.get(&["max_size_mb"]).filter(|_| size > MEMORY_SIZE_CEILING_MB)
        {
            self.refuse(
                node.at,
                format!("`max_size_mb` is {size}"),
                format!("write {MEMORY_SIZE_CEILING_MB} or less"),
            );
        }
    }

    fn checkpoint(&mut self) {
        let kind = self.store.text(&["type"]).unwrap_or_default();
        if let Some(node) = self.store.get(&["checkpoint"]).filter(|_| kind != "checkpoint") {
            let reason = format!("`checkpoint` does not go with `type: {}`", shown(kind));
            self.refuse(
                node.at,
                reason,
                "write it in a store of `type: checkpoint`, or `retention` here",
            );
        }
    }
}

fn summarizes(store: &Node) -> bool {
    compacts(store) && store.text(&["compaction", "strategy"]) == Some("summarize")
}

/// Says whether `text` leads to a file, and nowhere else whatever is filled in.
fn is_path(text: &str) -> bool {
    let plain = text.replace(IDENTITY, "x").replace(TENANT, "x");
    let path = Path::new(&plain);
    let stays = path.components().all(|part| !matches!(part, Component::ParentDir));
    stays
        && path.file_name().is_some()
        && !plain.ends_with('/')
        && !plain.starts_with('~')
        && !plain.contains(['{', '}', '*', '?', '\0'])
}

/// Says which names are taken: a caller finds a store by its name alone.
pub(crate) fn check_names(primitives: &[Primitive], problems: &mut Problems) {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for (of, store) in stores(primitives) {
        let Some(node) = store.get(&["name"]) else { continue };
        let at = of.source.location(node.at);
        if let Some(first) = seen.insert(node.as_text().unwrap_or_default(), at) {
            let name = shown(node.as_text().unwrap_or_default());
            let reason = format!("the store name `{name}` is taken: the first is of {first}");
            problems.invalid(&of.source, node.at, reason, "give each store a name of its own");
        }
    }
}
