//! One tool as it is served: what its component offers, under what documents and profiles say.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::{Annotations, Origin, Tool, ToolDefinition};
use clawhost_core::descriptor::Granted;
use clawhost_core::egress::{endpoint, parse_url};
use clawhost_core::grants::Grants;
use clawhost_core::imports;
use clawhost_core::manifest::{PROFILE_NONE, ToolBinding};
use clawhost_core::policy::{PathReader, ToolPaths};
use clawhost_core::retry::RetryPlan;
use clawhost_core::schema::{Schema, together};
use serde_json::{Map, Value};

use super::{Binder, Source};
use crate::registry::offer::Offered;
use crate::registry::{ToolCode, builtin};
use crate::sandbox::host_folders;

impl Binder {
    pub(super) fn tool(
        &self,
        Source { origin, code }: &Source<'_>,
        offered: &Offered,
        binding: Option<&ToolBinding>,
    ) -> Result<Tool, String> {
        let Offered { definition, ckp_name, input, output, beside, governed } = offered;
        let documents = || beside.iter().chain(binding);
        let timeout = documents().filter_map(|document| document.timeout).min();
        let mut grants = self.grants(origin, binding, timeout)?;
        if matches!(origin, Origin::BuiltIn { .. }) {
            self.sources.manifest.web.apply(&definition.name, &mut grants);
        }
        // What is asked elsewhere is all that a call reaches, whatever its profile has beside it.
        let managed = code.managed().map(|granted| granted.tool.base_url.as_str());
        if let Some(url) = managed.or_else(|| code.server_url()) {
            grants.network = endpoint(url).ok();
        }
        imports::check(code.imports(), &grants).map_err(|reasons| reasons.join("; "))?;
        let mut input = vec![Arc::clone(input)];
        let mut output: Vec<_> = output.iter().map(Arc::clone).collect();
        for document in documents() {
            // The component's schema and the documents' all hold.
            self.compile(document.input_schema.as_ref(), &mut input)?;
            self.compile(document.output_schema.as_ref(), &mut output)?;
        }
        let hints = hints(offered, binding);
        let policies = [binding.and_then(|binding| binding.policy.as_ref()), code.policy()];
        let policies = policies.into_iter();
        let mut tool = Tool {
            declared: declared(origin, hints, binding),
            definition: described(offered, hints, binding),
            hints,
            ckp_name: ckp_name.clone(),
            version: binding.into_iter().chain(beside).find_map(|of| of.version.clone()),
            digest: code.digest().into_owned(),
            origin: (*origin).clone(),
            asks: builtin::always_asks(origin)
                || binding.and_then(|of| of.skill.as_ref()).is_some_and(|skill| skill.asks),
            policy_refs: policies.flatten().cloned().collect(),
            category: binding.and_then(|binding| binding.category.clone()),
            // What a composite has done is not done again: its steps are tried again, each by itself.
            retry: binding
                .filter(|_| !matches!(code, ToolCode::Composite(_)))
                .map_or(RetryPlan::ONCE, ToolBinding::retry_plan),
            governed: governed.clone(),
            // What a server has beside tools is served where its entry says so.
            surfaced: !matches!(code, ToolCode::Bridged(one) if one.kind.is_some())
                && self.is_surfaced(origin, binding),
            managed: self.managed(origin, code),
            paths: paths(definition, documents()).read_by(path_reader(code, &grants)),
            input,
            output,
            grants,
        };
        if tool.is_call_tool() {
            tool.paths = tool.paths.handed_on();
        }
        self.sources.manifest.governance.bind(&mut tool);
        self.keep_to_schema(&mut tool)?;
        keep_to_policy(&mut tool, code)?;
        Ok(tool)
    }

    /// Returns what a tool is as a service's: one that the host asks itself, or one of an MCP server.
    fn managed(&self, origin: &Origin, code: &ToolCode) -> Option<Arc<Granted>> {
        let Origin::Bridged { server, tool } = origin else { return code.managed().cloned() };
        self.sources.manifest.managed(server, tool).cloned().map(Arc::new)
    }

    /// Says whether a server's tool is served for nothing but some agent's skills.
    fn is_surfaced(&self, origin: &Origin, binding: Option<&ToolBinding>) -> bool {
        let Origin::Bridged { server, tool } = origin else { return false };
        if self.sources.manifest.managed(server, tool).is_some() {
            return false;
        }
        let mut servers = self.sources.manifest.mcp_servers.iter();
        servers.any(|one| one.name == *server && one.internal_only)
            && binding.is_none_or(|binding| binding.mcp.is_none())
    }

    /// Adds the schema of a tool's definition to those that hold, and to what clients are shown.
    fn keep_to_schema(&self, tool: &mut Tool) -> Result<(), String> {
        let own = tool.governed.clone();
        let Some(schema) = own.as_ref().and_then(|own| own.schema.as_ref()) else { return Ok(()) };
        self.compile(Some(schema), &mut tool.input)?;
        tool.definition.input_schema = together(&tool.definition.input_schema, schema);
        tool.paths.add(schema);
        Ok(())
    }

    /// Adds a schema to those that hold, where it is not one of them.
    fn compile(&self, schema: Option<&Value>, all: &mut Vec<Arc<Schema>>) -> Result<(), String> {
        let Some(schema) = schema else { return Ok(()) };
        let schema = self.sources.engine.schemas().get(schema)?;
        if all.iter().all(|other| other.digest() != schema.digest()) {
            all.push(schema);
        }
        Ok(())
    }

    fn grants(
        &self,
        origin: &Origin,
        binding: Option<&ToolBinding>,
        timeout: Option<Duration>,
    ) -> Result<Grants, String> {
        let name = binding.map_or(PROFILE_NONE, |binding| binding.sandbox.as_str());
        let profile = self
            .sources
            .manifest
            .profiles
            .get(name)
            .ok_or_else(|| format!("there is no sandbox profile `{name}`"))?;
        let grants = profile.grants(timeout);
        match origin {
            Origin::Native { .. } if name != PROFILE_NONE => Err(format!(
                "it is native, so the sandbox `{name}` would contain nothing: write `{PROFILE_NONE}`"
            )),
            Origin::Native { .. } => Ok(Grants::native(grants.limits)),
            Origin::Bridged { .. } if !profile.signed_by.is_empty() => Err(format!(
                "it is an MCP server's, which carries no signature, and `profiles.{name}.signed_by` wants one"
            )),
            _ => Ok(grants),
        }
    }
}

/// Takes out of a tool's grants what the network policy of its definition does not have.
fn keep_to_policy(tool: &mut Tool, code: &ToolCode) -> Result<(), String> {
    let own = tool.governed.clone();
    let Some(policy) = own.as_ref().and_then(|own| own.network.as_ref()) else { return Ok(()) };
    if tool.grants.agent.tool_calls > 0 || matches!(code, ToolCode::Composite(_) | ToolCode::Own(_))
    {
        let reason = "its `network_policy` would not hold for what it calls: write it for the tools that it calls";
        return Err(reason.to_owned());
    }
    policy.narrow(&mut tool.grants);
    let server = code.server_url().map(parse_url).transpose();
    let checked = server.and_then(|url| url.map_or(Ok(()), |url| policy.check(&url)));
    checked.map_err(|_| "its `network_policy` does not allow its MCP server's address".to_owned())
}

/// The component's schema and those of documents all say which arguments are paths.
fn paths<'a>(
    definition: &'a ToolDefinition,
    documents: impl Iterator<Item = &'a ToolBinding>,
) -> ToolPaths {
    let documents = documents.filter_map(|document| document.input_schema.as_ref());
    ToolPaths::of(documents.chain([&definition.input_schema]))
}

/// Returns how a tool reads paths. A server elsewhere may be on this machine as well, or know folders by the
/// names that they have here.
fn path_reader(code: &ToolCode, grants: &Grants) -> PathReader {
    if code.bridged().is_none() {
        return PathReader::Tool;
    }
    let jailed = code.server_url().is_none();
    PathReader::Server { folders: host_folders(grants), jailed }
}

/// Returns what clients see: what the tool says, and over it what documents say, as that is what calls are
/// held to.
fn described(
    Offered { definition, beside, .. }: &Offered,
    hints: Annotations,
    binding: Option<&ToolBinding>,
) -> ToolDefinition {
    let mut shown = definition.clone();
    let mut words = binding.into_iter().chain(beside);
    if let Some(text) = words.find_map(|document| document.description.clone()) {
        shown.description = text;
    }
    for document in beside.iter().chain(binding) {
        if let Some(schema) = &document.input_schema {
            shown.input_schema = together(&shown.input_schema, schema);
        }
        if let Some(schema) = &document.output_schema {
            let own = shown.output_schema.as_ref();
            shown.output_schema =
                Some(own.map_or_else(|| schema.clone(), |own| together(own, schema)));
        }
    }
    let said = binding.map(ToolBinding::declared).unwrap_or_default();
    shown.title = said.get("title").and_then(Value::as_str).map(str::to_owned).or(shown.title);
    shown.annotations = overlaid(hints, &said);
    shown
}

/// Returns what a tool says of itself, and a document of a registry with it: the more careful of both.
fn hints(
    Offered { definition, beside, .. }: &Offered,
    binding: Option<&ToolBinding>,
) -> Annotations {
    let documents = beside.iter().chain(binding.filter(|own| own.registry.is_some()));
    documents.fold(definition.annotations, |own, document| careful(own, &document.annotations))
}

/// Returns what is shown of hints where the operator has `said` some of them.
fn overlaid(own: Annotations, said: &Map<String, Value>) -> Annotations {
    Annotations::of(|key| said.get(key).and_then(Value::as_bool).or_else(|| own.hint(key)))
}

/// Returns the hints that rules may trust: the word of the host, and of the program it is part of, about
/// their own tools, and over it the operator's.
fn declared(
    origin: &Origin,
    own: Annotations,
    binding: Option<&ToolBinding>,
) -> Map<String, Value> {
    let is_own = matches!(origin, Origin::BuiltIn { .. } | Origin::Native { .. } | Origin::Own);
    let hint = |key: &str| Some((key.to_owned(), own.hint(key).filter(|_| is_own)?.into()));
    let hints = Annotations::KEYS.into_iter().filter_map(hint);
    hints.chain(binding.map(ToolBinding::declared).unwrap_or_default()).collect()
}

/// Joins two untrusted descriptions: of each hint the one that asks for more care.
fn careful(own: Annotations, other: &Map<String, Value>) -> Annotations {
    Annotations::of(|key| {
        let careful = matches!(key, "destructiveHint" | "openWorldHint");
        let (own, other) = (own.hint(key), other.get(key).and_then(Value::as_bool));
        own.into_iter().chain(other).find(|hint| *hint == careful).or(own).or(other)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::Schemas;

    #[test]
    fn what_is_shown_is_what_is_checked_and_what_the_operator_says() {
        let own = Annotations {
            read_only: Some(true),
            destructive: Some(true),
            ..Annotations::default()
        };
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let definition =
            ToolDefinition { annotations: own, ..ToolDefinition::new("t", "own", schema) };
        let offered = Offered::new(&definition, &Schemas::default()).unwrap();
        let said = json!({"title": "T", "readOnlyHint": false, "openWorldHint": true});
        let binding = ToolBinding {
            input_schema: Some(json!({"properties": {"a": {"maxLength": 5}}})),
            output_schema: Some(json!({"type": "object"})),
            annotations: said.as_object().unwrap().clone(),
            ..ToolBinding::default()
        };
        let shown = described(&offered, hints(&offered, Some(&binding)), Some(&binding));
        let a = json!({"type": "string", "maxLength": 5});
        assert_eq!(shown.input_schema, json!({"type": "object", "properties": {"a": a}}));
        assert_eq!(shown.output_schema, binding.output_schema);
        assert_eq!((shown.title.as_deref(), shown.description.as_str()), (Some("T"), "own"));
        let both = Annotations { read_only: Some(false), open_world: Some(true), ..own };
        assert_eq!(shown.annotations, both);
        // What rules may tighten for stays the tool's own word.
        assert_eq!(hints(&offered, Some(&binding)), own);
    }

    #[test]
    fn the_word_of_a_registry_tightens_and_never_relaxes() {
        let said = |text: &str| {
            let hints: Value = serde_json::from_str(text).unwrap();
            hints.as_object().unwrap().clone()
        };
        let own = Annotations {
            read_only: Some(true),
            destructive: Some(true),
            idempotent: None,
            open_world: Some(false),
        };
        let other = said(
            r#"{"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}"#,
        );
        let both = Annotations {
            read_only: Some(false),
            destructive: Some(true),
            idempotent: Some(true),
            open_world: Some(true),
        };
        assert_eq!(careful(own, &other), both);
        assert_eq!(careful(own, &said("{}")), own);
    }
}
