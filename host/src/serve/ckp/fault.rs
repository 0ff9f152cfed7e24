//! An answer that is an error, as the Claw Kernel Protocol carries it.
//!
//! Deliberately absent: the table of codes. `clawhost_core::error` has it; only what happens before
//! there is a call has its code here.

use clawhost_core::error::CallError;
use rmcp::model::RequestId;
use serde_json::{Map, Value, json};

use crate::serve::message::{INVALID_REQUEST, METHOD_NOT_FOUND, Refusal};

/// JSON-RPC: the parameters do not fit.
pub(super) const INVALID_PARAMS: i32 = -32602;
/// The protocol's version is not spoken here (CKP 0.3.0, section 9.4).
pub(super) const VERSION_NOT_SUPPORTED: i32 = -32001;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    code: i32,
    message: String,
    data: Map<String, Value>,
}

/// What a request came to.
pub(crate) type Outcome = Result<Value, Fault>;

impl Fault {
    /// Returns a fault that says `message`.
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Map::new() }
    }

    /// Adds a fact for programs.
    #[must_use]
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// Returns what a parameter that does not fit is answered with.
    pub(super) fn param(param: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(INVALID_PARAMS, format!("`{param}` {reason}"))
            .with("param", param)
            .with("reason", reason)
    }

    /// Returns what a request is answered with that cannot be served in this state.
    pub(super) fn state(state: &str, message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message).with("state", state)
    }

    /// Returns what a method is answered with that is not served.
    pub(super) fn method(method: &str, message: impl Into<String>) -> Self {
        Self::new(METHOD_NOT_FOUND, message).with("method", method)
    }

    /// Returns the answer to the request `id`.
    pub(crate) fn to_refusal(&self, id: Option<RequestId>) -> Refusal {
        let refusal = Refusal::new(id, self.code, self.message.as_str());
        if self.data.is_empty() {
            return refusal;
        }
        refusal.with_data(Value::Object(self.data.clone()))
    }
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        let mut data = error.data;
        data.entry("kind").or_insert_with(|| json!(error.kind.name()));
        Self { code: error.kind.code(), message: error.message, data }
    }
}

/// Returns the answer to the request `id` as one line without its newline.
pub(crate) fn line(id: &RequestId, outcome: &Outcome) -> Vec<u8> {
    match outcome {
        // Values always have a JSON form.
        Ok(result) => serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            .unwrap_or_default(),
        Err(fault) => fault.to_refusal(Some(id.clone())).to_line(),
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::error::ErrorKind;

    use super::*;

    #[test]
    fn an_error_carries_its_code_its_kind_and_nothing_internal() {
        let error = CallError::new(ErrorKind::Policy, "no").with("rule_id", "r").with_internal("x");
        let line = line(&RequestId::Number(1), &Err(error.into()));
        let answer: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32011, "message": "no",
            "data": {"rule_id": "r", "kind": "policy"}}});
        assert_eq!(answer, expected);
    }
}
