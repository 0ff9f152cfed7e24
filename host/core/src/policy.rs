//! Policy: ordered rules, of which the first that matches decides; no match denies.
//!
//! All policies of a manifest are one concatenated list. A tool that names a policy of its own
//! has to pass that one as well: naming a policy can only narrow. Deliberately absent: asking
//! anybody. [`Verdict::Ask`] says that a human has to answer; the gate knows how.
//!
//! Hints a component gives about itself are untrusted: a rule that relaxes (`allow`,
//! `audit-only`) counts only what the operator's own tool document declares, a rule that
//! tightens (`deny`, `require-approval`) also counts what the component says, and the worst
//! that it leaves unsaid.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::catalog::Annotations;

/// What a rule does where it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The call may run.
    Allow,
    /// The call may run, and its record says that this rule let it.
    AuditOnly,
    /// The call may not run.
    Deny,
    /// A human has to allow the call.
    RequireApproval,
}

/// Which tools a rule is about. Every part that is present has to match.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Match {
    /// CKP names: exact, or a prefix followed by `*`.
    pub name: Option<String>,
    /// The tool's `labels.category`, exactly.
    pub category: Option<String>,
    /// Annotations and the values they must have.
    pub annotations: Map<String, Value>,
}

/// How an approval is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApprovalTerms {
    /// How long a human has to answer; the host's own bound where absent.
    pub timeout: Option<Duration>,
    /// Whether silence allows the call. The protocol lets an operator say so.
    pub allow_on_timeout: bool,
}

/// One rule of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in records and refusals.
    pub id: String,
    /// What it does.
    pub action: Action,
    /// Which tools it is about.
    pub matches: Match,
    /// What its author says about it.
    pub reason: Option<String>,
    /// How to ask, for [`Action::RequireApproval`].
    pub approval: ApprovalTerms,
    /// `file:line` of the rule.
    pub at: String,
}

/// A named, ordered list of rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its name, which a tool's `policy_ref` may state.
    pub name: String,
    /// Its rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
}

/// All policies of a manifest, in its order. The default has none and denies everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
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
}

/// Which rule decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRef {
    /// The policy's name.
    pub policy: String,
    /// The rule's id.
    pub id: String,
}

/// What a policy says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow {
        /// The rule that says so.
        rule: RuleRef,
    },
    /// A human has to say so first.
    Ask {
        /// The rule that asks.
        rule: RuleRef,
        /// How it wants to be asked.
        terms: ApprovalTerms,
        /// What the rule's author says about it.
        reason: Option<String>,
    },
    /// It may run; its record names the rule.
    AuditOnly {
        /// The rule that says so.
        rule: RuleRef,
    },
    /// It may not run.
    Deny {
        /// The rule that says so; absent where no rule matched.
        rule: Option<RuleRef>,
        /// Why, for the caller.
        reason: String,
    },
}

/// A verdict and every rule that was looked at on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What was decided.
    pub verdict: Verdict,
    /// Each rule tried, in order; the last of each list is the one that matched, if any did.
    pub steps: Vec<Step>,
}

/// One rule that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The rule.
    pub rule: RuleRef,
    /// `file:line` of the rule.
    pub at: String,
    /// The first thing that did not match; absent where the rule matched.
    pub mismatch: Option<String>,
}

impl PolicySet {
    /// Returns the set of `policies`, in that order.
    pub const fn new(policies: Vec<Policy>) -> Self {
        Self { policies }
    }

    /// Returns the policies in their order.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Says whether `name` is one of the policies.
    pub fn contains(&self, name: &str) -> bool {
        self.policies.iter().any(|policy| policy.name == name)
    }

    /// Decides about a call: the whole list, and the tool's own policy where it names one.
    /// Both have to allow; a name that does not exist denies.
    pub fn decide(&self, facts: &CallFacts<'_>, policy_ref: Option<&str>) -> Verdict {
        self.explain(facts, policy_ref).verdict
    }

    /// Decides, and says how.
    pub fn explain(&self, facts: &CallFacts<'_>, policy_ref: Option<&str>) -> Explanation {
        let mut steps = Vec::new();
        let all = first_match(self.policies.iter(), facts, &mut steps);
        let verdict = match policy_ref {
            None => all,
            Some(name) => stricter(all, self.decide_by(name, facts, &mut steps)),
        };
        Explanation { verdict, steps }
    }

    fn decide_by(&self, name: &str, facts: &CallFacts<'_>, steps: &mut Vec<Step>) -> Verdict {
        match self.policies.iter().find(|policy| policy.name == name) {
            Some(policy) => first_match(std::iter::once(policy), facts, steps),
            None => Verdict::Deny { rule: None, reason: format!("there is no policy `{name}`") },
        }
    }
}

fn first_match<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    facts: &CallFacts<'_>,
    steps: &mut Vec<Step>,
) -> Verdict {
    for policy in policies {
        for rule in &policy.rules {
            let mismatch = rule.mismatch(facts);
            let matched = mismatch.is_none();
            let name = RuleRef { policy: policy.name.clone(), id: rule.id.clone() };
            steps.push(Step { rule: name.clone(), at: rule.at.clone(), mismatch });
            if matched {
                return rule.verdict(name, facts);
            }
        }
    }
    Verdict::Deny { rule: None, reason: format!("no policy rule allows tool `{}`", facts.tool) }
}

/// Returns the stricter of two verdicts; the first where they are equally strict.
fn stricter(first: Verdict, second: Verdict) -> Verdict {
    if second.strictness() > first.strictness() { second } else { first }
}

impl Verdict {
    const fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::AuditOnly { .. } => 1,
            Self::Ask { .. } => 2,
            Self::Deny { .. } => 3,
        }
    }
}

impl Rule {
    fn verdict(&self, rule: RuleRef, facts: &CallFacts<'_>) -> Verdict {
        match self.action {
            Action::Allow => Verdict::Allow { rule },
            Action::AuditOnly => Verdict::AuditOnly { rule },
            Action::Deny => {
                let why = self.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let reason = format!("rule `{}` denies tool `{}`{why}", rule.id, facts.tool);
                Verdict::Deny { rule: Some(rule), reason }
            }
            Action::RequireApproval => {
                Verdict::Ask { rule, terms: self.approval, reason: self.reason.clone() }
            }
        }
    }

    /// Returns the first thing that does not match, nothing if all does.
    fn mismatch(&self, facts: &CallFacts<'_>) -> Option<String> {
        let Match { name, category, annotations } = &self.matches;
        if let Some(pattern) = name.as_ref().filter(|pattern| !name_matches(pattern, facts.tool)) {
            return Some(format!("the name is `{}`, not `{pattern}`", facts.tool));
        }
        if let Some(wanted) = category.as_ref().filter(|wanted| facts.category != Some(wanted)) {
            let is = facts.category.unwrap_or("none");
            return Some(format!("the category is `{is}`, not `{wanted}`"));
        }
        let missed = annotations.iter().find(|(key, wanted)| !self.annotated(key, wanted, facts));
        missed.map(|(key, wanted)| format!("annotation `{key}` does not count as `{wanted}`"))
    }

    fn annotated(&self, key: &str, wanted: &Value, facts: &CallFacts<'_>) -> bool {
        let declared = facts.declared.get(key);
        match self.action {
            Action::Allow | Action::AuditOnly => declared == Some(wanted),
            Action::Deny | Action::RequireApproval => {
                declared == Some(wanted)
                    || hint(facts.hints, key).is_some_and(|said| *wanted == said)
                    || (declared.is_none() && worst(key).is_some_and(|worst| *wanted == worst))
            }
        }
    }
}

fn hint(hints: &Annotations, key: &str) -> Option<bool> {
    match key {
        "destructiveHint" => hints.destructive,
        "idempotentHint" => hints.idempotent,
        "openWorldHint" => hints.open_world,
        "readOnlyHint" => hints.read_only,
        _ => None,
    }
}

/// Returns what MCP says to assume of a tool that says nothing.
fn worst(key: &str) -> Option<bool> {
    match key {
        "destructiveHint" | "openWorldHint" => Some(true),
        "idempotentHint" | "readOnlyHint" => Some(false),
        _ => None,
    }
}

fn name_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of policy `{}`", self.id, self.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(id: &str, action: Action, matches: Match) -> Rule {
        Rule {
            id: id.to_owned(),
            action,
            matches,
            reason: None,
            approval: ApprovalTerms::default(),
            at: "t.yaml:1".to_owned(),
        }
    }

    fn named(pattern: &str) -> Match {
        Match { name: Some(pattern.to_owned()), ..Match::default() }
    }

    fn annotated(key: &str, value: bool) -> Match {
        let annotations = Map::from_iter([(key.to_owned(), Value::Bool(value))]);
        Match { annotations, ..Match::default() }
    }

    fn set(rules: Vec<Rule>) -> PolicySet {
        PolicySet::new(vec![Policy { name: "p".to_owned(), rules }])
    }

    fn says(set: &PolicySet, tool: &str, declared: &Value, hints: Annotations) -> String {
        let declared = declared.as_object().cloned().unwrap_or_default();
        let facts = CallFacts { tool, category: Some("files"), declared: &declared, hints: &hints };
        match set.decide(&facts, None) {
            Verdict::Allow { rule } => format!("allow {}", rule.id),
            Verdict::Ask { rule, .. } => format!("ask {}", rule.id),
            Verdict::AuditOnly { rule } => format!("audit {}", rule.id),
            Verdict::Deny { rule, .. } => {
                format!("deny {}", rule.map_or_else(|| "-".to_owned(), |rule| rule.id))
            }
        }
    }

    #[test]
    fn no_policy_and_no_match_deny() {
        let none = Annotations::default();
        assert_eq!(says(&PolicySet::default(), "a", &json!({}), none), "deny -");
        let only = set(vec![rule("r", Action::Allow, named("read-*"))]);
        assert_eq!(says(&only, "write-file", &json!({}), none), "deny -");
        assert_eq!(says(&only, "read-file", &json!({}), none), "allow r");
    }

    #[test]
    fn the_first_match_wins_over_the_whole_concatenated_list() {
        let deny = rule("no", Action::Deny, named("write-file"));
        let all = rule("yes", Action::Allow, Match::default());
        let ask = rule("ask", Action::RequireApproval, named("exec-*"));
        let audit = rule("audit", Action::AuditOnly, named("b"));
        let policies = PolicySet::new(vec![
            Policy { name: "one".to_owned(), rules: vec![deny, ask, audit] },
            Policy { name: "two".to_owned(), rules: vec![all] },
        ]);
        for (tool, expected) in [
            ("write-file", "deny no"),
            ("exec-shell", "ask ask"),
            ("b", "audit audit"),
            ("bb", "allow yes"),
        ] {
            assert_eq!(says(&policies, tool, &json!({}), Annotations::default()), expected);
        }
    }

    #[test]
    fn a_category_rule_matches_the_category_only() {
        let wanted = |text: &str| Match { category: Some(text.to_owned()), ..Match::default() };
        let none = Annotations::default();
        let files = set(vec![rule("r", Action::Allow, wanted("files"))]);
        let web = set(vec![rule("r", Action::Allow, wanted("web"))]);
        assert_eq!(says(&files, "a", &json!({}), none), "allow r");
        assert_eq!(says(&web, "a", &json!({}), none), "deny -");
    }

    #[test]
    fn a_components_own_hint_never_relaxes() {
        let allow = set(vec![rule("r", Action::Allow, annotated("readOnlyHint", true))]);
        let claims = Annotations { read_only: Some(true), ..Annotations::default() };
        assert_eq!(says(&allow, "a", &json!({}), claims), "deny -");
        assert_eq!(says(&allow, "a", &json!({"readOnlyHint": true}), claims), "allow r");

        let deny = set(vec![
            rule("no", Action::Deny, annotated("destructiveHint", true)),
            rule("yes", Action::Allow, Match::default()),
        ]);
        let harmless = Annotations { destructive: Some(false), ..Annotations::default() };
        assert_eq!(says(&deny, "a", &json!({}), harmless), "deny no");
        assert_eq!(says(&deny, "a", &json!({"destructiveHint": false}), harmless), "allow yes");
    }

    #[test]
    fn a_components_own_hint_tightens_even_against_the_operator() {
        let deny = set(vec![
            rule("no", Action::Deny, annotated("destructiveHint", true)),
            rule("yes", Action::Allow, Match::default()),
        ]);
        let admits = Annotations { destructive: Some(true), ..Annotations::default() };
        assert_eq!(says(&deny, "a", &json!({"destructiveHint": false}), admits), "deny no");
    }

    #[test]
    fn a_policy_ref_can_only_narrow() {
        let allow = |name: &str| Policy {
            name: name.to_owned(),
            rules: vec![rule(name, Action::Allow, named("a"))],
        };
        let deny = Policy {
            name: "strict".to_owned(),
            rules: vec![rule("no", Action::Deny, Match::default())],
        };
        let set = PolicySet::new(vec![allow("wide"), allow("own"), deny]);
        let (declared, hints) = (Map::new(), Annotations::default());
        let facts = |tool| CallFacts { tool, category: None, declared: &declared, hints: &hints };
        assert!(matches!(set.decide(&facts("a"), Some("own")), Verdict::Allow { .. }));
        assert!(matches!(
            set.decide(&facts("a"), Some("strict")),
            Verdict::Deny { rule: Some(_), .. }
        ));
        assert!(matches!(set.decide(&facts("a"), Some("gone")), Verdict::Deny { rule: None, .. }));
        assert!(matches!(set.decide(&facts("b"), Some("own")), Verdict::Deny { .. }));
    }

    #[test]
    fn an_explanation_names_every_rule_that_was_tried() {
        let policies = set(vec![
            rule("one", Action::Allow, named("x")),
            rule("two", Action::Deny, Match::default()),
            rule("three", Action::Allow, Match::default()),
        ]);
        let (declared, hints) = (Map::new(), Annotations::default());
        let facts = CallFacts { tool: "a", category: None, declared: &declared, hints: &hints };
        let explanation = policies.explain(&facts, None);
        let steps: Vec<_> = explanation
            .steps
            .iter()
            .map(|step| (step.rule.id.as_str(), step.mismatch.is_none()))
            .collect();
        assert_eq!(steps, [("one", false), ("two", true)]);
        assert_eq!(explanation.steps[0].mismatch.as_deref(), Some("the name is `a`, not `x`"));
    }
}
