//! Asking an agent's own user through the agent's client: the form, and what an answer means.
//!
//! Only where the operator allowed it for that agent, as the caller's side is no approver by
//! itself. Deliberately absent: any other question to a client, and any wish of the client's user
//! beyond yes and no.

use clawhost_core::limits::ELICITED_BYTES_MAX;
use clawhost_core::visible;
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequests, InputResponses,
    ServerRequest,
};
use rmcp::service::Peer;
use serde_json::Value;

use super::questions;
use crate::approvals::{Answer, Approvals, Approver, Pending, Question, Shown};

/// The one field of the form, and the name of the question among a result's input requests.
const APPROVE: &str = "approve";

/// Says whether a client can show a form.
pub(super) fn is_declared(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    // Before there were two modes, there was the form alone, without a name.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Returns the question as the stateless revision carries it, where the client's user can be shown all of it.
pub(super) fn input_requests(pending: &Pending) -> Option<InputRequests> {
    let request = ElicitRequest::new(form(pending)?);
    Some(InputRequests::from([(APPROVE.to_owned(), InputRequest::Elicitation(request))]))
}

/// Returns what the client's user answered; nothing where there is no answer that can be read.
pub(super) fn input_response(responses: &InputResponses) -> Option<Answer> {
    serde_json::from_value(responses.get(APPROVE)?.clone()).ok().map(|result| answer(&result))
}

/// Asks the user of an older revision's client, and passes the answer on. Returns when there is
/// none to be had; dropping it leaves the form on the user's screen, where it does nothing.
pub(super) async fn ask(peer: &Peer<RoleServer>, approvals: &Approvals, pending: &Pending) {
    let Some(form) = form(pending) else {
        return;
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    if let Some(ClientResult::ElicitResult(result)) = questions::result(peer, request).await {
        pass_on(approvals, pending, answer(&result)).await;
    }
}

/// Answers a question about the call of the very agent whose user was asked.
pub(super) async fn pass_on(approvals: &Approvals, pending: &Pending, answer: Answer) -> bool {
    let agent = &pending.asked.principal;
    let by = Approver::Elicited { agent: agent.clone() };
    approvals.answer(&pending.id, Some(agent), answer, &by).await
}

/// Returns the form; none where it would not hold the arguments whole, as whoever calls has chosen which of them
/// would be hidden. Such a question waits for the operator, who can see them.
fn form(pending: &Pending) -> Option<ElicitRequestParams> {
    let arguments = pending.shown(ELICITED_BYTES_MAX);
    if !arguments.is_whole() {
        return None;
    }
    let requested_schema = ElicitationSchema::builder().required_bool(APPROVE).build().ok()?;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(&pending.asked, &arguments),
        requested_schema,
    })
}

fn message(asked: &Question, arguments: &Shown) -> String {
    format!(
        "May `{}` run? Reason: {}. Arguments:\n{}",
        visible::line(&asked.tool),
        visible::line(&asked.reason),
        arguments.lines().join("\n"),
    )
}

/// Whatever is no clear yes is a no.
fn answer(result: &ElicitResult) -> Answer {
    let content = result.content.as_ref();
    let says_yes = content.and_then(|content| content.get(APPROVE)) == Some(&Value::Bool(true));
    match result.action {
        ElicitationAction::Accept if says_yes => Answer::Approve { lease: None },
        ElicitationAction::Cancel => {
            Answer::Deny { reason: Some("the question was dismissed".to_owned()) }
        }
        _ => Answer::Deny { reason: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: Value) -> Option<Answer> {
        input_response(&InputResponses::from([(APPROVE.to_owned(), result)]))
    }

    #[test]
    fn only_an_accepted_form_that_says_yes_is_a_yes() {
        let yes = read(json!({"action": "accept", "content": {"approve": true}}));
        assert_eq!(yes, Some(Answer::Approve { lease: None }));
        for no in [
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "accept", "content": {"approve": "true"}}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"approve": true}}),
            json!({"action": "cancel"}),
        ] {
            assert!(matches!(read(no.clone()), Some(Answer::Deny { .. })), "{no}");
        }
        assert_eq!(read(json!({"approve": true})), None);
        assert_eq!(input_response(&InputResponses::new()), None);
    }

    fn asked(arguments: Value) -> Pending {
        let [principal, tool, reason] = ["a", "write-file", "ask first"].map(str::to_owned);
        let asked = Question { principal, tool, arguments, reason, ..Question::default() };
        Pending { id: String::new(), asked: asked.into(), asked_at_ms: 0, expires_at_ms: 0 }
    }

    #[test]
    fn the_form_shows_each_argument_on_its_own_line() {
        let pending = asked(json!({"content": "x".repeat(1_000), "path": "../b\nc"}));
        let Some(ElicitRequestParams::FormElicitationParams { message, .. }) = form(&pending)
        else {
            panic!("it fits");
        };
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "May `write-file` run? Reason: ask first. Arguments:");
        assert_eq!(lines[1], r#"path: "../b\nc""#);
        assert!(lines[2].starts_with("content: \"xxx") && lines.len() == 3, "{message}");
    }

    #[test]
    fn what_is_not_shown_whole_is_not_asked() {
        let many: Value = (0..300).map(|n| (n.to_string(), json!(n))).collect();
        for arguments in [json!({"content": "x".repeat(ELICITED_BYTES_MAX)}), many] {
            let pending = asked(arguments);
            assert!(form(&pending).is_none() && input_requests(&pending).is_none());
        }
    }

    #[test]
    fn a_client_shows_forms_where_it_says_so() {
        let declares = |value| {
            is_declared(Some(&serde_json::from_value::<ClientCapabilities>(value).unwrap()))
        };
        assert!(declares(json!({"elicitation": {}})));
        assert!(declares(json!({"elicitation": {"form": {}}})));
        assert!(declares(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!declares(json!({"elicitation": {"url": {}}})));
        assert!(!declares(json!({})));
        assert!(!is_declared(None));
    }
}
