//! Shapes and values in words: what is there, and what belongs there.

use super::{Field, Shape, keys, possible};
use crate::manifest::kinds::spec_shape;
use crate::manifest::node::{Node, Value};

pub(super) fn found(node: &Node) -> String {
    match &node.value {
        Value::Flag(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Value::Text(text) => format!("the text `{}`", shown(text)),
        Value::List(_) | Value::Map(_) | Value::Null => node.describe().to_owned(),
    }
}

/// Says in words what belongs there; `path` ends in the key, whose ending tells the unit.
pub(crate) fn expected(shape: &Shape, path: &str) -> String {
    match shape {
        Shape::Any => "a value".to_owned(),
        Shape::Entry(kind) => {
            let shape = spec_shape(*kind);
            let mut names: Vec<_> = needed(shape).map(|field| field.name).collect();
            if names.is_empty() {
                // What is there in most cases.
                names.extend(keys(shape).into_iter().take(2));
            }
            let spec = names.iter().map(|name| format!("{name}: …")).collect::<Vec<_>>().join(", ");
            format!("`inline: {{ {spec} }}`, a path, or a claw:// address")
        }
        Shape::OpenRecord(_) if path.ends_with("_schema") => {
            "a JSON Schema, for example `{ type: object }`".to_owned()
        }
        Shape::Dict(_) | Shape::OpenRecord(_) => "a mapping".to_owned(),
        Shape::Duration => "a time such as 90s, 5m, 24h or 30d".to_owned(),
        Shape::Flag | Shape::Off { .. } => "true or false".to_owned(),
        Shape::Later { .. } => "nothing".to_owned(),
        Shape::Int { min, max } if min == max => min.to_string(),
        Shape::Int { min, max: u64::MAX } => {
            format!("a whole number of {min} or more{}", unit(path))
        }
        Shape::Int { min, max } => format!("a whole number from {min} to {max}{}", unit(path)),
        Shape::List { of, .. } => format!("a list, each entry {}", expected(of, path)),
        Shape::OneOf(known) | Shape::Served { now: known, .. } => {
            format!("one of: {}", known.join(", "))
        }
        Shape::Real { max } if *max < f64::MAX => format!("a number from 0 to {max}{}", unit(path)),
        Shape::Real { .. } => format!("a number of 0 or more{}", unit(path)),
        Shape::Record(fields) => mapping(fields),
        Shape::Path => "a path".to_owned(),
        Shape::Text { .. } => "a text".to_owned(),
    }
}

/// Returns the keys that a mapping of this shape has to hold.
fn needed(shape: &'static Shape) -> impl Iterator<Item = &'static Field> {
    let fields: &[Field] = if let Shape::Record(fields) = shape { fields } else { &[] };
    fields.iter().filter(|field| field.required)
}

fn mapping(fields: &'static [Field]) -> String {
    let must = fields.iter().filter(|field| field.required).map(|field| field.name);
    let must: Vec<&str> = must.collect();
    let may: Vec<&str> = possible(fields).filter(|name| !must.contains(name)).collect();
    match (must.is_empty(), may.is_empty()) {
        (true, _) => format!("a mapping with any of the keys {}", may.join(", ")),
        (_, true) => format!("a mapping with the keys {}", must.join(", ")),
        _ => format!(
            "a mapping with the keys {} (also possible: {})",
            must.join(", "),
            may.join(", ")
        ),
    }
}

/// Returns the value of a shape that has one alone.
pub(super) fn only(shape: &Shape) -> Option<String> {
    match shape {
        Shape::OneOf([value]) => Some((*value).to_owned()),
        Shape::Int { min, max } if min == max => Some(min.to_string()),
        _ => None,
    }
}

/// The units that numbers have, by the ending of their keys.
const UNITS: [(&str, &str); 6] = [
    ("_bytes", " (bytes)"),
    ("_mb", " (MiB)"),
    ("_minutes", " (minutes)"),
    ("_ms", " (milliseconds)"),
    ("_seconds", " (seconds)"),
    ("_usd", " (US dollars)"),
];

fn unit(path: &str) -> &'static str {
    let key = path.strip_suffix("_max").unwrap_or(path);
    UNITS.iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| *unit)
}

/// Says where quotes make the difference.
pub(super) fn quotes(node: &Node, shape: &Shape) -> &'static str {
    match (shape, &node.value) {
        (Shape::Text { .. } | Shape::Path, Value::Number(_) | Value::Flag(_)) => ", in quotes",
        (Shape::Text { .. } | Shape::Path, Value::Text(_)) => " that is not empty",
        (Shape::Int { .. } | Shape::Real { .. }, Value::Text(text))
            if text.parse::<f64>().is_ok() =>
        {
            ", without quotes"
        }
        (Shape::Flag, Value::Text(text)) if matches!(text.as_str(), "true" | "false") => {
            ", without quotes"
        }
        _ => "",
    }
}

/// Keeps a quoted text readable and on one line.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() { format!("{cut}…") } else { cut }
}

/// Keeps another library's sentence on one line, and harmless.
pub(crate) fn shown_sentence(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
