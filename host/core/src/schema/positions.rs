//! Where in a schema there are schemas, and where only values or names.

use serde_json::Value;

/// What a schema holds as values: nothing in it is a schema.
pub(crate) const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// What a schema holds by names, which are no keywords, whatever they are.
pub(crate) const NAMES: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Says whether `is` holds for `node` or anything below it that is a schema, or could be one.
pub(super) fn any_schema(node: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
    is(node)
        || match node {
            Value::Array(items) => items.iter().any(|item| any_schema(item, is)),
            Value::Object(map) => map.iter().any(|(keyword, value)| match value {
                _ if VALUES.contains(&keyword.as_str()) => false,
                Value::Object(named) if NAMES.contains(&keyword.as_str()) => {
                    named.values().any(|schema| any_schema(schema, is))
                }
                value => any_schema(value, is),
            }),
            _ => false,
        }
}

/// Says whether a pointer leads into what a schema holds as values: taken for a schema, that could be anything.
pub(super) fn leads_into_values(pointer: &str) -> bool {
    keywords(pointer).flatten().any(|keyword| VALUES.contains(&keyword))
}

/// Returns the keyword that a pointer ends in; nothing where that is a name of the author's, whatever it is.
pub(super) fn keyword(pointer: &str) -> Option<&str> {
    keywords(pointer).last().flatten()
}

/// Returns the steps of a pointer, but those that are names.
fn keywords(pointer: &str) -> impl Iterator<Item = Option<&str>> {
    let mut is_keyword = true;
    pointer.split('/').skip(1).map(move |token| {
        let keyword = Some(token).filter(|_| is_keyword);
        is_keyword = keyword.is_none_or(|keyword| !NAMES.contains(&keyword));
        keyword
    })
}

/// Says whether `is` holds for `node` or anything below it.
pub(super) fn any(node: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
    is(node)
        || match node {
            Value::Array(items) => items.iter().any(|item| any(item, is)),
            Value::Object(map) => map.values().any(|item| any(item, is)),
            _ => false,
        }
}
