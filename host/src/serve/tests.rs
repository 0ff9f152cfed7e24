//! The line connection as a client sees it: both eras, hostile lines, endings.

use std::time::Duration;

use clawhost_core::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_REQUESTS_MAX, EXPOSED_NAME_BYTES_MAX, MESSAGE_BYTES_MAX,
    REPLY_BYTES_MAX, REQUEST_ID_BYTES_MAX, SHUTDOWN_GRACE_MS,
};
use serde_json::{Value, json};

use super::calls::Calls as _;
use super::fake::{Client, DESCRIPTION_BYTES, Fake, calling, modern, ready, request};
use super::message::notice;

fn ping(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn the_older_era_lists_and_calls() {
    let mut client = Client::initialized().await;
    let tools = client.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["asks", "broken", "denied", "echo", "panics", "slow", "steps", "whoami"]);
    assert!(tools["result"].get("resultType").is_none());

    client.call(json!(2), "echo").await;
    let answer = client.hear().await;
    let expected = json!({"jsonrpc": "2.0", "id": 2, "result": {
        "content": [{"type": "text", "text": "{\"n\":1}"}],
        "structuredContent": {"n": 1}, "isError": false}});
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn the_stateless_era_needs_no_handshake() {
    let mut client = Client::connect();
    let found = client.ask(modern(json!(1), "server/discover", json!({}))).await;
    let result = &found["result"];
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(result["capabilities"]["tools"]["listChanged"], json!(true));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], json!("clawhost"));

    let tools = client.ask(modern(json!(2), "tools/list", json!({}))).await;
    assert_eq!(tools["result"]["resultType"], json!("complete"));
    assert_eq!(tools["result"]["cacheScope"], json!("private"));
    assert!(tools["result"]["ttlMs"].is_u64());

    let call = json!({"name": "whoami", "arguments": {}});
    let answer = client.ask(modern(json!("3"), "tools/call", call)).await;
    assert_eq!(answer["id"], json!("3"));
    assert_eq!(answer["result"]["content"][0]["text"], json!("tester"));
    assert_eq!(answer["result"]["resultType"], json!("complete"));
}

#[tokio::test]
async fn a_long_list_of_resources_comes_in_pages_that_fit() {
    let mut client = Client::connect_to(Fake::wordy());
    let (mut found, mut cursor) = (Vec::new(), json!({}));
    loop {
        let page = client.ask(modern(json!(1), "resources/list", cursor)).await["result"].clone();
        assert!(page["resources"].to_string().len() <= REPLY_BYTES_MAX);
        let items = page["resources"].as_array().unwrap();
        assert!(!items.is_empty());
        found.extend(items.iter().map(|item| item["uri"].as_str().unwrap().to_owned()));
        if page["nextCursor"].is_null() {
            break;
        }
        cursor = json!({"cursor": page["nextCursor"]});
    }
    assert_eq!(found, (0..100).map(|n| format!("x:{n}")).collect::<Vec<_>>());
    let wrong = modern(json!(2), "resources/list", json!({"cursor": "-1"}));
    assert_eq!(client.ask(wrong).await["error"]["code"], json!(-32602));
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_told_without_secrets_and_not_at_length() {
    let mut client = Client::initialized().await;
    client.host.services().secrets.hide("T", "abcdefgh").unwrap();
    let read = |uri: &str| request(1, "resources/read", json!({"uri": uri}));
    let told = client.ask(read("x:abcdefgh")).await["error"].clone();
    assert_eq!((&told["code"], &told["data"]["uri"]), (&json!(-32002), &json!("x:[redacted:T]")));
    let told = client.ask(read(&"x".repeat(100_000))).await["error"].clone();
    assert_eq!(told["data"]["uri"].as_str().map(str::len), Some(EXPOSED_NAME_BYTES_MAX));
}

#[tokio::test]
async fn after_every_hostile_line_the_connection_still_answers() {
    let long = format!("\"{}\"", "x".repeat(MESSAGE_BYTES_MAX));
    let id = "i".repeat(REQUEST_ID_BYTES_MAX + 1);
    let id = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#);
    let deep = "[".repeat(10_000);
    let lines: Vec<(Vec<u8>, i64)> = vec![
        (b"null".to_vec(), -32600),
        (b"[]".to_vec(), -32600),
        (b"1".to_vec(), -32600),
        (b"{bad".to_vec(), -32700),
        ("\u{feff}{}".into(), -32700),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#.to_vec(), -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}".to_vec(), -32700),
        (deep.into_bytes(), -32700),
        (long.into_bytes(), -32600),
        (id.into_bytes(), -32600),
    ];
    for initialized in [false, true] {
        let mut client = if initialized { Client::initialized().await } else { Client::connect() };
        for (line, code) in &lines {
            let shown = String::from_utf8_lossy(line.get(..line.len().min(60)).unwrap());
            client.send(&[line, &b"\n"[..]].concat()).await;
            let answer = client.hear().await;
            assert_eq!(answer["id"], Value::Null, "{shown}");
            assert_eq!(answer["error"]["code"], json!(code), "{shown}");
            let pong = client.ask(ping("still there")).await;
            assert_eq!(pong["result"], json!({}), "{shown}");
        }
    }
}

#[tokio::test]
async fn what_wants_no_answer_gets_none_however_bad_it_is() {
    let mut client = Client::initialized().await;
    for line in [
        r#"{"jsonrpc":"2.0","method":"x","params":{"a":99999999999999999999}}"#,
        r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{"a":99999999999999999999}}"#,
    ] {
        client.send(format!("{line}\n").as_bytes()).await;
        assert_eq!(client.ask(ping("next")).await["id"], json!("next"), "{line}");
    }
}

#[tokio::test]
async fn a_handshake_that_cannot_be_read_is_refused_for_that() {
    let mut client = Client::connect();
    for params in [json!({}), json!({"protocolVersion": 7})] {
        let error = client.ask(request(1, "initialize", params)).await["error"].clone();
        assert_eq!(error["code"], json!(-32602), "{error}");
        assert!(error["message"].as_str().unwrap().contains("initialize"), "{error}");
    }
}

#[tokio::test]
async fn line_ends_of_other_platforms_and_empty_lines_are_no_error() {
    let mut client = Client::initialized().await;
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\r\n\n").await;
    assert_eq!(client.hear().await["id"], json!(1));
    assert_eq!(client.ask(ping("next")).await["id"], json!("next"));
}

#[tokio::test]
async fn wrong_parameters_and_unknown_methods_keep_their_id() {
    let mut client = Client::initialized().await;
    for (method, params, code) in [
        ("tools/call", json!([]), -32600),
        ("tools/call", json!({"name": 5}), -32602),
        ("tools/call", json!({"name": "echo", "arguments": []}), -32602),
        ("tools/call", json!({"name": "nobody"}), -32602),
        ("tools/call", json!({"name": "broken"}), -32603),
        ("tools/call", json!({"name": "panics"}), -32603),
        ("nobody/knows", json!({}), -32601),
        ("claw.initialize", json!({}), -32602),
        ("claw.tool.call", json!([]), -32602),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params});
        let answer = client.ask(request).await;
        assert_eq!(answer["id"], json!(9), "{method} {params}");
        assert_eq!(answer["error"]["code"], json!(code), "{method} {params}");
    }
}

#[tokio::test]
async fn a_refused_call_is_a_result_that_says_why() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "denied").await;
    let result = client.hear().await["result"].clone();
    assert_eq!(result["isError"], json!(true));
    assert_eq!(result["content"][0]["text"], json!("refused"));
    let meta = json!({"clawhost/code": -32011, "clawhost/kind": "policy",
                      "clawhost/data": {"rule_id": "r1"}});
    assert_eq!(result["_meta"], meta);
}

#[tokio::test]
async fn what_comes_out_of_order_ends_nothing() {
    let mut client = Client::connect();
    client.say(ready()).await;
    client.say(json!({"jsonrpc": "2.0", "id": 4, "result": {}})).await;
    client.say(json!({"jsonrpc": "2.0", "method": "claw.initialized"})).await;
    client.say(notice("notifications/cancelled", &json!({"requestId": 1}))).await;
    let claw = json!({"jsonrpc": "2.0", "id": 1, "method": "claw.status"});
    assert_eq!(client.ask(claw).await["error"]["code"], json!(-32600));
    let early = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(client.ask(early).await["error"]["code"], json!(-32602));
    let nobodys = json!({"jsonrpc": "2.0", "id": 3, "method": "nobody/knows"});
    assert_eq!(client.ask(nobodys).await["error"]["code"], json!(-32601));
    let found = client.ask(modern(json!(4), "tools/list", json!({}))).await;
    assert!(found["result"]["tools"].is_array());
}

#[tokio::test]
async fn everything_accepted_is_answered_after_the_input_ends() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "slow").await;
    // The last line has no newline.
    client
        .send(br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}"#)
        .await;
    client.close_input();
    client.host.started(2).await;
    client.host.release();
    let mut ids = vec![client.hear().await["id"].clone(), client.hear().await["id"].clone()];
    ids.sort_by_key(Value::as_i64);
    assert_eq!(ids, [json!(1), json!(2)]);
    assert_eq!(client.hear_or_end().await, None);
    client.served.await.unwrap();
}

#[tokio::test]
async fn an_input_that_ends_before_any_session_ends_the_connection() {
    let mut client = Client::connect();
    client.send(b"{bad").await;
    client.close_input();
    assert_eq!(client.hear().await["error"]["code"], json!(-32700));
    assert_eq!(client.hear_or_end().await, None);
    client.served.await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_stops_and_is_not_answered() {
    let mut client = Client::initialized().await;
    client.call(json!("a"), "slow").await;
    client.host.started(1).await;
    let cancel = notice("notifications/cancelled", &json!({"requestId": "a"}));
    client.say(cancel.clone()).await;
    client.host.dropped(1).await;
    client.say(cancel).await;
    client.host.release();
    assert_eq!(client.ask(ping("next")).await["id"], json!("next"));

    client.call(json!("a"), "echo").await;
    assert_eq!(client.hear().await["error"]["code"], json!(-32600));
    client.call(json!("b"), "slow").await;
    assert_eq!(client.hear().await["id"], json!("b"));
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "slow").await;
    client.host.started(1).await;
    client.call(json!(1), "echo").await;
    assert_eq!(client.hear().await["error"]["code"], json!(-32600));
    client.host.release();
    let answer = client.hear().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("at last"))
    );
    client.call(json!(1), "whoami").await;
    assert_eq!(client.hear().await["result"]["content"][0]["text"], json!("tester"));
}

#[tokio::test]
async fn too_many_requests_are_refused_and_the_others_go_on() {
    let mut client = Client::initialized().await;
    for id in 0..CONNECTION_REQUESTS_MAX {
        client.call(json!(id), "slow").await;
    }
    client.host.started(CONNECTION_REQUESTS_MAX).await;
    client.call(json!("more"), "echo").await;
    let refused = client.hear().await;
    assert_eq!(refused["id"], json!("more"));
    assert_eq!(refused["error"]["code"], json!(-32011));
    assert_eq!(refused["error"]["data"]["limit"], json!("CONNECTION_REQUESTS_MAX"));
    assert_eq!(refused["error"]["data"]["stage"], json!("connection"));
    // What can end one of them is heard all the same.
    let approve = json!({"jsonrpc": "2.0", "id": "word", "method": "claw.tool.approve"});
    assert_eq!(client.ask(approve).await["error"]["code"], json!(-32602));
    client.host.release();
    for _ in 0..CONNECTION_REQUESTS_MAX {
        assert_eq!(client.hear().await["result"]["isError"], json!(false));
    }
    client.call(json!("more"), "echo").await;
    assert_eq!(client.hear().await["id"], json!("more"));
}

#[tokio::test]
async fn requests_that_are_big_together_are_refused_and_their_bytes_come_back() {
    let mut client = Client::initialized().await;
    let text = "x".repeat(MESSAGE_BYTES_MAX - 200);
    let big = |id: usize| calling(id, "slow", &json!({"text": text}));
    for id in 0..4 {
        client.say(big(id)).await;
    }
    client.host.started(4).await;
    let refused = client.ask(big(4)).await;
    assert_eq!(refused["error"]["data"]["limit"], json!("CONNECTION_BYTES_MAX"));
    client.host.release();
    for _ in 0..4 {
        client.hear().await;
    }
    assert_eq!(client.ask(big(5)).await["id"], json!(5));
}

#[tokio::test]
async fn an_older_client_hears_when_the_tools_change() {
    let mut client = Client::initialized().await;
    client.host.change();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(client.hear().await, changed);
    client.host.change();
    assert_eq!(client.hear().await, changed);
}

#[tokio::test]
async fn a_modern_client_subscribes_and_the_end_is_clean() {
    let mut client = Client::connect();
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let acknowledged = client.ask(modern(json!("sub"), "subscriptions/listen", filter)).await;
    assert_eq!(acknowledged["method"], json!("notifications/subscriptions/acknowledged"));
    let accepted = &acknowledged["params"]["notifications"];
    assert_eq!(*accepted, json!({"toolsListChanged": true}));

    client.host.change();
    let mut heard = client.hear().await;
    assert_eq!(heard["method"], json!("notifications/tools/list_changed"));
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!("sub"));

    client.close_input();
    heard = client.hear().await;
    assert_eq!(heard["id"], json!("sub"));
    assert_eq!(client.hear_or_end().await, None);
    client.served.await.unwrap();
}

#[tokio::test]
async fn progress_grows_and_comes_before_the_result() {
    let mut client = Client::initialized().await;
    let steps = json!({"name": "steps", "_meta": {"progressToken": "p"}});
    client.say(request(1, "tools/call", steps)).await;
    for step in [1.0, 2.0, 3.0] {
        let report = client.hear().await;
        assert_eq!(report["method"], json!("notifications/progress"));
        let expected = json!({"progressToken": "p", "progress": step, "total": 3.0});
        assert_eq!(report["params"], expected);
    }
    assert_eq!(client.hear().await["result"]["content"][0]["text"], json!("done"));
}

#[tokio::test]
async fn a_client_that_is_gone_ends_its_calls() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "slow").await;
    client.host.started(1).await;
    client.close_output();
    // The next answer finds nobody.
    client.say(ping("anyone")).await;
    client.host.dropped(1).await;
    client.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_end_behind_the_end_of_the_input_where_nobody_reads() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "slow").await;
    client.host.started(1).await;
    client.close_input();
    let long = Duration::from_millis(SHUTDOWN_GRACE_MS * 3);
    let ended = tokio::time::timeout(long, client.host.dropped(1)).await;
    assert!(ended.is_err(), "somebody waits for its answer");
    client.close_output();
    client.host.dropped(1).await;
    client.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_is_asked_any_longer_is_answered_behind_the_end_of_the_input() {
    let mut client = Client::initialized().await;
    let approvals = client.host.services().approvals.clone();
    let (_operator, mut changes) = (approvals.reach().open(), approvals.changes());
    client.call(json!(1), "asks").await;
    while approvals.pending().is_empty() {
        changes.changed().await.unwrap();
    }
    let began = tokio::time::Instant::now();
    client.close_input();
    assert_eq!(client.hear().await["id"], json!(1));
    assert_eq!(began.elapsed().as_millis() / 1_000, u128::from(SHUTDOWN_GRACE_MS / 1_000));
    assert_eq!(client.hear_or_end().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_calls_end_within_the_grace() {
    let mut client = Client::initialized().await;
    client.call(json!(1), "slow").await;
    client.host.started(1).await;
    client.shutdown.cancel();
    client.host.release();
    assert_eq!(client.hear().await["id"], json!(1));
    assert_eq!(client.hear_or_end().await, None);

    let mut stuck = Client::initialized().await;
    stuck.call(json!(1), "slow").await;
    stuck.host.started(1).await;
    stuck.shutdown.cancel();
    stuck.host.dropped(1).await;
    stuck.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read() {
    let mut client = Client::initialized().await;
    // Each answer is as long as its question: far more than may be unread, were it all accepted.
    let text = "x".repeat(MESSAGE_BYTES_MAX / 4);
    let arguments = json!({"text": text});
    let sent = async {
        for id in 0..200 {
            client.say(calling(id, "echo", &arguments)).await;
        }
    };
    // The clock is paused: it moves on once nobody can do anything any more.
    let quiet = Duration::from_secs(1);
    assert!(tokio::time::timeout(quiet, sent).await.is_err(), "everything was accepted");
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_are_not_made() {
    const LISTS: usize = 64;
    let mut client = Client::initialized_at(Fake::wordy()).await;
    client.call(json!("slow"), "slow").await;
    client.host.started(1).await;
    for id in 0..LISTS {
        client.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).await;
    }
    // The clock is paused: it moves on once nobody can do anything any more.
    let quiet = Duration::from_secs(1);
    let all = client.host.listed(LISTS);
    assert!(tokio::time::timeout(quiet, all).await.is_err(), "all answers were made");
    let enough = client.host.listed(2);
    enough.await;
    let more = client.host.listed(CONNECTION_BYTES_MAX / DESCRIPTION_BYTES + 1);
    assert!(tokio::time::timeout(quiet, more).await.is_err(), "too many answers were made");
    // What the client says is heard all the same.
    client.say(notice("notifications/cancelled", &json!({"requestId": "slow"}))).await;
    client.host.dropped(1).await;
    let mut ids = Vec::new();
    for _ in 0..LISTS {
        let answer = client.hear().await;
        assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(1));
        ids.extend(answer["id"].as_u64());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..LISTS as u64).collect::<Vec<_>>());
}
