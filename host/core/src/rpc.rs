//! JSON-RPC 2.0: what one message is, for both sides on which this host reads some.
//!
//! Strict where two readers could differ: a message has one meaning or is refused. Deliberately absent:
//! what methods mean, and batches.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::json::{self, JsonError};
use crate::limits::REQUEST_ID_BYTES_MAX;

/// JSON-RPC: the bytes are no JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is no request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: nobody serves this method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the parameters do not fit.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: a defect of whoever serves.
pub const INTERNAL_ERROR: i32 = -32603;

/// A message of a valid shape: a request has a method and an id, a notification a method, and a reply has
/// no method. Its parameters are an object or a list where it has any.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// A whole number of 64 bits, or text of at most [`REQUEST_ID_BYTES_MAX`].
    pub id: Option<Value>,
    /// What it asks for or tells.
    pub method: Option<String>,
    /// The whole message, an object.
    pub value: Value,
}

/// What is no message, and what to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Of the request that it would be, or of the one that it would answer; where it can be read.
    pub id: Option<Value>,
    /// Whether somebody waits for a word about it.
    pub about: About,
    /// The JSON-RPC code.
    pub code: i32,
    /// Why, without more of the message than one key.
    pub reason: String,
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A request, or what may have been meant as one: whoever sent it waits for a word.
    Request,
    /// A notification, which has no answer.
    Notification,
    /// An answer, which has none either.
    Reply,
}

/// Says what `bytes` are.
///
/// # Errors
/// [`Refusal`]. One with the id of a request is the answer to it.
pub fn read(bytes: &[u8]) -> Result<Message, Refusal> {
    let value = json::parse(bytes).map_err(|error| unread(bytes, &error))?;
    let message = classify(value)?;
    if !json::rounds(bytes) {
        return Ok(message);
    }
    // What would be checked and passed on is another number than the one that was sent.
    let reason = "a whole number does not fit in 64 bits: send it as text".to_owned();
    let about = match (&message.method, &message.id) {
        (None, _) => About::Reply,
        (Some(_), None) => About::Notification,
        (Some(_), Some(_)) => About::Request,
    };
    Err(Refusal { id: message.id, about, code: INVALID_PARAMS, reason })
}

fn unread(bytes: &[u8], error: &JsonError) -> Refusal {
    let code = match error {
        JsonError::Ambiguous(_) => INVALID_REQUEST,
        JsonError::Bound(_) | JsonError::Encoding | JsonError::Syntax(_) => PARSE_ERROR,
    };
    let answers = serde_json::from_slice::<Reply>(bytes).ok();
    let id = answers.filter(|all| all.result.is_some() || all.error.is_some()).map(|all| all.id);
    let about = if id.is_some() { About::Reply } else { About::Request };
    Refusal { id: id.map(Value::from), about, code, reason: error.to_string() }
}

/// The head of an answer that is too long, too deep or ambiguous further inside: whoever waits for it need
/// not wait until the time is over.
#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

fn classify(value: Value) -> Result<Message, Refusal> {
    let invalid = |id: Option<Value>, reason: &str| Refusal {
        id,
        about: About::Request,
        code: INVALID_REQUEST,
        reason: reason.to_owned(),
    };
    let Some(object) = value.as_object() else {
        return Err(invalid(None, not_an_object(&value)));
    };
    let id = object.get("id").cloned();
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        let reason = format!(
            "`id` has to be a whole number of 64 bits, or text of at most {REQUEST_ID_BYTES_MAX} bytes"
        );
        return Err(invalid(None, &reason));
    }
    match shape(object) {
        Err(reason) => Err(invalid(id, reason)),
        Ok(method) => Ok(Message { id, method, value }),
    }
}

/// Returns the method; nothing of a reply.
fn shape(object: &Map<String, Value>) -> Result<Option<String>, &'static str> {
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err("`jsonrpc` has to be \"2.0\"");
    }
    let answers = object.contains_key("result") || object.contains_key("error");
    match object.get("method") {
        None if answers => Ok(None),
        None => Err("there is neither a `method` nor a `result` nor an `error`"),
        Some(Value::String(_)) if answers => {
            Err("a message with a `method` cannot carry a `result` or an `error`")
        }
        Some(Value::String(method)) => match object.get("params") {
            None | Some(Value::Object(_) | Value::Array(_)) => Ok(Some(method.clone())),
            Some(_) => Err("`params` has to be an object"),
        },
        Some(_) => Err("`method` has to be text"),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_i64() || id.as_str().is_some_and(|text| text.len() <= REQUEST_ID_BYTES_MAX)
}

fn not_an_object(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "batches are not served: send one message at a time",
        _ => "a message has to be a JSON object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::{JSON_DEPTH_MAX, JSON_NODES_MAX};

    fn refusal(text: &str) -> Refusal {
        read(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_three_shapes_are_told_apart() {
        for (text, id, method) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, Some(json!(7)), Some("ping")),
            (r#"{"jsonrpc":"2.0","method":"x","params":{}}"#, None, Some("x")),
            (r#"{"jsonrpc":"2.0","id":"a","result":{}}"#, Some(json!("a")), None),
        ] {
            let message = read(text.as_bytes()).unwrap();
            assert_eq!((message.id, message.method.as_deref()), (id, method), "{text}");
            assert_eq!(message.value, serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn what_has_no_readable_id_is_refused_without_one() {
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
        }
        assert_eq!((refusal("{bad").id, refusal("{bad").code), (None, PARSE_ERROR));
    }

    #[test]
    fn an_id_is_no_longer_than_may_be() {
        let with = |bytes: usize| {
            format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(bytes))
        };
        assert!(read(with(REQUEST_ID_BYTES_MAX).as_bytes()).is_ok());
        let refused = refusal(&with(REQUEST_ID_BYTES_MAX + 1));
        assert_eq!((refused.id, refused.code), (None, INVALID_REQUEST));
    }

    #[test]
    fn a_readable_id_comes_back() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":1}"#,
            r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
            r#"{"id":3,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":4}"#,
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}"#,
        ] {
            let expected = (Some(json!(3)), INVALID_REQUEST, About::Request);
            let refusal = refusal(text);
            assert_eq!((refusal.id, refusal.code, refusal.about), expected, "{text}");
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
            assert_eq!((refused.id, refused.code), (Some(json!(3)), INVALID_PARAMS));
        }
        let told = r#"{"jsonrpc":"2.0","method":"x","params":{"n":18446744073709551616}}"#;
        assert_eq!(refusal(told).about, About::Notification);
        for number in ["18446744073709551615", "-9223372036854775808", "1.5e300"] {
            let passed_on = sent(number).unwrap().value.to_string();
            assert!(passed_on.contains(&number.replace("e300", "e+300")), "{passed_on}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_still_says_whose_it_is() {
        let many = format!("[{}1]", "1,".repeat(JSON_NODES_MAX));
        let deep = format!("{}{}", "[".repeat(JSON_DEPTH_MAX), "]".repeat(JSON_DEPTH_MAX));
        for result in [many.as_str(), &deep, r#"{"a":1,"a":2}"#, "18446744073709551616"] {
            let refused = refusal(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
            assert_eq!(
                (refused.id, refused.about),
                (Some(json!(7)), About::Reply),
                "{}",
                refused.reason
            );
            let asked = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{result}}}"#);
            assert_eq!(refusal(&asked).about, About::Request);
        }
        for nobodys in [r#"{"id":7,"id":8,"result":{}}"#, r#"{"id":7,"result":{}"#, "\u{feff}{}"] {
            assert_eq!(refusal(nobodys).about, About::Request, "{nobodys}");
        }
    }
}
