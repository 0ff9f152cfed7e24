//! The components shipped inside the host.

use std::sync::Arc;

use claw_guest_artifacts::{Artifact, BUILT_IN};
use clawhost_core::catalog::{Origin, Refused};
use clawhost_core::schema::Schema;

use super::Sources;
use crate::engine::{LoadError, Loaded, background};

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

/// One loaded component and the compiled schemas of its tools, in the order it describes
/// them: input, then output.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) origin: Origin,
    pub(super) loaded: Arc<Loaded>,
    pub(super) schemas: Vec<(Arc<Schema>, Option<Arc<Schema>>)>,
}

impl Offer {
    /// Compiles the schemas of everything `loaded` describes.
    pub(super) fn new(origin: Origin, loaded: Arc<Loaded>) -> Result<Self, String> {
        let mut schemas = Vec::new();
        for definition in &loaded.definitions {
            let compile = |schema| Schema::compile(schema).map(Arc::new);
            let name = &definition.name;
            let input = compile(&definition.input_schema)
                .map_err(|e| format!("the input schema of tool `{name}` is {e}"))?;
            let output = definition.output_schema.as_ref().map(compile).transpose();
            schemas.push((
                input,
                output.map_err(|e| format!("the output schema of tool `{name}` is {e}"))?,
            ));
        }
        Ok(Self { origin, loaded, schemas })
    }
}

/// Loads every built-in component that the manifest binds a tool of (all of them are
/// compiled once and cached). One that fails is refused; the others still load.
pub(super) async fn load(sources: &Sources) -> Vec<Result<Offer, Refused>> {
    let loads = BUILT_IN_COMPONENTS.iter().map(|artifact| load_one(sources, artifact));
    futures_util::future::join_all(loads).await
}

async fn load_one(sources: &Sources, artifact: &'static Artifact) -> Result<Offer, Refused> {
    let refused =
        |reason: String| Refused::new(&format!("built-in component `{}`", artifact.name), &reason);
    let offer = load_offer(sources, artifact).await;
    offer.map_err(|error| refused(error.to_string()))
}

async fn load_offer(sources: &Sources, artifact: &'static Artifact) -> Result<Offer, LoadError> {
    let turn = sources.engine.turn().await?;
    let (loaded, turn) = sources.engine.load_in(turn, || Ok(artifact.bytes.to_vec())).await?;
    let origin = Origin::BuiltIn { component: artifact.name };
    let (offer, _) = background(turn, move || Offer::new(origin, loaded)).await?;
    Ok(offer?)
}

#[cfg(test)]
mod tests {
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
