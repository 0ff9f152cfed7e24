//! The way back from whoever runs a call to whoever makes it.
//!
//! Deliberately absent: asking. What a server wants is the answer to its call, and the caller comes
//! again with what it has brought (MCP 2026-07-28, multi round-trip requests).

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::progress::ProgressSink;

/// Who waits for the answer to a call.
#[derive(Clone, Default)]
pub struct Caller {
    /// Where progress goes.
    pub progress: Option<ProgressSink>,
    /// What its client can be asked for, where it can be asked at all.
    pub dialogue: Option<Arc<Dialogue>>,
}

/// What a caller's client can be asked for, and what it has brought.
#[derive(Debug, Clone, Default)]
pub struct Dialogue {
    /// What it can do of `elicitation`, `roots` and `sampling`, in MCP's words.
    pub capabilities: Map<String, Value>,
    /// Its answers to what was asked before, by the names of the questions.
    pub responses: Option<Value>,
    /// What the server gave it to bring back.
    pub state: Option<String>,
}

impl Dialogue {
    /// Says whether it answers something.
    pub fn is_answer(&self) -> bool {
        self.responses.is_some() || self.state.is_some()
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("dialogue", &self.dialogue).finish_non_exhaustive()
    }
}
