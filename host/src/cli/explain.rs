//! `clawhost explain`: what would become of a call, and why. Nothing is called.
//!
//! Rules are tried by the code that decides ([`PolicySet::explain`]); the other stages are gone
//! through in the gate's order, and the first that refuses is the answer.
//!
//! [`PolicySet::explain`]: clawhost_core::policy::PolicySet::explain

mod tell;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, exit};
use clawhost_core::grants::Grants;
use clawhost_core::manifest::{Autonomy, Manifest};
use clawhost_core::policy::{ApprovalTerms, CallFacts, Explanation, Rates, Scope, Usage, Verdict};
use clawhost_core::screen::Finding;
use serde_json::Value;

use super::args::ExplainArgs;
use super::fail::Fail;
use super::{setup, show, words};
use crate::Host;
use crate::gate::Standing;

pub(super) async fn run(args: ExplainArgs) -> Result<u8, Fail> {
    let setup = setup::open(std::slice::from_ref(&args.manifest), &args.places, None).await?;
    let catalog = setup.host.catalog();
    let Some(tool) = catalog.find(&args.tool) else {
        return Err(words::unknown(&args.tool, &setup.host));
    };
    let given = !args.arguments.is_empty();
    let arguments = given.then(|| words::arguments(Some(tool), &args.arguments)).transpose()?;
    check_names(&args, setup.host.manifest())?;
    let story = Story::of(&setup.host, tool, arguments.as_ref(), &args);
    if args.json {
        show::json(&story.as_json());
    } else {
        show::line(&story.as_text());
    }
    Ok(exit::OK)
}

fn check_names(args: &ExplainArgs, manifest: &Manifest) -> Result<(), Fail> {
    let policies = &manifest.policies;
    if let Some(name) = args.policy.as_deref().filter(|name| !policies.contains(name)) {
        let names = policies.policies().iter().map(|policy| policy.name.as_str());
        return Err(no_such("policy", name, &names.collect::<Vec<_>>()));
    }
    if let Some(name) = args.sandbox.as_deref().filter(|name| manifest.profile(name).is_none()) {
        let names = manifest.profiles.keys().map(String::as_str);
        return Err(no_such("sandbox", name, &names.collect::<Vec<_>>()));
    }
    Ok(())
}

fn no_such(kind: &str, name: &str, names: &[&str]) -> Fail {
    Fail::usage(format!("unknown {kind} `{name}`"), &format!("there are: {}", names.join(", ")))
}

/// What would become of a call.
struct Outcome {
    /// `allowed`, `asks` or `refused`.
    is: &'static str,
    /// Which stage says so.
    stage: &'static str,
    reason: String,
}

/// All that is told about one call, or about the best of calls where there are no arguments.
struct Story<'a> {
    tool: &'a Tool,
    given: bool,
    paths: Option<Vec<String>>,
    mismatch: Option<String>,
    screened: bool,
    findings: Vec<Finding>,
    /// Why a screen refuses the arguments.
    blocked: Option<CallError>,
    explanation: Explanation,
    autonomy: Autonomy,
    /// How a person would be asked, if anybody.
    ask: Option<ApprovalTerms>,
    grants: Grants,
    rates: Rates,
    usage: Usage,
    tokens_last_hour: u64,
    outcome: Outcome,
}

impl<'a> Story<'a> {
    fn of(host: &Host, tool: &'a Tool, arguments: Option<&Value>, args: &ExplainArgs) -> Self {
        let manifest = host.manifest();
        let usage = host.providers().usage();
        let paths = arguments.map(|value| tool.paths.paths(value));
        let scope = Scope { own: tool.policy_ref.as_deref(), asked: args.policy.as_deref() };
        let facts = facts(tool, paths.as_deref(), usage);
        let explanation = manifest.policies.explain(&facts, scope);
        let screened = arguments.map(|value| manifest.policies.screens().input(value));
        let (findings, blocked) = screened.map(|it| (it.findings, it.blocked)).unwrap_or_default();
        let mut story = Self {
            tool,
            given: arguments.is_some(),
            mismatch: arguments.and_then(|value| mismatch(tool, value)),
            screened: !manifest.policies.screens().is_off(),
            findings,
            blocked,
            autonomy: manifest.autonomy,
            ask: ask(tool, manifest.autonomy, &explanation.verdict),
            grants: narrowed(tool, manifest, args.sandbox.as_deref()),
            rates: manifest.policies.rates(),
            usage,
            tokens_last_hour: host.providers().tokens_last_hour(),
            outcome: Outcome { is: "allowed", stage: "policy", reason: String::new() },
            paths,
            explanation,
        };
        story.outcome = story.conclude(host);
        // Nobody is asked about what is refused anyway.
        story.ask = story.ask.filter(|_| story.outcome.is == "asks");
        story
    }

    fn conclude(&self, host: &Host) -> Outcome {
        if let Some((stage, reason)) = self.refusal(host) {
            return Outcome { is: "refused", stage, reason };
        }
        let rule = self.explanation.verdict.rule().map(ToString::to_string).unwrap_or_default();
        let (is, stage, what) = match (&self.explanation.verdict, self.ask) {
            (Verdict::Ask { .. }, _) => ("asks", "policy", "asks a person"),
            (_, Some(_)) => {
                ("asks", "autonomy", "allows it, and a supervised identity asks a person")
            }
            (_, None) => ("allowed", "policy", "allows it"),
        };
        Outcome { is, stage, reason: format!("rule {rule} {what}") }
    }

    /// Goes through the stages in the gate's order; the first that refuses is named.
    fn refusal(&self, host: &Host) -> Option<(&'static str, String)> {
        if let Some(reason) = &self.mismatch {
            return Some(("schema", format!("the arguments do not match the schema: {reason}")));
        }
        if let Some(error) = &self.blocked {
            return Some(("screen", error.message.clone()));
        }
        if self.autonomy == Autonomy::Observer {
            let reason = "the identity is an observer: it runs no tool";
            return Some(("autonomy", reason.to_owned()));
        }
        if let Verdict::Deny { reason, .. } = &self.explanation.verdict {
            return Some(("policy", reason.clone()));
        }
        self.sandbox_problem(host).map(|reason| ("sandbox", reason))
    }

    fn sandbox_problem(&self, host: &Host) -> Option<String> {
        let profile = &self.grants.profile;
        if self.grants.limits.timeout.is_zero() {
            return Some(format!("profile `{profile}` gives its tools no time"));
        }
        // Rules and autonomy do not refuse it, so this can only be the profile.
        (self.allowed_without_arguments(host) && host.standing(self.tool) == Standing::Refused)
            .then(|| format!("profile `{profile}` cannot be had by a call"))
    }

    fn allowed_without_arguments(&self, host: &Host) -> bool {
        let scope = Scope { own: self.tool.policy_ref.as_deref(), asked: None };
        let verdict = host.manifest().policies.decide(&facts(self.tool, None, self.usage), scope);
        !matches!(verdict, Verdict::Deny { .. })
    }
}

fn facts<'a>(tool: &'a Tool, paths: Option<&'a [String]>, usage: Usage) -> CallFacts<'a> {
    CallFacts {
        tool: &tool.ckp_name,
        category: tool.category.as_deref(),
        declared: &tool.declared,
        hints: &tool.definition.annotations,
        paths,
        usage,
    }
}

fn mismatch(tool: &Tool, arguments: &Value) -> Option<String> {
    tool.input.iter().find_map(|schema| schema.check(arguments).err())
}

/// Returns how a person would be asked: by the rule, else by a supervised identity.
fn ask(tool: &Tool, autonomy: Autonomy, verdict: &Verdict) -> Option<ApprovalTerms> {
    match verdict {
        Verdict::Deny { .. } => None,
        Verdict::Ask { terms, .. } => Some(*terms),
        Verdict::Allow { .. } | Verdict::AuditOnly { .. } => {
            let asks = autonomy == Autonomy::Supervised && !is_read_only(tool);
            asks.then(ApprovalTerms::default)
        }
    }
}

fn is_read_only(tool: &Tool) -> bool {
    tool.declared.get("readOnlyHint") == Some(&Value::Bool(true))
}

fn narrowed(tool: &Tool, manifest: &Manifest, asked: Option<&str>) -> Grants {
    match asked.and_then(|name| manifest.profile(name)) {
        Some(profile) if profile.name != tool.grants.profile => {
            tool.grants.clone().within(&profile.grants(None))
        }
        _ => tool.grants.clone(),
    }
}
