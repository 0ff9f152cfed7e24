//! Sessions as a client on a line connection sees them.

mod any_parameters;

use serde_json::{Value, json};

use crate::serve::fake::{Client, Fake, claw_handshake, request as ask};
use crate::serve::message::notice;

/// What a client may send at most; `with` changes it.
fn initialize() -> Value {
    claw_handshake(json!({}))
}

fn with(pointer: &str, value: Value) -> Value {
    let mut request = initialize();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    request.pointer_mut(&format!("/params{parent}")).unwrap()[key] = value;
    request
}

fn call(tool: &str, request: u8) -> Value {
    ask(
        tool,
        "claw.tool.call",
        json!({"name": tool, "arguments": {"n": 1}, "context": {
        "request_id": format!("550e8400-e29b-41d4-a716-4466554400{request:02}"),
        "identity": "test-agent"}}),
    )
}

async fn begun() -> Client {
    let mut client = Client::connect();
    let answer = client.ask(initialize()).await;
    assert!(answer["result"].is_object(), "{answer}");
    client.say(json!({"jsonrpc": "2.0", "method": "claw.initialized"})).await;
    client
}

fn code(answer: &Value) -> Value {
    answer["error"]["code"].clone()
}

#[tokio::test]
async fn a_session_begins_says_what_it_can_and_says_where_it_stands() {
    let mut client = Client::connect();
    let early = client.ask(ask("a", "claw.status", json!({}))).await;
    assert_eq!((code(&early), &early["error"]["data"]["state"]), (json!(-32600), &json!("INIT")));
    let answer = client.ask(initialize()).await;
    let expected = json!({"jsonrpc": "2.0", "id": "init", "result": {
        "protocolVersion": "0.3.0", "conformanceLevel": "level-2", "capabilities": {"tools": {}},
        "agentInfo": {"name": "test-agent", "version": env!("CARGO_PKG_VERSION")}}});
    assert_eq!(answer, expected);
    let status = client.ask(ask("b", "claw.status", json!({}))).await;
    assert_eq!(status["result"]["state"], json!("READY"));
    assert!(status["result"]["uptime_ms"].is_u64());
}

#[tokio::test]
async fn what_is_wrong_with_a_beginning_is_said_in_order_and_harms_no_session() {
    let mut client = Client::connect();
    for _ in 0..2 {
        for (request, expected) in [
            (ask("x", "claw.initialize", json!({})), -32602),
            (ask("x", "claw.initialize", json!([])), -32602),
            (with("/protocolVersion", json!("99.0.0")), -32001),
            (with("/protocolVersion", json!(3)), -32602),
            (with("/protocolVersion", json!("three")), -32602),
            (with("/clientInfo", json!({"name": "t"})), -32602),
            (with("/capabilities", json!([])), -32602),
            (with("/capabilities", json!({"tools": true})), -32602),
            (with("/manifest", json!(null)), -32602),
            (with("/manifest", json!("claw://tool/x")), -32602),
            (with("/manifest", json!("claw://local/tool/x")), -32602),
        ] {
            let answer = client.ask(request.clone()).await;
            assert_eq!(code(&answer), json!(expected), "{request} {answer}");
        }
        let begun = client.ask(ask("s", "claw.status", json!({}))).await;
        if begun["result"].is_object() {
            // The version comes before the state, the state before the manifest.
            let again = client.ask(with("/manifest", json!({}))).await;
            assert_eq!(code(&again), json!(-32600));
            return;
        }
        let empty = client.ask(with("/manifest", json!({}))).await;
        assert_eq!(code(&empty), json!(-32060));
        assert!(empty["error"]["data"]["problems"][0]["reason"].is_string(), "{empty}");
        let nowhere = client.ask(with("/manifest", json!("claw://registry/a/b@1.0.0"))).await;
        assert_eq!(code(&nowhere), json!(-32061));
        assert!(client.ask(initialize()).await["result"].is_object());
    }
}

#[tokio::test]
async fn capabilities_are_those_of_both_sides() {
    for (wanted, granted) in [
        (json!({}), json!({"tools": {}})),
        (json!({"memory": {}}), json!({})),
        (json!({"tools": {}, "memory": {}, "swarm": {}, "more": 1}), json!({"tools": {}})),
        (json!({"tools": {"progress": true}}), json!({"tools": {"progress": true}})),
    ] {
        let answer = Client::connect().ask(with("/capabilities", wanted.clone())).await;
        assert_eq!(answer["result"]["capabilities"], granted, "{wanted}");
    }
}

#[tokio::test]
async fn a_call_is_answered_with_blocks_or_with_its_code() {
    let mut client = begun().await;
    let answer = client.ask(call("echo", 1)).await;
    let content = json!([{"type": "text", "text": "{\"n\":1}"}]);
    assert_eq!(answer["result"], json!({"content": content, "isError": false}));
    for (tool, expected) in
        [("denied", -32011), ("broken", -32603), ("panics", -32603), ("nobody", -32602)]
    {
        assert_eq!(code(&client.ask(call(tool, 2)).await), json!(expected), "{tool}");
    }
    let denied = client.ask(call("denied", 3)).await;
    assert_eq!(denied["error"]["data"], json!({"rule_id": "r1", "kind": "policy"}));
}

#[tokio::test]
async fn parameters_of_a_call_are_looked_at_one_by_one() {
    let mut client = begun().await;
    let good = call("echo", 1);
    let edits: [(&str, Option<Value>, &str); 13] = [
        ("/params/name", None, "name"),
        ("/params/name", Some(json!("")), "name"),
        ("/params/arguments", None, "arguments"),
        ("/params/arguments", Some(json!([])), "arguments"),
        ("/params/context", None, "context"),
        ("/params/context/request_id", None, "context.request_id"),
        ("/params/context/request_id", Some(json!("1")), "context.request_id"),
        ("/params/context/identity", None, "context.identity"),
        ("/params/context/identity", Some(json!("stranger")), "context.identity"),
        ("/params/context/identity", Some(json!("claw://identity/test-agent")), "context.identity"),
        ("/params/context/sandbox", Some(json!("nowhere")), "context.sandbox"),
        ("/params/context/policy", Some(json!("nobody")), "context.policy"),
        ("/params/context/sandbx", Some(json!("none")), "context.sandbx"),
    ];
    for (pointer, value, param) in edits {
        let mut request = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = request.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(key.to_owned(), value),
            None => parent.remove(key),
        };
        let answer = client.ask(request).await;
        assert_eq!(
            (code(&answer), &answer["error"]["data"]["param"]),
            (json!(-32602), &json!(param))
        );
    }
    for identity in ["test-agent", "visitor", "claw://local/identity/test-agent"] {
        let mut request = good.clone();
        request["params"]["context"]["identity"] = json!(identity);
        request["params"]["context"]["policy"] = json!("claw://local/policy/all");
        assert!(client.ask(request).await["result"].is_object(), "{identity}");
    }
}

#[tokio::test]
async fn a_call_names_the_versions_of_the_host_s_documents_and_the_session_s() {
    let mut client = Client::connect();
    client.ask(with("/manifest/metadata/version", json!("1.2.0"))).await;
    client.say(json!({"jsonrpc": "2.0", "method": "claw.initialized"})).await;
    let asked = |key: &str, uri: &str| {
        let mut request = call("echo", 1);
        request["params"]["context"][key] = json!(uri);
        request
    };
    for (key, uri) in [
        ("identity", "claw://local/identity/visitor@1.2.0"),
        ("policy", "claw://local/policy/all@1.0.0"),
    ] {
        assert!(client.ask(asked(key, uri)).await["result"].is_object(), "{uri}");
    }
    for (key, uri) in [
        ("identity", "claw://local/identity/visitor@1.0.0"),
        ("policy", "claw://local/policy/all@1.2.0"),
        ("sandbox", "claw://local/sandbox/none@1.0.0"),
    ] {
        let answer = client.ask(asked(key, uri)).await;
        let param = format!("context.{key}");
        assert_eq!(
            (code(&answer), &answer["error"]["data"]["param"]),
            (json!(-32602), &json!(param))
        );
        assert!(answer.to_string().contains("is not here in version"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_runs_and_ends_what_is_left() {
    let mut client = begun().await;
    client.say(call("slow", 1)).await;
    client.host.started(1).await;
    client.say(ask("end", "claw.shutdown", json!({"timeout_ms": 100, "reason": "t"}))).await;
    let refused = client.ask(call("echo", 2)).await;
    assert_eq!(
        (code(&refused), &refused["error"]["data"]["state"]),
        (json!(-32600), &json!("STOPPING"))
    );
    let left = client.hear().await;
    assert_eq!((&left["id"], code(&left)), (&json!("slow"), json!(-32014)));
    client.host.dropped(1).await;
    let ended = client.hear().await;
    assert_eq!((&ended["id"], &ended["result"]), (&json!("end"), &json!({"drained": false})));
    let status = client.ask(ask("s", "claw.status", json!({}))).await;
    assert_eq!(status["result"]["state"], json!("STOPPED"));
    let over = client.ask(ask("end2", "claw.shutdown", json!({}))).await;
    assert_eq!(code(&over), json!(-32600));
    assert_eq!(code(&client.ask(call("echo", 3)).await), json!(-32600));

    // The same connection begins again.
    assert!(client.ask(initialize()).await["result"].is_object());
    client.say(call("slow", 4)).await;
    client.host.started(2).await;
    client.say(ask("end", "claw.shutdown", json!({}))).await;
    client.host.release();
    assert_eq!(client.hear().await["id"], json!("slow"));
    assert_eq!(client.hear().await["result"], json!({"drained": true}));
}

#[tokio::test(start_paused = true)]
async fn a_session_beats_only_while_it_is_ready() {
    const BEATS: &str = r#"{"claw": "0.3.0", "kind": "Claw",
        "metadata": {"name": "test-agent", "annotations": {"heartbeat_interval_ms": 2000}}, "spec": {
        "identity": {"inline": {"personality": "Tests."}},
        "providers": [{"inline": {"protocol": "openai-compatible", "endpoint": "http://127.0.0.1:9/v1",
            "model": "none", "auth": {"type": "none"}}}]}}"#;
    let mut client = Client::connect_to(Fake::of(BEATS));
    client.ask(initialize()).await;
    for beat in 1..=2 {
        let heard = client.hear().await;
        assert_eq!(heard["method"], json!("claw.heartbeat"));
        let params = &heard["params"];
        assert_eq!(
            (&params["state"], &params["uptime_ms"]),
            (&json!("READY"), &json!(2000 * beat))
        );
        assert!(params["timestamp"].as_str().unwrap().ends_with('Z') && heard.get("id").is_none());
    }
    assert_eq!(
        client.ask(ask("end", "claw.shutdown", json!({}))).await["result"]["drained"],
        json!(true)
    );
    let quiet = std::time::Duration::from_secs(10);
    assert!(tokio::time::timeout(quiet, client.hear()).await.is_err());
}

#[tokio::test]
async fn progress_is_told_to_those_who_ask() {
    let mut client = Client::connect();
    client.ask(with("/capabilities", json!({"tools": {"progress": true}}))).await;
    client.say(call("steps", 1)).await;
    let mut heard = Vec::new();
    while heard.len() < 4 {
        heard.push(client.hear().await);
    }
    let reports: Vec<_> =
        heard.iter().filter(|m| m["method"] == json!("claw.tool.progress")).collect();
    let steps: Vec<_> = reports.iter().map(|report| report["params"]["progress"].clone()).collect();
    assert_eq!(steps, [json!(1.0), json!(2.0), json!(3.0)]);

    let mut quiet = begun().await;
    assert!(quiet.ask(call("steps", 1)).await["result"].is_object());
}

#[tokio::test]
async fn a_session_s_manifest_goes_with_its_calls() {
    let mut client = Client::connect();
    client.ask(with("/manifest/spec/tools", json!([{"name": "echo"}]))).await;
    assert!(client.ask(call("echo", 1)).await["result"].is_object());
    assert_eq!(code(&client.ask(call("whoami", 2)).await), json!(-32602));
}

#[tokio::test]
async fn nothing_waits_for_a_word_so_none_is_acknowledged() {
    let mut client = begun().await;
    for method in ["claw.tool.approve", "claw.tool.deny"] {
        let params = json!({"request_id": "990e8400-e29b-41d4-a716-446655440004", "reason": "t"});
        let answer = client.ask(ask("w", method, params)).await;
        assert_eq!(answer["result"], json!({"acknowledged": false}));
        assert_eq!(code(&client.ask(ask("w", method, json!({}))).await), json!(-32602));
    }
}

fn word(verb: &str, request: u8) -> Value {
    let request_id = format!("550e8400-e29b-41d4-a716-4466554400{request:02}");
    ask(verb, &format!("claw.tool.{verb}"), json!({"request_id": request_id, "reason": "t"}))
}

/// Returns two messages by id, whichever came first.
async fn both(client: &mut Client, first: &str) -> (Value, Value) {
    let (one, two) = (client.hear().await, client.hear().await);
    if one["id"] == json!(first) { (one, two) } else { (two, one) }
}

#[tokio::test]
async fn the_parent_process_answers_for_the_operator() {
    let mut client = begun().await;
    // The word is on its way while the call is: it waits for the question.
    client.say(call("asks", 1)).await;
    client.say(word("approve", 1)).await;
    let (asks, said) = both(&mut client, "asks").await;
    assert_eq!(asks["result"]["content"][0]["text"], json!("approved"));
    assert_eq!(said["result"], json!({"acknowledged": true}));

    client.say(call("asks", 2)).await;
    client.say(word("deny", 2)).await;
    let (asks, said) = both(&mut client, "asks").await;
    assert_eq!((code(&asks), &said["result"]["acknowledged"]), (json!(-32013), &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_counts_the_calls_of_the_other_dialect() {
    let mut client = Client::initialized().await;
    client.ask(initialize()).await;
    client.call(json!(1), "slow").await;
    client.host.started(1).await;
    let end = ask("end", "claw.shutdown", json!({"timeout_ms": 10}));
    assert_eq!(client.ask(end).await["result"], json!({"drained": false}));
    client.host.release();
    assert_eq!(client.hear().await["id"], json!(1));
}

#[tokio::test]
async fn a_request_id_is_the_same_in_either_case() {
    let mut client = begun().await;
    let id = "550e8400-e29b-41d4-a716-44665544ABCD";
    let mut asks = call("asks", 1);
    asks["params"]["context"]["request_id"] = json!(id);
    client.say(asks).await;
    client.host.started(1).await;
    let params = json!({"request_id": id.to_ascii_lowercase()});
    client.say(ask("approve", "claw.tool.approve", params)).await;
    let (asks, said) = both(&mut client, "asks").await;
    assert_eq!(said["result"], json!({"acknowledged": true}));
    assert!(asks["result"].is_object(), "{asks}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_question_and_a_word_about_nothing_comes_to_nothing() {
    let mut client = begun().await;
    assert_eq!(code(&client.ask(call("asks", 3)).await), json!(-32012));
    client.say(call("slow", 4)).await;
    assert_eq!(client.ask(word("approve", 4)).await["result"]["acknowledged"], json!(false));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_answers_calls_that_wait_for_a_person() {
    let mut client = begun().await;
    client.say(call("asks", 1)).await;
    client.host.started(1).await;
    client.say(ask("end", "claw.shutdown", json!({"timeout_ms": 10}))).await;
    assert_eq!(code(&client.hear().await), json!(-32014));
    assert_eq!(client.hear().await["result"], json!({"drained": false}));
    assert_eq!(client.ask(word("approve", 1)).await["result"]["acknowledged"], json!(false));
}

#[tokio::test]
async fn a_host_that_cannot_record_is_in_error_until_it_can() {
    let mut client = begun().await;
    for (tool, state) in [("unrecorded", "ERROR"), ("unrecorded", "ERROR"), ("echo", "READY")] {
        client.ask(call(tool, 1)).await;
        let status = client.ask(ask("s", "claw.status", json!({}))).await;
        assert_eq!(status["result"]["state"], json!(state), "{tool}");
    }
}

#[tokio::test]
async fn methods_of_other_levels_and_unknown_ones_are_not_found() {
    let mut client = begun().await;
    for method in ["claw.nonexistent", "claw.memory.query", "claw.swarm.discover", "claw.heartbeat"]
    {
        assert_eq!(code(&client.ask(ask("m", method, json!({}))).await), json!(-32601), "{method}");
    }
    // Notifications are never answered, and what cannot be answered is not carried out.
    for method in ["claw.heartbeat", "claw.swarm.broadcast", "claw.nonexistent", "claw.shutdown"] {
        client.say(notice(method, &json!({}))).await;
    }
    let status = client.ask(ask("s", "claw.status", json!({}))).await;
    assert_eq!(status["result"]["state"], json!("READY"));
}

#[tokio::test]
async fn mcp_and_its_cancelling_are_beside_it() {
    let mut client = begun().await;
    client.say(call("slow", 1)).await;
    client.host.started(1).await;
    client.say(notice("notifications/cancelled", &json!({"requestId": "slow"}))).await;
    let tools = client.ask(crate::serve::fake::modern(json!(2), "tools/list", json!({}))).await;
    assert!(tools["result"]["tools"].is_array());
    client.host.release();
    assert_eq!(client.hear().await["result"]["content"][0]["text"], json!("at last"));
}

#[tokio::test]
async fn requests_that_run_when_the_input_ends_are_answered() {
    let mut client = begun().await;
    client.say(call("slow", 1)).await;
    client.host.started(1).await;
    client.close_input();
    client.host.release();
    assert_eq!(client.hear().await["id"], json!("slow"));
    assert_eq!(client.hear_or_end().await, None);
    client.served.await.unwrap();
}
