//! clawhost: the WebAssembly-sandboxed tool host for AI agents.
//!
//! Every tool call, whatever runs it and whoever sends it, walks one path through one gate,
//! in a fresh sandbox that holds only what was granted, and leaves one record.
//!
//! Each module may use only those above it in this list, and [`clawhost_core`]; the empty lines keep
//! the order.

#[expect(clippy::disallowed_methods, reason = "it asks for the time of day")]
mod clock;

mod random;

#[expect(clippy::disallowed_methods, reason = "it opens the files that the operator names")]
mod regular;

#[expect(clippy::disallowed_methods, reason = "it reads the environment")]
pub mod config;

#[expect(
    clippy::disallowed_methods,
    reason = "it opens the state and cache folders, and asks the environment where they are"
)]
pub mod state;

#[expect(clippy::disallowed_methods, reason = "it opens the folder of secrets")]
pub mod secrets;

mod offload;

mod lines;

mod progress;

mod outbox;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod audit;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests look at their own files"))]
pub mod memory;

pub mod replay;

pub mod approvals;

pub mod jail;

#[expect(clippy::disallowed_methods, reason = "it connects, to addresses it has checked")]
pub mod upstream;

#[expect(clippy::disallowed_methods, reason = "it puts a file aside that is full")]
mod place;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod forward;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests read their own files"))]
pub mod telemetry;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests read their own files"))]
pub mod channels;

pub mod swarm;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests lay out directories"))]
pub mod sandbox;

#[expect(clippy::disallowed_methods, reason = "it asks the system whether it swaps")]
pub mod engine;

#[expect(clippy::disallowed_methods, reason = "it reads documents and the drop-in directory")]
pub mod registry;

pub mod gate;

pub mod exec;

pub mod dispatch;

pub mod host;

#[expect(clippy::disallowed_methods, reason = "it makes a folder of its own, and looks at it")]
pub mod attack;

pub mod serve;

#[expect(
    clippy::disallowed_methods,
    reason = "it reads what the user names, the environment and the terminal"
)]
pub mod cli;

pub use host::{BuildError, Host, HostBuilder};
