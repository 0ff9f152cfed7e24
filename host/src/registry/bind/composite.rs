//! Binding composites: which of them are served, of the files and of the registry.

use std::sync::Arc;

use clawhost_core::catalog::{Refused, ckp_name};
use clawhost_core::composite::{Called, Composite};
use clawhost_core::manifest::DocumentError;

use super::{Binder, CatalogDraft};
use crate::registry::{Own, ToolCode};

impl Binder {
    /// Composites come last, each after all that it calls: no ring gets in. One whose tools are not there is
    /// not served.
    pub(super) fn bind_composites(&self, draft: &mut CatalogDraft) {
        let released = self.released.iter().flat_map(|released| &released.composites);
        let released = released.filter(|own| self.is_free(draft, own));
        let own =
            self.own.iter().chain(released).filter_map(|own| Some((own, own.as_composite()?)));
        let (mut left, mut before): (Vec<_>, _) = (own.collect(), usize::MAX);
        while left.len() < before {
            before = left.len();
            left.retain(|(own, composite)| {
                let waits = composite.missing(|tool| draft.catalog.find(tool).is_some()).is_some();
                if !waits {
                    self.bind_composite(draft, own, composite);
                }
                waits
            });
        }
        for (own, composite) in left {
            let is_there = |tool: &str| {
                draft.catalog.find(tool).is_some()
                    || !draft.catalog.loading.is_empty()
                    || draft.catalog.may_come(&ckp_name(tool))
            };
            let missing = composite.missing(is_there);
            draft.refuse_composite(own, missing);
        }
    }

    /// Says whether the name of one of the registry is nobody else's; refuses it otherwise.
    fn is_free(&self, draft: &mut CatalogDraft, Own { origin, offered, .. }: &Own) -> bool {
        let name = &offered.definition.name;
        self.reserved(name).inspect(|reason| draft.refuse_tool(origin, name, reason)).is_none()
    }

    /// One whose whole is over the bounds is not served: what it calls may be others' and not of its file.
    fn bind_composite(&self, draft: &mut CatalogDraft, own: &Own, composite: &Composite) {
        let bounds = self.sources.manifest.governance.composites;
        match composite.check(&own.offered.ckp_name, bounds, &|tool| draft.called(tool)) {
            Ok(()) => self.bind_own(draft, own),
            Err(fault) => draft.refuse_composite(own, fault.at(composite)),
        }
    }
}

impl CatalogDraft {
    fn called(&self, tool: &str) -> Option<Called> {
        let tool = self.catalog.find(tool)?;
        let composite = match &self.runnables.get(&tool.definition.name)?.code {
            ToolCode::Composite(composite) => Some(Arc::clone(composite)),
            _ => None,
        };
        Some(Called { name: tool.ckp_name.clone(), composite })
    }

    fn refuse_composite(&mut self, own: &Own, problem: Option<DocumentError>) {
        let refused = problem.map(|one| Refused::wrong(&one.file.clone(), vec![one]));
        self.catalog.refused.extend(refused.map(|one| one.of(&own.offered.definition.name)));
        self.offered.insert(own.offered.ckp_name.clone());
    }
}
