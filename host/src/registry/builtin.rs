//! The components shipped inside the host.

use claw_guest_artifacts::{Artifact, BUILT_IN};
use clawhost_core::catalog::{Origin, Refused};

use super::Sources;
use super::offer::Offer;

/// The components shipped inside the host: names, bytes and digests.
pub const BUILT_IN_COMPONENTS: &[Artifact] = BUILT_IN;

/// What they offer, in order. These names are reserved even while a component cannot be
/// loaded: a file must not inherit what a manifest grants to a built-in tool.
pub(super) const BUILT_IN_TOOLS: [&str; 8] = [
    "edit_file",
    "exec_shell",
    "list_directory",
    "memory_read",
    "memory_write",
    "read_file",
    "web_fetch",
    "write_file",
];

/// Loads every built-in component that the manifest binds a tool of (all of them are
/// compiled once and cached). One that fails is refused; the others still load.
pub(super) async fn load(sources: &Sources) -> Vec<Result<Offer, Refused>> {
    let load = async |artifact: &Artifact| {
        let origin = Origin::BuiltIn { component: artifact.name };
        let bytes = artifact.bytes;
        let offer = Offer::load(&sources.engine, origin, || Ok(bytes.to_vec())).await;
        let source = format!("built-in component `{}`", artifact.name);
        offer.map_err(|error| Refused::new(&source, &error.to_string()))
    };
    futures_util::future::join_all(BUILT_IN_COMPONENTS.iter().map(load)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::Engine;

    #[tokio::test]
    async fn the_reserved_names_are_those_the_built_in_components_offer() {
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let mut offered = Vec::new();
        for artifact in BUILT_IN_COMPONENTS {
            let loaded = engine.load(artifact.bytes.to_vec()).await.unwrap();
            offered.extend(loaded.definitions.iter().map(|definition| definition.name.clone()));
        }
        offered.sort();
        assert_eq!(offered, BUILT_IN_TOOLS);
    }
}
