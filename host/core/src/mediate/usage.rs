//! What several answers used together.

use serde_json::{Map, Value};

/// Adds `of` to `sum`: numbers are added, all else is what was said last.
pub(super) fn add(sum: &mut Map<String, Value>, of: &Value) {
    for (key, value) in of.as_object().into_iter().flatten() {
        let known = sum.entry(key).or_insert(Value::Null);
        match (known.as_u64(), value.as_u64()) {
            (Some(one), Some(other)) => *known = one.saturating_add(other).into(),
            _ if value.is_object() => {
                let mut parts = known.as_object().cloned().unwrap_or_default();
                add(&mut parts, value);
                *known = parts.into();
            }
            _ => *known = value.clone(),
        }
    }
}
