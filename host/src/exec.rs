//! Executors: each takes an [`Admitted`] by value and runs it.
//!
//! A closed set. Deliberately absent: any check. Whoever holds an `Admitted` was checked.

mod composite;
mod http;
mod mcp;
mod native;
mod own;
mod wasm;

use std::time::Instant;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;

use crate::dialogue::Caller;
use crate::gate::Admitted;
use crate::registry::ToolCode;
pub use own::Desk;
pub use wasm::{Again, Usage, again};

/// Runs `admitted` by what its tool is made of.
///
/// # Errors
/// Whatever keeps it from an answer; a tool that ran and failed is a reply with `is_error`.
pub async fn run(
    desk: Desk<'_>,
    admitted: Admitted,
    caller: Caller,
) -> (Result<ToolReply, CallError>, Usage) {
    // Each on the heap: some are large, none pays for another, and calls within calls lie on one stack.
    let started = Instant::now();
    let records = admitted.resolved().grants().record;
    let outcome = match admitted.resolved().code().clone() {
        ToolCode::Component(loaded) => {
            let ran = Box::pin(wasm::run(&loaded, admitted, caller.progress)).await;
            return ran.unwrap_or_else(|error| (Err(error), Usage::default()));
        }
        ToolCode::Bridged(bridged) => Box::pin(mcp::run(&bridged, admitted, caller)).await,
        ToolCode::Composite(composite) => {
            Box::pin(composite::run(&composite, desk, admitted, caller.progress)).await
        }
        ToolCode::Native(native) => Box::pin(native::run(&native, desk, admitted)).await,
        ToolCode::Own(tool) => Box::pin(own::run(tool, desk, admitted)).await,
        ToolCode::Service(granted) => Box::pin(http::run(&granted, admitted)).await,
    };
    let recording = records.then(|| Err("only calls of components are recorded".to_owned()));
    (outcome, Usage { guest: started.elapsed(), recording, ..Usage::default() })
}

/// Refuses a call of a service's tool by an agent that it was not compiled for.
fn nobodys() -> CallError {
    CallError::new(ErrorKind::Policy, "the tool is not this agent's").with("stage", "agent")
}
