//! A server's list of tools: all its pages, within bounds, or none.
//!
//! Deliberately absent: judging what the definitions say. Names and texts are the server's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use clawhost_core::catalog::{Annotations, ToolDefinition};
use clawhost_core::exposed::without_hidden;
use clawhost_core::limits::{
    BRIDGE_DEFINITIONS_BYTES_MAX, BRIDGE_PAGES_MAX, BRIDGE_TOKEN_BYTES_MAX, BRIDGE_TOOLS_MAX,
    MCP_TOOL_NAME_BYTES_MAX,
};
use clawhost_core::redact::Redactor;
use clawhost_core::truncate;
use serde_json::{Value, json};

use super::failure::Failure;
use super::message::METHOD_NOT_FOUND;
use super::reply::wrong;
use super::session::{Ask, ServerSession};
use crate::offload;

impl ServerSession {
    /// Returns all tools, without secrets in what is said of them.
    pub(super) async fn tools(
        &self,
        redactor: &Redactor,
        deadline: Instant,
    ) -> Result<Arc<[ToolDefinition]>, Failure> {
        let tools = self.pages("tools/list", "tools", deadline).await?;
        // A server knows its secrets, and what it says is remembered and shown.
        let read = |tool| {
            read(&clean(redactor, tool)).ok_or_else(|| wrong("a tool of its list has no name"))
        };
        let read = || tools.into_iter().map(read).collect::<Result<_, _>>();
        whole(offload::blocking(true, read)?)
    }

    /// Returns all pages of what `method` lists under `key`.
    pub(super) async fn pages(
        &self,
        method: &'static str,
        key: &str,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failure> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        let mut cursors = BTreeSet::new();
        let mut params = String::new();
        for _ in 0..BRIDGE_PAGES_MAX {
            let ask = Ask { params, ..Ask::new(method, deadline) };
            let mut page = match self.ask(ask).await {
                // A server that has none need not know the method.
                Err(Failure::Refused { code: METHOD_NOT_FOUND, .. }) if cursors.is_empty() => {
                    return Ok(items);
                }
                page => page?,
            };
            take(key, page.get_mut(key).map(Value::take), &mut items, &mut bytes)?;
            match page.get("nextCursor") {
                None | Some(Value::Null) => return Ok(items),
                Some(Value::String(next)) if next.len() <= BRIDGE_TOKEN_BYTES_MAX => {
                    params = format!(r#""cursor":{}"#, json!(next));
                    if !cursors.insert(next.clone()) {
                        return Err(wrong(format!("its list of {key} goes in a circle")));
                    }
                }
                Some(_) => return Err(wrong("the next page of its list has no usable name")),
            }
        }
        Err(wrong(format!("its list of {key} has over {BRIDGE_PAGES_MAX} pages")))
    }
}

/// Returns a tool without secrets. What hides is not served: where a secret shows once it is gone, it goes here.
fn clean(redactor: &Redactor, tool: Value) -> Value {
    let tool = redactor.json(tool);
    let mut served = tool.clone();
    without_hidden(&mut served);
    if redactor.is_in([&served]) { redactor.json(served) } else { tool }
}

/// Adds the items of one page.
fn take(
    key: &str,
    page: Option<Value>,
    items: &mut Vec<Value>,
    bytes: &mut usize,
) -> Result<(), Failure> {
    let Some(Value::Array(page)) = page else {
        return Err(wrong(format!("a page of its list has no `{key}`")));
    };
    if items.len() + page.len() > BRIDGE_TOOLS_MAX {
        return Err(wrong(format!("it has over {BRIDGE_TOOLS_MAX} {key}")));
    }
    *bytes += page.iter().map(|item| item.to_string().len()).sum::<usize>();
    if *bytes > BRIDGE_DEFINITIONS_BYTES_MAX {
        let text = format!("its list of {key} is over {BRIDGE_DEFINITIONS_BYTES_MAX} bytes");
        return Err(wrong(text));
    }
    items.extend(page);
    Ok(())
}

/// A name that comes twice is nobody's: which of the two is meant could change with each list.
fn whole(tools: Vec<ToolDefinition>) -> Result<Arc<[ToolDefinition]>, Failure> {
    let mut names = BTreeSet::new();
    match tools.iter().find(|tool| !names.insert(tool.name.as_str())) {
        Some(twice) => Err(wrong(format!("two tools of its list are called {:?}", twice.name))),
        None => Ok(tools.into()),
    }
}

fn read(tool: &Value) -> Option<ToolDefinition> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let hint = |key: &str| tool.get("annotations")?.get(key)?.as_bool();
    Some(ToolDefinition {
        // What is longer can be no name, however much longer it is.
        name: truncate::text(&text("name")?, MCP_TOOL_NAME_BYTES_MAX + 1).to_owned(),
        title: text("title"),
        description: text("description").unwrap_or_default(),
        input_schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        // A library writes null of what it has not.
        output_schema: tool.get("outputSchema").filter(|schema| !schema.is_null()).cloned(),
        annotations: Annotations::of(hint),
    })
}

#[cfg(test)]
mod tests {
    use clawhost_core::bridged;

    use super::*;

    #[test]
    fn a_schema_that_is_null_is_none() {
        let tool = json!({"name": "t", "title": null, "inputSchema": {"type": "object"}, "outputSchema": null, "annotations": null});
        let read = read(&tool).unwrap();
        assert_eq!((read.output_schema, read.title), (None, None));
    }

    #[test]
    fn a_secret_that_shows_once_what_hides_is_gone_is_in_nothing_that_is_served() {
        let redactor = Redactor::new([("T", b"abcdefgh".as_slice())]).unwrap();
        let tool = |text: &str| {
            json!({"name": "t", "title": text, "description": text,
                "inputSchema": {"type": "object", "title": text}})
        };
        for text in ["abcdefgh", "abc\u{200b}defgh", "%61b\u{202e}cdefgh"] {
            let read = read(&clean(&redactor, tool(text))).unwrap();
            let served = bridged::cleaned(&read, "s__t").unwrap();
            assert_eq!(served.description, "[redacted:T]");
            assert_eq!(served.title.as_deref(), Some("[redacted:T]"));
            assert_eq!(served.input_schema["title"], "[redacted:T]");
        }
        // What else hides is kept for those who compare.
        let other = tool("ab\u{200b}cd");
        assert_eq!(clean(&redactor, other.clone()), other);
    }
}
