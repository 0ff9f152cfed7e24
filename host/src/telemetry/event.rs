//! What happened, as telemetry sees it.
//!
//! Deliberately absent: prompts, what a model answered, and the bodies of requests to providers.
//! No event has a place for them. Arguments and results of calls have one, which stays empty
//! unless the manifest asks for them.

use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::reply::{Content, ToolReply};
use serde_json::{Value, json};

/// Something that happened. Whoever emits it has taken secrets out of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A tool call ended.
    Call(CallEvent),
    /// Something beside a call failed.
    Error {
        /// What failed: `channel`, `memory`, `provider`, …
        part: &'static str,
        /// The kind of the error, as in [`clawhost_core::error::ErrorKind::name`].
        kind: &'static str,
        /// The protocol's code.
        code: i32,
        /// The text that is safe to show.
        message: String,
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
        duration: Duration,
    },
    /// Something happened in a swarm.
    Swarm {
        /// `delegate`, `report`, `broadcast` or `discover`.
        operation: &'static str,
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
#[derive(Debug, Clone, PartialEq, Default)]
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
    pub duration: Duration,
    /// The arguments, where [`super::Telemetry::takes_arguments`].
    pub arguments: Option<Value>,
    /// The result, where [`super::Telemetry::takes_results`].
    pub result: Option<Value>,
}

impl CallEvent {
    /// Returns what ended with `outcome`, without arguments and result.
    pub fn ended(
        (call, principal, tool): (&str, &str, &str),
        outcome: &Result<ToolReply, CallError>,
        duration: Duration,
    ) -> Self {
        let (outcome, code) = match outcome {
            Ok(reply) if reply.is_error => ("tool-error", None),
            Ok(_) => ("ok", None),
            Err(error) => (error.kind.name(), Some(error.kind.code())),
        };
        Self {
            call: call.to_owned(),
            principal: principal.to_owned(),
            tool: tool.to_owned(),
            outcome,
            code,
            duration,
            ..Self::default()
        }
    }

    /// Returns what nobody waited for any more.
    pub fn cancelled((call, principal, tool): (&str, &str, &str), duration: Duration) -> Self {
        Self {
            call: call.to_owned(),
            principal: principal.to_owned(),
            tool: tool.to_owned(),
            outcome: "cancelled",
            duration,
            ..Self::default()
        }
    }
}

/// Returns a reply as telemetry writes it: its structured part, else its texts.
pub fn result_of(reply: &ToolReply) -> Value {
    if let Some(structured) = &reply.structured {
        return structured.clone();
    }
    let texts = reply.content.iter().filter_map(|content| match content {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    json!(texts.collect::<Vec<_>>())
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
}
