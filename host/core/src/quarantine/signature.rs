//! What two failures have in common: the tool, the kind, the message without what differs from call
//! to call, and the shape of the arguments without their values.

use serde_json::{Value, json};

use super::anomaly::Anomaly;
use crate::digest;
use crate::limits::{QUARANTINE_MESSAGE_BYTES_MAX, QUARANTINE_SHAPE_DEPTH_MAX};
use crate::truncate;

/// A word of so many hexadecimal digits is a name that somebody drew.
const HEX_CHARS_MIN: usize = 8;

/// Returns `sha256:…` of what a failure has in common with others of its kind.
pub fn signature(tool: &str, anomaly: &Anomaly, arguments: &Value) -> String {
    digest::of_json(&json!({
        "tool": tool,
        "code": anomaly.code,
        "message": normalised(&anomaly.message),
        "arguments": shape(arguments, QUARANTINE_SHAPE_DEPTH_MAX),
    }))
}

/// Returns a message without its quoted texts, paths, numbers, identifiers and times: the same for two
/// calls that failed alike, and free of what callers sent.
pub fn normalised(message: &str) -> String {
    let unquoted = without_quotes(truncate::text(message, QUARANTINE_MESSAGE_BYTES_MAX));
    unquoted.split_whitespace().map(masked).collect::<Vec<_>>().join(" ")
}

/// A quote opens where no word is under way, and closes at the next one of its kind.
fn without_quotes(text: &str) -> String {
    let (mut out, mut rest, mut inside_word) = (String::new(), text, false);
    while let Some(c) = rest.chars().next() {
        let (quote, after) = rest.split_at(c.len_utf8());
        let closing = matches!(c, '"' | '\'' | '`').then(|| after.split_once(c)).flatten();
        match closing.filter(|_| !inside_word) {
            Some((_, behind)) => {
                out.push_str("<text>");
                rest = behind;
            }
            None => {
                out.push_str(quote);
                rest = after;
            }
        }
        inside_word = c.is_alphanumeric();
    }
    out
}

fn masked(word: &str) -> &str {
    let is_hex = |word: &str| {
        word.len() >= HEX_CHARS_MIN && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
    };
    match word.trim_matches(|c: char| c.is_ascii_punctuation()) {
        _ if word.contains(['/', '\\']) => "<path>",
        bare if bare.contains(|c: char| c.is_numeric()) || is_hex(bare) => "<id>",
        _ => word,
    }
}

/// Returns the keys and types of a value; of a list, those of its first item.
fn shape(value: &Value, depth: u32) -> Value {
    match (value, depth.checked_sub(1)) {
        (Value::Array(items), Some(depth)) => {
            Value::from_iter(items.first().map(|item| shape(item, depth)))
        }
        (Value::Object(object), Some(depth)) => {
            Value::from_iter(object.iter().map(|(key, value)| (key.clone(), shape(value, depth))))
        }
        (Value::Array(_), None) => "array".into(),
        (Value::Object(_), None) => "object".into(),
        (Value::Bool(_), _) => "boolean".into(),
        (Value::Null, _) => "null".into(),
        (Value::Number(_), _) => "number".into(),
        (Value::String(_), _) => "string".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(message: &str, arguments: &Value) -> String {
        let anomaly = Anomaly { code: "upstream", message: message.to_owned() };
        signature("t", &anomaly, arguments)
    }

    #[test]
    fn what_differs_from_call_to_call_is_masked() {
        for (message, expected) in [
            ("timeout after 30 s at 2026-11-22T07:24:35Z", "timeout after <id> s at <id>"),
            ("no file /tmp/a b or C:\\x", "no file <path> b or <path>"),
            (
                "cannot read 'a b c' (\"x\"): it isn't there",
                "cannot read <text> (<text>): it isn't there",
            ),
            ("request 550e8400-e29b-41d4-a716-446655440000 failed", "request <id> failed"),
            ("object deadbeef, gone", "object <id> gone"),
            ("an open \" quote", "an open \" quote"),
            ("  two\n\tlines ", "two lines"),
        ] {
            assert_eq!(normalised(message), expected);
        }
    }

    #[test]
    fn failures_that_are_alike_have_one_signature_and_others_have_not() {
        let base = signed("user 'ada' not found in 12 ms", &json!({"id": 1, "tags": ["a"]}));
        assert_eq!(
            base,
            signed("user 'bob' not found in 7 ms", &json!({"tags": ["b", "c"], "id": 9}))
        );
        assert_ne!(base, signed("user 'ada' not allowed", &json!({"id": 1, "tags": ["a"]})));
        assert_ne!(
            base,
            signed("user 'ada' not found in 12 ms", &json!({"id": "1", "tags": ["a"]}))
        );
        assert!(digest::is_digest(&base));
    }

    #[test]
    fn no_message_and_no_arguments_take_long() {
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let quotes = "'".repeat(1_000_000);
        assert!(digest::is_digest(&signed(&quotes, &deep)));
        assert!(normalised(&"a ".repeat(1_000_000)).len() <= QUARANTINE_MESSAGE_BYTES_MAX);
    }
}
