//! What a component, or a document, says of a tool, and what of it is taken.

use serde_json::{Map, Value, json};

use super::names::check_name;
use crate::limits::{TOOL_DESCRIPTION_BYTES_MAX, TOOL_NAME_BYTES_MAX, TOOL_SCHEMA_BYTES_MAX};
use crate::{digest, truncate};

/// A tool as its component (or document) describes it: MCP's shape.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The component's own name, for example `read_file`.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// Untrusted hints; of a bound tool what clients are shown, where the operator's word comes first.
    pub annotations: Annotations,
}

impl ToolDefinition {
    /// Returns a tool of which nothing is said but this: its arguments match `input_schema`.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema,
            output_schema: None,
            annotations: Annotations::default(),
        }
    }

    /// Says whether it says what `other` says, as far as a digest tells: what is remembered of a tool has its numbers in
    /// canonical form, and its server may write 1.0 where that has 1.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let has_one_digest = || digest::is_same(&json!(self), &json!(other));
        self == other || (self.name == other.name && has_one_digest())
    }
}

/// MCP's tool annotations: untrusted hints that may tighten a decision, never relax one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may destroy.
    pub destructive: Option<bool>,
    /// Repeating a call changes nothing more.
    pub idempotent: Option<bool>,
    /// The tool reaches an open world.
    pub open_world: Option<bool>,
}

impl Annotations {
    /// The names that MCP has for them.
    pub const KEYS: [&str; 4] =
        ["destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint"];

    /// Returns the hints that `hint` tells by MCP's names.
    pub fn of(hint: impl Fn(&str) -> Option<bool>) -> Self {
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }

    /// Returns the hint of MCP's name.
    pub fn hint(&self, key: &str) -> Option<bool> {
        match key {
            "destructiveHint" => self.destructive,
            "idempotentHint" => self.idempotent,
            "openWorldHint" => self.open_world,
            "readOnlyHint" => self.read_only,
            _ => None,
        }
    }
}

/// Says whether hints have this one, and it is true.
pub fn declares(declared: &Map<String, Value>, hint: &str) -> bool {
    declared.get(hint) == Some(&Value::Bool(true))
}

/// Checks what a component says about one tool before anything uses it.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn check_definition(definition: &ToolDefinition) -> Result<(), String> {
    let name = &definition.name;
    check_name(name)?;
    if definition.description.trim().is_empty() {
        return Err(format!("tool `{name}` has no description"));
    }
    if definition.description.len() > TOOL_DESCRIPTION_BYTES_MAX {
        return Err(format!(
            "the description of tool `{name}` is over {TOOL_DESCRIPTION_BYTES_MAX} bytes"
        ));
    }
    check_schemas(definition)
}

fn check_schemas(definition: &ToolDefinition) -> Result<(), String> {
    let schemas = std::iter::once(&definition.input_schema).chain(&definition.output_schema);
    for schema in schemas {
        if schema.to_string().len() > TOOL_SCHEMA_BYTES_MAX {
            return Err(format!(
                "a schema of tool `{}` is over {TOOL_SCHEMA_BYTES_MAX} bytes",
                definition.name
            ));
        }
    }
    match definition.input_schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => {
            Err(format!("the input schema of tool `{}` must have `type: object`", definition.name))
        }
    }
}

/// What a property may be called at most in tools that Claude's API takes.
const CLAUDE_PROPERTY_BYTES_MAX: usize = 64;

/// Returns the first property of a tool's arguments that Claude's API does not take: it refuses every request that has
/// such a tool, with all others in it.
pub fn refused_by_claude(input_schema: &Value) -> Option<&str> {
    let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let fits = |key: &str| {
        (1..=CLAUDE_PROPERTY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_name_byte)
    };
    let properties = input_schema.get("properties")?.as_object()?;
    properties.keys().map(String::as_str).find(|key| !fits(key))
}

/// Says for people that Claude's API does not take the tool `name` with these arguments.
pub fn claude_note(name: &str, input_schema: &Value) -> Option<String> {
    let key = truncate::text(refused_by_claude(input_schema)?, TOOL_NAME_BYTES_MAX);
    Some(format!(
        "`{name}` has the argument {key:?}, and Claude's API refuses whatever has a tool with such a one: call it 1 to {CLAUDE_PROPERTY_BYTES_MAX} of `a-z A-Z 0-9 _ . -`; until then the proxy leaves the tool out where Claude's messages are spoken, and other clients may fail"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_remembered_of_a_tool_says_the_same_however_its_server_writes_numbers() {
        let tool = |least: Value| ToolDefinition {
            name: "t".to_owned(),
            title: None,
            description: "d".to_owned(),
            input_schema: json!({"type": "object", "properties": {"x": {"minimum": least}}}),
            output_schema: Some(Value::Null),
            annotations: Annotations::default(),
        };
        for (said, least) in
            [(json!(0.0), json!(0)), (json!(1.0), json!(1)), (json!(0.5), json!(0.5))]
        {
            let said = tool(said);
            let remembered = digest::canonical(&json!(said));
            let remembered: ToolDefinition = serde_json::from_str(&remembered).unwrap();
            assert!(remembered.says_the_same_as(&said) && tool(least).says_the_same_as(&said));
            assert!(!remembered.says_the_same_as(&tool(json!(2))));
        }
    }

    #[test]
    fn an_argument_that_claude_does_not_take_is_named() {
        let (fits, long) = ("x".repeat(64), "x".repeat(65));
        for (key, is_refused) in [
            ("path", false),
            ("a_b.c-D9", false),
            (fits.as_str(), false),
            (long.as_str(), true),
            ("a b", true),
            ("$filter", true),
            ("größe", true),
            ("", true),
        ] {
            let schema = json!({"type": "object", "properties": {"a": {}, key: {}}});
            assert_eq!(refused_by_claude(&schema), is_refused.then_some(key));
            let note = claude_note("t", &schema);
            assert_eq!(note.is_some_and(|note| note.starts_with("`t` has")), is_refused, "{key}");
        }
        assert_eq!(refused_by_claude(&json!({"type": "object"})), None);
    }
}
