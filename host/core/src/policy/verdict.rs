//! What a policy says about a call, and which of two such is stricter.

use std::fmt;

use super::rule::ApprovalTerms;

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

impl Verdict {
    /// Returns the stricter of two verdicts; this one where they are equally strict. Where both
    /// ask, the question is put as both together would put it.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let terms = self.terms().zip(other.terms()).map(|(one, two)| one.and(two));
        let stricter = if other.strictness() > self.strictness() { other } else { self };
        match (stricter, terms) {
            (Self::Ask { rule, reason, .. }, Some(terms)) => Self::Ask { rule, terms, reason },
            (stricter, _) => stricter,
        }
    }

    const fn terms(&self) -> Option<ApprovalTerms> {
        match self {
            Self::Ask { terms, .. } => Some(*terms),
            Self::Allow { .. } | Self::AuditOnly { .. } | Self::Deny { .. } => None,
        }
    }

    pub(super) const fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::AuditOnly { .. } => 1,
            Self::Ask { terms, .. } if terms.allow_on_timeout => 2,
            Self::Ask { .. } => 3,
            Self::Deny { .. } => 4,
        }
    }

    /// Returns the rule that decided; absent where none matched.
    pub const fn rule(&self) -> Option<&RuleRef> {
        match self {
            Self::Allow { rule } | Self::Ask { rule, .. } | Self::AuditOnly { rule } => Some(rule),
            Self::Deny { rule, .. } => rule.as_ref(),
        }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of policy `{}`", self.id, self.policy)
    }
}
