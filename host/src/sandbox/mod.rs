//! From [`Grants`] to live capabilities: the only module that opens granted paths.
//!
//! A [`Sandbox`] is opened once, when a tool is loaded; each call gets a fresh
//! [`CallState`] from it. Deliberately absent: any decision. What is granted was settled in
//! core; here it is only made real.

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

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::CallError;
use clawhost_core::grants::{Grants, Shell};

pub use linker::link;
pub use state::{CallState, ProgressSink};

use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::provider::Providers;
use clock::CallClock;
use fs::{FsCtx, Roots};
use http::HttpCtx;
use log::CallLog;
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
}

impl Backends {
    /// Returns a way out, and nobody to ask and no secrets.
    pub fn none() -> Self {
        Self { client: HttpClient::system(), providers: None, secrets: Secrets::none() }
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
            Shell::Full => Some(ProfileJail::open(&grants).map_err(fail)?),
            Shell::Deny | Shell::Restricted => None,
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
        let mut narrowed = Self::open(self.grants.clone().within(other), self.backends.clone())?;
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
        let Backends { client, providers, secrets: values } = &self.backends;
        let secrets = Arc::new(CallSecrets::open(&self.grants.secrets, values)?);
        let providers = providers.clone().filter(|_| self.grants.provider);
        let clock = CallClock::start(startup);
        let parts = Parts {
            fs: FsCtx::new(Arc::clone(&self.roots), &self.grants.limits),
            http: HttpCtx::new(self.egress.clone(), client.clone(), clock.ends_at())
                .with_secrets(Arc::clone(&secrets)),
            process: ProcessCtx::new(self.jail.clone(), clock.ends_at()),
            provider: ProviderCtx::new(tool, providers, clock.ends_at()),
            secrets,
        };
        let log = CallLog::new(tool, values.clone());
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
