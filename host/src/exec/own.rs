//! Runs the host's own tools: they tell an agent of other tools, and of its own results.

use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{FIND_TOOLS_MAX, FIND_TOOLS_PER_CALL, RESULT_PAGE_BYTES_MAX};
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::{find, json, truncate};
use serde_json::{Value, json};

use crate::gate::{Admitted, CallContext, Gate};
use crate::offload;
use crate::registry::{OwnTool, Shelf};
use crate::results::Results;

/// More tools than this are ranked off the threads that serve.
const RANKED_AT_ONCE_MAX: usize = 500;

/// What a reply holds beside the text of a page.
const AROUND_A_PAGE_BYTES: usize = 1_024;
/// The least of a page, however small replies are to be: reading on gets on.
const PAGE_BYTES_MIN: usize = 256;

/// What these tools look at.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'a> {
    /// Says who is offered what.
    pub gate: &'a Gate,
    /// Has the tools.
    pub shelf: &'a Shelf,
    /// Keeps what was cut.
    pub results: &'a Results,
    /// Says which tools the caller's session has.
    pub context: &'a CallContext,
    /// A reply, in bytes of JSON.
    pub reply_bytes_max: usize,
}

/// Runs `admitted`.
///
/// # Errors
/// The store of results cannot be used, or whatever the tool that is called says.
pub(super) async fn run(
    tool: OwnTool,
    desk: Desk<'_>,
    admitted: Admitted,
) -> Result<ToolReply, CallError> {
    let arguments = json::parse(admitted.arguments().as_bytes()).unwrap_or_default();
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| {
        let number = arguments.get(key).and_then(whole);
        number.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    match tool {
        OwnTool::FindTool => {
            let most = number("limit").unwrap_or(FIND_TOOLS_PER_CALL).min(FIND_TOOLS_MAX);
            Ok(found(desk, &admitted, text("query"), most))
        }
        OwnTool::ReadResult => {
            let (id, offset) = (text("id"), number("offset").unwrap_or(0));
            read(desk, admitted.principal(), id, offset).await
        }
        OwnTool::CallTool => {
            let given = arguments.get("arguments").cloned().unwrap_or_default();
            called(admitted, text("name"), given).await
        }
    }
}

/// Returns a whole number that is not negative: to the schema of the arguments `5.0` is one as well.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0);
    value.as_u64().or_else(|| format!("{:.0}", float()?).parse().ok())
}

/// Makes a call that nobody could take for what it stands for: a person was asked about `call_tool` itself.
async fn called(mut admitted: Admitted, name: &str, given: Value) -> Result<ToolReply, CallError> {
    let Some(nest) = admitted.take_nest() else {
        return Err(CallError::new(ErrorKind::Internal, "call_tool cannot make calls"));
    };
    nest.call(name, given, None, None).await
}

/// Returns the definitions of the tools that fit best, of those that the caller's session has and may call. One
/// that rests could only be called in vain; others may do what it does.
fn found(desk: Desk<'_>, admitted: &Admitted, query: &str, most: usize) -> ToolReply {
    let catalog = desk.shelf.catalog();
    let may = |tool: &&std::sync::Arc<Tool>| {
        tool.origin != Origin::Own
            && desk.context.has(&tool.ckp_name)
            && desk.gate.offers(tool, admitted.principal())
            && !desk.gate.rests(tool, admitted.principal())
    };
    let tools: Vec<_> = catalog.tools().filter(may).collect();
    let definitions = tools.iter().map(|tool| &tool.definition);
    let ranked = offload::blocking(tools.len() > RANKED_AT_ONCE_MAX, || {
        find::rank(query, definitions, most)
    });
    let best = ranked.into_iter().filter_map(|at| tools.get(at)).map(|tool| {
        let definition = &tool.definition;
        json!({
            "name": definition.name, "description": definition.description,
            "input_schema": definition.input_schema,
        })
    });
    let mut best: Vec<Value> = best.collect();
    loop {
        let answer = json!({"tools": best, "of": tools.len()});
        let reply = ToolReply { structured: Some(answer), ..ToolReply::default() };
        // A definition that is cut is of no use, and takes the others with it.
        if best.len() < 2 || truncate::size_of(&reply) <= desk.reply_bytes_max {
            return reply;
        }
        best.pop();
    }
}

async fn read(
    desk: Desk<'_>,
    principal: &str,
    id: &str,
    offset: usize,
) -> Result<ToolReply, CallError> {
    let room = desk.reply_bytes_max.saturating_sub(AROUND_A_PAGE_BYTES);
    let room = room.clamp(PAGE_BYTES_MIN, RESULT_PAGE_BYTES_MAX);
    let Some(page) = desk.results.page(principal, id, offset, room).await? else {
        let text = "there is no such result at that offset; it may have expired";
        return Ok(failed("not-found", text));
    };
    let next = match page.end < page.bytes {
        true => format!("; read on at offset {}", page.end),
        false => String::new(),
    };
    let note = format!("[bytes {offset} to {} of {}{next}]", page.end, page.bytes);
    let content = vec![Content::Text(page.text), Content::Text(note)];
    Ok(ToolReply { content, ..ToolReply::default() })
}

fn failed(kind: &'static str, text: &str) -> ToolReply {
    ToolReply::error(kind, format!("{kind}: {text}"))
}
