//! Everything that catalogs are made of, and the start of all that changes it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clawhost_core::manifest::Manifest;
use tokio::sync::watch::Receiver;

use super::bind::Binder;
use super::bridge::Bridges;
use super::{Own, Patience, Pins, Releases, Shelf, Watcher, builtin, package, watch};
use crate::engine::Engine;
use crate::sandbox::Backends;

/// Everything that is needed to make catalogs.
#[derive(Debug)]
pub struct Sources {
    /// Compiles and introspects.
    pub engine: Arc<Engine>,
    /// Binds tools to profiles and policies.
    pub manifest: Arc<Manifest>,
    /// What tools reach beyond this machine's files, as far as their profiles grant it.
    pub backends: Backends,
    /// Built-in tools that a dropped-in file, or a document's tool of an MCP server, may replace.
    pub replaceable: BTreeSet<String>,
    /// What was accepted of MCP servers.
    pub pins: Pins,
    /// The registry whose pinned version is served too.
    pub releases: Option<Releases>,
    /// Changes when somebody else has written to the store.
    pub touched: Receiver<i64>,
}

/// Loads the built-in components and everything in the drop-in directory, takes in what is the program's
/// `own`, starts the MCP servers, fills the shelf, and keeps watching directory and servers where
/// there are any.
///
/// The first catalog holds every tool, or, with `patience`, those that were ready by then.
///
/// # Errors
/// The directory cannot be read.
pub(crate) async fn open(
    sources: Sources,
    own: Vec<Own>,
    tools_dir: Option<PathBuf>,
    patience: Patience,
    shelf: Arc<Shelf>,
) -> std::io::Result<Option<Watcher>> {
    let built_in = builtin::load(&sources).await;
    let packaged = package::load(&sources).await;
    let mut binder = Binder::new(sources, built_in, packaged);
    binder.own = own;
    binder.follow(&shelf);
    binder.bridges = Bridges::start(&binder.sources).await;
    watch::start(binder, tools_dir, patience, shelf).await
}
