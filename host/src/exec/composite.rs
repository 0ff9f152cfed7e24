//! Runs a composite: each step is a call like any other, made through the [`Nest`] of its parent.
//!
//! A composite holds no sandbox and no authority. Deliberately absent: whether it ends, which was looked at
//! when it was bound, and time, which ends every step with the composite.

use std::sync::atomic::{AtomicUsize, Ordering};

use clawhost_core::composite::{self, Composite, Step, Unmade};
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::json;
use clawhost_core::limits::COMPOSITE_VALUES_BYTES_MAX;
use clawhost_core::reply::{Content, ToolReply};
use futures_util::future::try_join_all;
use serde_json::Value;

use super::Desk;
use super::wasm::within_output;
use crate::gate::{Admitted, Nest};
use crate::progress::ProgressSink;
use crate::registry::Shelf;

/// What a result holds beside the outputs: a few words, and at most as many keys as there are steps.
const FRAME_BYTES: usize = 16_384;

/// How a step failed: its call, or the tool that ran.
type Failed = Result<ToolReply, CallError>;

/// Runs `admitted` step by step, and those beside each other that may be. `progress` is told of each that is
/// done: there are few.
///
/// # Errors
/// That of the first step that has one, with the step's name; -32010 where the whole is larger than the profile allows.
pub(super) async fn run(
    composite: &Composite,
    desk: Desk<'_>,
    mut admitted: Admitted,
    progress: Option<ProgressSink>,
) -> Result<ToolReply, CallError> {
    let Some(nest) = admitted.take_nest() else {
        return Err(CallError::new(ErrorKind::Internal, "the composite cannot make calls"));
    };
    // The gate has parsed them before.
    let input = json::parse(admitted.arguments().as_bytes()).unwrap_or_default();
    let (total, done) = (composite.steps.len(), AtomicUsize::new(0));
    let mut outputs = vec![None; total];
    let (mut sizes, mut bytes) = (vec![0; total], 0);
    let tell = |step: String| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.iter().for_each(|to| to(count(done), Some(count(total)), Some(step.clone())));
    };
    for wave in composite.waves(|step| reads_only(desk.shelf, step)) {
        let calls = wave.iter().filter_map(|index| Some((*index, composite.steps.get(*index)?)));
        let calls = calls.map(|(index, step)| call(&nest, (index, step), &input, &outputs, &tell));
        let answers = match try_join_all(calls).await {
            Ok(answers) => answers,
            Err(failed) => return *failed,
        };
        for (index, (answer, size)) in wave.into_iter().zip(answers) {
            bytes += size;
            if let (Some(output), Some(own)) = (outputs.get_mut(index), sizes.get_mut(index)) {
                (*output, *own) = (Some(answer), size);
            }
        }
        if bytes > COMPOSITE_VALUES_BYTES_MAX {
            let text = format!("its steps answer more than {COMPOSITE_VALUES_BYTES_MAX} bytes");
            let error = CallError::new(ErrorKind::Sandbox, text).with("stage", "run");
            return Err(error.with_limit(Limit::CompositeValuesBytes));
        }
    }
    let room = admitted.resolved().grants().limits.output_bytes;
    let room = usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(FRAME_BYTES);
    let result = composite.result(outputs.into_iter().flatten().zip(sizes).collect(), room);
    let reply = ToolReply { structured: Some(result), ..ToolReply::default() };
    let bytes = reply.bytes();
    within_output(reply, bytes, &admitted)
}

/// Returns a number of steps as progress is told.
fn count(steps: usize) -> f64 {
    f64::from(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Says whether a step's tool is declared to change nothing, by whom rules trust: only then its order is
/// of no matter.
fn reads_only(shelf: &Shelf, step: &Step) -> bool {
    let resolved = shelf.resolve(&step.tool);
    resolved.is_some_and(|of| of.tool().declares("readOnlyHint"))
}

async fn call(
    nest: &Nest,
    (index, step): (usize, &Step),
    input: &Value,
    outputs: &[Option<Value>],
    tell: &(impl Fn(String) + Sync),
) -> Result<(Value, usize), Box<Failed>> {
    let named = || format!("step {}, `{}`", index + 1, step.tool);
    let arguments = step.arguments.resolve(input, outputs).map_err(|unmade| {
        let text = format!("{}: {unmade}", named());
        Box::new(match unmade {
            Unmade::Missing(_) => Ok(ToolReply::error("missing-value", text)),
            Unmade::TooLarge => Err(CallError::new(ErrorKind::InvalidArguments, text)
                .with("stage", "schema")
                .with_limit(Limit::ToolOutputBytes)
                .with("step", index + 1)),
        })
    })?;
    let answer = nest.call(&step.tool, arguments, step.timeout, step.max_attempts).await;
    match answer {
        Ok(reply) if reply.is_error => Err(Box::new(Ok(failed(reply, &named())))),
        Ok(reply) => {
            let bytes = reply.bytes();
            tell(format!("{}, is done", named()));
            Ok((composite::output(reply), bytes))
        }
        Err(error) => Err(Box::new(Err(of_step(error, &named(), index)))),
    }
}

/// Returns the failure of a step's tool as that of the composite.
fn failed(reply: ToolReply, named: &str) -> ToolReply {
    let mut content = vec![Content::Text(format!("{named} failed"))];
    content.extend(reply.content);
    ToolReply { content, structured: None, ..reply }
}

/// Returns the error of a step's call as that of the composite.
fn of_step(error: CallError, named: &str, index: usize) -> CallError {
    let message = format!("{named}: {}", error.message);
    // Of the composite's own name nothing is unknown: it may not have the step, and will not later.
    let kind = match error.kind {
        ErrorKind::UnknownTool => ErrorKind::Policy,
        kind => kind,
    };
    let inner = CallError::new(kind, message);
    CallError { internal: error.internal, data: error.data, ..inner }.with("step", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_unknown_here_is_refused_and_not_too_much() {
        let unknown = CallError::new(ErrorKind::UnknownTool, "no").with("stage", "session");
        let error = of_step(unknown, "step 2, `b`", 1);
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Policy, -32011));
        assert_eq!(error.message, "step 2, `b`: no");
        assert_eq!(error.data["stage"], "session");
        assert_eq!(error.data["step"], 2);
    }
}
