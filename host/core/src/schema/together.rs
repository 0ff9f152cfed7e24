//! Two schemas that both hold, as the one that clients are shown.
//!
//! Interfaces of models take no `allOf` at the top of a tool's arguments, so the two are laid over each
//! other, property by property. Deliberately absent: any decision. Values are checked against each of
//! the two.

use serde_json::{Map, Value, json};

use super::positions::any_schema;

type Object = Map<String, Value>;

/// What is for people: the later word is shown.
const WORDS: [&str; 6] = ["$comment", "default", "deprecated", "description", "examples", "title"];
/// What says all by itself, whatever stands beside it.
const PLAIN: [&str; 18] = [
    "const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "format",
    "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
    "minimum", "multipleOf", "pattern", "type", "uniqueItems",
];
/// What means something else beside another of these.
const PARTS: [&str; 9] = [
    "additionalItems", "contains", "else", "if", "items", "maxContains", "minContains",
    "prefixItems", "then",
];
/// What looks at all that stands beside it.
const WHOLE: [&str; 4] =
    ["$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];
/// What one dialect reads otherwise than another one, or not at all.
const DIALECTS: [&str; 13] = [
    "additionalItems", "contentEncoding", "contentMediaType", "dependencies", "dependentRequired",
    "dependentSchemas", "else", "format", "if", "maxContains", "minContains", "prefixItems",
    "then",
];

/// Returns a schema that takes all that `own` and `other` both take: nothing else where a plain one says
/// that, and never less. Where the two cannot be laid over each other at all, it is `other`, which somebody
/// has written after `own`.
pub fn together(own: &Value, other: &Value) -> Value {
    if own == other {
        return own.clone();
    }
    let joined = own.as_object().zip(other.as_object()).and_then(|(own, other)| join(own, other));
    joined.map_or_else(|| typed(other, own), Value::Object)
}

/// A tool's arguments are an object, whether a document says so or not.
fn typed(schema: &Value, own: &Value) -> Value {
    let mut schema = schema.clone();
    if let (Some(object), Some(kind)) = (schema.as_object_mut(), own.get("type")) {
        object.entry("type").or_insert_with(|| kind.clone());
    }
    schema
}

fn join(own: &Object, other: &Object) -> Option<Object> {
    let properties = properties(own, other)?;
    let is_closed = closed(own) || closed(other);
    let has_parts = |schema: &Object| PARTS.iter().any(|part| schema.contains_key(*part));
    if !is_plain(own) || !is_plain(other) || (has_parts(own) && has_parts(other)) {
        return None;
    }
    // One dialect holds for all of it.
    let read_anew = match (own.get("$schema"), other.get("$schema")) {
        (first, second) if first == second => None,
        (Some(_), _) => Some(other),
        (None, _) => Some(own),
    };
    if read_anew.is_some_and(is_of_a_dialect) {
        return None;
    }
    let mut all = own.clone();
    for (key, value) in other {
        let joined = match (key.as_str(), own.get(key)) {
            ("properties", _) => continue,
            ("$schema", Some(own)) => own.clone(),
            ("required", Some(own)) => united(own, value)?,
            ("$defs" | "definitions", Some(own)) => named(own, value)?,
            // Without it, what one of them says of other names would hold for those of its pattern.
            ("patternProperties", Some(own)) if own != value => return None,
            // Of two words one is shown.
            _ => value.clone(),
        };
        all.insert(key.clone(), joined);
    }
    all.remove("properties");
    if !properties.is_empty() {
        all.insert("properties".to_owned(), Value::Object(properties));
    }
    if is_closed {
        all.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(all)
}

/// Says whether nothing in it would mean something else beside more: of references, those to definitions
/// stay what they are.
fn is_plain(schema: &Object) -> bool {
    let is_old = |of: &Value| of.as_str().is_some_and(|of| of.contains("draft-04"));
    let leads_away = |to: &Value| {
        let to = to.as_str().unwrap_or_default();
        !to.starts_with("#/$defs/") && !to.starts_with("#/definitions/")
    };
    let is_hard = |node: &Value| {
        node.get("$ref").is_some_and(leads_away) || WHOLE.iter().any(|key| node.get(key).is_some())
    };
    !schema.contains_key("$ref")
        && !schema.get("$schema").is_some_and(is_old)
        && !any_schema(&Value::Object(schema.clone()), &is_hard)
}

/// Says whether anything in it could mean something else in another dialect.
fn is_of_a_dialect(schema: &Object) -> bool {
    let says = |key: &String| key != "$ref" && !WORDS.contains(&key.as_str());
    // Older ones read nothing beside a reference.
    let is_refined = |node: &Object| node.contains_key("$ref") && node.keys().any(says);
    let is_hard = |node: &Value| {
        DIALECTS.iter().any(|key| node.get(key).is_some())
            || node.get("items").is_some_and(Value::is_array)
            || node.as_object().is_some_and(is_refined)
    };
    any_schema(&Value::Object(schema.clone()), &is_hard)
}

/// Says whether it takes no property but those it names.
fn closed(schema: &Object) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Returns the properties that both take: of a closed one, those that it names.
fn properties(own: &Object, other: &Object) -> Option<Object> {
    let (shut, also_shut) = (closed(own), closed(other));
    let is_by_pattern = [own, other].iter().any(|of| of.contains_key("patternProperties"));
    if is_by_pattern && (shut || also_shut) {
        return None;
    }
    let none = Object::new();
    let of = |schema: &Object| schema.get("properties").and_then(Value::as_object).cloned();
    let (own, other) = (of(own), of(other));
    let (own, other) = (own.as_ref().unwrap_or(&none), other.as_ref().unwrap_or(&none));
    let kept = own.iter().filter(|(name, _)| !also_shut || other.contains_key(*name));
    let mut all: Object = kept.map(|(name, schema)| (name.clone(), schema.clone())).collect();
    for (name, schema) in other {
        match own.get(name) {
            None if shut => {}
            None => drop(all.insert(name.clone(), schema.clone())),
            Some(first) => drop(all.insert(name.clone(), both(first, schema))),
        }
    }
    Some(all)
}

/// Returns the schema of a property that two schemas have: here `allOf` may stand.
fn both(first: &Value, second: &Value) -> Value {
    let all_of = || json!({"allOf": [first, second]});
    let objects = first.as_object().zip(second.as_object());
    match objects {
        _ if first == second => first.clone(),
        Some((first, second)) if !first.contains_key("$ref") && !second.contains_key("$ref") => {
            laid_over(first, second).map_or_else(all_of, Value::Object)
        }
        _ => all_of(),
    }
}

fn laid_over(first: &Object, second: &Object) -> Option<Object> {
    let (mut all, mut left) = (first.clone(), Object::new());
    for (key, value) in second {
        let is_plain = PLAIN.contains(&key.as_str());
        match first.get(key) {
            Some(same) if is_plain && same == value => {}
            None if is_plain => drop(all.insert(key.clone(), value.clone())),
            _ if WORDS.contains(&key.as_str()) => drop(all.insert(key.clone(), value.clone())),
            _ => drop(left.insert(key.clone(), value.clone())),
        }
    }
    if !left.is_empty() {
        let more = all.entry("allOf").or_insert_with(|| json!([]));
        more.as_array_mut()?.push(Value::Object(left));
    }
    Some(all)
}

/// Returns the names of both lists, each once.
fn united(own: &Value, other: &Value) -> Option<Value> {
    let mut all = own.as_array()?.clone();
    let more = other.as_array()?.iter().filter(|name| !all.contains(name));
    let more: Vec<Value> = more.cloned().collect();
    all.extend(more);
    Some(Value::Array(all))
}

/// Returns the definitions of both, where none is another's under the same name.
fn named(own: &Value, other: &Value) -> Option<Value> {
    let mut all = own.as_object()?.clone();
    for (name, schema) in other.as_object()? {
        if all.insert(name.clone(), schema.clone()).is_some_and(|first| first != *schema) {
            return None;
        }
    }
    Some(Value::Object(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn what_is_shown_takes_what_both_take() {
        let schemas = [
            json!({"type": "object"}),
            json!({}),
            json!({"additionalProperties": false}),
            json!({"properties": {"a": {"maximum": 5}}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}),
            json!({"properties": {"a": {"type": "integer", "maximum": 7}, "b": true}, "additionalProperties": false}),
            json!({"properties": {"a": {"anyOf": [{"const": 1}, {"minimum": 6}]}}, "additionalProperties": false}),
            json!({"properties": {"b": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false}}}),
            json!({"properties": {"b": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"properties": {"x": {"maxLength": 1}}}}}),
            json!({"minProperties": 1, "$schema": "http://json-schema.org/draft-07/schema#"}),
        ];
        let values = [
            json!({}),
            json!({"a": 1}),
            json!({"a": 6}),
            json!({"a": "x", "b": {}}),
            json!({"a": 6, "b": {"x": "yy"}}),
            json!({"a": 1, "b": {"x": "y"}}),
            json!({"b": {"x": 1, "y": 2}}),
            json!({"c": 1}),
        ];
        let takes = |schema: &Value, value| Schema::compile(schema).unwrap().check(value).is_ok();
        for own in &schemas {
            for other in &schemas {
                let all = together(own, other);
                for value in &values {
                    let wanted = takes(own, value) && takes(other, value);
                    assert_eq!(takes(&all, value), wanted, "{own} and {other}: {all}: {value}");
                }
                assert!(all.get("allOf").is_none(), "{all}");
            }
        }
    }

    #[test]
    fn a_bound_of_the_document_stands_beside_the_type_that_the_tool_says() {
        let own = json!({"type": "object", "properties": {"a": {"type": "integer", "title": "A"}}});
        let other = json!({"properties": {"a": {"maximum": 5, "title": "B"}}});
        let all = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 5, "title": "B"}}});
        assert_eq!(together(&own, &other), all);
    }

    #[test]
    fn of_two_words_that_do_not_go_together_one_is_shown_with_all_else() {
        let own = json!({
            "type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"],
            "additionalProperties": {}, "maxProperties": 3
        });
        let other = json!({
            "properties": {"a": {"maximum": 5}}, "additionalProperties": {"type": "string"},
            "maxProperties": 2
        });
        let all = json!({
            "type": "object", "properties": {"a": {"type": "integer", "maximum": 5}, "b": {}},
            "required": ["b"], "additionalProperties": {"type": "string"}, "maxProperties": 2
        });
        assert_eq!(together(&own, &other), all);
    }

    #[test]
    fn items_by_their_places_are_read_in_the_dialect_that_they_are_written_in() {
        let old = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"a": {"items": [{"type": "string"}]}}
        });
        let new =
            json!({"type": "object", "properties": {"a": {"prefixItems": [{"maxLength": 1}]}}});
        let plain = json!({"type": "object", "properties": {"b": {"items": {"type": "string"}}}});
        assert_eq!(together(&old, &new), new);
        assert_eq!(together(&new, &old), old);
        assert_eq!(together(&old, &plain)["properties"].as_object().unwrap().len(), 2);
        assert_eq!(together(&new, &plain)["properties"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn what_dialects_read_otherwise_is_read_in_the_one_that_it_is_written_in() {
        let dialect = |name: &str, mut schema: Value| {
            schema["$schema"] = json!(name);
            schema
        };
        let (old, new) = (
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2020-12/schema",
        );
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        for schema in [
            json!({"properties": {"a": {"$ref": "#/definitions/x", "maxLength": 1}}, "definitions": {"x": {}}}),
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"dependencies": {"a": ["b"]}}),
            json!({"properties": {"a": {"format": "email"}}}),
        ] {
            let mut other = dialect(old, schema.clone());
            other["type"] = json!("object");
            assert_eq!(together(&dialect(new, plain.clone()), &other), other);
            // What is not read anew stays what it is.
            assert_ne!(together(&plain, &other), other);
        }
        // A word beside a reference says nothing.
        let word =
            json!({"properties": {"b": {"$ref": "#/$defs/x", "title": "B"}}, "$defs": {"x": {}}});
        let all = together(&dialect(old, plain), &dialect(new, word));
        assert_eq!(
            (&all["$schema"], all["properties"].as_object().unwrap().len()),
            (&json!(old), 2)
        );
    }

    #[test]
    fn where_two_cannot_be_laid_over_each_other_the_later_is_shown() {
        let own = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        for other in [
            json!({"properties": {"b": {"$ref": "#/properties/a"}, "a": {"maximum": 1}}}),
            json!({"unevaluatedProperties": false}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"required": ["a"]}}}),
            json!({"patternProperties": {"a": {}}, "additionalProperties": false}),
        ] {
            let mut wanted = other.clone();
            wanted["type"] = json!("object");
            assert_eq!(together(&own, &other), wanted);
        }
    }
}
