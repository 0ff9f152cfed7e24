//! The components shipped inside the host.

use std::sync::Arc;

use claw_guest_artifacts::{Artifact, BUILT_IN};
use clawhost_core::catalog::{Origin, Refused};
use clawhost_core::schema::Schema;

use super::Sources;
use crate::engine::Loaded;

/// The components shipped inside the host: names, bytes and digests.
pub const BUILT_IN_COMPONENTS: &[Artifact] = BUILT_IN;

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
    let loaded =
        sources.engine.load(artifact.bytes.to_vec()).await.map_err(|e| refused(e.to_string()))?;
    Offer::new(Origin::BuiltIn { component: artifact.name }, loaded).map_err(refused)
}
