//! What providers keep: for the agent who had it made, and for nobody else.

use clawhost_tests::Proxied;
use clawhost_tests::model::{ANTHROPIC_PATH, RESPONSES_PATH, Say, answer_of};
use clawhost_tests::proxied::{ALL, Got, OPENAI_PATH, PROVIDER_KEY, finish, request};
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
    made_at(proxied, RESPONSES_PATH, agent, more).await
}

async fn made_at(proxied: &Proxied, path: &str, agent: &str, more: &Value) -> Got {
    let mut body = request(path, "hi");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(proxied, agent, "POST", path, &body.to_string()).await
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
            ("input", json!([{ "role": "user", "content": "hi" }, { "id": "msg_ada" }])),
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

/// Of each protocol: what an answer says was made, an event that says it, and a request that names it.
fn things() -> [(&'static str, Value, Value, Value); 3] {
    let mut heard = answer_of(OPENAI_PATH, "Hello.", &[], "c");
    let sound = json!({ "id": "audio_1", "data": "", "transcript": "Hello." });
    heard["choices"][0]["message"]["audio"] = sound.clone();
    let chunk = json!({ "choices": [{ "index": 0, "delta": { "audio": sound } }] });
    let again = json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "audio": { "id": "audio_1" } },
    ] });
    let mut ran = answer_of(ANTHROPIC_PATH, "Hello.", &[], "c");
    ran["container"] = json!({ "id": "container_1", "expires_at": "2100-01-01T00:00:00Z" });
    let delta = json!({ "type": "message_delta", "delta": { "container": ran["container"] } });
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let mut meant = answer_of(RESPONSES_PATH, "Hello.", &[], "c");
    meant["output"].as_array_mut().unwrap().insert(0, thought.clone());
    let done = json!({ "type": "response.output_item.done", "item": thought });
    let thoughts = json!({ "input": [thought, { "type": "item_reference", "id": "rs_1" }] });
    [
        (OPENAI_PATH, heard, chunk, again),
        (ANTHROPIC_PATH, ran, delta, json!({ "container": "container_1" })),
        (RESPONSES_PATH, meant, done, thoughts),
    ]
}

#[tokio::test]
async fn what_was_made_for_an_agent_is_named_by_it_alone_in_each_protocol() {
    for (path, answer, event, naming) in things() {
        let events = Say::Events(vec![format!("data: {event}\n\n")]);
        for (rules, made) in [
            (ALL, Say::Json(answer.clone())),
            (NOTHING, Say::Json(answer.clone())),
            (NOTHING, events),
        ] {
            let streams = matches!(made, Say::Events(_));
            let proxied = Proxied::new(rules, vec![made, Say::Json(answer.clone())]).await;
            let names = async |agent: &str| {
                let got = made_at(&proxied, path, agent, &naming).await;
                (got.status, proxied.model.asked().len())
            };
            assert_eq!(names("ada").await, (400, 0), "{path}");
            let made = made_at(&proxied, path, "ada", &json!({ "stream": streams })).await;
            assert_eq!(made.status, 200, "{made:?}");
            assert_eq!(names("ada").await, (200, 2), "{path}, streaming: {streams}");
            assert_eq!(names("bob").await, (400, 2), "{path}");
        }
    }
}

#[tokio::test]
async fn a_prompt_is_compared_with_those_of_its_own_agent_only() {
    let answer = answer_of(ANTHROPIC_PATH, "Hello.", &[], "c");
    let begun = json!({ "type": "message_start", "message": answer });
    let events = Say::Events(vec![format!("data: {begun}\n\n")]);
    let compared = |with: Value| json!({ "diagnostics": { "previous_message_id": with } });
    for (rules, first) in
        [(ALL, Say::Json(answer.clone())), (NOTHING, Say::Json(answer.clone())), (NOTHING, events)]
    {
        let streams = matches!(first, Say::Events(_));
        let says = vec![Say::Json(answer.clone()), first, Say::Json(answer.clone())];
        let proxied = Proxied::new(rules, says).await;
        let status = async |agent: &str, more: Value| {
            made_at(&proxied, ANTHROPIC_PATH, agent, &more).await.status
        };
        // Nothing is kept of a request that does not ask for it.
        assert_eq!(status("ada", json!({})).await, 200);
        assert_eq!(status("ada", compared(json!("msg_1"))).await, 400);
        let mut first = compared(Value::Null);
        first["stream"] = streams.into();
        assert_eq!(status("ada", first).await, 200);
        assert_eq!(status("ada", compared(json!("msg_1"))).await, 200, "streaming: {streams}");
        assert_eq!(status("bob", compared(json!("msg_1"))).await, 400);
        assert_eq!(proxied.model.asked().len(), 3);
    }
}

#[tokio::test]
async fn a_sound_of_others_goes_out_as_its_words_and_never_by_its_name() {
    let mut heard = answer_of(OPENAI_PATH, "Hello.", &[], "c");
    let sound = json!({ "id": "audio_1", "data": "aGk=", "transcript": "Hello." });
    heard["choices"][0]["message"]["audio"] = sound.clone();
    let said =
        json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "audio": sound }]);
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, vec![Say::Json(heard.clone())]).await;
        let sent = async |agent: &str| {
            let got = made_at(&proxied, OPENAI_PATH, agent, &json!({ "messages": said })).await;
            assert_eq!(got.status, 200, "{got:?}");
            proxied.model.asked().pop().unwrap()
        };
        let before = sent("ada").await;
        assert_eq!(before.body["messages"][1], json!({ "role": "assistant", "content": "Hello." }));
        assert!(!before.text.contains("audio_1"), "{}", before.text);
        // That answer had one of its own made, of that name.
        assert_eq!(sent("ada").await.body["messages"], said);
        assert!(!sent("bob").await.text.contains("audio_1"));
        let mut nameless = said.clone();
        nameless[1]["audio"]["transcript"] = "".into();
        let got = made_at(&proxied, OPENAI_PATH, "bob", &json!({ "messages": nameless })).await;
        assert_eq!(got.status, 400, "{got:?}");
    }
}

#[tokio::test]
async fn what_is_fetched_later_and_what_a_client_keeps_itself_is_named_again() {
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let mut meant = answer_of(RESPONSES_PATH, "Hello.", &[], "c");
    meant["output"].as_array_mut().unwrap().insert(0, thought.clone());
    let mut begun = meant.clone();
    begun["output"] = json!([]);
    let naming = json!({ "input": [thought, { "role": "user", "content": "go on" }] });
    let proxied =
        Proxied::new(NOTHING, vec![Say::Json(begun.clone()), Say::Json(meant.clone())]).await;
    assert_eq!(made(&proxied, &json!({ "background": true })).await.status, 200);
    assert_eq!(made(&proxied, &naming).await.status, 400);
    assert_eq!(ask(&proxied, "ada", "GET", KEPT, "").await.json(), meant);
    assert_eq!(made(&proxied, &naming).await.status, 200);
    assert_eq!(made_as(&proxied, "bob", &naming).await.status, 400);
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, vec![Say::Json(meant.clone())]).await;
        assert_eq!(made(&proxied, &json!({ "store": false })).await.status, 200);
        assert_eq!(made(&proxied, &naming).await.status, 200);
        assert_eq!(made_as(&proxied, "bob", &naming).await.status, 400);
    }
}

#[tokio::test]
async fn a_provider_takes_no_name_from_another() {
    let answer = answer_of(RESPONSES_PATH, "Hello.", &[], "c");
    let model = |model: &str| json!({ "model": model });
    let next = |model: &str| json!({ "model": model, "previous_response_id": "resp_1" });
    let mut proxied = Proxied::new(NOTHING, vec![Say::Json(answer)]).await;
    assert_eq!(made(&proxied, &model("main")).await.status, 200);
    assert_eq!(made(&proxied, &model("spare")).await.status, 200);
    assert_eq!(made(&proxied, &next("main")).await.status, 200);
    assert_eq!(ask(&proxied, "ada", "GET", KEPT, "").await.status, 200);
    assert_eq!(made(&proxied, &next("spare")).await.status, 200);
    proxied.stop().await;
    let by = proxied.history("ada").into_iter().map(|line| line["effective_provider"].clone());
    assert_eq!(by.collect::<Vec<_>>(), ["main", "spare", "main", "main", "spare"]);
}

#[tokio::test]
async fn what_is_made_elsewhere_is_refused_and_it_is_said_what_to_do() {
    let file = json!({ "type": "file", "file_id": "file_1" });
    let part = |part: Value| json!([{ "role": "user", "content": [part] }]);
    for (path, key, value, instead) in [
        (
            RESPONSES_PATH,
            "input",
            part(json!({ "type": "input_file", "file_id": "file_1" })),
            "embed",
        ),
        (
            OPENAI_PATH,
            "messages",
            part(json!({ "type": "file", "file": { "file_id": "f" } })),
            "embed",
        ),
        (ANTHROPIC_PATH, "messages", part(json!({ "type": "document", "source": file })), "embed"),
        (
            "/v1/messages/count_tokens",
            "messages",
            part(json!({ "type": "image", "source": file })),
            "embed",
        ),
    ] {
        let proxied = Proxied::open(vec![Say::HangUp]).await;
        let like = path.strip_suffix("/count_tokens").unwrap_or(path);
        let mut body = request(like, "hi");
        body[key] = value;
        let got = ask(&proxied, "ada", "POST", path, &body.to_string()).await;
        let error = got.json();
        assert_eq!((got.status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
        assert!(error["error"]["message"].as_str().unwrap().contains(instead), "{error}");
        assert!(proxied.model.asked().is_empty());
    }
}
