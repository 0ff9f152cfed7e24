//! Keys and values that the host keeps for the agent that calls. Needs a profile that grants it.

use crate::error::ToolError;

pub use crate::bindings::claw::host::memory::{Entry, MemoryError, Page, delete, get, list, set};

impl From<MemoryError> for ToolError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Denied(why) => Self::PermissionDenied(why),
            MemoryError::InvalidKey(why) => Self::InvalidArgs(why),
            MemoryError::OverQuota(why) | MemoryError::Failed(why) => Self::ExecutionFailed(why),
        }
    }
}
