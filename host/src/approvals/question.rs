//! What a person is asked, what they may answer, and what comes of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::lease::Covers;
use clawhost_core::limits::APPROVAL_REASON_BYTES_MAX;
use clawhost_core::policy::{ApprovalTerms, RuleRef};
use clawhost_core::truncate;
use serde_json::{Value, json};

use super::Shown;
use crate::clock::after_ms;

/// A call that a person has to decide about.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Which call it is, as the record names it.
    pub call: String,
    /// The caller's own name of the request, by which it can be answered too.
    pub request_id: Option<String>,
    /// Who calls.
    pub principal: String,
    /// The tool's CKP name.
    pub tool: String,
    /// The digest of the component behind it: a lease ends when another takes its place.
    pub tool_digest: String,
    /// The digest of tool and arguments: what exactly is approved.
    pub digest: String,
    /// The arguments as they may be shown. A lease's patterns are held against them.
    pub arguments: Value,
    /// The rule that asks; absent where the identity's autonomy does.
    pub rule: Option<RuleRef>,
    /// Why a person is asked.
    pub reason: String,
    /// How long, and what silence means.
    pub terms: ApprovalTerms,
}

/// A call that may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// Who said so; for the record.
    pub by: String,
    /// How that came.
    pub how: How,
}

/// How a call came to be approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By a word that covers later calls.
    Lease,
    /// By a person's word about this call.
    Operator,
    /// By a rule for which silence allows.
    Silence,
}

clawhost_core::table! {
    /// Says it as records do.
    pub How::name: &'static str {
        Lease: "lease", Operator: "operator", Silence: "timeout-default",
    }
}

/// A question that waits.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Its name: random, so that nobody can guess another's.
    pub id: String,
    /// What is asked.
    pub asked: Arc<Question>,
    /// When, in milliseconds since 1970, UTC.
    pub asked_at_ms: i64,
    /// Until when it can be answered, likewise.
    pub expires_at_ms: i64,
}

impl Pending {
    /// Returns the question about `asked`, asked at `now_ms` for `wait`.
    pub(super) fn new(id: String, asked: Arc<Question>, now_ms: i64, wait: Duration) -> Self {
        Self { id, asked, asked_at_ms: now_ms, expires_at_ms: after_ms(now_ms, wait) }
    }

    /// Returns it as the control socket and the command line show it, with `arguments` of its
    /// arguments. Whatever else a manifest or a caller wrote is short.
    pub fn to_json(&self, arguments: &Shown) -> Value {
        let asked = &self.asked;
        let mut shown = json!({
            "id": self.id,
            "call": asked.call,
            "request_id": asked.request_id,
            "principal": asked.principal,
            "tool": asked.tool,
            "digest": asked.digest,
            "policy": asked.rule.as_ref().map(|rule| rule.policy.as_str()),
            "rule_id": asked.rule.as_ref().map(|rule| rule.id.as_str()),
            "reason": truncate::text(&asked.reason, APPROVAL_REASON_BYTES_MAX),
            "asked_at_ms": self.asked_at_ms,
            "expires_at_ms": self.expires_at_ms,
            "silence": if asked.terms.allow_on_timeout { "allows" } else { "denies" },
            // By itself: what is cut is said by names, which a page may have to see as a text.
            "whole": arguments.is_whole(),
        });
        if let (Some(shown), Value::Object(arguments)) = (shown.as_object_mut(), json!(arguments)) {
            shown.extend(arguments);
        }
        shown
    }

    /// Returns its arguments in about `bytes_max` bytes.
    pub fn shown(&self, bytes_max: usize) -> Shown {
        Shown::of(&self.asked.arguments, bytes_max)
    }
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The call may run.
    Approve {
        /// Which later calls may run too, without a question.
        lease: Option<Lease>,
    },
    /// The call may not run.
    Deny {
        /// Why; the caller reads it.
        reason: Option<String>,
    },
}

/// Which later calls of the same principal to the same component of the same tool are approved
/// along with this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// How long.
    pub until: Until,
    /// Which arguments.
    pub arguments: Covers,
}

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// As long as this host runs.
    Session,
    /// For this time from now; it survives a restart.
    Time(Duration),
}

/// Who answers. A caller is never its own approver, so each way says what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approver {
    /// Somebody who sits at an agent's own client. Counts only for that agent's calls, only where
    /// the operator allowed it for that agent, and never makes a lease.
    Elicited {
        /// The agent.
        agent: String,
    },
    /// The holder of the operator's credential, of the control socket, or the parent process of a
    /// host that speaks the Claw Kernel Protocol on standard input.
    Operator,
    /// Whoever sits at the terminal at which the call was typed.
    Terminal,
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elicited { agent } => write!(f, "the user of agent `{agent}`"),
            Self::Operator => f.write_str("the operator"),
            Self::Terminal => f.write_str("the person at the terminal"),
        }
    }
}

impl Question {
    /// Returns the error of a person's no.
    pub(super) fn denied(&self, reason: Option<&str>) -> CallError {
        let text = match reason {
            Some(reason) => format!("the call was not approved: {reason}"),
            None => "the call was not approved".to_owned(),
        };
        let error = self.refused(ErrorKind::ApprovalDenied, text);
        reason.into_iter().fold(error, |error, reason| error.with("reason", reason))
    }

    /// Returns the error of silence.
    pub(super) fn unanswered(&self, waited: Duration) -> CallError {
        let text = format!("nobody approved the call within {} s", waited.as_secs_f64());
        self.refused(ErrorKind::ApprovalTimeout, text)
    }

    /// Returns an error with the facts that every end of an approval states.
    pub(super) fn refused(&self, kind: ErrorKind, text: impl Into<String>) -> CallError {
        let error = CallError::new(kind, text)
            .with("stage", "approval")
            .with("tool", self.tool.as_str())
            .with("action", "require-approval");
        match &self.rule {
            Some(rule) => {
                error.with("policy", rule.policy.as_str()).with("rule_id", rule.id.as_str())
            }
            None => error,
        }
    }
}
