//! Policy: ordered rules, of which the first that matches decides; no match denies.
//!
//! All policies of a manifest are one concatenated list. A tool that names a policy of its own
//! has to pass that one as well, and so has a call whose caller names one: naming a policy can
//! only narrow. Deliberately absent: asking anybody. [`Verdict::Ask`] says that a human has to
//! answer; the gate knows how.
//!
//! Hints a component gives about itself are untrusted: a rule that relaxes (`allow`,
//! `audit-only`) counts only what the operator's own tool document declares, a rule that
//! tightens (`deny`, `require-approval`) also counts what the component says, and the worst
//! that it leaves unsaid. `conditions.path_within` and `rate_limit` follow the same rule: what
//! is unknown relaxes nothing ([`Rule`]).

mod addresses;
mod explain;
mod paths;
mod places;
#[cfg(test)]
mod reference;
mod rule;
mod terms;
#[cfg(test)]
mod tests;
mod verdict;

use serde_json::{Map, Value};

pub use self::addresses::check_addresses;
pub use self::explain::{Explanation, List, Step};
pub use self::paths::ToolPaths;
pub use self::places::{Folder, HostFolder, NOWHERE, PathReader};
use self::rule::Mismatch;
pub(crate) use self::rule::most_careful;
pub use self::rule::{Action, ApprovalTerms, Match, RateLimit, Rule};
pub use self::terms::{AuditTerms, Destination, Rates};
pub use self::verdict::{RuleRef, Verdict};
use crate::catalog::Annotations;
use crate::limits::TOOL_NAME_BYTES_MAX;
use crate::screen::{Filter, Screen, Screens};
use crate::{truncate, visible};

/// A named, ordered list of rules, and what else it says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Its name, which a tool's `policy_ref` may state.
    pub name: String,
    /// Its rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
    /// What it has arguments and results searched for.
    pub screen: Screen,
    /// How much it lets happen.
    pub rates: Rates,
    /// What it wants recorded.
    pub audit: AuditTerms,
}

/// All policies of a manifest, in its order. The default has none and denies everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    screens: Screens,
    rates: Rates,
    audit: AuditTerms,
    sees_paths: bool,
}

/// What a policy may look at.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The tool's CKP name.
    pub tool: &'a str,
    /// The tool's `labels.category`.
    pub category: Option<&'a str>,
    /// Annotations of the operator's own tool document: trusted.
    pub declared: &'a Map<String, Value>,
    /// What the component says about itself: untrusted.
    pub hints: &'a Annotations,
    /// The arguments that are paths, as [`ToolPaths::of_call`] returns them. Absent where there is no call
    /// yet, only the question whether one could pass: a rule with a condition on them then
    /// matches if it relaxes, denies nothing, and asks a person where no other rule is laxer.
    pub paths: Option<&'a [String]>,
    /// What was spent today.
    pub usage: Usage,
}

/// What providers were used for since midnight UTC.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Tokens read and written.
    pub tokens_today: u64,
    /// What they cost, in dollars.
    pub cost_today_usd: f64,
}

/// Which policies have to allow a call beside the whole list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope<'a> {
    /// Those that the tool's document and its server's entry name.
    pub own: &'a [String],
    /// The one that the caller names.
    pub asked: Option<&'a str>,
}

impl PolicySet {
    /// Returns the set of `policies`, in that order.
    pub fn new(policies: Vec<Policy>) -> Self {
        let rates = policies.iter().fold(Rates::default(), |all, one| all.and(one.rates));
        let audit =
            policies.iter().fold(AuditTerms::default(), |all, one| all.and(one.audit.clone()));
        let screens = Screens::new(policies.iter().map(|one| (one.name.as_str(), &one.screen)));
        let mut rules = policies.iter().flat_map(|policy| &policy.rules);
        let sees_paths = rules.any(|rule| rule.path_within.is_some());
        Self { policies, screens, rates, audit, sees_paths }
    }

    /// Has arguments and results searched for more, by the names that findings show.
    pub fn add_filters(&mut self, filters: &[(String, Filter)]) {
        filters.iter().for_each(|(name, filter)| self.screens.add_filter(name, filter));
    }

    /// Returns the policies in their order.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Says whether `name` is one of the policies.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns what arguments and results are searched for, by all policies together.
    pub const fn screens(&self) -> &Screens {
        &self.screens
    }

    /// Returns how much may happen: the strictest of all policies.
    pub const fn rates(&self) -> Rates {
        self.rates
    }

    /// Returns what is recorded: all that any policy wants.
    pub const fn audit(&self) -> &AuditTerms {
        &self.audit
    }

    /// Says whether any rule looks at the paths of a call.
    pub const fn sees_paths(&self) -> bool {
        self.sees_paths
    }

    /// Decides about a call: the whole list, and each policy of `scope`. All of them have to
    /// allow, the strictest verdict counts, and a name that does not exist denies.
    pub fn decide(&self, facts: &CallFacts<'_>, scope: Scope<'_>) -> Verdict {
        self.tried(facts, scope, &mut |_, _, _, _| {})
    }

    /// Decides, and shows `look` each rule that is tried, and what of it does not match.
    fn tried(
        &self,
        facts: &CallFacts<'_>,
        scope: Scope<'_>,
        look: &mut impl FnMut(List, &Policy, &Rule, Option<Mismatch<'_>>),
    ) -> Verdict {
        let mut verdict = first_match(List::All, &self.policies, facts, look);
        let own = scope.own.iter().map(|name| (List::Own, name.as_str()));
        for (list, name) in own.chain(scope.asked.map(|name| (List::Asked, name))) {
            let also = match self.find(name) {
                Some(policy) => first_match(list, std::slice::from_ref(policy), facts, look),
                None => unknown(name),
            };
            verdict = verdict.stricter(also);
        }
        verdict
    }

    fn find(&self, name: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.name == name)
    }
}

/// Tries rules in their order until one matches. Where paths are unknown, one that would ask about some is what
/// decides, unless what decides about the others is laxer.
fn first_match(
    list: List,
    policies: &[Policy],
    facts: &CallFacts<'_>,
    look: &mut impl FnMut(List, &Policy, &Rule, Option<Mismatch<'_>>),
) -> Verdict {
    let mut perhaps: Option<Verdict> = None;
    for policy in policies {
        for rule in &policy.rules {
            let mismatch = rule.mismatch(facts);
            if mismatch.is_none() {
                let verdict = verdict(policy, rule, facts);
                let earlier = as_lax(perhaps, &verdict);
                look(list, policy, rule, earlier.is_some().then_some(Mismatch::Earlier));
                return earlier.unwrap_or(verdict);
            }
            look(list, policy, rule, mismatch);
            let is_unknown = matches!(mismatch, Some(Mismatch::UnknownPaths));
            if is_unknown && rule.action == Action::RequireApproval {
                perhaps = Some(laxer(perhaps, verdict(policy, rule, facts)));
            }
        }
    }
    let reason = format!("no policy rule allows tool `{}`", facts.tool);
    laxer(perhaps, Verdict::Deny { rule: None, reason })
}

/// Returns the laxer of two verdicts; the first where they are equally lax.
fn laxer(perhaps: Option<Verdict>, verdict: Verdict) -> Verdict {
    as_lax(perhaps, &verdict).unwrap_or(verdict)
}

/// Returns the first of two verdicts where it is at least as lax as the other.
fn as_lax(perhaps: Option<Verdict>, verdict: &Verdict) -> Option<Verdict> {
    perhaps.filter(|one| one.strictness() <= verdict.strictness())
}

fn verdict(policy: &Policy, rule: &Rule, facts: &CallFacts<'_>) -> Verdict {
    let name = RuleRef { policy: policy.name.clone(), id: rule.id.clone() };
    match rule.action {
        Action::Allow => Verdict::Allow { rule: name },
        Action::AuditOnly => Verdict::AuditOnly { rule: name },
        Action::Deny => {
            let why = rule.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let reason = format!("rule `{}` denies tool `{}`{why}", rule.id, facts.tool);
            Verdict::Deny { rule: Some(name), reason }
        }
        Action::RequireApproval => {
            Verdict::Ask { rule: name, terms: rule.approval, reason: rule.reason.clone() }
        }
    }
}

/// A caller may have named it, so the name is shown with care.
fn unknown(name: &str) -> Verdict {
    let name = visible::line(truncate::text(name, TOOL_NAME_BYTES_MAX));
    Verdict::Deny { rule: None, reason: format!("there is no policy `{name}`") }
}
