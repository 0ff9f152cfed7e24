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

use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;

use crate::dialogue::Caller;
use crate::engine::Loaded;
use crate::gate::Admitted;
use crate::recording::Recording;
use crate::registry::Code;
pub use own::Desk;
pub use wasm::{Again, Usage};

/// Runs `admitted` by what its tool is made of.
///
/// # Errors
/// Whatever keeps it from an answer; a tool that ran and failed is a reply with `is_error`.
pub async fn run(
    engine: &wasmtime::Engine,
    desk: Desk<'_>,
    admitted: Admitted,
    caller: Caller,
) -> (Result<ToolReply, CallError>, Usage) {
    let started = Instant::now();
    let outcome = match admitted.resolved().code().clone() {
        Code::Component(loaded) => {
            return wasm::run(engine, &loaded, admitted, caller.progress).await;
        }
        Code::Bridged(bridged) => mcp::run(&bridged, admitted, caller).await,
        Code::Composite(composite) => {
            composite::run(&composite, desk, admitted, caller.progress).await
        }
        Code::Native(native) => native::run(&native, admitted).await,
        Code::Own(tool) => own::run(tool, desk, admitted).await,
        Code::Service(granted) => http::run(&granted, admitted).await,
    };
    (outcome, Usage { guest: started.elapsed(), ..Usage::default() })
}

/// Runs a recorded call again, by the component it was of, in a sandbox that grants nothing.
///
/// # Errors
/// It cannot be begun.
pub async fn again(
    engine: &wasmtime::Engine,
    loaded: &Loaded,
    recording: Recording,
) -> Result<Again, CallError> {
    wasm::again(engine, loaded, recording).await
}
