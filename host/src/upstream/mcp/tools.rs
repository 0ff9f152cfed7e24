//! A server's list of tools: all its pages, within bounds, or none.
//!
//! Deliberately absent: judging what the definitions say. Names and texts are the server's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use clawhost_core::catalog::{Annotations, ToolDefinition};
use clawhost_core::limits::{
    BRIDGE_DEFINITIONS_BYTES_MAX, BRIDGE_PAGES_MAX, BRIDGE_TOKEN_BYTES_MAX, BRIDGE_TOOLS_MAX,
};
use serde_json::{Value, json};

use super::failure::Failure;
use super::message::METHOD_NOT_FOUND;
use super::session::{Ask, Session};

impl Session {
    /// Returns all tools.
    pub(super) async fn tools(&self, deadline: Instant) -> Result<Arc<[ToolDefinition]>, Failure> {
        let (mut tools, mut bytes) = (Vec::new(), 0);
        let mut cursors = BTreeSet::new();
        let mut params = String::new();
        for _ in 0..BRIDGE_PAGES_MAX {
            let ask = Ask { params, ..Ask::new("tools/list", deadline) };
            let page = match self.ask(ask).await {
                // A server without tools need not know the method.
                Err(Failure::Refused { code: METHOD_NOT_FOUND, .. }) if cursors.is_empty() => {
                    return Ok(Arc::new([]));
                }
                page => page?,
            };
            take(page.get("tools"), &mut tools, &mut bytes)?;
            match page.get("nextCursor") {
                None | Some(Value::Null) => return whole(tools),
                Some(Value::String(next)) if next.len() <= BRIDGE_TOKEN_BYTES_MAX => {
                    params = format!(r#""cursor":{}"#, json!(next));
                    if !cursors.insert(next.clone()) {
                        return Err(wrong("its list of tools goes in a circle"));
                    }
                }
                Some(_) => return Err(wrong("the next page of its list has no usable name")),
            }
        }
        Err(wrong(format!("its list of tools has over {BRIDGE_PAGES_MAX} pages")))
    }
}

fn wrong(reason: impl Into<String>) -> Failure {
    Failure::Wrong(reason.into())
}

/// Adds the tools of one page.
fn take(
    page: Option<&Value>,
    tools: &mut Vec<ToolDefinition>,
    bytes: &mut usize,
) -> Result<(), Failure> {
    let Some(Value::Array(page)) = page else {
        return Err(wrong("a page of its list has no `tools`"));
    };
    if tools.len() + page.len() > BRIDGE_TOOLS_MAX {
        return Err(wrong(format!("it has over {BRIDGE_TOOLS_MAX} tools")));
    }
    *bytes += page.iter().map(|tool| tool.to_string().len()).sum::<usize>();
    if *bytes > BRIDGE_DEFINITIONS_BYTES_MAX {
        let text = format!("its list of tools is over {BRIDGE_DEFINITIONS_BYTES_MAX} bytes");
        return Err(wrong(text));
    }
    for tool in page {
        tools.push(read(tool).ok_or_else(|| wrong("a tool of its list has no name"))?);
    }
    Ok(())
}

/// A name that comes twice is nobody's: which of the two is meant could change with each list.
fn whole(tools: Vec<ToolDefinition>) -> Result<Arc<[ToolDefinition]>, Failure> {
    let mut names = BTreeSet::new();
    match tools.iter().find(|tool| !names.insert(tool.name.as_str())) {
        Some(_) => Err(wrong("two tools of its list have the same name")),
        None => Ok(tools.into()),
    }
}

fn read(tool: &Value) -> Option<ToolDefinition> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let hint = |key: &str| tool.get("annotations")?.get(key)?.as_bool();
    Some(ToolDefinition {
        name: text("name")?,
        title: text("title"),
        description: text("description").unwrap_or_default(),
        input_schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        output_schema: tool.get("outputSchema").cloned(),
        annotations: Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
    })
}
