//! Binding: from what components offer and what documents say to one catalog.
//!
//! Order decides who keeps a name: built-in components first, then files in the order they
//! were first seen. A second offer of a name is refused, loudly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clawhost_core::catalog::{self, Catalog, Origin, Refused, Tool, ToolDefinition};
use clawhost_core::grants::Grants;
use clawhost_core::imports;
use clawhost_core::manifest::{Manifest, ToolBinding};
use clawhost_core::schema::Schema;

use super::builtin::Offer;
use super::drop_in::{DropIn, Status};
use super::{Runnable, Snapshot, Sources};
use crate::sandbox::Sandbox;

/// Makes snapshots; keeps opened sandboxes from one to the next.
#[derive(Debug)]
pub(super) struct Binder {
    pub(super) sources: Sources,
    built_in: Vec<Result<Offer, Refused>>,
    sandboxes: BTreeMap<String, Arc<Sandbox>>,
    /// What the catalog before this one refused: each refusal is said once.
    refused: Vec<Refused>,
    version: u64,
}

struct Draft {
    catalog: Catalog,
    runnables: BTreeMap<String, Runnable>,
    bound: BTreeSet<String>,
}

impl Binder {
    pub(super) fn new(sources: Sources, built_in: Vec<Result<Offer, Refused>>) -> Self {
        Self { sources, built_in, sandboxes: BTreeMap::new(), refused: Vec::new(), version: 0 }
    }

    /// Returns the catalog of the built-in components and `files`.
    pub(super) fn snapshot<'a>(
        &mut self,
        files: impl Iterator<Item = &'a DropIn> + Clone,
    ) -> Snapshot {
        self.version += 1;
        let mut draft = Draft {
            catalog: Catalog::new(self.version),
            runnables: BTreeMap::new(),
            bound: BTreeSet::new(),
        };
        let replaced = self.replaced(files.clone());
        for offer in self.built_in.clone() {
            match offer {
                Ok(offer) => self.bind_built_in(&mut draft, &offer, &replaced),
                Err(refused) => draft.catalog.refused.push(refused),
            }
        }
        for file in files {
            self.bind_file(&mut draft, file);
        }
        self.report_unbound(&mut draft);
        self.warn_of_new(&draft.catalog.refused);
        self.sandboxes.retain(|name, _| draft.runnables.contains_key(name));
        Snapshot { catalog: Arc::new(draft.catalog), runnables: draft.runnables }
    }

    /// Returns the built-in tools that a file in service replaces, as `clawhost.yaml` allows.
    fn replaced<'a>(&self, files: impl Iterator<Item = &'a DropIn>) -> BTreeSet<String> {
        let offered = files.filter_map(|file| match &file.status {
            Status::Ready { offer, .. } => Some(offer),
            _ => None,
        });
        offered
            .flat_map(|offer| {
                offer.loaded.definitions.iter().map(|definition| definition.name.clone())
            })
            .filter(|name| self.sources.replaceable.contains(name))
            .collect()
    }

    /// Built-in tools are served where the manifest lists them.
    fn bind_built_in(&mut self, draft: &mut Draft, offer: &Offer, replaced: &BTreeSet<String>) {
        let manifest = Arc::clone(&self.sources.manifest);
        for (index, definition) in offer.loaded.definitions.iter().enumerate() {
            let binding = find(&manifest, &definition.name);
            if binding.is_some() && !replaced.contains(&definition.name) {
                self.bind(draft, offer, index, binding);
            }
        }
    }

    /// Dropped-in tools are served by being there; without a document, under `none`.
    fn bind_file(&mut self, draft: &mut Draft, file: &DropIn) {
        match &file.status {
            Status::Loading => draft.catalog.loading.push(file.name.clone()),
            Status::Failed(reason) => draft.catalog.refused.push(Refused::new(&file.name, reason)),
            Status::Ready { offer, sidecars } => {
                let manifest = Arc::clone(&self.sources.manifest);
                for (index, definition) in offer.loaded.definitions.iter().enumerate() {
                    let ckp = catalog::ckp_name(&definition.name);
                    let sidecar = sidecars.iter().find(|binding| binding.name == ckp);
                    self.bind(
                        draft,
                        offer,
                        index,
                        sidecar.or_else(|| find(&manifest, &definition.name)),
                    );
                }
            }
        }
    }

    fn bind(
        &mut self,
        draft: &mut Draft,
        offer: &Offer,
        index: usize,
        binding: Option<&ToolBinding>,
    ) {
        let Some(definition) = offer.loaded.definitions.get(index) else { return };
        if let Some(binding) = binding {
            draft.bound.insert(binding.name.clone());
        }
        match self.tool(offer, index, definition, binding) {
            Ok((tool, sandbox)) => {
                let name = definition.name.clone();
                match draft.catalog.add(Arc::new(tool)) {
                    Ok(()) => drop(
                        draft
                            .runnables
                            .insert(name, Runnable { loaded: Arc::clone(&offer.loaded), sandbox }),
                    ),
                    Err(collision) => draft.refuse(&offer.origin, &collision.to_string()),
                }
            }
            Err(reason) => {
                draft.refuse(&offer.origin, &format!("tool `{}`: {reason}", definition.name))
            }
        }
    }

    fn tool(
        &mut self,
        offer: &Offer,
        index: usize,
        definition: &ToolDefinition,
        binding: Option<&ToolBinding>,
    ) -> Result<(Tool, Arc<Sandbox>), String> {
        let grants = self.grants(binding)?;
        imports::check(offer.loaded.imports.iter().map(String::as_str), &grants)
            .map_err(|reasons| reasons.join("; "))?;
        let (input, output) = offer.schemas.get(index).ok_or("it has no schemas")?;
        let mut input = vec![Arc::clone(input)];
        let mut output: Vec<_> = output.iter().map(Arc::clone).collect();
        if let Some(binding) = binding {
            // The component's schema and the document's both hold.
            input.extend(compile(binding.input_schema.as_ref())?);
            output.extend(compile(binding.output_schema.as_ref())?);
        }
        let sandbox = self.sandbox(&definition.name, &grants)?;
        let tool = Tool {
            definition: described(definition, binding),
            ckp_name: catalog::ckp_name(&definition.name),
            digest: offer.loaded.digest.clone(),
            origin: offer.origin.clone(),
            policy_ref: binding.and_then(|binding| binding.policy.clone()),
            category: binding.and_then(|binding| binding.category.clone()),
            declared: binding.map(|binding| binding.annotations.clone()).unwrap_or_default(),
            input,
            output,
            grants,
        };
        Ok((tool, sandbox))
    }

    fn grants(&self, binding: Option<&ToolBinding>) -> Result<Grants, String> {
        let name = binding.map_or("none", |binding| binding.sandbox.as_str());
        let profile = self
            .sources
            .manifest
            .profiles
            .get(name)
            .ok_or_else(|| format!("there is no sandbox profile `{name}`"))?;
        Ok(profile.grants(binding.and_then(|binding| binding.timeout)))
    }

    fn sandbox(&mut self, tool: &str, grants: &Grants) -> Result<Arc<Sandbox>, String> {
        if let Some(open) = self.sandboxes.get(tool).filter(|open| open.grants() == grants) {
            return Ok(Arc::clone(open));
        }
        let open = Sandbox::open(grants.clone(), self.sources.client.clone())
            .map_err(|e| e.to_string())?;
        let open = Arc::new(open);
        self.sandboxes.insert(tool.to_owned(), Arc::clone(&open));
        Ok(open)
    }

    fn warn_of_new(&mut self, refused: &[Refused]) {
        for refused in refused.iter().filter(|refused| !self.refused.contains(refused)) {
            tracing::warn!("refused: {}: {}", refused.source, refused.reason);
        }
        self.refused = refused.to_vec();
    }

    /// A document that binds a tool nobody offers is shown, so that a typing error is seen.
    fn report_unbound(&self, draft: &mut Draft) {
        // A file that is still loading may be the one that offers it.
        if !draft.catalog.loading.is_empty() {
            return;
        }
        for binding in &self.sources.manifest.tools {
            if !draft.bound.contains(&binding.name) {
                let reason = format!("no component offers a tool `{}`", binding.name);
                draft.catalog.refused.push(Refused::new(&binding.at, &reason));
            }
        }
    }
}

impl Draft {
    fn refuse(&mut self, origin: &Origin, reason: &str) {
        self.catalog.refused.push(Refused::new(&origin.to_string(), reason));
    }
}

fn find<'a>(manifest: &'a Manifest, name: &str) -> Option<&'a ToolBinding> {
    let ckp = catalog::ckp_name(name);
    manifest.tools.iter().find(|binding| binding.name == ckp)
}

fn compile(schema: Option<&serde_json::Value>) -> Result<Option<Arc<Schema>>, String> {
    schema.map(|schema| Schema::compile(schema).map(Arc::new)).transpose()
}

/// The operator's description, where the document has one, is what clients see.
fn described(definition: &ToolDefinition, binding: Option<&ToolBinding>) -> ToolDefinition {
    let mut definition = definition.clone();
    if let Some(text) = binding.and_then(|binding| binding.description.clone()) {
        definition.description = text;
    }
    definition
}
