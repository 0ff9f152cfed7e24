//! Whether a guest ended as it has to.

use clawhost_core::catalog::Catalog;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::{Content, ToolReply};

use super::{Expected, Guest};

/// What a failed tool may say of how it failed, in bytes: the rest is for the record.
const FAILURE_BYTES_MAX: usize = 200;

/// Compares how a call ended with what was expected of it. Under a profile that is `stricter`
/// than the defaults a call may end at one of its limits instead.
///
/// # Errors
/// What is different.
pub fn judge(
    expected: &Expected,
    outcome: &Result<ToolReply, CallError>,
    stricter: bool,
) -> Result<(), String> {
    let is_as_expected = match (expected, outcome) {
        (Expected::Any, _) => true,
        (Expected::Answers, Ok(reply)) => !reply.is_error,
        (Expected::Denied, Ok(reply)) => reply.is_error,
        (Expected::Denied, Err(error)) => error.kind != ErrorKind::UnknownTool,
        (Expected::Fails(kind), Ok(reply)) => reply.error_kind == Some(kind.as_str()),
        (Expected::Exceeds(code, limit), Err(error)) => exceeds(error, *code, limit),
        _ => false,
    };
    let is_bounded = |error: &CallError| stricter && error.data.contains_key("limit");
    match outcome {
        Ok(reply) if is_as_expected => no_details(reply),
        Err(_) if is_as_expected => Ok(()),
        Err(error) if is_bounded(error) => Ok(()),
        _ => Err(format!("expected {expected:?}, got {outcome:?}")),
    }
}

/// Checks that `catalog` refuses `guest` for a reason that contains `reason`.
///
/// # Errors
/// It is served, or refused for another reason.
pub fn refusal(catalog: &Catalog, guest: &Guest, reason: &str) -> Result<(), String> {
    let file = guest.file_name();
    if catalog.tools().any(|tool| tool.origin.to_string().contains(&format!("`{file}`"))) {
        return Err("it is served".to_owned());
    }
    let own = |source: &str| source == file || source.contains(&format!("`{file}`"));
    let mut refused = catalog.refused.iter().filter(|refused| own(&refused.source));
    match refused.next() {
        Some(refused) if refused.reason.contains(reason) => Ok(()),
        other => Err(format!("expected a refusal because of `{reason}`, got {other:?}")),
    }
}

/// Bulk operations are charged by the byte, so that fuel and clock bind at about the same time:
/// such a guest expects `any` limit.
fn exceeds(error: &CallError, code: i32, limit: &str) -> bool {
    let named = error.data.get("limit").and_then(serde_json::Value::as_str);
    error.kind.code() == code && (limit == "any" || named == Some(limit))
}

/// A failed tool says that it failed; how is for the record only.
fn no_details(reply: &ToolReply) -> Result<(), String> {
    let is_crash = matches!(reply.error_kind, Some("trap" | "exit"));
    let says_much = reply.content.iter().any(|block| {
        matches!(block, Content::Text(text) if text.len() > FAILURE_BYTES_MAX || text.contains("wasm"))
    });
    match is_crash && says_much {
        true => Err(format!("too much detail: {:?}", reply.content)),
        false => Ok(()),
    }
}
