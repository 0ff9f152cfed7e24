//! The snapshot in service, swapped as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use clawhost_core::catalog::Catalog;
use tokio::sync::watch;

use super::bind::Claims;
use super::{Resolved, ToolCode};
use crate::sandbox::Sandbox;

/// A catalog and the code behind each of its tools, by MCP name.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) catalog: Arc<Catalog>,
    pub(super) runnables: BTreeMap<String, Runnable>,
    /// Which names the files have.
    pub(super) claims: Arc<Claims>,
}

/// What runs a tool, and its sandbox, opened.
#[derive(Debug, Clone)]
pub(super) struct Runnable {
    pub(super) code: ToolCode,
    pub(super) sandbox: Arc<Sandbox>,
}

/// The snapshot in service. Swapping it disturbs no running call.
#[derive(Debug)]
pub struct Shelf {
    pub(super) current: ArcSwap<Snapshot>,
    version: Arc<watch::Sender<u64>>,
}

impl Default for Shelf {
    fn default() -> Self {
        let version = Arc::new(watch::Sender::new(0));
        Self { current: ArcSwap::default(), version }
    }
}

impl Shelf {
    /// Returns an empty shelf that is to take the place of this one: whoever waits for a change of this
    /// one hears of its changes too.
    pub(crate) fn successor(&self) -> Self {
        let before = self.current.load();
        let catalog = Arc::new(Catalog::new(before.catalog.version));
        let claims = Arc::clone(&before.claims);
        let current = Snapshot { catalog, claims, ..Snapshot::default() };
        Self { current: ArcSwap::from_pointee(current), version: Arc::clone(&self.version) }
    }

    /// Wakes whoever waits for a change: not what is there changed, but who is offered it.
    pub(crate) fn touch(&self) {
        self.version.send_modify(|_| {});
    }

    /// Returns the tool a caller means, or none.
    pub fn resolve(&self, name: &str) -> Option<Resolved> {
        let snapshot = self.current.load();
        let tool = snapshot.catalog.find(name)?;
        let runnable = snapshot.runnables.get(&tool.definition.name)?;
        let release = snapshot.catalog.release;
        Some(Resolved { tool: Arc::clone(tool), release, runnable: runnable.clone() })
    }

    /// Returns the catalog in service.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.load().catalog)
    }

    /// Returns a receiver that changes with the catalog.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(super) fn publish(&self, snapshot: Snapshot) {
        let version = snapshot.catalog.version;
        self.current.store(Arc::new(snapshot));
        // Whoever waits for a change is woken by one only.
        self.version.send_if_modified(|seen| std::mem::replace(seen, version) != version);
    }
}
