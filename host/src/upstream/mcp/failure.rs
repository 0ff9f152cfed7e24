//! Why a server's answer is missing, and what that means for the call.

use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_core::truncate;
use clawhost_core::visible;

use crate::upstream::http::UpstreamError;

/// How much of a server's own words about an error is repeated.
const WORDS_BYTES_MAX: usize = 1_024;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// More requests wait for this server than may.
    #[error("too many requests wait for it")]
    Busy,
    /// The connection ended, or none can be had.
    #[error("{0}")]
    Gone(String),
    /// It answers that it wants something from whoever asks: a completion, an answer of a person.
    #[error("it asks for more input, which is not granted")]
    InputRequired,
    /// It answers with an error.
    #[error("it answers with error {code}: {message}")]
    Refused {
        /// The JSON-RPC code.
        code: i64,
        /// Its words, safe to show and short.
        message: String,
    },
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
    /// Returns the failure of a server that answers with an error.
    pub(super) fn refused(code: i64, message: &str) -> Self {
        let message = visible::line(truncate::text(message, WORDS_BYTES_MAX));
        Self::Refused { code, message }
    }

    /// Returns what a call of `tool` of the server `name` comes to. What the server itself says of
    /// the call is a result that a model can read.
    pub(super) fn of_call(
        self,
        name: &str,
        tool: &str,
        timeout: Duration,
    ) -> Result<ToolReply, CallError> {
        let tool = visible::line(tool);
        let error = match &self {
            Self::Refused { .. } | Self::Wrong(_) => {
                let kind =
                    if matches!(self, Self::Wrong(_)) { "invalid-result" } else { "server-error" };
                let text = format!("the MCP server `{name}`: {self}");
                return Ok(ToolReply {
                    internal: Some(text.clone()),
                    ..ToolReply::error(kind, text)
                });
            }
            Self::Timeout => {
                let text = format!(
                    "`{tool}` did not end within {} ms and was stopped",
                    timeout.as_millis()
                );
                CallError::new(ErrorKind::Timeout, text).with("limit", "timeout_ms")
            }
            Self::InputRequired => {
                let text = format!(
                    "`{tool}` asks for more input (a completion, a person's answer, a list of folders), which is not granted"
                );
                CallError::new(ErrorKind::Sandbox, text).with("stage", "run")
            }
            Self::Busy => CallError::new(
                ErrorKind::Overloaded,
                format!("too many calls wait for the MCP server `{name}`"),
            )
            .with("stage", "pool")
            .with("limit", "bridge_requests_max"),
            Self::Gone(_) | Self::Status(_) => CallError::new(
                ErrorKind::Upstream,
                format!("the MCP server `{name}` does not answer"),
            ),
        };
        Err(error.with_internal(format!("the MCP server `{name}`: {self}")))
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        if matches!(error, UpstreamError::Deadline | UpstreamError::ReadTimeout) {
            return Self::Timeout;
        }
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Self::Gone(format!("{error}{}", cause.unwrap_or_default()))
    }
}
