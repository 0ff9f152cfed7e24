//! Components that came with Tool documents of registries.
//!
//! Each is loaded like a built-in one, once, and serves the tool that its document describes and
//! no other. What it describes beside that tool is not served.

use clawhost_core::catalog::{Origin, Refused, ckp_name};
use clawhost_core::manifest::{Component, Fetched, ToolBinding};

use super::Sources;
use super::builtin::Offer;
use crate::engine::{LoadError, background};

/// A component, and the tool that it was fetched for.
#[derive(Debug, Clone)]
pub(super) struct Packaged {
    pub(super) offer: Offer,
    /// Where the tool stands among what the component describes.
    pub(super) index: usize,
    pub(super) binding: ToolBinding,
}

/// Says whether the tool's code came with its document: nothing else may then offer it.
pub(super) fn brings_code(fetched: &[Fetched], binding: &ToolBinding) -> bool {
    let is_its = |of: &&Fetched| Some(&of.uri) == binding.registry.as_ref();
    fetched.iter().find(is_its).is_some_and(|of| of.component.is_some())
}

/// Loads every component that came with a document. One that fails is refused; the others still
/// load.
pub(super) async fn load(sources: &Sources) -> Vec<Result<Packaged, Refused>> {
    let with_code = sources.manifest.fetched.iter().filter_map(|fetched| {
        let component = fetched.component.as_ref()?;
        let mut tools = sources.manifest.tools.iter();
        let binding = tools.find(|tool| tool.registry.as_ref() == Some(&fetched.uri))?;
        Some(load_one(sources, fetched, component, binding))
    });
    futures_util::future::join_all(with_code).await
}

async fn load_one(
    sources: &Sources,
    fetched: &Fetched,
    component: &Component,
    binding: &ToolBinding,
) -> Result<Packaged, Refused> {
    let refused = |reason: String| Refused::new(&fetched.uri.to_string(), &reason);
    let offer = load_offer(sources, fetched, component).await;
    let offer = offer.map_err(|error| refused(error.to_string()))?;
    let definitions = &offer.loaded.definitions;
    match definitions.iter().position(|tool| ckp_name(&tool.name) == binding.name) {
        Some(index) => Ok(Packaged { offer, index, binding: binding.clone() }),
        None => {
            let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
            let names = names.join(", ");
            Err(refused(format!("its component offers {names} and no tool `{}`", binding.name)))
        }
    }
}

async fn load_offer(
    sources: &Sources,
    fetched: &Fetched,
    component: &Component,
) -> Result<Offer, LoadError> {
    let turn = sources.engine.turn().await?;
    let bytes = std::sync::Arc::clone(&component.bytes);
    let (loaded, turn) = sources.engine.load_in(turn, move || Ok(bytes.to_vec())).await?;
    let origin = Origin::Registry { uri: fetched.uri.clone() };
    let (offer, _) = background(turn, move || Offer::new(origin, loaded)).await?;
    Ok(offer?)
}
