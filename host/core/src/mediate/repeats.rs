//! Calls that a model makes again with the same arguments in one turn.
//!
//! What failed for a passing reason may be tried again; what was read before something was changed may be
//! read again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::envelope::refusal;
use super::offers::Offer;
use super::turn::Repeat;
use super::values::remove;
use crate::descriptor::CLAW_ID;
use crate::digest;
use crate::limits::{PROXY_REPEATS_MAX, PROXY_REPEATS_STREAK_MAX};

/// The calls of one turn that ran.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    ran: BTreeMap<String, Ran>,
    last: String,
    streak: u32,
    total: u32,
}

#[derive(Debug)]
struct Ran {
    round: u32,
    count: u32,
    read_only: bool,
    result: Value,
}

/// A call that ran before.
#[derive(Debug)]
pub(super) struct Found {
    /// What the model is told.
    pub(super) result: Value,
    /// The same for the trace.
    pub(super) trace: Value,
}

/// Returns what two calls have in common that are the same: numbers and the order of keys as JSON means them.
pub(super) fn signature(offer: &Offer, arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    // A service is told who calls, whatever the model says of that.
    if offer.is_enveloped {
        remove(&mut arguments, &[CLAW_ID]);
    }
    format!("{}\n{}", offer.tool, digest::canonical(&arguments))
}

impl Repeats {
    /// Returns what a call that ran before comes to now.
    pub(super) fn find(&mut self, tool: &str, signature: &str, repeat: Repeat) -> Option<Found> {
        let ran = self.ran.get_mut(signature);
        // One that runs again, as it failed in passing, is no loop.
        self.streak = if ran.is_some() && self.last == signature { self.streak + 1 } else { 1 };
        signature.clone_into(&mut self.last);
        let ran = ran?;
        ran.count += 1;
        self.total += 1;
        let details = json!({
            "tool": tool,
            "first_round": ran.round,
            "duplicate_count": ran.count,
            "duplicate_streak": self.streak,
            "policy": repeat.name(),
            "reuse_prior_call": true,
        });
        let result = match repeat {
            Repeat::Replay => ran.result.clone(),
            Repeat::Reject => {
                let message = "this call was made before in this turn; use the result it had";
                refusal("duplicate_tool_call", Some(409), message, Some(details))
            }
        };
        let trace = json!({
            "duplicate": true,
            "duplicate_of_round": ran.round,
            "duplicate_count": ran.count,
            "duplicate_streak": self.streak,
            "duplicate_policy": repeat.name(),
        });
        Some(Found { result, trace })
    }

    /// Takes note of a call that ran in `round`.
    pub(super) fn note(&mut self, signature: &str, offer: &Offer, round: u32, result: &Value) {
        if !offer.read_only {
            self.ran.retain(|_, ran| !ran.read_only);
        }
        if !is_passing(result) {
            let (read_only, result) = (offer.read_only, result.clone());
            self.ran.insert(signature.to_owned(), Ran { round, count: 0, read_only, result });
        }
    }

    /// Says whether there have been as many as one turn may have.
    pub(super) const fn are_used_up(&self) -> bool {
        self.total >= PROXY_REPEATS_MAX
    }

    /// Says whether the model gets nowhere.
    pub(super) const fn are_too_many(&self) -> bool {
        self.streak >= PROXY_REPEATS_STREAK_MAX || self.are_used_up()
    }
}

/// Says whether the same call may come to something else when it is made again.
fn is_passing(result: &Value) -> bool {
    let status = result.get("status_code").and_then(Value::as_u64).unwrap_or_default();
    let code = result.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
    status >= 500 || status == 429 || matches!(code, "timeout" | "canceled" | "request_failed")
}
