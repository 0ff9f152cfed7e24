//! What a Memory document may not say: what this host does not serve, and what contradicts itself.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::{IDENTITY, NAME_BYTES_MAX, TENANT, compacts, stores};
use crate::limits::MEMORY_STORES_MAX;
use crate::manifest::node::Node;
use crate::manifest::primitive::Document;
use crate::manifest::problem::Problems;
use crate::manifest::refs::local_name;
use crate::manifest::shape::shown;
use crate::uri::Kind;

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Document, report: &mut Problems) {
    let stores = of.spec.list(&["stores"]);
    for store in stores {
        check_store(store, report);
    }
    if stores.len() > MEMORY_STORES_MAX {
        let reason = format!("more than {MEMORY_STORES_MAX} stores");
        report.invalid(&of.at, reason, "declare fewer");
    }
}

fn check_store(store: &Node, report: &mut Problems) {
    let name = store.text(&["name"]).unwrap_or_default();
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let reason = format!("the store name `{}` is not allowed", shown(name));
        let help = format!("at most {NAME_BYTES_MAX} bytes, on one line");
        report.invalid(store.place(&["name"]), reason, help);
    }
    if let Some(path) = store.text(&["path"]).filter(|path| !is_path(path)) {
        let reason = format!("`{}` is no path of a store", shown(path));
        let help = match path.contains(['{', '}']) {
            true => {
                "only `{identity_name}` and `{tenant_id}` are filled in: write one of these, or take the braces out"
            }
            false => {
                "write the path of a file, absolute or relative to this document, without `..`, `*` and `?`"
            }
        };
        report.invalid(store.place(&["path"]), reason, help);
    }
    let kind = store.text(&["type"]).unwrap_or_default();
    if let Some(node) = store.get(&["checkpoint"]).filter(|_| kind != "checkpoint") {
        let reason = format!("`checkpoint` does not go with `type: {}`", shown(kind));
        let help = "write it in a store of `type: checkpoint`, or `retention: { max_age: … }` here";
        report.invalid(&node.at, reason, help);
    }
    let search = ["search", "strategy"];
    if let Some(strategy @ ("hybrid" | "vector-only")) = store.text(&search)
        && store.get(&["embedding"]).is_none()
    {
        let reason = format!("`strategy: {strategy}` compares vectors, and this store makes none");
        let help = "add `embedding: { provider_ref: …, model: …, dimensions: … }` to the store, or write `fts-only`";
        report.invalid(store.place(&search), reason, help);
    }
    check_compaction(store, report);
}

/// A strategy that is switched off asks for nothing.
fn check_compaction(store: &Node, report: &mut Problems) {
    let strategy = ["compaction", "strategy"];
    if compacts(store) && store.text(&strategy) == Some("summarize") {
        let reason = "`strategy: summarize` is not served by this version";
        report.invalid(store.place(&strategy), reason, "write `truncate` or `sliding-window`");
    }
}

/// Says whether `text` leads to a file, and nowhere else whatever is filled in.
fn is_path(text: &str) -> bool {
    let plain = text.replace(IDENTITY, "x").replace(TENANT, "x");
    let path = Path::new(&plain);
    let stays = path.components().all(|part| !matches!(part, Component::ParentDir));
    stays
        && path.file_name().is_some()
        && !plain.ends_with('/')
        && !plain.contains(['{', '}', '*', '?', '\0'])
}

/// Checks what several documents say together.
pub(crate) fn check_all(primitives: &[Document], problems: &mut Problems) {
    check_names(primitives, problems);
    for (_, store) in stores(primitives) {
        let Some(node) = store.get(&["embedding", "provider_ref"]) else { continue };
        let name = node.as_text().and_then(|text| local_name(text, Kind::Provider));
        let mut all = primitives.iter().filter(|of| of.is(Kind::Provider));
        let Some(of) = all.find(|of| Some(&of.name) == name.as_ref()) else { continue };
        let protocol = of.spec.text(&["protocol"]).unwrap_or_default();
        if protocol != "openai-compatible" {
            let reason = format!("`protocol: {protocol}` of `{}` has no embeddings", of.name);
            let help = "name a provider of `protocol: openai-compatible`, or take `embedding` out";
            problems.invalid(&node.at, reason, help);
        }
    }
}

/// Says which names are taken: a caller finds a store by its name alone.
fn check_names(primitives: &[Document], problems: &mut Problems) {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for (_, store) in stores(primitives) {
        let Some(node) = store.get(&["name"]) else { continue };
        let at = node.at.to_string();
        if let Some(first) = seen.insert(node.as_text().unwrap_or_default(), at) {
            let name = shown(node.as_text().unwrap_or_default());
            let reason = format!("the store name `{name}` is taken: the first is of {first}");
            problems.invalid(&node.at, reason, "give each store a name of its own");
        }
    }
}
