//! clawhost: the WebAssembly-sandboxed tool host for AI agents.
//!
//! Every tool call, whatever runs it and whoever sends it, walks one path through one gate,
//! in a fresh sandbox that holds only what was granted, and leaves one record.
//!
//! # A host inside a program
//!
//! What a program needs to hold a host is at the root of this crate: [`HostBuilder`] makes a [`Host`]
//! of a checked [`manifest`] and the folder of its record, and [`Host::call`] is the one path. The
//! library reads no environment, no home folder and no terminal. [`Tool`] and [`ToolProvider`] are for
//! tools in Rust; `host/examples/embed.rs` is a whole program.
//!
//! A program answers for its own user by [`Host::approvals`]: [`approvals::Reach::open`] says that somebody can be
//! asked, [`approvals::Approvals::changes`] tells that something is, and [`approvals::Approvals::answer`] ends it.
//! The record is in the folder that the program hands in; [`HostBuilder::audit_places`] has it copied. Deliberately
//! absent: a clock of the program's own, which would date a signed record as it likes.
//!
//! ```
//! use cap_std::{ambient_authority, fs::Dir};
//! use clawhost::manifest::{self, OneDocument, Surroundings};
//! use clawhost::{HostBuilder, Principal, ToolCall};
//! use serde_json::json;
//!
//! const CLAW: &str = r#"
//! claw: "0.3.0"
//! kind: Claw
//! metadata: {name: example}
//! spec:
//!   identity: {inline: {personality: Calculates., autonomy: autonomous}}
//!   providers:
//!     - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
//!   tools: [{name: calculator, sandbox: claw://sandbox/none}]
//!   policies:
//!     - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
//! "#;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let profiles = manifest::builtin_profiles(folder.path()).unwrap();
//! let around = Surroundings { directory: folder.path(), profiles: &profiles };
//! let documents = OneDocument(CLAW.as_bytes().to_vec());
//! let manifest = manifest::load(&documents, &["claw.yaml".into()], around).unwrap();
//!
//! let audit = Dir::open_ambient_dir(folder.path(), ambient_authority())?;
//! let host = HostBuilder::new(manifest, audit).build().await?;
//! let me = Principal("me".to_owned());
//! let call = ToolCall::new(me, "calculator", json!({"expression": "6 * 7"}));
//! let reply = host.call(call).await?;
//! assert_eq!(reply.structured.unwrap()["result"], "42");
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Each may use only those above it in this list, and [`clawhost_core`]; the empty lines keep the
//! order. Those that the documentation hides are public for the tests and benches of this repository,
//! and promise nothing.

#[expect(clippy::disallowed_methods, reason = "it asks for the time of day")]
mod clock;

mod random;

#[expect(clippy::disallowed_methods, reason = "it opens the files that the operator names")]
mod regular;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests write their own files"))]
#[doc(hidden)]
pub mod config;

#[expect(
    clippy::disallowed_methods,
    reason = "it opens the state and cache folders, and asks the environment where they are"
)]
pub mod state;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests write their own files"))]
pub mod secrets;

mod offload;

mod lines;

mod sse;

mod progress;

mod dialogue;

mod watched;

mod outbox;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod audit;

#[doc(hidden)]
pub mod replay;

pub mod approvals;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod switches;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod quarantine;

#[doc(hidden)]
pub mod results;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
#[doc(hidden)]
pub mod recording;

mod continuity;

#[doc(hidden)]
pub mod jail;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests are servers and programs"))]
#[doc(hidden)]
pub mod upstream;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests look at their own files"))]
#[doc(hidden)]
pub mod memory;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests read their own files"))]
mod place;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
#[doc(hidden)]
pub mod forward;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests read their own files"))]
#[doc(hidden)]
pub mod telemetry;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests read their own files"))]
#[doc(hidden)]
pub mod channels;

#[doc(hidden)]
pub mod swarm;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests lay out directories"))]
#[doc(hidden)]
pub mod sandbox;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
#[doc(hidden)]
pub mod engine;

mod native;

#[expect(clippy::disallowed_methods, reason = "it reads documents and the drop-in directory")]
pub mod registry;

#[doc(hidden)]
#[expect(clippy::disallowed_methods, reason = "it writes the tools folder and the lock file")]
mod distribution;

pub mod gate;

#[doc(hidden)]
pub mod exec;

#[doc(hidden)]
pub mod dispatch;

#[cfg_attr(test, expect(clippy::disallowed_methods, reason = "its tests open their own folders"))]
pub mod host;

#[expect(clippy::disallowed_methods, reason = "it makes a folder of its own, and looks at it")]
#[doc(hidden)]
pub mod attack;

#[doc(hidden)]
pub mod proxy;

pub mod serve;

#[expect(
    clippy::disallowed_methods,
    reason = "it reads what the user names, the environment and the terminal"
)]
pub mod cli;

pub use async_trait::async_trait;
pub use clawhost_core::error::CallError;
pub use clawhost_core::manifest::Manifest;
pub use clawhost_core::reply::ToolReply;
pub use clawhost_core::{catalog, error, manifest, reply, uri};
pub use host::{BuildError, Host, HostBuilder, Principal, ProgressSink, ToolCall};
pub use native::{Tool, ToolError, ToolProvider};
