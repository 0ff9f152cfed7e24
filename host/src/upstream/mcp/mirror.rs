//! Headers that repeat parts of a call, for what stands between this host and a server of the
//! newest revision (MCP 2026-07-28, transports).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a tool's schema says that an argument is repeated, and under which name.
const MIRRORED: &str = "x-mcp-header";

/// Returns the headers of a call of `tool`, whose arguments have to fit `schema`.
pub(super) fn headers(tool: &str, schema: Option<&Value>, arguments: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(name) = value(tool) {
        headers.insert(NAME, name);
    }
    if let Some(schema) = schema.filter(|schema| schema.to_string().contains(MIRRORED)) {
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        add(schema, &arguments, &mut headers);
    }
    headers
}

fn add(schema: &Value, arguments: &Value, headers: &mut HeaderMap) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let Some(argument) = arguments.get(key) else { continue };
        let name = property.get(MIRRORED).and_then(Value::as_str);
        let name = name.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
        if let (Some(name), Some(value)) = (name, text(argument).as_deref().and_then(value)) {
            headers.insert(name, value);
        }
        add(property, argument, headers);
    }
}

fn text(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(argument.to_string()),
        Value::Array(_) | Value::Null | Value::Object(_) => None,
    }
}

/// Returns a header that carries `text`: what no header can carry is in base64.
fn value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) && !text.starts_with("=?");
    let encoded = || format!("=?base64?{}?=", STANDARD.encode(text));
    HeaderValue::from_str(&if plain { text.to_owned() } else { encoded() }).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_header_can_carry_is_encoded() {
        assert_eq!(value("get_x").unwrap(), "get_x");
        assert_eq!(value("a b").unwrap(), "=?base64?YSBi?=");
        assert_eq!(value("ä\r\nx: y").unwrap(), "=?base64?w6QNCng6IHk=?=");
        assert_eq!(value("=?base64?x?=").unwrap(), "=?base64?PT9iYXNlNjQ/eD89?=");
    }

    #[test]
    fn arguments_are_repeated_where_the_schema_says_so() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "bad": {"x-mcp-header": "a\r\nb"},
            "plain": {"type": "string"},
        }});
        let arguments = r#"{"region":"eu","deep":{"n":7},"bad":"x","plain":"y"}"#;
        let headers = headers("t", Some(&schema), arguments);
        assert_eq!(headers.len(), 3);
        assert_eq!(
            (&headers["mcp-param-region"], &headers["mcp-param-n"]),
            (&HeaderValue::from_static("eu"), &HeaderValue::from_static("7"))
        );
    }
}
