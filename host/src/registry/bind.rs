//! Binding: from what components offer and what documents say to one catalog.
//!
//! Order decides who keeps a name: files in the order they were first seen. The names of
//! built-in tools are reserved: a file has one only where `clawhost.yaml` lets it replace the
//! built-in tool. A second offer of a name is refused, loudly.

mod bridged;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::{self, Annotations, Catalog, Origin, Refused, Tool, ToolDefinition};
use clawhost_core::descriptor::Granted;
use clawhost_core::egress::{endpoint, parse_url};
use clawhost_core::grants::Grants;
use clawhost_core::imports;
use clawhost_core::manifest::{Manifest, PROFILE_NONE, ToolBinding};
use clawhost_core::policy::PathNames;
use clawhost_core::retry::RetryPlan;
use clawhost_core::schema::Schema;

use super::bridge::Bridges;
use super::builtin;
use super::drop_in::{self, DropIn, Status};
use super::offer::{Offer, Offered};
use super::own::Own;
use super::package;
use super::releases::Served;
use super::{Code, Runnable, Snapshot, Sources};
use crate::sandbox::Sandbox;

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
    code: Code,
}

struct Draft {
    catalog: Catalog,
    runnables: BTreeMap<String, Runnable>,
    /// The names that documents bind and somebody offers.
    offered: BTreeSet<String>,
    /// What is there and not served, for people.
    notes: Vec<String>,
    bound: BTreeMap<Key, Bound>,
}

impl Binder {
    pub(super) fn new(
        sources: Sources,
        built_in: Vec<Result<Offer, Refused>>,
        packaged: Vec<Result<Offer, Refused>>,
    ) -> Self {
        let last = Arc::new(Catalog::default());
        let (bridges, bound, refused) = (Bridges::default(), BTreeMap::new(), Vec::new());
        let (own, released) = (Vec::new(), None);
        Self { sources, bridges, own, released, built_in, packaged, bound, refused, last }
    }

    /// Counts on from `last`, the catalog of another manifest.
    pub(super) fn follow(&mut self, last: Arc<Catalog>) {
        self.last = last;
    }

    /// Serves this of the registry from the next catalog on.
    pub(super) fn take_released(&mut self, released: Option<Arc<Served>>) {
        // What a version says of a tool may differ where its component does not.
        let origin = Origin::Release.to_string();
        self.bound.retain(|(of, _), _| *of != origin);
        self.released = released;
    }

    /// Returns the catalog of the built-in components, the MCP servers and `files`. Its version is a new one
    /// where its tools are not those of the catalog before.
    pub(super) fn snapshot(&mut self, files: &[&DropIn], strays: &BTreeSet<String>) -> Snapshot {
        let mut draft = Draft {
            catalog: Catalog::new(self.last.version),
            runnables: BTreeMap::new(),
            offered: BTreeSet::new(),
            notes: Vec::new(),
            bound: BTreeMap::new(),
        };
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
        Snapshot { catalog: Arc::clone(&self.last), runnables: draft.runnables }
    }

    /// Built-in tools are served where the manifest lists them. Those that may be replaced
    /// come after the files, and are served where no file was.
    fn bind_built_in(&self, draft: &mut Draft, replaceable: bool) {
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
    fn bind_own(&self, draft: &mut Draft, Own { origin, code, offered }: &Own) {
        let name = &offered.definition.name;
        let binding = self.listed(&offered.ckp_name);
        if self.is_built_in(name) {
            return draft.refuse_tool(origin, name, &reserved(name));
        }
        let source = Source { origin, code: code.clone() };
        self.bind(draft, &source, offered, binding);
    }

    /// Composites come last, each after all that it calls. One whose tools are not there is not served.
    fn bind_composites(&self, draft: &mut Draft) {
        let released = self.released.iter().flat_map(|released| &released.composites);
        let own =
            self.own.iter().chain(released).filter_map(|own| Some((own, own.as_composite()?)));
        let (mut left, mut before): (Vec<_>, _) = (own.collect(), usize::MAX);
        while left.len() < before {
            before = left.len();
            left.retain(|(own, composite)| {
                let waits = composite.missing(|tool| draft.catalog.find(tool).is_some()).is_some();
                if !waits {
                    self.bind_own(draft, own);
                }
                waits
            });
        }
        for (own, composite) in left {
            let is_there = |tool: &str| {
                draft.catalog.find(tool).is_some()
                    || !draft.catalog.loading.is_empty()
                    || draft.catalog.may_come(&catalog::ckp_name(tool))
            };
            let missing = composite.missing(is_there).into_iter();
            let refused = missing.map(|one| Refused::wrong(&one.file.clone(), vec![one]));
            draft.catalog.refused.extend(refused.map(|one| one.of(&own.offered.definition.name)));
            draft.offered.insert(own.offered.ckp_name.clone());
        }
    }

    /// Says whether a built-in tool is `offer`'s under the profile that it is bound to.
    fn is_from(&self, offer: &Offer, tool: &str, binding: &ToolBinding) -> bool {
        let Origin::BuiltIn { component } = offer.origin else { return false };
        builtin::serves(component, tool, self.sources.manifest.profile(&binding.sandbox))
    }

    /// A component of a registry serves the tool that it was fetched for.
    fn bind_packaged(&self, draft: &mut Draft, offer: &Offer) {
        for tool in &offer.tools {
            let name = &tool.definition.name;
            if self.is_built_in(name) {
                draft.refuse(&offer.origin, &reserved(name));
            } else {
                self.bind_signed(draft, offer, tool, find(&self.sources.manifest, name));
            }
        }
    }

    /// A tool of the registry runs under the profile and the policy that the manifest binds it to, and
    /// under `none` where it binds it to none.
    fn bind_released(&self, draft: &mut Draft) {
        let Some(released) = self.released.as_deref() else {
            let awaited = self.sources.releases.as_ref().map(|_| Origin::Release.to_string());
            return draft.catalog.loading.extend(awaited);
        };
        draft.catalog.release = released.version;
        draft.catalog.refused.extend(released.refused.clone());
        draft
            .catalog
            .refused
            .extend(released.tools.iter().filter_map(|tool| tool.as_ref().err()).cloned());
        for offer in released.tools.iter().flatten() {
            for tool in &offer.tools {
                let name = &tool.definition.name;
                match self.reserved(name) {
                    Some(reason) => draft.refuse(&offer.origin, &reason),
                    None => self.bind_signed(draft, offer, tool, self.listed(name)),
                }
            }
        }
    }

    /// Returns what the manifest says about a tool whose code does not come with its document.
    fn listed(&self, name: &str) -> Option<&ToolBinding> {
        let manifest = &self.sources.manifest;
        let local = |binding: &&ToolBinding| {
            binding.mcp.is_none() && !package::brings_code(&manifest.fetched, binding)
        };
        find(manifest, name).filter(local)
    }

    /// Dropped-in tools are served by being there; without a document, under `none`.
    fn bind_file(&self, draft: &mut Draft, file: &DropIn) {
        if file.is_loading() {
            draft.catalog.loading.push(file.name.clone());
        }
        match &file.status {
            Status::Loading => {}
            Status::Failed(error) => {
                draft.catalog.refused.push(Refused::new(&file.name, &error.to_string()));
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
                    let ckp = catalog::ckp_name(name);
                    let sidecar = sidecars.iter().find(|binding| binding.name == ckp);
                    let binding = sidecar.or_else(|| self.listed(name));
                    self.bind_signed(draft, offer, tool, binding);
                }
            }
        }
    }

    /// Says why no file may have a name, served or not: what the manifest grants under it is
    /// meant for a built-in tool, or for one whose code came with its document.
    fn reserved(&self, name: &str) -> Option<String> {
        if self.is_built_in(name) {
            return Some(reserved(name));
        }
        let ckp = catalog::ckp_name(name);
        if let Some(own) = self.own.iter().find(|own| own.offered.ckp_name == ckp) {
            let whose = match own.as_composite() {
                Some(composite) => format!("it is a composite of `{}`", composite.file),
                None => "the program that runs the host has it".to_owned(),
            };
            return Some(format!("tool `{name}`: {whose}"));
        }
        let binding = find(&self.sources.manifest, name)?;
        if let Some(source) = &binding.mcp {
            return Some(format!("tool `{name}`: the manifest has it from `{}`", source.endpoint));
        }
        let uri = binding.registry.as_ref().filter(|_| self.listed(name).is_none())?;
        Some(format!("tool `{name}`: the manifest has it from `{uri}`, with its component"))
    }

    /// Says whether a name is a built-in tool's that nothing may replace.
    fn is_built_in(&self, name: &str) -> bool {
        let ckp = catalog::ckp_name(name);
        !self.sources.replaceable.contains(name)
            && builtin::built_in_names().any(|built_in| built_in.eq_ignore_ascii_case(&ckp))
    }

    /// A component that is not built in needs a signature where the runtime file wants one, of
    /// all or of what runs under a profile.
    fn bind_signed(
        &self,
        draft: &mut Draft,
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
        draft: &mut Draft,
        source: &Source<'_>,
        tool: &Offered,
        binding: Option<&ToolBinding>,
    ) {
        draft.offered.extend(binding.map(|binding| binding.name.clone()));
        match self.bound(source, tool, binding) {
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
            None => {
                let opened = Sandbox::open(tool.grants.clone(), self.sources.backends.clone());
                Arc::new(opened.map_err(|error| error.to_string())?)
            }
        };
        let runnable = Runnable { code: source.code.clone(), sandbox };
        Ok(Bound { binding: binding.cloned(), tool: Arc::new(tool), runnable })
    }

    fn tool(
        &self,
        Source { origin, code }: &Source<'_>,
        offered: &Offered,
        binding: Option<&ToolBinding>,
    ) -> Result<Tool, String> {
        let Offered { definition, ckp_name, input, output, beside, governed } = offered;
        let documents = || beside.iter().chain(binding);
        let timeout = documents().filter_map(|document| document.timeout).min();
        let mut grants = self.grants(origin, binding, timeout)?;
        if matches!(origin, Origin::BuiltIn { .. }) {
            self.sources.manifest.web.apply(&definition.name, &mut grants);
        }
        if let Some(granted) = code.managed() {
            grants.network = endpoint(&granted.tool.base_url).ok();
        }
        imports::check(code.imports(), &grants).map_err(|reasons| reasons.join("; "))?;
        let mut input = vec![Arc::clone(input)];
        let mut output: Vec<_> = output.iter().map(Arc::clone).collect();
        for document in documents() {
            // The component's schema and the documents' all hold.
            input.extend(self.compile(document.input_schema.as_ref())?);
            output.extend(self.compile(document.output_schema.as_ref())?);
        }
        let described = described(offered, binding);
        let policies = [binding.and_then(|binding| binding.policy.as_ref()), code.policy()];
        let policies = policies.into_iter();
        let mut tool = Tool {
            declared: declared(origin, described.annotations, binding),
            definition: described,
            ckp_name: ckp_name.clone(),
            digest: code.digest().into_owned(),
            origin: (*origin).clone(),
            asks: builtin::always_asks(origin)
                || binding.and_then(|of| of.skill.as_ref()).is_some_and(|skill| skill.asks),
            policy_refs: policies.flatten().cloned().collect(),
            category: binding.and_then(|binding| binding.category.clone()),
            // What a composite has done is not done again: its steps are tried again, each by itself.
            retry: binding
                .filter(|_| !matches!(code, Code::Composite(_)))
                .map_or(RetryPlan::ONCE, ToolBinding::retry_plan),
            governed: governed.clone(),
            // What a server has beside tools is served where its entry says so.
            surfaced: !matches!(code, Code::Bridged(one) if one.kind.is_some())
                && self.is_surfaced(origin, binding),
            managed: self.managed(origin, code),
            paths: path_names(definition, documents()),
            input,
            output,
            grants,
        };
        self.keep_to_policy(&mut tool, code)?;
        Ok(tool)
    }

    /// Returns what a tool is as a service's: one that the host asks itself, or one of an MCP server.
    fn managed(&self, origin: &Origin, code: &Code) -> Option<Arc<Granted>> {
        let Origin::Bridged { server, tool } = origin else { return code.managed().cloned() };
        self.sources.manifest.managed(server, tool).cloned().map(Arc::new)
    }

    /// Says whether a server's tool is served for nothing but some agent's skills.
    fn is_surfaced(&self, origin: &Origin, binding: Option<&ToolBinding>) -> bool {
        let Origin::Bridged { server, tool } = origin else { return false };
        if self.sources.manifest.managed(server, tool).is_some() {
            return false;
        }
        let mut servers = self.sources.manifest.mcp_servers.iter();
        servers.any(|one| one.name == *server && one.internal_only)
            && binding.is_none_or(|binding| binding.mcp.is_none())
    }

    /// Takes out of a tool's grants what the network policy of its definition does not have.
    fn keep_to_policy(&self, tool: &mut Tool, code: &Code) -> Result<(), String> {
        let own = self.sources.manifest.governance.of(tool).and_then(|own| own.network.clone());
        let Some(policy) = own else { return Ok(()) };
        policy.narrow(&mut tool.grants);
        let server = code.server_url().map(parse_url).transpose();
        let checked = server.and_then(|url| url.map_or(Ok(()), |url| policy.check(&url)));
        checked
            .map_err(|_| "its `network_policy` does not allow its MCP server's address".to_owned())
    }

    fn compile(&self, schema: Option<&serde_json::Value>) -> Result<Option<Arc<Schema>>, String> {
        schema.map(|schema| self.sources.engine.schemas().get(schema)).transpose()
    }

    fn grants(
        &self,
        origin: &Origin,
        binding: Option<&ToolBinding>,
        timeout: Option<Duration>,
    ) -> Result<Grants, String> {
        let name = binding.map_or(PROFILE_NONE, |binding| binding.sandbox.as_str());
        let profile = self
            .sources
            .manifest
            .profiles
            .get(name)
            .ok_or_else(|| format!("there is no sandbox profile `{name}`"))?;
        let grants = profile.grants(timeout);
        match origin {
            Origin::Native { .. } if name != PROFILE_NONE => Err(format!(
                "it is native, so the sandbox `{name}` would contain nothing: write `{PROFILE_NONE}`"
            )),
            Origin::Native { .. } => Ok(Grants::native(grants.limits)),
            Origin::Bridged { .. } if !profile.signed_by.is_empty() => Err(format!(
                "it is an MCP server's, which carries no signature, and `profiles.{name}.signed_by` wants one"
            )),
            _ => Ok(grants),
        }
    }

    fn warn_of_new(&mut self, catalog: &Catalog) {
        // A server that fails again, with other words, is known to.
        let is_known = |refused: &&Refused| {
            let same = |other: &Refused| other.source == refused.source && other.tool.is_none();
            self.refused.contains(refused)
                || (refused.tool.is_none()
                    && self.bridges.has(&refused.source)
                    && self.refused.iter().any(same))
        };
        for refused in catalog.refused.iter().filter(|refused| !is_known(refused)) {
            tracing::warn!("refused: {}: {}", refused.source, refused.reason);
        }
        for note in catalog.notes.iter().filter(|note| !self.last.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        // While files load, a refusal may be gone for the moment only.
        let mut known = if catalog.loading.is_empty() { Vec::new() } else { self.refused.clone() };
        known.retain(|refused| !catalog.refused.contains(refused));
        known.extend_from_slice(&catalog.refused);
        self.refused = known;
    }

    /// Lists what has no effect, so that a typing error is seen: built-in components that
    /// failed, documents without a component, those that bind a tool nobody offers, and rules
    /// for one.
    fn report(&self, draft: &mut Draft, strays: &BTreeSet<String>) {
        let refused = &mut draft.catalog.refused;
        refused.extend(self.built_in.iter().filter_map(|offer| offer.as_ref().err()).cloned());
        refused.extend(self.packaged.iter().filter_map(|one| one.as_ref().err()).cloned());
        refused.extend(strays.iter().map(|name| Refused::new(name, drop_in::stray())));
        // A file that is still loading may be the one that offers it.
        if !draft.catalog.loading.is_empty() {
            return;
        }
        let manifest = &self.sources.manifest;
        for binding in &manifest.tools {
            // Why the code that came with a document is not served was said.
            let is_told = package::brings_code(&manifest.fetched, binding);
            if !is_told && !draft.offered.contains(&binding.name) {
                let nobody = || match &binding.skill {
                    Some(skill) => format!(
                        "the skill `{}` does not say in which order its tools are called: write `tools.{}.composite` in a definition file",
                        skill.name, binding.name
                    ),
                    None => format!("no component offers a tool `{}`", binding.name),
                };
                let reason = builtin::missing(&binding.name).unwrap_or_else(nobody);
                refused.push(Refused::new(&binding.at, &reason).of(&binding.name));
            }
        }
        let served = draft.catalog.tools().map(|tool| tool.ckp_name.clone());
        let names = builtin::built_in_names().chain(served);
        let is_declared =
            |key: &str| draft.catalog.tools().any(|tool| tool.declared.contains_key(key));
        draft.notes.extend(manifest.stray_rules(names, is_declared));
        let tools = || draft.catalog.tools().map(AsRef::as_ref);
        draft.notes.extend(manifest.governance.idle(tools()));
        let find = |name: &str| draft.catalog.find(name);
        draft.notes.extend(manifest.governance.idle_steps(find));
        let served = tools().flat_map(Tool::names);
        // Why a composite is not served was said.
        let own = self.own.iter().map(|own| own.offered.ckp_name.clone());
        let names: Vec<String> = builtin::built_in_names().chain(served).chain(own).collect();
        let known = |name: &str| names.iter().any(|of| of == name) || draft.catalog.may_come(name);
        let strays = manifest.governance.strays(known, &names, false).into_iter();
        let strays: Vec<_> =
            strays.map(|one| Refused::wrong(&one.file.clone(), vec![one])).collect();
        draft.catalog.refused.extend(strays);
    }
}

impl Offer {
    fn source(&self) -> Source<'_> {
        Source { origin: &self.origin, code: Code::Component(Arc::clone(&self.loaded)) }
    }
}

impl Draft {
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

fn find<'a>(manifest: &'a Manifest, name: &str) -> Option<&'a ToolBinding> {
    let ckp = catalog::ckp_name(name);
    manifest.tools.iter().find(|binding| binding.name == ckp)
}

/// The component's schema and those of documents all say which arguments are paths.
fn path_names<'a>(
    definition: &'a ToolDefinition,
    documents: impl Iterator<Item = &'a ToolBinding>,
) -> PathNames {
    let documents = documents.filter_map(|document| document.input_schema.as_ref());
    PathNames::of(documents.chain([&definition.input_schema]))
}

/// The operator's description, where the document has one, is what clients see.
fn described(offered: &Offered, binding: Option<&ToolBinding>) -> ToolDefinition {
    let (mut definition, beside) = (offered.definition.clone(), offered.beside.as_ref());
    let documents = binding.into_iter().chain(beside);
    if let Some(text) = documents.clone().find_map(|document| document.description.clone()) {
        definition.description = text;
    }
    for document in beside.into_iter().chain(binding.filter(|own| own.registry.is_some())) {
        definition.annotations = careful(definition.annotations, &document.annotations);
    }
    definition
}

/// Returns the hints that rules may trust: the word of the host, and of the program it is part of, about
/// their own tools, and over it the operator's.
fn declared(
    origin: &Origin,
    own: Annotations,
    binding: Option<&ToolBinding>,
) -> serde_json::Map<String, serde_json::Value> {
    let is_own = matches!(origin, Origin::BuiltIn { .. } | Origin::Native { .. } | Origin::Own);
    let hint = |key: &str| Some((key.to_owned(), own.hint(key).filter(|_| is_own)?.into()));
    let hints = Annotations::KEYS.into_iter().filter_map(hint);
    hints.chain(binding.map(ToolBinding::declared).unwrap_or_default()).collect()
}

/// Joins two untrusted descriptions: of each hint the one that asks for more care.
fn careful(own: Annotations, other: &serde_json::Map<String, serde_json::Value>) -> Annotations {
    let join = |own: Option<bool>, key: &str, careful: bool| {
        let other = other.get(key).and_then(serde_json::Value::as_bool);
        own.into_iter().chain(other).find(|hint| *hint == careful).or(own).or(other)
    };
    Annotations {
        read_only: join(own.read_only, "readOnlyHint", false),
        destructive: join(own.destructive, "destructiveHint", true),
        idempotent: join(own.idempotent, "idempotentHint", false),
        open_world: join(own.open_world, "openWorldHint", true),
    }
}

#[cfg(test)]
mod tests;
