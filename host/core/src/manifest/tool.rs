//! `kind: Tool`: what binds a component's tool to a profile, a policy and a schema.
//!
//! The protocol has no field for a tool's code: the component is found by the tool's name, but for
//! a tool of an MCP server, which the document names.

use std::time::Duration;

use serde_json::{Map, Value};

use super::mcp::{self, McpSource};
use super::node::{Entry, Node};
use super::primitive::Document;
use super::problem::Problems;
use super::refs::local_name;
use super::shape::{shown, shown_sentence};
use crate::catalog::declares;
use crate::limits::{TOOL_DESCRIPTION_BYTES_MAX, TOOL_SCHEMA_BYTES_MAX};
use crate::retry::RetryPlan;
use crate::schema::{Fault, Schema};
use crate::uri::{Kind, RegistryUri};

/// What a manifest says about one tool. Names are resolved: profile and policy exist.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolBinding {
    /// The tool's CKP name, for example `read-file`.
    pub name: String,
    /// `metadata.version` of its document.
    pub version: Option<String>,
    /// `metadata.labels.category`, which policy rules match; none where the document is of a registry.
    pub category: Option<String>,
    /// For the model; the component's own where absent.
    pub description: Option<String>,
    /// JSON Schema that arguments have to match beside the component's own.
    pub input_schema: Option<Value>,
    /// JSON Schema that results have to match beside the component's own.
    pub output_schema: Option<Value>,
    /// The profile it runs under.
    pub sandbox: String,
    /// The policy that also has to allow it.
    pub policy: Option<String>,
    /// What the operator declares about it: trusted, unlike a component's own hints.
    pub annotations: Map<String, Value>,
    /// The time a call gets; zero is legal and means none.
    pub timeout: Option<Duration>,
    /// Whether and how a call that failed for a passing reason is tried again.
    pub retry: Option<RetryPlan>,
    /// The skill that it wraps, where it is made of other tools.
    pub skill: Option<SkillTerms>,
    /// The MCP server that has it; a component has it where this is absent.
    pub mcp: Option<McpSource>,
    /// The registry its document came from. What such a document says in `annotations` is a
    /// hint like a component's own: it tightens a decision and never relaxes one.
    pub registry: Option<RegistryUri>,
    /// `file:line`, for messages.
    pub at: String,
    /// What in its document does less than its author may think, for people.
    pub notes: Vec<String>,
}

/// What a Skill says of the tool that wraps it (`composite: true`, `skill_ref`). In which order its tools
/// are called, and with what, is for a definition file to say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SkillTerms {
    /// Its name.
    pub name: String,
    /// The only tools that may be called, by CKP name.
    pub tools: Vec<String>,
    /// A person is asked before each call.
    pub asks: bool,
    /// JSON Schemas that arguments have to match as well.
    pub input_schema: Option<Value>,
    /// JSON Schemas that results have to match as well.
    pub output_schema: Option<Value>,
}

impl ToolBinding {
    /// Returns how often a call is tried: as the document says, where it also declares that
    /// repeating a call changes nothing more (`idempotentHint`); once otherwise. What the component
    /// says about itself does not count.
    pub fn retry_plan(&self) -> RetryPlan {
        self.retry
            .filter(|_| declares(&self.declared(), "idempotentHint"))
            .unwrap_or(RetryPlan::ONCE)
    }

    /// Returns the annotations that the operator declares: none where the document is of a
    /// registry, whose word relaxes nothing.
    pub fn declared(&self) -> Map<String, Value> {
        if self.registry.is_some() { Map::new() } else { self.annotations.clone() }
    }
}

/// Checks what the shape cannot say.
pub(crate) fn check(spec: &Node, report: &mut Problems) {
    if let Some(description) = spec.get(&["description"])
        && description.as_text().is_some_and(|text| text.len() > TOOL_DESCRIPTION_BYTES_MAX)
    {
        let help = format!("a description may have {TOOL_DESCRIPTION_BYTES_MAX} bytes");
        report.invalid(&description.at, "`description` is too long", help);
    }
    mcp::check(spec, report);
    check_composite(spec, report);
    check_schemas(spec, report);
}

/// Reports what of the schemas of a Tool or a Skill cannot be used.
pub(crate) fn check_schemas(spec: &Node, report: &mut Problems) {
    spec.entry("input_schema").into_iter().for_each(|entry| check_arguments(entry, report));
    spec.entry("output_schema").into_iter().for_each(|entry| check_schema(entry, report));
}

/// Reports a schema of arguments that cannot be used, or is of another type than the one that MCP has for
/// them: no call could meet it, and no client would take it.
pub(crate) fn check_arguments(entry: &Entry, report: &mut Problems) {
    let before = report.count();
    check_schema(entry, report);
    let stated = entry.node.get(&["type"]).filter(|_| report.none_since(before));
    if let Some(stated) = stated.filter(|stated| stated.as_text() != Some("object")) {
        let reason =
            format!("`{}` is not of `type: object`, which arguments always are", entry.key);
        report.invalid(&stated.at, reason, "write `type: object`");
    }
}

/// Returns the binding a checked document holds, under `default_profile` where it names none.
pub(crate) fn read(of: &Document, default_profile: &str) -> ToolBinding {
    let named = |key: &str, kind| local_name(of.spec.text(&[key])?, kind);
    let object = |key: &str| of.spec.get(&[key]).map(Node::to_json);
    let annotations = object("annotations").as_ref().and_then(Value::as_object).cloned();
    ToolBinding {
        name: of.name.clone(),
        version: of.version.clone(),
        category: of.category.clone().filter(|_| of.package.is_none()),
        description: of.spec.text(&["description"]).map(str::to_owned),
        input_schema: object("input_schema"),
        output_schema: object("output_schema"),
        sandbox: named("sandbox_ref", Kind::Sandbox).unwrap_or_else(|| default_profile.to_owned()),
        policy: named("policy_ref", Kind::Policy),
        annotations: annotations.unwrap_or_default(),
        timeout: of.spec.number(&["timeout_ms"]).map(Duration::from_millis),
        retry: of.spec.read(&["retry"]),
        skill: None,
        mcp: McpSource::read(&of.spec),
        registry: of.package.clone(),
        at: of.at.to_string(),
        notes: Vec::new(),
    }
}

/// Reports a schema that cannot be used.
pub(crate) fn check_schema(entry: &Entry, report: &mut Problems) {
    let Entry { key, at, node } = entry;
    let schema = node.to_json();
    let budget = &mut report.pattern_bytes_left;
    let (pointer, reason, help) = if schema.to_string().len() > TOOL_SCHEMA_BYTES_MAX {
        let reason = format!("it is over {TOOL_SCHEMA_BYTES_MAX} bytes");
        (String::new(), reason, "leave out what the tool does not need".to_owned())
    } else if let Err(Fault { at, reason, help }) = Schema::compile_within(&schema, budget) {
        (at, reason, help)
    } else {
        return;
    };
    let place = node.pointed(&pointer).map_or(at, |node| &node.at);
    let inside =
        if pointer.is_empty() { String::new() } else { format!(" at `{}`", shown(&pointer)) };
    let reason = format!("`{key}` cannot be used{inside}: {}", shown_sentence(&reason));
    report.invalid(place, reason, help);
}

fn check_composite(spec: &Node, report: &mut Problems) {
    if spec.flag(&["composite"]) != Some(true) {
        return;
    }
    if spec.get(&["skill_ref"]).is_none() {
        let help = "add `skill_ref: <name of a Skill>`: what it requires is what may be called";
        report.invalid(spec.place(&["composite"]), "`skill_ref` is missing", help);
    }
    for key in ["mcp_source", "retry"] {
        if let Some(entry) = spec.entry(key) {
            let reason = format!("`{key}` does not go with `composite: true`");
            report.invalid(
                &entry.at,
                reason,
                format!("take `{key}` out: its steps have their own"),
            );
        }
    }
}

/// Returns the skill that a tool's document wraps; `skills` are all there are.
pub(crate) fn skill<'a>(
    of: &Document,
    mut skills: impl Iterator<Item = &'a Document>,
) -> Option<SkillTerms> {
    of.spec.flag(&["composite"]).filter(|is| *is)?;
    let name = local_name(of.spec.text(&["skill_ref"])?, Kind::Skill)?;
    let spec = skills.find(|skill| skill.name == name).map(|skill| &skill.spec);
    let schema = |key: &str| Some(spec?.get(&[key])?.to_json());
    let tools = spec.into_iter().flat_map(|spec| spec.texts(&["tools_required"]));
    Some(SkillTerms {
        tools: tools.filter_map(|(_, tool)| local_name(tool, Kind::Tool)).collect(),
        asks: spec.and_then(|of| of.flag(&["permissions", "approval_required"])) == Some(true),
        input_schema: schema("input_schema"),
        output_schema: schema("output_schema"),
        name,
    })
}

/// Reports what a skill permits that nothing would hold a composite of it to: each step runs under the
/// sandbox of its own tool.
pub(crate) fn check_skill(of: &Document, skills: &[&Document], report: &mut Problems) {
    let name = skill(of, skills.iter().copied()).map(|skill| skill.name);
    let wrapped = skills.iter().filter(|skill| Some(&skill.name) == name.as_ref());
    let permissions = wrapped.filter_map(|skill| skill.spec.get(&["permissions"]));
    for entry in permissions.flat_map(Node::entries) {
        if entry.key != "approval_required" {
            let reason = format!("nothing holds a composite to `permissions.{}`", entry.key);
            let help = "take it out: each step runs under the sandbox of its own tool";
            report.invalid(&entry.at, reason, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_tool_that_is_declared_idempotent_is_tried_again() {
        let plan = RetryPlan { max_attempts: 5, ..RetryPlan::default() };
        let attempts = |retry, annotations: Value| {
            let annotations = annotations.as_object().cloned().unwrap_or_default();
            ToolBinding { retry, annotations, ..ToolBinding::default() }.retry_plan().max_attempts
        };
        assert_eq!(attempts(Some(plan), json!({ "idempotentHint": true })), 5);
        assert_eq!(attempts(Some(plan), json!({ "idempotentHint": false })), 1);
        assert_eq!(attempts(Some(plan), json!({})), 1);
        assert_eq!(attempts(None, json!({ "idempotentHint": true })), 1);
    }
}
