//! How a verdict came about: every rule that was tried, by the same code that decides.

use super::{Action, CallFacts, PolicySet, RuleRef, Scope, Verdict};

/// A verdict and every rule that was looked at on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What was decided.
    pub verdict: Verdict,
    /// Each rule tried, list by list in order; the last of each list is the one that matched, if any
    /// did. Where paths are unknown, an earlier one that may ask decides unless that is laxer, and
    /// then the last does not count as one that matched.
    pub steps: Vec<Step>,
}

/// The list of rules that a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// All policies of the manifest.
    All,
    /// The policy that the caller names.
    Asked,
    /// The policy that the tool's document names.
    Own,
}

/// One rule that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Whose turn it was.
    pub list: List,
    /// The rule.
    pub rule: RuleRef,
    /// What it does where it matches.
    pub action: Action,
    /// `file:line` of the rule.
    pub at: String,
    /// The first thing that did not match; absent where the rule matched and decides in its list.
    pub mismatch: Option<String>,
}

impl PolicySet {
    /// Decides as [`PolicySet::decide`] does, and says how.
    pub fn explain(&self, facts: &CallFacts<'_>, scope: Scope<'_>) -> Explanation {
        let mut steps = Vec::new();
        let verdict = self.tried(facts, scope, &mut |list, policy, rule, mismatch| {
            steps.push(Step {
                list,
                rule: RuleRef { policy: policy.name.clone(), id: rule.id.clone() },
                action: rule.action,
                at: rule.at.clone(),
                mismatch: mismatch.map(|mismatch| mismatch.to_string()),
            });
        });
        Explanation { verdict, steps }
    }
}
