//! What the gate makes, and nobody else can.

use std::time::Duration;

use clawhost_core::policy::RuleRef;

use super::rates::RateHold;
use super::{Allowed, Nest};
use crate::quarantine::Trial;
use crate::registry::Resolved;

/// A call that passed every check, carrying all an executor may use.
///
/// Deliberately not `Clone`: one admission pays for one execution. Its fields are private to
/// the gate, so nothing else can make one:
///
/// ```compile_fail
/// # use clawhost::{gate::Admitted, registry::Resolved};
/// # use clawhost_core::policy::RuleRef;
/// fn forge(resolved: Resolved, rule: RuleRef) -> Admitted {
///     let (arguments, timeout) = (String::new(), std::time::Duration::MAX);
///     let principal = String::new();
///     let (approved, trial, nest) = (None, None, None);
///     let (detailed, holds) = (false, Vec::new());
///     Admitted {
///         resolved, principal, arguments, timeout, rule, approved, detailed, trial, holds, nest,
///     }
/// }
/// ```
///
/// What an admitted call carries can be read by anyone:
///
/// ```
/// # use clawhost::{gate::Admitted, registry::Resolved};
/// # use clawhost_core::policy::RuleRef;
/// fn read(admitted: &Admitted) -> (&Resolved, &str, std::time::Duration, &RuleRef) {
///     (admitted.resolved(), admitted.arguments(), admitted.timeout(), admitted.rule())
/// }
/// ```
#[derive(Debug)]
pub struct Admitted {
    pub(super) resolved: Resolved,
    pub(super) principal: String,
    pub(super) arguments: String,
    pub(super) timeout: Duration,
    pub(super) rule: RuleRef,
    pub(super) approved: Option<Allowed>,
    pub(super) detailed: bool,
    pub(super) trial: Option<Trial>,
    /// Its places among the calls of its minute, where they are counted, until it begins.
    pub(super) holds: Vec<RateHold>,
    pub(super) nest: Option<Nest>,
}

impl Admitted {
    /// Returns the tool, pinned to the component that was loaded when the call arrived.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns who calls.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns the checked arguments as JSON text, as the tool will read them.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Takes the arguments, which the tool is given.
    pub(crate) fn take_arguments(&mut self) -> String {
        std::mem::take(&mut self.arguments)
    }

    /// Returns the call's time: the least of tool, profile and caller.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Takes time away: the call ends after `share`, if that is less.
    pub fn shorten(&mut self, share: Duration) {
        self.timeout = self.timeout.min(share);
    }

    /// Counts it among the calls of its minute: it begins now.
    pub(crate) fn begin(&mut self) {
        std::mem::take(&mut self.holds).into_iter().for_each(RateHold::spend);
    }

    /// Lets the tool make calls of its own with `nest`.
    pub(crate) fn may_call(&mut self, nest: Nest) {
        self.nest = Some(nest);
    }

    /// Takes what the tool's own calls are made with.
    pub(crate) fn take_nest(&mut self) -> Option<Nest> {
        self.nest.take()
    }

    /// Takes the trial of a tool whose quarantine is over, if the call is that.
    pub fn take_trial(&mut self) -> Option<Trial> {
        self.trial.take()
    }

    /// Takes what was allowed, if anybody was asked.
    pub fn take_approval(&mut self) -> Option<Allowed> {
        self.approved.take()
    }

    /// Says whether the result belongs into the record: a policy, or the rule that allowed the
    /// call (`audit-only`), wants it there.
    pub fn is_detailed(&self) -> bool {
        self.detailed
    }

    /// Returns the policy rule that allowed it.
    pub fn rule(&self) -> &RuleRef {
        &self.rule
    }
}
