//! Turns through the proxy that end otherwise than they should, and what is told of them.

use clawhost::proxy::ProxyOptions;
use clawhost_core::mediate::{Policy, TurnBounds};
use clawhost_tests::model::{ANTHROPIC_PATH, RESPONSES_PATH, Say};
use clawhost_tests::proxied::{ALL, OPENAI_PATH, PROVIDER_KEY, request, until};
use clawhost_tests::{Proxied, wait};
use serde_json::{Value, json};

use crate::proxy::{ALL_PATHS, NOTHING, messages, says, spoken, streamed, word};

#[tokio::test]
async fn without_tools_of_ours_streams_pass_event_by_event() {
    let events = vec![
        "data: {\"choices\":[{\"delta\":{\"content\":\"ä\"}}]}\n\n".to_owned(),
        ": comment\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":2}}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ];
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n".to_owned();
    let last =
        "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":50}}\n\n"
            .to_owned();
    let says = vec![
        Say::Events(events.clone()),
        Say::Cut(vec![events[0].clone(), "event: chunk\ndata: {\"cho".to_owned()]),
        Say::Events(vec![events[0].clone(), error.clone()]),
        Say::Events(events[..1].to_vec()),
        Say::Cut(events.clone()),
        Say::Cut(vec![last.clone()]),
        Say::Open(events.clone()),
    ];
    let mut proxied = Proxied::new(NOTHING, says).await;
    let body = streamed(request(OPENAI_PATH, "hi")).to_string();
    let got = proxied.post(OPENAI_PATH, &body).await;
    assert_eq!((got.status, got.body), (200, events.concat()));
    assert_eq!(proxied.host.host().providers().usage().tokens_today, 52);
    let broke_off = |cut: &str| {
        let rest = cut.strip_prefix(events[0].as_str()).unwrap();
        assert!(rest.starts_with("\n\ndata: {\"error\":"), "{rest}");
        assert!(rest.contains("broke off") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    };
    broke_off(&proxied.post(OPENAI_PATH, &body).await.body);
    // What the provider says of its end passes; one that says nothing of it may be gone.
    assert_eq!(proxied.post(OPENAI_PATH, &body).await.body, format!("{}{error}", events[0]));
    broke_off(&proxied.post(OPENAI_PATH, &body).await.body);
    // Behind the end of an answer nothing breaks off, and nobody has to read on.
    assert_eq!(proxied.post(OPENAI_PATH, &body).await.body, events.concat());
    assert_eq!(proxied.post(OPENAI_PATH, &body).await.body, last);
    let tokens = || proxied.host.host().providers().usage().tokens_today;
    let (before, token) = (tokens(), format!("x-api-key: {}", proxied.token("ada")));
    let mut stream = proxied.begin(OPENAI_PATH, &[&token], &body).await;
    until(&mut stream, "[DONE]").await;
    drop(stream);
    let is_charged = || (tokens() == before + 52).then_some(());
    wait::until("what was used is charged, and no more", is_charged).await;
    proxied.stop().await;
    let history = proxied.history("ada");
    assert_eq!((&history[0]["status"], &history[0]["status_code"]), (&json!("ok"), &json!(200)));
    assert_eq!(history[0]["usage"]["prompt_tokens"], 50);
    for turn in &history[4..] {
        assert_eq!((&turn["status"], &turn["status_code"]), (&json!("ok"), &json!(200)), "{turn}");
        assert_eq!((&turn["error"], &turn["usage"]["prompt_tokens"]), (&Value::Null, &json!(50)));
    }
    assert_eq!(history.len(), 7);
    for (turn, why) in history[1..].iter().zip(["broke off", "overloaded", "broke off"]) {
        assert_eq!((&turn["status"], &turn["status_code"]), (&json!("error"), &json!(502)));
        assert!(turn["error"]["error"]["message"].as_str().unwrap().contains(why), "{turn}");
        assert!(turn["response"]["sse"].as_str().unwrap().starts_with(&events[0]), "{turn}");
    }
    assert_eq!(history[0]["path"], "/v1/chat/completions");
    assert_eq!(history[0]["response"]["sse"], events.concat());
}

#[tokio::test]
async fn a_schema_of_the_clients_keeps_the_order_of_its_properties() {
    let schema = r#"{"type":"object","properties":{"why":{},"answer":{"type":"number"}}}"#;
    let none: &[(&str, Value)] = &[];
    for path in ALL_PATHS {
        let (model, key) = (if path == ANTHROPIC_PATH { "claude" } else { "main" }, messages(path));
        let tool =
            format!(r#"{{"name":"own","function":{{"name":"own"}},"input_schema":{schema}}}"#);
        let body = format!(
            r#"{{"model":"{model}","{key}":[{{"role":"user","content":"hi"}}],"text":{schema},"tools":[{tool}],"output_config":{schema},"response_format":{schema}}}"#
        );
        for rules in [ALL, NOTHING] {
            let proxied = Proxied::new(rules, says(path, &[("Done.", none)])).await;
            assert_eq!(proxied.post(path, &body).await.status, 200);
            let asked = &proxied.model.asked()[0];
            assert_eq!(asked.text.matches(schema).count(), 4, "{}", asked.text);
            assert_eq!(asked.text.contains("lookup"), rules == ALL);
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_one_for_the_client_too() {
    let error = json!({ "message": "rate limited", "code": 429 });
    for (path, answer) in [
        (OPENAI_PATH, json!({ "choices": [], "error": error })),
        (ANTHROPIC_PATH, json!({ "type": "error", "content": [], "error": error })),
        (RESPONSES_PATH, json!({ "id": "r", "status": "failed", "output": [], "error": error })),
    ] {
        let body = request(path, "hi").to_string();
        let proxied = Proxied::open(vec![Say::Json(answer.clone())]).await;
        let got = proxied.post(path, &body).await;
        let told = (got.status, got.json()["error"]["message"].clone());
        assert_eq!(told, (502, json!("rate limited")));
        // Where bytes pass the record says so.
        let mut proxied = Proxied::new(NOTHING, vec![Say::Json(answer.clone())]).await;
        let got = proxied.post(path, &body).await;
        assert_eq!((got.status, got.json()), (200, answer));
        proxied.stop().await;
        let turn = &proxied.history("ada")[0];
        let told = (&turn["status"], &turn["status_code"]);
        assert_eq!(told, (&json!("error"), &json!(502)), "{turn}");
    }
}

#[tokio::test]
async fn what_the_provider_says_of_asking_again_reaches_the_client() {
    let refusal: &[u8] = b"HTTP/1.1 409 -\r\ncontent-type: application/json\r\nx-should-retry: false\r\ncontent-length: 2\r\n\r\n{}";
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, vec![Say::Bytes(refusal)]).await;
        let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
        assert_eq!(got.status, 409);
        assert!(got.head.contains("x-should-retry: false"), "{}", got.head);
    }
}

#[tokio::test]
async fn what_was_hidden_comes_back_before_an_answer_that_held_a_secret() {
    for path in ALL_PATHS {
        let look: &[(&str, Value)] = &[("lookup", word("wasm"))];
        let none: &[(&str, Value)] = &[];
        let said = format!("It is {PROVIDER_KEY}.");
        let script = [("", look), (said.as_str(), none), ("Bye.", none)];
        let proxied = Proxied::open(says(path, &script)).await;
        let (mut body, key) = (request(path, "What is it?"), messages(path));
        body[key] = json!([{ "role": "user", "content": "What is it?" }]);
        let got = proxied.post(path, &body.to_string()).await.json();
        assert!(got.to_string().contains("[redacted"), "{got}");
        let messages = body[key].as_array_mut().unwrap();
        messages.push(spoken(path, &got));
        messages.push(json!({ "role": "user", "content": "And now?" }));
        proxied.post(path, &body.to_string()).await;
        let asked = proxied.model.asked().pop().unwrap().body[key].to_string();
        assert!(asked.contains("wasm"), "{asked}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_leaves_the_model_time_for_its_last_words() {
    // With a second beyond its own time the call would outlast the turn.
    let bounds =
        TurnBounds { total_timeout_ms: 3_000, timeout_per_tool_ms: 3_000, ..TurnBounds::default() };
    let policy = Policy { bounds, ..Policy::default() };
    let options = ProxyOptions { policy, ..ProxyOptions::default() };
    let ask = "- {id: ask, action: require-approval, scope: tool, match: {name: lookup}}";
    let look: &[(&str, Value)] = &[("lookup", word("x"))];
    let script = [("", look), ("Enough.", &[][..])];
    let rules = format!("{ask}\n{ALL}");
    let proxied = Proxied::with(&rules, says(OPENAI_PATH, &script), "", options).await;
    let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.json()["choices"][0]["message"]["content"], "Enough.");
    let result = proxied.model.asked()[1].body["messages"][2].to_string();
    assert!(result.contains("\\\"ok\\\":false"), "{result}");
}
