//! The part of JSON Schema that describes a result: types, members, and bounds.
//!
//! Deliberately absent: references, combinations, patterns, formats. A keyword that is not known
//! here is refused before the program runs, never ignored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A schema, as far as it is understood.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Shape {
    /// One name of a type, or a list of them.
    r#type: Value,
    properties: BTreeMap<String, Self>,
    required: Vec<String>,
    additional_properties: Option<bool>,
    items: Option<Box<Self>>,
    r#enum: Option<Vec<Value>>,
    r#const: Option<Value>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    // For people; they allow everything.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    #[serde(rename = "title")]
    _title: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
}

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

impl Shape {
    /// Understands a schema.
    ///
    /// # Errors
    /// What of it is not known here.
    pub(crate) fn parse(schema: &Map<String, Value>) -> Result<Self, String> {
        let shape: Self = serde_json::from_value(Value::Object(schema.clone()))
            .map_err(|error| error.to_string())?;
        shape.check_types()?;
        Ok(shape)
    }

    fn check_types(&self) -> Result<(), String> {
        let unknown = |name: &&Value| !name.as_str().is_some_and(|name| TYPES.contains(&name));
        if let Some(name) = self.types().find(unknown) {
            return Err(format!("{name} is no type; there are {}", TYPES.join(", ")));
        }
        self.properties.values().chain(self.items.as_deref()).try_for_each(Self::check_types)
    }

    fn types(&self) -> impl Iterator<Item = &Value> {
        match &self.r#type {
            Value::Null => [].iter(),
            Value::Array(names) => names.iter(),
            name => std::slice::from_ref(name).iter(),
        }
    }

    /// Says where and how `value` does not match.
    pub(crate) fn mismatch(&self, value: &Value, place: &str) -> Option<String> {
        if self.r#type != Value::Null && !self.types().any(|name| is(value, name)) {
            return Some(format!("{place} is not of type {}", self.r#type));
        }
        let enumerated = self.r#enum.as_ref();
        if let Some(list) = enumerated.filter(|list| !list.iter().any(|one| same(one, value))) {
            return Some(format!("{place} is none of {}", Value::from(list.as_slice())));
        }
        if let Some(one) = self.r#const.as_ref().filter(|one| !same(one, value)) {
            return Some(format!("{place} is not {one}"));
        }
        match value {
            Value::Number(number) => {
                within(number.as_f64().unwrap_or(f64::NAN), self.minimum, self.maximum)
                    .map(|how| format!("{place} is {how}"))
            }
            Value::String(text) => within(text.chars().count(), self.min_length, self.max_length)
                .map(|how| format!("the length of {place} is {how}")),
            Value::Array(list) => self.list(list, place),
            Value::Object(members) => self.members(members, place),
            _ => None,
        }
    }

    fn list(&self, list: &[Value], place: &str) -> Option<String> {
        if let Some(how) = within(list.len(), self.min_items, self.max_items) {
            return Some(format!("the length of {place} is {how}"));
        }
        let items = self.items.as_ref()?;
        let mut each = list.iter().enumerate();
        each.find_map(|(at, item)| items.mismatch(item, &format!("{place}[{at}]")))
    }

    fn members(&self, members: &Map<String, Value>, place: &str) -> Option<String> {
        if let Some(name) = self.required.iter().find(|name| !members.contains_key(*name)) {
            return Some(format!("{place} has no `{name}`"));
        }
        members.iter().find_map(|(name, value)| match self.properties.get(name) {
            Some(shape) => shape.mismatch(value, &format!("{place}.{name}")),
            None if self.additional_properties == Some(false) => {
                Some(format!("{place} may not have `{name}`"))
            }
            None => None,
        })
    }
}

fn is(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

/// Compares as JSON Schema does: by value, whether a number has a fraction of zero or none.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            // Of two whole numbers every digit counts: as fractions, long ones look alike.
            one == other || (one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let mut each = one.iter();
            one.len() == other.len()
                && each.all(|(name, value)| other.get(name).is_some_and(|it| same(value, it)))
        }
        _ => one == other,
    }
}

/// Says how `value` leaves its bounds.
fn within<T: Copy + PartialOrd + std::fmt::Display>(
    value: T,
    min: Option<T>,
    max: Option<T>,
) -> Option<String> {
    let below = min.filter(|min| value < *min).map(|min| format!("{value}, below {min}"));
    below.or_else(|| max.filter(|max| value > *max).map(|max| format!("{value}, above {max}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mismatch(schema: &Value, value: &Value) -> Option<String> {
        Shape::parse(schema.as_object().unwrap()).unwrap().mismatch(value, "result")
    }

    #[test]
    fn a_result_is_held_against_its_schema() {
        let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
            "properties": {"n": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                "s": {"type": "string", "minLength": 1, "maxLength": 2, "enum": ["a", "ab"]},
                "l": {"items": {"type": "number"}, "maxItems": 2}, "c": {"const": true}}});
        for good in [
            json!({"n": 0}),
            json!({"n": null, "s": "ab", "l": [1, 2.5], "c": true}),
            json!({"n": 2.0, "l": "no list: only items of lists are described"}),
        ] {
            assert_eq!(mismatch(&schema, &good), None, "{good}");
        }
        for (bad, reason) in [
            (json!([]), "result is not of type \"object\""),
            (json!({}), "result has no `n`"),
            (json!({"n": 0.5}), "result.n is not of type"),
            (json!({"n": -1}), "result.n is -1, below 0"),
            (json!({"n": 10}), "above 9"),
            (json!({"n": 1, "s": ""}), "result.s is none of [\"a\",\"ab\"]"),
            (json!({"n": 1, "l": [1, 2, 3]}), "the length of result.l is 3, above 2"),
            (json!({"n": 1, "l": [1, "2"]}), "result.l[1] is not of type"),
            (json!({"n": 1, "c": false}), "result.c is not true"),
            (json!({"n": 1, "x": 1}), "result may not have `x`"),
        ] {
            let why = mismatch(&schema, &bad).unwrap_or_else(|| panic!("{bad} matches"));
            assert!(why.contains(reason), "{bad}: {why}");
        }
        assert!(mismatch(&json!({"minItems": 1}), &json!([])).is_some());
        assert!(mismatch(&json!({"minLength": 3}), &json!("éé")).is_some());
    }

    #[test]
    fn a_number_is_the_same_with_and_without_a_fraction_of_zero() {
        for (schema, good, bad) in [
            (json!({"const": 1}), json!(1.0), json!(1.5)),
            (json!({"const": 1.0}), json!(1), json!("1")),
            (json!({"enum": [0, [{"n": 2}]]}), json!([{"n": 2.0}]), json!([{"n": 2.0, "m": 1}])),
            (json!({"const": u64::MAX}), json!(u64::MAX), json!(u64::MAX - 1)),
        ] {
            assert_eq!(mismatch(&schema, &good), None, "{good}");
            assert!(mismatch(&schema, &bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (schema, reason) in [
            (json!({"pattern": "a"}), "pattern"),
            (json!({"properties": {"a": {"$ref": "#"}}}), "$ref"),
            (json!({"items": {"type": "int"}}), "\"int\" is no type"),
            (json!({"type": 3}), "3 is no type"),
            (json!({"minItems": -1}), "-1"),
        ] {
            let why = Shape::parse(schema.as_object().unwrap()).unwrap_err();
            assert!(why.contains(reason), "{schema}: {why}");
        }
    }
}
