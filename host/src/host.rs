//! The embedding surface: a [`Host`] holds one catalog, one gate and one record.
//!
//! The library reads no environment, no home folder and no terminal: everything comes in
//! through [`HostBuilder`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::error::CallError;
use clawhost_core::manifest::{LimitSettings, Manifest};
use clawhost_core::reply::ToolReply;

use crate::audit::AuditLog;
use crate::dispatch::Dispatch;
pub use crate::dispatch::{Principal, Timings, ToolCall};
use crate::engine::{Allocator, CodeCache, Engine};
use crate::gate::Gate;
use crate::registry::{self, Shelf, Sources, Watcher};
use crate::state::{Database, DatabaseError, Migrations};
pub use crate::sandbox::ProgressSink;
use crate::upstream::http::HttpClient;

/// The tables of every module that keeps something.
pub const MIGRATIONS: &[Migrations] = &[];

/// A running tool host. Cheap to clone; the last clone ends it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dispatch: Dispatch,
    shelf: Arc<Shelf>,
    manifest: Arc<Manifest>,
    allocator: Allocator,
    _watcher: Option<Watcher>,
}

/// What a host is made of. Whatever is not given is absent: no drop-in directory, no cache.
#[derive(Debug)]
pub struct HostBuilder {
    manifest: Manifest,
    audit: Dir,
    tools_dir: Option<PathBuf>,
    patience: Option<Duration>,
    cache: Option<CodeCache>,
    limits: LimitSettings,
    replaceable: BTreeSet<String>,
    client: Option<HttpClient>,
    database: Option<Database>,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The record cannot be opened; without one nothing runs.
    #[error("the audit log cannot be opened: {0}")]
    Audit(#[source] std::io::Error),
    /// The system cannot run WebAssembly.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// The embedded store cannot be opened.
    #[error("the store cannot be opened: {0}")]
    Database(#[source] DatabaseError),
    /// The drop-in directory cannot be read.
    #[error("the tools directory `{path}` cannot be read: {source}", path = path.display())]
    ToolsDir {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl HostBuilder {
    /// Starts from a checked manifest and the folder of its record.
    pub fn new(manifest: Manifest, audit: Dir) -> Self {
        Self {
            manifest,
            audit,
            tools_dir: None,
            patience: None,
            cache: None,
            limits: LimitSettings::default(),
            replaceable: BTreeSet::new(),
            client: None,
            database: None,
        }
    }

    /// Serves and watches the components in `path`.
    #[must_use]
    pub fn tools_dir(mut self, path: Option<PathBuf>) -> Self {
        self.tools_dir = path;
        self
    }

    /// Waits at most this long for dropped-in components to compile; those that take longer
    /// join the catalog when they are ready. Without it, waits for all.
    #[must_use]
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Keeps compiled code from one run to the next.
    #[must_use]
    pub fn cache(mut self, cache: Option<CodeCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Bounds the host as a whole.
    #[must_use]
    pub fn limits(mut self, limits: LimitSettings) -> Self {
        self.limits = limits;
        self
    }

    /// Lets dropped-in files replace these built-in tools.
    #[must_use]
    pub fn replaceable(mut self, tools: BTreeSet<String>) -> Self {
        self.replaceable = tools;
        self
    }

    /// Keeps what has to outlive the host in `database`, which has to have [`MIGRATIONS`]; without
    /// one, it is kept as long as the host runs.
    #[must_use]
    pub fn database(mut self, database: Option<Database>) -> Self {
        self.database = database;
        self
    }

    /// Sends requests through `client` rather than one that asks the system's resolver.
    #[must_use]
    pub fn http_client(mut self, client: HttpClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Loads everything and returns the host. Tools that cannot be used are listed in its
    /// catalog as refused; the others are served.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(self) -> Result<Host, BuildError> {
        let audit = Arc::new(AuditLog::open(&self.audit).map_err(BuildError::Audit)?);
        let _database = match self.database {
            Some(database) => database,
            None => Database::in_memory(MIGRATIONS).map_err(BuildError::Database)?,
        };
        let engine = Engine::new(self.limits.calls_running_max, self.cache)
            .map_err(|e| BuildError::Engine(format!("{e:#}")))?;
        let engine = Arc::new(engine);
        let manifest = Arc::new(self.manifest);
        let shelf = Arc::new(Shelf::default());
        let sources = Sources {
            engine: Arc::clone(&engine),
            manifest: Arc::clone(&manifest),
            client: self.client.unwrap_or_else(HttpClient::system),
            replaceable: self.replaceable,
        };
        let path = self.tools_dir.clone().unwrap_or_default();
        let watcher =
            registry::open(sources, self.tools_dir, self.patience, Arc::clone(&shelf)).await;
        let watcher = watcher.map_err(|source| BuildError::ToolsDir { path, source })?;
        let gate = Gate::new(
            manifest.policies.clone(),
            manifest.autonomy,
            self.limits.arguments_bytes_max,
        );
        let allocator = engine.allocator();
        let dispatch = Dispatch::new(engine, Arc::clone(&shelf), gate, audit, self.limits);
        Ok(Host(Arc::new(Inner { dispatch, shelf, manifest, allocator, _watcher: watcher })))
    }
}

impl Host {
    /// Carries out one call. Dropping the future cancels it.
    ///
    /// # Errors
    /// See [`clawhost_core::error::ErrorKind`].
    pub async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        self.0.dispatch.call(call).await
    }

    /// As [`Host::call`], and says where the time went.
    pub async fn call_timed(&self, call: ToolCall) -> (Result<ToolReply, CallError>, Timings) {
        self.0.dispatch.call_timed(call).await
    }

    /// Returns the tools that the gate would not refuse outright, in a fixed order.
    pub fn list(&self, _principal: &Principal) -> Vec<Arc<Tool>> {
        let catalog = self.catalog();
        catalog.tools().filter(|tool| self.0.dispatch.gate().offers(tool)).cloned().collect()
    }

    /// Says whether `tool` is offered to callers: the decision that [`Host::list`] uses.
    pub fn offers(&self, tool: &Arc<Tool>) -> bool {
        self.0.dispatch.gate().offers(tool)
    }

    /// Returns the catalog in service.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.shelf.catalog()
    }

    /// Returns a receiver that changes with the catalog.
    pub fn catalog_version(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.shelf.versions()
    }

    /// Returns the manifest the host runs.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// Returns where instances get their memory.
    pub fn allocator(&self) -> Allocator {
        self.0.allocator
    }
}
