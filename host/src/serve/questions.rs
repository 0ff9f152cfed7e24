//! What a bridged server asks of the client that calls it, in the words of the client's revision: the
//! stateless one gets the questions as its answer and comes again, an older one is asked meanwhile. What
//! a stateless server asks a stateless client passes; all else is asked while the call waits.
//!
//! Deliberately absent: deciding whether a server may ask, which is the operator's.

use std::sync::Arc;

use clawhost_core::error::CallError;
use rmcp::model::{
    ClientCapabilities, ClientResult, InputRequest, InputRequests, InputRequiredResult,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};

use super::beside::words;
use super::waiting::Turn;
use crate::dialogue::{Dialogue, ServerQuestion};
use crate::upstream::mcp::INPUT_REQUIRED;

/// What stands before a server's own state, to tell it from a ticket of this host.
const SERVERS_STATE: &str = "server:";

/// Returns what a client can be asked.
pub(super) fn dialogue(capabilities: Option<&ClientCapabilities>) -> Dialogue {
    let asked = |all: &&ClientCapabilities| {
        all.elicitation.is_some() || all.roots.is_some() || all.sampling.is_some()
    };
    let all = capabilities.filter(asked).and_then(|all| serde_json::to_value(all).ok());
    let Some(Value::Object(all)) = all else { return Dialogue::default() };
    let asked = |key: &String| ["elicitation", "roots", "sampling"].contains(&key.as_str());
    let capabilities: Map<_, _> = all.into_iter().filter(|(key, _)| asked(key)).collect();
    let asks = (!capabilities.is_empty()).then(Arc::default);
    Dialogue { capabilities, asks, ..Dialogue::default() }
}

/// Returns a server's own state, where a client brings one.
pub(super) fn servers_state(state: &str) -> Option<String> {
    state.strip_prefix(SERVERS_STATE).map(str::to_owned)
}

/// Returns what a call's server asks, where that is why it failed and the client can be asked so.
///
/// # Errors
/// The client says that it cannot be asked this.
fn asked(
    error: &CallError,
    capabilities: Option<&ClientCapabilities>,
) -> Result<Option<InputRequiredResult>, ErrorData> {
    let asked = error.data.get(INPUT_REQUIRED).cloned();
    let asked = asked.and_then(|asked| serde_json::from_value::<InputRequiredResult>(asked).ok());
    let Some(mut asked) = asked else { return Ok(None) };
    asked.request_state = asked.request_state.map(|state| format!("{SERVERS_STATE}{state}"));
    match missing(asked.input_requests.iter().flatten(), capabilities) {
        None => Ok(Some(asked)),
        Some(missing) => Err(ErrorData::missing_required_client_capability(missing)),
    }
}

/// Returns what the client of a stateless request is told of its call, which `is_answer`ed something
/// or not: what a server says of an answer is no result of a tool.
///
/// # Errors
/// The client cannot be asked what the server asks, or what it brought is refused.
pub(super) fn told(
    turn: Turn,
    is_answer: bool,
    capabilities: Option<&ClientCapabilities>,
) -> Result<Turn, ErrorData> {
    match turn {
        Turn::Done(Err(error)) => Ok(match asked(&error, capabilities)? {
            Some(asked) => Turn::Waits(asked),
            None => Turn::Done(Err(error)),
        }),
        Turn::Done(Ok(reply)) if is_answer && reply.error_kind == Some("server-error") => {
            Err(ErrorData::invalid_params(words(&reply), None))
        }
        turn => Ok(turn),
    }
}

/// Returns what a client would have to be able to do and says it is not.
fn missing<'a>(
    requests: impl Iterator<Item = (&'a String, &'a InputRequest)>,
    capabilities: Option<&ClientCapabilities>,
) -> Option<ClientCapabilities> {
    let none = ClientCapabilities::default();
    let has = capabilities.unwrap_or(&none);
    let mut missing = ClientCapabilities::default();
    for (_, request) in requests {
        match request {
            InputRequest::CreateMessage(_) if has.sampling.is_none() => {
                missing.sampling = Some(Default::default());
            }
            InputRequest::Elicitation(_) if has.elicitation.is_none() => {
                missing.elicitation = Some(Default::default());
            }
            InputRequest::ListRoots(_) if has.roots.is_none() => {
                missing.roots = Some(Default::default());
            }
            _ => {}
        }
    }
    (missing != none).then_some(missing)
}

/// Returns what is asked, as the stateless revision carries it.
pub(super) fn input_requests(asked: &ServerQuestion) -> Option<InputRequests> {
    serde_json::from_value(asked.requests.clone()).ok()
}

/// Asks the client of an older revision, and returns its answers; nothing where one is missing.
pub(super) async fn answers(peer: &Peer<RoleServer>, asked: &ServerQuestion) -> Option<Value> {
    let requests = input_requests(asked)?;
    let mut answers = Map::new();
    for (name, request) in requests {
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return None,
        };
        answers.insert(name, answer(peer, request).await?);
    }
    Some(Value::Object(answers))
}

async fn answer(peer: &Peer<RoleServer>, request: ServerRequest) -> Option<Value> {
    match result(peer, request).await? {
        ClientResult::EmptyResult(_) => None,
        result => serde_json::to_value(result).ok(),
    }
}

/// Sends a request to the client of an older revision; dropping it leaves the question there, where it does nothing.
pub(super) async fn result(
    peer: &Peer<RoleServer>,
    request: ServerRequest,
) -> Option<ClientResult> {
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let handle = sent.inspect_err(|error| tracing::debug!(%error, "a client cannot be asked"));
    handle.ok()?.await_response().await.ok()
}
