//! What a caller says beside a call.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::CallError;
use clawhost_core::manifest::ToolNarrowing;
use clawhost_core::policy::PolicySet;
use serde_json::Value;

use super::{Allowed, Nesting, SessionTerms};
use crate::approvals::WaitingSink;
use crate::dialogue::Dialogue;
use crate::telemetry::TraceParent;

/// What a caller says beside a call. It can narrow what the call gets, never widen it (CKP 0.3.0,
/// section 10.3).
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The caller's own name of the request, by which it can be approved.
    pub request_id: Option<String>,
    /// A profile whose bounds bind beside those of the tool's own.
    pub sandbox: Option<String>,
    /// A policy that has to allow the call as well.
    pub policy: Option<String>,
    /// What the caller's session settled: all its manifest says binds the call as well.
    pub session: Option<Arc<SessionTerms>>,
    /// Why the call is refused whatever it is: its session does not take it. It is recorded.
    pub refused: Option<CallError>,
    /// What the caller's client can be asked for, and what it has brought: for the tool. Here it is only
    /// searched as arguments are.
    pub dialogue: Option<Arc<Dialogue>>,
    /// The trace that the call is part of: for telemetry, and of no weight here.
    pub trace: Option<TraceParent>,
    /// Who is told when the call waits for a person.
    pub waiting: Option<WaitingSink>,
    /// Where it stands, where another call makes it. No caller says that: the host does.
    pub nested: Option<Arc<Nesting>>,
}

impl CallContext {
    /// Returns the policies of the caller's session, if it has any.
    pub fn session_policies(&self) -> Option<&PolicySet> {
        self.session.as_ref()?.policies.as_ref()
    }

    /// Says whether the caller's session has the tool: it lists it, or lists none.
    pub fn has(&self, ckp_name: &str) -> bool {
        self.session.as_ref().is_none_or(|session| session.tool(ckp_name).is_some())
    }

    /// Returns how the caller's session narrows the tool, where there is one and it has it.
    pub fn narrowing(&self, tool: &Tool) -> Option<&ToolNarrowing> {
        self.session.as_ref()?.tool(&tool.ckp_name)
    }
}

/// What the gate is asked to admit.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who calls.
    pub principal: &'a str,
    /// The arguments as they came.
    pub arguments: &'a Value,
    /// The time the caller gives it.
    pub timeout: Option<Duration>,
    /// What was allowed for this call already: an earlier attempt of it.
    pub approved: Option<&'a Allowed>,
    /// What else the caller says.
    pub context: &'a CallContext,
}
