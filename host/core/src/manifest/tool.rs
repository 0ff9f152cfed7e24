//! `kind: Tool`: what binds a component's tool to a profile, a policy and a schema.
//!
//! The protocol has no field for a tool's code: the component is found by the tool's name.

use std::time::Duration;

use serde_json::{Map, Value};

use super::node::Node;
use super::primitive::Primitive;
use super::problem::{Report, nearest};
use super::shape::{COUNT, FLAG, OBJECT, POSITIVE, Shape, TEXT, opt, shown, shown_sentence};
use crate::limits::{TOOL_DESCRIPTION_BYTES_MAX, TOOL_SCHEMA_BYTES_MAX, TOOL_TIMEOUT_CEILING_MS};
use crate::retry::RetryPlan;
use crate::schema::Schema;
use crate::uri::RegistryUri;

/// What a manifest says about one tool. Names are resolved: profile and policy exist.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolBinding {
    /// The tool's CKP name, for example `read-file`.
    pub name: String,
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
    /// The registry its document came from. What such a document says in `annotations` is a
    /// hint like a component's own: it tightens a decision and never relaxes one.
    pub registry: Option<RegistryUri>,
    /// `file:line`, for messages.
    pub at: String,
}

impl ToolBinding {
    /// Returns how often a call is tried: as the document says, where it also declares that
    /// repeating a call changes nothing more (`idempotentHint`); once otherwise. What the component
    /// says about itself does not count.
    pub fn retry_plan(&self) -> RetryPlan {
        let declared = self.declared();
        let idempotent = declared.get("idempotentHint").and_then(Value::as_bool) == Some(true);
        self.retry.filter(|_| idempotent).unwrap_or(RetryPlan::ONCE)
    }

    /// Returns the annotations that the operator declares: none where the document is of a
    /// registry, whose word relaxes nothing.
    pub fn declared(&self) -> Map<String, Value> {
        if self.registry.is_some() { Map::new() } else { self.annotations.clone() }
    }
}

pub(crate) const BACKOFF: Shape = Shape::OneOf(&["exponential", "linear", "constant"]);

/// MCP's hints; other annotations are free.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

pub(crate) const ANNOTATIONS: Shape = Shape::OpenRecord(&[
    opt("readOnlyHint", &FLAG),
    opt("destructiveHint", &FLAG),
    opt("idempotentHint", &FLAG),
    opt("openWorldHint", &FLAG),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    opt("description", &TEXT),
    opt("input_schema", &OBJECT),
    opt("output_schema", &OBJECT),
    opt("sandbox_ref", &TEXT),
    opt("policy_ref", &TEXT),
    opt(
        "mcp_source",
        &Shape::Later {
            help: "this version does not bridge MCP servers: bind a component of the tools directory instead",
        },
    ),
    opt("annotations", &ANNOTATIONS),
    opt("timeout_ms", &COUNT),
    opt("retry", &Shape::Record(&[opt("max_attempts", &POSITIVE), opt("backoff", &BACKOFF)])),
    opt(
        "composite",
        &Shape::Off { help: "this version runs single tools only: take the composite tool out" },
    ),
    opt("skill_ref", &TEXT),
]);

/// Checks what the shape cannot say.
pub(crate) fn check(spec: &Node, report: &mut Report<'_>) {
    check_required(spec, report);
    check_bounds(spec, report);
    if let Some(annotations) = spec.get(&["annotations"]) {
        check_hints(annotations, report);
    }
    check_schema(spec, "input_schema", report);
    check_schema(spec, "output_schema", report);
}

/// Reports what was probably meant as one of MCP's hints and is none: a rule about it would
/// silently never match.
pub(crate) fn check_hints(annotations: &Node, report: &mut Report<'_>) {
    for entry in annotations.entries() {
        let near = nearest(&entry.key, HINTS).filter(|near| *near != entry.key);
        if let Some(near) = near {
            let reason = format!("unknown annotation `{}`", shown(&entry.key));
            let help = format!("did you mean `{near}`?");
            report.invalid(entry.at, reason, help);
        }
    }
}

/// Returns the binding a checked document holds; `sandbox` and `policy` are resolved names.
pub(crate) fn read(of: &Primitive, sandbox: String, policy: Option<String>) -> ToolBinding {
    let object = |key: &str| of.spec.get(&[key]).map(Node::to_json);
    let annotations = object("annotations").as_ref().and_then(Value::as_object).cloned();
    ToolBinding {
        name: of.name.clone(),
        category: of.category.clone().filter(|_| of.package.is_none()),
        description: of.spec.text(&["description"]).map(str::to_owned),
        input_schema: object("input_schema"),
        output_schema: object("output_schema"),
        sandbox,
        policy,
        annotations: annotations.unwrap_or_default(),
        timeout: of.spec.number(&["timeout_ms"]).map(Duration::from_millis),
        retry: of.spec.read(&["retry"]),
        registry: of.package.clone(),
        at: of.source.location(of.at),
    }
}

fn check_required(spec: &Node, report: &mut Report<'_>) {
    if spec.entry("mcp_source").is_some() {
        return;
    }
    for key in ["description", "input_schema"] {
        if spec.entry(key).is_none() {
            let help = format!("a tool without `mcp_source` needs `{key}`");
            report.invalid(spec.at, format!("`spec.{key}` is missing"), help);
        }
    }
}

fn check_bounds(spec: &Node, report: &mut Report<'_>) {
    if let Some(timeout) = spec.get(&["timeout_ms"])
        && spec.number(&["timeout_ms"]).is_some_and(|ms| ms > TOOL_TIMEOUT_CEILING_MS)
    {
        let help = format!("the most this host gives one call is {TOOL_TIMEOUT_CEILING_MS}");
        report.invalid(timeout.at, "`spec.timeout_ms` is too large", help);
    }
    if let Some(description) = spec.get(&["description"])
        && description.as_text().is_some_and(|text| text.len() > TOOL_DESCRIPTION_BYTES_MAX)
    {
        let help = format!("a description may have {TOOL_DESCRIPTION_BYTES_MAX} bytes");
        report.invalid(description.at, "`spec.description` is too long", help);
    }
}

fn check_schema(spec: &Node, key: &str, report: &mut Report<'_>) {
    let Some(entry) = spec.entry(key) else {
        return;
    };
    let schema = entry.node.to_json();
    let error = if schema.to_string().len() > TOOL_SCHEMA_BYTES_MAX {
        format!("it is over {TOOL_SCHEMA_BYTES_MAX} bytes")
    } else if let Err(error) = Schema::compile(&schema) {
        error
    } else {
        return;
    };
    let reason = format!("`spec.{key}` cannot be used: {}", shown_sentence(&error));
    let help = "write a JSON Schema (draft 2020-12) that is complete in itself";
    report.invalid(entry.at, reason, help);
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
