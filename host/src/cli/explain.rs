//! `clawhost explain`: what would become of a call, and why. Nothing is called.
//!
//! The gate itself says so ([`Gate::rehearse`](crate::gate::Gate::rehearse)): it goes through all
//! that it decides before a person is asked. Deliberately absent: any decision of its own.

mod tell;

use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::manifest::{Autonomy, Manifest};
use clawhost_core::policy::{ApprovalTerms, Rates, Usage};
use serde_json::Value;

use super::args::ExplainArgs;
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::{show, words};
use crate::Host;
use crate::gate::{Ask, CallContext, Rehearsal};
use crate::quarantine::Hold;

pub(super) async fn run(args: ExplainArgs) -> Result<u8, Fail> {
    let setup =
        setup::open(std::slice::from_ref(&args.call.manifest), &args.call.places, Purpose::Look)
            .await?;
    let catalog = setup.host.catalog();
    let Some(tool) = catalog.find(&args.call.tool) else {
        return Err(words::unknown(&args.call.tool, &setup.host));
    };
    let given = !args.call.arguments.is_empty();
    let arguments =
        given.then(|| words::arguments(Some(tool), &args.call.arguments)).transpose()?;
    check_names(&args, &setup.host.manifest())?;
    let context = CallContext {
        sandbox: args.sandbox.clone(),
        policy: args.policy.clone(),
        ..CallContext::default()
    };
    let agent = words::agent(&setup, &args.call)?;
    let rehearsal = setup.host.rehearse(&args.call.tool, arguments.as_ref(), agent, &context);
    let rehearsal = rehearsal.ok_or_else(|| words::unknown(&args.call.tool, &setup.host))?;
    let mut story = Story::of(&setup.host, tool, rehearsal, given);
    story.is_of_one = agent.is_some();
    story.tool_refuses = arguments.as_ref().and_then(|it| story.refused_by_tool(it));
    show::done(args.json, || story.as_json(), || story.as_text())
}

fn check_names(args: &ExplainArgs, manifest: &Manifest) -> Result<(), Fail> {
    let policies = &manifest.policies;
    if let Some(name) = args.policy.as_deref().filter(|name| !policies.contains(name)) {
        let names = policies.policies().iter().map(|policy| policy.name.as_str());
        return Err(words::no_such("policy", name, &names.collect::<Vec<_>>()));
    }
    if let Some(name) = args.sandbox.as_deref().filter(|name| manifest.profile(name).is_none()) {
        let names = manifest.profiles.keys().map(String::as_str);
        return Err(words::no_such("sandbox", name, &names.collect::<Vec<_>>()));
    }
    Ok(())
}

/// All that is told about one call, or about the best of calls where there are no arguments.
struct Story<'a> {
    tool: &'a Tool,
    /// There are arguments.
    given: bool,
    /// Who calls was named.
    is_of_one: bool,
    rehearsal: Rehearsal,
    /// A path that the tool itself refuses, before the sandbox sees it.
    tool_refuses: Option<String>,
    /// For whom the tool rests.
    rests: Vec<Hold>,
    screened: bool,
    /// What it calls, where it is made of other tools.
    calls: Option<String>,
    autonomy: Autonomy,
    rates: Rates,
    usage: Usage,
    tokens_last_hour: u64,
}

impl<'a> Story<'a> {
    fn of(host: &Host, tool: &'a Tool, mut rehearsal: Rehearsal, given: bool) -> Self {
        let manifest = host.manifest();
        let calls = tool.calls();
        if calls.is_some() {
            // It touches nothing itself: each step meets the sandbox of its own tool.
            rehearsal.paths.clear();
        }
        Self {
            tool,
            given,
            is_of_one: false,
            rehearsal,
            tool_refuses: None,
            calls,
            rests: host.quarantine().resting(&tool.ckp_name),
            screened: !manifest.policies.screens().is_off(),
            autonomy: manifest.autonomy,
            rates: manifest.policies.rates(),
            usage: host.providers().usage(),
            tokens_last_hour: host.providers().tokens_last_hour(),
        }
    }

    /// Returns the agents that it was compiled for, where it is not for all.
    fn agents(&self) -> Option<Vec<&str>> {
        self.tool.managed.as_deref()?.agents()
    }

    /// Returns `allowed`, `asks` or `refused`, the stage that says so, and why.
    fn outcome(&self) -> (&'static str, &str, String) {
        let rule = self.rehearsal.explanation.verdict.rule();
        let rule = rule.map(ToString::to_string).unwrap_or_default();
        match &self.rehearsal.ask {
            Err(error) => {
                let stage = error.data.get("stage").and_then(Value::as_str);
                ("refused", stage.unwrap_or_else(|| error.kind.name()), error.message.clone())
            }
            Ok(None) => ("allowed", "policy", format!("rule {rule} allows it")),
            Ok(Some(Ask { rule: Some(_), .. })) => {
                ("asks", "policy", format!("rule {rule} asks a person"))
            }
            Ok(Some(_)) => {
                let why = "allows it, and a supervised identity asks a person";
                ("asks", "autonomy", format!("rule {rule} {why}"))
            }
        }
    }

    /// Says what is wrong with the arguments.
    fn problem(&self) -> Option<&str> {
        let error = self.rehearsal.ask.as_ref().err()?;
        let of_schema = error.data.get("stage").is_some_and(|stage| stage == "schema");
        of_schema.then_some(error.message.as_str())
    }

    /// Returns the first of the paths in `value` that is absolute or climbs out: built-in tools take
    /// none of these, whatever lies there.
    fn refused_by_tool(&self, value: &Value) -> Option<String> {
        let values: Vec<&Value> = match value {
            Value::Array(values) => values.iter().collect(),
            Value::Object(values) => values.values().collect(),
            Value::String(text) => return self.is_refused_by_tool(text).then(|| text.clone()),
            _ => return None,
        };
        values.into_iter().find_map(|value| self.refused_by_tool(value))
    }

    fn is_refused_by_tool(&self, text: &str) -> bool {
        let known = self.tool.paths.of_path(text);
        let is_path = self.rehearsal.paths.iter().any(|path| known.contains(path));
        let is_ours = matches!(self.tool.origin, Origin::BuiltIn { .. });
        is_ours && is_path && (text.starts_with('/') || climbs_out(text))
    }

    /// Returns how a person would be asked, if anybody.
    fn terms(&self) -> Option<ApprovalTerms> {
        self.rehearsal.ask.as_ref().ok()?.as_ref().map(|ask| ask.terms)
    }
}

/// Says whether a path's `..` lead above where it begins.
fn climbs_out(path: &str) -> bool {
    let mut depth = 0_i64;
    path.split('/').any(|step| {
        depth += match step {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}
