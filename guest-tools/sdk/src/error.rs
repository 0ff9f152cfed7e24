//! Shorthands for the ways a tool call fails.

pub use crate::bindings::exports::claw::tool::tool::ToolError;

impl ToolError {
    /// The arguments match the schema but not the tool's own rules.
    #[must_use]
    pub fn invalid_args(why: impl Into<String>) -> Self {
        Self::InvalidArgs(why.into())
    }

    /// It was tried, and failed.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        Self::ExecutionFailed(why.into())
    }

    /// A safety check refused it.
    #[must_use]
    pub fn denied(why: impl Into<String>) -> Self {
        Self::PermissionDenied(why.into())
    }
}
