//! Admission: the only way from an untrusted call to an [`Admitted`] one.
//!
//! Checks run in a fixed order, cheap and pure first, a person last: quarantine, schema, screens,
//! autonomy and policy, sandbox, network policy, preconditions, rates, approval; then what may have
//! changed while the person thought is looked at again. Preconditions come after policy, so that whoever
//! may not call a tool learns nothing of what it wants. Nothing here performs the call: executors
//! live in `exec` and cannot run without an `Admitted`.
//!
//! Invariant: no code outside this module constructs `Admitted`.

mod admitted;
mod ask;
mod check;
mod context;
mod decide;
mod nest;
mod rates;
mod session;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::Grants;
use clawhost_core::limits::{SCREENED_AT_ONCE_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use clawhost_core::manifest::{Manifest, Profile};
use clawhost_core::policy::{AuditTerms, Explanation, PolicySet};
use clawhost_core::quota::CallRates;
use clawhost_core::repair::RepairLoops;
use clawhost_core::reply::json_bytes;
use clawhost_core::screen::Finding;
use parking_lot::Mutex;
use serde_json::Value;

pub use self::admitted::Admitted;
pub use self::ask::Allowed;
pub use self::context::{CallContext, Request};
pub use self::decide::Ask;
use self::decide::Decision;
pub use self::nest::{Child, Nest, Nesting, Reenter};
use self::rates::{RateHold, ToolRates};
pub use self::session::SessionTerms;
use crate::approvals::Approvals;
use crate::audit::CallSpan;
use crate::clock;
use crate::offload;
use crate::quarantine::{Quarantine, Trial};
use crate::registry::Resolved;
use crate::sandbox::fs::{FolderBounds, Outlook};
use crate::sandbox::look_up;
use crate::secrets::Secrets;
use crate::switches::Switches;
use crate::upstream::provider::Providers;

/// Where the paths of a manifest's profiles lead, for calls of other tools that they narrow.
fn places(manifest: &Manifest) -> BTreeMap<String, Result<FolderBounds, String>> {
    let places =
        |(name, profile): (&String, &Profile)| (name.clone(), look_up(&profile.grants(None)));
    manifest.profiles.iter().map(places).collect()
}

/// Whether a tool can be called at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// By itself.
    Allowed,
    /// Where a person says so.
    Asks,
    /// Not until the operator switches it on again.
    Disabled,
    /// Not at all.
    Refused,
}

clawhost_core::table! {
    /// Says it in a word.
    pub Standing::name: &'static str {
        Allowed: "allowed", Asks: "asks", Disabled: "disabled", Refused: "refused",
    }
}

/// What would become of a call.
#[derive(Debug)]
pub struct Rehearsal {
    /// Which rules were tried, and which decided.
    pub explanation: Explanation,
    /// What screens found in the arguments.
    pub findings: Vec<Finding>,
    /// What the call could touch: the tool's own grants where it is refused.
    pub grants: Grants,
    /// Its paths, as rules name them.
    pub paths: Vec<String>,
    /// What they would meet in the sandbox; nothing where the tool sees no folder through one.
    pub outlooks: Vec<Outlook>,
    /// How a person would be asked, if anybody; else the refusal that the caller would read.
    pub ask: Result<Option<Ask>, CallError>,
}

/// What a profile grants that narrows a call, and where its paths lead.
type Narrowing<'a> = (Option<&'a Result<FolderBounds, String>>, Grants);

/// A call that may run, but for what a person says.
struct Prepared<'a> {
    /// Absent where there are no arguments yet.
    checked: Option<Checked<'a>>,
    decision: Decision,
    /// The tool under what is granted of it, where that is less than its own.
    narrowed: Option<Resolved>,
    /// The least of what tool, profiles and session give it.
    timeout: Duration,
}

/// Arguments that the tool may have, and the JSON text of them.
struct Checked<'a> {
    arguments: &'a Value,
    text: String,
}

impl<'a> Checked<'a> {
    fn of(arguments: &'a Value) -> Self {
        Self { text: arguments.to_string(), arguments }
    }
}

/// The checks of one host.
#[derive(Debug)]
pub struct Gate {
    manifest: Arc<Manifest>,
    /// Where the paths of the manifest's profiles lead, for calls of other tools that they narrow.
    places: BTreeMap<String, Result<FolderBounds, String>>,
    sides: Sides,
    rates: Arc<Mutex<CallRates>>,
    tool_rates: Arc<ToolRates>,
    repairs: Arc<Mutex<RepairLoops>>,
}

/// What a gate asks beside its manifest.
#[derive(Debug, Clone)]
pub struct Sides {
    /// Where a person is asked.
    pub approvals: Approvals,
    /// Know what has been spent.
    pub providers: Providers,
    /// Knows which tools rest.
    pub quarantine: Quarantine,
    /// Are not shown to whoever is asked.
    pub secrets: Secrets,
    /// What the operator has switched off.
    pub switches: Switches,
    /// The largest arguments, in bytes of JSON.
    pub arguments_bytes_max: usize,
}

impl Gate {
    /// Returns a gate that decides by `manifest`.
    pub fn new(manifest: Arc<Manifest>, sides: Sides) -> Self {
        let (rates, tool_rates, repairs) = (Arc::default(), Arc::default(), Arc::default());
        Self { places: places(&manifest), manifest, sides, rates, tool_rates, repairs }
    }

    /// Returns a gate that decides by `manifest` and counts on.
    #[must_use]
    pub fn under(&self, manifest: Arc<Manifest>) -> Self {
        let (rates, repairs) = (Arc::clone(&self.rates), Arc::clone(&self.repairs));
        let (places, sides) = (places(&manifest), self.sides.clone());
        let tool_rates = Arc::clone(&self.tool_rates);
        Self { manifest, places, sides, rates, tool_rates, repairs }
    }

    /// Returns the operator's switches.
    pub fn switches(&self) -> &Switches {
        &self.sides.switches
    }

    /// Returns what it asks beside its manifest.
    pub(crate) const fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Returns what knows which tools rest.
    pub fn quarantine(&self) -> &Quarantine {
        &self.sides.quarantine
    }

    /// Says whether `tool` is in quarantine for `principal` just now.
    pub fn rests(&self, tool: &Tool, principal: &str) -> bool {
        let immune = &self.manifest.governance.immune;
        self.sides.quarantine.rests(&tool.ckp_name, principal, immune)
    }

    /// Returns the manifest that it decides by.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Returns the policies of the manifest.
    pub fn policies(&self) -> &PolicySet {
        &self.manifest.policies
    }

    /// Admits a call of `resolved`, or names the stage that refused it. What led to the decision
    /// is noted in `span`.
    ///
    /// # Errors
    /// -32602 where the arguments do not match, -32011 where the tool rests, or autonomy, policy, a
    /// screen or a rate refuse, -32010 where the sandbox does, -32014 where it has no time, -32012 and
    /// -32013 where a person did not allow it.
    pub async fn admit(
        &self,
        resolved: Resolved,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<Admitted, CallError> {
        let tool = resolved.tool();
        let own = tool.governed.as_ref();
        let Some(attempts_max) = own.and_then(|own| own.repair_attempts_max) else {
            return self.admit_once(resolved, request, span).await;
        };
        let name = tool.ckp_name.clone();
        let outcome = self.admit_once(resolved, request, span).await;
        let whose = (request.principal, name.as_str());
        self.repairs.lock().judge(whose, outcome, attempts_max, clock::now_ms())
    }

    async fn admit_once(
        &self,
        resolved: Resolved,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<Admitted, CallError> {
        let tool = resolved.tool();
        let Request { principal, context, .. } = request;
        let mut trial = self.enter(tool, request)?;
        let see = &mut |found: &[Finding]| span.note_findings(found);
        let prepared = self.prepare(&resolved, Some(request.arguments), context, see);
        let prepared = prepared.map_err(|error| self.veiled(error, tool, request))?;
        let Prepared { checked, decision, narrowed, timeout } = prepared;
        self.note(&decision, request, span);
        // Before a person is asked: whoever is asked about a call is asked about one that can begin.
        let holds = self.hold_rates(tool, principal, context)?;
        let approved = match &decision.ask {
            // On the heap: few calls ask, and all would carry the room for it.
            Some(ask) => Some(Box::pin(self.ask(tool, ask, request, &mut trial, span)).await?),
            None => None,
        };
        Ok(Admitted {
            resolved: narrowed.unwrap_or(resolved),
            principal: principal.to_owned(),
            arguments: checked.unwrap_or_else(|| Checked::of(request.arguments)).text,
            timeout: request.timeout.map_or(timeout, |asked| asked.min(timeout)),
            detailed: decision.detailed || self.logs(context, |terms| terms.log_outputs),
            rule: decision.rule,
            approved,
            trial,
            holds,
            nest: None,
        })
    }

    /// Notes which rule decided, and the arguments where they are wanted.
    fn note(&self, decision: &Decision, request: Request<'_>, span: &mut CallSpan) {
        span.note_rule(&decision.rule.policy, &decision.rule.id);
        if decision.detailed || self.logs(request.context, |terms| terms.log_inputs) {
            span.note_inputs(&self.shown(request.arguments, request.context));
        }
    }

    /// Looks again at an admitted call that waited for its turn: the tool may have begun to rest, what was
    /// spent meanwhile counts, and so does a lease that has ended. Says whether it is admitted as it was; a
    /// person may have to be asked now. `call` is what the record calls it.
    ///
    /// # Errors
    /// As [`Gate::admit`].
    pub async fn still_admits(
        &self,
        admitted: &mut Admitted,
        request: Request<'_>,
        call: &str,
    ) -> Result<bool, CallError> {
        let tool = Arc::clone(admitted.resolved.tool());
        let decision = self.decide_again(&tool, request, &mut admitted.trial)?;
        match &decision.ask {
            // On the heap, as asking is.
            Some(ask) => Ok(Box::pin(self.still_allowed(&tool, ask, request, call)).await),
            None => Ok(true),
        }
    }

    /// Decides about a call that waited since that was done: what was spent meanwhile counts, and its tool may
    /// have begun to rest.
    fn decide_again(
        &self,
        tool: &Tool,
        request: Request<'_>,
        trial: &mut Option<Trial>,
    ) -> Result<Decision, CallError> {
        let decision = self.decide(tool, Some(request.arguments), request.context)?;
        if trial.is_none() {
            *trial = self.enter(tool, request)?;
        }
        Ok(decision)
    }

    /// Refuses what the caller cannot call at all, or what rests.
    fn enter(&self, tool: &Tool, request: Request<'_>) -> Result<Option<Trial>, CallError> {
        check::listed(tool, request.context)?;
        check::granted(&self.manifest, tool, request.principal)?;
        let immune = &self.manifest.governance.immune;
        self.sides.quarantine.enter(&tool.ckp_name, request.principal, immune)
    }

    /// What is wrong with the arguments is nothing for a caller who is not offered the tool: it reads
    /// that instead, as of any arguments.
    fn veiled(&self, error: CallError, tool: &Tool, request: Request<'_>) -> CallError {
        if error.kind != ErrorKind::InvalidArguments {
            return error;
        }
        match self.decide(tool, None, request.context) {
            Err(refused) => refused,
            Ok(Decision { ask: Some(ask), .. })
                if !self.sides.approvals.may_allow(request.principal, ask.terms) =>
            {
                let text = format!("{}, and nobody can be asked here", ask.reason);
                CallError::new(ErrorKind::Policy, text).with("stage", "approval")
            }
            Ok(_) => error,
        }
    }

    /// Says whether the call `by`, which stands for the call `meant`, may be taken for that: nobody is asked
    /// about it, or the other is refused or asked about by the same rule anyway.
    pub(crate) fn stands_for(
        &self,
        by: (Resolved, &Value),
        meant: Option<(Resolved, &Value)>,
        context: &CallContext,
    ) -> bool {
        let ask = |(resolved, arguments): (Resolved, _)| {
            let prepared = self.prepare(&resolved, Some(arguments), context, &mut |_| ());
            prepared.map(|prepared| prepared.decision.ask)
        };
        match ask(by) {
            Ok(None) => true,
            Ok(Some(first)) => match meant.map(ask) {
                None | Some(Err(_)) => true,
                Some(Ok(second)) => second.is_some_and(|second| first.is_put_by(&second)),
            },
            Err(_) => false,
        }
    }

    /// Says what would become of a call with `arguments`, or with the best of arguments where
    /// there are none: all that [`Gate::admit`] decides before a person is asked. Without an `agent` it is
    /// one that has the tool.
    pub fn rehearse(
        &self,
        resolved: &Resolved,
        arguments: Option<&Value>,
        agent: Option<&str>,
        context: &CallContext,
    ) -> Rehearsal {
        let explanation = self.explanation(resolved.tool(), arguments, context);
        let mut findings = Vec::new();
        let mut see = |found: &[Finding]| findings.extend_from_slice(found);
        let has = |agent| check::granted(&self.manifest, resolved.tool(), agent);
        let has = agent.map_or(Ok(()), has);
        let prepared = has.and_then(|()| self.prepare(resolved, arguments, context, &mut see));
        let narrowed = prepared.as_ref().ok().and_then(|prepared| prepared.narrowed.as_ref());
        let under = narrowed.unwrap_or(resolved);
        let grants = under.grants().clone();
        let paths = arguments.map(|it| resolved.tool().paths.of_call(it)).unwrap_or_default();
        let seen = paths.iter().filter(|_| resolved.sees_folders());
        let outlooks = seen.map(|path| under.sandbox().foretell(path)).collect();
        let ask = prepared.map(|prepared| prepared.decision.ask);
        Rehearsal { explanation, findings, grants, paths, outlooks, ask }
    }

    /// Everything that is decided before a person is asked, in its order. What screens find goes
    /// to `see`.
    fn prepare<'a>(
        &self,
        resolved: &Resolved,
        arguments: Option<&'a Value>,
        context: &CallContext,
        see: &mut dyn FnMut(&[Finding]),
    ) -> Result<Prepared<'a>, CallError> {
        let tool = resolved.tool();
        check::listed(tool, context)?;
        let checked = arguments.map(|given| self.checked(tool, given, context, see));
        let checked = checked.transpose()?;
        let arguments = checked.as_ref().map(|checked| checked.arguments);
        let decision = self.decide(tool, arguments, context)?;
        let narrowed = self.narrowed(resolved, context)?;
        let session = context.narrowing(tool).and_then(|session| session.timeout);
        let own = narrowed.as_ref().unwrap_or(resolved).grants().limits.timeout;
        let timeout = session.map_or(own, |session| session.min(own));
        check::time(tool, timeout)?;
        if let Some(arguments) = arguments {
            check::network(tool, arguments)?;
            check::preconditions(tool, arguments)?;
        }
        Ok(Prepared { checked, decision, narrowed, timeout })
    }

    /// Says whether `principal` could call `tool` with some arguments: the decision that listing
    /// shares with calling.
    pub fn offers(&self, tool: &Tool, principal: &str) -> bool {
        if check::granted(&self.manifest, tool, principal).is_err() {
            return false;
        }
        let ask = self.best(tool).map(|decision| decision.ask);
        ask.is_ok_and(|ask| {
            ask.is_none_or(|ask| self.sides.approvals.may_allow(principal, ask.terms))
        })
    }

    /// Says what would become of a call of `tool` with the best of arguments.
    pub fn standing(&self, tool: &Tool) -> Standing {
        match self.best(tool) {
            Ok(Decision { ask: None, .. }) => Standing::Allowed,
            Ok(Decision { ask: Some(_), .. }) => Standing::Asks,
            Err(CallError { kind: ErrorKind::Disabled, .. }) => Standing::Disabled,
            Err(_) => Standing::Refused,
        }
    }

    /// Decides about a call of `tool` with the best of arguments.
    fn best(&self, tool: &Tool) -> Result<Decision, CallError> {
        let decision = self.decide(tool, None, &CallContext::default())?;
        check::time(tool, tool.timeout())?;
        Ok(decision)
    }

    /// Returns the arguments, which are of the right shape and nothing forbids.
    fn checked<'a>(
        &self,
        tool: &Tool,
        given: &'a Value,
        context: &CallContext,
        see: &mut dyn FnMut(&[Finding]),
    ) -> Result<Checked<'a>, CallError> {
        let checked = Checked::of(given);
        // What one step answers, the next one takes whole.
        let most = context.nested.as_ref().map_or(0, |_| TOOL_OUTPUT_BYTES_MAX);
        check::size(checked.text.len(), self.sides.arguments_bytes_max.max(most))?;
        let session = context.narrowing(tool).and_then(|session| session.input.as_ref());
        check::schema(tool, session, given)?;
        self.screened(given, checked.text.len(), context, see)?;
        // What its client answers to a question of the tool's is as much of the caller's.
        if let Some(brought) = context.dialogue.as_ref().and_then(|it| it.responses.as_ref()) {
            self.screened(brought, json_bytes(brought), context, see)?;
        }
        Ok(checked)
    }

    /// Has what a caller sends, of so many bytes, searched by all policies.
    fn screened(
        &self,
        sent: &Value,
        bytes: usize,
        context: &CallContext,
        see: &mut dyn FnMut(&[Finding]),
    ) -> Result<(), CallError> {
        for policies in self.lists(context) {
            let is_long = bytes > SCREENED_AT_ONCE_BYTES_MAX;
            let screened = offload::blocking(is_long, || policies.screens().input(sent));
            see(&screened.findings);
            if let Some(blocked) = screened.blocked {
                return Err(blocked);
            }
        }
        Ok(())
    }

    /// Returns arguments or a result as a record may have them.
    pub fn shown<'a>(&self, value: &'a Value, context: &CallContext) -> Cow<'a, Value> {
        let tokens = self.sides.secrets.tokens();
        let is_long = json_bytes(value) > SCREENED_AT_ONCE_BYTES_MAX;
        offload::blocking(is_long, || {
            self.lists(context).fold(Cow::Borrowed(value), |value, policies| {
                match policies.screens().recorded(&value, tokens) {
                    Cow::Owned(masked) => Cow::Owned(masked),
                    Cow::Borrowed(_) => value,
                }
            })
        })
    }

    /// Returns the tool under what the caller's session grants it, and the profile it names; nothing where neither
    /// says anything of it.
    fn narrowed(
        &self,
        resolved: &Resolved,
        context: &CallContext,
    ) -> Result<Option<Resolved>, CallError> {
        let tool = resolved.tool();
        let session = context.session.as_deref();
        let mut also = Vec::new();
        if let Some(grants) = context.narrowing(tool).and_then(|own| own.grants.clone()) {
            let own = session.and_then(|session| session.places(&grants.profile));
            also.push((own.or_else(|| self.places.get(&grants.profile)), grants));
        }
        if let Some(name) = &context.sandbox {
            // What runs elsewhere is under no profile, so that even its own narrows it.
            let anyway = Some(tool.grants.profile.as_str()).filter(|_| !resolved.is_elsewhere());
            also.extend(self.named(name, anyway, session)?);
        }
        also.into_iter().try_fold(None, |narrowed: Option<Resolved>, (places, also)| {
            let resolved = narrowed.unwrap_or_else(|| resolved.clone());
            let unknown = || Err("its paths were not looked up".to_owned());
            let places = places.map_or_else(unknown, |found| found.as_ref().map_err(Clone::clone));
            let narrowed = places.and_then(|places| resolved.within(&also, places));
            narrowed.map(Some).map_err(|reason| check::refused_sandbox(&also.profile, &reason))
        })
    }

    /// Returns what the profiles of that name grant, the host's and the session's, but for the
    /// one that the tool has `anyway`, and where their paths lead.
    fn named<'a>(
        &'a self,
        name: &str,
        anyway: Option<&str>,
        session: Option<&'a SessionTerms>,
    ) -> Result<impl Iterator<Item = Narrowing<'a>>, CallError> {
        let theirs =
            session.and_then(|session| Some((session.places(name), session.sandbox.as_ref()?)));
        let theirs = theirs.filter(|(_, profile)| profile.name == name);
        let own = self.manifest.profile(name).map(|profile| (self.places.get(name), profile));
        if own.or(theirs).is_none() {
            return Err(check::refused_sandbox(name, "there is no such profile"));
        }
        let own = own.filter(|(_, profile)| Some(profile.name.as_str()) != anyway);
        let both = own.into_iter().chain(theirs);
        Ok(both.map(|(places, profile)| (places, profile.grants(None))))
    }

    /// Returns the lists of policies that a call has to pass: the manifest's and its session's.
    pub(crate) fn lists<'a>(
        &'a self,
        context: &'a CallContext,
    ) -> impl Iterator<Item = &'a PolicySet> {
        std::iter::once(self.policies()).chain(context.session_policies())
    }

    /// Says whether any list wants more in the record.
    fn logs(&self, context: &CallContext, wants: impl Fn(&AuditTerms) -> bool) -> bool {
        self.lists(context).any(|policies| wants(policies.audit()))
    }

    /// Takes a place among the caller's calls of this minute, and among those of the tool; none where they are
    /// not counted.
    fn hold_rates(
        &self,
        tool: &Tool,
        principal: &str,
        context: &CallContext,
    ) -> Result<Vec<RateHold>, CallError> {
        let limits = self.lists(context).filter_map(|list| list.rates().tool_calls_per_minute);
        let mut holds = Vec::new();
        if let Some(least) = limits.min() {
            holds.push(RateHold::take(&self.rates, principal, least)?);
        }
        if let Some(limit) = tool.governed.as_ref().and_then(|own| own.calls_per_minute) {
            holds.push(RateHold::take(&self.tool_rates.of(&tool.ckp_name), principal, limit)?);
        }
        Ok(holds)
    }
}
