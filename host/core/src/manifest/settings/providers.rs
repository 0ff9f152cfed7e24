//! `providers` and `profiles.<name>.provider`: what the protocol has no place for.

use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::shown;
use crate::quota::Prices;

/// One of `providers`: what a provider gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What its tokens cost; nothing where the file does not say.
    pub prices: Prices,
    at: Place,
}

pub(super) fn take_providers(providers: &Node) -> BTreeMap<String, ProviderSettings> {
    let provider = |entry: &Entry| {
        let price = |key| entry.node.real(&[key]).unwrap_or_default();
        let [input, output] = ["input_usd_per_million", "output_usd_per_million"].map(price);
        let prices = Prices::per_million_usd(input, output);
        (entry.key.clone(), ProviderSettings { prices, at: entry.at.clone() })
    };
    providers.entries().iter().map(provider).collect()
}

impl ProviderSettings {
    /// Gives the manifest's provider `name` what the runtime file has for it.
    pub(super) fn apply(&self, name: &str, manifest: &mut Manifest, problems: &mut Problems) {
        if let Some(plan) = manifest.providers.iter_mut().find(|plan| plan.name == name) {
            plan.prices = self.prices;
            return;
        }
        let reason = format!("there is no provider `{}`", shown(name));
        let help = choices(name, manifest.providers.iter().map(|plan| plan.name.as_str()));
        problems.missing(&self.at, reason, help);
    }
}
