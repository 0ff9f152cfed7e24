//! What providers keep of OpenAI's Responses: for the agent who had it made, and for nobody else.

use clawhost_tests::Proxied;
use clawhost_tests::model::{RESPONSES_PATH, Say, answer_of};
use clawhost_tests::proxied::{ALL, Got, PROVIDER_KEY, finish, request};
use serde_json::{Value, json};

const NOTHING: &str = "- {id: nothing, action: deny, scope: all}";
const KEPT: &str = "/v1/responses/resp_1";

async fn ask(proxied: &Proxied, agent: &str, method: &str, path: &str, body: &str) -> Got {
    let token = format!("authorization: Bearer {}", proxied.token(agent));
    let stream = proxied.begin_as(method, path, &[&token], body).await;
    finish(stream, String::new()).await
}

async fn made(proxied: &Proxied, more: &Value) -> Got {
    made_as(proxied, "ada", more).await
}

async fn made_as(proxied: &Proxied, agent: &str, more: &Value) -> Got {
    let mut body = request(RESPONSES_PATH, "hi");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(proxied, agent, "POST", RESPONSES_PATH, &body.to_string()).await
}

#[tokio::test]
async fn a_response_is_seen_stopped_and_deleted_by_the_agent_who_had_it_made() {
    let answer = answer_of(RESPONSES_PATH, "Hello.", &[], "c");
    let event = |name: &str| {
        format!("event: {name}\ndata: {}\n\n", json!({ "type": name, "response": answer }))
    };
    let events = vec![event("response.created"), event("response.completed")];
    for (rules, first) in [
        (ALL, Say::Json(answer.clone())),
        (NOTHING, Say::Json(answer.clone())),
        (NOTHING, Say::Events(events)),
    ] {
        let streams = matches!(first, Say::Events(_));
        let proxied = Proxied::new(rules, vec![first, Say::Json(answer.clone())]).await;
        assert_eq!(made(&proxied, &json!({ "stream": streams })).await.status, 200);
        for (method, path) in [
            ("GET", format!("{KEPT}?include=a&limit=2")),
            ("GET", format!("{KEPT}/input_items")),
            ("POST", format!("{KEPT}/cancel")),
            ("DELETE", KEPT.to_owned()),
        ] {
            let before = proxied.model.asked().len();
            let others = ask(&proxied, "bob", method, &path, "").await;
            assert_eq!(others.status, 404, "{others:?}");
            assert_eq!(proxied.model.asked().len(), before, "nobody else is told");
            let got = ask(&proxied, "ada", method, &path, "").await;
            assert_eq!((got.status, got.json()), (200, answer.clone()));
            let asked = proxied.model.asked().pop().unwrap();
            let line = format!("{} {path} http/1.1", method.to_lowercase());
            assert_eq!((asked.head.lines().next(), &*asked.text), (Some(&*line), ""));
            assert!(asked.head.contains(&format!("bearer {PROVIDER_KEY}")), "{}", asked.head);
        }
        for (method, path) in [
            ("GET", "/v1/responses/resp_2".to_owned()),
            ("GET", format!("{KEPT}/other")),
            ("GET", format!("{KEPT}/../models")),
            ("PUT", KEPT.to_owned()),
        ] {
            assert_eq!(ask(&proxied, "ada", method, &path, "").await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn an_agent_goes_on_from_its_own_responses_only() {
    let answer = Say::Json(answer_of(RESPONSES_PATH, "Hello.", &[], "c"));
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, vec![answer.clone()]).await;
        let next = json!({ "previous_response_id": "resp_1" });
        let refused = made(&proxied, &next).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        // What is not to be kept is not found again.
        assert_eq!(made(&proxied, &json!({ "store": false })).await.status, 200);
        assert_eq!(made(&proxied, &next).await.status, 400);
        assert_eq!(made(&proxied, &json!({})).await.status, 200);
        assert_eq!(made(&proxied, &next).await.status, 200);
        let asked = proxied.model.asked();
        assert_eq!((asked.len(), &asked[2].body["previous_response_id"]), (3, &json!("resp_1")));
        let mut body = request(RESPONSES_PATH, "hi");
        body["previous_response_id"] = "resp_1".into();
        let others = ask(&proxied, "bob", "POST", RESPONSES_PATH, &body.to_string()).await;
        assert_eq!((others.status, proxied.model.asked().len()), (400, 3), "{others:?}");
    }
}

#[tokio::test]
async fn what_goes_on_from_a_response_is_for_its_maker_and_nobody_else() {
    let answer = Say::Json(answer_of(RESPONSES_PATH, "Hello.", &[], "c"));
    let next = |model: &str| json!({ "model": model, "previous_response_id": "resp_1" });
    for rules in [ALL, NOTHING] {
        // `spare` would be asked where `main` fails.
        let says = vec![answer.clone(), Say::Status(503, ""), answer.clone()];
        let mut proxied = Proxied::new(rules, says).await;
        assert_eq!(made(&proxied, &json!({})).await.status, 200);
        assert_eq!(made(&proxied, &next("main")).await.status, 502);
        assert_eq!(proxied.model.asked().len(), 2, "the fallback is not asked");
        let others = made(&proxied, &next("spare")).await;
        assert_eq!((others.status, proxied.model.asked().len()), (400, 2), "{others:?}");
        // Two providers may call theirs the same.
        assert_eq!(made_as(&proxied, "bob", &json!({ "model": "spare" })).await.status, 200);
        assert_eq!(made_as(&proxied, "bob", &next("spare")).await.status, 200);
        assert_eq!(made(&proxied, &next("main")).await.status, 200);
        // A fallback that made it is asked, and not who is meant first.
        assert_eq!(made_as(&proxied, "bob", &next("main")).await.status, 200);
        proxied.stop().await;
        let asked = proxied.history("bob");
        assert!(asked.iter().all(|line| line["effective_provider"] == "spare"), "{asked:?}");
    }
}

#[tokio::test]
async fn what_may_be_anybodys_is_refused_and_what_says_all_of_itself_is_not() {
    let answer = Say::Json(answer_of(RESPONSES_PATH, "Hello.", &[], "c"));
    let said = json!({ "type": "output_text", "text": "Hello." });
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, vec![answer.clone()]).await;
        for (key, value) in [
            ("conversation", json!("conv_ada")),
            ("conversation", json!({ "id": "conv_ada" })),
            ("input", json!([{ "type": "item_reference", "id": "msg_ada" }])),
            ("input", json!([{ "role": "user", "content": "hi" }, { "id": "msg_ada" }])),
            ("input", json!([{ "type": "message", "id": "msg_ada" }])),
            ("previous_response_id", json!(["resp_1"])),
            ("previous_response_id", json!({ "id": "resp_1" })),
        ] {
            let refused = made(&proxied, &json!({ key: value })).await;
            let error = refused.json();
            assert_eq!(
                (refused.status, &error["error"]["type"]),
                (400, &json!("invalid_request_error"))
            );
            assert!(error["error"]["message"].as_str().unwrap().contains(key), "{error}");
        }
        assert!(proxied.model.asked().is_empty());
        let echoed =
            json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [said] });
        let own = json!({ "conversation": null, "previous_response_id": null, "input": [echoed] });
        assert_eq!(made(&proxied, &own).await.status, 200);
    }
}
