//! Secrets by name. Needs a profile that grants them.
//!
//! Under most profiles a tool never has a value: what it gets is a placeholder, which the host
//! replaces in the headers, the path and the query of requests to the hosts that the secret is
//! for. Use it as if it were the value.

use crate::bindings::claw::host::secrets::get as get_from_host;
use crate::error::ToolError;

/// Returns the secret `name`, or what stands for it.
///
/// # Errors
/// `permission-denied` where the profile does not grant it.
pub fn get(name: &str) -> Result<String, ToolError> {
    get_from_host(name)
        .ok_or_else(|| ToolError::PermissionDenied(format!("the secret {name} is not granted")))
}
