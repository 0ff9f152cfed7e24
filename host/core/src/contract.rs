//! Contracts: what has to hold of a call's arguments before it runs, and of its result after.
//!
//! A condition names its field by a path of keys with dots, which starts at `args` or `result`; a part
//! of digits also counts into a list. A field that is not there meets no condition. Deliberately
//! absent: what becomes of a call that breaks one, and the caller's values that broke it, which nothing
//! here repeats.

use std::fmt;

use serde_json::Value;

use crate::truncate;

/// What is shown of a value that a field has to be or to hold.
const VALUE_SHOWN_BYTES_MAX: usize = 200;

/// Where a path starts: what arguments have to be, or results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The arguments, as the tool gets them.
    Args,
    /// The structured result, else its text.
    Result,
}

table! {
    /// Returns the word that a path starts with.
    pub Root::word: &'static str {
        Args: "args", Result: "result",
    }
}

/// What a field has to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// It holds this text, this item or this key.
    Contains(Value),
    /// It is this value; 1 and 1.0 are the same number.
    Equals(Value),
    /// It is there, whatever it is: `null` is there too.
    Exists,
    /// It is of this type.
    MatchesType(JsonType),
    /// It is neither `null` nor an empty text, list or mapping. 0 and `false` are not empty.
    NotEmpty,
}

/// The types of JSON, and whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonType {
    /// A list.
    Array,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction: 1.0 is one.
    Integer,
    /// Nothing.
    Null,
    /// Any number.
    Number,
    /// A mapping.
    Object,
    /// A text.
    String,
}

table! {
    /// Returns the name that documents have for it.
    pub ALL, pub JsonType::name: &'static str {
        Array: "array", Boolean: "boolean", Integer: "integer", Null: "null", Number: "number",
        Object: "object", String: "string",
    }
}

impl JsonType {
    /// Returns the type of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Array => value.is_array(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Null => value.is_null(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::String => value.is_string(),
        }
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The path as it was written.
    field: String,
    /// What the field has to be.
    pub test: Test,
}

/// Says which condition it is, as the operator wrote it.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = &self.field;
        let shown =
            |value: &Value| truncate::text(&value.to_string(), VALUE_SHOWN_BYTES_MAX).to_owned();
        match &self.test {
            Test::Contains(value) => write!(f, "{field} contains {}", shown(value)),
            Test::Equals(value) => write!(f, "{field} equals {}", shown(value)),
            Test::Exists => write!(f, "{field} exists"),
            Test::MatchesType(of) => write!(f, "{field} matches_type {}", of.name()),
            Test::NotEmpty => write!(f, "{field} not_empty"),
        }
    }
}

impl Condition {
    /// Returns the condition of that field; nothing where the path does not start at `root`, or
    /// has an empty part.
    pub fn new(root: Root, field: &str, test: Test) -> Option<Self> {
        let mut parts = field.split('.');
        let fits = parts.next() == Some(root.word()) && parts.all(|part| !part.is_empty());
        fits.then(|| Self { field: field.to_owned(), test })
    }

    /// Says whether it holds of the value that its path starts at.
    pub fn holds(&self, root: &Value) -> bool {
        let Some(field) = self.field.split('.').skip(1).try_fold(root, part) else {
            return false;
        };
        match &self.test {
            Test::Contains(value) => contains(field, value),
            Test::Equals(value) => is_same(field, value),
            Test::Exists => true,
            Test::MatchesType(of) => of.is_of(field),
            Test::NotEmpty => !is_empty(field),
        }
    }
}

/// What has to hold of a tool's calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contract {
    /// Of the arguments.
    pub preconditions: Vec<Condition>,
    /// Of the result.
    pub postconditions: Vec<Condition>,
}

/// Returns the first of `conditions` that does not hold of `root`.
pub fn broken<'a>(conditions: &'a [Condition], root: &Value) -> Option<&'a Condition> {
    conditions.iter().find(|condition| !condition.holds(root))
}

/// Returns what a part of a path leads to: a key of a mapping, a number in a list.
pub(crate) fn part<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => value.get(part),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
        Value::Null => true,
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.is_empty(),
    }
}

fn contains(field: &Value, value: &Value) -> bool {
    match (field, value) {
        (Value::Array(items), value) => items.iter().any(|item| is_same(item, value)),
        (Value::Object(object), Value::String(key)) => object.contains_key(key),
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        _ => false,
    }
}

/// Both values come from readers that bound their depth.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || is_same_number(a, b),
        (Value::Object(a), Value::Object(b)) => {
            let has = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(has)
        }
        (a, b) => a == b,
    }
}

/// Whole numbers are compared as such: beyond 2^53 two of them may be one float.
fn is_same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(field: &str, test: Test, root: &Value) -> bool {
        Condition::new(Root::Args, field, test).unwrap().holds(root)
    }

    #[test]
    fn a_path_walks_keys_and_lists_and_what_is_not_there_meets_nothing() {
        let root = json!({"a": {"b": [{"c": null}], "0": 1}, "": 2});
        for (path, there) in [
            ("args", true),
            ("args.a", true),
            ("args.a.b.0.c", true),
            ("args.a.0", true),
            ("args.a.b.1", false),
            ("args.a.b.c", false),
            ("args.a.b.0.c.d", false),
            ("args.A", false),
        ] {
            assert_eq!(holds(path, Test::Exists, &root), there, "{path}");
        }
        for test in [Test::NotEmpty, Test::Equals(Value::Null), Test::MatchesType(JsonType::Null)] {
            assert!(!holds("args.gone", test, &root));
        }
        for path in ["", "a", "result.a", "args.", "args..a", "argsa", ".args"] {
            assert_eq!(Condition::new(Root::Args, path, Test::Exists), None, "{path}");
        }
    }

    #[test]
    fn empty_is_null_and_what_holds_nothing_but_neither_zero_nor_false() {
        for empty in [json!(null), json!(""), json!([]), json!({})] {
            assert!(!holds("args", Test::NotEmpty, &empty), "{empty}");
        }
        for full in [json!(0), json!(false), json!(" "), json!([null]), json!({"a": null})] {
            assert!(holds("args", Test::NotEmpty, &full), "{full}");
        }
    }

    #[test]
    fn every_value_is_of_its_types_and_of_no_other() {
        for (value, types) in [
            (json!([]), "array"),
            (json!(true), "boolean"),
            (json!(1), "integer number"),
            (json!(1.0), "integer number"),
            (json!(u64::MAX), "integer number"),
            (json!(1.5), "number"),
            (json!(null), "null"),
            (json!({}), "object"),
            (json!("1"), "string"),
        ] {
            for name in JsonType::ALL.map(JsonType::name) {
                let test = Test::MatchesType(JsonType::named(name).unwrap());
                let is = types.split(' ').any(|of| of == name);
                assert_eq!(holds("args", test, &value), is, "{value} {name}");
            }
        }
        assert_eq!(JsonType::named("int"), None);
    }

    #[test]
    fn numbers_are_equal_by_value_and_nothing_else_is_equal_across_types() {
        let equals = |a: Value, b: Value| holds("args", Test::Equals(b), &a);
        assert!(equals(json!(1), json!(1.0)));
        assert!(equals(json!({"a": [1, {"b": 2.0}]}), json!({"a": [1.0, {"b": 2}]})));
        assert!(!equals(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)));
        for (a, b) in [
            (json!(1), json!("1")),
            (json!(0), json!(false)),
            (json!(null), json!("")),
            (json!([1]), json!([1, 1])),
            (json!({"a": 1}), json!({"a": 1, "b": null})),
        ] {
            assert!(!equals(a.clone(), b.clone()), "{a} {b}");
        }
    }

    #[test]
    fn a_text_contains_a_part_a_list_an_item_and_a_mapping_a_key() {
        let has = |field: Value, value: Value| holds("args", Test::Contains(value), &field);
        assert!(has(json!("haystack"), json!("hay")) && !has(json!("haystack"), json!("Hay")));
        assert!(has(json!([1, {"a": 2}]), json!({"a": 2.0})) && !has(json!([1]), json!("1")));
        assert!(has(json!({"a": 1}), json!("a")) && !has(json!({"a": 1}), json!(1)));
        assert!(!has(json!(12), json!(1)) && !has(json!(null), json!(null)));
    }

    #[test]
    fn a_broken_condition_is_named_without_the_caller_s_value() {
        let wanted = || Test::Equals(json!("hunter2"));
        let conditions = [
            Condition::new(Root::Args, "args.a", Test::Exists).unwrap(),
            Condition::new(Root::Args, "args.a", wanted()).unwrap(),
        ];
        let first = broken(&conditions, &json!({"a": "hunter3"})).unwrap();
        assert_eq!(first.to_string(), r#"args.a equals "hunter2""#);
        assert_eq!(broken(&conditions, &json!({"a": "hunter2"})), None);
    }
}
