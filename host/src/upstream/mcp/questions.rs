//! What a server asks of its caller's client (a person's answer, a completion, its folders), where the
//! operator has that passed on. One of the stateless revision asks with its answer to the call, which is
//! made again with what the client brings; an older one asks while the call runs.
//!
//! Deliberately absent: forms that lead to an address, and questions beside a call.

use std::path::Path;

use clawhost_core::exposed::{Exposure, without_hidden};
use clawhost_core::limits::{QUESTIONS_MAX, REPLY_BYTES_MAX};
use clawhost_core::rpc::INVALID_PARAMS;
use clawhost_core::visible;
use serde_json::{Map, Value, json};
use url::Url;

use super::failure::Failure;
use super::message::{self, Denial, NOBODY};
use super::{Endpoint, ServerPlan};
use crate::dialogue::{Caller, Dialogue};

/// Where an error of a call says what the server asks, in MCP's words.
pub const INPUT_REQUIRED: &str = "input_required";

/// The name of the one question that an older server asks with a request.
const THE_QUESTION: &str = "question";

/// What a server of the older revisions is answered when it asks.
#[derive(Debug)]
pub(super) struct Granted {
    /// The operator's name for it.
    server: String,
    /// The folders that a program has: what a client has elsewhere means nothing to it.
    roots: Option<Value>,
}

/// Returns what a server is told that it can ask for while it works.
pub(super) fn capabilities(expose: &Exposure) -> Value {
    let mut can = Map::new();
    if expose.questions {
        can.insert("elicitation".to_owned(), json!({}));
        can.insert("roots".to_owned(), json!({}));
        can.insert("sampling".to_owned(), json!({}));
    }
    can.into()
}

impl Granted {
    /// Returns what the server of `plan` is granted, where somebody answers what it asks.
    pub(super) fn of(plan: &ServerPlan) -> Option<Self> {
        let root =
            |path: &Path| Url::from_file_path(path).ok().map(|url| json!({"uri": url.as_str()}));
        let roots = match &plan.endpoint {
            Endpoint::Stdio { grants, .. } if plan.expose.questions => {
                let all = grants.mounts.iter().filter_map(|mount| root(&mount.host));
                Some(json!({"roots": all.collect::<Vec<_>>()}))
            }
            Endpoint::Stdio { .. } | Endpoint::Http { .. } => None,
        };
        plan.expose.questions.then(|| Self { server: plan.name.clone(), roots })
    }

    /// Returns the answer to a server's own request, as a line: `caller` is whose call it belongs to, where that is
    /// known.
    pub(super) async fn answer(
        granted: Option<&Self>,
        (id, method, params): (&Value, &str, Value),
        caller: Result<&Caller, Denial>,
    ) -> String {
        let answered = match granted {
            Some(granted) => granted.answered(method, params, caller.ok()).await,
            None => None,
        };
        let why = granted.and_then(|_| caller.err()).unwrap_or(NOBODY);
        answered
            .map_or_else(|| message::denial(id, method, why), |result| message::answer(id, &result))
    }

    async fn answered(
        &self,
        method: &str,
        params: Value,
        caller: Option<&Caller>,
    ) -> Option<Value> {
        if let ("roots/list", Some(roots)) = (method, &self.roots) {
            return Some(roots.clone());
        }
        let request = match params.is_object() {
            true => json!({"method": method, "params": params}),
            false => json!({"method": method}),
        };
        let asked = json!({"inputRequests": {THE_QUESTION: request}});
        let mut asked = passed_on(&self.server, asked)?;
        let dialogue = caller?.dialogue.as_ref()?;
        let mut answers = dialogue.ask(asked.get_mut("inputRequests")?.take()).await?;
        answers.get_mut(THE_QUESTION).map(Value::take).filter(Value::is_object)
    }
}

/// Returns what a client of an older revision answers to what the stateless server `server` asks, and the
/// server's state; nothing where a client brings its answers by itself, or has none.
pub(super) async fn answered(server: &str, asked: &Value, caller: &Caller) -> Option<Dialogue> {
    let dialogue = caller.dialogue.as_deref().filter(|dialogue| !dialogue.comes_again)?.clone();
    let mut asked = passed_on(server, asked.clone())?;
    let requests = asked.get_mut("inputRequests").map(Value::take).unwrap_or_else(|| json!({}));
    let responses = dialogue.ask(requests).await.filter(Value::is_object)?;
    let state = asked.get("requestState").and_then(Value::as_str).map(str::to_owned);
    let brought = Dialogue { responses: Some(responses), state, ..dialogue };
    said_to(server, &brought).ok()
}

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

/// Returns what a client says to `server`, with the state that this gave it.
///
/// # Errors
/// What it brings back is not for this server.
pub(super) fn said_to(server: &str, dialogue: &Dialogue) -> Result<Dialogue, Failure> {
    let Some(state) = &dialogue.state else { return Ok(dialogue.clone()) };
    let own = state.strip_prefix(server).and_then(|rest| rest.strip_prefix(':'));
    let own = own.ok_or_else(|| Failure::Refused {
        code: INVALID_PARAMS.into(),
        message: "the state that was brought back is not its own".to_owned(),
        data: None,
    })?;
    Ok(Dialogue { state: Some(own.to_owned()), ..dialogue.clone() })
}

/// Returns what `server` asks as a client may see it; nothing where it asks for what no client is to be
/// asked, or for too much.
pub(super) fn passed_on(server: &str, mut asked: Value) -> Option<Value> {
    let mut kept = Map::new();
    kept.insert("resultType".to_owned(), json!("input_required"));
    if let Some(Value::Object(mut requests)) = asked.get_mut("inputRequests").map(Value::take) {
        let is_plain = |id: &str| visible::line(id) == id;
        let are_known = requests.iter_mut().all(|(id, asked)| is_plain(id) && is_known(asked));
        if requests.len() > QUESTIONS_MAX || !are_known {
            return None;
        }
        let mut requests = Value::Object(requests);
        without_hidden(&mut requests);
        kept.insert("inputRequests".to_owned(), requests);
    }
    if let Some(state) = asked.get("requestState").and_then(Value::as_str) {
        kept.insert("requestState".to_owned(), json!(format!("{server}:{state}")));
    }
    let kept = Value::Object(kept);
    (kept.to_string().len() <= REPLY_BYTES_MAX).then_some(kept)
}

/// Says whether a client may be asked this; what it may not be told to do is taken out.
fn is_known(request: &mut Value) -> bool {
    let is_form = |request: &Value| {
        let mode = request.pointer("/params/mode");
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
        passed_on("s", json!({"resultType": "input_required", "inputRequests": {"q": request}}))
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
            json!({"method": "elicitation/create", "params": {"mode": ["url"], "url": "https://x.example"}}),
            json!({"method": "tools/call", "params": {}}),
            json!({"method": "roots/list", "params": {"x": long}}),
            json!(7),
        ] {
            assert_eq!(asking(&wrong), None, "{wrong}");
        }
        let many: Map<_, _> =
            (0..=QUESTIONS_MAX).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
        assert_eq!(passed_on("s", json!({"inputRequests": many})), None);
        let hidden = json!({"inputRequests": {"q\u{200b}": {"method": "roots/list"}}});
        assert_eq!(passed_on("s", hidden), None);
        let form = json!({"method": "elicitation/create", "params": {"requestedSchema": {"properties": {"a\u{202e}": {}, "b": {}}}}});
        let asked = asking(&form).unwrap();
        let schema = &asked["inputRequests"]["q"]["params"]["requestedSchema"];
        assert_eq!(schema["properties"], json!({"b": {}}));
    }

    #[test]
    fn what_one_server_is_to_get_back_no_other_gets() {
        let asked = passed_on("a", json!({"requestState": "x:1"})).unwrap();
        let state = asked["requestState"].as_str().unwrap().to_owned();
        let responses = Some(json!({"q": {}}));
        let brought = Dialogue { state: Some(state), responses, ..Dialogue::default() };
        let own = said_to("a", &brought).unwrap();
        assert_eq!((own.state.as_deref(), own.responses), (Some("x:1"), Some(json!({"q": {}}))));
        for other in ["b", ""] {
            let refused = said_to(other, &brought);
            assert!(matches!(refused, Err(Failure::Refused { .. })), "{other}");
        }
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
