//! What happened, as telemetry sees it.
//!
//! Deliberately absent: prompts, what a model answered, and the bodies of requests to providers.
//! No event has a place for them. Arguments and results of calls have one, which stays empty
//! unless the manifest asks for them.

use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::trace::TraceParent;

/// Kinds that are no caller's fault: the host failed, or something that it needs.
const FAULTS: [ErrorKind; 5] = [
    ErrorKind::Internal,
    ErrorKind::MemoryBackend,
    ErrorKind::ProviderUnavailable,
    ErrorKind::Unrecorded,
    ErrorKind::Upstream,
];

/// Something that happened. Whoever emits it has taken secrets out of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Event {
    /// A tool call ended.
    Call(Box<CallEvent>),
    /// A call or a memory operation ended as it did through no fault of the caller. Telemetry
    /// makes this of the other's event; it is not sampled.
    Error {
        /// What failed: `memory` or `tool`.
        part: &'static str,
        /// The store or the tool.
        name: String,
        /// The kind of the error, as in [`ErrorKind::name`].
        kind: &'static str,
        /// The protocol's code.
        code: i32,
    },
    /// The host went from one state to another.
    Lifecycle {
        /// The state before.
        from: &'static str,
        /// The state after.
        to: &'static str,
        /// Time spent in the state before, in milliseconds.
        duration_ms: u64,
    },
    /// A memory operation ended.
    Memory {
        /// `query`, `store` or `compact`.
        operation: &'static str,
        /// The store.
        store: String,
        /// Entries found, stored or left.
        entries: u64,
        /// How it ended: `ok`, or the kind of the error.
        outcome: &'static str,
        /// How long it took.
        #[serde(rename = "duration_ms", serialize_with = "ms")]
        duration: Duration,
    },
    /// Something happened in a swarm.
    Swarm {
        /// `delegate`, `report`, `broadcast` or `discover`.
        operation: &'static str,
        /// Who did it, by the identity that it is in swarms.
        identity: String,
        /// The swarm.
        swarm: String,
        /// The task, where there is one.
        task: Option<String>,
        /// How it ended: `ok`, the status of a report, or the kind of an error.
        outcome: &'static str,
    },
    /// A provider was used.
    Usage {
        /// The provider.
        provider: String,
        /// Tokens of the request.
        input_tokens: u64,
        /// Tokens of the answer.
        output_tokens: u64,
        /// What it cost, in US dollars.
        cost_usd: f64,
    },
}

/// A tool call that ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CallEvent {
    /// The call's id in the record.
    pub call: String,
    /// The caller's own name of the request.
    pub request_id: Option<String>,
    /// Who called.
    pub principal: String,
    /// The tool, as it is called in policies.
    pub tool: String,
    /// How it ended: `ok`, `tool-error`, or the kind of the error.
    pub outcome: &'static str,
    /// The protocol's code, where there was no result.
    pub code: Option<i32>,
    /// How long it took, from arrival to the end of its filters.
    #[serde(rename = "duration_ms", serialize_with = "ms")]
    pub duration: Duration,
    /// The arguments, where [`super::Telemetry::takes_arguments`].
    pub arguments: Option<Value>,
    /// The result, where [`super::Telemetry::takes_results`].
    pub result: Option<Value>,
    /// The call that made it, where one did.
    pub parent: Option<String>,
    /// The outermost call that it is within.
    pub root: Option<String>,
    /// Where it went through, where [`super::Telemetry::takes_stages`].
    pub stages: Vec<Stage>,
    /// The trace that its caller says it is part of.
    #[serde(rename = "trace_id")]
    pub trace: Option<TraceParent>,
}

/// One part of a call's way. An attempt that follows another goes through the same ones again, and the
/// wait for a person lies within the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// `look-up`, `gate`, `approval`, `place`, `run`, `filter` or `record`.
    pub stage: &'static str,
    /// When it began, after the call did.
    #[serde(rename = "after_ms", serialize_with = "ms")]
    pub after: Duration,
    /// How long it took.
    #[serde(rename = "duration_ms", serialize_with = "ms")]
    pub duration: Duration,
}

impl CallEvent {
    /// Returns what ended with `outcome`, without arguments and result.
    pub fn ended(
        ids: (&str, &str, &str),
        outcome: &Result<ToolReply, CallError>,
        duration: Duration,
    ) -> Self {
        let (outcome, code) = match outcome {
            Ok(reply) if reply.is_error => ("tool-error", None),
            Ok(_) => ("ok", None),
            Err(error) => (error.kind.name(), Some(error.kind.code())),
        };
        Self { outcome, code, ..Self::of(ids, duration) }
    }

    /// Returns what nobody waited for any more.
    pub fn cancelled(ids: (&str, &str, &str), duration: Duration) -> Self {
        Self { outcome: "cancelled", ..Self::of(ids, duration) }
    }

    fn of((call, principal, tool): (&str, &str, &str), duration: Duration) -> Self {
        let [call, principal, tool] = [call, principal, tool].map(str::to_owned);
        Self { call, principal, tool, duration, ..Self::default() }
    }
}

impl Event {
    /// Returns the name in every format.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Call(_) => "tool.call",
            Self::Error { .. } => "error",
            Self::Lifecycle { .. } => "lifecycle.transition",
            Self::Memory { .. } => "memory.operation",
            Self::Swarm { .. } => "swarm.operation",
            Self::Usage { .. } => "provider.usage",
        }
    }

    /// Returns the error that a call or a memory operation is as well, where it is one.
    pub(super) fn error(&self) -> Option<Self> {
        let (part, name, outcome) = match self {
            Self::Call(call) => ("tool", &call.tool, call.outcome),
            Self::Memory { store, outcome, .. } => ("memory", store, *outcome),
            _ => return None,
        };
        let kind = FAULTS.into_iter().find(|kind| kind.name() == outcome)?;
        Some(Self::Error { part, name: name.clone(), kind: kind.name(), code: kind.code() })
    }
}

/// Writes milliseconds with three digits behind the point.
fn ms<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0)
}
