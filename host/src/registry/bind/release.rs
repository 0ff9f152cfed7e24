//! Binding what is served of the registry.

use std::sync::Arc;

use clawhost_core::catalog::Origin;

use super::{Binder, CatalogDraft};
use crate::registry::releases::Served;

impl Binder {
    /// Serves this of the registry from the next catalog on.
    pub(in crate::registry) fn take_released(&mut self, released: Option<Arc<Served>>) {
        // What a version says of a tool may differ where its component does not.
        let origin = Origin::Release.to_string();
        self.bound.retain(|(of, _), _| *of != origin);
        self.released = released;
    }

    /// A tool of the registry runs under the profile and the policy that the manifest binds it to, and
    /// under `none` where it binds it to none.
    pub(super) fn bind_released(&self, draft: &mut CatalogDraft) {
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
}
