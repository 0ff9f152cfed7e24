//! Why a schema cannot be used, and what would be right.

use super::positions::keyword;

/// What `type` may be.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer to what is wrong; empty where that is the schema as a whole.
    pub at: String,
    /// What is wrong.
    pub reason: String,
    /// What would be right.
    pub help: String,
}

impl Fault {
    pub(super) fn in_a_line(self) -> String {
        let Self { at, reason, .. } = self;
        if at.is_empty() { reason } else { format!("{reason} (at `{at}`)") }
    }

    pub(super) fn of(error: &jsonschema::ValidationError<'_>) -> Self {
        let (at, value) = (error.instance_path().to_string(), error.instance());
        let kind = value.as_str().filter(|kind| TYPES.contains(kind));
        let (wrong, help) = match (keyword(&at), kind) {
            (Some("type"), _) => {
                (format!("{value} is no type"), format!("write one of: {}", TYPES.join(", ")))
            }
            (Some("pattern"), _) => {
                (format!("{value} is no regular expression"), BRACKETS.to_owned())
            }
            (Some("required"), _) if value.is_boolean() => {
                (format!("`required` is {value}, and a list of names"), REQUIRED.to_owned())
            }
            (None | Some("additionalProperties" | "items"), Some(kind)) => (
                format!("{value} is a type, and a schema belongs here"),
                format!("write `{{ type: {kind} }}`"),
            ),
            _ => (error.to_string(), DIALECT.to_owned()),
        };
        Self { at, reason: format!("not a valid JSON Schema: {wrong}"), help }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        let help = match reason.as_str() {
            text if text.starts_with("`$ref` to") => REFERENCE,
            text if text.contains("patterns") => PATTERNS,
            _ => DIALECT,
        };
        Self { at: String::new(), reason, help: help.to_owned() }
    }
}

const DIALECT: &str = "write a JSON Schema (draft 2020-12) that is complete in itself";
const BRACKETS: &str =
    "look at its brackets, or put `\\` before a character that stands for itself";
const REQUIRED: &str =
    "take it out here, and name the property in `required: [<name>]` beside `properties`";
const PATTERNS: &str = "write fewer patterns, or simpler ones: `\\w{1,200}` is large, `[a-z]+` with `maxLength` is not";
const REFERENCE: &str = "nothing is fetched: copy what it means into `$defs` of this schema, and write `$ref: \"#/$defs/<name>\"`";
