//! Runs a tool of the embedding program: its own task, within the call's time and output.
//!
//! Deliberately absent: a sandbox, which no code of the host's own process can have.

use clawhost_core::error::CallError;
use clawhost_core::json;
use clawhost_core::limits::ERROR_TEXT_BYTES_MAX;
use clawhost_core::reply::{Content, ToolReply};
use serde_json::Value;
use std::sync::Arc;
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Desk;
use super::wasm::within_output;
use crate::gate::Admitted;
use crate::native::{Native, ToolError};
use crate::secrets::Secrets;

/// Runs `admitted` as the program's own code. A panic is the tool's failure, and one that never yields
/// keeps its thread and not its caller.
///
/// # Errors
/// -32014 at the deadline, -32010 where the result is larger than a call may answer.
pub(super) async fn run(
    native: &Arc<Native>,
    desk: Desk<'_>,
    admitted: Admitted,
) -> Result<ToolReply, CallError> {
    // The gate has parsed them before.
    let arguments = json::parse(admitted.arguments().as_bytes()).unwrap_or_default();
    let tool = Arc::clone(native);
    let work = AbortOnDropHandle::new(tokio::spawn(async move { tool.call(arguments).await }));
    match timeout(admitted.timeout(), work).await {
        Ok(Ok(Ok(value))) => {
            let reply = answer(value);
            let bytes = reply.bytes();
            within_output(reply, bytes, &admitted)
        }
        Ok(Ok(Err(error))) => Ok(failed(&error, &desk.gate.sides().secrets)),
        Ok(Err(ended)) => Ok(crashed(&ended)),
        Err(_) => {
            let name = &admitted.resolved().tool().definition.name;
            Err(CallError::too_late(name, admitted.timeout()))
        }
    }
}

fn answer(value: Value) -> ToolReply {
    match value {
        Value::String(text) => {
            ToolReply { content: vec![Content::Text(text)], ..ToolReply::default() }
        }
        value => ToolReply { structured: Some(value), ..ToolReply::default() },
    }
}

fn failed(error: &ToolError, secrets: &Secrets) -> ToolReply {
    let text = secrets.short(&error.to_string(), ERROR_TEXT_BYTES_MAX);
    ToolReply { internal: Some(text.clone()), ..ToolReply::error(error.kind(), text) }
}

fn crashed(error: &JoinError) -> ToolReply {
    ToolReply { internal: Some(error.to_string()), ..ToolReply::error("trap", "the tool crashed") }
}
