//! Why a schema cannot be used, and what would be right.

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
        let (reason, help) = match at.rsplit('/').next() {
            Some("type") => (
                format!("not a valid JSON Schema: {value} is no type"),
                "write one of: array, boolean, integer, null, number, object, string",
            ),
            Some("pattern") => (
                format!("not a valid JSON Schema: {value} is no regular expression"),
                "look at its brackets, or put `\\` before a character that stands for itself",
            ),
            _ => (format!("not a valid JSON Schema: {error}"), DIALECT),
        };
        Self { at, reason, help: help.to_owned() }
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
const PATTERNS: &str = "write fewer patterns, or simpler ones: `\\w{1,200}` is large, `[a-z]+` with `maxLength` is not";
const REFERENCE: &str = "nothing is fetched: copy what it means into `$defs` of this schema, and write `$ref: \"#/$defs/<name>\"`";
