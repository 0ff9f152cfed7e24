//! The small built-in tools in a real host: what each may reach, for whom, and what it says where
//! it may not.

use clawhost::approvals::Answer;
use clawhost::host::{Principal, ToolCall};
use clawhost_core::error::ErrorKind;
use clawhost_core::reply::ToolReply;
use clawhost_tests::collector::{Collector, Mood};
use clawhost_tests::host::text;
use clawhost_tests::model::{Model, Say, completion};
use clawhost_tests::{Cli, Guest, TestHost, wait};
use serde_json::{Value, json};

use crate::built_in::fails;
use crate::cli::PROGRAM;

/// Asks for a completion with its arguments, and answers whatever comes of it.
const ASKS: &str = r#";; Asks for a completion and does without.
;; imports: provider
;;; call
(call $complete (local.get $arguments) (local.get $arguments_length) (i32.const 6144))
"#;

async fn call_as(host: &TestHost, agent: &str, tool: &str, arguments: Value) -> ToolReply {
    let call = ToolCall::new(Principal(agent.to_owned()), tool, arguments);
    host.host().call(call).await.unwrap()
}

async fn ask_as(host: &TestHost, agent: &str, tool: &str, arguments: Value) -> Value {
    let reply = call_as(host, agent, tool, arguments).await;
    assert!(!reply.is_error, "{tool}: {}", text(&reply));
    reply.structured.clone().unwrap()
}

#[tokio::test]
async fn the_calculator_is_exact_and_ends() {
    let host = TestHost::builder().only(&["calculator"]).build().await;
    let answer = host.ask("calculator", json!({"expression": "0.1 + 0.2"})).await;
    assert_eq!(answer, json!({"result": "0.3", "exact": true, "value": 0.3}));
    let third = host.ask("calculator", json!({"expression": "1/3"})).await;
    assert_eq!((&third["exact"], &third["fraction"]), (&json!(false), &json!("1/3")));
    for expression in ["9^9^9", "1 +", "1/0", "", &"(".repeat(4_000)] {
        let (kind, shown) = fails(&host, "calculator", json!({"expression": expression})).await;
        assert_eq!(kind, Some("invalid-args"), "{expression}: {shown}");
    }
}

#[tokio::test]
async fn each_agent_has_keys_and_values_of_its_own() {
    let runtime_file = "version: 1\nprofiles: {sandbox-0: {memory: true}}";
    let host = TestHost::builder().only(&["key-value-store"]).runtime_file(runtime_file);
    let host = host.build().await;
    let tool = "key_value_store";
    let value = json!({"list": [1, "zwei", null], "n": 0.5});
    let set = json!({"action": "set", "key": "../a", "value": value});
    assert!(ask_as(&host, "ada", tool, set).await["bytes"].as_u64().unwrap() > 10);
    for number in 0..3 {
        let set = json!({"action": "set", "key": format!("n/{number}"), "value": number});
        ask_as(&host, "ada", tool, set).await;
    }
    let get = json!({"action": "get", "key": "../a"});
    let found = ask_as(&host, "ada", tool, get.clone()).await;
    assert_eq!(found, json!({"key": "../a", "found": true, "value": value}));
    let absent = ask_as(&host, "bob", tool, get.clone()).await;
    assert_eq!(absent, json!({"key": "../a", "found": false}));
    assert_eq!(ask_as(&host, "bob", tool, json!({"action": "list"})).await["entries"], json!([]));

    let page = json!({"action": "list", "prefix": "n/", "limit": 2});
    let first = ask_as(&host, "ada", tool, page).await;
    assert_eq!((&first["entries"][0]["key"], &first["next"]), (&json!("n/0"), &json!("n/1")));
    assert_eq!(first["entries"][0]["bytes"], 1, "as `set` says it");
    let page = json!({"action": "list", "prefix": "n/", "limit": 2, "cursor": first["next"]});
    let last = ask_as(&host, "ada", tool, page).await;
    assert_eq!((last["entries"].as_array().map(Vec::len), &last["next"]), (Some(1), &Value::Null));

    let delete = json!({"action": "delete", "key": "../a"});
    assert_eq!(ask_as(&host, "bob", tool, delete.clone()).await["deleted"], false);
    assert_eq!(ask_as(&host, "ada", tool, delete).await["deleted"], true);
    assert_eq!(ask_as(&host, "ada", tool, get).await["found"], false);
    host.check_audit();
}

#[tokio::test]
async fn what_does_not_fit_into_the_store_is_refused_with_its_bound() {
    let runtime_file = "version: 1\nprofiles: {sandbox-0: {memory: true}}";
    let host = TestHost::builder().only(&["key-value-store"]).runtime_file(runtime_file);
    let host = host.build().await;
    let set = |key: &str, value: Value| json!({"action": "set", "key": key, "value": value});
    for (arguments, kind, says) in [
        (set("k", "v".repeat(32_768).into()), "invalid-args", "32768"),
        (set("k", "\"".repeat(12_000).into()), "invalid-args", "no reply returns"),
        (set("", 1.into()), "invalid-args", "1 to 512"),
        (set(&"k".repeat(513), 1.into()), "invalid-args", "1 to 512"),
        (json!({"action": "get"}), "invalid-args", "needs `key`"),
        (json!({"action": "set", "key": "k"}), "invalid-args", "needs `value`"),
    ] {
        let failed = fails(&host, "key_value_store", arguments).await;
        assert!(failed.0 == Some(kind) && failed.1.contains(says), "{failed:?}");
    }
    let wrong = host.call("key_value_store", json!({"action": "drop"})).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn what_was_set_is_returned_whole() {
    let runtime_file = "version: 1\nprofiles: {sandbox-0: {memory: true}}";
    let host = TestHost::builder().only(&["key-value-store"]).runtime_file(runtime_file);
    let host = host.build().await;
    let tool = "key_value_store";
    let rows: Vec<Value> = (0..2_000).map(|number| json!({"n": number})).collect();
    for value in ["v".repeat(32_000).into(), "\"".repeat(10_000).into(), Value::from(rows)] {
        host.ask(tool, json!({"action": "set", "key": "k", "value": value})).await;
        let reply = host.call(tool, json!({"action": "get", "key": "k"})).await.unwrap();
        assert_eq!(reply.cut_from_bytes, None);
        assert_eq!(reply.structured.unwrap()["value"], value);
    }
    for number in 0..100 {
        let key = format!("{number:0512}");
        host.ask(tool, json!({"action": "set", "key": key, "value": 1})).await;
    }
    let (mut seen, mut page) = (0, json!({"action": "list", "prefix": "0"}));
    loop {
        let reply = host.call(tool, page).await.unwrap();
        assert_eq!(reply.cut_from_bytes, None);
        let list = reply.structured.unwrap();
        seen += list["entries"].as_array().unwrap().len();
        let Some(next) = list.get("next") else { break };
        page = json!({"action": "list", "prefix": "0", "cursor": next});
    }
    assert_eq!(seen, 100);
}

#[tokio::test]
async fn without_a_grant_none_of_them_is_served_and_the_reason_names_what_is_missing() {
    let tools = ["key-value-store", "model-list", "message", "calculator"];
    let host = TestHost::builder().only(&tools).build().await;
    assert_eq!(host.names(), ["calculator"]);
    let refused = host.refused();
    for says in [
        "claw:host/memory", "memory: true", "claw:host/models", "provider: true",
        "claw:host/channels",
    ] {
        assert!(refused.contains(says), "{says}: {refused}");
    }
}

#[test]
fn the_embedded_default_keeps_values_from_one_run_to_the_next() {
    let cli = Cli::new(PROGRAM);
    let call = |arguments: Value| {
        let lines = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "t", "version": "0"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "key_value_store", "arguments": arguments}}),
        ];
        let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let output = cli.run_with(&["run", "--stdio"], &input).stdout;
        let answer: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        answer["result"]["structuredContent"].clone()
    };
    let set = call(json!({"action": "set", "key": "colour", "value": "green"}));
    assert_eq!(set, json!({"key": "colour", "bytes": 7}));
    let get = call(json!({"action": "get", "key": "colour"}));
    assert_eq!(get, json!({"key": "colour", "found": true, "value": "green"}));
}

async fn with_models(model: &Model, other: &Model, profile: &str) -> TestHost {
    let prices = "input_usd_per_million: 1000000, output_usd_per_million: 1000000";
    let runtime_file = format!(
        "version: 1\nprofiles: {{sandbox-0: {{{profile}}}}}\nproviders: {{other: {{{prices}}}}}"
    );
    let second = format!(
        "claw: \"0.3.0\"\nkind: Provider\nmetadata: {{name: other}}\nspec: {{protocol: openai-compatible, endpoint: \"{}\", model: big, auth: {{type: none}}, limits: {{requests_per_minute: 60}}}}",
        other.endpoint("/v1")
    );
    TestHost::builder()
        .only(&["model-list", "model-prefs", "cost-summary"])
        .guest(&Guest::parse("asks", ASKS))
        .provider(&format!("endpoint: \"{}\"", model.endpoint("/v1")))
        .document("other.yaml", &second)
        .runtime_file(&runtime_file)
        .build()
        .await
}

fn hello() -> Value {
    json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 10})
}

#[tokio::test]
async fn a_preference_is_the_agents_own_and_decides_who_is_asked() {
    let model = Model::saying([Say::Json(completion("first", 3, 4))]).await;
    let other = Model::saying([Say::Json(completion("second", 3, 4))]).await;
    let host = with_models(&model, &other, "provider: true").await;
    let models = ask_as(&host, "ada", "model_list", json!({})).await["models"].clone();
    assert_eq!((&models[0]["default"], &models[0]["preferred"]), (&json!(true), &json!(false)));
    assert_eq!((&models[1]["provider"], &models[1]["model"]), (&json!("other"), &json!("big")));
    assert_eq!(models[1]["requests_per_minute"], 60);
    assert!(!models.to_string().contains("127.0.0.1"), "{models}");

    let set = json!({"action": "set", "model": "big"});
    assert_eq!(ask_as(&host, "ada", "model_prefs", set).await["preferred"], "big");
    assert_eq!(ask_as(&host, "bob", "model_prefs", json!({})).await["preferred"], Value::Null);
    for agent in ["ada", "bob"] {
        call_as(&host, agent, "asks", hello()).await;
    }
    assert_eq!((model.asked().len(), other.asked().len()), (1, 1));
    // Who names a model gets that one.
    let mut named = hello();
    named["model"] = "none".into();
    call_as(&host, "ada", "asks", named).await;
    assert_eq!((model.asked().len(), other.asked().len()), (2, 1));

    let unknown = json!({"action": "set", "model": "small"});
    let failed = fails(&host, "model_prefs", unknown).await;
    assert!(failed.0 == Some("invalid-args") && failed.1.contains("other"), "{failed:?}");
    ask_as(&host, "ada", "model_prefs", json!({"action": "clear"})).await;
    call_as(&host, "ada", "asks", hello()).await;
    assert_eq!((model.asked().len(), other.asked().len()), (3, 1));
}

#[tokio::test]
async fn costs_are_told_by_agent_tool_and_provider_and_only_to_whom_they_concern() {
    let model = Model::saying([Say::Json(completion("first", 3, 4))]).await;
    let other = Model::saying([Say::Json(completion("second", 3, 4))]).await;
    for (profile, agents) in [
        ("provider: true", json!(["ada"])),
        ("provider: true, all_costs: true", json!(["ada", "bob"])),
    ] {
        let host = with_models(&model, &other, profile).await;
        let mut dear = hello();
        dear["model"] = "other".into();
        for (agent, request) in [("ada", hello()), ("ada", dear.clone()), ("bob", hello())] {
            call_as(&host, agent, "asks", request).await;
        }
        let own = ask_as(&host, "ada", "cost_summary", json!({"period": "today"})).await;
        let groups = own["groups"].as_array().unwrap();
        // Seven tokens of a dollar each, and those of the other provider cost nothing.
        assert_eq!(groups[0]["provider"], "other");
        let sums =
            json!({"requests": 1, "prompt_tokens": 3, "completion_tokens": 4, "cost_usd": 7.0});
        assert_eq!(groups[0]["sums"], sums);
        assert_eq!(own["total"]["cost_usd"], 7.0);
        let by = json!({"by": ["agent", "tool"]});
        let by = ask_as(&host, "ada", "cost_summary", by).await;
        let names = by["groups"].as_array().unwrap().iter().map(|group| group["agent"].clone());
        assert_eq!(Value::from_iter(names), agents);
        assert_eq!(by["groups"][0]["tool"], "asks");
        let nothing =
            ask_as(&host, "eve", "cost_summary", json!({})).await["total"]["requests"].clone();
        assert_eq!(nothing.as_u64().unwrap() > 0, profile.contains("all_costs"), "{nothing}");
    }
}

#[tokio::test]
async fn what_a_provider_does_not_answer_costs_what_was_reserved() {
    let silent = Model::saying([Say::HangUp]).await;
    let host = with_models(&silent, &silent, "provider: true").await;
    let mut dear = hello();
    dear["model"] = "other".into();
    call_as(&host, "ada", "asks", dear).await;
    let spent = ask_as(&host, "ada", "cost_summary", json!({})).await["total"].clone();
    assert!(spent["requests"].as_u64().unwrap() >= 1, "{spent}");
    assert!(spent["cost_usd"].as_f64().unwrap() >= 10.0, "{spent}");
}

#[tokio::test]
async fn a_message_goes_to_a_declared_channel_and_to_no_other() {
    let hook = Collector::start(Mood::Takes).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages.jsonl");
    let runtime_file = format!(
        "version: 1\nchannels:\n  hook: {{webhook: \"{}/in\"}}\n  notes: {{file: \"{}\"}}\n  unused: {{console: true}}\nprofiles: {{sandbox-0: {{channels: [hook, notes]}}}}",
        hook.url(),
        file.display(),
    );
    let host = TestHost::builder().only(&["message"]).runtime_file(&runtime_file).build().await;
    let message =
        |channel: &str| json!({"channel": channel, "chat_id": "42", "content": "Tee ist fertig."});
    let sent = host.ask("message", message("hook")).await;
    assert_eq!(sent, json!({"channel": "hook", "chat_id": "42", "status": "queued"}));
    host.ask("message", message("notes")).await;
    let received = hook.wait_for(|received| !received.bodies.is_empty());
    let received = wait::within("the message", received).await;
    let body: Value = serde_json::from_str(&received.bodies[0]).unwrap();
    assert_eq!((&body["content"], &body["chat_id"]), (&json!("Tee ist fertig."), &json!("42")));
    assert_eq!((&body["agent"], &body["tool"]), (&json!("test"), &json!("message")));
    host.host().flush(wait::SOON).await;
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&line["channel"], &line["content"]), (&json!("notes"), &json!("Tee ist fertig.")));

    for channel in ["unused", "telegram", "../notes", ""] {
        let failed = fails(&host, "message", message(channel)).await;
        assert!(failed.0 == Some("invalid-args"), "{channel}: {failed:?}");
        assert!(failed.1.contains("`hook`, `notes`") && !failed.1.contains("unused"), "{failed:?}");
    }
    let (id, text) = ("1".repeat(257), "x".repeat(16_385));
    for (id, text, says) in [("1", &*text, "16384"), (&*id, "x", "256")] {
        let long = json!({"channel": "hook", "chat_id": id, "content": text});
        let failed = fails(&host, "message", long).await;
        assert!(failed.0 == Some("invalid-args") && failed.1.contains(says), "{failed:?}");
    }
    let blank = json!({"channel": "hook", "chat_id": "1", "content": " "});
    assert_eq!(fails(&host, "message", blank).await.0, Some("invalid-args"));
}

#[tokio::test]
async fn a_simulated_tool_waits_for_a_person_whatever_the_policy_allows() {
    let tools = [
        "sim-argocd-status", "sim-argocd-investigate", "sim-argocd-fix-apply", "sim-ticket-read",
        "sim-runtime-research", "sim-git-pr", "sim-teams-post", "sim-cost-regression",
        "calculator",
    ];
    let host = TestHost::builder().only(&tools).build().await;
    let catalog = host.host().catalog();
    for tool in catalog.tools() {
        let simulated = tool.definition.name.starts_with("sim_");
        assert_eq!(tool.asks, simulated, "{}", tool.definition.name);
        assert_eq!(tool.definition.description.starts_with("SIMULATED"), simulated);
    }
    // Nobody can be asked: it is refused, and not run.
    let ticket = || json!({"ticket_id": "OPS-1"});
    let refused = host.call("sim_ticket_read", ticket()).await.unwrap_err();
    assert_eq!(refused.kind.code(), -32011, "{refused:?}");

    let _reachable = host.host().approvals().reach().open();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (answer, ()) = tokio::join!(host.ask("sim_ticket_read", ticket()), approve(&host));
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(
        (&answers[0]["simulated"], &answers[0]["ticket_id"]),
        (&json!(true), &json!("OPS-1"))
    );
}

async fn approve(host: &TestHost) {
    host.answer(Answer::Approve { lease: None }).await;
}
