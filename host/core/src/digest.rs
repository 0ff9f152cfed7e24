//! Digests: sha256 over bytes, and over JSON in the canonical form of RFC 8785.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What a digest as text begins with.
const PREFIX: &str = "sha256:";
/// How long one is, in bytes.
const TEXT_BYTES: usize = PREFIX.len() + 2 * 32;

/// Returns `sha256:<64 hex digits>` of `bytes`.
pub fn of_bytes(bytes: &[u8]) -> String {
    text(&sha256(bytes))
}

/// Returns the sha256 of `bytes`, for who keeps many.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns a sha256 as [`of_bytes`] does.
pub fn text(sha256: &[u8; 32]) -> String {
    let mut text = String::with_capacity(TEXT_BYTES);
    append(&mut text, sha256);
    text
}

/// Appends a sha256 as [`of_bytes`] returns it: of each call there are several, so this takes no longer than it has to.
pub fn append(text: &mut String, sha256: &[u8; 32]) {
    let mut digits = [0; 2 * 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(sha256) {
        pair.copy_from_slice(&digits_of(*byte));
    }
    text.push_str(PREFIX);
    // All of it is ASCII.
    text.push_str(str::from_utf8(&digits).unwrap_or_default());
}

/// Returns `bytes` as hexadecimal digits in lower case, two a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().copied().flat_map(digits_of).map(char::from).collect()
}

fn digits_of(byte: u8) -> [u8; 2] {
    let digit = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

/// Returns the bytes that hexadecimal digits stand for; nothing where `text` holds anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// Says whether `text` is `sha256:` and 64 hex digits in lower case.
pub fn is_digest(text: &str) -> bool {
    const HEX_DIGITS: usize = 64;
    text.strip_prefix(PREFIX).is_some_and(|hex| {
        hex.len() == HEX_DIGITS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns the digest of `value` in canonical form: keys sorted, no white space.
pub fn of_json(value: &Value) -> String {
    let mut text = Vec::new();
    write_canonical(value, &mut text);
    of_bytes(&text)
}

/// Returns `value` as RFC 8785 canonical JSON.
///
/// Keys are ordered by their UTF-16 code units (section 3.2.3); numbers print as ECMAScript
/// does for the integers and doubles that `serde_json` holds.
pub fn canonical(value: &Value) -> String {
    let mut text = Vec::new();
    write_canonical(value, &mut text);
    // All that is written is text.
    String::from_utf8(text).unwrap_or_default()
}

/// Says whether two values have one digest: what was kept in canonical form is read with 0 where somebody wrote 0.0.
pub fn is_same(one: &Value, other: &Value) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// Appends a member of an object that is a text, in canonical form, which is valid UTF-8.
pub fn append_text(object: &mut Vec<u8>, name: &str, text: &str) {
    write_json(name, object);
    object.push(b':');
    write_json(text, object);
}

/// Appends a member of an object in canonical form, which is valid UTF-8.
pub fn append_member(text: &mut Vec<u8>, name: &str, value: &Value) {
    write_json(name, text);
    text.push(b':');
    write_canonical(value, text);
}

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            write_object(map.iter().map(|(key, item)| (key.as_str(), item)).collect(), out);
        }
        Value::Number(number) if number.is_f64() => {
            out.extend_from_slice(canonical_number(number).as_bytes());
        }
        other => write_json(other, out),
    }
}

/// Writes an object's members by UTF-16 code units, in which ASCII alone is as in bytes.
fn write_object(mut members: Vec<(&str, &Value)>, out: &mut Vec<u8>) {
    if members.iter().all(|(key, _)| key.is_ascii()) {
        members.sort_unstable_by_key(|(key, _)| *key);
    } else {
        members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }
    out.push(b'{');
    for (index, (key, item)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append_member(out, key, item);
    }
    out.push(b'}');
}

fn write_json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Memory takes everything.
    drop(serde_json::to_writer(out, value));
}

/// Prints a number as ECMAScript's `Number::toString` does (RFC 8785 section 3.2.2.3).
fn canonical_number(number: &serde_json::Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    if float == 0.0 {
        return "0".to_owned();
    }
    let magnitude = float.abs();
    if (1e-6..1e21).contains(&magnitude) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_change_a_digest_and_values_do() {
        let a: Value = serde_json::from_str(r#"{"b":1,"a":[true,null]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":[true,null],"b":1}"#).unwrap();
        assert_eq!(of_json(&a), of_json(&b));
        assert_ne!(of_json(&a), of_json(&json!({"a": [true, null], "b": 2})));
    }

    #[test]
    fn what_was_read_in_canonical_form_is_the_same_as_what_was_written() {
        for value in [json!({"x": [0.0, 1.0, -0.0, 1e30]}), json!({"x": 1}), json!("0.0")] {
            let read: Value = serde_json::from_str(&canonical(&value)).unwrap();
            assert!(is_same(&value, &read) && is_same(&read, &value), "{value}");
            assert!(!is_same(&value, &json!({"x": 2})));
        }
        assert!(!is_same(&json!(0), &json!("0")) && !is_same(&json!(0.5), &json!(0)));
    }

    #[test]
    fn numbers_print_as_ecmascript_does() {
        // Vectors of RFC 8785 appendix B.
        for (value, text) in [
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (9.999_999_999_999_997e22, "9.999999999999997e+22"),
            (333_333_333.333_333_3, "333333333.3333333"),
            (-0.0, "0"),
            (4.5, "4.5"),
        ] {
            assert_eq!(canonical(&json!(value)), text);
        }
    }

    #[test]
    fn digits_are_two_a_byte_and_nothing_else_is_read_as_them() {
        assert_eq!(hex(&[0, 0xa, 0xff]), "000aff");
        assert_eq!(unhex("000aFF"), Some(vec![0, 0xa, 0xff]));
        for text in ["0", "000", "+1", " 1", "0g", "é"] {
            assert_eq!(unhex(text), None, "{text:?}");
        }
    }

    #[test]
    fn empty_bytes_have_the_published_sha256() {
        assert_eq!(
            of_bytes(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
