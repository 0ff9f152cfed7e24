//! Serving: bytes in, calls through the gate, bytes out.
//!
//! `message` says what bytes are (with `core::json`), `framer` owns a line connection, `ckp` and
//! `mcp` are the dialects, `lane` joins a line connection to rmcp, `http` is the other transport.
//! Deliberately absent: any way to a tool that is not [`Host::call`](crate::host::Host::call).

pub mod client_config;

mod accept;
mod beside;
mod calls;
mod ckp;
mod connection;
mod console;
mod control;
mod convert;
mod direct;
mod elicit;
mod framer;
mod http;
mod lane;
mod mcp;
mod message;
mod operator;
mod params;
mod progress;
mod questions;
mod registry;
pub(crate) mod status;
mod stdio;
mod waiting;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clawhost_core::limits::SHUTDOWN_GRACE_MS;
use tokio_util::sync::CancellationToken;

pub use self::control::serve_control;
pub use self::http::{
    BoundServer, HttpOptions, WrapOptions, serve_http, serve_metrics, serve_wrapped,
};
pub use self::registry::{Listed, list_registry, serve_registry};
pub use self::stdio::{STDIO_PRINCIPAL, serve_stdio, serve_streams};

/// How serving ends: when it is told, and what running calls then get.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Cancelled to begin it.
    pub told: CancellationToken,
    /// How long running calls may take to end.
    pub grace: Duration,
}

impl From<CancellationToken> for Shutdown {
    /// Gives running calls [`SHUTDOWN_GRACE_MS`].
    fn from(told: CancellationToken) -> Self {
        Self { told, grace: Duration::from_millis(SHUTDOWN_GRACE_MS) }
    }
}

/// Returns a tool's answer as the JSON that an MCP client would get.
pub(crate) fn result_json(reply: clawhost_core::reply::ToolReply) -> serde_json::Value {
    serde_json::to_value(convert::reply(reply, convert::Era::Modern)).unwrap_or_default()
}
