//! What a server says, one message at a time, and what it is told.
//!
//! Strict where two readers could differ: a message has one meaning or is none. What is sent is
//! written here from checked parts; nothing a server said is passed back to it but the id of its
//! own request.

use clawhost_core::json;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use crate::offload;

/// From this size on a message is read off the threads that serve.
const LONG_BYTES: usize = 262_144;
/// The id of a server's own request, which comes back to it.
const ID_BYTES_MAX: usize = 256;
/// JSON-RPC: nobody serves this method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// One message of a server.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Answers the request of this number.
    Answer(u64, Result<Value, Failure>),
    /// Asks for something itself.
    Asks {
        /// What its answer has to carry.
        id: Value,
        /// What it asks for.
        method: String,
    },
    /// Tells something.
    Tells {
        /// What about.
        method: String,
        /// What.
        params: Map<String, Value>,
    },
    /// No message: a banner, garbage, an answer to nobody.
    Nothing,
}

/// Reads a message.
pub(super) fn read(text: &[u8]) -> Said {
    let (value, rounds) =
        offload::blocking(text.len() > LONG_BYTES, || (json::parse(text).ok(), json::rounds(text)));
    let Some(Value::Object(message)) = value else { return Said::Nothing };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Said::Nothing;
    }
    if message.contains_key("method") { asked(message) } else { answered(message, rounds) }
}

fn asked(mut message: Map<String, Value>) -> Said {
    let Some(Value::String(method)) = message.remove("method") else { return Said::Nothing };
    if message.contains_key("result") || message.contains_key("error") {
        return Said::Nothing;
    }
    match (message.remove("id"), message.remove("params")) {
        (Some(id), _) if is_id(&id) => Said::Asks { id, method },
        (None, Some(Value::Object(params))) => Said::Tells { method, params },
        (None, None) => Said::Tells { method, params: Map::new() },
        _ => Said::Nothing,
    }
}

fn is_id(id: &Value) -> bool {
    id.is_i64() || id.is_u64() || id.as_str().is_some_and(|text| text.len() <= ID_BYTES_MAX)
}

fn answered(mut message: Map<String, Value>, rounds: bool) -> Said {
    // Every id that was given out is a whole number: whatever else comes back is nobody's.
    let Some(id) = message.get("id").and_then(Value::as_u64) else { return Said::Nothing };
    match (message.remove("result"), message.remove("error")) {
        (Some(_), None) if rounds => {
            let text = "a whole number does not fit in 64 bits".to_owned();
            Said::Answer(id, Err(Failure::Wrong(text)))
        }
        (Some(result), None) => Said::Answer(id, Ok(result)),
        (None, Some(error)) => Said::Answer(id, Err(refusal(&error))),
        _ => Said::Nothing,
    }
}

/// Reads the `error` of an answer.
pub(super) fn refusal(error: &Value) -> Failure {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("it says nothing more");
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    Failure::Refused { code, message: message.to_owned() }
}

/// Returns a request as one line without its newline. `params` are the members of its parameters.
pub(super) fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

/// Returns a notification, likewise.
pub(super) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#)
}

/// Returns the notification that request `id` is not waited for any longer.
pub(super) fn cancelled(id: u64) -> String {
    notification("notifications/cancelled", &format!(r#""requestId":{id}"#))
}

/// Returns what a server's own request is answered with: nothing is granted to it.
pub(super) fn denial(id: &Value, method: &str) -> String {
    if method == "ping" {
        return json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string();
    }
    let error = json!({"code": METHOD_NOT_FOUND, "message": "nothing is granted to servers here"});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use clawhost_core::redact::Redactor;

    use super::*;

    #[test]
    fn an_answer_has_a_number_and_one_outcome() {
        let refused = Failure::Refused { code: -5, message: "no".to_owned() };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#, Ok(json!({"a": 1}))),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"no"}}"#, Err(refused)),
        ] {
            assert_eq!(read(text.as_bytes()), Said::Answer(7, expected));
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":-7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"id":7,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
            "Server started on stdio",
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
            "",
        ] {
            assert_eq!(read(text.as_bytes()), Said::Nothing, "{text}");
        }
        assert_eq!(read("[".repeat(100_000).as_bytes()), Said::Nothing);
    }

    #[test]
    fn a_number_that_would_be_rounded_is_no_result() {
        let text = r#"{"jsonrpc":"2.0","id":7,"result":{"n":18446744073709551616}}"#;
        assert!(matches!(read(text.as_bytes()), Said::Answer(7, Err(Failure::Wrong(_)))));
    }

    #[test]
    fn a_request_of_a_server_is_refused_under_its_own_id() {
        let text = r#"{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":{}}"#;
        let Said::Asks { id, method } = read(text.as_bytes()) else { panic!() };
        let answer: Value = serde_json::from_str(&denial(&id, &method)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32601)));
        let ping: Value = serde_json::from_str(&denial(&json!(3), "ping")).unwrap();
        assert_eq!(ping, json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    }

    #[test]
    fn words_of_a_server_are_short_and_on_one_line() {
        let message = format!("a\n\u{1b}[2J{}secret-secret", "x".repeat(984));
        let said = refusal(&json!({"code": 1, "message": message}));
        let redactor = Redactor::new([("S", b"secret-secret".as_slice())]).unwrap();
        let told = said.told(&redactor);
        assert!(told.len() < 1_100 && !told.contains(['\n', '\u{1b}']), "{told}");
        // The cut goes through the marker, and not through the secret.
        assert!(told.ends_with("x[redacted"), "{told}");
    }
}
