//! `composite`: the steps that a tool is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Definition, Reader, STEP_ATTEMPTS};
use crate::composite::{
    Called, Composite, CompositeBounds, Mapping, Source, Step, is_key, local_name,
};
use crate::limits::{COMPOSITE_PATHS_MAX, COMPOSITE_TIMEOUT_MS, TOOL_TIMEOUT_CEILING_MS};
use crate::manifest::node::{Entry, Node, Value};
use crate::manifest::problem::{DocumentError, Problems};
use crate::manifest::shape::{OBJECT, Shape, TEXT, opt, req, shape, shown};
use crate::manifest::tool::{self, SkillTerms, ToolBinding};

/// A mapping of this one key is the value itself.
const LITERAL: &str = "literal";
const TIME: Shape = Shape::Int { min: 1, max: TOOL_TIMEOUT_CEILING_MS };

/// What the steps are called under `composite`, and under `metadata`.
const STEPS: [&str; 2] = ["steps", "composite_steps"];

shape! { STEP = {
    tool_name!: TEXT,
    arg_mapping: OBJECT,
    output_key!: TEXT,
    max_attempts: STEP_ATTEMPTS,
    timeout_ms: TIME,
}}

shape! { pub(super) COMPOSITE = {
    description: TEXT,
    input_schema: OBJECT,
    steps!: [+ STEP],
    timeout_ms: TIME,
}}

shape! { pub(super) METADATA = {
    composite_steps!: [+ STEP],
    description: TEXT,
    input_schema: OBJECT,
}}

/// Returns what a definition says, as JSON in which a composite is called `composite`.
pub(super) fn written(definition: &Node) -> serde_json::Value {
    let mut json = definition.to_json();
    if let (Some(metadata), Some(all)) = (definition.get(&["metadata"]), json.as_object_mut()) {
        all.remove("metadata");
        all.insert("composite".to_owned(), in_own_words(metadata));
    }
    json
}

/// Returns a composite as JSON, in which its steps are called `steps`.
fn in_own_words(node: &Node) -> serde_json::Value {
    let [own, other] = STEPS;
    let mut json = node.to_json();
    if let Some(all) = json.as_object_mut()
        && let Some(steps) = all.remove(other)
    {
        all.insert(own.to_owned(), steps);
    }
    json
}

impl Reader<'_> {
    /// Reads what a tool is made of, where it is: under `composite`, or under `metadata`, where other registries
    /// have it.
    pub(super) fn composed(&mut self, entry: &Entry) -> Option<Arc<Composite>> {
        let (own, metadata) = (entry.node.get(&["composite"]), entry.node.entry("metadata"));
        if let (Some(_), Some(metadata)) = (own, metadata) {
            let help = "take `metadata` out";
            self.0.invalid(&metadata.at, "`composite` says already what it is made of", help);
        }
        let node = own.or_else(|| metadata.map(|metadata| &metadata.node))?;
        Some(self.composite(entry, node))
    }

    fn composite(&mut self, entry: &Entry, node: &Node) -> Arc<Composite> {
        if let Some(retry) = entry.node.entry("retry_policy") {
            let help = "take it out, and give steps `max_attempts`: what is done is not done again";
            self.0.invalid(&retry.at, "a composite is not tried again as a whole", help);
        }
        if let Some(policy) = entry.node.entry("network_policy") {
            let help = "write it for the tools that its steps call";
            self.0.invalid(&policy.at, "a composite itself reaches nothing of the network", help);
        }
        if let Some(schema) = node.entry("input_schema") {
            tool::check_arguments(schema, self.0);
        }
        let mut keys = Vec::new();
        let steps = STEPS.iter().flat_map(|key| node.list(&[*key]));
        let steps = steps.map(|step| self.step(step, &mut keys)).collect();
        let ms = node.number(&["timeout_ms"]).unwrap_or(COMPOSITE_TIMEOUT_MS);
        Arc::new(Composite {
            name: entry.key.clone(),
            description: node.text(&["description"]).map(str::to_owned),
            input_schema: node.get(&["input_schema"]).map(Node::to_json),
            timeout: Duration::from_millis(ms),
            steps,
            file: node.at.source.file.clone(),
            digest: Composite::digest_of(&entry.key, &in_own_words(node)),
        })
    }

    /// Reads one step; `keys` are those of the steps before it.
    fn step(&mut self, node: &Node, keys: &mut Vec<String>) -> Step {
        let text = |key| node.text(&[key]).unwrap_or_default().to_owned();
        let key = text("output_key");
        let arguments = node.get(&["arg_mapping"]).map(|of| self.mapping(of, keys, true));
        if arguments.as_ref().is_some_and(|of| of.sources().len() > COMPOSITE_PATHS_MAX) {
            let reason = format!(
                "the arguments of a step take from no more than {COMPOSITE_PATHS_MAX} paths"
            );
            let help = "name a whole object or list instead of each of its parts";
            self.0.invalid(node.place(&["arg_mapping"]), reason, help);
        }
        if !is_key(&key) {
            let reason = format!("`{}` cannot be an `output_key`", shown(&key));
            let help =
                "write a word of letters, digits and `_` that is neither `input` nor `step_N`";
            self.0.invalid(node.place(&["output_key"]), reason, help);
        } else if keys.contains(&key) {
            let reason = format!("an earlier step has the `output_key` `{key}`");
            self.0.invalid(node.place(&["output_key"]), reason, "give each step a key of its own");
        }
        keys.push(key.clone());
        Step {
            tool: text("tool_name"),
            arguments: arguments.unwrap_or_else(|| Mapping::Object(Vec::new())),
            key,
            max_attempts: node.number(&["max_attempts"]),
            timeout: node.number(&["timeout_ms"]).map(Duration::from_millis),
            at: node.place(&["tool_name"]).clone(),
        }
    }

    fn mapping(&mut self, node: &Node, keys: &[String], is_whole: bool) -> Mapping {
        match &node.value {
            Value::List(items) => {
                Mapping::List(items.iter().map(|item| self.mapping(item, keys, false)).collect())
            }
            Value::Map(entries) => match entries.as_slice() {
                [Entry { key, node, .. }] if key == LITERAL && !is_whole => {
                    Mapping::Literal(node.to_json())
                }
                entries => Mapping::Object(
                    entries
                        .iter()
                        .map(|of| (of.key.clone(), self.mapping(&of.node, keys, false)))
                        .collect(),
                ),
            },
            Value::Text(text) => match Source::read(text, keys) {
                Ok(Some(source)) => Mapping::Source(source),
                Ok(None) => Mapping::Literal(node.to_json()),
                Err(reason) => {
                    let help =
                        "name one of these, or write `{ literal: … }` where the text is meant";
                    self.0.invalid(&node.at, reason, help);
                    Mapping::Literal(node.to_json())
                }
            },
            _ => Mapping::Literal(node.to_json()),
        }
    }
}

/// Gives composites what their documents say, and says which cannot run whatever tools there are.
pub(super) fn settle(
    definitions: &mut BTreeMap<String, Arc<Definition>>,
    bounds: CompositeBounds,
    tools: &[ToolBinding],
    problems: &mut Problems,
) {
    let of = |name: &str| tools.iter().find(|tool| tool.name == name);
    for (name, definition) in definitions.iter_mut() {
        let composite = Arc::make_mut(definition).composite.as_mut();
        let Some(composite) = composite.map(Arc::make_mut) else { continue };
        let document = of(name);
        let described = document.and_then(|tool| tool.description.clone());
        let schema = document.and_then(|tool| tool.input_schema.clone());
        composite.description = composite.description.take().or(described);
        composite.input_schema = composite.input_schema.take().or(schema);
        if composite.description.is_none() || composite.input_schema.is_none() {
            problems.push(undescribed(name, composite));
        }
        if let Some(problem) = document.and_then(|tool| composite.foreign(tool.skill.as_ref())) {
            problems.push(problem);
        }
    }
    let find = |name: &str| {
        let name = local_name(name);
        let composite = definitions.get(&name).and_then(|of| of.composite.clone());
        Some(Called { name, composite })
    };
    for (name, definition) in &*definitions {
        let Some(composite) = &definition.composite else { continue };
        let fault = composite.check(name, bounds, &find).err();
        if let Some(problem) = fault.and_then(|fault| fault.at(composite)) {
            problems.push(problem);
        }
    }
}

fn undescribed(name: &str, composite: &Composite) -> DocumentError {
    let reason = format!("`{}` has no `description`, or no `input_schema`", shown(name));
    let help = "write both beside its steps, or in its Tool document";
    let at = composite.steps.first().map(|step| step.at.clone()).unwrap_or_default();
    at.invalid(reason, help)
}

impl Composite {
    /// Says which step calls what the skill that its Tool document wraps does not require.
    pub fn foreign(&self, skill: Option<&SkillTerms>) -> Option<DocumentError> {
        let skill = skill?;
        let mut steps = self.steps.iter();
        let step = steps.find(|step| !skill.tools.contains(&local_name(&step.tool)))?;
        let reason = format!("the skill `{}` does not require `{}`", skill.name, shown(&step.tool));
        let help = "add it to the skill's `tools_required`, or call one of those";
        Some(step.at.invalid(reason, help))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::manifest::Governance;
    use crate::manifest::problem::MANIFEST_INVALID;

    fn told(list: &[DocumentError]) -> Vec<String> {
        list.iter().map(DocumentError::one_line).collect()
    }

    fn read(tools: &str) -> Result<Governance, Vec<String>> {
        let (mut all, text) = (Governance::default(), format!("version: 1\ntools:\n{tools}\n"));
        let read = all.read(Path::new("d.yaml"), text.as_bytes());
        read.map(|()| all).map_err(|list| told(&list))
    }

    /// A composite `a` of these steps.
    fn steps(steps: &str) -> String {
        format!(
            "  a:\n    composite:\n      description: d\n      input_schema: {{ type: object }}\n      steps:\n{steps}"
        )
    }

    fn calls(name: &str, tool: &str) -> String {
        format!(
            "  {name}: {{ composite: {{ description: d, input_schema: {{ type: object }}, steps: [{{ tool_name: {tool}, output_key: k }}] }} }}\n"
        )
    }

    fn settled(tools: &str, documents: &[ToolBinding]) -> Result<Governance, Vec<String>> {
        let mut all = read(tools)?;
        all.settle(documents).map(|()| all).map_err(|list| told(&list))
    }

    #[test]
    fn steps_say_what_they_take_from_where() {
        let text = steps(
            "        - { tool_name: fetch, arg_mapping: { url: input.url, how: GET, n: [1, { literal: input.x }] }, output_key: page, max_attempts: 3, timeout_ms: 500 }
        - { tool_name: count, arg_mapping: { text: page.body, all: step_1 }, output_key: words }
        - { tool_name: now, output_key: at }",
        );
        let all = settled(&text, &[]).unwrap();
        let composite = all.composites().next().unwrap();
        let [fetch, count, now] = composite.steps.as_slice() else { panic!() };
        assert_eq!(
            (fetch.max_attempts, fetch.timeout),
            (Some(3), Some(Duration::from_millis(500)))
        );
        assert_eq!((count.arguments.steps(), now.max_attempts), (vec![0, 0], None));
        let given = fetch.arguments.resolve(&json!({"url": "u"}), &[]);
        assert_eq!(given, Ok(json!({"url": "u", "how": "GET", "n": [1, "input.x"]})));
        assert_eq!(composite.timeout, Duration::from_millis(COMPOSITE_TIMEOUT_MS));
        assert_ne!(
            composite.digest(),
            settled(&text.replace("GET", "PUT"), &[])
                .unwrap()
                .composites()
                .next()
                .unwrap()
                .digest()
        );
    }

    #[test]
    fn what_is_wrong_with_a_step_is_said_where_it_stands() {
        let step = |rest: &str| steps(&format!("        - {{ tool_name: t, {rest} }}"));
        for (tools, expected) in [
            (step("output_key: input"), "d.yaml:8:39: `input` cannot be an `output_key`"),
            (step("output_key: step_2"), "`step_2` cannot be an `output_key`"),
            (
                step("output_key: k, arg_mapping: { a: page.body }"),
                "`page` is no source here: there are input",
            ),
            (step("output_key: k, arg_mapping: { a: step_1.x }"), "`step_1` is no source here"),
            (step("output_key: k, arg_mapping: { a: [{ b: input..x }] }"), "has an empty part"),
            (step("output_key: k, max_attempts: 11"), "write a whole number from 1 to 10"),
            (step("output_key: k, timeout_ms: 0"), "write a whole number from 1 to"),
            (step("output_key: k, retries: 1"), "unknown key `retries`"),
            (step("arg_mapping: {}"), "output_key` is missing"),
            (
                steps(
                    "        - { tool_name: t, output_key: k }\n        - { tool_name: t, output_key: k }",
                ),
                "an earlier step has the `output_key` `k`",
            ),
            (steps("        []"), "steps"),
            (
                "  a: { composite: { steps: [{ tool_name: t, output_key: k }] } }".to_owned(),
                "`a` has no `description`, or no `input_schema`",
            ),
            (
                calls("a", "t")
                    .replace("{ composite", "{ retry_policy: { max_attempts: 2 }, composite"),
                "a composite is not tried again as a whole",
            ),
            (
                calls("a", "t")
                    .replace("{ composite", "{ network_policy: { mode: none }, composite"),
                "d.yaml:3:8: a composite itself reaches nothing of the network (write it for the tools",
            ),
            (
                step(&format!(
                    "output_key: k, arg_mapping: {{ a: [{}] }}",
                    "input, ".repeat(COMPOSITE_PATHS_MAX + 1)
                )),
                "take from no more than 256 paths",
            ),
            (calls("a", "t").replace("type: object", "type: 7"), "`input_schema` cannot be used"),
            (calls("a", "t").replace("type: object", "type: array"), "is not of `type: object`"),
        ] {
            let problems = settled(&tools, &[]).unwrap_err();
            assert!(problems.iter().any(|line| line.contains(expected)), "{tools}: {problems:#?}");
        }
    }

    #[test]
    fn a_ring_and_a_tower_are_refused_when_they_are_read() {
        let ring = calls("a", "b") + &calls("b", "claw://local/tool/c") + &calls("c", "a");
        let problems = settled(&ring, &[]).unwrap_err();
        assert!(
            problems[0].starts_with("d.yaml:3:")
                && problems[0].contains("`a` calls itself: a > b > c"),
            "{problems:?}"
        );
        let mut itself = read(&calls("a", "a")).unwrap();
        let problems = itself.settle(&[]).unwrap_err();
        assert!(problems[0].reason.contains("calls itself"), "{problems:?}");
        assert_eq!(problems[0].code, MANIFEST_INVALID, "what it calls is there");
        let tower: String = ["a b", "b c", "c d", "d e"]
            .iter()
            .map(|pair| {
                let (name, tool) = pair.split_once(' ').unwrap();
                calls(name, tool)
            })
            .collect();
        assert!(settled(&tower, &[]).is_ok());
        let problems = settled(&(tower + &calls("e", "plain")), &[]).unwrap_err();
        assert!(problems[0].contains("nested deeper than 4"), "{problems:?}");
    }

    #[test]
    fn metadata_says_what_composite_does() {
        let steps = "steps: [{ tool_name: t, output_key: k, arg_mapping: { a: input.x } }]";
        let said = "description: d, input_schema: { type: object }";
        let own = format!("  a: {{ composite: {{ {said}, {steps} }} }}");
        let other = format!("  a: {{ metadata: {{ {said}, composite_{steps} }} }}");
        let digest = |text: &str| {
            let all = settled(text, &[]).unwrap();
            all.composites().next().unwrap().digest().to_owned()
        };
        assert_eq!(digest(&own), digest(&other));
        let written = |text: &str| {
            let text = format!("version: 1\ntools:\n{text}\n");
            Governance::written(Path::new("d.yaml"), text.as_bytes()).unwrap()
        };
        assert_eq!(written(&own), written(&other));
        let both = format!(
            "  a: {{ composite: {{ {said}, {steps} }}, metadata: {{ composite_{steps} }} }}"
        );
        let problems = read(&both).unwrap_err();
        assert!(problems[0].contains("says already what it is made of"), "{problems:?}");
    }

    #[test]
    fn a_document_describes_it_and_its_skill_says_what_may_be_called() {
        let text = "  a_b: { composite: { steps: [{ tool_name: read_file, output_key: k }] } }";
        let tools = |name: &str| vec![name.to_owned()];
        let skill =
            |tools| Some(SkillTerms { name: "s".to_owned(), tools, ..SkillTerms::default() });
        let document = |skill| ToolBinding {
            name: "a-b".to_owned(),
            description: Some("said".to_owned()),
            input_schema: Some(json!({"type": "object"})),
            skill,
            ..ToolBinding::default()
        };
        let all = settled(text, &[document(skill(tools("read-file")))]).unwrap();
        assert_eq!(all.composites().next().unwrap().description.as_deref(), Some("said"));
        let problems = settled(text, &[document(skill(tools("write-file")))]).unwrap_err();
        assert!(problems[0].contains("the skill `s` does not require `read_file`"), "{problems:?}");
    }
}
