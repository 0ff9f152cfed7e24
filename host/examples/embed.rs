//! A program with a host inside: one tool of its own, a provider of two, and a component beside them,
//! all on one path. `cargo run -p clawhost --example embed`

#![expect(clippy::disallowed_methods, reason = "it names the folder of its record")]

use std::error::Error;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::catalog::{Annotations, ToolDefinition};
use clawhost::manifest::{self, Surroundings};
use clawhost::registry::FileDocuments;
use clawhost::reply::{Content, ToolReply};
use clawhost::{HostBuilder, Principal, Tool, ToolCall, ToolError, ToolProvider, async_trait};
use serde_json::{Value, json};

/// One tool of this program.
struct Double;

#[async_trait]
impl Tool for Double {
    fn name(&self) -> &str {
        "double"
    }

    fn description(&self) -> &str {
        "Doubles a whole number."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": false,
        })
    }

    fn annotations(&self) -> Annotations {
        Annotations { read_only: Some(true), ..Annotations::default() }
    }

    async fn execute(&self, args: Value) -> Result<Value, ToolError> {
        let n = args.get("n").and_then(Value::as_i64).and_then(|n| n.checked_mul(2));
        let n = n.ok_or_else(|| ToolError::InvalidArgs("the number is too large".to_owned()))?;
        Ok(json!({ "doubled": n }))
    }
}

/// Two tools under one name: `rooms__list` and `rooms__book`.
struct Rooms;

#[async_trait]
impl ToolProvider for Rooms {
    fn namespace(&self) -> &str {
        "rooms"
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        let tool = |name: &str, description: &str, properties: Value| {
            let schema = json!({"type": "object", "properties": properties});
            ToolDefinition::new(name, description, schema)
        };
        vec![
            tool("list", "Lists the rooms.", json!({})),
            tool("book", "Books a room.", json!({"room": {"type": "string"}})),
        ]
    }

    async fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        match (name, args.get("room").and_then(Value::as_str)) {
            ("list", _) => Ok(json!({"rooms": ["blue", "green"]})),
            ("book", Some("blue" | "green")) => Ok(json!("booked")),
            ("book", _) => Err(ToolError::NotFound("there is no such room".to_owned())),
            _ => Err(ToolError::NotFound(format!("there is no tool `{name}`"))),
        }
    }
}

/// Makes a host from a manifest, with the tools above, and makes some calls. Returns what came of each.
///
/// # Errors
/// The documents are wrong, or the host cannot be made.
pub async fn run(manifest: &Path, audit: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let directory = std::env::current_dir()?;
    let profiles = manifest::builtin_profiles(&directory).map_err(|wrong| format!("{wrong:?}"))?;
    let around = Surroundings { directory: &directory, profiles: &profiles };
    let manifest = manifest::load(&FileDocuments, &[manifest.to_owned()], around);
    let manifest = manifest.map_err(|wrong| format!("{wrong:?}"))?;
    let audit = Dir::open_ambient_dir(audit, ambient_authority())?;
    let host = HostBuilder::new(manifest, audit).tool(Double).provider(Rooms).build().await?;

    let mut lines = Vec::new();
    for (tool, arguments) in [
        ("double", json!({"n": 21})),
        ("double", json!({"n": "many"})),
        ("rooms__list", json!({})),
        ("rooms__book", json!({"room": "red"})),
        ("read_file", json!({"path": "hello.txt"})),
    ] {
        let call = ToolCall::new(Principal("me".to_owned()), tool, arguments);
        let outcome = match host.call(call).await {
            Ok(reply) => shown(&reply),
            Err(error) => format!("error {}: {}", error.kind.code(), error.message),
        };
        lines.push(format!("{tool}: {outcome}"));
    }
    host.shutdown(std::time::Duration::from_secs(1)).await;
    Ok(lines)
}

fn shown(reply: &ToolReply) -> String {
    match (&reply.structured, reply.content.first()) {
        (Some(value), _) => value.to_string(),
        (None, Some(Content::Text(text))) => text.clone(),
        _ => "something else".to_owned(),
    }
}

#[tokio::main]
#[allow(dead_code, reason = "the tests call `run` only")]
async fn main() -> Result<(), Box<dyn Error>> {
    let audit = tempfile::tempdir()?;
    for line in run(Path::new("host/examples/manifest.yaml"), audit.path()).await? {
        println!("{line}");
    }
    Ok(())
}
