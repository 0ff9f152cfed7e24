//! Keys and values that the host keeps for the agent that calls. Needs a profile that grants it.

use crate::error::ToolError;

pub use crate::bindings::claw::host::memory::{Entry, MemoryError, Page, delete, get, list, set};

impl From<MemoryError> for ToolError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Denied(why) => Self::PermissionDenied(why),
            // What fills the store is what the caller keeps there, and the tool works as ever.
            MemoryError::InvalidKey(why) | MemoryError::OverQuota(why) => Self::InvalidArgs(why),
            MemoryError::Failed(why) => Self::ExecutionFailed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_no_failure_of_the_tool() {
        let kind = |error: MemoryError| ToolError::from(error);
        assert!(matches!(kind(MemoryError::OverQuota("x".into())), ToolError::InvalidArgs(_)));
        assert!(matches!(kind(MemoryError::InvalidKey("x".into())), ToolError::InvalidArgs(_)));
        assert!(matches!(kind(MemoryError::Denied("x".into())), ToolError::PermissionDenied(_)));
        assert!(matches!(kind(MemoryError::Failed("x".into())), ToolError::ExecutionFailed(_)));
    }
}
