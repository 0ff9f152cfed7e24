//! Messages to the channels that the operator declares. Needs a profile that grants some.

use crate::error::ToolError;

pub use crate::bindings::claw::host::channels::{ChannelError, send};

impl From<ChannelError> for ToolError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Denied(why) => Self::PermissionDenied(why),
            ChannelError::Unknown(why) => Self::InvalidArgs(why),
            ChannelError::OverLimit(why) => Self::ExecutionFailed(why),
        }
    }
}
