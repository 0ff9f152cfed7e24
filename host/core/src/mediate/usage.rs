//! What several answers used together.

use serde_json::{Map, Value};

use super::values::set;

/// What traces call tokens, and what other protocols call them, or the parts of them: those of a cached prompt are
/// counted beside the others by one.
const TOKENS: [(&str, &[&str]); 2] = [
    ("prompt_tokens", &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]),
    ("completion_tokens", &["output_tokens"]),
];

/// Returns what one answer used, its tokens also as traces call them: whoever reads these need not know which
/// protocol it was.
pub(super) fn traced(of: &Value) -> Value {
    let mut used = of.clone();
    for (name, parts) in TOKENS {
        let counted = parts.iter().filter_map(|part| of.get(*part)?.as_u64());
        if let (None, Some(tokens)) = (of.get(name), counted.reduce(u64::saturating_add)) {
            set(&mut used, name, tokens.into());
        }
    }
    used
}

/// Adds `of` to `sum`: numbers are added, all else is what was said last.
pub(super) fn add(sum: &mut Map<String, Value>, of: &Value) {
    for (key, value) in of.as_object().into_iter().flatten() {
        let known = sum.entry(key).or_insert(Value::Null);
        *known = both(known, value);
    }
}

/// Returns what two answers come to where one says `known` and the next `more`. One that says nothing takes
/// nothing back.
fn both(known: &Value, more: &Value) -> Value {
    if let (Some(one), Some(other)) = (known.as_u64(), more.as_u64()) {
        return one.saturating_add(other).into();
    }
    if let (Some(one), Some(other)) = (known.as_f64(), more.as_f64()) {
        return (one + other).into();
    }
    match more {
        Value::Null => known.clone(),
        Value::Object(_) => {
            let mut parts = known.as_object().cloned().unwrap_or_default();
            add(&mut parts, more);
            parts.into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_names_tokens_alike_whoever_counted_them() {
        let own = json!({ "prompt_tokens": 1, "completion_tokens": 2 });
        assert_eq!(traced(&own), own);
        let other = traced(&json!({ "input_tokens": 1, "output_tokens": 2 }));
        assert_eq!((&other["prompt_tokens"], &other["completion_tokens"]), (&json!(1), &json!(2)));
        assert_eq!(other["input_tokens"], 1, "the provider's own words stay");
        let cached = traced(&json!({ "input_tokens": 3, "cache_read_input_tokens": 4 }));
        assert_eq!(cached["prompt_tokens"], 7, "a prompt is counted as a whole");
        assert_eq!(traced(&Value::Null), Value::Null);
    }

    #[test]
    fn numbers_of_every_kind_are_added_and_nothing_takes_none_away() {
        let mut sum = Map::new();
        for used in [
            json!({ "tokens": 1, "cost": 0.25, "details": { "cached": 1 }, "tier": "a", "none": null }),
            json!({ "tokens": 2, "cost": 0.5, "details": null, "tier": "b" }),
            json!({ "tokens": null, "cost": 1, "details": { "cached": 2, "more": 3 } }),
            Value::Null,
        ] {
            add(&mut sum, &used);
        }
        let details = json!({ "cached": 3, "more": 3 });
        assert_eq!(
            Value::from(sum),
            json!({ "tokens": 3, "cost": 1.75, "details": details, "tier": "b", "none": null })
        );
    }
}
