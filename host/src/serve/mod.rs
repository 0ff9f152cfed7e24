//! Serving: bytes in, calls through the gate, bytes out.
//!
//! `message` and `json` say what bytes are, `framer` owns a line connection, `lane` joins it to
//! rmcp, `mcp` is the dialect, `http` the other transport. Deliberately absent: any way to a tool
//! that is not [`Host::call`](crate::host::Host::call).

pub mod client_config;

mod calls;
mod connection;
mod convert;
mod framer;
mod http;
mod json;
mod lane;
mod lines;
mod mcp;
mod message;
mod stdio;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use self::http::{BoundServer, HttpOptions, serve_http};
pub use self::stdio::{STDIO_PRINCIPAL, serve_stdio};

/// Returns a tool's answer as the JSON that an MCP client would get.
pub(crate) fn result_json(reply: clawhost_core::reply::ToolReply) -> serde_json::Value {
    serde_json::to_value(convert::reply(reply, convert::Era::Modern)).unwrap_or_default()
}
