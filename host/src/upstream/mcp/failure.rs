//! Why a server's answer is missing, and what that means for the call.

use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::exposed::without_hidden;
use clawhost_core::limits::BRIDGE_MESSAGE_BYTES_MAX;
use clawhost_core::redact::Redactor;
use clawhost_core::reply::{ToolReply, json_bytes};
use clawhost_core::visible;
use serde_json::{Value, json};

use super::questions::INPUT_REQUIRED;
use crate::upstream::http::UpstreamError;
use crate::upstream::oauth::NoToken;

/// Where a result says which error a server answered with: its code, and what it says for programs.
pub const SERVER_ERROR: &str = "clawhost/server-error";

/// How much of a server's own words about an error is repeated.
const WORDS_BYTES_MAX: usize = 1_024;
/// What it says of one for programs is passed on up to this size, whole or not at all.
const DATA_BYTES_MAX: usize = 4_096;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// More requests wait for this server than may.
    #[error("too many requests wait for it")]
    Busy,
    /// It does not say of the tool what was accepted.
    #[error("it says something else about the tool than what was accepted")]
    Changed,
    /// The connection ended, or none can be had.
    #[error("{0}")]
    Gone(String),
    /// It answers that it wants something from whoever asks: a completion, an answer of a person.
    #[error("it asks for more input")]
    InputRequired(Value),
    /// A person has to log in to it.
    #[error("{0}")]
    Login(String),
    /// It answers with an error.
    #[error("it answers with error {code}: {message}")]
    Refused {
        /// The JSON-RPC code.
        code: i64,
        /// Its words as they are: of any length, hostile, and perhaps with a secret in them.
        message: String,
        /// What it says for programs, likewise.
        data: Option<Value>,
    },
    /// It wants a token that is good for more. Nothing more is asked for by itself.
    #[error(
        "it wants a login for the scopes {0:?}: `auth.scopes` of the runtime file says all that is asked for"
    )]
    Scope(String),
    /// Its HTTP server refuses.
    #[error("it answers with HTTP status {0}")]
    Status(u16),
    /// It did not answer in time.
    #[error("it did not answer in time")]
    Timeout,
    /// What it answers is not what was asked for.
    #[error("it answers wrongly: {0}")]
    Wrong(String),
}

impl Failure {
    /// It answers with more than anybody takes.
    pub(super) fn too_long() -> Self {
        Self::Wrong(format!("its answer is over {BRIDGE_MESSAGE_BYTES_MAX} bytes"))
    }

    /// Says it without secrets, short and on one line.
    pub(super) fn told(&self, redactor: &Redactor) -> String {
        told(redactor, &self.to_string(), WORDS_BYTES_MAX)
    }

    /// Returns what a call of `tool` of the server `name` comes to. What the server itself says of
    /// the call is a result that a model can read.
    pub(super) fn of_call(
        self,
        name: &str,
        tool: &str,
        timeout: Duration,
        redactor: &Redactor,
    ) -> Result<ToolReply, CallError> {
        let (tool, why) = (visible::line(tool), self.told(redactor));
        let error = match &self {
            Self::Refused { .. } | Self::Scope(_) | Self::Wrong(_) => {
                let kind =
                    if matches!(self, Self::Wrong(_)) { "invalid-result" } else { "server-error" };
                let text = format!("the MCP server `{name}`: {why}");
                let mut reply = ToolReply::error(kind, text.clone());
                reply.internal = Some(text);
                reply.meta.extend(self.for_programs().map(|said| (SERVER_ERROR.to_owned(), said)));
                return Ok(reply);
            }
            Self::Timeout => CallError::too_late(&tool, timeout),
            Self::InputRequired(asked) => {
                let text = format!(
                    "`{tool}` asks for more input (a completion, a person's answer, a list of folders), which nobody here can give"
                );
                let error = CallError::new(ErrorKind::Sandbox, text).with("stage", "run");
                if asked.is_null() { error } else { error.with(INPUT_REQUIRED, asked.clone()) }
            }
            Self::Changed => {
                let text = format!(
                    "the MCP server `{name}` does not say of `{tool}` what was accepted: look at `clawhost pins diff {name}`"
                );
                CallError::new(ErrorKind::Policy, text).with("stage", "pins")
            }
            Self::Busy => CallError::new(
                ErrorKind::Overloaded,
                format!("too many calls wait for the MCP server `{name}`"),
            )
            .with("stage", "pool")
            .with_limit(Limit::BridgeRequests),
            Self::Login(_) => CallError::new(
                ErrorKind::Upstream,
                format!(
                    "the operator has to log in to the MCP server `{name}`: `clawhost secrets login {name}`"
                ),
            ),
            Self::Gone(_) | Self::Status(_) => CallError::new(
                ErrorKind::Upstream,
                format!("the MCP server `{name}` does not answer"),
            ),
        };
        Err(error.with_internal(format!("the MCP server `{name}`: {why}")))
    }

    /// Returns what a server's error says for programs, with nothing that hides.
    fn for_programs(&self) -> Option<Value> {
        let Self::Refused { code, data, .. } = self else { return None };
        let fits = |data: &&Value| json_bytes(data) <= DATA_BYTES_MAX;
        let mut said = match data.as_ref().filter(fits) {
            Some(data) => json!({"code": code, "data": data}),
            None => json!({"code": code}),
        };
        without_hidden(&mut said);
        Some(said)
    }
}

/// Returns `text` without secrets, of which a cut would leave a half, at most `bytes_max` bytes of it,
/// and safe to show.
pub(super) fn told(redactor: &Redactor, text: &str, bytes_max: usize) -> String {
    visible::line(&redactor.short(text, bytes_max))
}

impl From<NoToken> for Failure {
    fn from(none: NoToken) -> Self {
        if none.wants_login { Self::Login(none.reason) } else { Self::Gone(none.reason) }
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        if matches!(error, UpstreamError::Deadline | UpstreamError::ReadTimeout) {
            return Self::Timeout;
        }
        Self::Gone(error.with_cause())
    }
}
