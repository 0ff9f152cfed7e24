//! clawhost: the WebAssembly-sandboxed tool host for AI agents.
//!
//! Every tool call, whatever runs it and whoever sends it, walks one path through one gate,
//! in a fresh sandbox that holds only what was granted, and leaves one record.
//!
//! Each module may use only those above it in this list, and [`clawhost_core`].

#[expect(clippy::disallowed_methods, reason = "it opens the files that the operator names")]
mod regular;

#[expect(clippy::disallowed_methods, reason = "it reads the environment")]
pub mod config;
#[expect(
    clippy::disallowed_methods,
    reason = "it opens the state and cache folders, and asks the environment where they are"
)]
pub mod state;

mod offload;

#[expect(clippy::disallowed_methods, reason = "it stamps records with the time of day")]
pub mod audit;
pub mod jail;
#[expect(clippy::disallowed_methods, reason = "it connects, to addresses it has checked")]
pub mod upstream;

#[expect(clippy::disallowed_methods, reason = "it opens the directories that a profile grants")]
pub mod sandbox;

#[expect(clippy::disallowed_methods, reason = "it asks the system whether it swaps")]
pub mod engine;
#[expect(clippy::disallowed_methods, reason = "it reads documents and the drop-in directory")]
pub mod registry;

pub mod approvals;

pub mod gate;

pub mod exec;

pub mod dispatch;

pub mod host;
pub mod serve;

#[expect(
    clippy::disallowed_methods,
    reason = "it reads what the user names, the environment and the terminal"
)]
pub mod cli;

pub use host::{BuildError, Host, HostBuilder};
