//! What a session says unasked, as it waits for whoever listens.

use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::serve::message;

/// A notification, as its text: what it is made of may take many times as much.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) text: String,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Notice {
    /// Returns one of `method` with these parameters.
    pub(super) fn new(method: &str, params: &impl Serialize) -> Self {
        Self { text: message::notice(method, params).to_string(), _turn: None }
    }

    /// Returns it with a turn, which is over when somebody has taken it.
    pub(super) fn in_turn(self, turn: OwnedSemaphorePermit) -> Self {
        Self { _turn: Some(turn), ..self }
    }
}
