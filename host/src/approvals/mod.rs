//! Approvals: calls that wait for a person's word.

use std::fmt;
use std::sync::Arc;

/// Who is told the id of the question when a call starts to wait for a person.
#[derive(Clone)]
pub struct WaitingSink(Arc<dyn Fn(&str) + Send + Sync>);

impl WaitingSink {
    /// Returns a sink that hands the id of the question to `told`, which must not block.
    pub fn new(told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// Tells it.
    pub fn tell(&self, id: &str) {
        (self.0)(id);
    }
}

impl fmt::Debug for WaitingSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingSink")
    }
}
