//! From [`Grants`] to live capabilities: the only module that opens granted paths.
//!
//! A [`Sandbox`] is opened once, when a tool is loaded; each call gets a fresh
//! [`CallState`] from it. Deliberately absent: any decision. What is granted was settled in
//! core; here it is only made real.

mod agent;
pub mod bindings;
mod claw_host;
pub mod clock;
pub mod fs;
pub mod http;
mod limiter;
mod linker;
pub mod log;
mod masked;
mod process;
mod provider;
mod secrets;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::grants::{Grants, Shell};

pub use linker::link;
pub use state::{CallState, ProgressSink};

use crate::channels::Channels;
use crate::memory::Keys;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::provider::Providers;
use agent::AgentCtx;
use clock::CallClock;
use fs::{FsCtx, Roots};
use http::HttpCtx;
use log::CallLog;
pub use process::Spawns;
use process::{ProcessCtx, ProfileJail};
use provider::ProviderCtx;
use secrets::CallSecrets;
use state::Parts;

/// A tool's grants with their directories opened, ready to make any number of calls.
#[derive(Debug)]
pub struct Sandbox {
    grants: Grants,
    roots: Arc<Roots>,
    egress: Option<Arc<clawhost_core::egress::EgressRules>>,
    jail: Option<Arc<ProfileJail>>,
    backends: Backends,
}

/// What the sandboxes of one host reach through it, each as far as its grants go. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Backends {
    /// The way out for those with a network grant.
    pub client: HttpClient,
    /// Whom those with that grant may ask for completions.
    pub providers: Option<Providers>,
    /// Where the values of granted secrets come from.
    pub secrets: Secrets,
    /// Counts the programs that agents run without a shell.
    pub spawns: Spawns,
    /// What is kept for agents, for those with that grant.
    pub keys: Option<Keys>,
    /// Where messages may go, for those that name them.
    pub channels: Channels,
}

impl Backends {
    /// Returns a way out, and nobody to ask and no secrets.
    pub fn none() -> Self {
        Self {
            client: HttpClient::system(),
            providers: None,
            secrets: Secrets::none(),
            spawns: Spawns::default(),
            keys: None,
            channels: Channels::none(),
        }
    }
}

/// A grant that cannot be made real here.
#[derive(Debug, Clone, thiserror::Error)]
#[error("profile `{profile}`: {reason}")]
pub struct SandboxError {
    /// The profile that grants it.
    pub profile: String,
    /// What cannot be had, and what would help.
    pub reason: String,
}

impl Sandbox {
    /// Opens everything `grants` name, for calls that reach `backends`.
    ///
    /// # Errors
    /// A directory that is missing or is no directory, or a jail this system cannot build.
    pub fn open(mut grants: Grants, backends: Backends) -> Result<Self, SandboxError> {
        let profile = grants.profile.clone();
        resolve_parents(&mut grants).map_err(|reason| SandboxError { profile, reason })?;
        let fail = |reason: String| SandboxError { profile: grants.profile.clone(), reason };
        let roots =
            Roots::open(&grants.mounts, &grants.denied_paths).map_err(|e| fail(e.to_string()))?;
        let jail = match grants.shell {
            Shell::Full | Shell::Restricted => Some(ProfileJail::open(&grants).map_err(fail)?),
            Shell::Deny => None,
        };
        let egress = grants.network.clone().map(Arc::new);
        let (roots, jail) = (Arc::new(roots), jail.map(Arc::new));
        Ok(Self { roots, egress, jail, backends, grants })
    }

    /// Opens what both this sandbox and `other` grant.
    ///
    /// # Errors
    /// As [`Sandbox::open`].
    pub fn within(&self, other: &Grants) -> Result<Self, SandboxError> {
        let follow = |grants: &Grants| {
            follow_links(grants.clone())
                .map_err(|reason| SandboxError { profile: grants.profile.clone(), reason })
        };
        let both = follow(&self.grants)?.within(&follow(other)?);
        let mut narrowed = Self::open(both, self.backends.clone())?;
        if !self.grants.mounts.is_empty() && narrowed.grants.mounts.is_empty() {
            narrowed.roots = Arc::new(Roots::taken_away());
        }
        Ok(narrowed)
    }

    /// Opens nothing: what a component gets while it describes itself.
    pub fn empty() -> Self {
        Self {
            grants: Grants { profile: "none".to_owned(), ..Grants::default() },
            roots: Arc::new(Roots::default()),
            egress: None,
            jail: None,
            backends: Backends::none(),
        }
    }

    /// Returns what was opened.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the capabilities of one call of `tool`. Its clock bounds start-up; the call's
    /// own is started with [`CallState::start_clock`].
    ///
    /// # Errors
    /// A secret that the guest's environment holds cannot be had.
    pub fn enter(
        &self,
        tool: &str,
        startup: Duration,
        progress: Option<ProgressSink>,
    ) -> Result<CallState, CallError> {
        let Backends { client, providers, secrets: values, spawns, keys, channels } =
            self.backends.clone();
        let secrets = Arc::new(CallSecrets::open(&self.grants.secrets, &values)?);
        let providers = providers.filter(|_| self.grants.provider);
        let clock = CallClock::start(startup);
        let parts = Parts {
            fs: FsCtx::new(Arc::clone(&self.roots), &self.grants.limits),
            http: HttpCtx::new(self.egress.clone(), client, clock.ends_at())
                .with_secrets(Arc::clone(&secrets)),
            process: ProcessCtx::new(self.jail.clone(), spawns, clock.ends_at()),
            provider: ProviderCtx::new(providers.clone(), clock.ends_at()),
            agent: AgentCtx::new(tool, self.grants.agent.clone(), providers, keys, channels),
            secrets,
        };
        let log = CallLog::new(tool, values);
        Ok(CallState::new(&self.grants, parts, clock, log, progress))
    }
}

/// Replaces `..` in mounted and denied paths by where it leads, links considered.
fn resolve_parents(grants: &mut Grants) -> Result<(), String> {
    let mounts = grants.mounts.iter_mut().map(|mount| &mut mount.host);
    for path in mounts.chain(&mut grants.denied_paths) {
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            let resolved =
                path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
            *path = resolved?;
        }
    }
    Ok(())
}

/// Replaces each mounted path by where it leads, so that all names of one folder compare as one.
fn follow_links(mut grants: Grants) -> Result<Grants, String> {
    for mount in &mut grants.mounts {
        mount.host = led_to(&mount.host)
            .map_err(|error| format!("mount {}: {error}", mount.host.display()))?;
    }
    Ok(grants)
}

/// Returns where a path leads; what is not there yet lies below the nearest folder that is.
fn led_to(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(above), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(led_to(above)?.join(name))
        }
        (found, ..) => found,
    }
}
