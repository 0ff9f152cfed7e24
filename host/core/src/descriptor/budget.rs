//! What an agent may ask for and spend: how pods state it, and how compiled files do.

use std::time::Duration;

use serde_json::{Value, json};

use crate::json::put;
use crate::limits::{BUDGET_PIECE_MS, BUDGET_WINDOW_MS_MAX};
use crate::manifest::node::Node;
use crate::manifest::problem::Problems;
use crate::manifest::shape::{DURATION, NUMBER, POSITIVE, Shape, opt};
use crate::quota::{Budget, NANO_USD_PER_USD, nano_usd};

const BEHAVIOR: Shape = Shape::OneOf(&["hard_stop", "rate_limit", "soft_alert"]);
/// The one that refuses nothing.
const SOFT: &str = "soft_alert";
/// A budget as pods write it.
pub(super) const POD_BUDGET: Shape = Shape::Record(&[
    opt("limit-usd", &NUMBER),
    opt("max-requests", &POSITIVE),
    opt("window", &DURATION),
    opt("behavior", &BEHAVIOR),
]);
/// The same as compiled files write it.
pub(super) const BUDGET: Shape = Shape::Record(&[
    opt("limit_usd", &NUMBER),
    opt("max_requests", &POSITIVE),
    opt("window", &DURATION),
    opt("behavior", &BEHAVIOR),
]);

/// Reads a budget, whose shape was checked.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<Budget> {
    let usd = node.real(&["limit-usd"]).or_else(|| node.real(&["limit_usd"]));
    let requests_max = node.number(&["max-requests"]).or_else(|| node.number(&["max_requests"]));
    let window_ms = node.duration(&["window"]).unwrap_or(Duration::ZERO).as_millis();
    let window_ms = u64::try_from(window_ms).unwrap_or(u64::MAX);
    let (problem, help) = if usd.is_none() && requests_max.is_none() {
        ("a budget without a limit", "add `limit-usd` or `max-requests`")
    } else if usd.is_some_and(|usd| usd <= 0.0) {
        ("a budget of no money", "write more than 0, or give the agent no provider")
    } else if !(BUDGET_PIECE_MS..=BUDGET_WINDOW_MS_MAX).contains(&window_ms) {
        ("the `window` of a budget is missing, or not between 1m and 31d", "write `window: 24h`")
    } else {
        let limit_nano_usd = usd.map(nano_usd);
        let is_soft = node.text(&["behavior"]) == Some(SOFT);
        return Some(Budget { limit_nano_usd, requests_max, window_ms, is_soft });
    };
    problems.invalid(&node.at, problem, help);
    None
}

/// Returns a budget as compiled files have it.
pub(super) fn write(budget: &Budget) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "it was written as such a number")]
    let usd = |nano_usd: u64| nano_usd as f64 / NANO_USD_PER_USD;
    let mut written = json!({
        "window": format!("{}s", budget.window_ms / 1_000),
        "behavior": if budget.is_soft { SOFT } else { "hard_stop" },
    });
    put(&mut written, "limit_usd", budget.limit_nano_usd.map(usd).map(Value::from));
    put(&mut written, "max_requests", budget.requests_max.map(Value::from));
    written
}
