//! One rule: what it does, what it is about, and the first thing about a call it does not match.
//!
//! Where something about a call is unknown, or untrusted, a rule that relaxes does not match and
//! a rule that tightens does. The one exception is a call that is not there yet: see
//! [`CallFacts::paths`].

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::places::{Folder, NOWHERE};
use super::{CallFacts, Usage};

/// What a rule does where it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

table! {
    /// Returns the protocol's word for it.
    pub Action::name: &'static str {
        Allow: "allow", AuditOnly: "audit-only", Deny: "deny",
        RequireApproval: "require-approval",
    }
}

impl Action {
    /// Says whether a rule that does this takes something away from the call.
    pub const fn tightens(self) -> bool {
        matches!(self, Self::Deny | Self::RequireApproval)
    }
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

/// How much may be spent in a day (UTC) before a rule turns: one that tightens matches from then
/// on, one that relaxes matches until then. Whichever of the two is reached first counts; with
/// neither, it is reached at once.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct RateLimit {
    /// What providers may cost.
    pub cost_per_day_usd: Option<f64>,
    /// What providers may read and write.
    pub tokens_per_day: Option<u64>,
}

impl RateLimit {
    /// Says whether `usage` has come to the limit.
    pub fn reached(&self, usage: &Usage) -> bool {
        let Self { cost_per_day_usd, tokens_per_day } = self;
        // A cost that is no number is not below any limit.
        let below =
            |limit: f64| usage.cost_today_usd.partial_cmp(&limit) == Some(std::cmp::Ordering::Less);
        let tokens_left = tokens_per_day.map(|limit| usage.tokens_today < limit);
        let cost_left = cost_per_day_usd.map(below);
        match (tokens_left, cost_left) {
            (None, None) => true,
            (tokens, cost) => !(tokens.unwrap_or(true) && cost.unwrap_or(true)),
        }
    }
}

/// How an approval is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApprovalTerms {
    /// How long a human has to answer; the host's own bound where absent.
    pub timeout: Option<Duration>,
    /// Whether silence allows the call. The protocol lets an operator say so.
    pub allow_on_timeout: bool,
}

impl ApprovalTerms {
    /// Returns the terms of a question that two ask together: the shorter time, and silence
    /// allows only where both say so.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            timeout: self.timeout.into_iter().chain(other.timeout).min(),
            allow_on_timeout: self.allow_on_timeout && other.allow_on_timeout,
        }
    }
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
    /// The folder that the call's paths have to lie in: all of them for a rule that relaxes. For
    /// one that tightens, any of them lies in it or is a folder above it ([`Folder::meets`]). A
    /// call without a path is relaxed by no such rule, and tightened by every one.
    pub path_within: Option<Folder>,
    /// The day's spending at which it turns.
    pub rate_limit: Option<RateLimit>,
    /// What its author says about it.
    pub reason: Option<String>,
    /// How to ask, for [`Action::RequireApproval`].
    pub approval: ApprovalTerms,
    /// `file:line` of the rule.
    pub at: String,
}

/// The first thing about a call that a rule does not match; made into words only to be read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mismatch<'a> {
    Annotation { key: &'a str, wanted: &'a Value },
    Category { is: Option<&'a str>, wanted: &'a str },
    Earlier,
    Name { is: &'a str, wanted: &'a str },
    NoneInside(&'a Folder),
    NoPath,
    NotReached,
    Outside { path: &'a str, folder: &'a Folder },
    Reached,
    UnknownPaths,
}

impl Rule {
    /// Returns the first thing that does not match, nothing if all does.
    pub(super) fn mismatch<'a>(&'a self, facts: &'a CallFacts<'_>) -> Option<Mismatch<'a>> {
        // Unknown paths are the last: all the rest matches then.
        self.tool_mismatch(facts)
            .or_else(|| self.rate_mismatch(facts))
            .or_else(|| self.path_mismatch(facts))
    }

    fn tool_mismatch<'a>(&'a self, facts: &'a CallFacts<'_>) -> Option<Mismatch<'a>> {
        let Match { name, category, annotations } = &self.matches;
        if let Some(wanted) = name.as_deref().filter(|wanted| !name_matches(wanted, facts.tool)) {
            return Some(Mismatch::Name { is: facts.tool, wanted });
        }
        if let Some(wanted) = category.as_deref().filter(|wanted| facts.category != Some(wanted)) {
            return Some(Mismatch::Category { is: facts.category, wanted });
        }
        let missed = annotations.iter().find(|(key, wanted)| !self.annotated(key, wanted, facts));
        missed.map(|(key, wanted)| Mismatch::Annotation { key, wanted })
    }

    fn annotated(&self, key: &str, wanted: &Value, facts: &CallFacts<'_>) -> bool {
        let declared = facts.declared.get(key);
        declared == Some(wanted)
            || (self.action.tightens()
                && (facts.hints.hint(key).is_some_and(|said| *wanted == said)
                    || (declared.is_none()
                        && most_careful(key).is_some_and(|said| *wanted == said))))
    }

    fn path_mismatch<'a>(&'a self, facts: &'a CallFacts<'_>) -> Option<Mismatch<'a>> {
        let folder = self.path_within.as_ref()?;
        match (facts.paths, self.action.tightens()) {
            (None, true) => Some(Mismatch::UnknownPaths),
            (None, false) | (Some([]), true) => None,
            (Some([]), false) => Some(Mismatch::NoPath),
            (Some(paths), true) => {
                let met = paths.iter().any(|path| folder.meets(path));
                (!met).then_some(Mismatch::NoneInside(folder))
            }
            (Some(paths), false) => {
                let path = paths.iter().find(|path| !folder.holds(path))?;
                Some(Mismatch::Outside { path, folder })
            }
        }
    }

    fn rate_mismatch(&self, facts: &CallFacts<'_>) -> Option<Mismatch<'_>> {
        let reached = self.rate_limit.as_ref()?.reached(&facts.usage);
        match (self.action.tightens(), reached) {
            (true, false) => Some(Mismatch::NotReached),
            (false, true) => Some(Mismatch::Reached),
            (true, true) | (false, false) => None,
        }
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation { key, wanted } => {
                write!(f, "annotation `{key}` does not count as `{wanted}`")
            }
            Self::Category { is, wanted } => {
                write!(f, "the category is `{}`, not `{wanted}`", is.unwrap_or("none"))
            }
            Self::Earlier => f.write_str("an earlier one that asks may match, and decides"),
            Self::Name { is, wanted } => write!(f, "the name is `{is}`, not `{wanted}`"),
            Self::NoneInside(folder) => write!(f, "no path lies within `{folder}` or is above it"),
            Self::NoPath => f.write_str("the arguments hold no path that the tool declares"),
            Self::NotReached => f.write_str("its rate limit is not reached"),
            Self::Outside { path, folder } if *path == NOWHERE => {
                write!(f, "a path has no place in the granted folders, so none within `{folder}`")
            }
            Self::Outside { path, folder } => {
                write!(f, "the path `{path}` does not lie within `{folder}`")
            }
            Self::Reached => f.write_str("its rate limit is reached"),
            Self::UnknownPaths => f.write_str("it depends on the arguments, which are not known"),
        }
    }
}

/// Returns what MCP says to assume of a tool that says nothing: what asks for most care.
pub(crate) fn most_careful(key: &str) -> Option<bool> {
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
