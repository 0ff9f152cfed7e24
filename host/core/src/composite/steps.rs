//! What a composite is: its steps, which of them run beside each other, and what the whole gives.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::mapping::Mapping;
use crate::catalog::ckp_name;
use crate::digest;
use crate::manifest::problem::choices;
use crate::manifest::shape::shown;
use crate::manifest::{DocumentError, Place};
use crate::reply::ToolReply;
use crate::uri::ClawUri;

/// What a result is called that is no object, where a path goes on into it.
pub const WRAPPED_AS: &str = "value";

/// A tool that is made of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Composite {
    /// As clients see it.
    pub name: String,
    /// For the model; the tool's document has one where this is absent.
    pub description: Option<String>,
    /// JSON Schema of the arguments, likewise.
    pub input_schema: Option<Value>,
    /// The time that all steps have together.
    pub timeout: Duration,
    /// What is called, in the order in which it was written.
    pub steps: Vec<Step>,
    /// The file that defines it.
    pub file: String,
    pub(crate) digest: String,
}

/// One call that a composite makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The tool, by any of its names.
    pub tool: String,
    /// What its arguments are made of.
    pub arguments: Mapping,
    /// What its output is called in later steps.
    pub key: String,
    /// How often it is tried, instead of as often as the tool's own plan says.
    pub max_attempts: Option<u64>,
    /// The most time that one step has.
    pub timeout: Option<Duration>,
    pub(crate) at: Place,
}

impl Composite {
    /// Returns the steps whose arguments their tools never take, as problems of its file: `schema` is that of the
    /// arguments of a tool. Only names are looked at, as values come with the calls.
    pub fn unfit<'s>(&self, schema: impl Fn(&str) -> Option<&'s Value>) -> Vec<DocumentError> {
        let wrong = |step: &Step| step.unfit(schema(&step.tool)?);
        self.steps.iter().filter_map(wrong).collect()
    }

    /// Returns what stands for the digest of its code.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns `sha256:…` of how it was written.
    pub(crate) fn digest_of(name: &str, written: &Value) -> String {
        digest::of_json(&json!({ "name": name, "composite": written }))
    }

    /// Returns why it cannot be served with the tools that are there, as a problem of its file.
    pub fn missing(&self, is_there: impl Fn(&str) -> bool) -> Option<DocumentError> {
        let step = self.steps.iter().find(|step| !is_there(&step.tool))?;
        let reason = format!("no tool is called `{}`", step.tool);
        Some(step.at.missing(reason, "name a tool that is served: `clawhost tools` lists them"))
    }

    /// Returns the steps that run beside each other, one group after the other. A step that is not
    /// `read_only` runs alone, after all that was written before it; one that is runs as soon as what
    /// its arguments need is there.
    pub fn waves(&self, read_only: impl Fn(&Step) -> bool) -> Vec<Vec<usize>> {
        let mut waves: Vec<Vec<usize>> = Vec::new();
        let (mut levels, mut floor) = (Vec::new(), 0);
        for (index, step) in self.steps.iter().enumerate() {
            let needed = step.arguments.steps().into_iter().filter_map(|of| levels.get(of));
            let reads = read_only(step);
            let level = match reads {
                true => needed.map(|level| level + 1).max().unwrap_or(floor).max(floor),
                false => waves.len(),
            };
            if !reads {
                floor = level + 1;
            }
            levels.push(level);
            match waves.get_mut(level) {
                Some(wave) => wave.push(index),
                None => waves.push(vec![index]),
            }
        }
        waves
    }

    /// Returns the result of the whole, of what each step gave and how many bytes that is: `result` is
    /// the last step's, `steps` those before it by key, as far as there is room, and `left_out` names
    /// the others.
    pub fn result(&self, mut outputs: Vec<(Value, usize)>, room_bytes: usize) -> Value {
        let (result, bytes) = outputs.pop().unwrap_or_default();
        let mut room_bytes = room_bytes.saturating_sub(bytes);
        let (mut steps, mut left_out) = (Map::new(), Vec::new());
        for (step, (output, bytes)) in self.steps.iter().zip(outputs) {
            match room_bytes.checked_sub(bytes) {
                Some(left) => {
                    room_bytes = left;
                    steps.insert(step.key.clone(), output);
                }
                None => left_out.push(step.key.as_str()),
            }
        }
        match left_out.is_empty() {
            true => json!({ "result": result, "steps": steps }),
            false => json!({ "result": result, "steps": steps, "left_out": left_out }),
        }
    }
}

impl Step {
    /// Returns the first argument that the tool does not have, or lacks.
    fn unfit(&self, schema: &Value) -> Option<DocumentError> {
        let Mapping::Object(given) = &self.arguments else { return None };
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        let known = schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> =
            known.into_iter().flat_map(|known| known.keys()).map(String::as_str).collect();
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && schema.get("patternProperties").is_none();
        let mut names = given.iter().map(|(name, _)| name.as_str());
        if let Some(stray) = names.find(|name| is_closed && !known.contains(name)) {
            let reason = format!("`{}` has no argument `{}`", self.tool, shown(stray));
            return Some(self.at.invalid(reason, choices(stray, known.iter().copied())));
        }
        let required = schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        let lacking = shown(required.find(|name| !is_given(name))?);
        let reason = format!("`{}` is given no argument `{lacking}`", self.tool);
        Some(self.at.invalid(reason, format!("add `{lacking}` to `arg_mapping`")))
    }
}

/// Returns the CKP name that a text means as the name of a tool, whatever form it has: in whatever
/// version and of whatever registry, so that no tool passes for another one.
pub fn local_name(name: &str) -> String {
    ClawUri::any_tool_name(name).unwrap_or_else(|| ckp_name(name))
}

/// Returns what later steps see of a reply: an object as it is, anything else as its `value`.
pub fn output(reply: ToolReply) -> Value {
    match reply.into_value() {
        object @ Value::Object(_) => object,
        other => json!({ WRAPPED_AS: other }),
    }
}
