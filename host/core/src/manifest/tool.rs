//! `kind: Tool`: what binds a component's tool to a profile, a policy and a schema.
//!
//! The protocol has no field for a tool's code: the component is found by the tool's name.

use std::time::Duration;

use serde_json::{Map, Value};

use super::node::Node;
use super::primitive::Primitive;
use super::problem::{Problems, Source, nearest};
use super::retry::{self, BACKOFF, Retry};
use super::shape::{COUNT, FLAG, OBJECT, POSITIVE, Shape, TEXT, opt, req, shown, shown_sentence};
use crate::limits::{TOOL_DESCRIPTION_BYTES_MAX, TOOL_SCHEMA_BYTES_MAX, TOOL_TIMEOUT_CEILING_MS};
use crate::schema::Schema;
use crate::uri::RegistryUri;

/// What a manifest says about one tool. Names are resolved: profile and policy exist.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolBinding {
    /// The tool's CKP name, for example `read-file`.
    pub name: String,
    /// `metadata.labels.category`, which policy rules match.
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
    pub retry: Option<Retry>,
    /// The registry its document came from. What such a document says in `annotations` is a
    /// hint like a component's own: it tightens a decision and never relaxes one.
    pub registry: Option<RegistryUri>,
    /// `file:line`, for messages.
    pub at: String,
}

impl ToolBinding {
    /// Returns the annotations that the operator declares: none where the document is of a
    /// registry, whose word relaxes nothing.
    pub fn declared(&self) -> Map<String, Value> {
        if self.registry.is_some() { Map::new() } else { self.annotations.clone() }
    }
}

const SOURCE: Shape = Shape::Record(&[req("uri", &TEXT), opt("tool_name", &TEXT)]);

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
    opt("mcp_source", &SOURCE),
    opt("annotations", &ANNOTATIONS),
    opt("timeout_ms", &COUNT),
    opt("retry", &Shape::Record(&[opt("max_attempts", &POSITIVE), opt("backoff", &BACKOFF)])),
    opt("composite", &FLAG),
    opt("skill_ref", &TEXT),
]);

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Primitive, problems: &mut Problems) {
    check_required(of, problems);
    check_source(of, problems);
    check_composite(of, problems);
    check_bounds(of, problems);
    if let Some(annotations) = of.spec.get(&["annotations"]) {
        check_hints(&of.source, annotations, problems);
    }
    check_schema(of, "input_schema", problems);
    check_schema(of, "output_schema", problems);
}

/// Reports what was probably meant as one of MCP's hints and is none: a rule about it would
/// silently never match.
pub(crate) fn check_hints(source: &Source, annotations: &Node, problems: &mut Problems) {
    for entry in annotations.entries() {
        let near = nearest(&entry.key, HINTS).filter(|near| *near != entry.key);
        if let Some(near) = near {
            let reason = format!("unknown annotation `{}`", shown(&entry.key));
            let help = format!("did you mean `{near}`?");
            problems.invalid(source, entry.at, reason, help);
        }
    }
}

/// Returns the binding a checked document holds; `sandbox` and `policy` are resolved names.
pub(crate) fn read(of: &Primitive, sandbox: String, policy: Option<String>) -> ToolBinding {
    let object = |key: &str| of.spec.get(&[key]).map(Node::to_json);
    let annotations = object("annotations").as_ref().and_then(Value::as_object).cloned();
    ToolBinding {
        name: of.name.clone(),
        category: of.category.clone(),
        description: of.spec.text(&["description"]).map(str::to_owned),
        input_schema: object("input_schema"),
        output_schema: object("output_schema"),
        sandbox,
        policy,
        annotations: annotations.unwrap_or_default(),
        timeout: of.spec.number(&["timeout_ms"]).map(Duration::from_millis),
        retry: retry::read(&of.spec),
        registry: of.package.clone(),
        at: of.source.location(of.at),
    }
}

fn check_required(of: &Primitive, problems: &mut Problems) {
    if of.spec.entry("mcp_source").is_some() {
        return;
    }
    for key in ["description", "input_schema"] {
        if of.spec.entry(key).is_none() {
            let reason = format!("`spec.{key}` is missing");
            let help = format!("a tool without `mcp_source` needs `{key}`");
            problems.invalid(&of.source, of.spec.at, reason, help);
        }
    }
}

fn check_source(of: &Primitive, problems: &mut Problems) {
    let Some(source) = of.spec.entry("mcp_source") else {
        return;
    };
    let uri = source.node.text(&["uri"]).unwrap_or_default();
    let at = source.node.get(&["uri"]).map_or(source.at, |uri| uri.at);
    if uri.starts_with("stdio:///") || uri.starts_with("https://") {
        let help = "this version does not bridge MCP servers: bind a component of the tools directory instead";
        problems.invalid(&of.source, source.at, "`spec.mcp_source` is not served", help);
    } else {
        let reason = format!("`spec.mcp_source.uri` is `{}`", shown(uri));
        let help =
            "write stdio:///<program> or https://<server>; mcp:// is reserved and never allowed";
        problems.invalid(&of.source, at, reason, help);
    }
}

fn check_composite(of: &Primitive, problems: &mut Problems) {
    if of.spec.flag(&["composite"]) != Some(true) {
        return;
    }
    let at = of.spec.entry("composite").map_or(of.spec.at, |entry| entry.at);
    if of.spec.entry("skill_ref").is_none() {
        let help = "`composite: true` needs the name of the skill it wraps";
        problems.invalid(&of.source, at, "`spec.skill_ref` is missing", help);
    }
    let help = "this version runs single tools only: take the composite tool out";
    problems.invalid(&of.source, at, "composite tools are not served", help);
}

fn check_bounds(of: &Primitive, problems: &mut Problems) {
    if let Some(timeout) = of.spec.get(&["timeout_ms"])
        && of.spec.number(&["timeout_ms"]).is_some_and(|ms| ms > TOOL_TIMEOUT_CEILING_MS)
    {
        let help = format!("the most this host gives one call is {TOOL_TIMEOUT_CEILING_MS}");
        problems.invalid(&of.source, timeout.at, "`spec.timeout_ms` is too large", help);
    }
    if let Some(description) = of.spec.get(&["description"])
        && description.as_text().is_some_and(|text| text.len() > TOOL_DESCRIPTION_BYTES_MAX)
    {
        let help = format!("a description may have {TOOL_DESCRIPTION_BYTES_MAX} bytes");
        problems.invalid(&of.source, description.at, "`spec.description` is too long", help);
    }
}

fn check_schema(of: &Primitive, key: &str, problems: &mut Problems) {
    let Some(entry) = of.spec.entry(key) else {
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
    problems.invalid(&of.source, entry.at, reason, help);
}
