//! Notes for people: what documents declare that does nothing.

use std::collections::BTreeSet;

use super::node::Value;
use super::primitive::Document;
use super::problem::nearest;
use super::shape::{Shape, each, shown};
use super::tool::ToolBinding;
use crate::policy::{Match, Policy, PolicySet, Rule};
use crate::uri::Kind;

/// Says what was declared and does nothing in this version.
pub(crate) fn unserved(of: &Document) -> Vec<String> {
    let at = of.at.to_string();
    let note = |what: &str| format!("{at}: {what} is checked but has no effect in this version");
    if let Some(kind @ (Kind::Channel | Kind::Skill | Kind::WorldModel)) = of.kind {
        return vec![note(&format!("the {kind} `{}`", of.name))];
    }
    let mut notes = Vec::new();
    each(&of.spec, of.shape(), "", &mut |node, shape, path| {
        // What is switched off is not there.
        if let (Shape::Idle { remark, .. }, false) =
            (shape, matches!(node.value, Value::Flag(false)))
        {
            notes.push(note(&format!("`{path}`{remark}")));
        }
    });
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    notes
}

/// Says which tools no category rule can match, if there are category rules.
pub(crate) fn category_note(tools: &[ToolBinding], policies: &PolicySet) -> Option<String> {
    let mut rules = policies.policies().iter().flat_map(|policy| &policy.rules);
    let rule = rules.find(|rule| rule.matches.category.is_some())?;
    let without = tools.iter().filter(|tool| tool.category.is_none());
    let names: Vec<&str> = without.map(|tool| tool.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let (at, names) = (&rule.at, names.join(", "));
    Some(format!(
        "{at}: no category rule matches {names}: no `metadata.labels.category` is given; for a tool that is listed by its name or address alone, write a Tool document that gives it"
    ))
}

/// Says that the category a fetched Tool claims does not count: a rule might relax for it.
pub(crate) fn foreign_category(of: &Document) -> Option<String> {
    let uri = of.package.as_ref().filter(|_| of.is(Kind::Tool))?;
    let category = shown(of.category.as_deref()?);
    Some(format!(
        "{uri}: its category `{category}` does not count: a registry's word relaxes nothing"
    ))
}

/// Says which rules stand behind one of the same policy that decides about every call. Those of
/// other policies may be tried all the same, where a tool or a caller names their policy.
pub(crate) fn never_tried(policies: &PolicySet) -> Vec<String> {
    let note = |policy: &Policy| {
        let mut rules = policy.rules.iter();
        let last = shown(&rules.find(|rule| matches_every_call(rule))?.id);
        let at = &rules.next()?.at;
        Some(format!("{at}: from here on no rule is tried: `{last}` decides about every call"))
    };
    policies.policies().iter().filter_map(note).collect()
}

/// Says which rules name a tool that is none of `tools` and not one that `may_come`: what is misspelt never decides.
pub(crate) fn stray_rules(
    policies: &PolicySet,
    tools: &BTreeSet<String>,
    may_come: impl Fn(&str) -> bool,
) -> Vec<String> {
    let is_known = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => tools.iter().any(|tool| tool.starts_with(prefix)),
        None => tools.contains(name),
    };
    let note = |policy: &Policy, rule: &Rule| {
        let name = rule.matches.name.as_deref();
        let name = name.filter(|name| !is_known(name) && !may_come(name))?;
        let near = nearest(name, tools.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let (at, id, policy, name) = (&rule.at, shown(&rule.id), &policy.name, shown(name));
        Some(format!(
            "{at}: the rule `{id}` of the policy `{policy}` is for `{name}`, and no tool is called that{near}"
        ))
    };
    let policies = policies.policies().iter();
    policies.flat_map(|policy| policy.rules.iter().filter_map(|rule| note(policy, rule))).collect()
}

/// Says which tools are only named, or nearly called like one of `names`, and are none of those.
pub(crate) fn stray_tools(tools: &[ToolBinding], names: &BTreeSet<String>) -> Vec<String> {
    let by_name = tools.iter().filter(|tool| tool.registry.is_none() && tool.mcp.is_none());
    let local = by_name.filter(|tool| !names.contains(&tool.name));
    let note = |tool: &ToolBinding| {
        let near = nearest(&tool.name, names.iter().map(String::as_str));
        if near.is_none() && tool.description.is_some() {
            return None;
        }
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let (at, name) = (&tool.at, &tool.name);
        let end = if near.is_empty() { "; a" } else { " Otherwise a" };
        Some(format!(
            "{at}: no built-in tool is called `{name}`{near}{end} component in the tools folder has to offer it"
        ))
    };
    local.filter_map(note).collect()
}

/// Says of which tools no call is tried again, though their documents say how.
pub(crate) fn never_retried(tools: &[ToolBinding]) -> Vec<String> {
    // What a registry's document says of it cannot be mended here.
    let is_idle = |tool: &&ToolBinding| {
        tool.retry.is_some_and(|plan| plan.max_attempts > 1)
            && tool.retry_plan().max_attempts == 1
            && tool.registry.is_none()
    };
    let note = |tool: &ToolBinding| {
        let (at, name) = (&tool.at, &tool.name);
        format!(
            "{at}: `retry` of `{name}` has no effect: nothing says that its calls may be repeated; where they may, declare `idempotentHint: true` under `annotations`"
        )
    };
    tools.iter().filter(is_idle).map(note).collect()
}

/// Says which rules relax for an annotation that nobody declares: they never match.
pub(crate) fn undeclared(policies: &PolicySet, is_declared: impl Fn(&str) -> bool) -> Vec<String> {
    let note = |rule: &Rule| {
        let key = rule.matches.annotations.keys().find(|key| !is_declared(key))?;
        let (at, key) = (&rule.at, shown(key));
        let name = rule.matches.name.as_deref().filter(|name| *name != "*");
        let whom = name.map_or_else(|| "any tool".to_owned(), |name| format!("`{}`", shown(name)));
        Some(format!(
            "{at}: no document of yours declares `{key}` for {whom}: what a component says of itself does not count; declare it under `annotations` of the tool's document"
        ))
    };
    let rules = policies.policies().iter().flat_map(|policy| &policy.rules);
    rules.filter(|rule| !rule.action.tightens()).filter_map(note).collect()
}

fn matches_every_call(rule: &Rule) -> bool {
    let Match { name, category, annotations } = &rule.matches;
    name.as_deref().is_none_or(|name| name == "*")
        && category.is_none()
        && annotations.is_empty()
        && rule.path_within.is_none()
        && rule.rate_limit.is_none()
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::super::tests::document;
    use super::*;

    fn policies(rules: &str) -> PolicySet {
        let of = document("Policy", &format!("{{rules: [{rules}]}}"));
        PolicySet::new(vec![policy::read(&of)])
    }

    #[test]
    fn what_has_no_effect_is_named_where_it_is_asked_for() {
        let stores = "{stores: [{name: r, type: semantic}, {name: s, type: semantic, role: episodic, salience: {enabled: true}}]}";
        let telemetry = "{exporters: [{type: console}], events: {planning_ops: true, world_model_ops: false}, metrics: {prediction_error: true}}";
        let swarm = "{topology: pipeline, agents: [{identity_ref: a, role: r}], coordination: {message_passing: queue, backend: in-process, concurrency: {}}, aggregation: {strategy: chain}, failure: {dead_letter: {enabled: true}, circuit_breaker: {}}}";
        for (kind, spec, expected) in [
            ("Memory", stores, vec!["`stores.role`", "`stores.salience`"]),
            ("Telemetry", telemetry, vec!["`events.planning_ops`", "`metrics.prediction_error`"]),
            (
                "Swarm",
                swarm,
                vec![
                    "`aggregation.strategy` (whoever gave a task gets each report)",
                    "`failure.dead_letter`",
                    "`failure.circuit_breaker`",
                ],
            ),
            ("Sandbox", "{level: wasm}", vec![]),
        ] {
            let say =
                |what| format!("d.yaml:3: {what} is checked but has no effect in this version");
            let expected: Vec<String> = expected.into_iter().map(say).collect();
            assert_eq!(unserved(&document(kind, spec)), expected);
        }
    }

    #[test]
    fn a_rule_for_a_tool_that_is_not_there_is_named() {
        let tools = BTreeSet::from(["read-file".to_owned(), "write-file".to_owned()]);
        for (name, said) in [
            ("read-file", None),
            ("read-*", None),
            ("*", None),
            ("raed-file", Some("; did you mean `read-file`?")),
            ("web-*", Some("`web-*`, and no tool is called that")),
            ("files-write-*", None),
        ] {
            let rule = format!("{{id: r, action: deny, scope: tool, match: {{name: '{name}'}}}}");
            let of_a_server = |name: &str| name.starts_with("files-");
            let notes = stray_rules(&policies(&rule), &tools, of_a_server);
            assert_eq!(notes.first().map(|note| note.contains(said.unwrap())), said.map(|_| true));
        }
    }

    #[test]
    fn rules_behind_one_that_decides_about_every_call_are_named() {
        let notes = |rules: &str| never_tried(&policies(rules));
        let all = "{id: all, action: deny, scope: all}";
        let one = "{id: one, action: allow, scope: tool, match: {name: read-file}}";
        assert_eq!(notes(&format!("{one}, {all}")), Vec::<String>::new());
        let within = "{id: w, action: allow, scope: all, conditions: {path_within: /}}";
        assert_eq!(notes(&format!("{within}, {one}")), Vec::<String>::new());
        let said = ["d.yaml:4: from here on no rule is tried: `all` decides about every call"];
        let two = one.replace("id: one", "id: two");
        assert_eq!(notes(&format!("{all}, {one}, {two}")), said);
    }
}
