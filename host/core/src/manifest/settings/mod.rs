//! The runtime file `clawhost.yaml`: everything that is not a CKP document.
//!
//! Closed and versioned like the documents, read by the same machinery. Each key also has an
//! environment variable, `CLAWHOST_HTTP_ADDRESS` for `http.address`; where both say something, the
//! variable wins.
//! Deliberately absent: finding the file and reading the environment, which the host does.

mod audit;
mod channels;
mod filters;
mod governance;
mod mcp;
mod packages;
mod providers;
mod proxy;
mod reader;
mod registries;
mod releases;
mod secrets;
mod services;
mod shapes;
#[cfg(test)]
mod tests;
mod variables;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::audit::AuditSettings;
pub use self::channels::{ChannelPlace, ChannelSettings};
use self::governance::DefinitionFiles;
pub use self::mcp::McpServerSettings;
pub use self::packages::OciSettings;
pub use self::providers::ProviderSettings;
pub use self::proxy::ProxySettings;
use self::reader::Reader;
pub use self::registries::RegistrySettings;
pub use self::releases::{PostgresUrl, ReleaseSettings};
pub use self::secrets::SecretSettings;
use self::services::ServiceSettings;
pub use self::variables::is_own_variable;
pub use self::web::WebSettings;
use super::node::Place;
use super::problem::{DocumentError, Problems, choices};
use super::shape::shown;
use super::{Governance, Manifest, Profile, TelemetryPlan};
use crate::grants::{AgentGrants, Shell};
use crate::limits::{
    ARGUMENTS_BYTES_MAX, CALLS_RUNNING_MAX, CALLS_WAITING_MAX, REPLY_BYTES_MAX, SHUTDOWN_GRACE_MS,
};
use crate::package::VerifyingKey;
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
    definitions: Vec<DefinitionFiles>,
}

/// `tools`: where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSettings {
    /// The drop-in directory.
    pub directory: Option<PathBuf>,
    /// Built-in tools that a dropped-in tool, or a document's of an MCP server, of the same name replaces.
    pub replace_builtins: BTreeSet<String>,
    /// Whose signature every component needs that is not built in; any or none where this is empty.
    pub signed_by: Vec<VerifyingKey>,
    /// The MCP servers that may be bridged, by name.
    pub mcp_servers: BTreeMap<String, McpServerSettings>,
    /// What the tools of MCP servers have to be accepted by.
    pub pins: PinMode,
    /// What clients are shown.
    pub catalog: CatalogMode,
    /// Whom some of the built-in tools may ask.
    pub web: WebSettings,
    services: Vec<ServiceSettings>,
    directory_at: Place,
    replace_at: Place,
}

/// `tools.pins`: who has to accept what an MCP server says about its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinMode {
    /// What a tool says when it is first seen counts, and a change has to be accepted.
    #[default]
    FirstUse,
    /// Each tool has to be accepted before it is served.
    Require,
}

/// `tools.catalog`: what clients are shown of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogMode {
    /// All that they may call.
    #[default]
    List,
    /// The tools that find and call the others.
    Search,
}

/// `profiles.<name>.oversize`: what becomes of results that are too large for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oversize {
    /// They are cut.
    #[default]
    Cut,
    /// They are cut, and kept for a while to be read in pages.
    Keep,
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

/// Who calls over standard input. What `agents` says of that name is about this caller, who has no
/// token: over HTTP nobody is it.
pub const STDIO_PRINCIPAL: &str = "stdio";
/// Whom else the host itself calls and decides as; no agent is called so.
const OWN_PRINCIPALS: [&str; 2] = ["cli", "operator"];

/// One of `agents`: somebody who may call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentSettings {
    /// The name of its token.
    pub name: String,
    /// Whether its own client may ask its user to approve its calls.
    pub elicitation: bool,
    /// Who it is in the host's swarms; the host's own identity where this is absent.
    pub identity: Option<String>,
    /// The documents of its skills; it may have any tool where absent.
    skills: Vec<(PathBuf, Place)>,
    at: Place,
}

/// One of `profiles`: what a sandbox profile gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ProfileSettings {
    /// The environment of guests and processes.
    pub env: BTreeMap<String, String>,
    /// Ports that may be reached instead of the web's.
    pub ports: Option<Vec<u16>>,
    /// Programs that a restricted shell runs beside its own list, with any arguments.
    pub programs: Vec<String>,
    /// Whether the manifest's language model providers may be asked.
    pub provider: bool,
    /// Whether keys and values are kept for agents; as the profile has it where this is absent.
    pub memory: Option<bool>,
    /// Whether tools are told what completions cost all agents.
    pub all_costs: bool,
    /// The channels its tools may send messages to.
    pub channels: BTreeSet<String>,
    /// Calls of other tools that one call may make; as the profile has it where this is absent.
    pub tool_calls_max: Option<usize>,
    /// What becomes of results that are too large for a reply.
    pub oversize: Oversize,
    /// Whether calls are recorded, to be run again.
    pub record: bool,
    /// Bytes one call may write to its directories; the host's bound where this is absent.
    pub write_bytes_max: Option<u64>,
    /// Files and directories one call may create; the host's bound where this is absent.
    pub create_entries_max: Option<u64>,
    /// The secrets its tools may use.
    #[serde(skip)]
    pub secrets: Vec<SecretSettings>,
    /// Whose signature its tools need, as [`ToolSettings::signed_by`].
    #[serde(skip)]
    pub signed_by: Vec<VerifyingKey>,
    #[serde(skip)]
    at: Place,
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
}

impl Settings {
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

impl ToolSettings {
    /// Says which folders and built-in tools are named that are not there.
    pub fn missing<'a>(
        &self,
        is_folder: impl Fn(&Path) -> bool,
        built_in: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Vec<DocumentError> {
        let folder = self.directory.iter().filter(|folder| !is_folder(folder)).map(|folder| {
            let reason = format!("there is no folder `{}`", shown(&folder.to_string_lossy()));
            let help = "make it, or name the folder that holds the components";
            self.directory_at.missing(reason, help)
        });
        let strange = |name: &&String| !built_in.clone().any(|other| other == *name);
        let names = self.replace_builtins.iter().filter(strange).map(|name| {
            let reason = format!("no built-in tool is called `{}`", shown(name));
            let help = choices(name, built_in.clone());
            self.replace_at.missing(reason, help)
        });
        folder.chain(names).collect()
    }
}

/// Notes what makes a restricted shell as good as a full one.
fn unbounded(profile: &Profile) -> Option<String> {
    let programs: Vec<&str> = profile.shell_rules.unbounded().collect();
    (!programs.is_empty()).then(|| format!(
        "the profile `{}` lists {}, which run whatever they are told: that is as much as `shell.mode: full`",
        profile.name,
        programs.join(", ")
    ))
}

impl AgentSettings {
    /// An agent is the host's own identity, or a member of one of its swarms.
    fn check(&self, manifest: &Manifest, problems: &mut Problems) {
        let Some(name) = self.identity.as_deref() else { return };
        let members = manifest.swarms.iter().flat_map(|swarm| &swarm.agents);
        let members = members.map(|agent| agent.identity.as_str());
        let known: BTreeSet<&str> = members.chain([manifest.identity.as_str()]).collect();
        if !known.contains(name) {
            let reason = format!("no swarm has an agent of the identity `{}`", shown(name));
            problems.missing(&self.at, reason, choices(name, known));
        }
    }
}

impl ProfileSettings {
    fn apply(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.env.clone_from(&self.env);
        profile.provider = self.provider;
        profile.record = self.record;
        profile.signed_by.clone_from(&self.signed_by);
        profile.agent = AgentGrants {
            memory: self.memory.unwrap_or(profile.agent.memory),
            all_costs: self.all_costs,
            channels: self.channels.clone(),
            tool_calls: self.tool_calls_max.unwrap_or(profile.agent.tool_calls),
        };
        profile.shell_rules.programs.clone_from(&self.programs);
        profile.limits.write_bytes = self.write_bytes_max;
        profile.limits.create_entries = self.create_entries_max;
        profile.secrets.clear();
        self.secrets.iter().for_each(|secret| secret.apply(profile, problems));
        if let (Some(ports), Some(rules)) = (&self.ports, &mut profile.network) {
            rules.ports.clone_from(ports);
        }
        for (key, why, help) in self.unfit(profile) {
            let reason = format!("`{key}` for the profile `{}`, {why}", profile.name);
            problems.invalid(
                &self.at,
                reason,
                format!("give its document {help}, or leave it out"),
            );
        }
    }

    /// Returns which keys do nothing for `profile`, why, and what its document would have to say.
    fn unfit(
        &self,
        profile: &Profile,
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let is_restricted = [&profile.shell, &profile.wasm_shell].contains(&&Shell::Restricted);
        let is_native = profile.shell != Shell::Deny;
        // What guests write is counted, and what native programs write is not.
        let (binds_not, deny) = ("whose native programs it cannot bind", "`shell.mode: deny`");
        let (no_network, open) = ("which has no network", "`network.mode: allowlist`");
        let (is_open, restricted) = ("whose shell is not restricted", "`shell.mode: restricted`");
        let rows = [
            (self.ports.is_some() && profile.network.is_none(), ("ports", no_network, open)),
            (!self.programs.is_empty() && !is_restricted, ("programs", is_open, restricted)),
            (self.write_bytes_max.is_some() && is_native, ("write_bytes_max", binds_not, deny)),
            (
                self.create_entries_max.is_some() && is_native,
                ("create_entries_max", binds_not, deny),
            ),
        ];
        rows.into_iter().filter(|(is_unfit, _)| *is_unfit).map(|(_, row)| row)
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
