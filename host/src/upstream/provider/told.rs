//! Who is told what completions used, for measurements.

use std::fmt;
use std::sync::Arc;

use clawhost_core::quota::Used;

/// Is told the provider, the tokens and the cost in US dollars of each completion.
#[derive(Clone)]
pub struct UsageSink(Arc<Told>);

type Told = dyn Fn(&str, Used, f64) + Send + Sync;

impl UsageSink {
    /// Returns a sink that hands them to `told`, which must not block.
    pub fn new(told: impl Fn(&str, Used, f64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(super) fn tell(&self, provider: &str, used: Used, cost_usd: f64) {
        (self.0)(provider, used, cost_usd);
    }
}

impl fmt::Debug for UsageSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsageSink")
    }
}
