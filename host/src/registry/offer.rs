//! What one component offers, ready to be bound.

use std::sync::Arc;

use clawhost_core::bridged;
use clawhost_core::catalog::{Origin, ToolDefinition, ckp_name};
use clawhost_core::manifest::{Definition, Manifest, ToolBinding};
use clawhost_core::package::{VerifyingKey, signers};
use clawhost_core::schema::Schema;
use clawhost_core::visible;
use serde_json::Value;

use super::drop_in;
use crate::engine::{Engine, LoadError, Loaded, Schemas, Source, Turn, background};

/// One loaded component, and the tools that it is to serve.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) origin: Origin,
    pub(super) loaded: Arc<Loaded>,
    pub(super) tools: Vec<Offered>,
    /// Whose signature it carries, of the keys that the runtime file names.
    pub(super) signed_by: Vec<VerifyingKey>,
    /// The lock file says what it has to be.
    pub(super) is_pulled: bool,
}

/// A tool as its component describes it, with its schemas compiled.
#[derive(Debug, Clone)]
pub(super) struct Offered {
    pub(super) definition: ToolDefinition,
    /// Its name in documents and policies.
    pub(super) ckp_name: String,
    pub(super) input: Arc<Schema>,
    pub(super) output: Option<Arc<Schema>>,
    /// The document that came with it, where it is of a version of the registry.
    pub(super) beside: Option<ToolBinding>,
    /// What that version says of it.
    pub(super) governed: Option<Arc<Definition>>,
}

impl Offer {
    /// Loads the component of a source, and all that it describes.
    pub(super) async fn load(
        engine: &Arc<Engine>,
        origin: Origin,
        source: Source,
    ) -> Result<Self, LoadError> {
        match engine.listed(source) {
            Ok(loaded) => Ok(Self::new(origin, loaded, engine.schemas())?),
            Err(source) => Self::load_in(engine, engine.turn().await?, origin, source).await,
        }
    }

    /// As [`Offer::load`], in a turn that has begun.
    pub(super) async fn load_in(
        engine: &Arc<Engine>,
        turn: Turn,
        origin: Origin,
        source: Source,
    ) -> Result<Self, LoadError> {
        let (loaded, turn) = engine.load_in(turn, source).await?;
        if loaded.is_listed() {
            return Ok(Self::new(origin, loaded, engine.schemas())?);
        }
        let engine = Arc::clone(engine);
        let new = move || Self::new(origin, loaded, engine.schemas());
        let (offer, _) = background(turn, new).await?;
        Ok(offer?)
    }

    /// Compiles the schemas of everything that `loaded` describes, or will where they were compiled before.
    pub(super) fn new(
        origin: Origin,
        loaded: Arc<Loaded>,
        schemas: &Schemas,
    ) -> Result<Self, String> {
        for why in &loaded.left_out {
            tracing::warn!("{origin}: {}", visible::line(why));
        }
        let definitions = loaded.definitions_as(stem(&origin));
        let made = |schema: &Value| match loaded.is_listed() {
            true => schemas.known(schema),
            false => schemas.get(schema),
        };
        let tools = definitions.iter().map(|definition| Offered::made(definition, made));
        let tools = tools.collect::<Result<_, _>>()?;
        Ok(Self { origin, loaded, tools, signed_by: Vec::new(), is_pulled: false })
    }
}

/// Returns whose signature of `bytes` a text holds, of the keys that the runtime file names.
pub(super) fn signed_by(manifest: &Manifest, bytes: &[u8], text: &str) -> Vec<VerifyingKey> {
    signers(&manifest.signing_keys(), bytes, text).into_iter().cloned().collect()
}

/// Returns the name of a component's file or address, which a program's tool takes.
fn stem(origin: &Origin) -> &str {
    match origin {
        Origin::DropIn { file } => drop_in::stem(file).unwrap_or(file),
        Origin::Registry { uri } => &uri.name,
        Origin::BuiltIn { component } => component,
        Origin::Bridged { server, .. } => server,
        Origin::Native { provider } => provider,
        Origin::Service { service } => service,
        Origin::Composite { .. } | Origin::Own | Origin::Release => "",
    }
}

impl Offered {
    /// Cleans and checks what is said of one tool, and compiles its schemas: each once, as long as
    /// somebody uses it.
    pub(super) fn new(definition: &ToolDefinition, schemas: &Schemas) -> Result<Self, String> {
        Self::made(definition, |schema| schemas.get(schema))
    }

    fn made(
        definition: &ToolDefinition,
        schemas: impl Fn(&Value) -> Result<Arc<Schema>, String>,
    ) -> Result<Self, String> {
        // A name that a file or a server gave is checked here first.
        let definition = bridged::cleaned(definition, &definition.name)?;
        let name = &definition.name;
        let compile = |what, schema| {
            let compiled = schemas(schema);
            compiled.map_err(|error| {
                format!("the {what} schema of tool `{name}` cannot be used: {error}")
            })
        };
        let input = compile("input", &definition.input_schema)?;
        let output = definition.output_schema.as_ref();
        let output = output.map(|schema| compile("output", schema)).transpose()?;
        let (beside, governed) = (None, None);
        Ok(Self { ckp_name: ckp_name(name), definition, input, output, beside, governed })
    }
}
