//! The attempts of one call: each walks the path from the look-up, and all share its time and the word of
//! the person who allowed it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::catalog::{Tool, ckp_name};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_core::retry::RetryPlan;
use clawhost_core::uri::{ClawUri, UriError};
use clawhost_core::visible;

use super::governed::promised;
use super::places::Place;
use super::{Dispatch, RECORDED_NAME_BYTES_MAX, Terms, ToolCall, Underway, nested};
use crate::gate::{Admitted, Allowed, Request};
use crate::random;
use crate::registry::Resolved;

/// The attempts of one call so far. Each is admitted anew, so that what changed meanwhile (a
/// rule, a quota, the component) binds it; a person is asked once about one tool and arguments.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: u32,
    plan: Option<RetryPlan>,
    ends_at: Option<Instant>,
    /// What was allowed, where somebody was asked.
    pub(super) approved: Option<Allowed>,
}

impl Attempts {
    /// Counts an attempt of a tool with this plan.
    pub(super) fn begin(&mut self, plan: RetryPlan) {
        self.made += 1;
        self.plan = Some(plan);
    }

    /// Takes back an attempt that was admitted, and came to nothing before it ran.
    pub(super) fn unbegin(&mut self) {
        self.made = self.made.saturating_sub(1);
    }

    /// Starts the clock that all attempts share, with the first one that is admitted.
    pub(super) fn start_clock(&mut self, timeout: Duration) {
        self.ends_at.get_or_insert_with(|| Instant::now() + timeout);
    }

    /// Returns the time an attempt may have: what the caller gives, or what is left of it.
    pub(super) fn time_left(&self, asked: Option<Duration>) -> Option<Duration> {
        let left = self.ends_at.map(|end| end.saturating_duration_since(Instant::now()));
        asked.into_iter().chain(left).min()
    }

    /// Returns how many attempts were begun.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// Returns the time that this attempt may run: of one whose timeout passes, an equal share of
    /// what is left for all that may follow, and otherwise all of it.
    pub(super) fn share(&self) -> Option<Duration> {
        let plan = self.plan.filter(|plan| plan.on.timeout)?;
        let left = u32::try_from(plan.max_attempts).unwrap_or(u32::MAX);
        let left = left.saturating_sub(self.made).saturating_add(1);
        Some(self.time_left(None)? / left)
    }

    /// Returns how long to wait before the next attempt; nothing where `error` is final, the
    /// attempts are used up, or the wait would reach the end of the call's time.
    pub(super) fn next_in(&self, error: &CallError, luck_permille: u64) -> Option<Duration> {
        let plan = self.plan.filter(|plan| plan.on.passes(error))?;
        let delay = Duration::from_millis(plan.delay_ms(self.made, luck_permille)?);
        (self.time_left(None)? > delay).then_some(delay)
    }
}

impl Underway<'_> {
    /// Returns how long to wait before the next attempt; nothing where `outcome` is final.
    fn next_in(&self, outcome: &Result<ToolReply, CallError>) -> Option<Duration> {
        // A trial is one attempt.
        if self.ran.as_ref().is_some_and(|ran| ran.trial.is_some()) {
            return None;
        }
        match outcome {
            Err(error) => self.attempts.next_in(error, random::permille()),
            // The caller is told in the tool's own words, and they are no error of the call.
            Ok(_) if self.broke_off => {
                let error = CallError::new(ErrorKind::Upstream, "an exchange broke off");
                self.attempts.next_in(&error, random::permille())
            }
            Ok(_) => None,
        }
    }
}

impl Dispatch {
    /// Tries the call as often as its tool's plan says.
    pub(super) async fn attempts(
        &self,
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        loop {
            let outcome = self.attempt(underway).await;
            let Some(wait) = underway.next_in(&outcome) else {
                let made = underway.attempts.made();
                // Whatever refused the last one, an earlier one may have run.
                let counted = |error: CallError| error.with("attempts", made);
                return if made > 1 { outcome.map_err(counted) } else { outcome };
            };
            tokio::time::sleep(wait).await;
            underway.watch.lap();
        }
    }

    async fn attempt(&self, underway: &mut Underway<'_>) -> Result<ToolReply, CallError> {
        let terms = self.terms();
        let found = found(&terms, underway);
        underway.lap("look-up", |timings| &mut timings.gate);
        let resolved = found?;
        let tool = Arc::clone(resolved.tool());
        let admitted = admit(&terms, resolved, &tool, underway).await;
        underway.lap("gate", |timings| &mut timings.gate);
        underway.span.waited.take().map(|waited| underway.told.stage("approval", waited));
        let mut admitted = admitted?;
        let Some(place) = self.placed(&terms, &mut admitted, underway).await? else {
            underway.attempts.unbegin();
            // What it holds is for the attempt that takes its place.
            drop(admitted);
            return Box::pin(self.attempt(underway)).await;
        };
        underway.begin(&terms, &tool, &mut admitted);
        let reply = self.run(admitted, (&terms, &tool), underway).await?;
        let mode = terms.gate.manifest().governance.postconditions;
        let reply = promised(mode, &tool, reply, &mut underway.span);
        let reply = self.filtered(&terms, &tool, reply, underway).await;
        underway.lap("filter", |timings| &mut timings.filter);
        // A long answer that is searched for secrets costs what a guest does, and is as much of a call that runs.
        drop(place);
        reply
    }

    /// Returns a place among the running calls; nothing where the call has to be admitted anew, which holds
    /// none, as a person may be asked. Waiting for one comes before the call's clock.
    async fn placed(
        &self,
        terms: &Arc<Terms>,
        admitted: &mut Admitted,
        underway: &mut Underway<'_>,
    ) -> Result<Option<Place<'_>>, CallError> {
        let (agent, nested) = (&underway.call.principal.0, &underway.call.context.nested);
        let entered = self.places.enter(agent, nested.as_deref()).await;
        underway.lap("place", |timings| &mut timings.wait);
        // Whom the queue turns away may come again, within the time of the call.
        let (place, waited) =
            entered.inspect_err(|_| underway.attempts.start_clock(admitted.timeout()))?;
        // Other documents may have come into service while somebody was asked, or the call waited: they
        // decide as well.
        let is_same = Arc::ptr_eq(terms, &self.parts.terms.load());
        let stays = is_same && (!waited || still(terms, admitted, underway).await?);
        Ok(stays.then_some(place))
    }
}

/// Says whether a call that waited for its turn is admitted as it was.
async fn still(
    terms: &Terms,
    admitted: &mut Admitted,
    underway: &mut Underway<'_>,
) -> Result<bool, CallError> {
    let tool = Arc::clone(admitted.resolved().tool());
    let Underway { call, span, attempts, .. } = underway;
    let stays = terms.gate.still_admits(admitted, request(call, attempts), span.call()).await;
    stays.map_err(|error| refused_tool(error, &tool))
}

/// Finds the tool that a call means, and notes which it is.
fn found(terms: &Terms, underway: &mut Underway<'_>) -> Result<Resolved, CallError> {
    let Underway { call, span, told, .. } = underway;
    call.context.refused.clone().map_or(Ok(()), Err)?;
    let resolved = terms.shelf.resolve(&call.tool).ok_or_else(|| absent(terms, call))?;
    let tool = resolved.tool();
    call.context.nested.as_ref().map_or(Ok(()), |nested| nested.check(&tool.ckp_name))?;
    span.note("digest", tool.digest.as_str());
    span.note("profile", tool.grants.profile.as_str());
    let read_only = tool.definition.annotations.read_only;
    read_only.into_iter().for_each(|hint| span.note("read_only", hint));
    let schemas = tool.input.iter().map(|schema| schema.digest());
    span.note("schema_digest", schemas.collect::<Vec<_>>());
    resolved.release().into_iter().for_each(|version| span.note("registry_version", version));
    told.tool = Some(Arc::clone(tool));
    Ok(resolved)
}

/// Asks the gate, for an attempt within what is left of the call's time.
async fn admit(
    terms: &Terms,
    resolved: Resolved,
    tool: &Tool,
    underway: &mut Underway<'_>,
) -> Result<Admitted, CallError> {
    let Underway { call, span, attempts, .. } = underway;
    let plan = nested::planned(call, tool);
    let session = call.context.narrowing(tool);
    attempts.begin(session.map_or(plan, |session| session.retry(plan)));
    let admitted = terms.gate.admit(resolved, request(call, attempts), span).await;
    let mut admitted = admitted.map_err(|error| refused_tool(error, tool))?;
    attempts.approved = admitted.take_approval();
    Ok(admitted)
}

/// Returns what the gate is asked for an attempt that begins now.
fn request<'a>(call: &'a ToolCall, attempts: &'a Attempts) -> Request<'a> {
    Request {
        principal: &call.principal.0,
        arguments: &call.arguments,
        timeout: attempts.time_left(call.timeout),
        approved: attempts.approved.as_ref(),
        context: &call.context,
    }
}

/// Says why a tool is not served: a known one was refused when it was loaded.
fn absent(terms: &Terms, call: &ToolCall) -> CallError {
    if let Err(UriError::Alias(right)) = ClawUri::parse(&call.tool) {
        return short_form(terms, &right.to_string());
    }
    let name = &terms.gate.sides().secrets.short(&call.tool, RECORDED_NAME_BYTES_MAX);
    let catalog = terms.shelf.catalog();
    let refused = catalog.refused_as(name).filter(|_| call.context.has(&ckp_name(name)));
    let error = match refused {
        None => CallError::new(ErrorKind::UnknownTool, format!("unknown tool {name:?}")),
        // Why may name folders of this machine: that is for the record.
        Some(refused) => {
            let (kind, text) = match refused.is_upstream {
                true => {
                    let text =
                        format!("the MCP server of {name:?} does not answer, or does not offer it");
                    (ErrorKind::Upstream, text)
                }
                false => (ErrorKind::Sandbox, format!("{name:?} was refused when it was loaded")),
            };
            CallError::new(kind, text).with("stage", "load").with_internal(refused.reason.as_str())
        }
    };
    error.with("tool", visible::line(name))
}

/// Says that a tool was called by an alias. It never travels (CKP 0.3.0, section 7), and so it is not sent
/// back either.
fn short_form(terms: &Terms, right: &str) -> CallError {
    let right = terms.gate.sides().secrets.short(right, RECORDED_NAME_BYTES_MAX);
    let text = format!("unknown tool: an address in its short form, write `{right}`");
    CallError::new(ErrorKind::UnknownTool, text).with("tool", right)
}

/// Says which tool policy refuses (CKP 0.3.0, section 9.4).
fn refused_tool(error: CallError, tool: &Tool) -> CallError {
    match error.kind {
        ErrorKind::Policy => error.with("tool", tool.ckp_name.as_str()).with("action", "deny"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> CallError {
        CallError::new(ErrorKind::Upstream, "no")
    }

    #[test]
    fn passing_failures_are_tried_again_as_often_as_the_plan_says() {
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        for _ in 0..4 {
            attempts.begin(RetryPlan::default());
            attempts.start_clock(Duration::from_secs(60));
            waits.push(attempts.next_in(&failing(), 0).map(|wait| wait.as_millis()));
        }
        assert_eq!(waits, [Some(1_000), Some(2_000), None, None]);
    }

    #[test]
    fn a_wait_that_would_reach_the_deadline_is_not_begun() {
        let mut attempts = Attempts::default();
        attempts.begin(RetryPlan::default());
        attempts.start_clock(Duration::from_millis(900));
        assert_eq!(attempts.next_in(&failing(), 0), None);
        assert!(
            attempts.time_left(Some(Duration::from_secs(9))) <= Some(Duration::from_millis(900))
        );
    }

    #[test]
    fn what_does_not_pass_is_final() {
        let mut attempts = Attempts::default();
        attempts.begin(RetryPlan::default());
        attempts.start_clock(Duration::from_secs(60));
        for kind in [ErrorKind::Policy, ErrorKind::Timeout, ErrorKind::ProviderQuota] {
            assert_eq!(attempts.next_in(&CallError::new(kind, "no"), 0), None);
        }
    }

    #[test]
    fn attempts_whose_timeout_passes_share_the_time_and_others_have_all_of_it() {
        use clawhost_core::retry::RetryOn;
        let mut attempts = Attempts::default();
        let on = RetryOn { timeout: true, ..RetryOn::default() };
        attempts.begin(RetryPlan { on, ..RetryPlan::default() });
        attempts.start_clock(Duration::from_secs(90));
        let first = attempts.share().unwrap();
        assert!(first <= Duration::from_secs(30) && first > Duration::from_secs(29), "{first:?}");
        attempts.begin(RetryPlan { on, ..RetryPlan::default() });
        assert!(attempts.share().unwrap() > Duration::from_secs(44));
        attempts.begin(RetryPlan::default());
        assert_eq!(attempts.share(), None);
    }
}
