//! Calls that wait, as clients of both eras see them, on a paused clock.

use std::time::Duration;

use clawhost_core::limits::{APPROVAL_HOLD_MS, ELICITED_BYTES_MAX};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::approvals::{Answer, Approvals, Approver, Pending, Reachable};
use crate::serve::calls::Calls as _;
use crate::serve::fake::{Client, FORM_PATIENCE, calling, modern};
use crate::serve::message::notice;

const YES: Answer = Answer::Approve { lease: None };
const NO: Answer = Answer::Deny { reason: None };

/// A client and the board its calls wait on, which an operator looks at.
fn connect() -> (Client, Approvals, Reachable) {
    let client = Client::connect();
    let approvals = client.host.services().approvals.clone();
    let way = approvals.reach().open();
    (client, approvals, way)
}

/// The agent of these tests may put questions to its user.
fn allow(approvals: &Approvals) {
    approvals.reach().allow_elicitation(["tester".to_owned()].into());
}

/// Returns a call of the tool that asks, by a client that can show forms.
fn call(id: u64, more: Value) -> Value {
    let mut params = json!({"name": "asks", "arguments": {"n": 1}});
    let Value::Object(more) = more else { panic!("{more}") };
    params.as_object_mut().unwrap().extend(more);
    let mut request = modern(json!(id), "tools/call", params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}});
    request
}

fn state(answer: &Value) -> Value {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"]["requestState"].clone()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Waits until something is asked and answers it.
async fn operator(approvals: &Approvals, answer: Answer) {
    let mut changes = approvals.changes();
    while approvals.pending().is_empty() {
        changes.changed().await.unwrap();
    }
    let id = &approvals.pending()[0].id;
    assert!(approvals.answer(id, None, answer, &Approver::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn a_stateless_client_comes_back_for_what_the_operator_approved() {
    let (mut client, approvals, _way) = connect();
    let first = client.ask(call(1, json!({}))).await;
    assert!(first["result"].get("inputRequests").is_none(), "{first}");
    let second = client.ask(call(2, json!({"requestState": state(&first)}))).await;
    assert_ne!(state(&first), state(&second));
    operator(&approvals, YES).await;
    let third = client.ask(call(3, json!({"requestState": state(&second)}))).await;
    assert_eq!(text(&third), "approved", "{third}");
}

#[tokio::test(start_paused = true)]
async fn a_state_is_good_once_and_for_one_call() {
    let (mut client, approvals, _way) = connect();
    let good = state(&client.ask(call(1, json!({}))).await);
    let tampered = format!("{}x", good.as_str().unwrap());
    let other = json!({"requestState": good, "arguments": {"n": 2}});
    for wrong in [json!({"requestState": tampered}), json!({"requestState": ""}), other] {
        let answer = client.ask(call(2, wrong.clone())).await;
        assert_eq!(answer["error"]["code"], -32602, "{wrong}");
    }
    operator(&approvals, YES).await;
    let answer = client.ask(call(3, json!({"requestState": good}))).await;
    assert_eq!(text(&answer), "approved");
    let again = client.ask(call(4, json!({"requestState": good}))).await;
    assert_eq!(again["error"]["code"], -32602, "{again}");
    assert!(approvals.pending().is_empty(), "it ran once");
}

#[tokio::test(start_paused = true)]
async fn a_stateless_client_s_user_is_asked_where_the_operator_allowed_it() {
    let (mut client, approvals, way) = connect();
    drop(way);
    allow(&approvals);
    for (answer, expected) in [
        (json!({"action": "accept", "content": {"approve": true}}), "approved"),
        (json!({"action": "decline"}), "not approved"),
    ] {
        let first = client.ask(call(1, json!({}))).await;
        let question = &first["result"]["inputRequests"]["approve"];
        assert_eq!(question["method"], "elicitation/create", "{first}");
        assert!(question["params"]["message"].as_str().unwrap().contains("asks"), "{first}");
        let back = json!({"requestState": state(&first), "inputResponses": {"approve": answer}});
        let second = client.ask(call(2, back)).await;
        assert!(text(&second).contains(expected), "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_cannot_answer_for_itself_where_nobody_allowed_it() {
    let (mut client, approvals, _way) = connect();
    let first = client.ask(call(1, json!({}))).await;
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let back = json!({"requestState": state(&first), "inputResponses": yes});
    let second = client.ask(call(2, back)).await;
    assert!(second["result"].get("inputRequests").is_none());
    state(&second);
    assert_eq!(approvals.pending().len(), 1, "still waits");
}

#[tokio::test(start_paused = true)]
async fn a_client_s_user_is_not_asked_about_what_no_form_shows_whole() {
    let (mut client, approvals, _way) = connect();
    allow(&approvals);
    let arguments = json!({"n": "x".repeat(ELICITED_BYTES_MAX)});
    let first = client.ask(call(1, json!({"arguments": arguments}))).await;
    assert!(first["result"].get("inputRequests").is_none(), "{first}");
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let back =
        json!({"arguments": arguments, "requestState": state(&first), "inputResponses": yes});
    let second = client.ask(call(2, back)).await;
    assert!(second["result"].get("inputRequests").is_none(), "{second}");
    operator(&approvals, YES).await;
    let back = json!({"arguments": arguments, "requestState": state(&second)});
    assert_eq!(text(&client.ask(call(3, back)).await), "approved");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_comes_back_leaves_nothing() {
    let (mut client, approvals, _way) = connect();
    let left = state(&client.ask(call(1, json!({}))).await);
    let mut changes = approvals.changes();
    changes.wait_for(|_| approvals.pending().is_empty()).await.unwrap();
    let late = client.ask(call(2, json!({"requestState": left}))).await;
    assert!(text(&late).contains("nobody approved"), "kept for a while: {late}");

    let left = state(&client.ask(call(3, json!({}))).await);
    tokio::time::sleep(std::time::Duration::from_secs(1_000)).await;
    let too_late = client.ask(call(4, json!({"requestState": left}))).await;
    assert_eq!(too_late["error"]["code"], -32602, "{too_late}");
}

/// Waits until both questions of `asks-both` are asked, and returns that about `tool` and the other.
async fn both(approvals: &Approvals, tool: &str) -> [Pending; 2] {
    let mut changes = approvals.changes();
    while approvals.pending().len() < 2 {
        changes.changed().await.unwrap();
    }
    let mut both = approvals.pending();
    both.sort_by_key(|pending| pending.asked.tool != tool);
    both.try_into().unwrap()
}

/// Returns the tool that a form asks about.
fn asked_about(form: &Value) -> &str {
    let message = form["params"]["message"].as_str().unwrap();
    if message.contains("`first`") { "first" } else { "second" }
}

// By the real clock: a paused one runs on to the end of the first question while the store's thread looks for a lease
// for the second.
#[tokio::test]
async fn an_answer_is_to_the_question_that_was_shown_and_to_no_other() {
    let (mut client, approvals, _way) = connect();
    allow(&approvals);
    let first = client.ask(call(1, json!({"name": "asks-both"}))).await;
    let shown = asked_about(&first["result"]["inputRequests"]["approve"]);
    let [shown, other] = both(&approvals, shown).await;
    assert!(approvals.answer(&shown.id, None, NO, &Approver::Operator).await);
    // The user says yes to a form whose question somebody else has answered meanwhile.
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let back = json!({"name": "asks-both", "requestState": state(&first), "inputResponses": yes});
    let came_back = Instant::now();
    let second = client.ask(call(2, back)).await;
    assert!(came_back.elapsed() < Duration::from_millis(APPROVAL_HOLD_MS), "it is asked at once");
    assert_eq!(asked_about(&second["result"]["inputRequests"]["approve"]), other.asked.tool);
    assert_eq!(approvals.pending().len(), 1, "nobody was asked about it");
    let back = json!({"name": "asks-both", "requestState": state(&second), "inputResponses": yes});
    let third = client.ask(call(3, back)).await;
    let expected = if other.asked.tool == "first" { "[true, false]" } else { "[false, true]" };
    assert_eq!(text(&third), expected, "{third}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_now_gets_no_answer_to_what_it_asked_before() {
    let (mut client, _approvals, _way) = connect();
    let first = client.ask(call(1, json!({"name": "forms"}))).await;
    assert!(first["result"]["inputRequests"]["a"].is_object(), "{first}");
    tokio::time::sleep(2 * FORM_PATIENCE).await;
    let answers = |name: &str| json!({name: {"action": "accept", "content": {}}});
    let back =
        json!({"name": "forms", "requestState": state(&first), "inputResponses": answers("a")});
    let second = client.ask(call(2, back)).await;
    assert!(second["result"]["inputRequests"]["b"].is_object(), "{second}");
    let back =
        json!({"name": "forms", "requestState": state(&second), "inputResponses": answers("b")});
    let third = client.ask(call(3, back)).await;
    assert_eq!(text(&third), json!([true, answers("b")]).to_string());
}

// By the real clock: a paused one runs on to the end of the first question while the store's thread looks for a lease
// for the second.
#[tokio::test]
async fn a_stateless_client_is_shown_each_question_of_its_call() {
    let (mut client, approvals, way) = connect();
    drop(way);
    allow(&approvals);
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let first = client.ask(call(1, json!({"name": "asks-both"}))).await;
    both(&approvals, "first").await;
    let back = json!({"name": "asks-both", "requestState": state(&first), "inputResponses": yes});
    let second = client.ask(call(2, back)).await;
    let [one, two] = [&first, &second].map(|it| &it["result"]["inputRequests"]["approve"]);
    assert_ne!(asked_about(one), asked_about(two));
    let back = json!({"name": "asks-both", "requestState": state(&second), "inputResponses": yes});
    assert_eq!(text(&client.ask(call(3, back)).await), "[true, true]");
}

/// Shakes hands in the older way, as a client that can show forms.
async fn older() -> (Client, Approvals, Reachable) {
    let (mut client, approvals, way) = connect();
    client.shake_hands(json!({"elicitation": {}})).await;
    (client, approvals, way)
}

fn older_call(id: u64) -> Value {
    calling(id, "asks", &json!({}))
}

#[tokio::test]
async fn an_older_client_s_user_is_asked_where_the_operator_allowed_it() {
    let (mut client, approvals, way) = older().await;
    drop(way);
    allow(&approvals);
    for (id, approve) in [(1, true), (2, false)] {
        client.say(older_call(id)).await;
        let question = client.hear().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let content = json!({"action": "accept", "content": {"approve": approve}});
        client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": content})).await;
        let answer = client.hear().await;
        assert_eq!(answer["id"], id);
        assert_eq!(text(&answer) == "approved", approve, "{answer}");
    }
}

/// Makes the call with two questions; returns the form for one of them, and the other.
async fn older_both(client: &mut Client, approvals: &Approvals) -> (Value, Pending) {
    let mut request = older_call(1);
    request["params"]["name"] = json!("asks-both");
    client.say(request).await;
    let first = client.hear().await;
    let [_, other] = both(approvals, asked_about(&first)).await;
    (first, other)
}

#[tokio::test]
async fn an_older_client_s_user_is_asked_each_question_of_a_call() {
    let (mut client, approvals, way) = older().await;
    drop(way);
    allow(&approvals);
    let (first, other) = older_both(&mut client, &approvals).await;
    let yes = json!({"action": "accept", "content": {"approve": true}});
    client.say(json!({"jsonrpc": "2.0", "id": first["id"], "result": yes})).await;
    let second = client.hear().await;
    assert_eq!(asked_about(&second), other.asked.tool);
    // The operator is faster: that form is of no weight any more, and the call goes on.
    let no = approvals.answer(&other.id, None, NO, &Approver::Operator);
    assert!(no.await);
    let expected = if other.asked.tool == "second" { "[true, false]" } else { "[false, true]" };
    let answer = client.hear().await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(1), expected));
}

#[tokio::test]
async fn an_older_client_is_asked_nothing_where_nobody_allowed_it() {
    let (mut client, approvals, _way) = older().await;
    client.say(older_call(1)).await;
    operator(&approvals, YES).await;
    let answer = client.hear().await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(1), "approved"));
}

#[tokio::test]
async fn replies_that_nobody_asked_for_change_nothing() {
    let (mut client, approvals, _way) = older().await;
    allow(&approvals);
    client.say(older_call(1)).await;
    let question = client.hear().await;
    let yes = json!({"action": "accept", "content": {"approve": true}});
    client.say(json!({"jsonrpc": "2.0", "id": "forged", "result": yes})).await;
    client.say(json!({"jsonrpc": "2.0", "id": 77, "result": yes})).await;
    let no = json!({"action": "decline"});
    client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": no})).await;
    client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": yes})).await;
    let answer = client.hear().await;
    assert!(text(&answer).contains("not approved"), "{answer}");
    let pong = client.ask(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(pong["result"], json!({}));
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_is_no_answer() {
    let (mut client, approvals, _way) = older().await;
    allow(&approvals);
    let (first, other) = older_both(&mut client, &approvals).await;
    let long = r#"{"action":"accept","content":{"approve":true,"n":18446744073709551616}}"#;
    let reply = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{long}}}"#, first["id"]);
    client.send(format!("{reply}\n").as_bytes()).await;
    assert_eq!(asked_about(&client.hear().await), other.asked.tool);
    assert_eq!(approvals.pending().len(), 2, "neither is answered");
}

#[tokio::test]
async fn a_client_hears_that_its_call_waits_and_can_withdraw_it() {
    let (mut client, approvals, _way) = older().await;
    let mut request = older_call(1);
    request["params"]["_meta"] = json!({"progressToken": "p"});
    client.say(request).await;
    let report = client.hear().await;
    assert_eq!(report["method"], "notifications/progress", "{report}");
    assert_eq!(report["params"]["message"], "waiting for approval");
    assert_eq!(report["params"]["progress"], 0.0);
    assert_eq!(approvals.pending().len(), 1);
    client.say(notice("notifications/cancelled", &json!({"requestId": 1}))).await;
    let mut changes = approvals.changes();
    while !approvals.pending().is_empty() {
        changes.changed().await.unwrap();
    }
}

#[tokio::test]
async fn progress_grows_where_a_call_waits_in_the_middle() {
    let (mut client, approvals, _way) = older().await;
    let mut request = older_call(1);
    request["params"] = json!({"name": "steps-and-asks", "_meta": {"progressToken": "p"}});
    client.say(request).await;
    let (step, waits) = (client.hear().await, client.hear().await);
    assert_eq!(step["params"]["progress"], 1.0);
    assert_eq!(waits["params"]["message"], "waiting for approval");
    let waited = waits["params"]["progress"].as_f64().unwrap();
    assert!(waited > 1.0 && waited < 2.0, "{waits}");
    operator(&approvals, YES).await;
    assert_eq!(client.hear().await["params"]["progress"], 2.0);
    assert_eq!(text(&client.hear().await), "approved");
}
