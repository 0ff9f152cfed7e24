//! The manifest's language models, what the agent that calls prefers, and what was spent. Needs a
//! profile that grants providers.

use crate::error::ToolError;

pub use crate::bindings::claw::host::models::{
    Cost, Model, ModelsError, costs, list, prefer, preferred,
};

impl From<ModelsError> for ToolError {
    fn from(error: ModelsError) -> Self {
        match error {
            ModelsError::Denied(why) => Self::PermissionDenied(why),
            ModelsError::Unknown(why) => Self::InvalidArgs(why),
            ModelsError::Failed(why) => Self::ExecutionFailed(why),
        }
    }
}
