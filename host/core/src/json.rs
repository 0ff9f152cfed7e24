//! Strict JSON: one meaning for every message, or none; and changing the texts of a value.
//!
//! What is checked here is exactly what is forwarded: strict UTF-8, every key of an object at most
//! once, nesting below [`JSON_DEPTH_MAX`], parts up to [`JSON_NODES_MAX`]. Deliberately absent: leniency of any kind,
//! a byte order mark included; and numbers beyond 64 bits, which [`rounds`] finds where they matter.
//!
//! [`JSON_DEPTH_MAX`]: crate::limits::JSON_DEPTH_MAX
//! [`JSON_NODES_MAX`]: crate::limits::JSON_NODES_MAX

mod length;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

pub use self::length::Length;
use crate::limits::{JSON_DEPTH_MAX, JSON_NODES_MAX};

/// Why bytes are not one JSON value with one meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The bytes are JSON, but two readers could understand them differently.
    #[error("ambiguous JSON: {0}")]
    Ambiguous(Stop),
    /// The bytes are nested too deeply, or of too many parts; which bound that is, is said.
    #[error("this JSON is not read: {0}")]
    Bound(Stop),
    /// The bytes are not UTF-8.
    #[error("this is not UTF-8")]
    Encoding,
    /// The bytes are not JSON.
    #[error("this is not JSON: {0}")]
    Syntax(Stop),
}

/// Where reading stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct Stop {
    /// Why, without the place.
    pub reason: String,
    /// The line, from 1.
    pub line: usize,
    /// Bytes of that line that were read.
    pub column: usize,
}

/// Reads exactly one JSON value.
///
/// # Errors
/// [`JsonError`], which never repeats more of the input than one key.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Encoding)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let strict = Strict { depth: 0, nodes_left: &Cell::new(JSON_NODES_MAX) };
    let value = strict.deserialize(&mut reader).map_err(|error| explain(&error))?;
    reader.end().map_err(|error| explain(&error))?;
    Ok(value)
}

/// Returns the items of the list `key` of an object; none where it is no list.
pub fn items<'v>(object: &'v Value, key: &str) -> &'v [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the whole number `key` of an object; 0 where it is none.
pub fn number(object: &Value, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the text `key` of an object; an empty one where it is none.
pub fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Sets the member `key` of an object.
pub fn set(object: &mut Value, key: &str, value: Value) {
    object.as_object_mut().and_then(|object| object.insert(key.to_owned(), value));
}

/// As [`set`], where there is a value for it.
pub fn put(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        set(object, key, value);
    }
}

/// Returns about how much memory `value` takes, in bytes: its texts and names, and 64 for each part, as
/// [`JSON_NODES_MAX`](crate::limits::JSON_NODES_MAX) counts them.
pub fn held_bytes(value: &Value) -> usize {
    let more = match value {
        Value::Array(items) => items.iter().map(held_bytes).sum::<usize>(),
        Value::Object(entries) if entries.is_empty() => 0,
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| name.len() + held_bytes(value);
            OBJECT_NODES * NODE_BYTES + entries.iter().map(entry).sum::<usize>()
        }
        Value::String(text) => text.len(),
        Value::Bool(_) | Value::Null | Value::Number(_) => 0,
    };
    NODE_BYTES + more
}

/// Says whether `json`, which can be parsed, has a whole number that does not fit in 64 bits: what
/// is parsed is another number then, the nearest one that does.
///
/// A number with a fraction or an exponent is an approximation to begin with.
pub fn rounds(json: &[u8]) -> bool {
    let mut inside = false;
    json.split(|byte| *byte == b'"').any(|part| {
        if inside {
            // A quote behind an odd number of backslashes does not end the text.
            let escapes = part.iter().rev().take_while(|byte| **byte == b'\\').count();
            inside = escapes % 2 == 1;
            return false;
        }
        inside = true;
        let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        part.split(|byte| !is_sign(byte)).any(is_beyond_64_bits)
    })
}

fn is_beyond_64_bits(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(word).unwrap_or_default();
    whole && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

fn explain(error: &serde_json::Error) -> JsonError {
    let (said, line, column) = (error.to_string(), error.line(), error.column());
    let reason = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    let stop = |reason: &str| Stop { reason: reason.to_owned(), line, column };
    match reason {
        TOO_DEEP | READER_TOO_DEEP => JsonError::Bound(stop(&too_deep())),
        TOO_MANY => JsonError::Bound(stop(&too_many())),
        _ if error.is_data() => JsonError::Ambiguous(stop(reason)),
        _ => JsonError::Syntax(stop(reason)),
    }
}

fn too_deep() -> String {
    format!("nested {JSON_DEPTH_MAX} levels deep or more (`JSON_DEPTH_MAX`)")
}

fn too_many() -> String {
    format!("it has too many parts, over {JSON_NODES_MAX} (`JSON_NODES_MAX`)")
}

/// What is said inside of here of nesting over the bound.
const TOO_DEEP: &str = "nested too deeply";
/// What the reader itself says of it, whose own bound is the same.
const READER_TOO_DEEP: &str = "recursion limit exceeded";
/// What is said inside of here of more parts than the bound.
const TOO_MANY: &str = "it has too many parts";
/// What the first entry of an object takes, as it makes room for eleven: parts.
const OBJECT_NODES: usize = 10;
/// What a part takes, in bytes.
const NODE_BYTES: usize = 64;

/// Builds a [`Value`], knowing how deep it already is, and how much of one may still come.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    nodes_left: &'a Cell<usize>,
}

impl Strict<'_> {
    fn spend<E: serde::de::Error>(self, nodes: usize) -> Result<(), E> {
        let left = self.nodes_left.get().checked_sub(nodes);
        self.nodes_left.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        Ok(())
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= JSON_DEPTH_MAX {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        self.spend(1)?;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.is_empty() {
                inner.spend(OBJECT_NODES)?;
            }
            if object.contains_key(&key) {
                let shown: String = key.chars().take(KEY_CHARS_SHOWN_MAX).collect();
                return Err(A::Error::custom(format_args!("duplicate key {shown:?}")));
            }
            let value = entries.next_value_seed(inner)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Is shown a text, and the name it is the value of, where it has one; returns what to put in its
/// place, nothing where it stays.
pub(crate) type Change<'a> = dyn FnMut(Option<&str>, &str) -> Option<String> + 'a;

/// Changes every text in `value`, names included, and every number too where `numbers` says so: one
/// that is changed becomes text. Where two names become one, the last value stays.
pub(crate) fn rewrite(value: &mut Value, numbers: bool, change: &mut Change<'_>) {
    rewrite_under(None, value, numbers, change);
}

fn rewrite_under(key: Option<&str>, value: &mut Value, numbers: bool, change: &mut Change<'_>) {
    let changed = match value {
        Value::String(text) => change(key, text),
        Value::Number(number) if numbers => change(key, &number.to_string()),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| rewrite_under(key, item, numbers, change));
            None
        }
        Value::Object(entries) => {
            rewrite_object(entries, numbers, change);
            None
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => None,
    };
    if let Some(text) = changed {
        *value = Value::String(text);
    }
}

/// As [`rewrite`], for an object.
pub(crate) fn rewrite_object(
    entries: &mut Map<String, Value>,
    numbers: bool,
    change: &mut Change<'_>,
) {
    let pair = pair(entries).into_owned();
    for (name, value) in entries.iter_mut() {
        rewrite_under(Some(pair.name_of(name)), value, numbers, change);
    }
    let names: Vec<_> = entries.keys().map(|name| change(None, name)).collect();
    if names.iter().any(Option::is_some) {
        let renamed =
            |((old, value), new): ((String, Value), Option<String>)| (new.unwrap_or(old), value);
        *entries = std::mem::take(entries).into_iter().zip(names).map(renamed).collect();
    }
}

/// Entries whose text names what stands beside them, and entries that stand there:
/// `{"key": "password", "value": "…"}`.
const NAMING: [&str; 4] = ["key", "name", "field", "variable"];
const NAMED: [&str; 3] = ["value", "val", "content"];

/// What the values of an object stand under where that is not their own name.
#[derive(Debug, Default)]
pub(crate) struct Pair<'a>(Option<Cow<'a, str>>);

/// Returns the pair that an object is, if it is one.
pub(crate) fn pair(entries: &Map<String, Value>) -> Pair<'_> {
    let has_value = NAMED.iter().any(|name| entries.contains_key(*name));
    let naming = NAMING.iter().find_map(|name| entries.get(*name)?.as_str());
    Pair(naming.filter(|_| has_value).map(Cow::Borrowed))
}

impl Pair<'_> {
    /// Returns what the value of the entry `name` stands under.
    pub(crate) fn name_of<'n>(&'n self, name: &'n str) -> &'n str {
        self.0.as_deref().filter(|_| NAMED.contains(&name)).unwrap_or(name)
    }

    fn into_owned(self) -> Pair<'static> {
        Pair(self.0.map(|name| Cow::Owned(name.into_owned())))
    }
}

/// How much of a duplicated key an error repeats.
const KEY_CHARS_SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ordinary_values_are_read_as_they_are() {
        let text = r#"{"a":[1,-2,1.5,"x",true,null,{}],"b":18446744073709551615}"#;
        let expected = json!({"a": [1, -2, 1.5, "x", true, null, {}], "b": u64::MAX});
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
        let number = "123456789.12345679";
        assert_eq!(parse(number.as_bytes()).unwrap().to_string(), number);
    }

    #[test]
    fn what_a_value_takes_is_that_of_its_parts_and_its_texts() {
        for (value, parts, texts) in [
            (json!(null), 1, 0),
            (json!("four"), 1, 4),
            (json!({}), 1, 0),
            (json!([1, true, "a"]), 4, 1),
            (json!({"name": "four", "b": [{}]}), 1 + OBJECT_NODES + 3, 9),
        ] {
            assert_eq!(held_bytes(&value), parts * NODE_BYTES + texts, "{value}");
        }
    }

    #[test]
    fn a_carriage_return_is_no_error() {
        assert_eq!(parse(b" {}\r").unwrap(), json!({}));
    }

    #[test]
    fn a_whole_number_beyond_64_bits_is_found_and_nothing_else() {
        for text in [
            "18446744073709551616",
            "[-9223372036854775809]",
            r#"{"a\"":{"b":[1, 100000000000000000000 ]}}"#,
            r#"["\"\\",99999999999999999999]"#,
        ] {
            parse(text.as_bytes()).unwrap();
            assert!(rounds(text.as_bytes()), "{text}");
        }
        for text in [
            "[18446744073709551615,-9223372036854775808,-0]",
            "[1e20,1E+300,6.02214076e23,100000000000000000000.0]",
            r#"{"100000000000000000000":"a \" 100000000000000000000"}"#,
            "[true,null,{}]",
        ] {
            parse(text.as_bytes()).unwrap();
            assert!(!rounds(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"[{"x":{"k":1,"\u006b":1}}]"#] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Ambiguous(_))), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in
            ["", "\u{feff}{}", "{bad", "{} {}", "\"\\ud800\"", "1e400", "nul", "[1,]", "'a'"]
        {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax(_))), "{text}");
        }
        assert_eq!(parse(b"\"\xff\""), Err(JsonError::Encoding));
        assert_eq!(parse(b"\"\xc0\xaf\""), Err(JsonError::Encoding));
    }

    #[test]
    fn where_and_why_reading_stops_are_told_apart() {
        for (text, reason, line, column) in [
            ("", "EOF while parsing a value", 1, 0),
            ("[1,\n", "EOF while parsing a value", 2, 0),
            ("{bad", "key must be a string", 1, 2),
            ("{}\n {}", "trailing characters", 2, 2),
        ] {
            let stop = Stop { reason: reason.to_owned(), line, column };
            assert_eq!(parse(text.as_bytes()), Err(JsonError::Syntax(stop)));
        }
        // A key that reads like a place.
        let stop = Stop {
            reason: "duplicate key \"k at line 7 column 7\"".to_owned(),
            line: 2,
            column: 24,
        };
        let text = "{\"k at line 7 column 7\": 1,\n  \"k at line 7 column 7\": 2}";
        assert_eq!(parse(text.as_bytes()), Err(JsonError::Ambiguous(stop)));
    }

    #[test]
    fn a_bound_that_is_met_is_told_with_its_name_and_number() {
        let deep = "[".repeat(JSON_DEPTH_MAX);
        let many = format!("[{}1]", "1,".repeat(JSON_NODES_MAX));
        let told = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            told(&deep),
            "this JSON is not read: nested 128 levels deep or more (`JSON_DEPTH_MAX`) at line 1 column 128"
        );
        assert_eq!(
            told(&many),
            "this JSON is not read: it has too many parts, over 2097152 (`JSON_NODES_MAX`) at line 1 column 4194303"
        );
    }

    #[test]
    fn nesting_is_bounded_and_the_stack_survives() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(JSON_DEPTH_MAX - 1).as_bytes()).is_ok());
        assert!(parse(nested(JSON_DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn the_memory_that_a_value_takes_is_bounded() {
        let list =
            |item: &str, items: usize| format!("[{item}{}]", format!(",{item}").repeat(items - 1));
        let longest = list("1", crate::limits::MESSAGE_BYTES_MAX / 2 - 1);
        assert!(parse(longest.as_bytes()).is_ok());
        assert!(parse(format!("\"{}\"", "a".repeat(10_000_000)).as_bytes()).is_ok());
        let objects = (JSON_NODES_MAX - 1) / (OBJECT_NODES + 2);
        assert!(parse(list(r#"{"":0}"#, objects).as_bytes()).is_ok());
        for text in [list(r#"{"":0}"#, objects + 1), list("1", JSON_NODES_MAX)] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(
                matches!(&error, JsonError::Bound(why) if why.reason.starts_with(TOO_MANY)),
                "{error}"
            );
        }
    }
}
