//! Completions with tools of the host in them: what models are asked, and what clients get.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clawhost::proxy::ProxyOptions;
use clawhost_core::mediate::{Policy, Repeat, TurnBounds};
use clawhost_tests::model::{ANTHROPIC_PATH, Asked, RESPONSES_PATH, Say, UNSPEAKABLE, answer_of};
use clawhost_tests::proxied::{ALL, Got, OPENAI_PATH, PROVIDER_KEY, WAITS, finish, request, until};
use clawhost_tests::wait;
use clawhost_tests::{Cli, Model, Proxied, Served};
use serde_json::{Value, json};
use tokio::sync::Notify;

const PATHS: [&str; 2] = [OPENAI_PATH, ANTHROPIC_PATH];
pub(crate) const ALL_PATHS: [&str; 3] = [OPENAI_PATH, ANTHROPIC_PATH, RESPONSES_PATH];
pub(crate) const NOTHING: &str = "- {id: nothing, action: deny, scope: all}";
fn bounded(bounds: TurnBounds) -> Policy {
    Policy { bounds, ..Policy::default() }
}

pub(crate) fn word(word: &str) -> Value {
    json!({ "word": word })
}

fn dialect(path: &str) -> &'static str {
    match path {
        OPENAI_PATH => "openai",
        RESPONSES_PATH => "responses",
        _ => "anthropic",
    }
}

/// Returns the key of what was said in a request of that path.
pub(crate) fn messages(path: &str) -> &'static str {
    if path == RESPONSES_PATH { "input" } else { "messages" }
}

fn said<'v>(path: &str, body: &'v Value) -> &'v [Value] {
    body[messages(path)].as_array().unwrap()
}

/// What a model says once: a text, and calls by name and arguments.
type Said = (&'static str, Vec<(&'static str, Value)>);

/// A model of the protocol of `path` that says these things one after the other: a text and calls.
pub(crate) fn says(path: &str, script: &[(&str, &[(&str, Value)])]) -> Vec<Say> {
    let numbered = (0..).zip(script);
    let say = numbered.map(|(number, (text, calls)): (i32, _)| {
        Say::Json(answer_of(path, text, calls, &format!("call_{number}_")))
    });
    say.collect()
}

pub(crate) fn streamed(mut request: Value) -> Value {
    request["stream"] = true.into();
    request
}

/// Returns what the client got, as text; comments come when they come.
fn told(got: &Got) -> String {
    let lines = got.body.lines().filter(|line| !line.starts_with(": ")).collect::<Vec<_>>();
    format!("{}\n{}", got.status, lines.join("\n").trim())
}

/// Returns what the model was asked, each message once, and what the client got.
fn transcript(path: &str, proxied: &Proxied, got: &Got) -> String {
    let mut text = String::new();
    let mut seen = 0;
    for asked in proxied.model.asked() {
        let tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| {
            let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
            name.unwrap().to_owned()
        };
        let names = tools.iter().map(name).collect::<Vec<_>>().join(", ");
        let streams = if asked.body["stream"] == true { ", streaming" } else { "" };
        text.push_str(&format!("asked with {names}{streams}\n"));
        let messages = said(path, &asked.body);
        for message in messages.iter().skip(seen) {
            text.push_str(&format!("  {message}\n"));
        }
        seen = messages.len();
    }
    format!("{text}got {}\n", told(got))
}

/// Says the five things that can become of a turn.
fn cases() -> Vec<(&'static str, Vec<Said>)> {
    let look = || ("lookup", word("wasm"));
    let own = || ("own", json!({ "a": 1 }));
    vec![
        ("text", vec![("Hello.", vec![])]),
        (
            "managed",
            vec![("Let me see.", vec![look(), ("lookup", word("missing"))]), ("Done.", vec![])],
        ),
        ("native", vec![("", vec![own()])]),
        ("managed_then_native", vec![("", vec![look(), own()]), ("", vec![own()])]),
        (
            "native_then_managed",
            vec![("", vec![own(), look()]), ("", vec![look()]), ("Done.", vec![])],
        ),
    ]
}

#[tokio::test]
async fn each_course_of_a_turn_in_each_protocol_streaming_or_not() {
    for path in ALL_PATHS {
        let mut all = String::new();
        for (case, script) in cases() {
            let script: Vec<_> =
                script.iter().map(|(text, calls)| (*text, calls.as_slice())).collect();
            let plain = request(path, "What is it?");
            for (form, request) in [("whole", plain.clone()), ("streamed", streamed(plain))] {
                let proxied = Proxied::open(says(path, &script)).await;
                let got = proxied.post(path, &request.to_string()).await;
                all.push_str(&format!("== {case}, {form}\n{}\n", transcript(path, &proxied, &got)));
            }
        }
        insta::assert_snapshot!(format!("turns_{}", dialect(path)), all);
    }
}

#[tokio::test]
async fn without_tools_of_ours_bytes_pass_both_ways() {
    for path in ALL_PATHS {
        let answer =
            format!(" {{\"odd\":  1.50, {}", &answer_of(path, "hi", &[], "c").to_string()[1..]);
        let leaked: &'static [u8] = Box::leak(
            format!("HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-request-id: r1\r\nrequest-id: {PROVIDER_KEY}\r\nset-cookie: a=b\r\n\r\n{answer}", answer.len()).into_bytes().into_boxed_slice(),
        );
        let proxied = Proxied::new(NOTHING, vec![Say::Bytes(leaked)]).await;
        // The model by its own name: the first of both protocols.
        let body = format!(
            "{{ \"model\":\"{}\" , \"unknown\": [1.0,  2e3], \"{}\": [{{\"role\":\"user\",\"content\":\"h\\u0069\"}}]}}",
            if path == ANTHROPIC_PATH { "claude" } else { "none" },
            if path == RESPONSES_PATH { "input" } else { "messages" },
        );
        let got = proxied.post(path, &body).await;
        assert_eq!((got.status, got.body.as_str()), (200, answer.as_str()));
        assert!(got.head.contains("x-request-id: r1") && !got.head.contains("set-cookie"));
        assert!(got.head.contains("\nrequest-id: [redacted") && !got.head.contains(PROVIDER_KEY));
        let asked = &proxied.model.asked()[0];
        assert!(asked.head.starts_with(&format!("post {path} ")), "{}", asked.head);
        if path != ANTHROPIC_PATH {
            assert_eq!(asked.text, body);
        } else {
            let mut expected: Value = serde_json::from_str(&body).unwrap();
            expected["model"] = "none".into();
            assert_eq!(asked.body, expected);
        }
    }
}

#[tokio::test]
async fn only_an_agents_token_opens_the_proxy_and_none_goes_further() {
    let proxied = Proxied::open(says(OPENAI_PATH, &[("Hello.", &[])])).await;
    for path in PATHS {
        let body = request(path, "hi").to_string();
        let operator = format!("Authorization: Bearer {}", proxied.operator());
        for (headers, status) in [
            (vec![], 401),
            (vec!["Authorization: Bearer sk-of-the-client"], 401),
            (vec!["x-api-key: sk-of-the-client"], 401),
            (vec![operator.as_str()], 403),
        ] {
            let got = proxied.send(path, &headers, &body).await;
            assert_eq!(got.status, status, "{got:?}");
            let kind = got.json()["error"]["type"].as_str().unwrap().to_owned();
            assert_eq!(
                kind,
                if status == 401 { "authentication_error" } else { "permission_error" }
            );
        }
    }
    assert!(proxied.model.asked().is_empty());
    let key = format!("x-api-key: {}", proxied.token("bob"));
    let got = proxied.send(OPENAI_PATH, &[&key], &request(OPENAI_PATH, "hi").to_string()).await;
    assert_eq!(got.status, 200, "{got:?}");
    let head = &proxied.model.asked()[0].head;
    assert!(head.contains(&format!("authorization: bearer {PROVIDER_KEY}")), "{head}");
    assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
    assert!(!head.contains("x-api-key") && !head.contains(&proxied.token("bob").to_lowercase()));
    let models = proxied.send("/v1/models", &[&key], "").await.json();
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["main", "spare", "claude"]);
}

#[tokio::test]
async fn what_is_no_request_is_refused_as_the_protocol_has_it() {
    let proxied = Proxied::open(says(OPENAI_PATH, &[("Hello.", &[])])).await;
    for (path, body, status) in [
        (OPENAI_PATH, "{".to_owned(), 400),
        (OPENAI_PATH, "[]".to_owned(), 400),
        (OPENAI_PATH, r#"{"model":"main","model":"spare","messages":[]}"#.to_owned(), 400),
        (OPENAI_PATH, json!({ "model": "main" }).to_string(), 400),
        (OPENAI_PATH, json!({ "model": "main", "n": 2, "messages": [] }).to_string(), 400),
        (OPENAI_PATH, json!({ "model": "nobody", "messages": [] }).to_string(), 404),
        (OPENAI_PATH, json!({ "model": "claude", "messages": [] }).to_string(), 404),
        (ANTHROPIC_PATH, json!({ "model": "spare", "messages": [] }).to_string(), 404),
        (RESPONSES_PATH, json!({}).to_string(), 400),
        (RESPONSES_PATH, json!({ "model": "main", "background": true }).to_string(), 400),
        (RESPONSES_PATH, json!({ "model": "main", "conversation": "c" }).to_string(), 400),
        ("/v1/responses/resp_1", json!({}).to_string(), 404),
    ] {
        let got = proxied.post(path, &body).await;
        assert_eq!(got.status, status, "{body}: {got:?}");
        assert!(got.json()["error"]["message"].is_string());
    }
    assert!(proxied.model.asked().is_empty());
}

#[tokio::test]
async fn what_providers_fail_with_is_the_next_ones_turn_and_then_the_clients() {
    let good = || Say::Json(answer_of(OPENAI_PATH, "Hello.", &[], "c"));
    let refuses = Say::Bytes(b"HTTP/1.1 400 -\r\ncontent-length: 40\r\n\r\n{\"error\":{\"message\":\"context too long\"}}");
    for (rules, says, status, asked) in [
        (ALL, vec![Say::Status(429, "retry-after: 1\r\n"), good()], 200, 2),
        (ALL, vec![Say::Status(500, ""), good()], 200, 2),
        (NOTHING, vec![Say::HangUp, good()], 200, 2),
        (
            NOTHING,
            vec![Say::Bytes(b"HTTP/1.1 200 -\r\ncontent-length: 2\r\n\r\n{]"), good()],
            200,
            2,
        ),
        // Packed, nobody sees what is in it.
        (
            NOTHING,
            vec![Say::Bytes(b"HTTP/1.1 200 -\r\ncontent-encoding: gzip\r\ncontent-length: 14\r\n\r\n{\"choices\":[]}"), good()],
            200,
            2,
        ),
        (ALL, vec![Say::Status(429, ""), Say::Status(429, "")], 429, 2),
        (NOTHING, vec![Say::Status(503, ""), Say::Status(503, "")], 502, 2),
        // That is about this host's key.
        (ALL, vec![Say::Status(401, ""), Say::Status(401, "")], 502, 2),
        (ALL, vec![Say::Bytes(b"HTTP/1.1 200 -\r\ncontent-length: 9999\r\n\r\n{")], 502, 2),
        (ALL, vec![refuses.clone()], 400, 1),
        (NOTHING, vec![refuses.clone()], 400, 1),
    ] {
        let proxied = Proxied::new(rules, says.clone()).await;
        let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
        assert_eq!((got.status, proxied.model.asked().len()), (status, asked), "{says:?}: {got:?}");
        assert!(!got.body.contains(UNSPEAKABLE), "{got:?}");
        assert_eq!(got.body.contains("context too long"), status == 400);
    }
}

#[tokio::test]
async fn how_long_the_last_provider_wants_to_be_left_alone_is_said_to_the_client() {
    // At once is a word as well.
    for (rules, status, wait) in
        [(ALL, 429, "retry-after: 7\r\n"), (NOTHING, 503, "retry-after: 0\r\n")]
    {
        let says = vec![Say::Status(429, ""), Say::Status(status, wait)];
        let proxied = Proxied::new(rules, says).await;
        let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
        assert!(got.head.lines().any(|line| line == wait.trim_end()), "{got:?}");
    }
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_429_and_says_when() {
    let (says, limits) =
        (says(OPENAI_PATH, &[("Hello.", &[])]), "limits: {requests_per_minute: 1},");
    let proxied = Proxied::with(ALL, says, limits, ProxyOptions::default()).await;
    let body = request(OPENAI_PATH, "hi").to_string();
    assert_eq!(proxied.post(OPENAI_PATH, &body).await.status, 200);
    let got = proxied.post(OPENAI_PATH, &body).await;
    assert_eq!((got.status, got.json()["error"]["type"].as_str()), (429, Some("rate_limit_error")));
    assert!(got.head.contains("retry-after: "), "{}", got.head);
}

#[tokio::test]
async fn arguments_that_cannot_be_read_and_tools_nobody_has_are_told_to_the_model() {
    let script: &[(&str, &[(&str, Value)])] = &[
        (
            "",
            &[
                ("lookup", json!("{\"word\": ")),
                ("lookupp", word("x")),
                ("lookup", json!({ "wrong": 1 })),
            ],
        ),
        ("Sorry.", &[]),
    ];
    let mut proxied = Proxied::open(says(OPENAI_PATH, script)).await;
    let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "Sorry.");
    proxied.stop().await;
    let calls = proxied.history("ada")[0]["tool_trace"][0]["tool_calls"].clone();
    let codes: Vec<&str> = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["result"]["error"]["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["invalid_arguments", "unsupported_tool", "schema_validation"]);
    // What is refused before it is a call leaves no record; what the gate refuses does.
    assert_eq!(proxied.host.finished().len(), 1);
}

#[tokio::test]
async fn the_same_call_twice_is_made_once() {
    for (repeat, said) in
        [(Repeat::Reject, "duplicate_tool_call"), (Repeat::Replay, "\\\"found\\\":\\\"x\\\"")]
    {
        let calls: &[(&str, Value)] = &[("lookup", word("x"))];
        let script: &[(&str, &[(&str, Value)])] = &[("", calls), ("", calls), ("Done.", &[])];
        let options = ProxyOptions {
            policy: Policy { repeat, ..Policy::default() },
            ..ProxyOptions::default()
        };
        let proxied = Proxied::with(ALL, says(ANTHROPIC_PATH, script), "", options).await;
        let got = proxied.post(ANTHROPIC_PATH, &request(ANTHROPIC_PATH, "hi").to_string()).await;
        assert_eq!(got.json()["content"][0]["text"], "Done.");
        let last = proxied.model.asked()[2].body["messages"][4].to_string();
        assert!(last.contains(said), "{last}");
        assert_eq!(proxied.host.finished().len(), 1);
    }
}

#[tokio::test]
async fn numbers_that_say_nothing_are_left_out_for_the_models_that_are_named() {
    let filled = json!({ "word": "x", "page": 1 });
    for (begin, made) in [("main/no", word("x")), ("claude/", filled.clone())] {
        let calls: &[(&str, Value)] = &[("lookup", filled.clone())];
        let script: &[(&str, &[(&str, Value)])] = &[("", calls), ("Done.", &[])];
        let prune_sentinels = vec![begin.to_owned()];
        let options = ProxyOptions { prune_sentinels, ..ProxyOptions::default() };
        let mut proxied = Proxied::with(ALL, says(OPENAI_PATH, script), "", options).await;
        proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
        proxied.stop().await;
        let call = &proxied.history("ada")[0]["tool_trace"][0]["tool_calls"][0];
        assert_eq!(call["arguments"], made, "{begin}");
    }
}

#[tokio::test]
async fn the_longest_answer_of_small_calls_is_a_short_refusal_or_a_stream() {
    let many = vec![("unheard-of", json!({})); 20_000];
    let few = vec![("unheard-of", json!({})); 100];
    for (calls, status) in [(&many, 502), (&few, 200)] {
        let mut said = answer_of(OPENAI_PATH, "", calls, "c");
        said["unknown"] = "x".repeat(1_000_000).into();
        let proxied = Proxied::open(vec![Say::Json(said)]).await;
        let body = streamed(request(OPENAI_PATH, "hi")).to_string();
        let got = proxied.post(OPENAI_PATH, &body).await;
        assert_eq!(got.body.contains("calls at once"), status == 502);
        // The turn may have lasted so long that the stream had begun.
        assert!(got.status == status || got.status == 200, "{}", got.status);
        // What else the answer says is in a stream once.
        let most = if status == 502 { 100_000 } else { 1_100_000 };
        assert!(got.body.len() < most, "{}", got.body.len());
    }
}

#[tokio::test]
async fn a_turn_is_the_agents_own_on_the_one_path_and_records_say_which() {
    let script: &[(&str, &[(&str, Value)])] = &[("", &[("lookup", word("x"))]), ("Done.", &[])];
    let mut proxied = Proxied::open(says(OPENAI_PATH, script)).await;
    let token = format!("x-api-key: {}", proxied.token("ada"));
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body = request(OPENAI_PATH, "hi").to_string();
    proxied.send(OPENAI_PATH, &[&token, trace, "tracestate: a=b"], &body).await;
    proxied.send(OPENAI_PATH, &[&token, "traceparent: 00-x", "tracestate: a=b"], &body).await;
    proxied.stop().await;
    let is_traced = |asked: &Asked| asked.head.contains(trace) && asked.head.contains("a=b");
    let traced: Vec<bool> = proxied.model.asked().iter().map(is_traced).collect();
    assert_eq!(traced, [true, true, false]);
    let record = &proxied.host.finished()[0];
    assert_eq!((&record["principal"], &record["tool"]), (&json!("ada"), &json!("lookup")));
    let history = &proxied.history("ada")[0];
    // Tools she has, and nothing was compiled for her.
    assert_eq!((&history["manifest_present"], &history["tools_count"]), (&json!(false), &json!(2)));
    let turn = history["turn"].as_str().unwrap().to_owned();
    assert_eq!(record["request"], format!("{turn}.1.1"), "{record}");
    proxied.host.check_audit();
}

#[tokio::test]
async fn what_policy_denies_is_neither_offered_nor_called() {
    let rules = "- {id: wait, action: allow, scope: tool, match: {name: wait-long}}";
    let script: &[(&str, &[(&str, Value)])] = &[("", &[("lookup", word("x"))])];
    let proxied = Proxied::new(rules, says(OPENAI_PATH, script)).await;
    let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
    // It was not offered, so it is the runner's to know.
    assert_eq!(got.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "lookup");
    let asked = proxied.model.asked()[0].body["tools"].to_string();
    assert!(asked.contains("wait_long") && !asked.contains("lookup"), "{asked}");
    assert!(proxied.host.finished().is_empty());
}

#[tokio::test]
async fn a_turn_ends_in_its_time_and_its_rounds() {
    let bounds = TurnBounds { max_rounds: 1, timeout_per_tool_ms: 50, ..TurnBounds::default() };
    let options = |policy| ProxyOptions { policy, ..ProxyOptions::default() };
    let wait: &[(&str, Value)] = &[("wait_long", json!({}))];
    let script = [("", wait), ("", wait), ("", wait)];
    let proxied =
        Proxied::with(ALL, says(OPENAI_PATH, &script), "", options(bounded(bounds))).await;
    let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
    // It may have done something before: no library is to make all of it once more.
    assert_eq!(got.status, 502, "{got:?}");
    assert!(got.head.contains("x-should-retry: false"), "{got:?}");
    let result = proxied.model.asked()[1].body["messages"][2].to_string();
    assert!(result.contains("\\\"code\\\":\\\"timeout\\\"") && result.contains("504"), "{result}");

    let policy = bounded(TurnBounds { max_rounds: 1, ..TurnBounds::default() });
    let look: &[(&str, Value)] = &[("lookup", word("x"))];
    let other: &[(&str, Value)] = &[("lookup", word("y"))];
    for (last, status) in [(("Enough.", &[][..]), 200), (("", other), 502)] {
        let script = [("", look), ("", other), last];
        let proxied = Proxied::with(ALL, says(OPENAI_PATH, &script), "", options(policy)).await;
        let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
        assert_eq!(got.status, status, "{got:?}");
        assert!(!got.head.contains("x-should-retry"), "{got:?}");
        assert!(proxied.model.asked()[2].body.get("tools").is_none());
        assert_eq!(proxied.host.finished().len(), 1);
    }

    let policy = bounded(TurnBounds {
        total_timeout_ms: 300,
        timeout_per_tool_ms: 300,
        ..TurnBounds::default()
    });
    let proxied = Proxied::with(ALL, vec![Say::Silence], "", options(policy)).await;
    let got = proxied.post(OPENAI_PATH, &request(OPENAI_PATH, "hi").to_string()).await;
    assert_eq!(got.status, 502, "{got:?}");
    // Headers had left before: the error is the end of the stream.
    let got = proxied.post(OPENAI_PATH, &streamed(request(OPENAI_PATH, "hi")).to_string()).await;
    assert_eq!(got.status, 200);
    assert!(got.body.starts_with(": managed tool round 1 waiting on model\n\n"), "{got:?}");
    assert!(got.body.contains("\"error\"") && got.body.ends_with("data: [DONE]\n\n"), "{got:?}");
}

#[tokio::test]
async fn a_stream_is_kept_alive_until_the_answer_comes() {
    for path in PATHS {
        let told = Arc::new(Notify::new());
        let answer = Say::Json(answer_of(path, "At last.", &[], "c"));
        let proxied = Proxied::open(vec![Say::When(Arc::clone(&told), Box::new(answer))]).await;
        let token = format!("x-api-key: {}", proxied.token("ada"));
        let body = streamed(request(path, "hi")).to_string();
        let mut stream = proxied.begin(path, &[&token], &body).await;
        let read = until(&mut stream, "waiting on model\n\n").await;
        assert!(read.to_lowercase().contains("text/event-stream"), "{read}");
        let read = read + &until(&mut stream, "waiting on model\n\n").await;
        told.notify_one();
        let got = finish(stream, read).await;
        assert!(got.body.contains("At last."), "{got:?}");
    }
}

#[tokio::test]
async fn who_goes_away_takes_the_model_and_the_tools_along() {
    let before = WAITS.1.load(Ordering::SeqCst);
    for is_streamed in [false, true] {
        let script: &[(&str, &[(&str, Value)])] =
            &[("", &[("lookup", word("x")), ("wait_long", json!({}))])];
        let mut proxied = Proxied::open(says(OPENAI_PATH, script)).await;
        let token = format!("x-api-key: {}", proxied.token("ada"));
        let mut body = request(OPENAI_PATH, "hi");
        body["stream"] = is_streamed.into();
        let begun = WAITS.0.load(Ordering::SeqCst);
        let stream = proxied.begin(OPENAI_PATH, &[&token], &body.to_string()).await;
        wait::until("the tool runs", || (WAITS.0.load(Ordering::SeqCst) > begun).then_some(()))
            .await;
        drop(stream);
        let is_cut = |record: &Value| record["outcome"] == "cancelled";
        let ended = || proxied.host.finished().iter().any(is_cut).then_some(());
        wait::until("the call ends", ended).await;
        proxied.stop().await;
        let turn = &proxied.history("ada")[0];
        assert_eq!((&turn["error"], &turn["status_code"]), (&json!("canceled"), &json!(499)));
        // What ran is told, and what was paid for it.
        let calls = turn["tool_trace"][0]["tool_calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["name"]), (1, &json!("lookup")));
        assert_eq!(turn["usage"]["prompt_tokens"], 10);
    }
    assert!(WAITS.1.load(Ordering::SeqCst) >= before + 2);
}

/// Returns the message of an answer, as a client sends it back.
pub(crate) fn spoken(path: &str, got: &Value) -> Value {
    match path {
        OPENAI_PATH => got["choices"][0]["message"].clone(),
        RESPONSES_PATH => got["output"][0].clone(),
        _ => json!({ "role": "assistant", "content": got["content"] }),
    }
}

#[tokio::test]
async fn what_was_hidden_comes_back_in_the_conversation_and_in_no_other() {
    for path in ALL_PATHS {
        let script: &[(&str, &[(&str, Value)])] = &[
            ("", &[("lookup", word("wasm"))]),
            ("", &[("own", json!({}))]),
            ("", &[("lookup", word("other"))]),
            ("Done.", &[]),
            ("Bye.", &[]),
            ("Hello.", &[]),
        ];
        let proxied = Proxied::open(says(path, script)).await;
        let (mut body, key) = (request(path, "What is it?"), messages(path));
        body[key] = json!([{ "role": "user", "content": "What is it?" }]);
        let got = proxied.post(path, &body.to_string()).await.json();
        let messages = body[key].as_array_mut().unwrap();
        messages.push(spoken(path, &got));
        messages.push(match path {
            RESPONSES_PATH => json!({ "type": "function_call_output", "call_id": "call_1_0", "output": "mine" }),
            OPENAI_PATH => json!({ "role": "tool", "tool_call_id": "call_1_0", "content": "mine" }),
            _ => json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "call_1_0", "content": "mine" }] }),
        });
        let got = proxied.post(path, &body.to_string()).await.json();
        let asked = proxied.model.asked();
        let before = said(path, &asked[2].body);
        assert_eq!(before.len(), 5);
        assert!(before[1].to_string().contains("lookup") && before[3].to_string().contains("own"));
        // The next question has both hidden parts, each before what came of it.
        let messages = body[key].as_array_mut().unwrap();
        messages.push(spoken(path, &got));
        messages.push(json!({ "role": "user", "content": "And now?" }));
        proxied.post(path, &body.to_string()).await;
        let asked = proxied.model.asked().pop().unwrap().body[key].to_string();
        let places: Vec<usize> = ["wasm", "mine", "other", "Done.", "And now?"]
            .map(|text| asked.find(text).unwrap_or_else(|| panic!("{text} is not in {asked}")))
            .to_vec();
        assert!(places.is_sorted(), "{asked}");

        let token = format!("x-api-key: {}", proxied.token("bob"));
        proxied.send(path, &[&token], &body.to_string()).await;
        let asked = proxied.model.asked().pop().unwrap().body[key].to_string();
        assert!(!asked.contains("wasm"), "{asked}");
    }
}

#[tokio::test]
async fn nothing_that_is_written_or_sent_shows_a_secret() {
    let script: &[(&str, &[(&str, Value)])] =
        &[("", &[("lookup", word("key")), ("lookup", word("long"))]), (PROVIDER_KEY, &[])];
    for path in ALL_PATHS {
        for body in [request(path, "hi"), streamed(request(path, "hi"))] {
            let mut proxied = Proxied::open(says(path, script)).await;
            let got = proxied.post(path, &body.to_string()).await;
            let long = said(path, &proxied.model.asked()[1].body)[2].to_string();
            proxied.stop().await;
            let history = proxied.state.path().join("proxy/ada/history.jsonl");
            let written = std::fs::read_to_string(&history).unwrap();
            let records = format!("{:?}", proxied.host.finished());
            let asked: String =
                proxied.model.asked().iter().map(|asked| asked.text.clone()).collect();
            for (name, text) in [
                ("answer", &got.body),
                ("history", &written),
                ("record", &records),
                ("request", &asked),
            ] {
                assert!(!text.contains(PROVIDER_KEY), "{name}: {text}");
                assert!(!text.contains("clawhost-agent-"), "{name}: {text}");
            }
            assert!(
                long.contains("truncated") || asked.contains("\\\"truncated\\\":true"),
                "{asked}"
            );
            {
                use std::os::unix::fs::PermissionsExt as _;
                assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
    }
}

/// Runs a scenario of `tests/proxy/clients.py`; nothing where the clients are not installed.
async fn client(scenario: &str, proxied: &Proxied, key: &str) -> Option<Value> {
    let root = clawhost_tests::source_root();
    let python = root.join("target/proxy/python/bin/python");
    if !python.is_file() {
        eprintln!("SKIPPED: run tests/proxy/install.sh for the clients");
        return None;
    }
    let mut command = tokio::process::Command::new(python);
    command.arg(root.join("tests/proxy/clients.py")).args([scenario, &proxied.authority(), key]);
    // No key of whoever runs the tests, and no report to anybody.
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LANGSMITH_TRACING", "false");
    // Programs of others, each with much to load.
    let done = tokio::time::timeout(2 * wait::SOON, command.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{scenario}: {errors}");
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

#[tokio::test]
async fn clients_of_others_run_unmodified() {
    let look = || ("lookup", word("wasm"));
    let managed = || vec![("Let me see.", vec![look()]), ("Done.", vec![])];
    let native = || {
        vec![
            ("", vec![look()]),
            ("", vec![("own", json!({ "a": 7 }))]),
            ("", vec![("lookup", word("other"))]),
            ("Done.", vec![]),
        ]
    };
    let kept = || vec![("Hi.", vec![]), ("Hi.", vec![]), ("Next.", vec![]), ("", vec![])];
    for (scenario, path, script, expected) in [
        ("responses_kept", RESPONSES_PATH, kept(), json!(["Hi.", "Next."])),
        ("openai_whole", OPENAI_PATH, managed(), json!(["Done.", "stop", 26])),
        ("openai_streamed", OPENAI_PATH, managed(), json!(["Done.", "stop", 26])),
        ("anthropic_whole", ANTHROPIC_PATH, managed(), json!(["Done.", "end_turn", 26])),
        ("anthropic_streamed", ANTHROPIC_PATH, managed(), json!(["Done.", "end_turn", 26])),
        ("responses_whole", RESPONSES_PATH, managed(), json!(["Done.", "completed", 26, 0])),
        ("responses_streamed", RESPONSES_PATH, managed(), json!(["Done.", "completed", 26, 0])),
        ("pydantic_ai", OPENAI_PATH, native(), json!(["Done.", [7]])),
        ("pydantic_ai_responses", RESPONSES_PATH, native(), json!(["Done.", [7]])),
        ("pydantic_ai_streamed", ANTHROPIC_PATH, native(), json!(["Done.", [7]])),
        ("langchain", OPENAI_PATH, native(), json!(["Done.", [7]])),
    ] {
        let script: Vec<_> = script.iter().map(|(text, calls)| (*text, calls.as_slice())).collect();
        let proxied = Proxied::open(says(path, &script)).await;
        let Some(got) = client(scenario, &proxied, proxied.token("ada")).await else {
            return;
        };
        assert_eq!(got, expected, "{scenario}");
        assert_eq!(proxied.model.asked().len(), script.len(), "{scenario}");
        let calls =
            script.iter().flat_map(|(_, calls)| *calls).filter(|(name, _)| *name == "lookup");
        assert_eq!(proxied.host.finished().len(), calls.count(), "{scenario}");
    }
}

#[tokio::test]
async fn clients_of_others_understand_every_refusal() {
    let bounds =
        TurnBounds { total_timeout_ms: 300, timeout_per_tool_ms: 300, ..TurnBounds::default() };
    let options = ProxyOptions { policy: bounded(bounds), ..ProxyOptions::default() };
    let silent = Proxied::with(ALL, vec![Say::Silence], "", options).await;
    for (scenario, key, expected) in [
        ("openai_refused", "sk-other", json!(["AuthenticationError", 401])),
        ("anthropic_refused", "sk-other", json!(["AuthenticationError", 401])),
        ("openai_refused", silent.operator(), json!(["PermissionDeniedError", 403])),
        ("anthropic_refused", silent.operator(), json!(["PermissionDeniedError", 403])),
        ("openai_refused", silent.token("ada"), json!(["InternalServerError", 502])),
        // Headers had left.
        ("openai_broken", silent.token("ada"), json!(["APIError", "server_error"])),
        ("anthropic_broken", silent.token("ada"), json!(["APIStatusError", "api_error"])),
        ("responses_broken", silent.token("ada"), json!(["APIError", "server_error"])),
    ] {
        let Some(got) = client(scenario, &silent, key).await else {
            return;
        };
        assert_eq!(got, expected, "{scenario}");
    }
}

#[tokio::test]
async fn tokens_are_counted_with_the_tools_and_nothing_is_spent() {
    let proxied = Proxied::open(vec![Say::Json(json!({ "input_tokens": 42 }))]).await;
    let path = "/v1/messages/count_tokens";
    let mut body = request(ANTHROPIC_PATH, "hi");
    body.as_object_mut().unwrap().remove("max_tokens");
    let got = proxied.post(path, &body.to_string()).await;
    assert_eq!((got.status, got.json()), (200, json!({ "input_tokens": 42 })));
    let asked = &proxied.model.asked()[0];
    assert!(asked.head.starts_with("post /v1/messages/count_tokens "), "{}", asked.head);
    let names: Vec<_> =
        asked.body["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["own", "lookup", "wait_long"]);
    assert!(asked.body.get("max_tokens").is_none());
    assert_eq!(proxied.host.host().providers().usage().tokens_today, 0);
    assert_eq!(
        proxied.post(path, &json!({ "model": "spare", "messages": [] }).to_string()).await.status,
        404
    );
    let key = format!("x-api-key: {}", proxied.token("bob"));
    let one = proxied.send("/v1/models/claude", &[&key], "").await;
    assert_eq!((one.status, &one.json()["id"]), (200, &json!("claude")));
    assert_eq!(proxied.send("/v1/models/nobody", &[&key], "").await.status, 404);
    assert_eq!(proxied.send("/health", &[], "").await.body, r#"{"status":"ok"}"#);
    if let Some(got) = client("anthropic_counted", &proxied, proxied.token("ada")).await {
        assert_eq!(got, json!([42, "claude", 3]));
    }
}

#[tokio::test]
async fn who_speaks_another_protocol_is_passed_over_and_it_is_said_who_would_do() {
    let proxied = Proxied::open(vec![Say::Status(503, "")]).await;
    let said = |got: Got| got.json()["error"]["message"].as_str().unwrap().to_owned();
    let body = json!({ "model": "claude", "messages": [] }).to_string();
    assert_eq!(
        said(proxied.post(OPENAI_PATH, &body).await),
        "`claude` speaks `anthropic-native`, which is asked at /v1/messages; for /v1/chat/completions there is `main`, `spare`"
    );
    assert!(proxied.model.asked().is_empty());
    let body = json!({ "model": "main", "messages": [] }).to_string();
    assert_eq!(
        said(proxied.post(OPENAI_PATH, &body).await),
        "no provider answers: `main` answers 503; `spare` answers 503; passed over: `claude` speaks `anthropic-native`, which is asked at /v1/messages"
    );
}

pub(crate) fn program() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_clawhost-under-test"))
}

/// A manifest whose provider is `model`, and whose agents may call everything.
pub(crate) fn manifest(model: &Model) -> String {
    format!(
        "claw: \"0.3.0\"\nkind: Claw\nmetadata: {{name: test}}\nspec:\n  identity: {{inline: {{personality: Tests., autonomy: autonomous}}}}\n  providers:\n    - inline: {{protocol: openai-compatible, name: main, endpoint: \"{}\", model: none, auth: {{type: none}}}}\n  tools: [{{name: calculator, sandbox: claw://sandbox/none}}]\n  policies:\n    - inline: {{name: all, rules: [{{id: all, action: allow, scope: all}}]}}\n",
        model.endpoint("/v1")
    )
}

fn ask(served: &Served, key: &str, body: &Value) -> Value {
    let headers = [("content-type", "application/json"), ("authorization", key)];
    let (status, body) = served.send("POST", OPENAI_PATH, &headers, &body.to_string());
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// What `audit` tells of a turn with one call, after which the history was damaged.
fn check_turns(cli: &Cli, history: &std::path::Path) {
    let mut file = std::fs::OpenOptions::new().append(true).open(history).unwrap();
    std::io::Write::write_all(&mut file, b"{\"half a li").unwrap();
    let turns = |arguments: &[&str]| -> Value {
        let run = cli.run(&[&["audit", "--json"], arguments].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    };
    let all = turns(&["--since", "1h"]);
    assert_eq!((&all["skipped_lines"], all["events"].as_array().unwrap().len()), (&json!(1), 2));
    let summary = &all["summary"][0];
    let counts = ["turns", "failed_turns", "calls", "failed_calls", "tokens_in", "tokens_out"];
    assert_eq!(counts.map(|key| summary[key].as_u64().unwrap()), [1, 0, 1, 0, 20, 6]);
    let calls = turns(&["--type", "tool_call", "--tool", "calculator", "--agent", "default"]);
    assert_eq!(calls["events"][0]["status"], "ok");
    let call = calls["events"][0]["call"].as_str().unwrap();
    let receipt = cli.run(&["audit", "receipt", call]);
    assert_eq!(receipt.code, Some(0), "{}", receipt.stderr);
    for none in
        [&["--type", "call"][..], &["--status", "error"], &["--agent", "bob"], &["--since", "0s"]]
    {
        assert_eq!(turns(none)["events"], json!([]), "{none:?}");
    }
    let shown = cli.run(&["audit"]).stdout;
    assert!(shown.contains("calculator") && shown.contains("1 lines"), "{shown}");
    // The next host goes on in a line of its own.
    std::io::Write::write_all(&mut file, b"\n").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verb_serves_completions_and_what_was_hidden_outlives_the_host() {
    let sum: &[(&str, Value)] = &[("calculator", json!({ "expression": "6 * 7" }))];
    let script: &[(&str, &[(&str, Value)])] = &[("", sum), ("It is 42.", &[]), ("Bye.", &[])];
    let model = Model::saying(says(OPENAI_PATH, script)).await;
    let cli = program();
    cli.write("claw.yaml", manifest(&model));
    let mut body =
        json!({ "model": "none", "messages": [{ "role": "user", "content": "6 * 7?" }] });
    let got = tokio::task::block_in_place(|| {
        let served = Served::verb(&cli, "proxy", &["claw.yaml"]);
        assert!(served.greeting.contains(&format!("http://{}/v1", served.authority)));
        let got = ask(&served, &served.bearer(), &body);
        drop(served);
        check_turns(&cli, &cli.state().join("proxy/default/history.jsonl"));
        got
    });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(got["choices"][0]["message"].clone());
    messages.push(json!({ "role": "user", "content": "Thanks." }));
    tokio::task::block_in_place(|| {
        // Where nobody has to show a token, whatever a client shows is good.
        let served = Served::verb(&cli, "proxy", &["claw.yaml", "--no-auth"]);
        assert_eq!(
            ask(&served, "Bearer sk-any", &body)["choices"][0]["message"]["content"],
            "Bye."
        );
    });
    let asked = model.asked();
    assert!(asked[1].body["messages"][2]["content"].as_str().unwrap().contains("42"));
    let messages = asked[2].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5, "{messages:?}");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "calculator");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_serves_completions_where_the_runtime_file_says_so_and_nowhere_else() {
    let model = Model::saying(says(OPENAI_PATH, &[("Hello.", &[])])).await;
    let cli = program();
    cli.write("claw.yaml", manifest(&model));
    let body = json!({ "model": "main", "messages": [{ "role": "user", "content": "hi" }] });
    tokio::task::block_in_place(|| {
        let served = Served::start(&cli, &["claw.yaml"]);
        let headers = [("content-type", "application/json"), ("authorization", &*served.bearer())];
        assert_eq!(served.send("POST", OPENAI_PATH, &headers, &body.to_string()).0, 404);
        cli.write("clawhost.yaml", "version: 1\nproxy: {enabled: true, history: false}\n");
        let served = Served::start(&cli, &["claw.yaml"]);
        assert_eq!(
            ask(&served, &served.bearer(), &body)["choices"][0]["message"]["content"],
            "Hello."
        );
    });
    assert!(!cli.state().join("proxy").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_compiled_context_are_their_agents_and_one_can_end_the_turn() {
    let service = Model::saying([Say::Json(json!({ "sent": true }))]).await;
    let send: &[(&str, Value)] = &[("mail_send", json!({ "to": "bob" }))];
    let model = Model::saying(says(OPENAI_PATH, &[("", send)])).await;
    let cli = program();
    cli.write("claw.yaml", manifest(&model));
    let tool = json!({
        "name": "mail.send",
        "description": "Sends a message.",
        "inputSchema": { "type": "object", "properties": { "to": { "type": "string" } } },
        "annotations": { "x-claw.terminalOnSuccess": true },
        "execution": {
            "transport": "http", "service": "mail", "base_url": service.endpoint(""),
            "method": "POST", "path": "/send/{claw_id}", "auth": { "type": "none" },
        },
    });
    let policy =
        json!({ "max_rounds": 2, "timeout_per_tool_ms": 5_000, "total_timeout_ms": 9_000 });
    let file = json!({ "version": 1, "tools": [tool], "policy": policy });
    cli.write("context/ada/tools.json", file.to_string());
    let budget = json!({ "max_requests": 1, "window": "24h" });
    cli.write(
        "context/bob/tools.json",
        json!({ "version": 1, "tools": [], "policy": policy, "budget": budget }).to_string(),
    );
    let body = json!({ "model": "main", "messages": [{ "role": "user", "content": "Tell Bob." }] });
    tokio::task::block_in_place(|| {
        let served = Served::verb(&cli, "proxy", &["claw.yaml", "--context", "context"]);
        let credentials = std::fs::read(cli.state().join("credentials.json")).unwrap();
        let credentials: Value = serde_json::from_slice(&credentials).unwrap();
        let key =
            |agent: &str| format!("Bearer {}", credentials["agents"][agent].as_str().unwrap());
        let message = &ask(&served, &key("ada"), &body)["choices"][0];
        assert_eq!(
            (&message["message"]["content"], &message["finish_reason"]),
            (&json!(""), &json!("stop"))
        );
        ask(&served, &key("bob"), &body);
        // The budget is the agent's alone.
        ask(&served, &key("ada"), &body);
        let (headers, text) = (
            [("content-type", "application/json"), ("authorization", &*key("bob"))],
            body.to_string(),
        );
        let mut refused = String::new();
        let mut stream = served.open("POST", OPENAI_PATH, &headers, &text);
        std::io::Read::read_to_string(&mut stream, &mut refused).unwrap();
        assert!(
            refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 86"),
            "{refused}"
        );
        assert!(refused.contains("the budget of `bob` is used up: `max_requests`"), "{refused}");
    });
    let history = std::fs::read_to_string(cli.state().join("proxy/ada/history.jsonl")).unwrap();
    assert!(history.contains("\"manifest_present\":true"), "{history}");
    let tools = |number: usize| model.asked()[number].body["tools"].to_string();
    assert!(tools(0).contains("mail_send") && !tools(1).contains("mail_send"), "{}", tools(1));
    let asked = service.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].head.starts_with("post /send/ada http/1.1"), "{}", asked[0].head);
}
