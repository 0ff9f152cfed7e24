//! The checks that need no policy: size, schema, time, and whether the sandbox can be had.

use std::time::Duration;

use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::contract;
use clawhost_core::descriptor::Granted;
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::manifest::Manifest;
use clawhost_core::policy::check_addresses;
use clawhost_core::schema::Schema;
use serde_json::Value;

use super::CallContext;
use crate::offload;

pub(super) fn size(bytes: usize, bytes_max: usize) -> Result<(), CallError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let reason = format!("the arguments are {bytes} bytes; at most {bytes_max} are taken");
    Err(CallError::new(ErrorKind::InvalidArguments, reason)
        .with("stage", "schema")
        .with_limit(Limit::ArgumentsBytes))
}

/// Says whether the caller's session has the tool.
pub(super) fn listed(tool: &Tool, context: &CallContext) -> Result<(), CallError> {
    if context.has(&tool.ckp_name) {
        return Ok(());
    }
    let text = "the session's manifest does not list this tool";
    Err(CallError::new(ErrorKind::UnknownTool, text).with("stage", "session"))
}

/// Says whether a tool is one of the caller's: one that was compiled for some agents, where it is one of
/// these, and one that its skills allow, where it has any. What finds and calls others is everybody's.
pub(super) fn granted(manifest: &Manifest, tool: &Tool, principal: &str) -> Result<(), CallError> {
    let is_compiled = |granted: &Granted| granted.credential(principal).is_some();
    let reason = if !tool.managed.as_deref().is_none_or(is_compiled) {
        "the tool is not among those that were compiled for this agent"
    } else if tool.origin != Origin::Own && !manifest.skills.allow(principal, tool) {
        "the tool is not among those that the skills of this agent allow"
    } else {
        return Ok(());
    };
    Err(CallError::new(ErrorKind::Policy, reason).with("stage", "agent"))
}

/// Holds arguments against all schemas: the component's, the document's and the session's.
pub(super) fn schema(
    tool: &Tool,
    session: Option<&Schema>,
    arguments: &Value,
) -> Result<(), CallError> {
    for schema in tool.input.iter().map(AsRef::as_ref).chain(session) {
        offload::check(schema, arguments).map_err(|reason| {
            let text = format!("invalid arguments for `{}`: {reason}", tool.definition.name);
            CallError::new(ErrorKind::InvalidArguments, text).with("stage", "schema")
        })?;
    }
    Ok(())
}

/// Holds arguments against what the operator's definition of the tool wants of them.
pub(super) fn preconditions(tool: &Tool, arguments: &Value) -> Result<(), CallError> {
    let own = tool.governed.as_ref();
    let broken = own.and_then(|own| contract::broken(&own.contract.preconditions, arguments));
    let Some(condition) = broken else { return Ok(()) };
    let name = &tool.definition.name;
    let text =
        format!("invalid arguments for `{name}`: they do not meet the condition `{condition}`");
    Err(CallError::new(ErrorKind::InvalidArguments, text)
        .with("stage", "precondition")
        .with("condition", condition.to_string()))
}

/// Says whether a call can run at all in the time it has. One that has none is too late before it
/// begins, whoever says so: the tool's document, its profile or the session.
pub(super) fn time(tool: &Tool, timeout: Duration) -> Result<(), CallError> {
    if !timeout.is_zero() {
        return Ok(());
    }
    let text = format!("`{}` gets no time: its `timeout_ms` is 0", tool.definition.name);
    Err(CallError::new(ErrorKind::Timeout, text)
        .with("stage", "sandbox")
        .with_limit(Limit::Timeout))
}

/// Holds the addresses in arguments against the network policy of the tool's definition, before
/// anything is looked up.
pub(super) fn network(tool: &Tool, arguments: &Value) -> Result<(), CallError> {
    let own = tool.governed.as_ref().and_then(|own| own.network.as_ref());
    let Some(policy) = own else { return Ok(()) };
    check_addresses(arguments, &|url| policy.check(url)).map_err(|denied| {
        let name = &tool.definition.name;
        let text =
            format!("the network policy of `{name}` does not allow an address in the arguments");
        CallError::new(ErrorKind::Sandbox, text)
            .with("stage", "network")
            .with_internal(denied.internal())
    })
}

pub(super) fn refused_sandbox(profile: &str, reason: &str) -> CallError {
    CallError::new(ErrorKind::Sandbox, format!("profile `{profile}`: {reason}"))
        .with("stage", "sandbox")
        .with("profile", profile)
}
