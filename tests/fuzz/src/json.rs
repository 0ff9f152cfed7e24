//! Strict JSON: what is accepted has one meaning, which is the one everybody else reads.

use clawhost_core::json::{self, JsonError};
use clawhost_core::limits::JSON_DEPTH_MAX;
use serde_json::Value;

/// Reads `data` as one message.
pub fn run(data: &[u8]) {
    let lenient = serde_json::from_slice::<Value>(data);
    match json::parse(data) {
        Ok(value) => {
            assert_eq!(value, lenient.expect("what is strict JSON is JSON"));
            assert!(depth(&value) <= JSON_DEPTH_MAX);
            let written = serde_json::to_vec(&value).unwrap();
            assert_eq!(json::parse(&written), Ok(value), "it is read as it was written");
            json::rounds(data);
        }
        // A duplicate, or one level too many: all that is refused of what others accept.
        Err(error) => match lenient {
            Ok(value) => assert!(
                matches!(error, JsonError::Ambiguous(_)) || depth(&value) >= JSON_DEPTH_MAX - 1,
                "{error}"
            ),
            Err(_) => assert!(error.to_string().len() < 1_024, "{error}"),
        },
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
