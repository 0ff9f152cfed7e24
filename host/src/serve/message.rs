//! What one message is: a request, a notification, a reply, or nothing that may be answered as one.
//!
//! The checks of both transports live here, so that stdio and HTTP refuse the same bytes with the
//! same words. Deliberately absent: what the methods mean.

use clawhost_core::error::CallError;
use clawhost_core::json::{self, JsonError};
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A message that has a valid JSON-RPC shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// Wants no answer.
    Notification {
        /// Its method.
        method: String,
        /// The whole message.
        value: Value,
    },
    /// Answers a request of this host's own.
    Reply {
        /// Which; absent where it cannot be read.
        id: Option<RequestId>,
        /// The whole message.
        value: Value,
    },
    /// Wants exactly one answer.
    Request {
        /// What the answer has to carry.
        id: RequestId,
        /// Its method.
        method: String,
        /// The whole message.
        value: Value,
    },
}

impl Incoming {
    /// Returns its method; a reply has none.
    pub(crate) fn method(&self) -> &str {
        match self {
            Self::Notification { method, .. } | Self::Request { method, .. } => method,
            Self::Reply { .. } => "",
        }
    }

    /// Returns the whole message.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Notification { value, .. }
            | Self::Reply { value, .. }
            | Self::Request { value, .. } => value,
        }
    }
}

/// What a request comes to.
pub(crate) type Outcome = Result<Value, Fault>;

/// An answer that is an error. The codes of calls are those of [`clawhost_core::error`]; only what
/// happens before there is a call has its code here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Fault {
    /// The request's id where it is known here, else `null` on the wire.
    #[serde(skip)]
    pub(crate) id: Option<RequestId>,
    /// The JSON-RPC code.
    pub(crate) code: i32,
    /// Short and safe.
    pub(crate) message: String,
    /// Facts for programs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) data: Map<String, Value>,
}

impl Fault {
    /// Returns a fault that says `message`.
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { id: None, code, message: message.into(), data: Map::new() }
    }

    /// Returns what a parameter that does not fit is answered with.
    pub(crate) fn param(param: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(INVALID_PARAMS, format!("`{param}` {reason}"))
            .with("param", param)
            .with("reason", reason)
    }

    /// Returns what a method is answered with that is not served.
    pub(crate) fn method(method: &str, message: impl Into<String>) -> Self {
        Self::new(METHOD_NOT_FOUND, message).with("method", method)
    }

    /// Adds a fact for programs.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// Answers the request `id`.
    #[must_use]
    pub(crate) fn to(self, id: RequestId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Returns the answer as one line of JSON without its newline.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let answer = json!({"jsonrpc": "2.0", "id": self.id, "error": self});
        answer.to_string().into_bytes()
    }
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        let mut data = error.data;
        data.entry("kind").or_insert_with(|| json!(error.kind.name()));
        Self { id: None, code: error.kind.code(), message: error.message, data }
    }
}

/// Returns the answer to the request `id` as one line of JSON without its newline.
pub(crate) fn line(id: &RequestId, outcome: Outcome) -> Vec<u8> {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string().into(),
        Err(fault) => fault.to(id.clone()).to_line(),
    }
}

/// JSON-RPC: the bytes are no JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is no request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: nobody serves this method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the parameters do not fit.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: a defect of the host.
pub(crate) const INTERNAL_ERROR: i32 = -32603;

/// Says what `bytes` are.
///
/// # Errors
/// A [`Fault`], to be sent as the only answer.
pub(crate) fn read(bytes: &[u8]) -> Result<Incoming, Fault> {
    let value = json::parse(bytes).map_err(|error| {
        let code = match error {
            JsonError::Ambiguous(_) => INVALID_REQUEST,
            JsonError::Encoding | JsonError::Syntax(_) => PARSE_ERROR,
        };
        Fault::new(code, error.to_string())
    })?;
    let incoming = classify(value)?;
    if !json::rounds(bytes) {
        return Ok(incoming);
    }
    // What would be checked and passed on is another number than the one that was sent.
    let text = "a whole number does not fit in 64 bits: send it as text";
    let id = match incoming {
        Incoming::Request { id, .. } => Some(id),
        Incoming::Notification { .. } | Incoming::Reply { .. } => None,
    };
    Err(Fault { id, ..Fault::new(INVALID_PARAMS, text) })
}

fn classify(value: Value) -> Result<Incoming, Fault> {
    let Some(object) = value.as_object() else {
        return Err(Fault::new(INVALID_REQUEST, not_an_object(&value)));
    };
    let id = read_id(object)?;
    let invalid = |text: &str| Fault { id: id.clone(), ..Fault::new(INVALID_REQUEST, text) };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` has to be \"2.0\""));
    }
    let answers = object.contains_key("result") || object.contains_key("error");
    let Some(method) = object.get("method") else {
        return if answers {
            Ok(Incoming::Reply { id, value })
        } else {
            Err(invalid("there is neither a `method` nor a `result` nor an `error`"))
        };
    };
    let Some(method) = method.as_str().map(str::to_owned) else {
        return Err(invalid("`method` has to be text"));
    };
    if answers {
        return Err(invalid("a message with a `method` cannot carry a `result` or an `error`"));
    }
    // A list is well formed, and every method of the Claw Kernel Protocol refuses it by its own
    // code; MCP has none.
    let fits = |params: &Value| params.is_object() || (params.is_array() && is_ckp(&method));
    if object.get("params").is_some_and(|params| !fits(params)) {
        return Err(invalid("`params` has to be an object"));
    }
    Ok(match id {
        None => Incoming::Notification { method, value },
        Some(id) => Incoming::Request { id, method, value },
    })
}

fn not_an_object(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "batches are not served: send one message at a time",
        _ => "a message has to be a JSON object",
    }
}

fn read_id(object: &Map<String, Value>) -> Result<Option<RequestId>, Fault> {
    let Some(id) = object.get("id") else {
        return Ok(None);
    };
    request_id(id).map(Some).ok_or_else(|| {
        Fault::new(INVALID_REQUEST, "`id` has to be text or a whole number of 64 bits")
    })
}

/// Returns the request id that `value` is.
pub(crate) fn request_id(value: &Value) -> Option<RequestId> {
    match value {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        _ => None,
    }
}

/// Says whether `method` belongs to the Claw Kernel Protocol.
pub(crate) fn is_ckp(method: &str) -> bool {
    method.starts_with("claw.")
}

/// Says whether `method` is about calls that run, so that it is served when they fill all places.
pub(crate) fn is_urgent(method: &str) -> bool {
    ["claw.shutdown", "claw.status", "claw.tool.approve", "claw.tool.deny"].contains(&method)
}

#[cfg(test)]
mod tests {
    use clawhost_core::error::ErrorKind;

    use super::*;

    fn refusal(text: &str) -> Fault {
        read(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_three_shapes_are_told_apart() {
        let request = read(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).unwrap();
        assert!(matches!(request, Incoming::Request { id: RequestId::Number(7), .. }));
        let note = read(br#"{"jsonrpc":"2.0","method":"x","params":{}}"#).unwrap();
        assert!(matches!(note, Incoming::Notification { .. }));
        let reply = read(br#"{"jsonrpc":"2.0","id":"a","result":{}}"#).unwrap();
        assert!(matches!(reply, Incoming::Reply { id: Some(RequestId::String(_)), .. }));
    }

    #[test]
    fn what_has_no_readable_id_is_answered_with_null() {
        for text in [
            "null",
            "[]",
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            "1",
            "\"text\"",
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ] {
            assert_eq!((refusal(text).id, refusal(text).code), (None, INVALID_REQUEST), "{text}");
            assert!(refusal(text).to_line().starts_with(b"{"), "{text}");
        }
        assert_eq!((refusal("{bad").id, refusal("{bad").code), (None, PARSE_ERROR));
        assert!(String::from_utf8(refusal("{bad").to_line()).unwrap().contains("\"id\":null"));
    }

    #[test]
    fn a_readable_id_comes_back() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#,
            r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
            r#"{"id":3,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":4}"#,
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}"#,
        ] {
            let expected = (Some(RequestId::Number(3)), INVALID_REQUEST);
            assert_eq!((refusal(text).id, refusal(text).code), expected, "{text}");
        }
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused() {
        let sent = |number: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"n":{number}}}}}"#
            );
            read(text.as_bytes())
        };
        for number in ["18446744073709551616", "-9223372036854775809"] {
            let refused = sent(number).unwrap_err();
            assert_eq!((refused.id, refused.code), (Some(RequestId::Number(3)), INVALID_PARAMS));
        }
        for number in ["18446744073709551615", "-9223372036854775808", "1.5e300"] {
            let Ok(Incoming::Request { value, .. }) = sent(number) else { panic!("{number}") };
            let passed_on = value.to_string();
            assert!(passed_on.contains(&number.replace("e300", "e+300")), "{passed_on}");
        }
    }

    #[test]
    fn an_error_carries_its_code_its_kind_and_nothing_internal() {
        let error = CallError::new(ErrorKind::Policy, "no").with("rule_id", "r").with_internal("x");
        let line = line(&RequestId::Number(1), Err(error.into()));
        let answer: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32011, "message": "no",
            "data": {"rule_id": "r", "kind": "policy"}}});
        assert_eq!(answer, expected);
    }
}
