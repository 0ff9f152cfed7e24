//! What a tool may return: a value of its own, text, or blocks.

use std::io;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use crate::bindings::exports::claw::tool::tool::Output;
pub use crate::bindings::exports::claw::tool::tool::{Blob, Content};
use crate::error::ToolError;

/// The largest structured result, as JSON: what the host keeps of one call. Beyond it the host
/// would refuse the result; here the tool can still say so, within its own memory.
pub const RESULT_BYTES_MAX: usize = 10_485_760;

/// What a tool function may return.
///
/// Implemented for every [`output`](macro@crate::output) struct, which becomes structured
/// content with an output schema, and for [`Text`] and [`Blocks`].
pub trait Reply {
    /// The JSON Schema of the structured result, where there is one.
    fn output_schema() -> Option<String>;

    /// Turns the value into the result of a call.
    ///
    /// # Errors
    /// `execution-failed` where the value has no JSON form, or one above
    /// [`RESULT_BYTES_MAX`].
    fn into_output(self) -> Result<Output, ToolError>;
}

/// Plain text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

/// Any mix of text, pictures, recordings and resources, in the order they are shown.
#[derive(Debug, Clone)]
pub struct Blocks(pub Vec<Content>);

impl Reply for Text {
    fn output_schema() -> Option<String> {
        None
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Blocks(vec![Content::Text(self.0)]).into_output()
    }
}

impl Reply for Blocks {
    fn output_schema() -> Option<String> {
        None
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Ok(Output { content: self.0, structured: None })
    }
}

impl<T: Serialize + JsonSchema> Reply for T {
    fn output_schema() -> Option<String> {
        Some(schema_of::<T>(SchemaSettings::draft2020_12().for_serialize()))
    }

    fn into_output(self) -> Result<Output, ToolError> {
        let mut json = Bounded(Vec::new());
        serde_json::to_writer(&mut json, &self).map_err(|error| {
            ToolError::failed(if error.is_io() {
                format!("the result has more than {RESULT_BYTES_MAX} bytes as JSON; ask for less")
            } else {
                format!("the result has no JSON form: {error}")
            })
        })?;
        let json = String::from_utf8(json.0)
            .map_err(|_| ToolError::failed("the result's JSON form is not UTF-8"))?;
        Ok(Output { content: Vec::new(), structured: Some(json) })
    }
}

/// Takes [`RESULT_BYTES_MAX`] bytes and no more.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > RESULT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The schema of `T` as a model wants it: in one piece, without the Rust names of its types.
pub(crate) fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> String {
    let mut settings = settings.with_transform(RecursiveTransform(tidy));
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    schema.to_value().to_string()
}

/// Drops what says nothing: Rust's number formats, defaults of `null`, ends of source lines.
fn tidy(schema: &mut Schema) {
    schema.remove("format");
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let text = unwrapped(text);
        schema.insert("description".to_owned(), text.into());
    }
}

/// Doc comment lines as paragraphs: a blank line separates, other line ends are spaces.
pub(crate) fn unwrapped(doc: &str) -> String {
    let mut text = String::with_capacity(doc.len());
    for line in doc.lines().map(str::trim) {
        if line.is_empty() {
            text.push_str("\n\n");
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Sample {
        /// How many
        /// there are.
        #[serde(default)]
        count: Option<u32>,
    }

    #[test]
    fn a_result_is_bounded_by_its_json_form() {
        // A control character takes six bytes.
        let fits = "\u{1}".repeat((RESULT_BYTES_MAX - 2) / 6);
        assert!(fits.clone().into_output().is_ok());
        let refused = (fits + "\u{1}").into_output();
        assert!(
            matches!(refused, Err(ToolError::ExecutionFailed(why)) if why.contains("10485760"))
        );
    }

    #[test]
    fn a_schema_says_only_what_matters() {
        let schema = schema_of::<Sample>(SchemaSettings::draft2020_12());
        let expected = r#"{"properties":{"count":{"description":"How many there are.","minimum":0,"type":["integer","null"]}},"type":"object"}"#;
        assert_eq!(schema, expected);
    }

    #[test]
    fn a_description_is_its_doc_comment_without_line_ends() {
        assert_eq!(unwrapped(" Reads\n a file.\n\n Whole.\n"), "Reads a file.\n\nWhole.");
    }
}
