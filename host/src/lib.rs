//! clawhost: the WebAssembly-sandboxed tool host for AI agents.
//!
//! Every tool call, whatever runs it and whoever sends it, walks one path through one gate,
//! in a fresh sandbox that holds only what was granted, and leaves one record.
//!
//! Each module may use only those above it in this list, and [`clawhost_core`].

pub mod config;
pub mod state;

pub mod audit;
pub mod jail;
pub mod upstream;

pub mod sandbox;

pub mod engine;
pub mod registry;

pub mod gate;

pub mod exec;

pub mod dispatch;

pub mod host;
pub mod serve;

pub mod cli;

pub use host::{BuildError, Host, HostBuilder};
