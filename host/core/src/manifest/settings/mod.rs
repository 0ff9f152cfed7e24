//! The runtime file `clawhost.yaml`: everything that is not a CKP document.
//!
//! Closed and versioned like the documents, read by the same machinery. Each key also has an
//! environment variable, `CLAWHOST_HTTP_ADDRESS` for `http.address`; where both say something, the
//! variable wins.
//! Deliberately absent: finding the file and reading the environment, which the host does.

mod audit;
mod channels;
mod mcp;
mod providers;
mod reader;
mod registries;
mod secrets;
mod shapes;
#[cfg(test)]
mod tests;
mod variables;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use self::audit::AuditSettings;
pub use self::channels::{ChannelPlace, ChannelSettings};
pub use self::mcp::McpServerSettings;
pub use self::providers::ProviderSettings;
use self::reader::Reader;
pub use self::registries::RegistrySettings;
pub use self::secrets::SecretSettings;
pub use self::web::WebSettings;
use super::node::Place;
use super::problem::{DocumentError, Problems, Source, Spot, choices};
use super::shape::shown;
use super::{Manifest, Profile};
use crate::grants::{AgentGrants, Shell};
use crate::limits::{
    ARGUMENTS_BYTES_MAX, CALLS_RUNNING_MAX, CALLS_WAITING_MAX, REPLY_BYTES_MAX, SHUTDOWN_GRACE_MS,
};

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
    /// Who may call; each has a token of its own.
    pub agents: Vec<AgentSettings>,
    /// Who is asked for addresses of registries, in this order.
    pub registries: Vec<RegistrySettings>,
    /// What sandbox profiles get beside their documents, by name.
    pub profiles: BTreeMap<String, ProfileSettings>,
    /// What providers get beside their documents, by name.
    pub providers: BTreeMap<String, ProviderSettings>,
}

/// `tools`: where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSettings {
    /// The drop-in directory.
    pub directory: Option<PathBuf>,
    /// Built-in tools that a dropped-in tool of the same name replaces.
    pub replace_builtins: BTreeSet<String>,
    /// The MCP servers that may be bridged, by name.
    pub mcp_servers: BTreeMap<String, McpServerSettings>,
    /// What the tools of MCP servers have to be accepted by.
    pub pins: PinMode,
    /// Whom some of the built-in tools may ask.
    pub web: WebSettings,
    directory_at: Spot,
    replace_at: Spot,
}

/// `tools.pins`: who has to accept what an MCP server says about its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinMode {
    /// What a tool says when it is first seen counts, and a change has to be accepted.
    #[default]
    FirstUse,
    /// Each tool has to be accepted before it is served.
    Require,
}

/// `limits`: bounds of the host as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// Arguments of one call, in bytes of JSON; at most the host's own bound.
    pub arguments_bytes_max: usize,
    /// Calls that run at the same time.
    pub calls_running_max: usize,
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
    /// Values of `Origin` to accept: `scheme://name[:port]`.
    pub allowed_origins: Vec<String>,
}

/// One of `agents`: somebody who may call tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The name of its token.
    pub name: String,
    /// Whether its own client may ask its user to approve its calls.
    pub elicitation: bool,
    /// Who it is in the host's swarms; the host's own identity where this is absent.
    pub identity: Option<String>,
    source: Source,
    at: Place,
}

/// One of `profiles`: what a sandbox profile gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Bytes one call may write to its directories; the host's bound where this is absent.
    pub write_bytes_max: Option<u64>,
    /// Files and directories one call may create; the host's bound where this is absent.
    pub create_entries_max: Option<u64>,
    /// The secrets its tools may use.
    pub secrets: Vec<SecretSettings>,
    source: Source,
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
        // What is for one server comes after all that name servers.
        let (servers, keys): (Vec<_>, Vec<_>) =
            variables.into_iter().partition(|(name, _)| mcp::is_mcp_variable(name));
        for (name, value) in keys {
            reader.variable(&name, &value);
        }
        reader.take_mcp_variables(&servers);
        reader.problems.finish(Some(reader.settings))
    }

    /// Returns the agents whose own clients may ask their users to approve their calls.
    pub fn elicitors(&self) -> BTreeSet<String> {
        let may = self.agents.iter().filter(|agent| agent.elicitation);
        may.map(|agent| agent.name.clone()).collect()
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
                    problems.missing(&settings.source, settings.at, reason, help);
                }
            }
        }
        for (name, settings) in &self.providers {
            settings.apply(name, manifest, &mut problems);
        }
        self.apply_servers(manifest, &mut problems);
        self.agents.iter().for_each(|agent| agent.check(manifest, &mut problems));
        manifest.channels.clone_from(&self.channels);
        manifest.web.clone_from(&self.tools.web);
        self.check_channels(&mut problems);
        self.check_audit(&manifest.policies, &mut problems);
        problems.finish(Some(()))
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
            self.directory_at.missing(reason, help.to_owned())
        });
        let strange = |name: &&String| !built_in.clone().any(|other| other == *name);
        let names = self.replace_builtins.iter().filter(strange).map(|name| {
            let reason = format!("no built-in tool is called `{}`", shown(name));
            self.replace_at.missing(reason, choices(name, built_in.clone()))
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
            problems.missing(&self.source, self.at, reason, choices(name, known));
        }
    }
}

impl ProfileSettings {
    fn apply(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.env.clone_from(&self.env);
        profile.provider = self.provider;
        profile.agent = AgentGrants {
            memory: self.memory.unwrap_or(profile.agent.memory),
            all_costs: self.all_costs,
            channels: self.channels.clone(),
        };
        self.apply_programs(profile, problems);
        self.apply_bounds(profile, problems);
        profile.secrets.clear();
        self.secrets.iter().for_each(|secret| secret.apply(profile, &self.source, problems));
        match (&self.ports, &mut profile.network) {
            (Some(ports), Some(rules)) => rules.ports.clone_from(ports),
            (Some(_), None) => {
                let reason =
                    format!("`ports` for the profile `{}`, which has no network", profile.name);
                let help = "give its document `network.mode: allowlist`, or leave `ports` out";
                problems.invalid(&self.source, self.at, reason, help);
            }
            (None, _) => {}
        }
    }
}

impl ProfileSettings {
    /// What is written is counted where guests write; what native programs write is not.
    fn apply_bounds(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.limits.write_bytes = self.write_bytes_max;
        profile.limits.create_entries = self.create_entries_max;
        let stated = [
            ("write_bytes_max", self.write_bytes_max),
            ("create_entries_max", self.create_entries_max),
        ];
        let stated = stated.into_iter().filter(|(_, max)| max.is_some());
        for (key, _) in stated.filter(|_| profile.shell != Shell::Deny) {
            let name = &profile.name;
            let reason =
                format!("`{key}` for the profile `{name}`, whose native programs it cannot bind");
            let help = "give its document `shell.mode: deny`, or leave the bound out";
            problems.invalid(&self.source, self.at, reason, help);
        }
    }

    fn apply_programs(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.shell_rules.programs.clone_from(&self.programs);
        if !self.programs.is_empty() && profile.shell != Shell::Restricted {
            let name = &profile.name;
            let reason =
                format!("`programs` for the profile `{name}`, whose shell is not restricted");
            let help = "give its document `shell.mode: restricted`, or leave `programs` out";
            problems.invalid(&self.source, self.at, reason, help);
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            arguments_bytes_max: ARGUMENTS_BYTES_MAX,
            calls_running_max: CALLS_RUNNING_MAX,
            calls_waiting_max: CALLS_WAITING_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            shutdown_grace_ms: SHUTDOWN_GRACE_MS,
        }
    }
}
