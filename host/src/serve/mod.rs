//! Serving: bytes in, calls through the gate, bytes out.
//!
//! `message` says what bytes are (with `core::json`), `framer` owns a line connection, `ckp` and
//! `mcp` are the dialects, `lane` joins a line connection to rmcp, and `direct` hands calls of tools
//! to the same handler past it; `http` is the other transport.
//! Deliberately absent: any way to a tool that is not [`Host::call`](crate::host::Host::call).

pub mod client_config;

mod accept;
mod beside;
mod calls;
mod ckp;
mod connection;
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

pub use self::accept::Shutdown;
pub use self::control::serve_control;
pub(crate) use self::convert::result_json;
pub use self::http::{
    BoundServer, HttpOptions, WrapOptions, serve_http, serve_metrics, serve_wrapped,
};
pub use self::registry::{Listed, list_registry, serve_registry};
pub use self::stdio::{STDIO_PRINCIPAL, serve_stdio, serve_streams};
