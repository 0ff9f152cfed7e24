//! The checks that need no policy: size, schema, and whether the sandbox can be had.

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::{Grants, Shell};
use serde_json::Value;

use crate::offload;

pub(super) fn size(bytes: usize, bytes_max: usize) -> Result<(), CallError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let reason = format!("the arguments are {bytes} bytes; at most {bytes_max} are taken");
    Err(CallError::new(ErrorKind::InvalidArguments, reason)
        .with("stage", "schema")
        .with("limit", "arguments_bytes_max"))
}

pub(super) fn schema(tool: &Tool, arguments: &Value) -> Result<(), CallError> {
    for schema in &tool.input {
        offload::check(schema, arguments).map_err(|reason| {
            let text = format!("invalid arguments for `{}`: {reason}", tool.definition.name);
            CallError::new(ErrorKind::InvalidArguments, text).with("stage", "schema")
        })?;
    }
    Ok(())
}

/// Says whether a call under `grants` can run at all.
pub(super) fn sandbox(grants: &Grants) -> Result<(), CallError> {
    if grants.shell == Shell::Restricted {
        let reason = "`shell.mode: restricted` is not served by this version";
        return Err(refused_sandbox(&grants.profile, reason));
    }
    if grants.limits.timeout.is_zero() {
        return Err(refused_sandbox(&grants.profile, "it gives its tools no time"));
    }
    Ok(())
}

pub(super) fn refused_sandbox(profile: &str, reason: &str) -> CallError {
    CallError::new(ErrorKind::Sandbox, format!("profile `{profile}`: {reason}"))
        .with("stage", "sandbox")
        .with("profile", profile)
}
