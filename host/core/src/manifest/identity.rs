//! `kind: Identity`: who the agent is, and how freely it may act.

use serde::Deserialize;

/// How much an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autonomy {
    /// Everything that policy allows.
    Autonomous,
    /// Nothing: an observer runs no tool.
    Observer,
    /// Whatever has no side effect; the rest needs a human's word.
    #[default]
    Supervised,
}

impl Autonomy {
    /// Returns the one that leaves less freedom.
    #[must_use]
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Observer, _) | (_, Self::Observer) => Self::Observer,
            (Self::Supervised, _) | (_, Self::Supervised) => Self::Supervised,
            (Self::Autonomous, Self::Autonomous) => Self::Autonomous,
        }
    }
}
