//! What the tests of clawhost are made with: a host in a temporary folder, guests that
//! misbehave, the command line, and canaries that show whether anything left its sandbox.
//!
//! Deliberately absent: tests. They are in `tests/it`, one binary for all of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test support: a failure to set a test up is a failed test"
)]

pub mod canary;
pub mod ckp;
pub mod cli;
pub mod client;
pub mod collector;
pub mod guest;
pub mod host;
pub mod leaks;
pub mod listening;
pub mod model;
pub mod native;
pub mod postgres;
pub mod program;
pub mod proxied;
pub mod served;
pub mod wait;

pub use cli::Cli;
pub use client::Client;
pub use guest::Guest;
pub use host::TestHost;
pub use model::Model;
pub use native::native;
pub use postgres::Postgres;
pub use program::Program;
pub use proxied::Proxied;
pub use served::Served;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// Where nobody listens: the port is not among those that the system gives away.
pub const NOBODY: &str = "http://127.0.0.1:9";

/// Returns the folder that compiled code is kept in, so that the built-in tools compile once
/// for all tests of a build.
pub fn cache_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // …/target/debug/deps/it-0123: the folder beside `debug` that Cargo gives to tests.
    let target = program.ancestors().find(|path| path.join("CACHEDIR.TAG").is_file());
    // Never one that others may write: what lies there is run.
    let target = target.map_or_else(|| source_root().join("target"), PathBuf::from);
    let folder = target.join("tmp/clawhost");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

/// Returns the root of the source tree.
pub fn source_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
