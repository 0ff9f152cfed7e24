//! Where tools come from: the built-in components, the manifest that binds them, the registries
//! and MCP servers that it names, and the drop-in directory. Every change makes a new catalog,
//! swapped in atomically; calls that run keep the one they started with.

mod bind;
mod bridge;
mod builtin;
mod code;
mod documents;
mod drop_in;
mod index;
mod job;
mod locked;
mod needs;
mod offer;
mod own;
mod package;
mod preview;
mod releases;
mod remote;
mod resolved;
mod services;
mod shelf;
mod sources;
mod watch;

pub(crate) use bridge::Bridged;
pub use bridge::{MIGRATIONS, Pin, PinState, Pins, misplaced, plan_alone};
pub use builtin::{BUILT_IN_COMPONENTS, built_in_names, built_in_tools, tool_names};
pub(crate) use code::ToolCode;
pub use documents::FileDocuments;
pub(crate) use index::{Index, Part, is_publishable};
pub(crate) use locked::{LOCK_FILE, read_lock};
pub(crate) use own::Own;
pub use own::OwnTool;
pub use preview::{Preview, preview};
pub use releases::{
    MIGRATIONS as RELEASE_MIGRATIONS, Pin as ReleasePin, ReleaseError, Releases, Seed, Version,
    gather,
};
pub use remote::{Published, Registries};
pub use resolved::Resolved;
pub use services::contexts;
pub use shelf::Shelf;
pub use sources::Sources;
pub(crate) use sources::open;
pub use watch::{Patience, Watcher};

/// What is served without a manifest: the built-in tools under safe profiles.
pub const DEFAULT_MANIFEST: &str = include_str!("default.yaml");
