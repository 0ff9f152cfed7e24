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
#[cfg(feature = "wasi-p3")]
mod p3;
mod process;
mod provider;
mod script;
mod secrets;
mod state;
mod taped;
mod tools;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::error::CallError;
use clawhost_core::grants::{Access, Grants, Mount, Shell};
use clawhost_core::policy::HostFolder;
use clawhost_core::shell::{Refusal, ShellPolicy};

pub use crate::progress::ProgressSink;
pub use linker::link;
pub(crate) use linker::link_p3;
pub(crate) use masked::{Cover, Masked, mask};
pub use state::CallState;

use crate::channels::Channels;
use crate::memory::Keys;
use crate::recording::Tape;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::provider::Providers;
use agent::AgentCtx;
use clock::CallClock;
use fs::{FolderBounds, FsCtx, Outlook, Private, RootError, Roots};
use http::HttpCtx;
use log::CallLog;
pub use process::Spawns;
use process::{ProcessCtx, ProfileJail};
use provider::ProviderCtx;
use secrets::CallSecrets;
use state::StateParts;
pub use tools::CallTools;
use tools::ToolsCtx;

/// A tool's grants with their directories opened, ready to make any number of calls.
#[derive(Debug)]
pub struct Sandbox {
    grants: Grants,
    roots: Arc<Roots>,
    egress: Option<Arc<clawhost_core::egress::EgressRules>>,
    jail: Option<Arc<ProfileJail>>,
    private: Arc<Private>,
    scripts: Option<Arc<ShellPolicy>>,
    backends: Backends,
    /// What answers its calls in the host's place.
    played: Option<Tape>,
    /// The grants in words, from the first call on.
    touches: OnceLock<String>,
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
    /// Where compiled code is kept, which is granted to nobody: it is run.
    pub code_folder: Option<PathBuf>,
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
            code_folder: None,
        }
    }
}

/// The way out of one sandbox, for requests that the host itself makes for a tool.
#[derive(Debug)]
pub(crate) struct WayOut<'a> {
    /// Sends them.
    pub(crate) client: &'a HttpClient,
    /// Has the tokens.
    pub(crate) secrets: &'a Secrets,
    /// Where they may go; nowhere where absent.
    pub(crate) egress: Option<&'a Arc<clawhost_core::egress::EgressRules>>,
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
    /// Returns the way out.
    pub(crate) fn way_out(&self) -> WayOut<'_> {
        let Backends { client, secrets, .. } = &self.backends;
        WayOut { client, secrets, egress: self.egress.as_ref() }
    }

    /// Opens everything `grants` name, for calls that reach `backends`.
    ///
    /// # Errors
    /// A directory that is missing, is no directory or is one of the host's own, or a jail this
    /// system cannot build.
    pub fn open(mut grants: Grants, backends: Backends) -> Result<Self, SandboxError> {
        let profile = grants.profile.clone();
        resolve_parents(&mut grants).map_err(|reason| SandboxError { profile, reason })?;
        let fail = |reason: String| SandboxError { profile: grants.profile.clone(), reason };
        let refused = |error: RootError| fail(error.to_string());
        let own = backends.secrets.folders().chain(backends.code_folder.as_deref());
        let private = Arc::new(Private::look_up(own).map_err(refused)?);
        let roots = Roots::open_without(&private, &grants.mounts, &grants.denied_paths);
        let roots = roots.map_err(refused)?;
        let open = || ProfileJail::open(&grants, Arc::clone(&private)).map_err(fail);
        let jail = match grants.shell {
            Shell::Full | Shell::Restricted => Some(open()?),
            Shell::Deny => None,
        };
        let egress = grants.network.clone().map(Arc::new);
        let scripts = script::policy(&grants).map_err(fail)?;
        let (roots, jail) = (Arc::new(roots), jail.map(Arc::new));
        let (played, touches) = (None, OnceLock::new());
        Ok(Self { roots, egress, jail, private, scripts, backends, grants, played, touches })
    }

    /// Returns what both this sandbox and `other` grant, whose paths lead to `places`. Folders keep
    /// their handles: no path is opened anew.
    ///
    /// # Errors
    /// A directory that cannot be looked at any more, or a jail that cannot hold what is left.
    pub fn within(&self, other: &Grants, places: &FolderBounds) -> Result<Self, SandboxError> {
        let mut grants = self.grants.clone().within(other);
        let profile = grants.profile.clone();
        let fail = |reason: String| SandboxError { profile: profile.clone(), reason };
        let (roots, left) = self.roots.within(places).map_err(|fault| fail(fault.to_string()))?;
        let mounts = std::mem::take(&mut grants.mounts).into_iter().zip(&left);
        let kept =
            |(mount, left): (Mount, &Option<Access>)| Some(Mount { access: (*left)?, ..mount });
        grants.mounts = mounts.filter_map(kept).collect();
        let jail = self.jail.as_ref().filter(|_| grants.shell != Shell::Deny);
        let jail = jail.map(|jail| jail.within(&grants, &left).map_err(fail)).transpose()?;
        let egress = grants.network.clone().map(Arc::new);
        let (roots, jail) = (Arc::new(roots), jail.map(Arc::new));
        let scripts = script::policy(&grants).map_err(fail)?;
        let (private, backends) = (Arc::clone(&self.private), self.backends.clone());
        let (played, touches) = (None, OnceLock::new());
        Ok(Self { roots, egress, jail, private, scripts, backends, grants, played, touches })
    }

    /// Opens nothing: `tape` answers, within the bounds of `grants`.
    pub(crate) fn playing(grants: Grants, tape: Tape) -> Self {
        Self { grants, played: Some(tape), ..Self::empty() }
    }

    /// Opens nothing: what a component gets while it describes itself.
    pub fn empty() -> Self {
        Self {
            played: None,
            touches: OnceLock::new(),
            grants: Grants { profile: "none".to_owned(), ..Grants::default() },
            roots: Arc::new(Roots::default()),
            egress: None,
            jail: None,
            private: Arc::default(),
            scripts: None,
            backends: Backends::none(),
        }
    }

    /// Returns what was opened.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns what was opened in words, which are settled once.
    pub(crate) fn touches(&self) -> &str {
        self.touches.get_or_init(|| self.grants.touches(|path| path.display().to_string()))
    }

    /// Returns what was opened, for a native program that runs under it for as long as the host does: its folders
    /// by the names that are there in its jail, which shows no link.
    ///
    /// # Errors
    /// A mount holds a folder of the host's own, which no jail can close.
    pub(crate) fn native_grants(&self) -> Result<Grants, SandboxError> {
        let fail = |error: RootError| {
            let (profile, reason) = (self.grants.profile.clone(), error.to_string());
            SandboxError { profile, reason }
        };
        self.private.check_native(&self.grants.mounts).map_err(fail)?;
        let mut grants = self.grants.clone();
        grants.mounts.iter_mut().for_each(|mount| mount.host = fs::real(&mount.host));
        Ok(grants)
    }

    /// Says what a path of a call's arguments would meet. Nothing is made.
    pub fn foretell(&self, path: &str) -> Outlook {
        Outlook::of(&self.roots, path)
    }

    /// Returns the arguments of a script inside the sandbox, with what the profile's rules for a
    /// shell, if it has any, make of the command line in them by `ends_at`.
    ///
    /// # Errors
    /// What of the line is not allowed.
    pub fn script(&self, arguments: &str, ends_at: Instant) -> Result<String, Refusal> {
        script::admitted(self.scripts.as_deref(), arguments, ends_at)
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
        // A call holds what is granted and no more of what all share.
        let Backends { client, providers, secrets: values, spawns, .. } = &self.backends;
        let secrets = Some(&self.grants.secrets).filter(|granted| !granted.is_empty());
        let secrets = secrets.map(|granted| CallSecrets::open(granted, values)).transpose()?;
        let secrets = secrets.map(Arc::new);
        let providers = providers.as_ref().filter(|_| self.grants.provider);
        let jail = self.jail.as_ref().map(|jail| (Arc::clone(jail), spawns.clone()));
        let clock = CallClock::start(startup);
        let record = || Tape::keeping(tool, &self.grants, values.clone());
        let tool = Arc::from(tool);
        let log = CallLog::new(Arc::clone(&tool), values.clone());
        let tape = self.played.clone().or_else(|| self.grants.record.then(record));
        let tape = tape.unwrap_or_default();
        let parts = StateParts {
            fs: FsCtx::new(Arc::clone(&self.roots), &self.grants.limits).taped(tape.clone()),
            http: HttpCtx::new(self.egress.clone(), client, clock.ends_at())
                .with_secrets(secrets.clone())
                .taped(tape.clone()),
            process: ProcessCtx::new(jail, clock.ends_at()),
            provider: ProviderCtx::new(providers.cloned(), clock.ends_at()),
            agent: AgentCtx::new(tool, &self.grants.agent, providers.cloned(), &self.backends),
            tools: ToolsCtx::new(self.grants.agent.tool_calls),
            secrets,
            tape,
        };
        Ok(CallState::new(&self.grants, parts, clock, log, progress))
    }
}

/// Looks up where the paths of a profile lead that is to narrow calls.
///
/// # Errors
/// A path that cannot be looked up.
pub fn look_up(grants: &Grants) -> Result<FolderBounds, String> {
    let mut grants = grants.clone();
    resolve_parents(&mut grants)?;
    FolderBounds::look_up(&grants.mounts, &grants.denied_paths).map_err(|error| error.to_string())
}

/// Returns the folders of `grants` by the names that an MCP server may have for them: as the profile writes them,
/// and as a jail shows them, links considered.
pub(crate) fn host_folders(grants: &Grants) -> Vec<HostFolder> {
    let names = |mount: &Mount| {
        let hosts = [mount.host.clone(), fs::real(&mount.host)];
        hosts.map(|host| HostFolder::new(&host, &mount.guest))
    };
    let mut folders: Vec<_> = grants.mounts.iter().flat_map(names).flatten().collect();
    folders.dedup();
    folders
}

/// Replaces `..` in mounted and denied paths by where it leads, links considered.
#[expect(clippy::disallowed_methods, reason = "a profile's paths are looked up here, once")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_behind_a_link_has_two_names_and_a_jail_has_the_one_that_is_there() {
        let temp = tempfile::tempdir().unwrap();
        let there = temp.path().canonicalize().unwrap();
        std::fs::create_dir(there.join("real")).unwrap();
        std::os::unix::fs::symlink(there.join("real"), there.join("link")).unwrap();
        let mount = |name: &str, guest: &str| Mount {
            host: there.join(name),
            guest: guest.to_owned(),
            access: Access::ReadOnly,
            create: false,
        };
        let mounts = vec![mount("link", "/"), mount("real", "/real")];
        let grants = Grants { mounts, ..Grants::default() };
        let named = [("link", "/"), ("real", "/"), ("real", "/real")];
        let named = named.map(|(name, guest)| HostFolder::new(&there.join(name), guest).unwrap());
        assert_eq!(host_folders(&grants), named);
        let sandbox = Sandbox::open(grants, Backends::none()).unwrap();
        let hosts: Vec<_> =
            sandbox.native_grants().unwrap().mounts.into_iter().map(|mount| mount.host).collect();
        assert_eq!(hosts, [there.join("real"), there.join("real")]);
    }
}
