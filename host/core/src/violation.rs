//! What a guest reached for and was refused: a line for people, and what a profile would have to grant.
//!
//! Deliberately absent: whether to grant it.

use serde::{Deserialize, Serialize};

/// One refusal of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What was tried and why not, as one printable line; for the record.
    pub text: String,
    /// What a caller reads in its place, where the record says more than it may know.
    pub told: Option<String>,
    /// The grant that was missing, where one grant would have been enough.
    pub lacks: Option<Lack>,
}

/// A grant that a profile does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Reaching this host.
    Host(String),
    /// Reaching this port of the hosts that it may reach.
    Port(u16),
    /// Changing what is in this folder, by the name that guests have for it.
    Write(String),
}

impl From<String> for Violation {
    fn from(text: String) -> Self {
        Self { text, told: None, lacks: None }
    }
}
