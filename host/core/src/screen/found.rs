//! What came of a search: what was found, how often, and what happens now.

use std::collections::BTreeMap;

use super::filters::CheckAction;
use super::{Action, INPUT_VALIDATION};
use crate::error::{CallError, ErrorKind, Limit};
use crate::limits::SCREEN_FINDINGS_MAX;

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// The policy that asked for the check.
    pub policy: String,
    /// What it is, and how often; never the text itself.
    pub what: String,
    /// What happened with it.
    pub action: Action,
}

/// What came through, and what was found in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Screened<T> {
    /// The result, without what had to be taken out.
    pub value: T,
    /// Everything that was found, one entry for each kind.
    pub findings: Vec<Finding>,
    /// Why it may go no further, where that is so.
    pub blocked: Option<CallError>,
}

/// How often what was found, up to [`SCREEN_FINDINGS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Counts(pub(super) BTreeMap<&'static str, usize>);

impl Counts {
    pub(super) fn see(&mut self, name: &'static str) {
        let times = self.0.entry(name).or_default();
        *times = SCREEN_FINDINGS_MAX.min(*times + 1);
    }
}

impl<T> Screened<T> {
    pub(super) const fn clean(value: T) -> Self {
        Self { value, findings: Vec::new(), blocked: None }
    }

    /// Notes what `check` found so often, and refuses it where that was asked for.
    pub(super) fn note(
        &mut self,
        check: &'static str,
        asked: &CheckAction,
        name: &str,
        times: usize,
    ) {
        let CheckAction { action, policy } = asked;
        let what = match times {
            1 => name.to_owned(),
            SCREEN_FINDINGS_MAX => format!("{name} ({times} times or more)"),
            _ => format!("{name} ({times} times)"),
        };
        if *action == Action::Block && self.blocked.is_none() {
            let reason = format!("{check}, by policy `{policy}`: {what}");
            self.blocked = Some(refusal(ErrorKind::Policy, reason, check, policy));
        }
        self.findings.push(Finding { check, policy: policy.clone(), what, action: *action });
    }

    /// Refuses arguments of the wrong form.
    pub(super) fn refuse(&mut self, policy: &str, what: &str, limit: Limit) {
        let reason = format!("the arguments have {what}, by policy `{policy}`");
        let error = refusal(ErrorKind::InvalidArguments, reason, INPUT_VALIDATION, policy);
        self.blocked.get_or_insert_with(|| error.with_limit(limit));
        self.findings.push(Finding {
            check: INPUT_VALIDATION,
            policy: policy.to_owned(),
            what: what.to_owned(),
            action: Action::Block,
        });
    }
}

fn refusal(kind: ErrorKind, reason: String, check: &str, policy: &str) -> CallError {
    CallError::new(kind, reason).with("stage", "screen").with("check", check).with("policy", policy)
}
