//! Completions of the manifest's language models. Needs a profile that grants them.

use crate::bindings::claw::host::provider::complete as complete_on_host;
use crate::error::ToolError;

pub use crate::bindings::claw::host::provider::ProviderError;

/// Asks for the completion of a chat request, a JSON object in OpenAI's shape (`messages`, and
/// `max_tokens`, `temperature` and their like), and returns the answer's JSON.
///
/// # Errors
/// [`ProviderError`]; `?` makes a [`ToolError`] of it.
pub fn complete(request: &str) -> Result<String, ProviderError> {
    complete_on_host(request)
}

impl From<ProviderError> for ToolError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Denied(why) => Self::PermissionDenied(why),
            ProviderError::OverQuota(why) | ProviderError::Failed(why) => Self::failed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_a_refusal() {
        let kind = |error: ProviderError| ToolError::from(error);
        assert!(matches!(kind(ProviderError::Denied("x".into())), ToolError::PermissionDenied(_)));
        assert!(matches!(
            kind(ProviderError::OverQuota("x".into())),
            ToolError::ExecutionFailed(_)
        ));
        assert!(matches!(kind(ProviderError::Failed("x".into())), ToolError::ExecutionFailed(_)));
    }
}
