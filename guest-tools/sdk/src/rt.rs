//! What [`export!`](crate::export) expands to. Not for direct use.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

pub use crate::bindings::exports::claw::tool::tool::{Annotations, Definition, Guest, Output};
use crate::error::ToolError;
use crate::log;
use crate::reply::{Reply, schema_of, unwrapped};

/// Hints about a tool, one method each.
#[derive(Debug, Default, Clone, Copy)]
pub struct Hints {
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl Hints {
    /// The tool does not change its environment.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read_only: Some(true), ..self }
    }

    /// The tool changes its environment.
    #[must_use]
    pub fn writes(self) -> Self {
        Self { read_only: Some(false), ..self }
    }

    /// The tool may destroy or overwrite.
    #[must_use]
    pub fn destructive(self) -> Self {
        Self { destructive: Some(true), ..self.writes() }
    }

    /// The tool only adds.
    #[must_use]
    pub fn additive(self) -> Self {
        Self { destructive: Some(false), ..self.writes() }
    }

    /// A second call with the same arguments has no further effect.
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { idempotent: Some(true), ..self }
    }

    /// The tool reaches things nobody listed, such as the web.
    #[must_use]
    pub fn open_world(self) -> Self {
        Self { open_world: Some(true), ..self }
    }

    /// The tool reaches a closed world, such as one folder.
    #[must_use]
    pub fn closed_world(self) -> Self {
        Self { open_world: Some(false), ..self }
    }

    fn annotations(self) -> Annotations {
        Annotations {
            read_only: self.read_only,
            destructive: self.destructive,
            idempotent: self.idempotent,
            open_world: self.open_world,
        }
    }
}

/// Describes one tool; its schemas come from the types of its function.
pub fn define<A, R>(
    name: &str,
    doc: &str,
    hints: Hints,
    _run: fn(&A) -> Result<R, ToolError>,
) -> Definition
where
    A: DeserializeOwned + JsonSchema,
    R: Reply,
{
    Definition {
        name: name.to_owned(),
        title: Some(title(name)),
        description: unwrapped(doc),
        input_schema: schema_of::<A>(SchemaSettings::draft2020_12()),
        output_schema: R::output_schema(),
        annotations: hints.annotations(),
    }
}

/// Runs one tool.
///
/// # Errors
/// `invalid-args` where the arguments do not fit its type, else whatever the tool says.
pub fn run<A, R>(arguments: &str, tool: fn(&A) -> Result<R, ToolError>) -> Result<Output, ToolError>
where
    A: DeserializeOwned,
    R: Reply,
{
    let arguments = read(arguments).map_err(|error| ToolError::invalid_args(error.to_string()))?;
    tool(&arguments)?.into_output()
}

/// Reads arguments. To JSON Schema `5.0` is an integer, and to Rust it is none: where they do not fit
/// as they are, such numbers are read as integers.
fn read<A: DeserializeOwned>(arguments: &str) -> serde_json::Result<A> {
    serde_json::from_str(arguments).or_else(|error| {
        let mut value = serde_json::from_str(arguments)?;
        make_integers(&mut value);
        serde_json::from_value(value).map_err(|_| error)
    })
}

fn make_integers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(make_integers),
        Value::Object(entries) => entries.values_mut().for_each(make_integers),
        Value::Number(number) => {
            if let Some(integer) = integer(number) {
                *number = integer.into();
            }
        }
        Value::Bool(_) | Value::Null | Value::String(_) => {}
    }
}

/// The integer that a number with a fraction of zero is.
fn integer(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
    format!("{float:.0}").parse().ok()
}

/// Answers a call of a tool this component does not offer.
///
/// # Errors
/// Always `not-found`.
pub fn unknown(name: &str) -> Result<Output, ToolError> {
    Err(ToolError::NotFound(format!("this component has no tool {name:?}")))
}

/// Lets a panic's text reach the host's log; the trap that follows carries none.
pub fn hand_panics_to_the_log() {
    std::panic::set_hook(Box::new(|panic| log::error(&panic.to_string())));
}

/// `read_file` becomes "Read file".
fn title(name: &str) -> String {
    let mut letters = name.chars();
    let Some(first) = letters.next() else {
        return String::new();
    };
    first.to_uppercase().chain(letters).collect::<String>().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_name_in_words() {
        assert_eq!(title("read_file"), "Read file");
        assert_eq!(title(""), "");
    }

    #[test]
    fn arguments_that_do_not_fit_are_invalid_args() {
        fn tool(_: &u8) -> Result<crate::Text, ToolError> {
            Ok(crate::Text(String::new()))
        }
        assert!(matches!(run("300", tool), Err(ToolError::InvalidArgs(_))));
        assert!(run("3", tool).is_ok());
    }

    #[test]
    fn an_integer_may_have_a_fraction_of_zero() {
        assert_eq!(read::<Vec<u32>>("[5.0, 2e3, -0.0, 7]").unwrap(), [5, 2_000, 0, 7]);
        for arguments in ["[5.5]", "[1e30]"] {
            let why = read::<Vec<u32>>(arguments).unwrap_err().to_string();
            assert!(why.contains("floating point"), "{why}");
        }
        // What fits as it is, stays so.
        assert_eq!(read::<Value>("[5.0]").unwrap().to_string(), "[5.0]");
        assert_eq!(read::<(f64, u8)>("[0.5, 5.0]").unwrap(), (0.5, 5));
    }
}
