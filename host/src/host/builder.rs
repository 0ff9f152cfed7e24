//! What a host is made of, and how it is put together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use cap_std::fs::Dir;
use clawhost_core::manifest::{AuditSettings, LimitSettings, Manifest};
use clawhost_core::policy::AuditTerms;

use super::Host;
use super::reload::{BuilderOffers, Stock};
use super::services::{MIGRATIONS, Outside, Services};
use crate::audit::{self, AuditLog, SigningKey};
use crate::clock::now_ms;
use crate::dispatch::{Dispatch, Parts, Terms};
use crate::engine::{CodeCache, Engine};
use crate::forward;
use crate::native::{Tool, ToolProvider};
use crate::recording::Recordings;
use crate::registry::{Releases, Shelf};
use crate::secrets::Secrets;
use crate::state::{Database, DatabaseError};
use crate::upstream::http::HttpClient;

/// What a host is made of. Whatever is not given is absent: no drop-in directory, no cache.
#[derive(Debug)]
pub struct HostBuilder {
    manifest: Manifest,
    audit: Dir,
    audit_key: Option<SigningKey>,
    offers: BuilderOffers,
    cache: Option<CodeCache>,
    compiler: Option<File>,
    limits: LimitSettings,
    database: Option<Database>,
    secrets: Secrets,
    elicitation: BTreeSet<String>,
    identities: BTreeMap<String, String>,
    audit_places: AuditSettings,
    nobodys: Option<AuditLog>,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The record cannot be opened; without one nothing runs.
    #[error("the audit log cannot be opened: {0}")]
    Audit(#[source] std::io::Error),
    /// A copy of the record that a policy asks for cannot be made.
    #[error("a copy of the audit log cannot be made: {0}")]
    AuditCopy(String),
    /// The system cannot run WebAssembly.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// A tool of the embedding program cannot be served.
    #[error("a native tool: {0}")]
    Native(String),
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
            audit_key: None,
            offers: BuilderOffers::default(),
            cache: None,
            compiler: None,
            limits: LimitSettings::default(),
            database: None,
            secrets: Secrets::none(),
            elicitation: BTreeSet::new(),
            identities: BTreeMap::new(),
            audit_places: AuditSettings::default(),
            nobodys: None,
        }
    }

    /// Signs the record with `key`; without one it is chained and not signed.
    #[must_use]
    pub fn audit_key(mut self, key: Option<SigningKey>) -> Self {
        self.audit_key = key;
        self
    }

    /// Serves `tool` as well, which is Rust code of this program: on the one path like any other, and not
    /// contained.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.offers.native.add_tool(tool);
        self
    }

    /// Serves what `provider` lists as well, each tool as `namespace__tool`; as
    /// [`tool`](Self::tool) otherwise.
    #[must_use]
    pub fn provider(mut self, provider: impl ToolProvider + 'static) -> Self {
        self.offers.native.add_provider(provider);
        self
    }

    /// Serves and watches the components in `path`.
    #[must_use]
    pub fn tools_dir(mut self, path: Option<PathBuf>) -> Self {
        self.offers.tools_dir = path;
        self
    }

    /// Waits at most this long for dropped-in components to compile and for MCP servers to connect;
    /// those that take longer join the catalog when they are ready. Without it, waits for all.
    #[must_use]
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.offers.patience.all = patience;
        self
    }

    /// Waits at most this long for MCP servers. A tool that was accepted earlier is served at once, and
    /// its calls wait for its server.
    #[must_use]
    pub fn server_patience(mut self, patience: Option<Duration>) -> Self {
        self.offers.patience.servers = patience;
        self
    }

    /// Accepts nothing that MCP servers say for the first time, and keeps its record in `nobodys` log, uncopied, where
    /// there is one: for a host that is only looked at.
    #[must_use]
    pub fn only_looking(mut self, nobodys: Option<AuditLog>) -> Self {
        self.offers.only_looks = nobodys.is_some();
        self.nobodys = nobodys;
        self
    }

    /// Serves the pinned version of a registry too, and follows the pin.
    #[must_use]
    pub fn registry(mut self, releases: Option<Releases>) -> Self {
        self.offers.releases = releases;
        self
    }

    /// Keeps compiled code from one run to the next. It is run, so no tool is granted the folder that it lies in.
    #[must_use]
    pub fn cache(mut self, cache: Option<CodeCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Has components compiled by this open program, in a jail, where the system has one: a `clawhost` of the
    /// same version. What it writes runs in this process. Without it, they are compiled in this process.
    #[must_use]
    pub fn compiler(mut self, program: Option<File>) -> Self {
        self.compiler = program;
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
        self.offers.replaceable = tools;
        self
    }

    /// Keeps what has to outlive the host in `database`, which has to have [`MIGRATIONS`]; without
    /// one, it is kept as long as the host runs.
    #[must_use]
    pub fn database(mut self, database: Option<Database>) -> Self {
        self.database = database;
        self
    }

    /// Lets the clients of these agents ask their own users to approve their calls.
    #[must_use]
    pub fn elicitation(mut self, agents: BTreeSet<String>) -> Self {
        self.elicitation = agents;
        self
    }

    /// Lets these agents speak in swarms as these identities; others speak as the host's own.
    #[must_use]
    pub fn identities(mut self, agents: BTreeMap<String, String>) -> Self {
        self.identities = agents;
        self
    }

    /// Sends the copies of the record that policies ask for to `places`.
    #[must_use]
    pub fn audit_places(mut self, places: AuditSettings) -> Self {
        self.audit_places = places;
        self
    }

    /// Looks secrets up in `secrets`; without, none can be had.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Loads everything and returns the host. Tools that cannot be used are listed in its
    /// catalog as refused; the others are served.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(mut self) -> Result<Host, BuildError> {
        let client = HttpClient::system();
        let database = match self.database.take() {
            Some(database) => database,
            None => Database::in_memory(MIGRATIONS).map_err(BuildError::Database)?,
        };
        let audit = self.record(&client, &database)?;
        let recordings = Recordings::beside(&self.audit).map_err(BuildError::Audit)?;
        let engine = self.engine()?;
        let manifest = Arc::new(self.manifest);
        let services = Services::open(Outside {
            manifest: &manifest,
            audit: Arc::clone(&audit),
            client,
            database: database.clone(),
            identities: self.identities,
            secrets: self.secrets,
        });
        let services = services.await.map_err(BuildError::Database)?;
        services.approvals.reach().allow_elicitation(self.elicitation);
        let shelf = Arc::new(Shelf::default());
        let (kept, releases) = (database.clone(), self.offers.releases.as_ref());
        // The first shelf itself would be kept with all that is on it, whatever takes its place.
        let touched = services.heed(kept, releases, shelf.successor());
        let stock = Stock { engine, database, audit, offers: self.offers, touched };
        let watcher = stock.open(&manifest, &services, &shelf).await?;
        let gate = services.gate(&manifest, &self.limits);
        let dispatch = Dispatch::new(Parts {
            engine: Arc::clone(&stock.engine),
            terms: ArcSwap::from_pointee(Terms { shelf, gate, watcher }),
            audit: Arc::clone(&stock.audit),
            results: services.results.clone(),
            recordings,
            secrets: services.secrets.clone(),
            telemetry: services.telemetry.clone(),
            limits: self.limits,
        });
        Ok(Host::new(dispatch, services, stock))
    }

    /// Opens the record, and starts its copies.
    fn record(
        &mut self,
        client: &HttpClient,
        database: &Database,
    ) -> Result<Arc<AuditLog>, BuildError> {
        if let Some(nobodys) = self.nobodys.take() {
            return Ok(Arc::new(nobodys));
        }
        let AuditTerms { retention, destinations, .. } = self.manifest.policies.audit();
        let copies = forward::start(destinations, &self.audit_places, client, database);
        let copies = copies.map_err(BuildError::AuditCopy)?;
        let (retention, key) = (*retention, self.audit_key.take());
        let terms = audit::Terms { retention, copies, key };
        let audit = AuditLog::open(&self.audit, terms).map_err(BuildError::Audit)?;
        retention.into_iter().for_each(|keep| self.forget_recordings(keep));
        Ok(Arc::new(audit.without(self.secrets.clone())))
    }

    /// Removes the recordings that are as old as records that go: they hold more than those.
    fn forget_recordings(&self, keep: Duration) {
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let recordings = Recordings::beside(&self.audit);
        let forgotten = recordings.and_then(|all| all.forget(now_ms().saturating_sub(keep_ms)));
        if let Err(error) = forgotten {
            tracing::warn!("old recordings of calls cannot be removed: {error}.");
        }
    }

    fn engine(&mut self) -> Result<Arc<Engine>, BuildError> {
        let engine = Engine::new(self.limits.calls_running_max, self.cache.take());
        let engine = engine.map(|engine| engine.compiled_by(self.compiler.take()));
        engine.map(Arc::new).map_err(|error| BuildError::Engine(format!("{error:#}")))
    }
}
