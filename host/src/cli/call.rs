//! `clawhost call`: one call through the whole path.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind, exit};
use clawhost_core::limits::FLUSH_MS;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::visible;

use super::args::CallArgs;
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::{log, prompt, show, words};
use crate::host::ToolCall;

/// The name in records of a call made from the command line, where no agent is named.
const PRINCIPAL: &str = "cli";

pub(super) async fn run(args: CallArgs) -> Result<u8, Fail> {
    let setup =
        setup::open(std::slice::from_ref(&args.call.manifest), &args.call.places, Purpose::Call)
            .await?;
    setup::arrived(&setup.host, &args.call.tool).await;
    // Only now is it known whether a rule is for a tool that its server has under that name.
    super::run::check_definitions(&setup, &args.call.places)?;
    let catalog = setup.host.catalog();
    let tool = catalog.find(&args.call.tool).map(Arc::as_ref);
    let arguments = words::arguments(tool, &args.call.arguments)?;
    let principal = words::principal(&setup, &args.call, PRINCIPAL)?;
    let call = ToolCall {
        timeout: args.timeout_ms.map(Duration::from_millis),
        ..ToolCall::new(principal, &args.call.tool, arguments)
    };
    // An unknown tool is called all the same: the record shows that somebody tried.
    let outcome = unless_stopped(attended(&setup.host, call)).await;
    // Copies of the record and telemetry go out with the call, not with the next one.
    setup.host.flush(Duration::from_millis(FLUSH_MS)).await;
    let reply = outcome?.map_err(|error| match error.kind {
        ErrorKind::UnknownTool => words::unknown(&args.call.tool, &setup.host),
        _ => Fail::Call(with_hint(error)),
    })?;
    // What was logged on the way stands above the result.
    log::flush();
    if args.json {
        show::json(&crate::serve::result_json(reply.clone()));
    } else {
        print(&reply);
    }
    Ok(reply.exit_code())
}

/// Does what makes a call, unless the operator stops that first, as `run` is stopped: the call is recorded as cancelled
/// then, where an ended process would record nothing.
pub(super) async fn unless_stopped<T>(calls: impl Future<Output = T>) -> Result<T, Fail> {
    let stop = super::run::stop_signal();
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Fail::new(exit::TOOL_FAILED, "it was stopped before it ended")),
        outcome = calls => Ok(outcome),
    }
}

/// Makes the call; where a person sits at the terminal, they can be asked about it.
async fn attended(host: &crate::Host, call: ToolCall) -> Result<ToolReply, CallError> {
    if !prompt::is_attended() {
        return host.call(call).await;
    }
    let asking = prompt::answer_all(host.approvals());
    tokio::select! {
        biased;
        // Before the call: somebody can be asked from its start.
        () = asking => Err(CallError::new(ErrorKind::Internal, "the terminal went away")),
        outcome = host.call(call) => outcome,
    }
}

/// Says what to do where a person has to be asked and nobody sits here.
fn with_hint(mut error: CallError) -> CallError {
    let is_about_approval = error.data.get("stage").is_some_and(|stage| stage == "approval");
    if is_about_approval && error.kind == ErrorKind::Policy {
        error.message.push_str(
            "; call it from a terminal, or through a host that runs and `clawhost approvals`",
        );
    }
    error
}

fn print(reply: &ToolReply) {
    if reply.content.is_empty() {
        match &reply.structured {
            Some(value) => show::json(value),
            None => show::line("(no content)"),
        }
    }
    for block in &reply.content {
        match block {
            Content::Text(text) if reply.is_error => {
                eprint!("{}\n", visible::block(text))
            }
            Content::Text(text) => show::line(text),
            Content::Image { data, mime_type } | Content::Audio { data, mime_type } => {
                show::line(&format!("({mime_type}, {} bytes)", data.len()));
            }
            Content::Link(link) => show::json(&serde_json::Value::Object(link.clone())),
            Content::Resource { uri, .. } => {
                show::line(&format!("(resource {})", visible::line(uri)))
            }
        }
    }
}
