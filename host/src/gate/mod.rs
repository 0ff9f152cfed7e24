//! Admission: the only way from an untrusted call to an [`Admitted`] one.
//!
//! Checks run in a fixed order, cheap and pure first. Nothing here performs the call:
//! executors live in `exec` and cannot run without an `Admitted`.
//!
//! Invariant: no code outside this module constructs `Admitted`.

mod context;

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::Shell;
use clawhost_core::manifest::Autonomy;
use clawhost_core::policy::{CallFacts, PolicySet, RuleRef, Verdict};
use serde_json::Value;

pub use self::context::CallContext;
use crate::offload;
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
///     Admitted { resolved, arguments: String::new(), timeout: std::time::Duration::MAX, rule }
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
    resolved: Resolved,
    arguments: String,
    timeout: Duration,
    rule: RuleRef,
}

impl Admitted {
    /// Returns the tool, pinned to the component that was loaded when the call arrived.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns the checked arguments as JSON text, as the tool will read them.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the call's time: the least of tool, profile and caller.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the policy rule that allowed it.
    pub fn rule(&self) -> &RuleRef {
        &self.rule
    }
}

/// The checks of one host: its policies and its identity's autonomy.
#[derive(Debug)]
pub struct Gate {
    policies: PolicySet,
    autonomy: Autonomy,
    arguments_bytes_max: usize,
}

impl Gate {
    /// Returns a gate that decides by `policies`, for an identity of `autonomy`.
    pub fn new(policies: PolicySet, autonomy: Autonomy, arguments_bytes_max: usize) -> Self {
        Self { policies, autonomy, arguments_bytes_max }
    }

    /// Admits a call of `resolved` with `arguments`, or names the stage that refused it.
    ///
    /// # Errors
    /// -32602 where the arguments do not match, -32011 where autonomy or policy refuse,
    /// -32010 where the sandbox does.
    pub fn admit(
        &self,
        resolved: Resolved,
        arguments: &Value,
        asked: Option<Duration>,
    ) -> Result<Admitted, CallError> {
        let tool = resolved.tool();
        let text = arguments.to_string();
        check_size(text.len(), self.arguments_bytes_max)?;
        check_arguments(tool, arguments)?;
        let rule = self.decide(tool)?;
        check_sandbox(tool)?;
        let timeout = asked.into_iter().chain([tool.timeout()]).min().unwrap_or_default();
        Ok(Admitted { arguments: text, timeout, rule, resolved })
    }

    /// Says whether a call of `tool` could pass policy and sandbox: the decision that listing
    /// shares with calling.
    pub fn offers(&self, tool: &Arc<Tool>) -> bool {
        self.decide(tool).is_ok() && check_sandbox(tool).is_ok()
    }

    fn decide(&self, tool: &Tool) -> Result<RuleRef, CallError> {
        if self.autonomy == Autonomy::Observer {
            return Err(refused("autonomy", "the identity is an observer: it runs no tool"));
        }
        match self.policies.decide(&facts(tool), tool.policy_ref.as_deref()) {
            Verdict::Allow { rule } | Verdict::AuditOnly { rule } => self.supervise(tool, rule),
            Verdict::Deny { rule, reason } => Err(ruled(refused("policy", &reason), rule.as_ref())),
            Verdict::Ask { rule, .. } => Err(ruled(
                refused(
                    "policy",
                    &format!("the rule {rule} asks for a person's approval, {NOBODY_TO_ASK}"),
                ),
                Some(&rule),
            )),
        }
    }

    /// A supervised identity asks a person before side effects; nobody can be asked yet.
    fn supervise(&self, tool: &Tool, rule: RuleRef) -> Result<RuleRef, CallError> {
        // Only the operator's own document counts: a component's hint relaxes nothing.
        let reads_only = tool.declared.get("readOnlyHint") == Some(&Value::Bool(true));
        if self.autonomy == Autonomy::Supervised && !reads_only {
            let reason = format!(
                "the identity is supervised and the tool may have side effects: a person has to approve, {NOBODY_TO_ASK}"
            );
            return Err(refused("autonomy", &reason));
        }
        Ok(rule)
    }
}

/// How every refusal ends that a person could have lifted.
const NOBODY_TO_ASK: &str = "which this version cannot collect yet; the call is refused";

fn facts(tool: &Tool) -> CallFacts<'_> {
    CallFacts {
        tool: &tool.ckp_name,
        category: tool.category.as_deref(),
        declared: &tool.declared,
        hints: &tool.definition.annotations,
    }
}

fn ruled(error: CallError, rule: Option<&RuleRef>) -> CallError {
    match rule {
        Some(rule) => error.with("policy", rule.policy.as_str()).with("rule_id", rule.id.as_str()),
        None => error,
    }
}

fn check_size(bytes: usize, bytes_max: usize) -> Result<(), CallError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let reason = format!("the arguments are {bytes} bytes; at most {bytes_max} are taken");
    Err(CallError::new(ErrorKind::InvalidArguments, reason)
        .with("stage", "schema")
        .with("limit", "arguments_bytes_max"))
}

fn check_arguments(tool: &Tool, arguments: &Value) -> Result<(), CallError> {
    for schema in &tool.input {
        offload::check(schema, arguments).map_err(|reason| {
            let text = format!("invalid arguments for `{}`: {reason}", tool.definition.name);
            CallError::new(ErrorKind::InvalidArguments, text).with("stage", "schema")
        })?;
    }
    Ok(())
}

fn check_sandbox(tool: &Tool) -> Result<(), CallError> {
    let profile = &tool.grants.profile;
    if tool.grants.shell == Shell::Restricted {
        let reason =
            format!("profile `{profile}`: `shell.mode: restricted` is not served by this version");
        return Err(CallError::new(ErrorKind::Sandbox, reason)
            .with("stage", "sandbox")
            .with("profile", profile.as_str()));
    }
    if tool.grants.limits.timeout.is_zero() {
        let reason = format!("profile `{profile}` gives its tools no time");
        return Err(CallError::new(ErrorKind::Sandbox, reason)
            .with("stage", "sandbox")
            .with("profile", profile.as_str()));
    }
    Ok(())
}

fn refused(stage: &str, reason: &str) -> CallError {
    CallError::new(ErrorKind::Policy, reason).with("stage", stage)
}
