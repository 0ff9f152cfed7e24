//! Questions and leases as a person reads them: whatever callers wrote is on one line, and drives no
//! terminal.
//!
//! Deliberately absent: where they come from; a running host and its socket say the same.

use clawhost_core::json;
use clawhost_core::lease::Covers;
use clawhost_core::visible;
use serde_json::Value;

use crate::approvals::Shown;

/// Returns a question that waits, as it is at `now_ms`.
pub(super) fn waiting(one: &Value, now_ms: i64) -> String {
    let arguments = serde_json::from_value::<Shown>(one.clone());
    let arguments: String = arguments
        .map(|shown| shown.lines().iter().map(|line| format!("    {line}\n")).collect())
        .unwrap_or_else(|_| "    (arguments that this version cannot show)\n".to_owned());
    format!(
        "{principal} calls {tool} with\n{arguments}  {why}\n  {left} s left; silence {silence} it",
        principal = text(one, "principal"),
        tool = text(one, "tool"),
        why = why(one),
        left = seconds_until(number(one, "expires_at_ms"), now_ms),
        silence = text(one, "silence"),
    )
}

/// The reason, and the rule where the reason does not name it.
fn why(one: &Value) -> String {
    let reason = text(one, "reason");
    let rule = format!("{}/{}", text(one, "policy"), text(one, "rule_id"));
    if rule == "/" || reason.contains(&rule) {
        return reason;
    }
    format!("{reason} (rule {rule})")
}

/// Returns a lease, as it is at `now_ms`.
pub(super) fn lease(one: &Value, now_ms: i64) -> String {
    let ends = match one.get("ends_at_ms").and_then(Value::as_i64) {
        Some(ends) => format!("for {} s more", seconds_until(ends, now_ms)),
        None => "as long as its host runs".to_owned(),
    };
    let covers = one.get("covers").cloned().unwrap_or_default();
    let covers = serde_json::from_value::<Covers>(covers).map(|covers| covers.to_string());
    format!(
        "{id}\n  {principal} may call {tool} {ends}, with {covers}\n  given by {by}",
        id = text(one, "id"),
        principal = text(one, "principal"),
        tool = text(one, "tool"),
        covers = visible::line(&covers.unwrap_or_else(|_| "?".to_owned())),
        by = text(one, "granted_by"),
    )
}

fn seconds_until(end_ms: i64, now_ms: i64) -> i64 {
    end_ms.saturating_sub(now_ms).max(0) / 1_000
}

/// Returns the text under `key`, fit to show.
pub(super) fn text(one: &Value, key: &str) -> String {
    visible::line(json::text(one, key))
}

fn number(one: &Value, key: &str) -> i64 {
    one.get(key).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_says_what_is_asked_why_and_for_how_long() {
        let mut one = json!({
            "principal": "a\u{1b}", "tool": "write-file", "policy": "p", "rule_id": "r",
            "reason": "the rule p/r asks for approval", "expires_at_ms": 61_500, "silence": "denies",
            "arguments": {"path": "a"}, "arguments_cut": {}, "arguments_hidden": 0,
        });
        let expected = "a\\u{1b} calls write-file with\n    path: \"a\"\n  \
             the rule p/r asks for approval\n  60 s left; silence denies it";
        assert_eq!(waiting(&one, 1_500), expected);
        one["reason"] = json!("ask first");
        assert!(waiting(&one, 1_500).contains("\n  ask first (rule p/r)\n"));
        one["policy"] = Value::Null;
        one["rule_id"] = Value::Null;
        assert!(waiting(&one, 1_500).contains("\n  ask first\n"));
    }

    #[test]
    fn a_lease_is_shown_as_it_is_written() {
        let one = json!({"id": "i", "principal": "a", "tool": "t", "granted_by": "the operator",
                         "ends_at_ms": 5_000, "covers": {"matching": {"path": "a*"}}});
        let expected = "i\n  a may call t for 4 s more, with path=a*\n  given by the operator";
        assert_eq!(lease(&one, 1_000), expected);
    }
}
