//! Manifests: CKP 0.3.0 documents in, one checked [`Manifest`] out.
//!
//! `node` reads YAML or JSON into a tree with places, `shape` checks it against the closed
//! tables that each kind's file holds, `load` resolves entries and references. Every problem of
//! every document is reported at once, with its place and what would be right.
//!
//! Deliberately absent: I/O (documents come through [`Documents`], from files and registries alike)
//! and running the code of tools: a tool is bound to a component by name, the host finds it.

mod claw;
mod definition;
mod documents;
mod entry;
pub(crate) mod glob;
mod identity;
mod keywords;
mod kinds;
mod load;
mod mcp;
mod memory;
mod needs;
pub(crate) mod node;
mod notes;
mod policy;
mod primitive;
pub(crate) mod problem;
mod profile;
mod provider;
mod refs;
mod remote;
mod report;
mod resolved;
mod sandbox;
mod session;
mod settings;
pub(crate) mod shape;
mod swarm;
mod telemetry;
#[cfg(test)]
mod tests;
pub(crate) mod tool;
mod versions;

pub use definition::{Definition, Governance, NetworkPolicy, PostconditionMode};
pub use documents::{Component, DirEntry, Documents, OneDocument, Package, RegistryError};
pub use identity::Autonomy;
pub use load::{HOST_SUPPLIED_POLICY, Surroundings, load, unbound};
pub use mcp::{McpAuth, McpEndpoint, McpGrant, McpReach, McpServer, McpSource, McpValue};
pub use memory::{EmbeddingPlan, FileTemplate, Sharing, StoreKind, StorePlan};
pub use node::duration;
pub use primitive::{DocumentHead, is_claw, read_head};
pub use problem::{DocumentError, MANIFEST_INVALID, PRIMITIVE_NOT_FOUND, nearest};
pub use profile::{Profile, ProfileLimits, builtin_profiles};
pub use provider::{ProviderAuth, ProviderAuthKind, ProviderPlan, ProviderProtocol};
pub use remote::Fetched;
pub use report::Report;
pub use resolved::{Manifest, PROFILE_NONE};
pub use session::{SessionErrors, SessionManifest, SessionProblem, ToolNarrowing};
pub use settings::{
    AgentSettings, AuditSettings, CatalogMode, ChannelPlace, ChannelSettings, HttpSettings,
    LimitSettings, McpServerSettings, OciSettings, PinMode, PostgresUrl, ProfileSettings,
    ProviderSettings, ProxySettings, RegistrySettings, ReleaseSettings, STDIO_PRINCIPAL,
    SecretSettings, Settings, ToolSettings, WebSettings, is_own_variable,
};
pub use swarm::{SwarmAgent, SwarmPlan, Topology};
pub use telemetry::{EventFlags, ExporterKind, ExporterPlan, MetricFlags, TelemetryPlan};
pub use tool::{SkillTerms, ToolBinding};

pub(crate) use self::node::Place;
