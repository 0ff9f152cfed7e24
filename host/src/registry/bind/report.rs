//! What people are told of a catalog: what is refused, and what has no effect.

use std::collections::BTreeSet;

use clawhost_core::catalog::{Catalog, Refused, Tool};
use clawhost_core::manifest::{DocumentError, Governance};

use super::{Binder, CatalogDraft};
use crate::registry::{builtin, drop_in, package};

impl Binder {
    pub(super) fn warn_of_new(&mut self, catalog: &Catalog) {
        // A server that fails again, with other words, is known to.
        let is_known = |refused: &&Refused| {
            let same =
                |other: &Refused| (&other.source, &other.tool) == (&refused.source, &refused.tool);
            let is_server = refused.tool.is_none() && self.bridges.has(&refused.source);
            self.refused.contains(refused)
                || ((is_server || refused.is_upstream) && self.refused.iter().any(same))
        };
        let new = catalog.refused.iter().filter(|refused| !is_known(refused));
        Refused::lines(new).iter().for_each(|line| tracing::warn!("{line}"));
        for note in catalog.notes.iter().filter(|note| !self.last.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        // While files load, a refusal may be gone for the moment only.
        let mut known = if catalog.loading.is_empty() { Vec::new() } else { self.refused.clone() };
        known.retain(|refused| !catalog.refused.contains(refused));
        known.extend_from_slice(&catalog.refused);
        self.refused = known;
    }

    /// Lists what has no effect, so that a typing error is seen.
    pub(super) fn report(&self, draft: &mut CatalogDraft, strays: &BTreeSet<String>) {
        let refused = &mut draft.catalog.refused;
        refused.extend(self.built_in.iter().filter_map(|offer| offer.as_ref().err()).cloned());
        refused.extend(self.packaged.iter().filter_map(|one| one.as_ref().err()).cloned());
        refused.extend(strays.iter().map(|name| Refused::new(name, drop_in::STRAY)));
        // A file that is still loading may be the one that offers it.
        if draft.catalog.loading.is_empty() {
            self.report_unoffered(draft);
            self.report_idle(draft);
        }
    }

    /// Lists documents that bind a tool which nobody offers.
    fn report_unoffered(&self, draft: &mut CatalogDraft) {
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
                let refused = Refused::new(&binding.at, &reason).of(&binding.name);
                draft.catalog.refused.push(refused);
            }
        }
    }

    /// Lists rules that hold for no tool, and what of a tool holds for nothing.
    fn report_idle(&self, draft: &mut CatalogDraft) {
        let manifest = &self.sources.manifest;
        let served = draft.catalog.tools().map(|tool| tool.ckp_name.clone());
        let names = builtin::built_in_names().chain(served);
        let is_declared =
            |key: &str| draft.catalog.tools().any(|tool| tool.declared.contains_key(key));
        let may_come = |name: &str| draft.catalog.may_come(name);
        draft.notes.extend(manifest.stray_rules(names, may_come, is_declared));
        let tools = || draft.catalog.tools().map(AsRef::as_ref);
        draft.notes.extend(Governance::idle(tools()));
        draft.notes.extend(tools().filter_map(Tool::unrecorded));
        draft.notes.extend(tools().filter_map(Tool::claude_note));
        let find = |name: &str| draft.catalog.find(name);
        draft.notes.extend(manifest.governance.idle_steps(find));
        let served = tools().flat_map(Tool::names);
        // Why one that is not served is not was said.
        let own = self.own.iter().map(|own| own.offered.ckp_name.clone());
        let names = builtin::tool_names(manifest, served.chain(own));
        let strays = manifest.governance.strays(&names, |name| draft.catalog.may_come(name));
        let wrong = |one: DocumentError| Refused::wrong(&one.file.clone(), vec![one]);
        draft.catalog.refused.extend(strays.into_iter().map(wrong));
    }
}
