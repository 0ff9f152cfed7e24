//! From arguments to the request that a service is asked with.
//!
//! Who calls is never an argument: `{claw_id}` is the authenticated caller, and an argument of that name goes
//! nowhere. Deliberately absent: the token, which is put in when all checks have passed.

use serde_json::{Map, Value};
use url::Url;

use super::check::parameters;
use super::{CLAW_ID, ManagedTool, Transport};
use crate::egress::percent_encoded;

/// One request, without its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// JSON.
    pub body: Option<String>,
}

/// Arguments that make no request, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongArguments(String);

impl ServiceRequest {
    /// Returns the request that calls `tool` for `caller`.
    ///
    /// # Errors
    /// An argument that the path needs is missing, is no text, number or truth value, or would lead to another
    /// path.
    pub fn new(
        tool: &ManagedTool,
        mut arguments: Map<String, Value>,
        caller: &str,
    ) -> Result<Self, WrongArguments> {
        let Transport::Http { method, path, body_key } = &tool.transport else {
            return Err(WrongArguments("it is called over MCP".to_owned()));
        };
        own_caller(tool, path, &mut arguments, caller);
        let path = filled(path, &mut arguments, caller)?;
        let broken = |_| WrongArguments("no address can be made of them".to_owned());
        let mut url = Url::parse(&format!("{}{path}", tool.base_url)).map_err(broken)?;
        // What the path itself says, of who calls above all, no argument says a second time.
        let is_said =
            |name: &str| url.query_pairs().any(|(said, _)| said.eq_ignore_ascii_case(name));
        arguments.retain(|name, _| !is_said(name));
        let body = match method.as_str() {
            "POST" | "PUT" | "PATCH" => Some(body(arguments, body_key.as_deref()).to_string()),
            _ => {
                ask(&mut url, &arguments);
                None
            }
        };
        Ok(Self { method: method.clone(), url: url.into(), body })
    }
}

/// What the model says about who calls is dropped. A tool that wants to know and has no place for it in its
/// path is told all the same.
fn own_caller(tool: &ManagedTool, path: &str, arguments: &mut Map<String, Value>, caller: &str) {
    arguments.remove(CLAW_ID);
    let in_path = parameters(path).unwrap_or_default().contains(&CLAW_ID);
    let is_wanted = tool.input_schema.pointer("/properties/claw_id").is_some();
    if is_wanted && !in_path {
        arguments.insert(CLAW_ID.to_owned(), Value::from(caller));
    }
}

/// Puts arguments into a path, and takes them out of what is left.
fn filled(
    path: &str,
    arguments: &mut Map<String, Value>,
    caller: &str,
) -> Result<String, WrongArguments> {
    let mut made = String::new();
    let mut rest = path;
    for name in parameters(path).unwrap_or_default() {
        let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
        rest = after.split_once('}').map_or("", |(_, behind)| behind);
        made.push_str(before);
        match name {
            CLAW_ID => made.push_str(&percent_encoded(caller)),
            name => made.push_str(&percent_encoded(&scalar(name, arguments.get(name))?)),
        }
    }
    made.push_str(rest);
    let taken = parameters(path).unwrap_or_default();
    arguments.retain(|name, _| !taken.contains(&name.as_str()));
    let only_path = made.split('?').next().unwrap_or_default();
    if only_path.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(WrongArguments("`.` and `..` lead to another path".to_owned()));
    }
    Ok(made)
}

fn scalar(name: &str, value: Option<&Value>) -> Result<String, WrongArguments> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        None | Some(Value::Null | Value::String(_)) => {
            Err(WrongArguments(format!("`{name}` is missing: the path needs it")))
        }
        Some(_) => Err(WrongArguments(format!("`{name}` is no text, number or truth value"))),
    }
}

fn ask(url: &mut Url, arguments: &Map<String, Value>) {
    let there = |(_, value): &(&String, &Value)| !value.is_null();
    for (name, value) in arguments.iter().filter(there) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        url.query_pairs_mut().append_pair(name, &text);
    }
}

fn body(arguments: Map<String, Value>, key: Option<&str>) -> Value {
    let body = Value::Object(arguments);
    match key {
        Some(key) => Value::Object([(key.to_owned(), body)].into_iter().collect()),
        None => body,
    }
}
