//! The runtime file as a whole, and what it gives to a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::agents::STDIO_PRINCIPAL;
use super::governance::DefinitionFiles;
use super::profiles::{Oversize, unbounded};
use super::reader::Reader;
use super::{
    AgentSettings, AuditSettings, ChannelSettings, OciSettings, ProfileSettings, ProviderSettings,
    ProxySettings, RegistrySettings, ReleaseSettings, ToolSettings,
};
use crate::limits::{
    ARGUMENTS_BYTES_MAX, CALLS_RUNNING_MAX, CALLS_WAITING_MAX, REPLY_BYTES_MAX, SHUTDOWN_GRACE_MS,
};
use crate::manifest::problem::{DocumentError, Problems, choices};
use crate::manifest::shape::shown;
use crate::manifest::{Governance, Manifest, TelemetryPlan};
use crate::screen::Filter;

/// What the runtime file says; a file that is absent says nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Where tools come from.
    pub tools: ToolSettings,
    /// Bounds of the host as a whole.
    pub limits: LimitSettings,
    /// The state folder.
    pub state: Option<PathBuf>,
    /// The HTTP front.
    pub http: HttpSettings,
    /// Where copies of the record go.
    pub audit: AuditSettings,
    /// Where messages may go, by name.
    pub channels: BTreeMap<String, ChannelSettings>,
    /// What is looked for where, beside what policies ask for, by name.
    pub filters: Vec<(String, Filter)>,
    /// Who may call; each has a token of its own.
    pub agents: Vec<AgentSettings>,
    /// Who is asked for addresses of registries, in this order.
    pub registries: Vec<RegistrySettings>,
    /// The versions of tools that this host follows; none where absent.
    pub releases: Option<ReleaseSettings>,
    /// What registries of OCI artifacts get, by `host` or `host:port`.
    pub oci: BTreeMap<String, OciSettings>,
    /// What sandbox profiles get beside their documents, by name.
    pub profiles: BTreeMap<String, ProfileSettings>,
    /// What providers get beside their documents, by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// How completions are served.
    pub proxy: ProxySettings,
    /// What holds of calls; [`Settings::define`] adds what the definition files say.
    pub governance: Governance,
    pub(super) definitions: Vec<DefinitionFiles>,
}

/// `limits`: bounds of the host as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Arguments of one call, in bytes of JSON; at most the host's own bound.
    pub arguments_bytes_max: usize,
    /// Calls that run at the same time.
    pub calls_running_max: usize,
    /// Of these, calls of one agent.
    pub calls_running_per_agent_max: Option<usize>,
    /// Calls that may wait for a place.
    pub calls_waiting_max: usize,
    /// A reply, in bytes of JSON; at most the host's own bound.
    pub reply_bytes_max: usize,
    /// Time running calls have to end when the host is asked to stop, in milliseconds.
    pub shutdown_grace_ms: u64,
}

/// `http`: the HTTP front.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: Option<SocketAddr>,
    /// Values of `Host` to accept beside the address itself: `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` to accept: `scheme://name[:port]`, of the host's own pages behind a proxy.
    pub allowed_origins: Vec<String>,
    /// Whether the console is served; where absent, on an address that only this machine reaches.
    pub console: Option<bool>,
    /// Where measurements are served, to whoever can connect.
    pub metrics: Option<SocketAddr>,
}

impl Settings {
    /// Reads the runtime file (if there is one) and the variables that belong to it.
    ///
    /// `file` is its path and bytes; relative paths in it start at its directory, relative
    /// paths in variables are left as they are.
    ///
    /// # Errors
    /// Every unknown or unserved key, wrong value and unknown `CLAWHOST_…` variable.
    pub fn read(
        file: Option<(&Path, &[u8])>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<DocumentError>> {
        let mut reader = Reader::default();
        if let Some((path, bytes)) = file {
            reader.file(path, bytes);
        }
        let variables: Vec<(String, String)> = variables.into_iter().collect();
        variables.iter().for_each(|(name, value)| reader.variable(name, value));
        reader.add_servers(&variables);
        let mut settings = reader.settings();
        reader.take_mcp_variables(&variables, &mut settings.tools.mcp_servers);
        reader.problems.finish(Some(settings))
    }

    /// Returns the agents whose own clients may ask their users to approve their calls.
    pub fn elicitors(&self) -> BTreeSet<String> {
        let may = self.agents.iter().filter(|agent| agent.elicitation);
        may.map(|agent| agent.name.clone()).collect()
    }

    /// Returns the agents that have a token each.
    pub fn token_names(&self) -> Vec<String> {
        let names = self.agents.iter().map(|agent| agent.name.clone());
        names.filter(|name| name != STDIO_PRINCIPAL).collect()
    }

    /// Returns the identities that agents speak as in swarms, by the agents' names.
    pub fn identities(&self) -> BTreeMap<String, String> {
        let named = |agent: &AgentSettings| Some((agent.name.clone(), agent.identity.clone()?));
        self.agents.iter().filter_map(named).collect()
    }

    /// Gives the manifest's profiles what the runtime file has for them.
    ///
    /// # Errors
    /// Profiles and identities that the manifest does not have, ports for one without network, and copies of the
    /// record that have nowhere to go.
    pub fn apply(&self, manifest: &mut Manifest) -> Result<(), Vec<DocumentError>> {
        let mut problems = Problems::default();
        for (name, settings) in &self.profiles {
            let names: Vec<String> = manifest.profiles.keys().cloned().collect();
            match manifest.profiles.get_mut(name) {
                Some(profile) => {
                    settings.apply(profile, &mut problems);
                    manifest.notes.extend(unbounded(profile));
                }
                None => {
                    let reason = format!("there is no sandbox profile `{}`", shown(name));
                    let help = choices(name, names.iter().map(String::as_str));
                    problems.missing(&settings.at, reason, help);
                }
            }
        }
        for (name, settings) in &self.providers {
            settings.apply(name, manifest, &mut problems);
        }
        self.apply_servers(manifest, &mut problems);
        self.agents.iter().for_each(|agent| agent.check(manifest, &mut problems));
        self.check_members(manifest, &mut problems);
        manifest.channels.clone_from(&self.channels);
        manifest.policies.add_filters(&self.filters);
        manifest.web.clone_from(&self.tools.web);
        manifest.governance.clone_from(&self.governance);
        manifest.catalog = self.tools.catalog;
        let keeping =
            self.profiles.iter().filter(|(_, profile)| profile.oversize == Oversize::Keep);
        manifest.keeps = keeping.map(|(name, _)| name.clone()).collect();
        manifest.signed_by.clone_from(&self.tools.signed_by);
        if self.http.metrics.is_some() {
            manifest.telemetry.get_or_insert_with(TelemetryPlan::of_metrics);
        }
        self.check_channels(&mut problems);
        self.check_audit(&manifest.policies, &mut problems);
        problems.finish(Some(()))
    }

    /// A task for an agent of a swarm that nobody is would wait for ever.
    fn check_members(&self, manifest: &Manifest, problems: &mut Problems) {
        let agents = self.agents.iter().filter_map(|agent| agent.identity.as_deref());
        let known: BTreeSet<&str> = agents.chain([manifest.identity.as_str()]).collect();
        let is_missing = |name: &str| !known.contains(name) && !manifest.supplied_by_host;
        for (name, at) in manifest.members.iter().filter(|(name, _)| is_missing(name)) {
            let reason = format!("nobody is the identity `{}`", shown(name));
            let help = format!(
                "{}; or give it to who connects, in `clawhost.yaml`: `agents: [{{ name: {name}, identity: {name} }}]`",
                choices(name, known.clone())
            );
            problems.missing(at, reason, help);
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            arguments_bytes_max: ARGUMENTS_BYTES_MAX,
            calls_running_max: CALLS_RUNNING_MAX,
            calls_running_per_agent_max: None,
            calls_waiting_max: CALLS_WAITING_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            shutdown_grace_ms: SHUTDOWN_GRACE_MS,
        }
    }
}
