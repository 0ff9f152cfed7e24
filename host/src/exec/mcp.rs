//! Runs a tool of an MCP server: one request, within the call's time and the profile's output.
//!
//! The server is warm and shared by all who may call it and come as the same there; what it may touch was
//! settled when it was started. Deliberately absent: anything of the caller but its arguments.

use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;

use super::nobodys;
use super::wasm::within_output;
use crate::dialogue::Caller;
use crate::gate::Admitted;
use crate::registry::Bridged;

/// Runs `admitted` on the server that has the tool.
///
/// # Errors
/// -32011 where the server does not say of the tool what was accepted, -32014 at the deadline, -32603
/// where the server is not there or ends, -32010 where the result is larger than the profile allows.
pub(super) async fn run(
    bridged: &Bridged,
    admitted: Admitted,
    caller: Caller,
) -> Result<ToolReply, CallError> {
    let (arguments, timeout) = (admitted.arguments(), admitted.timeout());
    let Bridged { definition, kind, .. } = bridged;
    let managed = admitted.resolved().tool().managed.as_ref();
    let credential = managed.and_then(|of| of.credential(admitted.principal()));
    let server = bridged.server(credential).ok_or_else(nobodys)?;
    let reply = match kind {
        None => server.call(&definition.name, Some(definition), arguments, timeout, caller).await,
        Some(kind) => server.get(*kind, arguments, timeout, caller).await,
    };
    let called = &admitted.resolved().tool().definition.name;
    let reply = reply.map_err(|error| late_as(called, timeout, error))?;
    let bytes = reply.bytes();
    within_output(reply, bytes, &admitted)
}

/// Says of the tool that was called that it is too late: its server may have another name for it.
fn late_as(called: &str, timeout: Duration, error: CallError) -> CallError {
    match error.kind {
        ErrorKind::Timeout => {
            CallError { internal: error.internal, ..CallError::too_late(called, timeout) }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_late_has_the_name_that_was_called() {
        let time = Duration::from_millis(100);
        let error = CallError::too_late("slow", time).with_internal("the MCP server `s`");
        let late = late_as("slowly", time, error);
        assert_eq!(late.message, "`slowly` did not end within 100 ms and was stopped");
        assert_eq!(late.internal.as_deref(), Some("the MCP server `s`"));
        let other = CallError::new(ErrorKind::Upstream, "`slow` is gone");
        assert_eq!(late_as("slowly", time, other.clone()), other);
    }
}
