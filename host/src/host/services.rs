//! What a host keeps beside its tools: each service once, whoever asks for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clawhost_core::limits::STORE_POLL_MS;
use clawhost_core::manifest::{LimitSettings, Manifest};
use futures_util::future::OptionFuture;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::approvals::{self, Approvals};
use crate::audit::AuditLog;
use crate::channels::Channels;
use crate::clock::Clock;
use crate::continuity;
use crate::forward;
use crate::gate::{Gate, Sides};
use crate::memory::{self, Keys, Memory};
use crate::quarantine::{self, Quarantine};
use crate::registry::{self, Releases, Shelf};
use crate::replay::{self, Replay};
use crate::results::{self, Results};
use crate::sandbox::{Backends, Spawns};
use crate::secrets::Secrets;
use crate::state::{Database, DatabaseError, Migrations};
use crate::swarm::Swarm;
use crate::switches::{self, Switches};
use crate::telemetry::{Event, Telemetry};
use crate::upstream::http::HttpClient;
use crate::upstream::provider::{self, Providers, UsageSink};

/// The tables of every module that keeps something.
pub const MIGRATIONS: &[Migrations] = &[
    ("approvals", approvals::MIGRATIONS),
    ("audit", forward::MIGRATIONS),
    ("keys", memory::KEYS_MIGRATIONS),
    ("memory", memory::MIGRATIONS),
    ("pins", registry::MIGRATIONS),
    ("providers", provider::MIGRATIONS),
    ("proxy", continuity::MIGRATIONS),
    ("quarantine", quarantine::MIGRATIONS),
    ("registry", registry::RELEASE_MIGRATIONS),
    ("replay", replay::MIGRATIONS),
    ("results", results::MIGRATIONS),
    ("switches", switches::MIGRATIONS),
];

/// What services are made from.
pub(super) struct Outside<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) audit: Arc<AuditLog>,
    pub(super) client: HttpClient,
    pub(super) database: Database,
    pub(super) identities: BTreeMap<String, String>,
    pub(super) secrets: Secrets,
}

/// The services of one host.
#[derive(Debug)]
pub(super) struct Services {
    /// How often this host accepted what servers say: the store tells it of other writers only.
    pub(super) accepted: Arc<AtomicI64>,
    pub(super) approvals: Approvals,
    pub(super) channels: Channels,
    pub(super) client: HttpClient,
    pub(super) identities: BTreeMap<String, String>,
    pub(super) keys: Keys,
    pub(super) memory: Memory,
    pub(super) providers: Providers,
    pub(super) quarantine: Quarantine,
    pub(super) replay: Replay,
    pub(super) results: Results,
    pub(super) secrets: Secrets,
    pub(super) swarm: Swarm,
    pub(super) switches: Switches,
    pub(super) telemetry: Telemetry,
}

impl Services {
    /// Opens them all. Nothing is connected to yet.
    pub(super) async fn open(outside: Outside<'_>) -> Result<Self, DatabaseError> {
        let Outside { manifest, audit, client, database, identities, secrets } = outside;
        learn(&secrets, manifest);
        let switches = Switches::open(database.clone(), Arc::clone(&audit)).await?;
        let (own, log) = (database.clone(), Arc::clone(&audit));
        let quarantine = Quarantine::open(own, log, Clock::system()).await?;
        let plan = manifest.telemetry.as_ref();
        let telemetry = plan.map_or_else(Telemetry::off, |plan| {
            Telemetry::start(plan, &manifest.name, &client, &secrets)
        });
        let screens = (manifest.policies.screens().clone(), *secrets.tokens());
        let (identity, swarms) = (manifest.identity.as_str(), manifest.swarms.clone());
        let swarm = Swarm::new(swarms, identity, telemetry.clone(), Clock::steady());
        let (plans, rates) = (manifest.providers.clone(), manifest.policies.rates());
        let providers =
            Providers::open(plans, rates, client.clone(), secrets.clone(), database.clone());
        let providers = providers.await?;
        providers.tell(usage_sink(telemetry.clone()));
        providers.hold_to(manifest);
        Ok(Self {
            accepted: Arc::default(),
            approvals: Approvals::new(database.clone(), Clock::system()),
            channels: Channels::start(&manifest.channels, &client, &secrets),
            keys: Keys::new(database.clone(), identity),
            memory: Memory::new(
                manifest.memory.clone(),
                database.clone(),
                audit,
                screens,
                Some(providers.clone()),
            ),
            providers,
            quarantine,
            replay: Replay::new(database.clone(), Clock::system()),
            results: Results::new(database),
            client,
            identities,
            secrets,
            swarm,
            switches,
            telemetry,
        })
    }

    /// Heeds what others write to the store and to the embedded registry (verbs of the operator, hosts beside this
    /// one) as long as anybody has what this returns, which then changes. Whoever waits for a change of `shelf` hears of
    /// switches, too.
    pub(super) fn heed(
        &self,
        database: Database,
        releases: Option<&Releases>,
        shelf: Shelf,
    ) -> watch::Receiver<i64> {
        let (tell, told) = watch::channel(0);
        let (switches, quarantine) = (self.switches.clone(), self.quarantine.clone());
        let providers = self.providers.clone();
        let accepted = Arc::clone(&self.accepted);
        let registry = releases.and_then(Releases::database);
        let registry = registry.filter(|registry| !registry.is_same(&database)).cloned();
        let mut seeded = 0;
        tokio::spawn(async move {
            let wait = Duration::from_millis(STORE_POLL_MS);
            while timeout(wait, tell.closed()).await.is_err() {
                let Ok(version) = database.version().await else { continue };
                // One that cannot be asked has not changed, and keeps nobody from the store.
                if let Some(Ok(version)) =
                    OptionFuture::from(registry.as_ref().map(Database::version)).await
                {
                    seeded = version;
                }
                let accepted = accepted.load(Ordering::Relaxed);
                let version = version.wrapping_add(accepted).wrapping_add(seeded);
                if *tell.borrow() == version {
                    continue;
                }
                let (turned, rests, spent) =
                    tokio::join!(switches.reread(), quarantine.reread(), providers.reread());
                let turned = turned.map(|turned| turned.then(|| shelf.touch()));
                if let Err(error) = turned.and(rests).and(spent) {
                    tracing::warn!("what others have kept cannot be read: {error}");
                    continue;
                }
                tell.send_replace(version);
            }
        });
        told
    }

    /// Keeps what another manifest grants out of sight as well.
    pub(super) fn learn(&self, manifest: &Manifest) {
        learn(&self.secrets, manifest);
    }

    /// Returns what the sandboxes of this host reach, beside a folder of compiled code.
    pub(super) fn backends(&self, code_folder: Option<&Path>) -> Backends {
        Backends {
            client: self.client.clone(),
            providers: Some(self.providers.clone()),
            secrets: self.secrets.clone(),
            spawns: Spawns::default(),
            keys: Some(self.keys.clone()),
            channels: self.channels.clone(),
            code_folder: code_folder.map(Path::to_path_buf),
        }
    }

    /// Returns the checks that calls of this host have to pass.
    pub(super) fn gate(&self, manifest: &Arc<Manifest>, limits: &LimitSettings) -> Gate {
        let sides = Sides {
            approvals: self.approvals.clone(),
            providers: self.providers.clone(),
            secrets: self.secrets.clone(),
            switches: self.switches.clone(),
            quarantine: self.quarantine.clone(),
            arguments_bytes_max: limits.arguments_bytes_max,
        };
        Gate::new(Arc::clone(manifest), sides)
    }
}

/// Keeps what a manifest names out of sight, also where an agent has it from elsewhere, as from a file `.env`.
fn learn(secrets: &Secrets, manifest: &Manifest) {
    secrets.learn(manifest.secrets());
    secrets.learn_any(manifest.outgoing_secrets());
}

/// Tells telemetry what completions use.
fn usage_sink(telemetry: Telemetry) -> UsageSink {
    Box::new(move |provider, used, cost_usd| {
        telemetry.emit(Event::Usage {
            provider: provider.to_owned(),
            input_tokens: used.prompt_tokens,
            output_tokens: used.completion_tokens,
            cost_usd,
        });
    })
}
