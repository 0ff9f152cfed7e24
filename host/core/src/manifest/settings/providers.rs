//! `providers` and `profiles.<name>.provider`: what the protocol has no place for.

use super::reader::Reader;
use super::{Place, Problems, Source, choices, shown};
use crate::manifest::Manifest;
use crate::manifest::node::{Entry, Node, Value};
use crate::manifest::shape::{Shape, opt};
use crate::quota::Prices;

/// The most a million tokens may cost, in US dollars: more is a typing error.
const PRICE: Shape = Shape::Real { max: 1_000_000.0 };

pub(super) const PROVIDERS: Shape = Shape::Dict(&Shape::Record(&[
    opt("input_usd_per_million", &PRICE),
    opt("output_usd_per_million", &PRICE),
]));

/// One of `providers`: what a provider gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What its tokens cost; nothing where the file does not say.
    pub prices: Prices,
    source: Source,
    at: Place,
}

impl Reader {
    pub(super) fn take_providers(&mut self, source: &Source, root: &Node) {
        let Some(providers) = root.get(&["providers"]) else {
            return;
        };
        self.settings.providers.clear();
        for entry in providers.entries() {
            let settings = ProviderSettings::read(source, entry);
            self.settings.providers.insert(entry.key.clone(), settings);
        }
    }
}

impl ProviderSettings {
    fn read(source: &Source, entry: &Entry) -> Self {
        let price = |key| match entry.node.get(&[key]).map(|node| &node.value) {
            Some(Value::Number(number)) => number.as_f64().unwrap_or_default(),
            _ => 0.0,
        };
        let prices = Prices::per_million_usd(
            price("input_usd_per_million"),
            price("output_usd_per_million"),
        );
        Self { prices, source: source.clone(), at: entry.at }
    }

    /// Gives the manifest's provider `name` what the runtime file has for it.
    pub(super) fn apply(&self, name: &str, manifest: &mut Manifest, problems: &mut Problems) {
        if let Some(plan) = manifest.providers.iter_mut().find(|plan| plan.name == name) {
            plan.prices = self.prices;
            return;
        }
        let reason = format!("there is no provider `{}`", shown(name));
        let help = choices(name, manifest.providers.iter().map(|plan| plan.name.as_str()));
        problems.missing(&self.source, self.at, reason, help);
    }
}
