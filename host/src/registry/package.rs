//! Components that came with Tool documents of registries.
//!
//! Each is loaded like a built-in one, once, and serves the tool that its document describes and
//! no other. What it describes beside that tool is not served.

use std::sync::Arc;

use clawhost_core::catalog::{Origin, Refused};
use clawhost_core::manifest::{Component, Fetched, ToolBinding};

use super::Sources;
use super::offer::{Offer, signed_by};
use crate::engine::Source;

/// Says whether the tool's code came with its document: nothing else may then offer it.
pub(super) fn brings_code(fetched: &[Fetched], binding: &ToolBinding) -> bool {
    let is_its = |of: &&Fetched| Some(&of.uri) == binding.registry.as_ref();
    fetched.iter().find(is_its).is_some_and(|of| of.component.is_some())
}

/// Loads every component that came with a document. One that fails is refused; the others still
/// load.
pub(super) async fn load(sources: &Sources) -> Vec<Result<Offer, Refused>> {
    let with_code = sources.manifest.fetched.iter().filter_map(|fetched| {
        let component = fetched.component.as_ref()?;
        let mut tools = sources.manifest.tools.iter();
        let binding = tools.find(|tool| tool.registry.as_ref() == Some(&fetched.uri))?;
        Some(async {
            let offer = load_one(sources, fetched, component, &binding.name).await;
            offer.map_err(|reason| Refused::new(&fetched.uri.to_string(), &reason))
        })
    });
    futures_util::future::join_all(with_code).await
}

/// Returns an offer of the tool with this CKP name alone.
async fn load_one(
    sources: &Sources,
    fetched: &Fetched,
    component: &Component,
    name: &str,
) -> Result<Offer, String> {
    let origin = Origin::Registry { uri: fetched.uri.clone() };
    let bytes = Arc::clone(&component.bytes);
    let source = Source::new(move || Ok(bytes.to_vec().into())).known(&component.digest);
    let offer = Offer::load(&sources.engine, origin, source).await;
    let mut offer = offer.map_err(|error| error.to_string())?;
    let text = component.signature.as_deref().unwrap_or_default();
    offer.signed_by = signed_by(&sources.manifest, &component.bytes, text);
    offer.tools.retain(|tool| tool.ckp_name == name);
    // Two names that become the same one do not both have it.
    offer.tools.truncate(1);
    if offer.tools.is_empty() {
        let all: Vec<&str> = offer.loaded.definitions.iter().map(|tool| &*tool.name).collect();
        let all = all.join(", ");
        return Err(format!("its component offers {all} and no tool `{name}`"));
    }
    Ok(offer)
}
