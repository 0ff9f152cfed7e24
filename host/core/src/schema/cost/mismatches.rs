//! What listing the mismatches of a value takes: a validator makes all of them before it hands out
//! any, each with copies of its own.

use serde_json::Value;

use super::Cost;
use crate::limits::{SCHEMA_EVALUATIONS_MAX, SCHEMA_MISMATCHES_BYTES_MAX};

/// One mismatch, as a validator keeps it: beside it lies the place where it is.
const MISMATCH_BYTES: u64 = 512;
/// Keywords whose values a mismatch holds a copy of.
const COPIED: [&str; 5] = ["const", "enum", "not", "pattern", "required"];
/// A value without what it holds.
const NODE_BYTES: u64 = 64;

impl Cost {
    /// Says whether all mismatches of `value` can be listed. A validator makes every one before
    /// the first can be read, each with its place and what it did not match, and it looks once
    /// more below an alternative at every level that has one, and copies the value for that.
    pub(in crate::schema) fn can_list(self, value: &Value) -> bool {
        let (levels, place_bytes) = deepest(value);
        let visits = self.bound(value).saturating_mul(self.depth).saturating_mul(levels);
        let each_bytes = MISMATCH_BYTES + place_bytes + self.copied_bytes;
        visits <= SCHEMA_EVALUATIONS_MAX
            && self.mismatched(value, 1, each_bytes).1 <= SCHEMA_MISMATCHES_BYTES_MAX
    }

    /// Returns what `value` takes in memory, about, and a bound on what all its mismatches take, of which each has so
    /// many bytes: below an alternative they copy what they are about.
    fn mismatched(self, value: &Value, times: u64, each_bytes: u64) -> (u64, u64) {
        let below = times.saturating_mul(self.fanout);
        let add = |(own, all): (u64, u64), item: &Value| {
            let (item, more) = self.mismatched(item, below, each_bytes);
            (own + item, all.saturating_add(more))
        };
        let (own, all) = match value {
            Value::Array(items) => items.iter().fold((NODE_BYTES, 0), add),
            Value::Object(map) => {
                let bytes: u64 = map.keys().map(|name| name.len() as u64).sum();
                let names = Self { text: 0, reads: 0, names: 0, ..self }
                    .of_names(map)
                    .saturating_mul(times);
                let begun = (NODE_BYTES + bytes, names.saturating_mul(each_bytes));
                map.values().fold(begun, add)
            }
            Value::String(text) => (NODE_BYTES + text.len() as u64, 0),
            _ => (NODE_BYTES, 0),
        };
        let copied_bytes = if self.has_alternatives { own } else { 0 };
        let here = times.saturating_mul(self.evaluations);
        (own, all.saturating_add(here.saturating_mul(each_bytes.saturating_add(copied_bytes))))
    }
}

/// Returns how many levels `value` has, and the most bytes of names on a way down.
fn deepest(value: &Value) -> (u64, u64) {
    let with = |(levels, bytes): (u64, u64), name_bytes: u64, item: &Value| {
        let (more_levels, more_bytes) = deepest(item);
        (levels.max(more_levels + 1), bytes.max(more_bytes + name_bytes))
    };
    match value {
        // As long as an index is.
        Value::Array(items) => items.iter().fold((1, 0), |most, item| with(most, 8, item)),
        // In a pointer some characters are two.
        Value::Object(map) => {
            map.iter().fold((1, 0), |most, (name, item)| with(most, 2 * name.len() as u64, item))
        }
        _ => (1, 0),
    }
}

/// Returns what `value` takes in memory, about.
fn bytes(value: &Value) -> u64 {
    let below = match value {
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(map) => map.iter().map(|(name, it)| name.len() as u64 + bytes(it)).sum(),
        Value::String(text) => text.len() as u64,
        _ => 0,
    };
    NODE_BYTES + below
}

/// Returns the most bytes of a schema that a mismatch holds a copy of.
pub(super) fn copied_bytes(node: &Value) -> u64 {
    let most = |below: &mut dyn Iterator<Item = u64>| below.max().unwrap_or_default();
    match node {
        Value::Array(items) => most(&mut items.iter().map(copied_bytes)),
        Value::Object(map) => most(&mut map.iter().map(|(keyword, value)| {
            let own = COPIED.contains(&keyword.as_str()).then(|| bytes(value));
            own.unwrap_or_default().max(copied_bytes(value))
        })),
        _ => 0,
    }
}
