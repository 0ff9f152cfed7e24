//! Autonomy and policy: whether a call may run, and whether a person has to say so.

use clawhost_core::catalog::{Tool, declares};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::manifest::Autonomy;
use clawhost_core::policy::{
    ApprovalTerms, CallFacts, Explanation, PolicySet, RuleRef, Scope, Verdict,
};
use clawhost_core::reply::json_bytes;
use serde_json::{Map, Value};

use super::{CallContext, Gate};
use crate::offload;

/// A call that policy does not refuse.
pub(super) struct Decision {
    /// The rule that decided.
    pub(super) rule: RuleRef,
    /// What to ask a person first, if anything.
    pub(super) ask: Option<Ask>,
    /// The rule wants arguments and result in the record (`audit-only`).
    pub(super) detailed: bool,
}

/// Why a person has to be asked, and how.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The rule that asks; absent where the identity's autonomy does.
    pub rule: Option<RuleRef>,
    /// What its author says about it.
    pub reason: String,
    /// How long, and what silence means.
    pub terms: ApprovalTerms,
}

impl Gate {
    /// Decides about a call with `arguments`, or with some arguments where there are none yet.
    pub(super) fn decide(
        &self,
        tool: &Tool,
        arguments: Option<&Value>,
        context: &CallContext,
    ) -> Result<Decision, CallError> {
        // Rules by folder read every text of them.
        let is_long = arguments.is_some_and(|it| json_bytes(it) > SCREENED_AT_ONCE_BYTES_MAX);
        offload::blocking(is_long, || self.decided(tool, arguments, context))
    }

    fn decided(
        &self,
        tool: &Tool,
        arguments: Option<&Value>,
        context: &CallContext,
    ) -> Result<Decision, CallError> {
        self.sides.switches.check(&tool.ckp_name)?;
        let autonomy = self.autonomy(context);
        if autonomy == Autonomy::Observer {
            return Err(refused("autonomy", "the identity is an observer: it runs no tool"));
        }
        // Where no rule looks at them, none are looked for: a rule that did would allow nothing without any.
        let sees_paths = self.lists(context).any(PolicySet::sees_paths);
        let paths = |given| if sees_paths { tool.paths.of_call(given) } else { Vec::new() };
        let paths = arguments.map(paths);
        let facts = self.facts(tool, paths.as_deref());
        // Only the operator's own document counts, and a session that asks for more care.
        let careful = context.narrowing(tool).and_then(|session| session.careful(facts.declared));
        let declared = careful.as_ref().unwrap_or(facts.declared);
        let (ours, theirs) = self.verdicts(tool, (&facts, declared), arguments, context);
        let mut decision = conclude(ours)?;
        // What `call_tool` calls is supervised as what it is.
        decision.also(supervise(declared, autonomy).filter(|_| !tool.is_call_tool()));
        decision.also(tool.asks.then(Ask::always));
        if let Some(theirs) = theirs {
            let theirs = conclude(theirs)?;
            decision.detailed |= theirs.detailed;
            decision.also(theirs.ask.map(Ask::of_session));
        }
        Ok(decision)
    }

    /// Returns which rules of the manifest are tried, and which decides.
    pub(super) fn explanation(
        &self,
        tool: &Tool,
        arguments: Option<&Value>,
        context: &CallContext,
    ) -> Explanation {
        let paths = arguments.map(|it| tool.paths.of_call(it));
        let facts = self.facts(tool, paths.as_deref());
        let (own, asked) = (tool.policy_refs.as_slice(), context.policy.as_deref());
        self.policies().explain(&facts, Scope { own, asked })
    }

    fn facts<'a>(&self, tool: &'a Tool, paths: Option<&'a [String]>) -> CallFacts<'a> {
        CallFacts {
            tool: &tool.ckp_name,
            category: tool.category.as_deref(),
            declared: &tool.declared,
            hints: &tool.hints,
            paths,
            usage: self.sides.providers.usage(),
        }
    }

    /// Returns what the manifest's policies say, of the tool as it is and as it is `declared` with
    /// more care, and what the session's do. A policy that is asked for counts in both; a name
    /// that neither has denies.
    fn verdicts(
        &self,
        tool: &Tool,
        (facts, declared): (&CallFacts<'_>, &Map<String, Value>),
        arguments: Option<&Value>,
        context: &CallContext,
    ) -> (Verdict, Option<Verdict>) {
        let (base, session) = (self.policies(), context.session_policies());
        let asked = context.policy.as_deref();
        let theirs = asked.filter(|name| session.is_some_and(|session| session.contains(name)));
        let ours = asked.filter(|name| theirs.is_none() || base.contains(name));
        let scope = Scope { own: &tool.policy_refs, asked: ours };
        let mut verdict = base.decide(facts, scope);
        if declared != facts.declared {
            verdict = verdict.stricter(base.decide(&CallFacts { declared, ..*facts }, scope));
        }
        let session = context.session.as_ref();
        (verdict, session.and_then(|session| session.decide(facts, (tool, arguments), theirs)))
    }

    fn autonomy(&self, context: &CallContext) -> Autonomy {
        let session = context.session.as_ref().and_then(|session| session.autonomy);
        session.map_or(self.manifest.autonomy, |own| own.stricter(self.manifest.autonomy))
    }
}

impl Decision {
    /// Asks for `ask` as well: one question, put as both together would put it. Its words are the
    /// first one's.
    fn also(&mut self, ask: Option<Ask>) {
        self.ask = match (self.ask.take(), ask) {
            (Some(first), Some(ask)) => Some(Ask { terms: first.terms.and(ask.terms), ..first }),
            (first, ask) => first.or(ask),
        };
    }
}

impl Ask {
    /// The tool's own nature asks, whatever a rule allows.
    fn always() -> Self {
        let reason = "this tool asks before each call, whatever policies allow".to_owned();
        Self { rule: None, reason, terms: ApprovalTerms::default() }
    }

    /// What a caller's own manifest says to the operator is that it asks, and nothing in its words.
    fn of_session(self) -> Self {
        let reason = "the manifest of the caller's session asks for approval".to_owned();
        Self { rule: None, reason, ..self }
    }

    /// Says whether `other` puts the question of this one's rule, and no less strictly.
    pub(super) fn is_put_by(&self, other: &Self) -> bool {
        self.rule.is_some() && self.rule == other.rule && other.terms == other.terms.and(self.terms)
    }
}

fn conclude(verdict: Verdict) -> Result<Decision, CallError> {
    let detailed = matches!(verdict, Verdict::AuditOnly { .. });
    match verdict {
        Verdict::Allow { rule } | Verdict::AuditOnly { rule } => {
            Ok(Decision { ask: None, rule, detailed })
        }
        Verdict::Ask { rule, terms, reason } => {
            let reason = reason.unwrap_or_else(|| format!("the rule {rule} asks for approval"));
            let ask = Ask { rule: Some(rule.clone()), reason, terms };
            Ok(Decision { ask: Some(ask), rule, detailed })
        }
        Verdict::Deny { rule, reason } => Err(ruled(refused("policy", &reason), rule.as_ref())),
    }
}

/// A supervised identity asks a person before side effects (CKP 0.3.0, section 5.1).
fn supervise(declared: &Map<String, Value>, autonomy: Autonomy) -> Option<Ask> {
    if autonomy != Autonomy::Supervised || declares(declared, "readOnlyHint") {
        return None;
    }
    let reason = "the identity is supervised, and the tool may have side effects".to_owned();
    Some(Ask { rule: None, reason, terms: ApprovalTerms::default() })
}

fn ruled(error: CallError, rule: Option<&RuleRef>) -> CallError {
    match rule {
        Some(rule) => error.with("policy", rule.policy.as_str()).with("rule_id", rule.id.as_str()),
        None => error,
    }
}

fn refused(stage: &str, reason: &str) -> CallError {
    CallError::new(ErrorKind::Policy, reason).with("stage", stage)
}
