//! Calls that tools make: they come in here, and go the whole path.

use std::sync::{Arc, Weak};
use std::time::Instant;

use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::reply::ToolReply;
use clawhost_core::retry::RetryPlan;
use futures_util::future::BoxFuture;
use tokio::time::timeout_at;

use super::{Dispatch, Principal, ToolCall, Underway};
use crate::gate::{Admitted, CallContext, Child, Nest, Nesting, Reenter};
use crate::registry::{OwnTool, ToolCode};

impl Reenter for Dispatch {
    fn reenter(&self, child: Child) -> BoxFuture<'_, Result<ToolReply, CallError>> {
        let Child { principal, tool, arguments, timeout, context } = child;
        let call = ToolCall {
            timeout: Some(timeout),
            context,
            ..ToolCall::new(Principal(principal), tool, arguments)
        };
        Box::pin(self.call(call))
    }

    fn offered(&self, principal: &str, context: &CallContext) -> Vec<Arc<Tool>> {
        let terms = self.terms();
        let catalog = terms.shelf.catalog();
        let may = |tool: &&Arc<Tool>| {
            tool.origin != Origin::Own
                && terms.gate.offers(tool, principal)
                && context.has(&tool.ckp_name)
        };
        catalog.tools().filter(may).cloned().collect()
    }
}

impl Dispatch {
    /// Gives an admitted call what its tool's own calls are made with, where it may make any. Its clock starts now.
    pub(super) fn let_call(&self, admitted: &mut Admitted, call: &ToolCall, id: &str) {
        let resolved = admitted.resolved();
        let may_call = resolved.grants().agent.tool_calls > 0;
        let stands_for_others =
            matches!(resolved.code(), ToolCode::Composite(_) | ToolCode::Own(OwnTool::CallTool));
        if !may_call && !stands_for_others {
            return;
        }
        let path: Weak<dyn Reenter> = Weak::clone(&self.own) as Weak<dyn Reenter>;
        let ends_at = Instant::now() + admitted.timeout();
        let own = call.context.nested.as_deref();
        let nesting = Nesting::within(own, &admitted.resolved().tool().ckp_name, id, ends_at);
        admitted.may_call(Nest::new(path, &call.principal.0, &call.context, nesting));
    }

    /// Tries the call until it is done; a nested one no longer than its parent lives, whatever it waits for.
    pub(super) async fn in_time(
        &self,
        underway: &mut Underway<'_>,
    ) -> Result<ToolReply, CallError> {
        let Some(nested) = underway.call.context.nested.clone() else {
            return self.attempts(underway).await;
        };
        match timeout_at(nested.ends_at.into(), self.attempts(underway)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                // Where the tool had its own time, that would have ended first.
                underway.ran.iter_mut().for_each(|ran| ran.had_its_time = false);
                let text = "the time of the call that made this one is over";
                Err(CallError::new(ErrorKind::Timeout, text).with_limit(Limit::Timeout))
            }
        }
    }
}

/// Returns the tool's plan, with as many attempts as the parent says. One that is for a tool that may not be
/// tried again stays so.
pub(super) fn planned(call: &ToolCall, tool: &Tool) -> RetryPlan {
    let nested = call.context.nested.as_deref();
    match nested.and_then(|nested| nested.max_attempts) {
        Some(max_attempts) if tool.may_retry() => RetryPlan { max_attempts, ..tool.retry },
        Some(_) => RetryPlan::ONCE,
        None => tool.retry,
    }
}

/// Returns what the record says of where a call stands.
pub(super) fn within(nested: Option<&Arc<Nesting>>) -> Vec<(&'static str, &str)> {
    let names = nested.map(|nested| [("parent", &*nested.parent), ("root", &*nested.root)]);
    names.into_iter().flatten().collect()
}
