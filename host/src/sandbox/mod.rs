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
mod process;
mod state;

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::grants::{Grants, Shell};

pub use linker::link;
pub use state::{CallState, ProgressSink};

use crate::upstream::http::HttpClient;
use clock::CallClock;
use fs::{FsCtx, Roots};
use http::HttpCtx;
use log::CallLog;
use process::{ProcessCtx, ProfileJail};
use state::Parts;

/// A tool's grants with their directories opened, ready to make any number of calls.
#[derive(Debug)]
pub struct Sandbox {
    grants: Grants,
    roots: Arc<Roots>,
    egress: Option<Arc<clawhost_core::egress::EgressRules>>,
    jail: Option<Arc<ProfileJail>>,
    client: HttpClient,
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
    /// Opens everything `grants` name.
    ///
    /// # Errors
    /// A directory that is missing or is no directory, or a jail this system cannot build.
    pub fn open(mut grants: Grants, client: HttpClient) -> Result<Self, SandboxError> {
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
        Ok(Self { roots: Arc::new(roots), egress, jail: jail.map(Arc::new), client, grants })
    }

    /// Opens nothing: what a component gets while it describes itself.
    pub fn empty() -> Self {
        Self {
            grants: Grants { profile: "none".to_owned(), ..Grants::default() },
            roots: Arc::new(Roots::default()),
            egress: None,
            jail: None,
            client: HttpClient::system(),
        }
    }

    /// Returns what was opened.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the capabilities of one call of `tool`. Its clock bounds start-up; the call's
    /// own is started with [`CallState::start_clock`].
    pub fn enter(
        &self,
        tool: &str,
        startup: Duration,
        progress: Option<ProgressSink>,
    ) -> CallState {
        let clock = CallClock::start(startup);
        let parts = Parts {
            fs: FsCtx::new(Arc::clone(&self.roots), &self.grants.limits),
            http: HttpCtx::new(self.egress.clone(), self.client.clone(), clock.ends_at()),
            process: ProcessCtx::new(self.jail.clone(), clock.ends_at()),
        };
        CallState::new(&self.grants, parts, clock, CallLog::new(tool), progress)
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
