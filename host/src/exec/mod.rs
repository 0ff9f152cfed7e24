//! Executors: each takes an [`Admitted`] by value and runs it.
//!
//! A closed set. Deliberately absent: any check. Whoever holds an `Admitted` was checked.

mod mcp;
mod wasm;

use std::time::Instant;

use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;

use crate::gate::Admitted;
use crate::registry::Code;
use crate::sandbox::ProgressSink;
pub use wasm::Usage;

/// Runs `admitted` by what its tool is made of.
///
/// # Errors
/// Whatever keeps it from an answer; a tool that ran and failed is a reply with `is_error`.
pub async fn run(
    engine: &wasmtime::Engine,
    admitted: Admitted,
    progress: Option<ProgressSink>,
) -> (Result<ToolReply, CallError>, Usage) {
    match admitted.resolved().code().clone() {
        Code::Component(loaded) => wasm::run(engine, &loaded, admitted, progress).await,
        Code::Bridged(bridged) => {
            let started = Instant::now();
            let outcome = mcp::run(&bridged, admitted, progress).await;
            (outcome, Usage { guest: started.elapsed(), ..Usage::default() })
        }
    }
}
