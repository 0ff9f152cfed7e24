//! `clawhost call`: one call through the whole path.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::catalog::Tool;
use clawhost_core::error::{ErrorKind, exit};
use clawhost_core::json;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::visible;
use serde_json::{Map, Value};

use super::args::CallArgs;
use super::fail::Fail;
use super::{log, setup, show};
use crate::host::{Principal, ToolCall};

/// The name in records of a call made from the command line.
const PRINCIPAL: &str = "cli";

pub(super) async fn run(args: CallArgs) -> Result<u8, Fail> {
    let setup = setup::open(std::slice::from_ref(&args.manifest), &args.places, None).await?;
    let catalog = setup.host.catalog();
    let tool = catalog.find(&args.tool).map(Arc::as_ref);
    let arguments = arguments(tool, &args.arguments)?;
    let call = ToolCall {
        timeout: args.timeout_ms.map(Duration::from_millis),
        ..ToolCall::new(Principal(PRINCIPAL.to_owned()), &args.tool, arguments)
    };
    // An unknown tool is called all the same: the record shows that somebody tried.
    let reply = setup.host.call(call).await.map_err(|error| match error.kind {
        ErrorKind::UnknownTool => unknown(&args.tool, &setup.host),
        _ => Fail::Call(error),
    })?;
    // What was logged on the way stands above the result.
    log::flush();
    if args.json {
        show::json(&crate::serve::result_json(reply.clone()));
    } else {
        print(&reply);
    }
    Ok(if reply.is_error { exit::TOOL_FAILED } else { exit::OK })
}

fn unknown(name: &str, host: &crate::Host) -> Fail {
    let catalog = host.catalog();
    let ckp = clawhost_core::catalog::ckp_name(name);
    if let Some(refused) = catalog.refused.iter().find(|refused| {
        refused.reason.contains(&format!("`{name}`"))
            || refused.reason.contains(&format!("`{ckp}`"))
    }) {
        return Fail::new(
            exit::DOCUMENT,
            format!(
                "the tool `{name}` could not be loaded from {}: {}",
                refused.source, refused.reason
            ),
        );
    }
    let names: Vec<&str> = catalog.tools().map(|tool| tool.definition.name.as_str()).collect();
    Fail::usage(format!("unknown tool `{name}`"), &format!("there are: {}", names.join(", ")))
}

/// Reads one JSON object, or `key=value` pairs typed by the tool's schema.
fn arguments(tool: Option<&Tool>, words: &[String]) -> Result<Value, Fail> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return json::parse(only.as_bytes()).map_err(|e| {
            Fail::usage(
                format!("the arguments are no JSON object: {e}"),
                "quote them for the shell: '{\"path\": \"a.txt\"}'",
            )
        });
    }
    let mut object = Map::new();
    for word in words {
        let Some((key, text)) = word.split_once('=') else {
            return Err(Fail::usage(
                format!("`{word}` is no key=value pair"),
                "write path=hello.txt, or one JSON object",
            ));
        };
        if object.insert(key.to_owned(), typed(tool, key, text)?).is_some() {
            return Err(Fail::usage(format!("`{key}` is given twice"), "give each argument once"));
        }
    }
    Ok(Value::Object(object))
}

fn typed(tool: Option<&Tool>, key: &str, text: &str) -> Result<Value, Fail> {
    let place = format!("/properties/{}/type", key.replace('~', "~0").replace('/', "~1"));
    let wanted = tool.and_then(|tool| tool.definition.input_schema.pointer(&place));
    let is_text = match wanted {
        Some(Value::Array(types)) => types.iter().any(|name| name == "string"),
        Some(name) => name == "string",
        None => true,
    };
    if is_text {
        return Ok(Value::from(text));
    }
    let mend = format!("the schema wants {}", wanted.unwrap_or(&Value::Null));
    serde_json::from_str(text)
        .map_err(|_| Fail::usage(format!("`{key}={text}` is no such value"), &mend))
}

fn print(reply: &ToolReply) {
    if reply.content.is_empty() {
        match &reply.structured {
            Some(value) => show::json(value),
            None => show::line("(no content)"),
        }
    }
    for block in &reply.content {
        match block {
            Content::Text(text) if reply.is_error => eprintln!("{}", visible::block(text)),
            Content::Text(text) => show::line(text),
            Content::Image { data, mime_type } | Content::Audio { data, mime_type } => {
                show::line(&format!("({mime_type}, {} bytes)", data.len()));
            }
            Content::Resource { uri, .. } => show::line(&format!("(resource {uri})")),
        }
    }
}
