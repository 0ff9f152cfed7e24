//! Admission: the only way from an untrusted call to an [`Admitted`] one.
//!
//! Checks run in a fixed order, cheap and pure first, a person last: schema, screens, autonomy
//! and policy, sandbox, rates, approval; then what may have changed while the person thought is
//! looked at again. Nothing here performs the call: executors live in `exec` and cannot run
//! without an `Admitted`.
//!
//! Invariant: no code outside this module constructs `Admitted`.

mod admitted;
mod ask;
mod check;
mod context;
mod decide;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use clawhost_core::catalog::Tool;
use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::manifest::Manifest;
use clawhost_core::policy::PolicySet;
use clawhost_core::quota::CallRates;
use serde_json::Value;

pub use self::admitted::Admitted;
pub use self::context::{CallContext, Request};
use self::decide::Decision;
use crate::approvals::Approvals;
use crate::audit::CallSpan;
use crate::clock;
use crate::offload;
use crate::registry::Resolved;
use crate::secrets::Secrets;
use crate::upstream::provider::Providers;

/// Whether a tool can be called at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// By itself.
    Allowed,
    /// Where a person says so.
    Asks,
    /// Not at all.
    Refused,
}

/// The checks of one host.
#[derive(Debug)]
pub struct Gate {
    manifest: Arc<Manifest>,
    approvals: Approvals,
    providers: Providers,
    secrets: Secrets,
    rates: Mutex<CallRates>,
    arguments_bytes_max: usize,
}

impl Gate {
    /// Returns a gate that decides by `manifest`, asks through `approvals` without showing
    /// `secrets`, and knows from `providers` what has been spent.
    pub fn new(
        manifest: Arc<Manifest>,
        approvals: Approvals,
        providers: Providers,
        secrets: Secrets,
        arguments_bytes_max: usize,
    ) -> Self {
        let rates = Mutex::default();
        Self { manifest, approvals, providers, secrets, rates, arguments_bytes_max }
    }

    /// Returns the policies of the manifest.
    pub fn policies(&self) -> &PolicySet {
        &self.manifest.policies
    }

    /// Admits a call of `resolved`, or names the stage that refused it. What led to the decision
    /// is noted in `span`.
    ///
    /// # Errors
    /// -32602 where the arguments do not match, -32011 where autonomy, policy, a screen or a rate
    /// refuse, -32010 where the sandbox does, -32012 and -32013 where a person did not allow it.
    pub async fn admit(
        &self,
        resolved: Resolved,
        request: Request<'_>,
        span: &mut CallSpan,
    ) -> Result<Admitted, CallError> {
        let tool = Arc::clone(resolved.tool());
        let arguments = self.checked(&tool, request, span)?;
        let decision = self.decide(&tool, Some(&arguments), request.context)?;
        span.note("policy", decision.rule.policy.as_str());
        span.note("rule_id", decision.rule.id.as_str());
        let resolved = self.narrowed(resolved, request.context)?;
        check::sandbox(resolved.grants())?;
        let mut approved = None;
        if let Some(ask) = &decision.ask {
            self.rates_left(request.principal)?;
            let digest = self.ask(&tool, &arguments, ask, request, span).await?;
            approved = Some(digest);
            // Minutes may have passed: what was spent meanwhile counts.
            self.decide(&tool, Some(&arguments), request.context)?;
        }
        self.take_rate(request.principal)?;
        let own = resolved.grants().limits.timeout;
        let timeout = request.timeout.map_or(own, |asked| asked.min(own));
        let arguments = arguments.to_string();
        Ok(Admitted { resolved, arguments, timeout, rule: decision.rule, approved })
    }

    /// Says whether `principal` could call `tool` with some arguments: the decision that listing
    /// shares with calling.
    pub fn offers(&self, tool: &Tool, principal: &str) -> bool {
        match self.standing(tool) {
            Standing::Allowed => true,
            Standing::Asks => self.approvals.reach().reaches(principal),
            Standing::Refused => false,
        }
    }

    /// Says what would become of a call of `tool` with the best of arguments.
    pub fn standing(&self, tool: &Tool) -> Standing {
        let decided = self.decide(tool, None, &CallContext::default());
        match (decided, check::sandbox(&tool.grants)) {
            (Ok(Decision { ask: None, .. }), Ok(())) => Standing::Allowed,
            (Ok(Decision { ask: Some(_), .. }), Ok(())) => Standing::Asks,
            _ => Standing::Refused,
        }
    }

    /// Returns the arguments as the tool will get them: of the right shape, and screened.
    fn checked<'a>(
        &self,
        tool: &Tool,
        request: Request<'a>,
        span: &mut CallSpan,
    ) -> Result<Cow<'a, Value>, CallError> {
        let mut arguments = Cow::Borrowed(request.arguments);
        let bytes = arguments.to_string().len();
        check::size(bytes, self.arguments_bytes_max)?;
        check::schema(tool, &arguments)?;
        for policies in std::iter::once(self.policies()).chain(request.context.session_policies()) {
            let screened = offload::blocking(bytes > SCREENED_AT_ONCE_BYTES_MAX, || {
                policies.screens().input(&arguments)
            });
            span.note_findings(&screened.findings);
            if let Some(blocked) = screened.blocked {
                return Err(blocked);
            }
            if let Cow::Owned(redacted) = screened.value {
                // What is left has to be what the tool expects all the same.
                check::schema(tool, &redacted)?;
                arguments = Cow::Owned(redacted);
            }
        }
        Ok(arguments)
    }

    /// Returns the tool under the profile that the caller narrows it to.
    fn narrowed(&self, resolved: Resolved, context: &CallContext) -> Result<Resolved, CallError> {
        let Some(name) = context.sandbox.as_deref() else {
            return Ok(resolved);
        };
        if name == resolved.grants().profile {
            return Ok(resolved);
        }
        let refused = |reason: String| check::refused_sandbox(name, &reason);
        let profile = self.manifest.profile(name);
        let profile = profile.ok_or_else(|| refused("there is no such profile".to_owned()))?;
        resolved.within(&profile.grants(None)).map_err(refused)
    }

    /// Refuses where no call would be admitted now: a person is not asked in vain.
    fn rates_left(&self, principal: &str) -> Result<(), CallError> {
        // Counted in a copy, so that the question itself costs nothing.
        self.with_rates(|rates, limit, now_ms| rates.clone().take(principal, limit, now_ms))
    }

    fn take_rate(&self, principal: &str) -> Result<(), CallError> {
        self.with_rates(|rates, limit, now_ms| rates.take(principal, limit, now_ms))
    }

    fn with_rates(
        &self,
        take: impl FnOnce(&mut CallRates, u64, u64) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let Some(limit) = self.policies().rates().tool_calls_per_minute else {
            return Ok(());
        };
        let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
        take(&mut self.rates.lock().unwrap_or_else(PoisonError::into_inner), limit, now_ms)
    }
}
