//! What descriptors and compiled files both have to hold of a tool, and the shapes of what they share.

use serde_json::{Map, Value as Json};

use crate::egress::check_request;
use crate::manifest::node::{Node, Place, Value};
use crate::manifest::problem::Problems;
use crate::manifest::shape::{Shape, opt, shown};
use crate::manifest::tool::check_schema;
use crate::mediate::bounds::{ITERATIONS, RESULT_BYTES, ROUNDS, TURN_MS};

pub(super) const METHODS: Shape = Shape::OneOf(&["GET", "POST", "PUT", "PATCH", "DELETE"]);
/// A turn's bounds as pods write them.
pub(super) const POD_POLICY: Shape = Shape::Record(&[
    opt("max-rounds", &ROUNDS),
    opt("max-tool-iterations", &ITERATIONS),
    opt("timeout-per-tool-ms", &TURN_MS),
    opt("total-timeout-ms", &TURN_MS),
    opt("max-tool-result-bytes", &RESULT_BYTES),
]);
/// The same as compiled files write them.
pub(super) const POLICY: Shape = Shape::Record(&[
    opt("max_rounds", &ROUNDS),
    opt("max_tool_iterations", &ITERATIONS),
    opt("timeout_per_tool_ms", &TURN_MS),
    opt("total_timeout_ms", &TURN_MS),
    opt("max_tool_result_bytes", &RESULT_BYTES),
]);

/// Checks the schema of arguments, and returns it with `type` as JSON Schema spells it.
pub(super) fn input_schema(tool: &Node, problems: &mut Problems) -> Json {
    let Some(mut entry) = tool.entry("inputSchema").cloned() else { return Json::Null };
    let kind = match &mut entry.node.value {
        Value::Map(of) => of.iter_mut().find(|of| of.key == "type").map(|of| &mut of.node.value),
        _ => None,
    };
    match kind {
        Some(Value::Text(kind)) if kind.eq_ignore_ascii_case("object") => {
            kind.make_ascii_lowercase();
            check_schema(&entry, problems);
        }
        _ => {
            let reason = "`inputSchema` is of no object";
            problems.invalid(entry.node.place(&["type"]), reason, "write `\"type\": \"object\"`");
        }
    }
    entry.node.to_json()
}

/// Checks the name of a tool: as the MCP specification has it, and no way out of a folder.
pub(super) fn name(at: &Place, name: &str, problems: &mut Problems) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if !begins || name.contains("..") || !name.chars().all(is_plain) {
        let reason = format!("`{}` is no name of a tool", shown(name));
        let help = "letters, digits, `_`, `-`, `.` and `/`; the first a letter, a digit or `_`";
        problems.invalid(at, reason, help);
    }
}

/// Checks a path, and the braces in it.
pub(super) fn path(node: &Node, path: &[&str], problems: &mut Problems) -> String {
    let text = node.text(path).unwrap_or_default();
    let strange = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '#');
    let wrong = if !text.starts_with('/') {
        Some("does not begin with `/`")
    } else if text.contains(strange) {
        Some("has a blank, `\\` or `#` in it")
    } else if parameters(text).is_none() {
        Some("has braces that hold no name")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        let reason = format!("the path `{}` {wrong}", shown(text));
        problems.invalid(node.place(path), reason, "write it like `/api/v1/orders/{order_id}`");
    }
    text.to_owned()
}

/// Returns the names in braces, in their order; nothing where braces are left over.
pub(super) fn parameters(path: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}')?;
        if before.contains('}') || name.is_empty() || name.contains(['{', '/', '?', '&']) {
            return None;
        }
        names.push(name);
        rest = behind;
    }
    (!rest.contains('}')).then_some(names)
}

/// Checks that a key for the body stands where there is a body.
pub(super) fn body_key(http: &Node, method: &str, problems: &mut Problems) -> Option<String> {
    let key = http.entry("body_key")?;
    if !matches!(method, "POST" | "PUT" | "PATCH") {
        let reason = format!("`body_key` for a {method} request, which has no body");
        problems.invalid(&key.at, reason, "take it out, or write POST, PUT or PATCH");
    }
    key.node.as_text().map(str::to_owned)
}

/// Checks the one annotation that changes what becomes of a turn.
pub(super) fn annotations(tool: &Node, problems: &mut Problems) -> Map<String, Json> {
    let node = tool.get(&["annotations"]);
    let all = node.map(Node::to_json).and_then(|all| all.as_object().cloned()).unwrap_or_default();
    if let (Some(node), Some(value)) = (node, terminal(&all))
        && !value.is_boolean()
    {
        let reason = "`x-claw.terminalOnSuccess` is neither true nor false";
        problems.invalid(&node.at, reason, "write `true` or `false`, without quotes");
    }
    all
}

/// Returns `x-claw.terminalOnSuccess`, written as one key or as two.
pub(super) fn terminal(annotations: &Map<String, Json>) -> Option<&Json> {
    let nested = || annotations.get("x-claw")?.get("terminalOnSuccess");
    annotations.get("x-claw.terminalOnSuccess").or_else(nested)
}

/// Says whether a token may be sent in this header.
pub(super) fn is_header(name: &str) -> bool {
    let own = ["accept", "content-length", "content-type", "cookie"];
    !own.contains(&name.to_ascii_lowercase().as_str())
        && check_request("GET", [(name, &b""[..])]).is_ok()
}
