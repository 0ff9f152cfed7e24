//! What one message is: a request, a notification, a reply, or nothing that may be answered as one.
//!
//! Both transports come here, so that stdio and HTTP refuse the same bytes with the same words; which, core
//! decides. Deliberately absent: what the methods mean.

use clawhost_core::error::CallError;
use clawhost_core::limits::INITIALIZE_BYTES_MAX;
use clawhost_core::reply::json_bytes;
use clawhost_core::rpc::{self, Message, Refusal};
pub(crate) use clawhost_core::rpc::{
    About, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};

/// A message that has a valid JSON-RPC shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// Wants no answer.
    Notification { method: String, value: Value },
    /// Answers a request of this host's own.
    Reply {
        /// Which; absent where it cannot be read.
        id: Option<RequestId>,
        value: Value,
    },
    /// Wants exactly one answer.
    Request { id: RequestId, method: String, value: Value },
}

impl Incoming {
    /// Returns its method; a reply has none.
    pub(crate) fn method(&self) -> &str {
        match self {
            Self::Notification { method, .. } | Self::Request { method, .. } => method,
            Self::Reply { .. } => "",
        }
    }

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
    /// The request's id where it is known here, else `null` on the wire; or that of the request of this host's own
    /// which a reply is to.
    #[serde(skip)]
    pub(crate) id: Option<RequestId>,
    /// Whether somebody waits for it.
    #[serde(skip)]
    pub(crate) about: About,
    pub(crate) code: i32,
    /// Short and safe.
    pub(crate) message: String,
    /// Facts for programs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) data: Map<String, Value>,
}

impl Fault {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        let (id, about) = (None, About::Request);
        Self { id, about, code, message: message.into(), data: Map::new() }
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

    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    #[must_use]
    pub(crate) fn to(self, id: RequestId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Returns the answer as one line of JSON without its newline.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        // A reply has no answer.
        let id = self.id.as_ref().filter(|_| self.about != About::Reply);
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": self});
        answer.to_string().into_bytes()
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let (id, about) = (refusal.id.as_ref().and_then(request_id), refusal.about);
        Self { id, about, ..Self::new(refusal.code, refusal.reason) }
    }
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        let mut data = error.data;
        data.entry("kind").or_insert_with(|| json!(error.kind.name()));
        Self { data, ..Self::new(error.kind.code(), error.message) }
    }
}

/// Returns the answer to the request `id` as one line of JSON without its newline.
pub(crate) fn line(id: &RequestId, outcome: Outcome) -> Vec<u8> {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string().into(),
        Err(fault) => fault.to(id.clone()).to_line(),
    }
}

/// Returns a message of this host's own that wants no answer.
pub(crate) fn notice(method: &str, params: &impl Serialize) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Says what `bytes` are.
///
/// # Errors
/// A [`Fault`], to be sent as the only answer.
pub(crate) fn read(bytes: &[u8]) -> Result<Incoming, Fault> {
    let Message { id, method, value } = rpc::read(bytes).map_err(Fault::from)?;
    let id = id.as_ref().and_then(request_id);
    // A list is well formed, and every method of the Claw Kernel Protocol refuses it by its own
    // code; MCP has none.
    let is_list = value.get("params").is_some_and(Value::is_array);
    Ok(match (method, id) {
        (None, id) => Incoming::Reply { id, value },
        (Some(method), id) if is_list && !is_ckp(&method) => {
            let about = if id.is_some() { About::Request } else { About::Notification };
            let fault = Fault::new(INVALID_REQUEST, "`params` has to be an object");
            return Err(Fault { id, about, ..fault });
        }
        (Some(method), None) => Incoming::Notification { method, value },
        (Some(method), Some(id))
            if method == "initialize" && json_bytes(&value) > INITIALIZE_BYTES_MAX =>
        {
            let text = format!("initialize has more than {INITIALIZE_BYTES_MAX} bytes");
            return Err(Fault::new(INVALID_PARAMS, text).to(id));
        }
        (Some(method), Some(id)) => Incoming::Request { id, method, value },
    })
}

/// Reads a request of MCP, which is a whole message of this `id` and `method`.
///
/// # Errors
/// A [`Fault`], to be sent as the only answer.
pub(crate) fn mcp(
    id: &RequestId,
    method: &str,
    value: &Value,
) -> Result<ClientJsonRpcMessage, Fault> {
    let wrong = |code, text: &str| Fault::new(code, text).to(id.clone());
    let message = ClientJsonRpcMessage::deserialize(value)
        .map_err(|_| wrong(INVALID_REQUEST, "this is no request that clawhost understands"))?;
    let is_handshake = matches!(&message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)));
    // It would be taken for a request of a session that has not begun.
    if method == "initialize" && !is_handshake && value.pointer(STATED_REVISION).is_none() {
        return Err(wrong(INVALID_PARAMS, "the parameters of initialize do not fit"));
    }
    Ok(message)
}

/// Where a request of the stateless revision says that it is one.
const STATED_REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

pub(crate) fn request_id(value: &Value) -> Option<RequestId> {
    match value {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        _ => None,
    }
}

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
    fn an_answer_to_what_is_no_request_has_its_id_or_none() {
        assert_eq!((refusal("{bad").id, refusal("{bad").code), (None, -32700));
        assert!(String::from_utf8(refusal("{bad").to_line()).unwrap().contains("\"id\":null"));
        let list = r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#;
        assert_eq!(refusal(list).id, Some(RequestId::Number(3)));
        assert!(read(list.replace("ping", "claw.status").as_bytes()).is_ok());
        let reply = r#"{"jsonrpc":"2.0","id":3,"result":18446744073709551616}"#;
        assert_eq!(
            (refusal(reply).id, refusal(reply).about),
            (Some(RequestId::Number(3)), About::Reply)
        );
        let null = String::from_utf8(refusal(reply).to_line()).unwrap();
        assert!(null.contains("\"id\":null"), "{null}");
        for told in ["[1]", r#"{"a":18446744073709551616}"#] {
            let told = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{told}}}"#);
            assert_eq!(refusal(&told).about, About::Notification, "{told}");
        }
    }

    #[test]
    fn what_is_kept_with_a_session_is_no_longer_than_may_be_however_small_its_parts_are() {
        let with = |method: &str, said: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{{"a":{said}}}}}"#)
        };
        let text = |bytes: usize| format!("\"{}\"", "n".repeat(bytes));
        let numbers = format!("[{}1]", "1,".repeat(INITIALIZE_BYTES_MAX / 8));
        assert!(read(with("initialize", &text(INITIALIZE_BYTES_MAX / 2)).as_bytes()).is_ok());
        for long in [text(INITIALIZE_BYTES_MAX), numbers] {
            let refused = refusal(&with("initialize", &long));
            assert_eq!((refused.id, refused.code), (Some(RequestId::Number(3)), INVALID_PARAMS));
            assert!(read(with("ping", &long).as_bytes()).is_ok());
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
