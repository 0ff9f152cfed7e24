//! Binding: from what components offer and what documents say to one catalog.
//!
//! Order decides who keeps a name, and files come after what the manifest and the program name; of
//! several files that have the same one [none does](claims). The names of built-in tools are reserved:
//! a file has one only where `clawhost.yaml` lets it replace the built-in tool. A second offer of a
//! name is refused, loudly.

mod bridged;
mod claims;
mod composite;
mod release;
mod report;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clawhost_core::catalog::{self, Catalog, Origin, Refused, Tool, ToolDefinition};
use clawhost_core::grants::Grants;
use clawhost_core::manifest::{Manifest, PROFILE_NONE, ToolBinding};

use super::bridge::Bridges;
use super::builtin;
use super::drop_in::{DropIn, Status};
use super::offer::{Offer, Offered};
use super::own::Own;
use super::package;
use super::releases::Served;
use super::shelf::{Runnable, Snapshot};
use super::{Shelf, Sources, ToolCode};
use crate::sandbox::{Backends, Sandbox};
pub(super) use claims::Claims;

/// Makes snapshots; keeps bound tools and their opened sandboxes from one to the next.
#[derive(Debug)]
pub(super) struct Binder {
    pub(super) sources: Sources,
    /// The MCP servers, which are another source beside the files.
    pub(super) bridges: Bridges,
    /// What comes with the program.
    pub(super) own: Vec<Own>,
    /// What is served of the registry; nothing while that is not known.
    released: Option<Arc<Served>>,
    built_in: Vec<Result<Offer, Refused>>,
    packaged: Vec<Result<Offer, Refused>>,
    bound: BTreeMap<Key, Bound>,
    /// Which names the files have.
    claims: Arc<Claims>,
    /// What earlier catalogs refused: each refusal is said once.
    refused: Vec<Refused>,
    last: Arc<Catalog>,
}

/// Who offers a tool, and its name: two that offer the same name do not mix.
type Key = (String, String);

/// A tool as it was bound, and what it was bound from.
#[derive(Debug, Clone)]
struct Bound {
    binding: Option<ToolBinding>,
    tool: Arc<Tool>,
    runnable: Runnable,
}

/// Who offers a tool, and what runs it.
struct Source<'a> {
    origin: &'a Origin,
    code: ToolCode,
}

#[derive(Default)]
struct CatalogDraft {
    catalog: Catalog,
    runnables: BTreeMap<String, Runnable>,
    /// The names that documents bind and somebody offers.
    offered: BTreeSet<String>,
    /// What is there and not served, for people.
    notes: Vec<String>,
    bound: BTreeMap<Key, Bound>,
    /// What was opened for this catalog, and for which grants: tools with the same ones share it.
    opened: Vec<(Grants, Arc<Sandbox>)>,
}

impl Binder {
    pub(super) fn new(
        sources: Sources,
        built_in: Vec<Result<Offer, Refused>>,
        packaged: Vec<Result<Offer, Refused>>,
    ) -> Self {
        let last = Arc::new(Catalog::default());
        let (bridges, bound, refused) = (Bridges::default(), BTreeMap::new(), Vec::new());
        let (own, released, claims) = (Vec::new(), None, Arc::default());
        Self { sources, bridges, own, released, built_in, packaged, bound, claims, refused, last }
    }

    /// Counts on from what is on `shelf`, under another manifest.
    pub(super) fn follow(&mut self, shelf: &Shelf) {
        let before = shelf.current.load();
        self.last = Arc::clone(&before.catalog);
        self.claims = Arc::clone(&before.claims);
    }

    /// Returns the catalog of the built-in components, the MCP servers and `files`. Its version is a new one
    /// where its tools are not those of the catalog before.
    pub(super) fn snapshot(&mut self, files: &[&DropIn], strays: &BTreeSet<String>) -> Snapshot {
        let mut draft =
            CatalogDraft { catalog: Catalog::new(self.last.version), ..CatalogDraft::default() };
        let files_offer = files.iter().map(|file| (file.name.as_str(), file.status.offer()));
        self.claims = Arc::new(self.claims.renewed(files_offer));
        self.bind_built_in(&mut draft, false);
        let plain = self.own.iter().filter(|own| own.as_composite().is_none());
        plain.for_each(|own| self.bind_own(&mut draft, own));
        for offer in self.packaged.iter().flatten() {
            self.bind_packaged(&mut draft, offer);
        }
        self.bind_released(&mut draft);
        // Before the files: what a server's tool is called is no file's to take.
        self.bind_bridges(&mut draft);
        for file in files {
            self.bind_file(&mut draft, file);
        }
        // A file that fails to replace a built-in tool does not take it away.
        self.bind_built_in(&mut draft, true);
        self.bind_composites(&mut draft);
        self.report(&mut draft, strays);
        draft.catalog.notes = std::mem::take(&mut draft.notes);
        self.warn_of_new(&draft.catalog);
        if self.last.version == 0 || !same_tools(&self.last, &draft.catalog) {
            draft.catalog.version += 1;
        }
        self.bound = draft.bound;
        self.last = Arc::new(draft.catalog);
        let (catalog, claims) = (Arc::clone(&self.last), Arc::clone(&self.claims));
        Snapshot { catalog, claims, runnables: draft.runnables }
    }

    /// Built-in tools are served where the manifest lists them. Those that may be replaced
    /// come after the files, and are served where no file was.
    fn bind_built_in(&self, draft: &mut CatalogDraft, replaceable: bool) {
        for offer in self.built_in.iter().flatten() {
            for tool in &offer.tools {
                let name = &tool.definition.name;
                let binding = self.listed(name).filter(|it| self.is_from(offer, name, it));
                if binding.is_some()
                    && self.sources.replaceable.contains(name) == replaceable
                    && !draft.runnables.contains_key(name)
                {
                    self.bind(draft, &offer.source(), tool, binding);
                }
            }
        }
    }

    /// The program's tools are served by being there. A document may say more of one, and
    /// cannot contain it.
    fn bind_own(&self, draft: &mut CatalogDraft, Own { origin, code, offered }: &Own) {
        let name = &offered.definition.name;
        let binding = self.listed(&offered.ckp_name);
        if self.is_built_in(name) {
            return draft.refuse_tool(origin, name, &reserved(name));
        }
        let source = Source { origin, code: code.clone() };
        self.bind(draft, &source, offered, binding);
    }

    /// Says whether a built-in tool is `offer`'s under the profile that it is bound to.
    fn is_from(&self, offer: &Offer, tool: &str, binding: &ToolBinding) -> bool {
        let Origin::BuiltIn { component } = offer.origin else { return false };
        builtin::serves(component, tool, self.sources.manifest.profile(&binding.sandbox))
    }

    /// A component of a registry serves the tool that it was fetched for.
    fn bind_packaged(&self, draft: &mut CatalogDraft, offer: &Offer) {
        for tool in &offer.tools {
            let name = &tool.definition.name;
            if self.is_built_in(name) {
                draft.refuse(&offer.origin, &reserved(name));
            } else {
                self.bind_signed(draft, offer, tool, find(&self.sources.manifest, name));
            }
        }
    }

    fn listed(&self, name: &str) -> Option<&ToolBinding> {
        listed(&self.sources.manifest, name)
    }

    /// Dropped-in tools are served by being there; without a document, under `none`.
    fn bind_file(&self, draft: &mut CatalogDraft, file: &DropIn) {
        if file.is_loading() {
            draft.catalog.loading.push(file.name.clone());
        }
        match &file.status {
            Status::Loading => {}
            Status::Failed(error) => {
                draft.catalog.refused.push(Refused::new(&file.name, &error.to_string()));
            }
            Status::Waiting { why, .. } => {
                draft.catalog.refused.push(Refused::new(&file.name, why));
            }
            Status::Wrong(problems) => {
                draft.catalog.refused.push(Refused::wrong(&file.name, problems.clone()));
            }
            Status::Ready { offer, sidecars } => {
                for tool in &offer.tools {
                    let name = &tool.definition.name;
                    if let Some(reason) = self.reserved(name) {
                        draft.refuse(&offer.origin, &reason);
                        continue;
                    }
                    let sidecar = sidecars.iter().find(|own| own.name == tool.ckp_name);
                    self.bind_claimed(draft, file, (offer, tool), sidecar);
                }
            }
        }
    }

    /// Says why no file may have a name, served or not.
    fn reserved(&self, name: &str) -> Option<String> {
        let Sources { manifest, replaceable, .. } = &self.sources;
        let ckp = catalog::ckp_name(name);
        let is_own = || self.own.iter().any(|own| own.offered.ckp_name == ckp);
        let of_program = || format!("tool `{name}`: the program that runs the host has it");
        taken(manifest, replaceable, name).or_else(|| is_own().then(of_program))
    }

    fn is_built_in(&self, name: &str) -> bool {
        is_built_in(&self.sources.replaceable, &catalog::ckp_name(name))
    }

    /// A component that is not built in needs a signature where the runtime file wants one, of
    /// all or of what runs under a profile.
    fn bind_signed(
        &self,
        draft: &mut CatalogDraft,
        offer: &Offer,
        tool: &Offered,
        binding: Option<&ToolBinding>,
    ) {
        let profile = binding.map_or(PROFILE_NONE, |binding| binding.sandbox.as_str());
        let wanted = self.sources.manifest.signature_wanted(profile);
        let Some(unmet) = wanted.into_iter().find(|(keys, _)| {
            !keys.is_empty() && !keys.iter().any(|key| offer.signed_by.contains(key))
        }) else {
            return self.bind(draft, &offer.source(), tool, binding);
        };
        draft.offered.extend(binding.map(|binding| binding.name.clone()));
        let name = &tool.definition.name;
        let reason = format!(
            "tool `{name}`: it carries no signature of a key that `{}` names: `minisign -S -m FILE` makes one beside the file",
            unmet.1
        );
        draft.refuse_tool(&offer.origin, name, &reason);
    }

    fn bind(
        &self,
        draft: &mut CatalogDraft,
        source: &Source<'_>,
        tool: &Offered,
        binding: Option<&ToolBinding>,
    ) {
        draft.offered.extend(binding.map(|binding| binding.name.clone()));
        match self.bound(draft, source, tool, binding) {
            Ok(bound) => draft.add(source, bound),
            Err(reason) => {
                let name = &tool.definition.name;
                draft.refuse_tool(source.origin, name, &format!("tool `{name}`: {reason}"));
            }
        }
    }

    /// Returns the tool as it was bound before where nothing about it has changed.
    fn bound(
        &self,
        draft: &mut CatalogDraft,
        source: &Source<'_>,
        offered: &Offered,
        binding: Option<&ToolBinding>,
    ) -> Result<Bound, String> {
        let before = self.bound.get(&key(source, &offered.definition));
        let same = |bound: &&Bound| {
            bound.runnable.code.is(&source.code) && bound.binding.as_ref() == binding
        };
        if let Some(bound) = before.filter(same) {
            return Ok(bound.clone());
        }
        let tool = self.tool(source, offered, binding)?;
        // What was asked for is compared: opening resolves paths.
        let open = before.filter(|bound| bound.tool.grants == tool.grants);
        let sandbox = match open {
            Some(bound) => Arc::clone(&bound.runnable.sandbox),
            None => draft.open(&tool.grants, &self.sources.backends)?,
        };
        let runnable = Runnable { code: source.code.clone(), sandbox };
        Ok(Bound { binding: binding.cloned(), tool: Arc::new(tool), runnable })
    }
}

impl Offer {
    fn source(&self) -> Source<'_> {
        Source { origin: &self.origin, code: ToolCode::Component(Arc::clone(&self.loaded)) }
    }
}

impl CatalogDraft {
    fn open(&mut self, grants: &Grants, backends: &Backends) -> Result<Arc<Sandbox>, String> {
        if let Some((_, opened)) = self.opened.iter().find(|(of, _)| of == grants) {
            return Ok(Arc::clone(opened));
        }
        let opened = Sandbox::open(grants.clone(), backends.clone());
        let opened = Arc::new(opened.map_err(|error| error.to_string())?);
        self.opened.push((grants.clone(), Arc::clone(&opened)));
        Ok(opened)
    }

    fn add(&mut self, source: &Source<'_>, bound: Bound) {
        match self.catalog.add(Arc::clone(&bound.tool)) {
            Ok(()) => {
                let name = bound.tool.definition.name.clone();
                self.runnables.insert(name, bound.runnable.clone());
            }
            Err(collision) => self.refuse(source.origin, &collision.to_string()),
        }
        // Kept where it lost the name, too: it is not opened anew for each catalog.
        self.bound.insert(key(source, &bound.tool.definition), bound);
    }

    fn refuse_tool(&mut self, origin: &Origin, name: &str, reason: &str) {
        let refused = Refused::new(&origin.to_string(), reason);
        self.catalog.refused.push(refused.of(name));
    }

    fn refuse(&mut self, origin: &Origin, reason: &str) {
        self.catalog.refused.push(Refused::new(&origin.to_string(), reason));
    }
}

fn key(source: &Source<'_>, definition: &ToolDefinition) -> Key {
    (source.origin.to_string(), definition.name.clone())
}

/// Says whether two catalogs serve the same: a tool is made anew only where it changed.
fn same_tools(a: &Catalog, b: &Catalog) -> bool {
    a.exposed == b.exposed
        && a.len() == b.len()
        && a.tools().zip(b.tools()).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn reserved(name: &str) -> String {
    format!(
        "tool `{name}`: the name is a built-in tool's; name it otherwise, or list the built-in \
         tool under `tools.replace_builtins` of clawhost.yaml"
    )
}

/// Says why no file may have a name, whoever runs the host: what the manifest grants under it is meant for a built-in
/// tool, for a composite, or for one whose code came with its document.
pub(super) fn taken(
    manifest: &Manifest,
    replaceable: &BTreeSet<String>,
    name: &str,
) -> Option<String> {
    let ckp = catalog::ckp_name(name);
    if is_built_in(replaceable, &ckp) {
        return Some(reserved(name));
    }
    let mut composites = manifest.governance.composites();
    if let Some(composite) = composites.find(|own| catalog::ckp_name(&own.name) == ckp) {
        return Some(format!("tool `{name}`: it is a composite of `{}`", composite.file));
    }
    let binding = find(manifest, name)?;
    if let Some(source) = &binding.mcp {
        return Some(format!("tool `{name}`: the manifest has it from `{}`", source.endpoint));
    }
    let uri = binding.registry.as_ref().filter(|_| listed(manifest, name).is_none())?;
    Some(format!("tool `{name}`: the manifest has it from `{uri}`, with its component"))
}

/// Says whether a name is a built-in tool's that nothing may replace. A document knows it by another
/// form than the runtime file.
fn is_built_in(replaceable: &BTreeSet<String>, ckp: &str) -> bool {
    !replaceable.iter().any(|other| catalog::ckp_name(other) == ckp)
        && builtin::built_in_names().any(|built_in| built_in == ckp)
}

/// Returns what the manifest says about a tool whose code does not come with its document.
pub(super) fn listed<'a>(manifest: &'a Manifest, name: &str) -> Option<&'a ToolBinding> {
    let local = |binding: &&ToolBinding| {
        binding.mcp.is_none() && !package::brings_code(&manifest.fetched, binding)
    };
    find(manifest, name).filter(local)
}

fn find<'a>(manifest: &'a Manifest, name: &str) -> Option<&'a ToolBinding> {
    let ckp = catalog::ckp_name(name);
    manifest.tools.iter().find(|binding| binding.name == ckp)
}

#[cfg(test)]
mod tests;
