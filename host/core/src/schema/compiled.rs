//! A schema, compiled once, that values are checked against.

use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::cost::Cost;
use super::fault::Fault;
use crate::limits::{
    JSON_DEPTH_MAX, SCHEMA_EVALUATIONS_MAX, SCHEMA_PATTERN_BYTES_MAX, SCHEMA_SUBSCHEMAS_MAX,
};
use crate::{digest, truncate};

/// One mismatch, which may name all unknown properties.
const MISMATCH_BYTES_MAX: usize = 400;
/// Mismatches reported for one value; a caller mends those first.
const MISMATCHES_SHOWN_MAX: usize = 5;
/// Evaluations that take about a millisecond.
const LONG_EVALUATIONS: u64 = 20_000;

/// What [`Schema::check`] says of a value that it refuses unchecked.
pub const UNCHECKED: &str = "too large or too deeply nested to be checked against this schema";

/// A schema that values can be checked against.
#[derive(Debug)]
pub struct Schema {
    compiled: OnceLock<Result<Compiled, String>>,
    /// What is compiled where a value is checked first, of a [known](Schema::known) one.
    source: Value,
    digest: String,
}

#[derive(Debug)]
struct Compiled {
    validator: Validator,
    cost: Cost,
}

impl Schema {
    /// Compiles `schema`.
    ///
    /// # Errors
    /// A sentence naming the place: not a valid schema, a reference to another document, a
    /// pattern that is too large, or nesting over [`JSON_DEPTH_MAX`].
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let compiled = Compiled::of(schema, &mut { u64::MAX }).map_err(Fault::in_a_line)?;
        Ok(Self::new(compiled, schema))
    }

    /// Says whether `schema` is small enough to be compiled, without compiling it.
    ///
    /// # Errors
    /// What it is, in words: of too many values, or nested over [`JSON_DEPTH_MAX`].
    pub fn bounded(schema: &Value) -> Result<(), String> {
        bound(schema, JSON_DEPTH_MAX, &mut { SCHEMA_SUBSCHEMAS_MAX })
    }

    /// Returns a schema of this [`digest`](Schema::digest) that this version of the host has compiled before: it
    /// is compiled again when a value is checked first. Where it cannot be, no value fits it.
    pub fn known(schema: Value, digest: String) -> Self {
        Self { compiled: OnceLock::new(), source: schema, digest }
    }

    fn new(compiled: Compiled, schema: &Value) -> Self {
        let digest = digest::of_json(schema);
        Self { compiled: OnceLock::from(Ok(compiled)), source: Value::Null, digest }
    }

    /// As [`Schema::compile`], for one of several that may compile to so many bytes of patterns
    /// together, which are taken away.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn compile_within(schema: &Value, pattern_bytes_left: &mut u64) -> Result<Self, Fault> {
        Ok(Self::new(Compiled::of(schema, pattern_bytes_left)?, schema))
    }

    fn compiled(&self) -> Result<&Compiled, String> {
        let compile = || Compiled::of(&self.source, &mut { u64::MAX }).map_err(Fault::in_a_line);
        self.compiled.get_or_init(compile).as_ref().map_err(Clone::clone)
    }

    /// Returns `sha256:…` of its canonical form.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Checks `value`.
    ///
    /// # Errors
    /// Up to five mismatches with their places, of a large value one, for whoever sent the value. Values are not
    /// repeated, as an argument may hold a secret; names of unknown properties are. A value that
    /// would take more than [`SCHEMA_EVALUATIONS_MAX`] to check is refused [`UNCHECKED`].
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.check_with(value, |_, check| check())
    }

    /// As [`Schema::check`], with the check itself left to `run`, which is told whether it takes
    /// long enough to keep it from the threads that serve.
    ///
    /// # Errors
    /// As [`Schema::check`].
    pub fn check_with(
        &self,
        value: &Value,
        run: impl FnOnce(bool, &dyn Fn() -> Result<(), String>) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(compiled) = self.compiled.get() else {
            // Compiling takes long too.
            return run(true, &|| self.compiled().and_then(|_| self.check(value)));
        };
        let compiled = compiled.as_ref().map_err(Clone::clone)?;
        let evaluations = compiled.cost.bound(value);
        if evaluations > SCHEMA_EVALUATIONS_MAX {
            return Err(UNCHECKED.to_owned());
        }
        run(evaluations > LONG_EVALUATIONS, &|| compiled.compare(value))
    }
}

impl Compiled {
    fn of(schema: &Value, pattern_bytes_left: &mut u64) -> Result<Self, Fault> {
        Schema::bounded(schema)?;
        let pattern_bytes = usize::try_from(SCHEMA_PATTERN_BYTES_MAX).unwrap_or(usize::MAX);
        let patterns =
            PatternOptions::regex().size_limit(pattern_bytes).dfa_size_limit(pattern_bytes);
        let cost = Cost::of(schema, pattern_bytes_left)?;
        jsonschema::options()
            .with_draft(draft_of(schema)?)
            .with_pattern_options(patterns)
            // A megabyte of named groups is compared for a minute, each with each: whoever uses it will see.
            .with_format("regex", |_| true)
            .offline()
            .build(schema)
            .map(|validator| Self { validator, cost })
            .map_err(|error| Fault::of(&error))
    }

    fn compare(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        Err(self.mismatches(value).join("; "))
    }

    /// Returns the first mismatches of `value`, and no more than one of a large value: a
    /// validator makes all before it hands out any.
    fn mismatches(&self, value: &Value) -> Vec<String> {
        if self.cost.can_list(value) {
            let all = self.validator.iter_errors(value);
            return all.take(MISMATCHES_SHOWN_MAX).map(|error| mismatch(&error)).collect();
        }
        if self.cost.has_alternatives() {
            return vec!["the arguments: no match, and too large to say where".to_owned()];
        }
        self.validator.validate(value).err().iter().map(mismatch).collect()
    }
}

fn mismatch(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "the arguments".to_owned() } else { format!("`{place}`") };
    let within = misplaced(error).map(|within| format!(", and stands within {within:?}"));
    let text = format!("{place}: {}{}", error.masked(), within.unwrap_or_default());
    truncate::text(&text, MISMATCH_BYTES_MAX).to_owned()
}

/// Returns the entry that holds what is missed beside it: models put arguments into one more object.
fn misplaced<'e>(error: &'e ValidationError<'_>) -> Option<&'e str> {
    let ValidationErrorKind::Required { property } = error.kind() else { return None };
    let (name, entries) = (property.as_str()?, error.instance().as_object()?);
    let (within, _) = entries.iter().find(|(_, value)| value.get(name).is_some())?;
    Some(within.as_str())
}

/// Reads the dialect from `$schema`; an unknown one is refused rather than guessed.
fn draft_of(schema: &Value) -> Result<Draft, String> {
    let Some(uri) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    match uri.as_str().map(|uri| uri.trim_end_matches('#')) {
        Some("https://json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("https://json-schema.org/draft/2019-09/schema") => Ok(Draft::Draft201909),
        Some("http://json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        Some("http://json-schema.org/draft-06/schema") => Ok(Draft::Draft6),
        Some("http://json-schema.org/draft-04/schema") => Ok(Draft::Draft4),
        _ => Err(format!(
            "`$schema` {uri} is no dialect this host knows (2020-12, 2019-09, draft-07, -06, -04)"
        )),
    }
}

fn bound(value: &Value, depth: usize, budget: &mut usize) -> Result<(), String> {
    if depth == 0 {
        return Err(format!("nested over {JSON_DEPTH_MAX} levels"));
    }
    *budget = budget
        .checked_sub(1)
        .ok_or_else(|| format!("more than {SCHEMA_SUBSCHEMAS_MAX} values in one schema"))?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| bound(item, depth - 1, budget)),
        Value::Object(map) => map.values().try_for_each(|item| bound(item, depth - 1, budget)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path_schema() -> Schema {
        Schema::compile(&json!({
            "type": "object", "properties": {"path": {"type": "string"}},
            "required": ["path"], "additionalProperties": false
        }))
        .unwrap()
    }

    #[test]
    fn what_is_missed_and_stands_one_level_deeper_is_told_with_its_place() {
        let text = path_schema().check(&json!({"input": {"path": "hunter2"}})).unwrap_err();
        assert!(text.contains("is a required property, and stands within \"input\""), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        let text = path_schema().check(&json!({"x": ["path"], "y": "path"})).unwrap_err();
        assert!(text.contains("is a required property") && !text.contains("within"), "{text}");
    }

    #[test]
    fn a_mismatch_names_its_place_and_not_the_value() {
        let text = path_schema().check(&json!({"path": 4242})).unwrap_err();
        assert!(text.contains("/path"), "{text}");
        assert!(!text.contains("4242"), "{text}");
        assert!(path_schema().check(&json!({"path": "a"})).is_ok());
        assert!(path_schema().check(&json!({"path": "a", "x": 1})).is_err());
    }

    #[test]
    fn a_known_schema_is_compiled_with_the_first_value_and_checks_as_any_other() {
        let known = Schema::known(json!({"type": "object", "required": ["path"]}), String::new());
        let is_long = |value| {
            let mut told = None;
            let checked = known.check_with(&value, |is_long, check| {
                told = Some(is_long);
                check()
            });
            (told, checked.is_ok())
        };
        assert_eq!(is_long(json!({"x": 1})), (Some(true), false));
        assert_eq!(is_long(json!({"path": 1})), (Some(false), true));
        let broken = Schema::known(json!({"type": "no such type"}), String::new());
        assert!([json!({}), json!(1)].iter().all(|value| broken.check(value).is_err()));
    }

    #[test]
    fn older_dialects_check_formats_but_not_that_of_a_regular_expression() {
        let of = |format: &str| {
            let dialect = "http://json-schema.org/draft-07/schema#";
            Schema::compile(&json!({"$schema": dialect, "format": format})).unwrap()
        };
        assert!(of("date").check(&json!("tomorrow")).is_err());
        assert!(of("regex").check(&json!("(?<a>)(?<a>)(")).is_ok());
    }

    #[test]
    fn references_to_other_documents_are_refused() {
        for uri in [
            "http://127.0.0.1:1/s.json", "https://example.com/s", "file:///etc/passwd",
            "other.json",
        ] {
            assert!(Schema::compile(&json!({"$ref": uri})).is_err(), "{uri}");
        }
        assert!(
            Schema::compile(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}))
                .is_ok()
        );
    }

    #[test]
    fn several_schemas_have_so_many_bytes_of_patterns_together() {
        let schema = json!({"pattern": "^[a-z]+$"});
        let mut left = 5_000;
        assert!(Schema::compile_within(&schema, &mut left).is_ok());
        assert!(Schema::compile_within(&schema, &mut left).is_ok());
        let fault = Schema::compile_within(&schema, &mut left).unwrap_err();
        assert!(fault.reason.contains("all schemas together"), "{fault:?}");
        assert!(Schema::compile_within(&json!({"type": "string"}), &mut left).is_ok());
    }

    #[test]
    fn what_is_wrong_has_its_place_and_what_would_be_right() {
        for (schema, at, help) in [
            (json!({"properties": {"a": {"type": "objct"}}}), "/properties/a/type", "object"),
            (json!({"items": {"pattern": "("}}), "/items/pattern", "brackets"),
            // Properties may be called like keywords.
            (json!({"properties": {"type": "string"}}), "/properties/type", "{ type: string }"),
            (json!({"properties": {"pattern": "number"}}), "/properties/pattern", "type: number"),
            (json!({"properties": {"a": 5}}), "/properties/a", "complete in itself"),
            (json!({"items": "string"}), "/items", "write `{ type: string }`"),
            (
                json!({"properties": {"a": {"required": true}}}),
                "/properties/a/required",
                "required: [<name>]",
            ),
            (json!({"$ref": "https://example.com/s"}), "", "$defs"),
        ] {
            let fault = Schema::compile_within(&schema, &mut { u64::MAX }).unwrap_err();
            assert!(fault.at == at && fault.help.contains(help), "{fault:?}");
        }
    }

    #[test]
    fn a_value_that_would_take_forever_is_refused_unchecked() {
        let mut definitions = serde_json::Map::new();
        for link in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", link + 1)});
            definitions.insert(format!("d{link}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let bomb = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
        let error = Schema::compile(&bomb).unwrap().check(&json!({"a": 1})).unwrap_err();
        assert_eq!(error, UNCHECKED);
    }

    #[test]
    fn a_large_value_that_does_not_match_has_one_mismatch_told_or_none() {
        let names: Vec<String> = (0..40).map(|k| format!("k{k}")).collect();
        let list = json!({"type": "array", "items": {"required": names}});
        let large = Value::from(vec![json!({}); 100_000]);
        let error = |schema: &Value, value: &Value| {
            Schema::compile(schema).unwrap().check(value).unwrap_err()
        };
        assert_eq!(error(&list, &json!([{}, {}])).matches("; ").count(), 4);
        let first = error(&list, &large);
        assert!(first.starts_with("`/0`: ") && !first.contains("; "), "{first}");
        let either = error(&json!({"anyOf": [list, {"type": "null"}]}), &large);
        assert!(either.contains("too large to say where"), "{either}");
        let named = json!({"k".repeat(1_000_000): vec![json!({}); 1_000]});
        let maps = json!({"type": "object", "additionalProperties": list});
        assert!(!error(&maps, &named).contains("; "));
        // Each holds a copy of what it did not match, and in an alternative of the value as well.
        let zeros = Value::from(vec![0; 2_000]);
        let described = json!({"items": {"not": {"description": "x".repeat(100_000)}}});
        assert!(!error(&described, &zeros).contains("; "));
        let strings = Value::from(vec!["a"; 2_000]);
        let pattern = json!({"items": {"pattern": format!("^b(?:{})$", ["q"; 50_000].join("|"))}});
        assert!(!error(&pattern, &strings).contains("; "));
        let names: Vec<String> = (0..1_000).map(|k| format!("k{k}")).collect();
        let either = json!({"anyOf": [{"required": names}, {"type": "null"}]});
        let long = error(&either, &json!({"x": "y".repeat(1_000_000)}));
        assert!(long.contains("too large to say where"), "{long}");
        // What is long and matches makes no mismatch larger.
        let either =
            json!({"properties": {"mode": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
        let one = error(&either, &json!({"content": "y".repeat(1_000_000), "mode": 7}));
        assert!(one.starts_with("`/mode`: "), "{one}");
    }

    #[test]
    fn nested_records_are_checked_at_any_depth() {
        let schema = json!({
            "type": "object", "additionalProperties": false,
            "properties": {"next": {"$ref": "#"}, "any": {}},
        });
        let mut value = json!({"any": {"deep": [[[[{"a": {"b": {"c": [1, 2, 3]}}}]]]]}});
        for _ in 0..60 {
            value = json!({"next": value});
        }
        assert_eq!(Schema::compile(&schema).unwrap().check(&value), Ok(()));
    }

    #[test]
    fn long_enumerations_count_for_each_value_they_are_compared_with() {
        let many: Vec<Value> = (0..2_000).map(|k| json!({"k": k})).collect();
        let schema =
            Schema::compile(&json!({"type": "array", "contains": {"enum": many}})).unwrap();
        assert!(schema.check(&json!([{"k": 1}])).is_ok());
        assert!(schema.check(&Value::from(vec![json!({"k": -1}); 100_000])).is_err());
    }

    #[test]
    fn bombs_and_nonsense_are_refused() {
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"not": deep});
        }
        assert!(Schema::compile(&deep).is_err());
        assert!(Schema::compile(&json!({"type": "nonsense"})).is_err());
        assert!(Schema::compile(&json!({"pattern": "(a{1000}){1000}{1000}"})).is_err());
        assert!(Schema::compile(&json!({"$schema": "https://example.com/mine"})).is_err());
        assert!(Schema::compile(&json!({"anyOf": vec![json!({}); 20_000]})).is_err());
    }
}
