//! Completions: what a provider may be asked, how often, and what its failures come to.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use clawhost::host::MIGRATIONS;
use clawhost::secrets::Secrets;
use clawhost::state::{DATABASE_FILE, Database};
use clawhost::upstream::http::HttpClient;
use clawhost::upstream::provider::{Caller, Providers};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::{ProviderAuth, ProviderAuthKind, ProviderPlan, ProviderProtocol};
use clawhost_core::policy::Rates;
use clawhost_core::quota::{Prices, ProviderLimits};
use clawhost_core::retry::{Backoff, RetryPlan};
use clawhost_tests::guest::Guest;
use clawhost_tests::model::{Say, UNSPEAKABLE, completion};
use clawhost_tests::wait::SOON;
use clawhost_tests::{Model, NOBODY, TestHost, host, wait};
use serde_json::{Value, json};

const KEY: &str = "key-of-the-provider-1234";

fn plan(name: &str, endpoint: String) -> ProviderPlan {
    ProviderPlan {
        name: name.to_owned(),
        protocol: ProviderProtocol::OpenAi,
        endpoint,
        model: format!("model-of-{name}"),
        auth: ProviderAuth { kind: ProviderAuthKind::None, secret_ref: None },
        limits: ProviderLimits::default(),
        prices: Prices::default(),
        fallback: Vec::new(),
        retry: RetryPlan {
            max_attempts: 2,
            backoff: Backoff::Constant,
            initial_delay_ms: 1,
            ..RetryPlan::ONCE
        },
        unserved: None,
        at: "t.yaml:1".to_owned(),
    }
}

fn secrets() -> Secrets {
    host::secrets(&[("PROVIDER_KEY", KEY)])
}

async fn open(plans: Vec<ProviderPlan>, rates: Rates, database: Database) -> Providers {
    Providers::open(plans, rates, HttpClient::system(), secrets(), database).await.unwrap()
}

async fn providers(plans: Vec<ProviderPlan>) -> Providers {
    open(plans, Rates::default(), Database::in_memory(MIGRATIONS).unwrap()).await
}

fn hello() -> Value {
    json!({ "messages": [{ "role": "user", "content": "hello" }], "max_tokens": 10 })
}

async fn ask(providers: &Providers, request: Value) -> Result<Value, CallError> {
    let caller = Caller::new("test", "test");
    // What waits for its own deadline is late here.
    let asking = providers.complete(&caller, request, Instant::now() + 2 * SOON);
    wait::within("a completion", asking).await
}

fn text_of(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

fn limited(name: &str, model: &Model, tokens_per_day: u64) -> ProviderPlan {
    let limits =
        ProviderLimits { tokens_per_day: Some(tokens_per_day), ..ProviderLimits::default() };
    ProviderPlan { limits, ..plan(name, model.endpoint("/v1")) }
}

/// What `hello` reserves: a token for each byte, and ten.
fn reserved() -> u64 {
    hello().to_string().len() as u64 + 10
}

#[tokio::test]
async fn nothing_connects_before_the_first_completion() {
    let model = Model::saying([Say::Json(completion("hi", 3, 4))]).await;
    let providers = providers(vec![plan("main", model.endpoint("/v1"))]).await;
    assert_eq!(providers.usage().tokens_today, 0);
    assert!(model.asked().is_empty());
    let answer = ask(&providers, hello()).await.unwrap();
    assert_eq!(text_of(&answer), "hi");
    let asked = &model.asked()[0];
    assert!(asked.head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{}", asked.head);
    assert!(!asked.head.contains("authorization"), "{}", asked.head);
    assert_eq!(asked.body["model"], "model-of-main");
    assert_eq!(asked.body["max_tokens"], 10);
    assert_eq!((providers.usage().tokens_today, providers.tokens_last_hour()), (7, 7));
}

#[tokio::test]
async fn a_request_names_a_provider_or_its_model_or_none() {
    let first = Model::saying([Say::Json(completion("first", 1, 1))]).await;
    let second = Model::saying([Say::Json(completion("second", 1, 1))]).await;
    let plans = vec![plan("a", first.endpoint("/v1")), plan("b", second.endpoint("/v1/"))];
    let providers = providers(plans).await;
    for (model, expected) in
        [("a", Some("first")), ("b", Some("second")), ("model-of-b", Some("second")), ("c", None)]
    {
        let mut request = hello();
        request["model"] = model.into();
        match ask(&providers, request).await {
            Ok(answer) => assert_eq!(Some(text_of(&answer)), expected, "{model}"),
            Err(error) => {
                assert_eq!((error.kind, expected), (ErrorKind::InvalidArguments, None));
            }
        }
    }
}

#[tokio::test]
async fn anthropics_protocol_is_spoken_and_read() {
    let model = Model::saying([Say::Json(json!({
        "id": "msg_1",
        "content": [{ "type": "text", "text": "hi" }],
        "stop_reason": "end_turn",
        "usage": { "input_tokens": 5, "output_tokens": 6 },
    }))])
    .await;
    let auth = ProviderAuth {
        kind: ProviderAuthKind::ApiKeyHeader,
        secret_ref: Some("provider-key".to_owned()),
    };
    let protocol = ProviderProtocol::Anthropic;
    let providers =
        providers(vec![ProviderPlan { protocol, auth, ..plan("a", model.endpoint("")) }]).await;
    let mut request = hello();
    request["messages"] = json!([
        { "role": "system", "content": "be brief" },
        { "role": "user", "content": "hello" },
    ]);
    let answer = ask(&providers, request).await.unwrap();
    assert_eq!(text_of(&answer), "hi");
    assert_eq!(answer["usage"]["total_tokens"], 11);
    let asked = &model.asked()[0];
    assert!(asked.head.starts_with("post /v1/messages http/1.1\r\n"), "{}", asked.head);
    assert!(asked.head.contains("anthropic-version: 2023-06-01\r\n"), "{}", asked.head);
    assert!(asked.head.contains(&format!("x-api-key: {KEY}\r\n")), "{}", asked.head);
    assert_eq!(asked.body["system"], "be brief");
    assert_eq!(asked.body["max_tokens"], 10);
}

#[tokio::test]
async fn what_no_protocol_has_a_word_for_is_the_callers_mistake_unless_a_fallback_has_one() {
    let model = Model::saying([Say::Json(completion("hi", 1, 1))]).await;
    let protocol = ProviderProtocol::Anthropic;
    let native = ProviderPlan { protocol, ..plan("a", model.endpoint("")) };
    let mut request = hello();
    request["tools"] = json!([]);
    let error = ask(&providers(vec![native.clone()]).await, request.clone()).await.unwrap_err();
    assert_eq!(error.kind.code(), -32602, "{error}");
    assert!(error.to_string().contains("`tools`"), "{error}");

    let native = ProviderPlan { fallback: vec!["b".to_owned()], ..native };
    let both = providers(vec![native, plan("b", model.endpoint("/v1"))]).await;
    assert_eq!(text_of(&ask(&both, request).await.unwrap()), "hi");
}

#[tokio::test]
async fn a_key_goes_to_its_provider_only_and_into_no_error() {
    let model = Model::saying([Say::Json(completion("hi", 1, 1)), Say::Status(401, "")]).await;
    let auth = |name: &str| ProviderAuth {
        kind: ProviderAuthKind::Bearer,
        secret_ref: Some(name.to_owned()),
    };
    let known = ProviderPlan { auth: auth("PROVIDER_KEY"), ..plan("a", model.endpoint("/v1")) };
    let absent = ProviderPlan { auth: auth("absent"), ..plan("b", model.endpoint("/v1")) };
    let far = "http://example.com/v1".to_owned();
    let unsafe_one = ProviderPlan { endpoint: far, ..known.clone() };
    let unsafe_one = ProviderPlan { name: "c".to_owned(), ..unsafe_one };
    let providers = providers(vec![known, absent, unsafe_one]).await;
    ask(&providers, hello()).await.unwrap();
    assert!(model.asked()[0].head.contains(&format!("authorization: bearer {KEY}")));
    for (name, reason) in [("a", "answers 401"), ("b", "has no key"), ("c", "no safe endpoint")] {
        let mut request = hello();
        request["model"] = name.into();
        let error = ask(&providers, request).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ProviderUnavailable);
        let all = format!("{error:?}");
        assert!(error.message.contains(reason), "{all}");
        assert!(!all.contains(KEY) && !all.contains(UNSPEAKABLE), "{all}");
    }
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn a_provider_that_misbehaves_is_unavailable_and_what_may_be_spent_is_spent() {
    const NO_JSON: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{]";
    const TWICE: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{\"choices\":1,\"choices\":[]}";
    const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}";
    const MOVED: &[u8] =
        b"HTTP/1.1 307 -\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    for (say, attempts, charged) in [
        (Say::Json(json!({ "choices": [] })), 1, 1),
        (Say::Json(json!("hi")), 1, 1),
        (Say::Bytes(NO_JSON), 1, 1),
        (Say::Bytes(TWICE), 1, 1),
        (Say::Bytes(SHORT), 1, 1),
        (Say::Bytes(b"hello\r\n\r\n"), 1, 1),
        (Say::Bytes(MOVED), 1, 0),
        (Say::HangUp, 1, 1),
        (Say::Endless, 1, 1),
        (Say::Status(400, ""), 1, 0),
        (Say::Status(404, ""), 1, 0),
        (Say::Status(429, ""), 2, 0),
        (Say::Status(500, ""), 2, 2),
        (Say::Status(503, "retry-after: 0\r\n"), 2, 2),
    ] {
        let model = Model::saying([say.clone()]).await;
        let providers = providers(vec![plan("main", model.endpoint("/v1"))]).await;
        let error = ask(&providers, hello()).await.unwrap_err();
        assert_eq!(error.kind.code(), -32020, "{say:?}: {error:?}");
        assert!(!format!("{error:?}").contains(UNSPEAKABLE), "{say:?}: {error:?}");
        assert_eq!(model.asked().len(), attempts, "{say:?}");
        assert_eq!(providers.usage().tokens_today, charged * reserved(), "{say:?}");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_fallbacks_follow_in_their_order() {
    let busy = Model::saying([Say::Status(429, ""), Say::Json(completion("late", 1, 1))]).await;
    let answer = ask(&providers(vec![plan("a", busy.endpoint("/v1"))]).await, hello()).await;
    assert_eq!(text_of(&answer.unwrap()), "late");

    let gone = format!("{NOBODY}/v1");
    let broken = Model::saying([Say::Status(500, "")]).await;
    let well = Model::saying([Say::Json(completion("third", 3, 2))]).await;
    let fallback = ["c", "b", "a", "d"].map(str::to_owned).to_vec();
    let plans = vec![
        ProviderPlan { fallback, ..plan("a", gone) },
        plan("b", broken.endpoint("/v1")),
        ProviderPlan { unserved: Some("no".to_owned()), ..plan("c", "x".to_owned()) },
        plan("d", well.endpoint("/v1")),
    ];
    let providers = providers(plans).await;
    assert_eq!(text_of(&ask(&providers, hello()).await.unwrap()), "third");
    assert_eq!(broken.asked().len(), 2);
    // Nothing was sent to the first, and the second may have worked twice.
    assert_eq!(providers.usage().tokens_today, 2 * reserved() + 5);
}

#[tokio::test]
async fn a_provider_that_hangs_leaves_time_for_the_next() {
    let hangs = Model::saying([Say::Silence]).await;
    let well = Model::saying([Say::Json(completion("second", 1, 1))]).await;
    let fallback = vec!["b".to_owned()];
    let providers = providers(vec![
        ProviderPlan { fallback, ..plan("a", hangs.endpoint("/v1")) },
        plan("b", well.endpoint("/v1")),
    ])
    .await;
    let deadline = Instant::now() + Duration::from_secs(4);
    let answer = providers.complete(&Caller::new("test", "test"), hello(), deadline).await.unwrap();
    assert_eq!(text_of(&answer), "second");
}

#[tokio::test]
async fn a_retry_after_that_is_too_long_is_not_waited_for() {
    let busy = Model::saying([Say::Status(429, "retry-after: 9999\r\n")]).await;
    let providers = providers(vec![plan("a", busy.endpoint("/v1"))]).await;
    assert!(ask(&providers, hello()).await.is_err());
    assert_eq!(busy.asked().len(), 1);
}

#[tokio::test]
async fn callers_beside_each_other_share_one_allowance() {
    let used = reserved();
    let model = Model::saying([Say::Json(completion("hi", used - 10, 10))]).await;
    let providers = providers(vec![limited("main", &model, 3 * used + 1)]).await;
    let asking = (0..16).map(|_| {
        let providers = providers.clone();
        tokio::spawn(async move { ask(&providers, hello()).await })
    });
    let asking: Vec<_> = asking.collect();
    let mut granted = 0;
    for outcome in asking {
        match outcome.await.unwrap() {
            Ok(_) => granted += 1,
            Err(error) => {
                assert_eq!(error.kind.code(), -32021, "{error:?}");
                assert_eq!(error.data["limit"], "tokens_per_day");
                assert_eq!(error.data["provider"], "main");
            }
        }
    }
    assert_eq!((granted, model.asked().len()), (3, 3));
    assert_eq!(providers.usage().tokens_today, 3 * used);
}

#[tokio::test]
async fn a_quota_refuses_and_does_not_pass_on_to_a_fallback() {
    let model = Model::saying([Say::Json(completion("hi", 1, 1))]).await;
    let fallback = vec!["b".to_owned()];
    let none = ProviderPlan { fallback, ..limited("a", &model, 0) };
    let providers = providers(vec![none, plan("b", model.endpoint("/v1"))]).await;
    let error = ask(&providers, hello()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ProviderQuota);
    assert!(model.asked().is_empty());
    assert_eq!(providers.usage().tokens_today, 0);
}

#[tokio::test]
async fn a_quota_that_is_used_up_by_a_failed_try_leaves_the_request_to_the_fallback() {
    let broken = Model::saying([Say::Status(500, "")]).await;
    let well = Model::saying([Say::Json(completion("second", 1, 1))]).await;
    let fallback = vec!["b".to_owned()];
    let once = ProviderPlan { fallback, ..limited("a", &broken, reserved()) };
    let providers = providers(vec![once, plan("b", well.endpoint("/v1"))]).await;
    assert_eq!(text_of(&ask(&providers, hello()).await.unwrap()), "second");
    assert_eq!(broken.asked().len(), 1);
}

#[tokio::test]
async fn a_request_that_names_no_length_is_sent_with_what_is_left() {
    let model = Model::saying([Say::Json(completion("hi", 1, 1))]).await;
    let mut request = hello();
    request.as_object_mut().unwrap().remove("max_tokens");
    let prompt = request.to_string().len() as u64;
    let providers = providers(vec![limited("a", &model, prompt + 25)]).await;
    ask(&providers, request).await.unwrap();
    assert_eq!(model.asked()[0].body["max_tokens"], 25);
}

#[tokio::test]
async fn what_was_used_survives_a_restart_and_so_does_what_was_never_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DATABASE_FILE);
    let store = || Database::open(&path, MIGRATIONS).unwrap();
    let model = Model::saying([Say::Silence]).await;
    let limits = || vec![limited("main", &model, reserved() + 1)];
    let first = open(limits(), Rates::default(), store()).await;
    let deadline = Instant::now() + Duration::from_secs(1);
    let error = first.complete(&Caller::new("test", "test"), hello(), deadline).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ProviderUnavailable, "{error:?}");
    drop(first);
    let second = open(limits(), Rates::default(), store()).await;
    assert_eq!(second.usage().tokens_today, reserved());
    assert_eq!(ask(&second, hello()).await.unwrap_err().kind, ErrorKind::ProviderQuota);
    // Another host with the same store is bound as well.
    let third = open(limits(), Rates::default(), store()).await;
    assert_eq!(ask(&third, hello()).await.unwrap_err().kind, ErrorKind::ProviderQuota);
    assert_eq!(model.asked().len(), 1);
}

/// Rules look at what was spent, also of calls that ask no provider.
#[tokio::test]
async fn what_another_host_asks_for_counts_on_one_that_runs_and_asks_for_nothing() {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    fn store() -> Database {
        Database::open(&FOLDER.path().join(DATABASE_FILE), MIGRATIONS).unwrap()
    }
    let host = TestHost::builder().extend(|host| host.database(Some(store()))).build().await;
    let model = Model::saying([Say::Json(completion("hi", 20, 10))]).await;
    let other = open(vec![plan("main", model.endpoint("/v1"))], Rates::default(), store()).await;
    ask(&other, hello()).await.unwrap();
    let tokens = || Some(host.host().providers().usage().tokens_today).filter(|tokens| *tokens > 0);
    wait::until("what the other one used to count", tokens).await;
}

#[tokio::test]
async fn what_a_provider_reports_neither_starves_others_nor_lets_anybody_off() {
    let boasts = Model::saying([Say::Json(completion("hi", u64::MAX, u64::MAX))]).await;
    let long = "x".repeat(200);
    let silent = Model::saying([Say::Json(completion(&long, 0, 0))]).await;
    let rates = Rates { tokens_per_hour: Some(2 * reserved() + 60), ..Rates::default() };
    let plans = vec![plan("a", boasts.endpoint("/v1")), plan("b", silent.endpoint("/v1"))];
    let providers = open(plans, rates, Database::in_memory(MIGRATIONS).unwrap()).await;
    ask(&providers, hello()).await.unwrap();
    assert_eq!(providers.tokens_last_hour(), reserved());
    let mut request = hello();
    request["model"] = "b".into();
    ask(&providers, request.clone()).await.unwrap();
    // 50 for the answer, 3 for "user" and "hello".
    assert_eq!(providers.tokens_last_hour(), reserved() + 53);
    let error = ask(&providers, request).await.unwrap_err();
    assert_eq!(error.data["limit"], "tokens_per_hour");
}

#[tokio::test]
async fn policies_cap_the_tokens_of_an_hour_and_the_costs_of_a_day() {
    let model = Model::saying([Say::Json(completion("hi", 20, 10))]).await;
    let plans = || {
        let prices = Prices::per_million_usd(1.0, 1.0);
        vec![ProviderPlan { prices, ..plan("main", model.endpoint("/v1")) }]
    };
    let database = || Database::in_memory(MIGRATIONS).unwrap();
    let hour = Rates { tokens_per_hour: Some(reserved()), ..Rates::default() };
    let cost = Rates { cost_per_day_usd: Some(reserved() as f64 / 1e6), ..Rates::default() };
    for (rates, limit) in [(hour, "tokens_per_hour"), (cost, "cost_per_day_usd")] {
        let providers = open(plans(), rates, database()).await;
        ask(&providers, hello()).await.unwrap();
        let error = ask(&providers, hello()).await.unwrap_err();
        assert_eq!((error.kind.code(), &error.data["limit"]), (-32011, &json!(limit)));
        assert!((providers.usage().cost_today_usd - 0.000_03).abs() < 1e-12);
    }
}

/// Hands its arguments to the provider and answers with what comes; fails where nothing does.
const ASKS: &str = r#";; Asks for a completion.
;; imports: provider
;;; call
(call $complete (local.get $arguments) (local.get $arguments_length) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then
  (i32.store8 (i32.const 5120) (i32.const 1))
  (i32.store8 (i32.const 5124) (i32.const 2))
  (call $string (i32.const 5128) (i32.load (i32.const 6152)) (i32.load (i32.const 6156)))
  (return (i32.const 5120))))
(return (call $answer (i32.load (i32.const 6148)) (i32.load (i32.const 6152))))
"#;

/// As above, and answers whatever comes of it.
const DOES_WITHOUT: &str = r#";; Asks for a completion and does without.
;; imports: provider
;;; call
(call $complete (local.get $arguments) (local.get $arguments_length) (i32.const 6144))
"#;

async fn host_with(guest: &str, provider: &str, granted: bool) -> TestHost {
    let runtime_file = format!("version: 1\nprofiles: {{sandbox-0: {{provider: {granted}}}}}");
    TestHost::builder()
        .only(&[])
        .guest(&Guest::parse("asks", guest))
        .provider(provider)
        .runtime_file(&runtime_file)
        .build()
        .await
}

#[tokio::test]
async fn a_tool_gets_a_completion_where_its_profile_grants_it() {
    let model = Model::saying([Say::Json(completion("hi", 3, 4))]).await;
    let endpoint = format!("endpoint: \"{}\"", model.endpoint("/v1"));
    let host = host_with(ASKS, &endpoint, true).await;
    let reply = host.call("asks", hello()).await.unwrap();
    assert!(!reply.is_error, "{reply:?}");
    let answer: Value = serde_json::from_str(&host::text(&reply)).unwrap();
    assert_eq!(text_of(&answer), "hi");
    assert_eq!(host.host().providers().usage().tokens_today, 7);
    let wrong = host.call("asks", json!({ "messages": [] })).await.unwrap();
    assert!(wrong.is_error && host::text(&wrong).contains("`messages` is empty"), "{wrong:?}");

    let host = host_with(ASKS, &endpoint, false).await;
    let refused = host.refused();
    assert!(
        refused.contains("claw:host/provider") && refused.contains("`provider: true`"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_call_that_fails_for_want_of_a_completion_ends_with_the_providers_code() {
    let model = Model::saying([Say::Json(completion("hi", 3, 4))]).await;
    let limited = format!("endpoint: \"{}\", limits: {{tokens_per_day: 5}}", model.endpoint("/v1"));
    let host = host_with(ASKS, &limited, true).await;
    let error = host.call("asks", hello()).await.unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32021, &json!("tokens_per_day")));
    // The tool that does without has not failed.
    let host = host_with(DOES_WITHOUT, &limited, true).await;
    assert!(!host.call("asks", hello()).await.unwrap().is_error);

    let gone = format!("endpoint: \"{NOBODY}/v1\", retry: {{max_attempts: 1}}");
    let host = host_with(ASKS, &gone, true).await;
    let error = host.call("asks", hello()).await.unwrap_err();
    assert_eq!(error.kind.code(), -32020, "{error:?}");
    assert!(model.asked().is_empty());
    host.check_audit();
}

#[tokio::test]
async fn a_call_that_waits_for_a_provider_ends_at_its_deadline() {
    let model = Model::saying([Say::Silence]).await;
    let endpoint = format!("endpoint: \"{}\"", model.endpoint("/v1"));
    let host = Arc::new(host_with(ASKS, &endpoint, true).await);
    let call = host::call_within("asks", hello(), Duration::from_secs(2));
    let error = wait::within("the call", host.host().call(call)).await.unwrap_err();
    assert_eq!(error.kind.code(), -32014, "{error:?}");
    // It may have been worked on.
    assert_eq!(host.host().providers().usage().tokens_today, reserved());
}
