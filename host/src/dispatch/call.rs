//! A call as it arrives.

use std::time::Duration;

use serde_json::Value;

use crate::dialogue::Caller;
use crate::gate::CallContext;
use crate::sandbox::ProgressSink;

/// Who calls: the agent whose token, or whose parent process, sent it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub String);

/// A call as it arrives: an allegation, nothing in it is trusted.
#[derive(Clone)]
pub struct ToolCall {
    /// Who calls.
    pub principal: Principal,
    /// The tool's MCP name, CKP name, or `claw://local/tool/<name>`, which may end in `@<version>`.
    pub tool: String,
    /// The arguments; anything but an object is refused.
    pub arguments: Value,
    /// The time the caller gives it; the tool's and the profile's bind too.
    pub timeout: Option<Duration>,
    /// Where progress goes.
    pub progress: Option<ProgressSink>,
    /// What else the caller says; it can only narrow.
    pub context: CallContext,
}

impl ToolCall {
    /// Returns a call that says no more than it has to.
    pub fn new(principal: Principal, tool: impl Into<String>, arguments: Value) -> Self {
        let context = CallContext::default();
        Self { principal, tool: tool.into(), arguments, timeout: None, progress: None, context }
    }

    /// Returns who waits for it.
    pub(super) fn caller(&self) -> Caller {
        let (progress, dialogue) = (self.progress.clone(), self.context.dialogue.clone());
        let trace = self.context.trace.map(|trace| trace.to_string());
        Caller { progress, dialogue, trace }
    }
}

clawhost_core::shows!(ToolCall { principal, tool });
