//! The catalog: an immutable, versioned set of tools, found by any of their names.
//!
//! Deliberately absent: how a tool is executed. A [`Tool`] says what it is, what it may touch
//! and which policy governs it; executors find its code by [`Tool::digest`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::bridged;
use crate::descriptor::Granted;
use crate::exposed::Served;
use crate::grants::{Grants, NATIVE};
use crate::limits::{
    ERROR_TEXT_BYTES_MAX, TOOL_DESCRIPTION_BYTES_MAX, TOOL_NAME_BYTES_MAX, TOOL_SCHEMA_BYTES_MAX,
};
use crate::manifest::{Definition, DocumentError};
use crate::policy::PathNames;
use crate::retry::RetryPlan;
use crate::schema::Schema;
use crate::uri::{ClawUri, LocalUri, RegistryUri};
use crate::{truncate, visible};

/// What the host's own tool is called that calls others by their names.
pub const CALL_TOOL: &str = "call_tool";

/// A tool as its component (or document) describes it: MCP's shape.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The component's own name, for example `read_file`.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// Untrusted hints; of a bound tool what clients are shown, where the operator's word comes first.
    pub annotations: Annotations,
}

/// MCP's tool annotations: untrusted hints that may tighten a decision, never relax one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may destroy.
    pub destructive: Option<bool>,
    /// Repeating a call changes nothing more.
    pub idempotent: Option<bool>,
    /// The tool reaches an open world.
    pub open_world: Option<bool>,
}

impl Annotations {
    /// The names that MCP has for them.
    pub const KEYS: [&str; 4] =
        ["destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint"];

    /// Returns the hint of MCP's name.
    pub fn hint(&self, key: &str) -> Option<bool> {
        match key {
            "destructiveHint" => self.destructive,
            "idempotentHint" => self.idempotent,
            "openWorldHint" => self.open_world,
            "readOnlyHint" => self.read_only,
            _ => None,
        }
    }
}

/// Where a tool's code comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Shipped inside the host.
    BuiltIn {
        /// The component's name, for example `file-io`.
        component: &'static str,
    },
    /// A file of the drop-in directory.
    DropIn {
        /// Its file name.
        file: String,
    },
    /// A definition file that says what it is made of.
    Composite {
        /// The file.
        file: String,
    },
    /// A component that a registry has beside the tool's document.
    Registry {
        /// The address it was fetched from.
        uri: RegistryUri,
    },
    /// An MCP server that the host talks to.
    Bridged {
        /// What the runtime file calls it, or its address.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
    /// A component of the version of the registry that is in service.
    Release,
    /// The host itself.
    Own,
    /// A service that the host asks itself.
    Service {
        /// Its name.
        service: String,
    },
    /// The program that the host is part of.
    Native {
        /// Who of it has the tool; empty where the tool stands alone.
        provider: String,
    },
}

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
    /// Which arguments are paths, for rules that look at them.
    pub paths: PathNames,
    /// The compiled argument schemas: the component's and, where there is one, the document's.
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
        let tools: Vec<&str> = composite.steps.iter().map(|step| step.tool.as_str()).collect();
        Some(format!("calls {}", tools.join(", ")))
    }

    /// Returns the time a call gets where the caller asks for no less.
    pub fn timeout(&self) -> Duration {
        self.grants.limits.timeout
    }
}

/// Says whether hints have this one, and it is true.
pub fn declares(declared: &Map<String, Value>, hint: &str) -> bool {
    declared.get(hint) == Some(&Value::Bool(true))
}

/// A source of tools that could not be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The file or document.
    pub source: String,
    /// The reason, and what would be right.
    pub reason: String,
    /// The tool that is not served for it, by any of its names, where it is about one.
    pub tool: Option<String>,
    /// Its MCP server is at fault, and may yet offer it.
    pub is_upstream: bool,
    /// Every problem of its documents, where it is refused for these.
    pub problems: Vec<DocumentError>,
}

impl Refused {
    /// Returns a refusal whose texts are one line, short, and safe to show: they may quote a
    /// file.
    pub fn new(source: &str, reason: &str) -> Self {
        let short = |text: &str| visible::line(truncate::text(text, ERROR_TEXT_BYTES_MAX));
        let (source, reason) = (short(source), short(reason));
        Self { source, reason, tool: None, is_upstream: false, problems: Vec::new() }
    }

    /// Returns a refusal for every problem of documents, whose reason is the first.
    pub fn wrong(source: &str, problems: Vec<DocumentError>) -> Self {
        let first = problems.first().map(DocumentError::one_line).unwrap_or_default();
        let reason = match problems.len() {
            0 | 1 => first,
            all => format!("{first}; and {} more: `clawhost validate` shows them", all - 1),
        };
        Self { problems, ..Self::new(source, &reason) }
    }

    /// Returns it as the reason why `tool` is not served.
    #[must_use]
    pub fn of(self, tool: &str) -> Self {
        Self { tool: Some(tool.to_owned()), ..self }
    }

    /// Returns it as something that its MCP server is at fault for.
    #[must_use]
    pub fn upstream(self) -> Self {
        Self { is_upstream: true, ..self }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refused: {}: {}", self.source, self.reason)
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
    /// may end in `@` and the version of its document, or `mcp.<server>.<tool>` or
    /// `<service>.<tool>`, which no list shows.
    pub fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        if let Some(tool) = self.by_name.get(name) {
            return Some(tool);
        }
        if let Some(rest) = name.strip_prefix("mcp.") {
            return self.by_name.values().find(|tool| tool.origin.is_bridged_as(rest));
        }
        let ckp = match name.strip_prefix("claw://") {
            None => name,
            Some(_) => return self.addressed(&ClawUri::parse_tool(name)?),
        };
        self.by_ckp_name.get(ckp).or_else(|| self.by_canonical.get(name))
    }

    /// A tool of another version, or of none that is known, is not the one that is meant.
    fn addressed(&self, uri: &LocalUri) -> Option<&Arc<Tool>> {
        let fits = |tool: &&Arc<Tool>| uri.version.is_none() || uri.version == tool.version;
        self.by_ckp_name.get(&uri.name).filter(fits)
    }

    /// Says whether a source that has not said yet what it has may have the tool that a caller means.
    pub fn may_come(&self, name: &str) -> bool {
        let name = ClawUri::parse_tool(name).map_or_else(|| name.to_owned(), |uri| uri.name);
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
            true => ClawUri::parse_tool(name)?.name,
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

impl Origin {
    /// Says whether it is the tool of the server that `<server>.<tool>` means.
    fn is_bridged_as(&self, text: &str) -> bool {
        let Self::Bridged { server, tool } = self else { return false };
        text.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix('.')) == Some(tool)
    }
}

impl Origin {
    /// Says in a word or two where the code of a tool comes from.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bridged { .. } => "bridged",
            Self::BuiltIn { .. } => "built-in",
            Self::Composite { .. } => "composite",
            Self::DropIn { .. } => "dropped in",
            Self::Native { .. } => "native",
            Self::Own => "the host's",
            Self::Registry { .. } => "registry",
            Self::Release => "registry version",
            Self::Service { .. } => "service",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn { component } => write!(f, "the built-in component `{component}`"),
            Self::Composite { file } => write!(f, "the definition file `{file}`"),
            Self::DropIn { file } => write!(f, "the file `{file}`"),
            Self::Registry { uri } => write!(f, "`{uri}`"),
            Self::Bridged { server, .. } => write!(f, "the MCP server `{server}`"),
            Self::Release => f.write_str("the version of the registry in service"),
            Self::Own => f.write_str("the host itself"),
            Self::Service { service } => write!(f, "the service `{service}`"),
            Self::Native { provider } if provider.is_empty() => {
                write!(f, "the embedding program ({NATIVE})")
            }
            Self::Native { provider } => {
                write!(f, "`{provider}` of the embedding program ({NATIVE})")
            }
        }
    }
}

/// Returns the CKP form of a component's tool name: CKP names know no underscore.
///
/// Two names of one catalog that map to the same CKP name are a collision, found by
/// [`Catalog::add`]; nothing is ever mapped back by arithmetic.
pub fn ckp_name(name: &str) -> String {
    name.replace('_', "-")
}

/// What a property may be called at most in tools that Claude's API takes.
const CLAUDE_PROPERTY_BYTES_MAX: usize = 64;

/// Returns the first property of a tool's arguments that Claude's API does not take: it refuses every request that has
/// such a tool, with all others in it.
pub fn refused_by_claude(input_schema: &Value) -> Option<&str> {
    let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let fits = |key: &str| {
        (1..=CLAUDE_PROPERTY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_name_byte)
    };
    let properties = input_schema.get("properties")?.as_object()?;
    properties.keys().map(String::as_str).find(|key| !fits(key))
}

/// Says for people that Claude's API does not take the tool `name` with these arguments.
pub fn claude_note(name: &str, input_schema: &Value) -> Option<String> {
    let key = truncate::text(refused_by_claude(input_schema)?, TOOL_NAME_BYTES_MAX);
    Some(format!(
        "`{name}` has the argument {key:?}, and Claude's API refuses whatever has a tool with such a one: call it 1 to {CLAUDE_PROPERTY_BYTES_MAX} of `a-z A-Z 0-9 _ . -`; until then the proxy leaves the tool out where Claude's messages are spoken, and other clients may fail"
    ))
}

/// Why what somebody wrote is no tool's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTool {
    /// It may be a server's tool, or one that is called so itself.
    #[error("{0:?} may be two tools: only a host that runs can tell which")]
    Ambiguous(String),
    /// No tool can be called so.
    #[error("{0:?} is no name of a tool")]
    Malformed(String),
}

/// Returns the CKP name that somebody means who writes `tool`, whether or not there is such a tool.
///
/// # Errors
/// See [`NoTool`].
pub fn meant(tool: &str) -> Result<String, NoTool> {
    let shown = || truncate::text(tool, TOOL_NAME_BYTES_MAX).to_owned();
    if tool.contains("__") {
        return Err(NoTool::Ambiguous(shown()));
    }
    let name = bridged::dotted(tool).or_else(|| ClawUri::parse_tool_name(tool));
    let name = name.unwrap_or_else(|| ckp_name(tool));
    if !is_tool_name(&name) || name.contains('_') {
        return Err(NoTool::Malformed(shown()));
    }
    Ok(name)
}

/// Says whether MCP has tools of that name.
pub(crate) fn is_tool_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=TOOL_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Checks the name of a tool.
///
/// # Errors
/// As [`check_definition`].
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if !is_tool_name(name) {
        return Err(format!(
            "tool name {name:?} is not 1 to {TOOL_NAME_BYTES_MAX} of `a-z A-Z 0-9 _ -`"
        ));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.len() > 63 {
        return Err(format!(
            "tool name {name:?} has no CKP form: start with a letter or digit, at most 63 characters"
        ));
    }
    Ok(())
}

/// Checks what a component says about one tool before anything uses it.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn check_definition(definition: &ToolDefinition) -> Result<(), String> {
    let name = &definition.name;
    check_name(name)?;
    if definition.description.trim().is_empty() {
        return Err(format!("tool `{name}` has no description"));
    }
    if definition.description.len() > TOOL_DESCRIPTION_BYTES_MAX {
        return Err(format!(
            "the description of tool `{name}` is over {TOOL_DESCRIPTION_BYTES_MAX} bytes"
        ));
    }
    check_schemas(definition)
}

fn check_schemas(definition: &ToolDefinition) -> Result<(), String> {
    let schemas = std::iter::once(&definition.input_schema).chain(&definition.output_schema);
    for schema in schemas {
        if schema.to_string().len() > TOOL_SCHEMA_BYTES_MAX {
            return Err(format!(
                "a schema of tool `{}` is over {TOOL_SCHEMA_BYTES_MAX} bytes",
                definition.name
            ));
        }
    }
    match definition.input_schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => {
            Err(format!("the input schema of tool `{}` must have `type: object`", definition.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_argument_that_claude_does_not_take_is_named() {
        let (fits, long) = ("x".repeat(64), "x".repeat(65));
        for (key, is_refused) in [
            ("path", false),
            ("a_b.c-D9", false),
            (fits.as_str(), false),
            (long.as_str(), true),
            ("a b", true),
            ("$filter", true),
            ("größe", true),
            ("", true),
        ] {
            let schema = json!({"type": "object", "properties": {"a": {}, key: {}}});
            assert_eq!(refused_by_claude(&schema), is_refused.then_some(key));
            let note = claude_note("t", &schema);
            assert_eq!(note.is_some_and(|note| note.starts_with("`t` has")), is_refused, "{key}");
        }
        assert_eq!(refused_by_claude(&json!({"type": "object"})), None);
    }
}
