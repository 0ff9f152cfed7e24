//! What a session's manifest says about one tool. All of it can only take away.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::catalog::Tool;
use crate::grants::Grants;
use crate::manifest::ToolBinding;
use crate::manifest::profile::Profile;
use crate::policy::{CallFacts, PolicySet, Scope, ToolPaths, Verdict, most_careful};
use crate::retry::RetryPlan;
use crate::schema::Schema;

/// How a session narrows one tool. The default narrows nothing.
#[derive(Debug, Default)]
pub struct ToolNarrowing {
    /// What its sandbox grants: a call gets what this and the tool's own both do.
    pub grants: Option<Grants>,
    /// The time it gives a call, at most.
    pub timeout: Option<Duration>,
    /// What arguments have to match as well.
    pub input: Option<Schema>,
    /// What results have to match as well.
    pub output: Option<Schema>,
    /// The session's policy that has to allow it as well.
    policy: Option<String>,
    /// What the session's own rules take for its category.
    category: Option<String>,
    annotations: Map<String, Value>,
    /// What the session's own rules take for paths.
    paths: ToolPaths,
}

impl ToolNarrowing {
    /// Returns what a session says of a tool that it does not name.
    pub(super) fn unnamed(profile: Option<&Profile>) -> Self {
        Self { grants: profile.map(|profile| profile.grants(None)), ..Self::default() }
    }

    /// Returns what `of` says, under `profile` where it states one.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub(super) fn of(of: ToolBinding, profile: Option<&Profile>) -> Result<Self, String> {
        let compile = |schema: &Option<Value>| schema.as_ref().map(Schema::compile).transpose();
        Ok(Self {
            grants: profile.map(|profile| profile.grants(of.timeout)),
            timeout: of.timeout,
            input: compile(&of.input_schema)?,
            output: compile(&of.output_schema)?,
            policy: of.policy,
            category: of.category,
            annotations: of.annotations,
            paths: ToolPaths::of(&of.input_schema),
        })
    }

    /// Returns what the operator declares about the tool as far as the session asks for no more
    /// care; nothing where it asks for none.
    pub fn careful(&self, declared: &Map<String, Value>) -> Option<Map<String, Value>> {
        let asks = |(key, value): &(&String, &Value)| {
            most_careful(key).is_some_and(|careful| **value == careful)
                && declared.get(*key).is_some_and(|own| own != *value)
        };
        let mut asked = self.annotations.iter().filter(asks).peekable();
        asked.peek()?;
        let asked = asked.map(|(key, value)| (key.clone(), value.clone()));
        Some(declared.clone().into_iter().chain(asked).collect())
    }

    /// Returns `plan`, or one attempt where the session says that a call is not to be repeated.
    pub fn retry(&self, plan: RetryPlan) -> RetryPlan {
        let repeats = self.annotations.get("idempotentHint") != Some(&Value::Bool(false));
        if repeats { plan } else { RetryPlan::ONCE }
    }

    /// Decides by the session's own rules, for which its own words about the tool count.
    pub(super) fn decide(
        &self,
        rules: &PolicySet,
        facts: &CallFacts<'_>,
        (tool, arguments): (&Tool, Option<&Value>),
        asked: Option<&str>,
    ) -> Verdict {
        let mut declared = facts.declared.clone();
        declared.extend(self.annotations.clone());
        let paths = arguments.map(|given| tool.paths.and(&self.paths).of_call(given));
        let category = self.category.as_deref().or(facts.category);
        let facts = CallFacts { category, declared: &declared, paths: paths.as_deref(), ..*facts };
        rules.decide(&facts, Scope { own: self.policy.as_slice(), asked })
    }
}
