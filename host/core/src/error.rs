//! Why a call did not succeed, by who is to blame, and the one table of codes.
//!
//! Two messages: `message` is safe and short and goes to the caller; `internal` is full and
//! goes to the audit record and the log only.

mod limit;

use std::time::Duration;

use serde_json::{Map, Value};

pub use self::limit::Limit;
use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::truncate;

/// Who has to change something for the call to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller sent something wrong.
    Caller,
    /// A rule or a limit set by the operator refused it.
    Denied,
    /// The tool misbehaved.
    Tool,
    /// Something the host depends on failed.
    Upstream,
    /// The host itself failed.
    Internal,
}

/// What went wrong, one variant for each row of the code table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A human said no.
    ApprovalDenied,
    /// No human answered in time.
    ApprovalTimeout,
    /// The operator has switched the tool off.
    Disabled,
    /// The host failed.
    Internal,
    /// The arguments do not match the schema.
    InvalidArguments,
    /// The message is no request that can be served now.
    InvalidRequest,
    /// The store behind a memory cannot be used.
    MemoryBackend,
    /// A query or a write that a memory store cannot carry out.
    MemoryQuery,
    /// Too many calls at once, or too many in a window.
    Overloaded,
    /// A peer of the swarm took the task and failed.
    PeerFailed,
    /// No peer of the swarm can take the task.
    PeerUnreachable,
    /// A policy rule, or the absence of one.
    Policy,
    /// No provider answers.
    ProviderUnavailable,
    /// A provider's quota is used up.
    ProviderQuota,
    /// The tool failed too often and rests.
    Quarantined,
    /// Something the sandbox profile does not grant, or a limit of it.
    Sandbox,
    /// Time or fuel ran out.
    Timeout,
    /// The tool trapped, panicked or exited.
    ToolFault,
    /// No tool of that name.
    UnknownTool,
    /// The record takes nothing, as where the disk is full.
    Unrecorded,
    /// A server behind the host failed.
    Upstream,
}

table! {
    /// Returns the name, who is to blame, and the JSON-RPC code (CKP 0.3.0 section 9 and its
    /// runtime profile, section 4; -32600, -32602 and -32603 are JSON-RPC's own).
    pub ALL, ErrorKind::row: (&'static str, Blame, i32) {
        ApprovalDenied: ("approval-denied", Blame::Denied, -32013),
        ApprovalTimeout: ("approval-timeout", Blame::Denied, -32012),
        Disabled: ("disabled", Blame::Denied, -32011),
        Internal: ("internal", Blame::Internal, -32603),
        InvalidArguments: ("invalid-arguments", Blame::Caller, -32602),
        InvalidRequest: ("invalid-request", Blame::Caller, -32600),
        MemoryBackend: ("memory-backend", Blame::Upstream, -32030),
        MemoryQuery: ("memory-query", Blame::Caller, -32031),
        Overloaded: ("overloaded", Blame::Denied, -32011),
        PeerFailed: ("peer-failed", Blame::Upstream, -32041),
        PeerUnreachable: ("peer-unreachable", Blame::Upstream, -32040),
        Policy: ("policy", Blame::Denied, -32011),
        ProviderUnavailable: ("provider-unavailable", Blame::Upstream, -32020),
        ProviderQuota: ("provider-quota", Blame::Denied, -32021),
        Quarantined: ("quarantined", Blame::Denied, -32011),
        Sandbox: ("sandbox", Blame::Denied, -32010),
        Timeout: ("timeout", Blame::Tool, -32014),
        ToolFault: ("tool-fault", Blame::Tool, -32603),
        UnknownTool: ("unknown-tool", Blame::Caller, -32602),
        Unrecorded: ("unrecorded", Blame::Upstream, -32603),
        Upstream: ("upstream", Blame::Upstream, -32603),
    }
}

impl ErrorKind {
    /// Returns the kind of that [`ErrorKind::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name used in audit records and `data.kind`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns who is to blame.
    pub const fn blame(self) -> Blame {
        self.row().1
    }

    /// Returns the JSON-RPC code.
    pub const fn code(self) -> i32 {
        self.row().2
    }

    /// Says whether it is an error of the protocol where every other one is a result that a model
    /// can read: a tool nobody knows, a defect of the host, and one that can record nothing.
    pub const fn is_protocol_error(self) -> bool {
        matches!(self, Self::Internal | Self::UnknownTool | Self::Unrecorded)
    }

    /// Returns the exit code of `clawhost call`; see [`exit`].
    pub const fn exit_code(self) -> u8 {
        match self.blame() {
            Blame::Caller => exit::USAGE,
            Blame::Denied => exit::DENIED,
            Blame::Tool => exit::TOOL_FAILED,
            Blame::Upstream => exit::UPSTREAM,
            Blame::Internal => exit::INTERNAL,
        }
    }
}

/// Exit codes of the command line, by who is to blame.
pub mod exit {
    /// It worked.
    pub const OK: u8 = 0;
    /// The host failed: a defect, please report it.
    pub const INTERNAL: u8 = 1;
    /// The command line or the arguments of a call are wrong.
    pub const USAGE: u8 = 2;
    /// A manifest, document, component or runtime file is wrong.
    pub const DOCUMENT: u8 = 3;
    /// Policy, sandbox or a limit refused the call.
    pub const DENIED: u8 = 4;
    /// The tool ran and failed, or ran out of time.
    pub const TOOL_FAILED: u8 = 5;
    /// A server or system service behind the host failed.
    pub const UPSTREAM: u8 = 6;
    /// An audit log does not verify.
    pub const AUDIT_BROKEN: u8 = 7;
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Safe and short; what the caller reads.
    pub message: String,
    /// Full; for the audit record and the log only.
    pub internal: Option<String>,
    /// Facts for programs: `stage`, `rule_id`, `limit`, …; goes to the caller as `data`.
    pub data: Map<String, Value>,
}

impl CallError {
    /// Returns an error of `kind` that says `message`, cut to [`ERROR_TEXT_BYTES_MAX`]: it may
    /// quote a caller or a guest.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        message.truncate(truncate::text(&message, ERROR_TEXT_BYTES_MAX).len());
        Self { kind, message, internal: None, data: Map::new() }
    }

    /// Returns the error of a call of `tool` that took longer than it may.
    pub fn too_late(tool: &str, timeout: Duration) -> Self {
        let ms = timeout.as_millis();
        let text = format!("`{tool}` did not end within {ms} ms and was stopped");
        Self::new(ErrorKind::Timeout, text).with_limit(Limit::Timeout)
    }

    /// Returns the error of what does not happen because the record of it cannot be written; `text` says what.
    pub fn unrecorded(text: &str, error: &std::io::Error) -> Self {
        Self::new(ErrorKind::Unrecorded, text)
            .with("stage", "audit")
            .with_internal(error.to_string())
    }

    /// Adds the full text that only the audit record and the log see.
    #[must_use]
    pub fn with_internal(mut self, text: impl Into<String>) -> Self {
        self.internal = Some(text.into());
        self
    }

    /// Adds which bound was met.
    #[must_use]
    pub fn with_limit(self, limit: Limit) -> Self {
        self.with("limit", limit.name())
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(ErrorKind::named(kind.name()), Some(kind));
        }
        assert_eq!(ErrorKind::named("nothing"), None);
    }

    #[test]
    fn what_is_too_late_says_how_long_it_had() {
        let error = CallError::too_late("fetch", Duration::from_millis(1_500));
        assert_eq!(error.message, "`fetch` did not end within 1500 ms and was stopped");
        assert_eq!((error.kind, &error.data["limit"]), (ErrorKind::Timeout, &"timeout_ms".into()));
    }

    #[test]
    fn blame_and_exit_code_agree() {
        assert_eq!(ErrorKind::UnknownTool.exit_code(), exit::USAGE);
        assert_eq!(ErrorKind::Policy.exit_code(), exit::DENIED);
        assert_eq!(ErrorKind::Timeout.exit_code(), exit::TOOL_FAILED);
        assert_eq!(ErrorKind::Internal.exit_code(), exit::INTERNAL);
        assert_eq!(ErrorKind::Unrecorded.exit_code(), exit::UPSTREAM);
    }
}
