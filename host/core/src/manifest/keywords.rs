//! Notes about keywords in the JSON Schemas of tools that are probably meant as others.
//!
//! A schema may hold keywords that nobody knows, so one is no error in a file; but a restriction that is misspelt
//! restricts nothing, and is easily overlooked. What a session states has to hold, so there one is.

use super::node::{Entry, Node, Place, Value};
use super::primitive::Document;
use super::problem::{DocumentError, nearest};
use super::shape::shown;
use crate::schema::positions::{NAMES, VALUES};
use crate::uri::Kind;

/// Where a Tool has schemas.
const SCHEMAS: [&str; 2] = ["input_schema", "output_schema"];
/// What holds names and values, of which none is a keyword.
const LISTS: [&str; 3] = ["$vocabulary", "dependentRequired", "example"];
/// Bytes of the longest keywords that are near to too many words: `note` is not meant as `not`.
const SHORT_BYTES_MAX: usize = 3;
/// The keywords of draft 2020-12 and of those before it, and `example`, which many write who mean no other.
const KEYWORDS: [&str; 64] = [
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor",
    "$recursiveRef", "$ref", "$schema", "$vocabulary", "additionalItems", "additionalProperties",
    "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "contentSchema",
    "default", "definitions", "dependencies", "dependentRequired", "dependentSchemas",
    "deprecated", "description", "else", "enum", "example", "examples", "exclusiveMaximum",
    "exclusiveMinimum", "format", "id", "if", "items", "maxContains", "maxItems", "maxLength",
    "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties",
    "propertyNames", "readOnly", "required", "then", "title", "type", "unevaluatedItems",
    "unevaluatedProperties", "uniqueItems", "writeOnly",
];

/// A keyword that is nearly another.
#[derive(Debug)]
pub(crate) struct Misspelt {
    at: Place,
    key: String,
    near: &'static str,
}

impl Misspelt {
    /// Says so of a file, whose author may mean what nobody else knows.
    pub(crate) fn note(&self) -> String {
        format!("{}: {}; did you mean `{}`?", self.at, self.reason(), self.near)
    }

    /// The same of what a client sent, which reads no notes and relies on what it restricts.
    pub(crate) fn problem(&self) -> DocumentError {
        let help = format!("write `{}`, or begin a keyword of your own with `x-`", self.near);
        self.at.invalid(self.reason(), help)
    }

    fn reason(&self) -> String {
        format!("`{}` is no keyword of JSON Schema and restricts nothing", self.key)
    }
}

/// Returns the keywords in the schemas of a Tool that are nearly others. What a registry's document says cannot be
/// mended here.
pub(crate) fn misspelt(of: &Document) -> Vec<Misspelt> {
    let is_own = of.is(Kind::Tool) && of.package.is_none();
    let schemas = SCHEMAS.iter().filter(|_| is_own).filter_map(|key| of.spec.entry(key));
    schemas.flat_map(|entry| misspelt_in(&entry.node)).collect()
}

/// Returns the keywords of a schema that are nearly others.
pub(crate) fn misspelt_in(schema: &Node) -> Vec<Misspelt> {
    let mut found = Vec::new();
    look(schema, &mut found);
    found
}

fn look(schema: &Node, found: &mut Vec<Misspelt>) {
    match &schema.value {
        Value::List(items) => items.iter().for_each(|item| look(item, found)),
        Value::Map(entries) => entries.iter().for_each(|entry| keyword(entry, found)),
        _ => {}
    }
}

fn keyword(entry: &Entry, found: &mut Vec<Misspelt>) {
    let Entry { key, at, node } = entry;
    let key = key.as_str();
    if !KEYWORDS.contains(&key) {
        // What a foreign keyword holds is whatever its inventor says.
        let misspelt = |near| Misspelt { at: at.clone(), key: shown(key), near };
        found.extend(meant(key).map(misspelt));
        return;
    }
    match &node.value {
        _ if VALUES.contains(&key) || LISTS.contains(&key) => {}
        Value::Map(named) if NAMES.contains(&key) => {
            named.iter().for_each(|entry| look(&entry.node, found));
        }
        _ => look(node, found),
    }
}

/// Returns the keyword that somebody probably meant who wrote `key`. What has a mark in front, as `x-format` and
/// `ui:readonly` have, is of whoever made the mark up.
fn meant(key: &str) -> Option<&'static str> {
    let is_marked = key.starts_with("x-") || key.contains([':', '@']);
    let known = KEYWORDS.into_iter().filter(|known| known.len() > SHORT_BYTES_MAX);
    nearest(key, known).filter(|_| !is_marked)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::primitive::read_document;
    use super::super::problem::Problems;
    use super::*;

    fn noted(schema: &str) -> Vec<String> {
        let text = format!(
            "claw: '0.3.0'\nkind: Tool\nmetadata: {{name: n}}\nspec:\n  description: d\n  input_schema:\n{schema}"
        );
        let read = read_document(Path::new("d.yaml"), text.as_bytes(), &mut Problems::default());
        let of = read.unwrap();
        assert!(of.sound, "{schema}");
        misspelt(&of).iter().map(Misspelt::note).collect()
    }

    #[test]
    fn a_keyword_that_is_nearly_another_is_named_with_its_line() {
        let notes = noted(
            "    type: object\n    require: [text]\n    properties:\n      text: {type: string, maxlength: 5}\n    anyOf: [{propertie: {a: {typ: string}}}]\n",
        );
        let note = |line, key, near| {
            format!(
                "d.yaml:{line}: `{key}` is no keyword of JSON Schema and restricts nothing; did you mean `{near}`?"
            )
        };
        let expected = [
            note(8, "require", "required"),
            note(10, "maxlength", "maxLength"),
            note(11, "propertie", "properties"),
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn names_values_and_foreign_keywords_are_let_be() {
        let schema = "    type: object\n    x-order: 1\n    properties: {typ: {enum: [{typ: a}]}, itemz: {default: {require: 1}}}\n    dependentRequired: {typ: [itemz]}\n    $defs: {require: {const: {typ: a}}}\n";
        assert_eq!(noted(schema), Vec::<String>::new());
        let schema = "    type: object\n    x-format: a\n    x-enum: [a]\n    'ui:readonly': true\n    '@comment': c\n    note: n\n    example: {require: 1, typ: a}\n";
        assert_eq!(noted(schema), Vec::<String>::new());
    }
}
