//! What the documents of one run come to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::Place;
use super::versions::Versions;
use super::{
    Autonomy, CatalogMode, ChannelSettings, DocumentError, Fetched, Governance, McpServer, PinMode,
    Profile, ProviderPlan, StorePlan, SwarmPlan, TelemetryPlan, ToolBinding, WebSettings, load,
    notes,
};
use crate::catalog::{Refused, ckp_name};
use crate::descriptor::{AgentTools, Granted};
use crate::package::VerifyingKey;
use crate::policy::PolicySet;
use crate::skills::Skills;
use crate::uri::Kind;

/// The profile of a tool that names none, in a manifest that names none.
pub const PROFILE_NONE: &str = "none";

/// What the documents of one run say, checked and resolved.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// `metadata.name` of the Claw.
    pub name: String,
    /// `metadata.version` of the Claw.
    pub version: Option<String>,
    /// What the agent is called: the name of its Identity, which is the Claw's where the
    /// identity has none of its own.
    pub identity: String,
    /// How freely the agent may act.
    pub autonomy: Autonomy,
    /// The tools that are bound to a profile or a policy, in the order of the documents.
    pub tools: Vec<ToolBinding>,
    /// All profiles by name: the built-in ones and the documents' own.
    pub profiles: BTreeMap<String, Profile>,
    /// The profile of tools that name none; [`PROFILE_NONE`] where absent.
    pub default_profile: Option<String>,
    /// All policies, in order.
    pub policies: PolicySet,
    /// The language model providers, in the order of the documents.
    pub providers: Vec<ProviderPlan>,
    /// The kinds that are there: documents, and what entries name of the host's own.
    pub kinds: BTreeSet<Kind>,
    /// Time between two heartbeats, nothing where the Claw switches them off: its annotation
    /// `heartbeat_interval_ms`, at least [`crate::limits::HEARTBEAT_FLOOR_MS`], where 0 means off.
    pub heartbeat: Option<Duration>,
    /// The memory stores, in the order of the documents. No two have the same name.
    pub memory: Vec<StorePlan>,
    /// Where messages may go, by name; from the runtime file, never from a document.
    pub channels: BTreeMap<String, ChannelSettings>,
    /// Whom some built-in tools may ask; from the runtime file, never from a document.
    pub web: WebSettings,
    /// Whose signature every component needs that is not built in; from the runtime file too.
    pub signed_by: Vec<VerifyingKey>,
    /// The MCP servers that this host may bridge; from the runtime file, never from a document.
    pub mcp_servers: Vec<McpServer>,
    /// The folder of the lock file that says what components of the tools folder have to be.
    pub locked: Option<PathBuf>,
    /// The tools of services that this host asks itself; from the runtime file and from what pods were
    /// compiled to, never from a document.
    pub services: Vec<Granted>,
    /// Services that say something broken of themselves; the others are served.
    pub broken_services: Vec<Refused>,
    /// What was compiled for agents, by their names: their bounds and budgets.
    pub agents: BTreeMap<String, AgentTools>,
    /// The tools that agents are held to; from the runtime file and the skills it names.
    pub skills: Skills,
    /// Who has to accept what these say; from the runtime file too.
    pub mcp_pins: PinMode,
    /// What clients are shown of the tools; from the runtime file too.
    pub catalog: CatalogMode,
    /// The profiles under which results are kept that are too large; from the runtime file too.
    pub keeps: BTreeSet<String>,
    /// What holds of calls beside the documents; from the runtime file and the files it names.
    pub governance: Governance,
    /// The swarms that this host serves.
    pub swarms: Vec<SwarmPlan>,
    /// Who their agents are, and where that stands: somebody has to be each of them.
    pub(crate) members: Vec<(String, Place)>,
    /// The versions of its documents, which addresses may name.
    pub(crate) versions: Versions,
    /// Where measurements go; nowhere where absent.
    pub telemetry: Option<TelemetryPlan>,
    /// No Claw was among the documents: the host made a minimal one.
    pub supplied_by_host: bool,
    /// What came from registries, in the order in which it was fetched.
    pub fetched: Vec<Fetched>,
    /// What was declared and has no effect in this version, one sentence each, for people.
    pub notes: Vec<String>,
}

impl Manifest {
    /// Returns the tool of a service.
    pub fn managed(&self, service: &str, tool: &str) -> Option<&Granted> {
        self.services.iter().find(|one| one.tool.service == service && one.tool.name == tool)
    }

    /// Returns the names of the secrets that its tools, servers and services get, some of them twice.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let granted = self.profiles.values().flat_map(|profile| &profile.secrets);
        let granted = granted.map(|secret| secret.name.as_str());
        let servers = self.mcp_servers.iter().flat_map(McpServer::secrets);
        granted.chain(servers).chain(self.services.iter().flat_map(Granted::secrets))
    }

    /// Returns the names of the secrets that its providers, its channels and those who take its telemetry are shown. It
    /// may reach none of them, ever.
    pub fn outgoing_secrets(&self) -> impl Iterator<Item = &str> {
        let providers = self.providers.iter().map(|provider| &provider.auth.secret_ref);
        let channels = self.channels.values().map(|channel| &channel.secret);
        let exporters = self.telemetry.iter().flat_map(|telemetry| &telemetry.exporters);
        let exporters = exporters.map(|exporter| &exporter.secret);
        providers.chain(channels).chain(exporters).flatten().map(String::as_str)
    }

    /// Returns the version of the document of that kind and name, where it has one.
    pub fn version_of(&self, kind: Kind, name: &str) -> Option<&str> {
        self.versions.of(kind, name).flatten()
    }

    /// Returns the profile of that name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// Returns the name of the profile that a tool runs under when nothing names one for it.
    pub fn default_profile_name(&self) -> &str {
        self.default_profile.as_deref().unwrap_or(PROFILE_NONE)
    }

    /// Says which rules are for tools that are none of `names`, the CKP names of all that are
    /// known beside those of this manifest's own documents, nor may come, and which relax for an annotation that
    /// neither these documents nor, as `is_declared` says, the other tools declare.
    pub fn stray_rules(
        &self,
        names: impl IntoIterator<Item = String>,
        may_come: impl Fn(&str) -> bool,
        is_declared: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let own = self.tools.iter().map(|tool| tool.name.clone());
        let known = names.into_iter().chain(own).collect();
        let mut notes = notes::stray_rules(&self.policies, &known, may_come);
        let declares = |key: &str| {
            is_declared(key) || self.tools.iter().any(|tool| tool.declared().contains_key(key))
        };
        notes.extend(notes::undeclared(&self.policies, declares));
        notes
    }

    /// Says which tools of the documents are none of `names`, the built-in ones, and made of no others.
    pub fn stray_tools(&self, names: impl IntoIterator<Item = String>) -> Vec<String> {
        let made = self.governance.composites().map(|own| ckp_name(&own.name));
        notes::stray_tools(&self.tools, &names.into_iter().chain(made).collect())
    }

    /// Reads the Tool document that lies beside a dropped-in component.
    ///
    /// # Errors
    /// Every problem of the document; among them references to profiles and policies that this
    /// manifest does not have.
    pub fn read_sidecar(
        &self,
        file: &Path,
        bytes: &[u8],
    ) -> Result<ToolBinding, Vec<DocumentError>> {
        load::sidecar(self, file, bytes)
    }
}
