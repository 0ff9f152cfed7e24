//! YAML of what is imported.

use std::fmt::Write as _;

use clawhost_core::grants::is_variable_name;
use clawhost_core::visible;
use serde_json::{Value, json};

/// Returns `value` as YAML, every text quoted as JSON would have it, and what drives a terminal or hides by its number.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    let shown = |c: char| match visible::is_plain(c) {
        true => c.to_string(),
        false => format!("\\U{:08x}", u32::from(c)),
    };
    text.chars().map(shown).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_written_by_its_number_and_read_as_it_was() {
        let hidden = "a\u{7f}\u{9b}\u{202e}\u{2028}\u{feff}\u{e0041}\t\n\"\\é";
        let text = yaml(&json!({ "a key": { "args": [hidden] } }));
        assert!(text.chars().all(visible::is_plain), "{text:?}");
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["a key"]["args"][0], hidden);
    }
}
