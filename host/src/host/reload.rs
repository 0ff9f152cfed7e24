//! Another manifest for a host that runs: all of it or nothing.
//!
//! The new catalog is made beside the old one, and takes its place together with the new policies. Calls
//! that run keep what they began with. Deliberately absent: whatever is older than a catalog (memory,
//! providers, swarms, telemetry, the record's copies): where that changes, the host has to start anew.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clawhost_core::manifest::{Manifest, ProviderPlan};
use clawhost_core::policy::Rates;
use tokio::sync::watch;

use super::services::Services;
use super::{BuildError, Host};
use crate::audit::{AuditLog, Event};
use crate::dispatch::Terms;
use crate::engine::Engine;
use crate::native::NativeTools;
use crate::registry::{self, Own, Patience, Pins, Releases, Shelf, Sources, Watcher};
use crate::state::Database;

/// Why a host goes on with the manifest it has.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The change could not be recorded.
    #[error("it could not be recorded: {0}")]
    Audit(#[source] std::io::Error),
    /// The catalog could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Something changed that a host keeps as long as it runs.
    #[error("start the host anew for a change of {}", .0.join(", "))]
    Restart(Vec<&'static str>),
}

/// What is offered beside what a manifest names, as the builder was told.
#[derive(Debug, Default)]
pub(super) struct BuilderOffers {
    pub(super) native: NativeTools,
    pub(super) replaceable: BTreeSet<String>,
    pub(super) tools_dir: Option<PathBuf>,
    pub(super) patience: Patience,
    /// Nothing that servers say is accepted by this host.
    pub(super) only_looks: bool,
    /// The registry whose pinned version is served too.
    pub(super) releases: Option<Releases>,
}

/// What catalogs are made of beside a manifest.
#[derive(Debug)]
pub(super) struct Stock {
    pub(super) engine: Arc<Engine>,
    pub(super) database: Database,
    pub(super) audit: Arc<AuditLog>,
    pub(super) offers: BuilderOffers,
    /// Changes when somebody else has written to the store.
    pub(super) touched: watch::Receiver<i64>,
}

impl Stock {
    /// Fills `shelf` with what `manifest` binds, and keeps it in step as long as the watcher lives.
    pub(super) async fn open(
        &self,
        manifest: &Arc<Manifest>,
        services: &Services,
        shelf: &Arc<Shelf>,
    ) -> Result<Option<Watcher>, BuildError> {
        let offers = &self.offers;
        let own = Own::all(&offers.native, manifest, self.engine.schemas());
        let own = own.map_err(BuildError::Native)?;
        let audit = Some(Arc::clone(&self.audit));
        let sources = Sources {
            engine: Arc::clone(&self.engine),
            manifest: Arc::clone(manifest),
            backends: services.backends(self.engine.code_folder()),
            replaceable: offers.replaceable.clone(),
            pins: Pins::new(self.database.clone(), audit, manifest.mcp_pins)
                .only_looking(offers.only_looks),
            releases: offers.releases.clone(),
            touched: self.touched.clone(),
        };
        let (path, shelf) = (offers.tools_dir.clone(), Arc::clone(shelf));
        let watcher = registry::open(sources, own, path.clone(), offers.patience, shelf).await;
        let path = path.unwrap_or_default();
        watcher.map_err(|source| BuildError::ToolsDir { path, source })
    }
}

impl Host {
    /// Serves what `manifest` says from now on, and tells clients. MCP servers are started anew. Where it
    /// fails, nothing has changed.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub async fn reload(&self, manifest: Manifest) -> Result<(), ReloadError> {
        let _alone = self.0.reloading.lock().await;
        let old = self.0.dispatch.terms();
        match fixed(old.gate.manifest(), &manifest) {
            changed if changed.is_empty() => {}
            changed => return Err(ReloadError::Restart(changed)),
        }
        let manifest = Arc::new(manifest);
        self.0.services.learn(&manifest);
        let shelf = Arc::new(old.shelf.successor());
        let watcher = self.0.stock.open(&manifest, &self.0.services, &shelf).await?;
        let gate = old.gate.under(Arc::clone(&manifest));
        let name = ("manifest", manifest.name.as_str());
        self.0.stock.audit.note(Event::Reloaded, [name]).map_err(ReloadError::Audit)?;
        self.0.services.memory.hold_to(manifest.policies.screens().clone());
        self.0.services.providers.hold_to(&manifest);
        self.0.dispatch.settle(Terms { shelf: Arc::clone(&shelf), gate, watcher });
        shelf.touch();
        Ok(())
    }
}

/// Says what differs between two manifests that a host keeps as long as it runs.
fn fixed(old: &Manifest, new: &Manifest) -> Vec<&'static str> {
    let rates = |of: &Manifest| Rates { tool_calls_per_minute: None, ..of.policies.rates() };
    let copies =
        |of: &Manifest| (of.policies.audit().destinations.clone(), of.policies.audit().retention);
    let providers = |of: &Manifest| {
        // Where they stand in a file is nothing of theirs.
        let plain = |plan: &ProviderPlan| ProviderPlan { at: String::new(), ..plan.clone() };
        of.providers.iter().map(plain).collect::<Vec<_>>()
    };
    [
        ("the identity", old.identity == new.identity),
        ("the Claw's name", old.name == new.name),
        ("`providers`", providers(old) == providers(new) && rates(old) == rates(new)),
        ("`memory`", old.memory == new.memory),
        ("`channels`", old.channels == new.channels),
        ("`swarm`", old.swarms == new.swarms),
        ("`telemetry`", old.telemetry == new.telemetry),
        ("the policies' `audit`", copies(old) == copies(new)),
    ]
    .into_iter()
    .filter_map(|(what, is_same)| (!is_same).then_some(what))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use clawhost_core::manifest::{self, OneDocument, Surroundings};
    use tokio::time::timeout;

    use super::*;
    use crate::HostBuilder;
    use crate::registry::DEFAULT_MANIFEST;

    fn nothing() -> Manifest {
        let profiles = manifest::builtin_profiles(Path::new("/")).unwrap();
        let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
        let claw = OneDocument(DEFAULT_MANIFEST.as_bytes().to_vec());
        let mut manifest = manifest::load(&claw, &["claw.yaml".into()], around).unwrap();
        manifest.tools.clear();
        manifest
    }

    #[tokio::test]
    async fn what_a_reload_replaces_is_gone_with_its_servers() {
        let folder = tempfile::tempdir().unwrap();
        let record = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let host = HostBuilder::new(nothing(), record).build().await.unwrap();
        for _ in 0..2 {
            let shelf = Arc::downgrade(&host.0.dispatch.terms().shelf);
            host.reload(nothing()).await.unwrap();
            let gone = async {
                while shelf.strong_count() > 0 {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), gone).await.unwrap();
        }
    }
}
