//! What a server says, one message at a time, and what it is told.
//!
//! What is a message, core decides, as for the host's own clients. What is sent is written here from
//! checked parts; nothing a server said is passed back to it but the id of its own request.

use std::fmt::Display;

use clawhost_core::rpc::{self, About, Message, Refusal};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::reply::{object, wrong};
use crate::offload;

/// From this size on a message is read off the threads that serve.
const LONG_BYTES: usize = 262_144;
/// Nobody serves this method.
pub(super) const METHOD_NOT_FOUND: i64 = rpc::METHOD_NOT_FOUND as i64;

/// Why a server's own request has no result: the code, and the words.
pub(super) type Denial = (i64, &'static str);
/// Nobody gives the server what it asks for.
pub(super) const NOBODY: Denial = (METHOD_NOT_FOUND, "nobody here answers this");
/// Somebody might, if it were known who.
pub(super) const UNCLEAR: Denial = (
    rpc::INVALID_REQUEST as i64,
    "several calls are open, and nothing says which of them asks this",
);

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
        /// With what parameters.
        params: Value,
    },
    /// Tells something.
    Tells {
        /// What about.
        method: String,
        /// What.
        params: Map<String, Value>,
    },
    /// An answer that is too long to be read, and has its number behind that.
    Unread,
    /// No message: a banner, garbage, an answer to nobody.
    Nothing,
}

/// Reads a message.
pub(super) fn read(text: &[u8]) -> Said {
    match offload::blocking(text.len() > LONG_BYTES, || rpc::read(text)) {
        Ok(Message { id, method: None, value }) => answered(id, value),
        Ok(Message { id: Some(id), method: Some(method), mut value }) => {
            let params = value.get_mut("params").map(Value::take).unwrap_or_default();
            Said::Asks { id, method, params }
        }
        Ok(Message { id: None, method: Some(method), mut value }) => {
            Said::Tells { method, params: object(value.get_mut("params").map(Value::take)) }
        }
        Err(Refusal { id: Some(id), about: About::Reply, reason, .. }) => match id.as_u64() {
            Some(id) => Said::Answer(id, Err(Failure::Wrong(reason))),
            None => Said::Nothing,
        },
        Err(_) => Said::Nothing,
    }
}

/// Returns what a message is that begins so and is too long to be read.
pub(super) fn unread(beginning: &[u8]) -> Said {
    let text = String::from_utf8_lossy(beginning);
    let found = ["\"result\"", "\"error\""].iter().filter_map(|key| text.find(key)).min();
    let before = found.and_then(|at| text.get(..at)).unwrap_or_default();
    // A member of the message itself, and of none that asks for something.
    let is_answer = before.starts_with('{')
        && before.matches('{').count() == 1
        && !before.contains("\"method\"");
    if !is_answer {
        return Said::Nothing;
    }
    let Some((_, id)) = before.split_once("\"id\":") else { return Said::Unread };
    let id = id.split(',').next().and_then(|id| id.trim().parse::<u64>().ok());
    id.map_or(Said::Nothing, |id| Said::Answer(id, Err(Failure::too_long())))
}

fn answered(id: Option<Value>, mut message: Value) -> Said {
    // Every id that was given out is a whole number: whatever else comes back is nobody's.
    let Some(id) = id.and_then(|id| id.as_u64()) else { return Said::Nothing };
    match (message.get_mut("result").map(Value::take), message.get("error")) {
        (Some(result), None) => Said::Answer(id, Ok(result)),
        (None, Some(error)) => Said::Answer(id, Err(refusal(error))),
        // Whoever waits for it need not wait until the time is over.
        _ => Said::Answer(id, Err(wrong("it has both a result and an error"))),
    }
}

/// Reads the `error` of an answer.
pub(super) fn refusal(error: &Value) -> Failure {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("it says nothing more");
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    Failure::Refused { code, message: message.to_owned(), data: error.get("data").cloned() }
}

/// Returns a request as one line without its newline. `params` are the members of its parameters.
pub(super) fn request(id: u64, method: &str, params: &str) -> String {
    line(Some(id), method, Some(&format_args!("{{{params}}}")))
}

/// Returns a notification, likewise.
pub(super) fn notification(method: &str, params: &str) -> String {
    line(None, method, Some(&format_args!("{{{params}}}")))
}

/// Returns a request, or without an id a notification, whose parameters are any JSON.
pub(super) fn line(id: Option<u64>, method: &str, params: Option<&dyn Display>) -> String {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let method = json!(method);
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}}}"#),
    }
}

/// Returns the notification that request `id` is not waited for any longer.
pub(super) fn cancelled(id: u64) -> String {
    notification("notifications/cancelled", &format!(r#""requestId":{id}"#))
}

/// Returns what a server's own request is answered with.
pub(super) fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Returns what it is answered with where it gets no result.
pub(super) fn denial(id: &Value, method: &str, (code, why): Denial) -> String {
    if method == "ping" {
        return answer(id, &json!({}));
    }
    let error = json!({"code": code, "message": why});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use clawhost_core::limits::JSON_NODES_MAX;
    use clawhost_core::redact::Redactor;

    use super::*;

    #[test]
    fn an_answer_has_a_number_and_one_outcome() {
        let data = Some(json!([1]));
        let refused = Failure::Refused { code: -5, message: "no".to_owned(), data };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#, Ok(json!({"a": 1}))),
            (
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"no","data":[1]}}"#,
                Err(refused),
            ),
        ] {
            assert_eq!(read(text.as_bytes()), Said::Answer(7, expected));
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":-7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
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
    fn an_answer_that_is_too_large_is_one_all_the_same() {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":[{}1]}}"#, "1,".repeat(JSON_NODES_MAX));
        let Said::Answer(7, Err(Failure::Wrong(why))) = read(text.as_bytes()) else { panic!() };
        assert!(why.contains("too many parts"), "{why}");
    }

    #[test]
    fn an_answer_of_both_kinds_is_a_wrong_one() {
        let text = r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#;
        assert!(matches!(read(text.as_bytes()), Said::Answer(7, Err(Failure::Wrong(_)))));
    }

    #[test]
    fn an_answer_that_is_too_long_is_told_by_how_it_begins() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a"#, Said::Answer(7, Err(Failure::too_long()))),
            (
                r#"{"jsonrpc": "2.0", "id": 7, "error": {"#,
                Said::Answer(7, Err(Failure::too_long())),
            ),
            (
                r#"{"id":7,"jsonrpc":"2.0","result":[{"id":8,"#,
                Said::Answer(7, Err(Failure::too_long())),
            ),
            (r#"{"result":{"id":8,"content":["#, Said::Unread),
            (r#"{"jsonrpc":"2.0","id":"7","result":{"#, Said::Nothing),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"result":"#, Said::Nothing),
            (r#"{"method":"m","params":{"result":"#, Said::Nothing),
            (r#"{"jsonrpc":"2.0","params":{"result":"#, Said::Nothing),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{"#, Said::Nothing),
            ("xxxx", Said::Nothing),
            ("", Said::Nothing),
        ] {
            assert_eq!(unread(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_request_of_a_server_is_refused_under_its_own_id() {
        let text = r#"{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":{}}"#;
        let Said::Asks { id, method, .. } = read(text.as_bytes()) else { panic!() };
        let answer: Value = serde_json::from_str(&denial(&id, &method, NOBODY)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32601)));
        let ping: Value = serde_json::from_str(&denial(&json!(3), "ping", UNCLEAR)).unwrap();
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
