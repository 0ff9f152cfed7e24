//! What a server offers, and whether it can be called.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::exposed::Exposed;

/// What a server offers at one moment. All texts are its own: hostile until somebody has looked.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOffers {
    /// Whether it can be called.
    pub state: State,
    /// Its tools; the last known ones while it is not ready.
    pub tools: Arc<[ToolDefinition]>,
    /// Grows by one whenever they change; nothing is known before it is one.
    pub generation: u64,
    /// What it has beside tools, as far as that is served, with nothing that hides.
    pub exposed: Arc<Exposed>,
    /// What it wants models to read.
    pub instructions: Option<String>,
    /// What it calls itself.
    pub server: String,
    /// The revision of the protocol that was agreed on; empty before.
    pub revision: &'static str,
}

/// Whether a server can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is being started, or asked what it offers: a call waits.
    Connecting,
    /// It is not there, and will be tried again: a call fails at once.
    Failed {
        /// Why, for the operator, with what it said first and last.
        reason: String,
        /// Nobody is logged in to it, which callers may know.
        wants_login: bool,
        /// Attempts that ended so since it last stood for long.
        attempt: u32,
        /// Time from then until the next.
        wait: Duration,
    },
    /// It can.
    Ready,
}

impl ServerOffers {
    pub(super) fn none() -> Self {
        Self {
            state: State::Connecting,
            tools: Arc::new([]),
            generation: 0,
            exposed: Arc::default(),
            instructions: None,
            server: String::new(),
            revision: "",
        }
    }
}
