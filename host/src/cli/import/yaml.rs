//! YAML of what is imported.

use std::fmt::Write as _;

use clawhost_core::grants::is_variable_name;
use serde_json::{Value, json};

/// Returns `value` as YAML, every text quoted as JSON would have it.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(object) = value else { return };
    for (key, value) in object {
        let indent = "  ".repeat(depth);
        let key = if is_variable_name(key) { key.clone() } else { json!(key).to_string() };
        // Writing to a text cannot fail.
        let _ = match value {
            Value::Object(inner) if !inner.is_empty() => {
                let _ = writeln!(text, "{indent}{key}:");
                block(value, depth + 1, text);
                Ok(())
            }
            other => writeln!(text, "{indent}{key}: {other}"),
        };
    }
}
