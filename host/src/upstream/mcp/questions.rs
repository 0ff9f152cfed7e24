//! What a server asks of its caller's client (a person's answer, a completion, its folders), where the
//! operator has that passed on: as the answer to the call, which the caller makes again with what it
//! brings.
//!
//! Deliberately absent: servers of the older revisions, which ask while a call runs, and forms that
//! lead to an address.

use clawhost_core::exposed::without_hidden;
use clawhost_core::limits::{QUESTIONS_MAX, REPLY_BYTES_MAX};
use serde_json::{Map, Value, json};

use crate::dialogue::Dialogue;

/// Where an error of a call says what the server asks, in MCP's words.
pub const INPUT_REQUIRED: &str = "input_required";

/// Adds what a client has brought to the members of a request's parameters.
pub(super) fn brought(params: &str, dialogue: Option<&Dialogue>) -> String {
    let responses = dialogue.and_then(|dialogue| dialogue.responses.as_ref());
    let state = dialogue.and_then(|dialogue| dialogue.state.as_ref());
    let mut params = params.to_owned();
    if let Some(responses) = responses {
        params.push_str(&format!(r#","inputResponses":{responses}"#));
    }
    if let Some(state) = state {
        params.push_str(&format!(r#","requestState":{}"#, json!(state)));
    }
    params.trim_start_matches(',').to_owned()
}

/// Returns what a server asks as a client may see it; nothing where it asks for what no client is to be
/// asked, or for too much.
pub(super) fn passed_on(mut asked: Value) -> Option<Value> {
    let mut kept = Map::new();
    kept.insert("resultType".to_owned(), json!("input_required"));
    if let Some(Value::Object(mut requests)) = asked.get_mut("inputRequests").map(Value::take) {
        let are_known = requests.values_mut().all(is_known);
        if requests.len() > QUESTIONS_MAX || !are_known {
            return None;
        }
        let mut requests = Value::Object(requests);
        without_hidden(&mut requests);
        kept.insert("inputRequests".to_owned(), requests);
    }
    if let Some(state) = asked.get("requestState").and_then(Value::as_str) {
        kept.insert("requestState".to_owned(), json!(state));
    }
    let kept = Value::Object(kept);
    (kept.to_string().len() <= REPLY_BYTES_MAX).then_some(kept)
}

/// Says whether a client may be asked this; what it may not be told to do is taken out.
fn is_known(request: &mut Value) -> bool {
    let is_form = |request: &Value| {
        let mode = request.pointer("/params/mode").and_then(Value::as_str);
        mode.is_none_or(|mode| mode == "form")
    };
    match request.get("method").and_then(Value::as_str) {
        Some("elicitation/create") => is_form(request),
        Some("sampling/createMessage") => {
            // What other servers have said to the client is not this one's.
            if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
                params.remove("includeContext");
            }
            true
        }
        Some("roots/list") => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(request: &Value) -> Option<Value> {
        passed_on(json!({"resultType": "input_required", "inputRequests": {"q": request}}))
    }

    #[test]
    fn only_what_is_known_is_asked() {
        let model = json!({"method": "sampling/createMessage", "params": {"maxTokens": 9, "includeContext": "allServers"}});
        let asked = asking(&model).unwrap();
        assert_eq!(asked["inputRequests"]["q"]["params"], json!({"maxTokens": 9}));
        let form = json!({"method": "elicitation/create", "params": {"message": "a\u{202e}b"}});
        assert_eq!(asking(&form).unwrap()["inputRequests"]["q"]["params"]["message"], "ab");
        let long = "x".repeat(REPLY_BYTES_MAX);
        for wrong in [
            json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://x.example"}}),
            json!({"method": "tools/call", "params": {}}),
            json!({"method": "roots/list", "params": {"x": long}}),
            json!(7),
        ] {
            assert_eq!(asking(&wrong), None, "{wrong}");
        }
        let many: Map<_, _> =
            (0..=QUESTIONS_MAX).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
        assert_eq!(passed_on(json!({"inputRequests": many})), None);
        assert_eq!(passed_on(json!({"requestState": "s"})).unwrap()["requestState"], "s");
    }

    #[test]
    fn what_a_client_brings_stands_beside_the_parameters() {
        let mut dialogue = Dialogue::default();
        assert_eq!(brought(r#""a":1"#, Some(&dialogue)), r#""a":1"#);
        dialogue.responses = Some(json!({"q": {}}));
        dialogue.state = Some("\"".to_owned());
        let expected = r#""inputResponses":{"q":{}},"requestState":"\"""#;
        assert_eq!(brought("", Some(&dialogue)), expected);
    }
}
