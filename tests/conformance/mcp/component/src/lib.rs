//! The tools that the MCP conformance suite calls by name. Nothing in the host knows them.
//!
//! Deliberately absent: what a component cannot do, which is to ask its caller's client for anything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claw_tool::bindings::claw::host::progress;
use claw_tool::bindings::exports::claw::tool::tool::{ResourceBody, ResourceContent};
use claw_tool::bindings::wasi::clocks::monotonic_clock;
use claw_tool::rt::{Annotations, Definition, Guest, Output};
use claw_tool::{Blob, Content, ToolError};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// A recording of one sample.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const ANYTHING: &str = r#"{"type": "object"}"#;
/// Every keyword that the suite looks for.
const SCHEMA: &str = include_str!("schema.json");

/// What a tool does with its arguments, as JSON.
type Run = fn(&str) -> Result<Vec<Content>, ToolError>;

/// Each tool: its name, the schema of its arguments, and what it does.
const TOOLS: [(&str, &str, Run); 8] = [
    ("json_schema_2020_12_tool", SCHEMA, |arguments| Ok(vec![Content::Text(arguments.to_owned())])),
    ("test_audio_content", ANYTHING, |_| Ok(vec![Content::Audio(blob(WAV, "audio/wav")?)])),
    ("test_embedded_resource", ANYTHING, |_| {
        let text = "This is an embedded resource content.";
        Ok(vec![resource("test://embedded-resource", "text/plain", text)])
    }),
    ("test_error_handling", ANYTHING, |_| {
        Err(ToolError::failed("This tool intentionally returns an error for testing"))
    }),
    ("test_image_content", ANYTHING, |_| Ok(vec![Content::Image(blob(PNG, "image/png")?)])),
    ("test_multiple_content_types", ANYTHING, |_| {
        let json = r#"{"test":"data","value":123}"#;
        Ok(vec![
            text("Multiple content types test:"),
            Content::Image(blob(PNG, "image/png")?),
            resource("test://mixed-content-resource", "application/json", json),
        ])
    }),
    ("test_simple_text", ANYTHING, |_| {
        Ok(vec![text("This is a simple text response for testing.")])
    }),
    ("test_tool_with_progress", ANYTHING, |_| {
        for step in [0.0, 50.0, 100.0] {
            progress::report(step, Some(100.0), None);
            // The host passes on no more than ten reports a second.
            monotonic_clock::subscribe_duration(150_000_000).block();
        }
        Ok(vec![text("done")])
    }),
];

struct Component;

impl Guest for Component {
    fn describe() -> Vec<Definition> {
        let describe = |(name, schema, _): &(&str, &str, Run)| Definition {
            name: (*name).to_owned(),
            title: None,
            description: format!("The tool {name} of the conformance suite."),
            input_schema: (*schema).to_owned(),
            output_schema: None,
            annotations: Annotations {
                read_only: Some(true),
                destructive: None,
                idempotent: Some(true),
                open_world: Some(false),
            },
        };
        TOOLS.iter().map(describe).collect()
    }

    fn call(name: String, arguments: String) -> Result<Output, ToolError> {
        let tool = TOOLS.iter().find(|(own, ..)| *own == name);
        let Some((_, _, run)) = tool else { return claw_tool::rt::unknown(&name) };
        Ok(Output { content: run(&arguments)?, structured: None })
    }
}

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn blob(base64: &str, mime_type: &str) -> Result<Blob, ToolError> {
    let data = STANDARD.decode(base64).map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(Blob { data, mime_type: mime_type.to_owned() })
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    Content::Resource(ResourceContent {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        body: ResourceBody::Text(text.to_owned()),
    })
}

#[cfg(target_arch = "wasm32")]
::claw_tool::bindings::export_component!(Component with_types_in claw_tool::bindings);
// Elsewhere there is nobody to export to.
#[cfg(not(target_arch = "wasm32"))]
const _: fn() -> Vec<Definition> = <Component as Guest>::describe;
