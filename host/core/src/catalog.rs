//! The catalog: an immutable, versioned set of tools, found by any of their names.
//!
//! Deliberately absent: how a tool is executed. A [`Tool`] says what it is, what it may touch
//! and which policy governs it; executors find its code by [`Tool::digest`].

mod definition;
mod names;
mod origin;
mod refused;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub use self::definition::{
    Annotations, ToolDefinition, check_definition, claude_note, declares, refused_by_claude,
};
pub use self::names::{CALL_TOOL, NoTool, ckp_name, meant};
pub(crate) use self::names::{check_name, is_tool_name};
pub use self::origin::Origin;
pub use self::refused::Refused;
use crate::bridged::BridgedName;
use crate::descriptor::Granted;
use crate::exposed::Served;
use crate::grants::Grants;
use crate::manifest::Definition;
use crate::policy::ToolPaths;
use crate::retry::RetryPlan;
use crate::schema::Schema;
use crate::uri::{ClawUri, Kind};

/// One tool of a catalog, complete: definition, grants and policy are settled.
#[derive(Debug)]
pub struct Tool {
    /// What clients are shown: what it says about itself, and over it what the operator's documents say.
    pub definition: ToolDefinition,
    /// What it says about itself that rules may tighten for, whatever is shown: untrusted.
    pub hints: Annotations,
    /// Its name in manifests, policies and URIs, for example `read-file`.
    pub ckp_name: String,
    /// `metadata.version` of its document, which an address may name.
    pub version: Option<String>,
    /// `sha256:…` of the component's bytes; what a call is pinned to.
    pub digest: String,
    /// Where its code comes from.
    pub origin: Origin,
    /// A person is asked before each call, whatever policies allow.
    pub asks: bool,
    /// What a call may touch.
    pub grants: Grants,
    /// The policies that also have to allow it: the one that its document names, and its server's.
    pub policy_refs: Vec<String>,
    /// `labels.category`, which policy rules match.
    pub category: Option<String>,
    /// Hints that rules may trust: those of a built-in component, and over them those that the
    /// operator's own document declares.
    pub declared: Map<String, Value>,
    /// How often a call that failed for a passing reason is tried.
    pub retry: RetryPlan,
    /// What the operator says of it: a definition file, else the version of the registry that it is of.
    pub governed: Option<Arc<Definition>>,
    /// Its server is for internal use: it is there for those whose skills name it.
    pub surfaced: bool,
    /// What it is as a service's, where it is one's.
    pub managed: Option<Arc<Granted>>,
    /// Which arguments are paths and where they lead, for rules that look at them.
    pub paths: ToolPaths,
    /// The compiled argument schemas: the component's and, where there are such, those of documents and of
    /// its definition.
    pub input: Vec<Arc<Schema>>,
    /// The compiled result schemas, likewise.
    pub output: Vec<Arc<Schema>>,
}

impl Tool {
    /// Says for people that its calls are not recorded where its profile wants that.
    pub fn unrecorded(&self) -> Option<String> {
        let is_code = matches!(
            self.origin,
            Origin::BuiltIn { .. }
                | Origin::DropIn { .. }
                | Origin::Registry { .. }
                | Origin::Release
        );
        (self.grants.record && !is_code).then(|| {
            let (name, profile) = (&self.ckp_name, &self.grants.profile);
            format!(
                "`record: true` of the profile `{profile}` does nothing for `{name}`, which is no component: give those that are to be recorded a profile of their own"
            )
        })
    }

    /// Says for people that Claude's API does not take it.
    pub fn claude_note(&self) -> Option<String> {
        claude_note(&self.definition.name, &self.definition.input_schema)
    }

    /// Returns what the runtime file may call it: its CKP name, and its own name in that form, which
    /// differs for a server's tool.
    pub fn names(&self) -> [String; 2] {
        [self.ckp_name.clone(), ckp_name(&self.definition.name)]
    }

    /// Returns the name that tables of presented names are made of: `service.tool` of a service's tool.
    pub fn canonical(&self) -> Cow<'_, str> {
        match &self.managed {
            Some(granted) => Cow::Owned(granted.tool.canonical()),
            None => Cow::Borrowed(&self.definition.name),
        }
    }

    /// Says whether rules may trust that it is what a hint of MCP's says, for example `readOnlyHint`.
    pub fn declares(&self, hint: &str) -> bool {
        declares(&self.declared, hint)
    }

    /// Says whether a call may be made again at all: it is declared idempotent, or its document or
    /// definition says that it is tried more than once.
    pub fn may_retry(&self) -> bool {
        self.declares("idempotentHint") || self.retry.max_attempts > 1
    }

    /// Says whether it does nothing but call another tool, and that is decided about as what it is.
    pub fn is_call_tool(&self) -> bool {
        self.origin == Origin::Own && self.definition.name == CALL_TOOL
    }

    /// Says what it calls, where it is made of others: that is all it touches.
    pub fn calls(&self) -> Option<String> {
        let composite = self.governed.as_ref()?.composite.as_ref()?;
        let mut tools: Vec<&str> = Vec::new();
        for step in &composite.steps {
            if !tools.contains(&step.tool.as_str()) {
                tools.push(&step.tool);
            }
        }
        Some(format!("calls {}", tools.join(", ")))
    }

    /// Returns the time a call gets where the caller asks for no less.
    pub fn timeout(&self) -> Duration {
        self.grants.limits.timeout
    }
}

/// Why a set of tools is no catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two tools share a name after mapping.
    #[error("tool `{name}` is offered twice: by {first} and by {second}")]
    Collision {
        /// The shared name.
        name: String,
        /// Who offered it first and keeps it.
        first: String,
        /// Who offered it second.
        second: String,
    },
}

/// All tools at one moment. Never changes; a reload makes a new one.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows by one with each change.
    pub version: u64,
    /// The version of the registry in service.
    pub release: Option<u64>,
    /// Files that are being compiled.
    pub loading: Vec<String>,
    /// The names of tools, and of servers that tools are called after, of those of them that have not
    /// said yet what they have.
    pub awaited: Vec<String>,
    /// Sources that could not be used.
    pub refused: Vec<Refused>,
    /// What documents say that does nothing with these tools, one sentence each, for people.
    pub notes: Vec<String>,
    /// What MCP servers have beside tools, each under the tool that stands for it.
    pub exposed: Vec<Served>,
    by_name: BTreeMap<String, Arc<Tool>>,
    by_ckp_name: BTreeMap<String, Arc<Tool>>,
    /// Tools of services, by `service.tool`.
    by_canonical: BTreeMap<String, Arc<Tool>>,
}

impl Catalog {
    /// Returns an empty catalog of that version.
    pub fn new(version: u64) -> Self {
        Self { version, ..Self::default() }
    }

    /// Adds `tool`, or says who already has its name in either form.
    ///
    /// # Errors
    /// [`CatalogError::Collision`]; the catalog is then unchanged.
    pub fn add(&mut self, tool: Arc<Tool>) -> Result<(), CatalogError> {
        // Case counts: `Web-Fetch` and `web-fetch` are two tools (CKP 0.3.0, section 7).
        let first = self.by_ckp_name.get(&tool.ckp_name);
        if let Some(first) = first.or_else(|| self.by_name.get(&tool.definition.name)) {
            return Err(CatalogError::Collision {
                name: tool.definition.name.clone(),
                first: first.origin.to_string(),
                second: tool.origin.to_string(),
            });
        }
        if tool.managed.is_some() {
            self.by_canonical.insert(tool.canonical().into_owned(), Arc::clone(&tool));
        }
        self.by_ckp_name.insert(tool.ckp_name.clone(), Arc::clone(&tool));
        self.by_name.insert(tool.definition.name.clone(), tool);
        Ok(())
    }

    /// Returns the tool a caller means: by MCP name, CKP name, `claw://local/tool/<name>`, which
    /// may end in `@` and the version of its document, the registry address that it is of, or
    /// `mcp.<server>.<tool>` or `<service>.<tool>`, which no list shows.
    pub fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        if let Some(tool) = self.by_name.get(name) {
            return Some(tool);
        }
        if let Some(rest) = name.strip_prefix("mcp.") {
            let own = self.by_name.values().find(|tool| tool.origin.is_bridged_as(rest));
            return own.or_else(|| self.of_whole_server(rest));
        }
        let ckp = match name.strip_prefix("claw://") {
            None => name,
            Some(_) => return self.addressed(&ClawUri::parse(name).ok()?),
        };
        self.by_ckp_name.get(ckp).or_else(|| self.by_canonical.get(name))
    }

    /// A tool of another version, or of none that is known, is not the one that is meant. What a local
    /// document says stands for a registry's of that name and version, as it does in a manifest.
    fn addressed(&self, uri: &ClawUri) -> Option<&Arc<Tool>> {
        match uri {
            ClawUri::Local(uri) if uri.kind == Kind::Tool => {
                let fits = |tool: &&Arc<Tool>| uri.version.is_none() || uri.version == tool.version;
                self.by_ckp_name.get(&uri.name).filter(fits)
            }
            ClawUri::Local(_) => None,
            ClawUri::Registry(uri) => {
                self.by_ckp_name.get(&uri.name).filter(|tool| match &tool.origin {
                    Origin::Registry { uri: own } => own == uri,
                    _ => tool.version.as_ref() == Some(&uri.version),
                })
            }
        }
    }

    /// Returns the tool that `<server>.<tool>` means, where a Tool document stands for the whole server: its
    /// name is the server's then.
    fn of_whole_server(&self, text: &str) -> Option<&Arc<Tool>> {
        let (server, tool) = text.split_once('.')?;
        let name = BridgedName::of_server(server, tool).ok()?;
        let is_bridged = |tool: &&Arc<Tool>| matches!(tool.origin, Origin::Bridged { .. });
        self.by_name.get(&name.mcp).filter(is_bridged)
    }

    /// Says whether a source that has not said yet what it has may have the tool that a caller means.
    pub fn may_come(&self, name: &str) -> bool {
        let name = ClawUri::any_tool_name(name).unwrap_or_else(|| name.to_owned());
        let own = name
            .strip_prefix("mcp.")
            .map_or_else(|| name.clone(), |rest| rest.replacen('.', "-", 1));
        let lower = |name: &str| ckp_name(name).to_ascii_lowercase();
        let begins = |other: &String| lower(&own).starts_with(&lower(other));
        self.awaited.iter().any(begins)
    }

    /// Returns why a tool that is known is not served, by any of its names.
    pub fn refused_as(&self, name: &str) -> Option<&Refused> {
        let own = match name.starts_with("claw://") {
            true => ClawUri::any_tool_name(name)?,
            false => ckp_name(name),
        };
        self.refused
            .iter()
            .find(|refused| refused.tool.as_deref().is_some_and(|tool| ckp_name(tool) == own))
    }

    /// Returns all tools by MCP name, in a fixed order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.by_name.values()
    }

    /// Returns how many tools there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Says whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
