//! `network_policy` of a definition file: a tool is kept to hosts of those that its profile opens,
//! by its arguments before anything is looked up, and wherever it connects.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use clawhost::gate::CallContext;
use clawhost::host::ToolCall;
use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;
use clawhost_tests::host::{call, text};
use clawhost_tests::listening::{listening, read_request};
use clawhost_tests::{Guest, TestHost, native, wait};
use serde_json::{Value, json};

use crate::web::{LOCAL, Tripwire, reply};

fn policy(tool: &str, text: &str) -> String {
    format!("version: 1\ntools: {{ {tool}: {{ network_policy: {{ {text} }} }} }}")
}

/// A host whose web tools reach `localhost` and `127.0.0.1` at these ports, but for a policy.
async fn host(ports: &str, definitions: &str) -> TestHost {
    TestHost::builder()
        .only(&["web-fetch", "http-get"])
        .limits("timeout_ms: 3000")
        .capabilities(LOCAL)
        .runtime_file(&format!(
            "version: 1\ntools: {{http_get: {{block_private_ips: false}}}}\nprofiles: {{sandbox-0: {{ports: [{ports}]}}}}"
        ))
        .definitions(definitions)
        .build()
        .await
}

async fn get(host: &TestHost, tool: &str, url: &str) -> Result<ToolReply, CallError> {
    wait::within(url, host.call(tool, json!({"url": url}))).await
}

fn stage(outcome: Result<ToolReply, CallError>) -> (i32, Value) {
    let error = outcome.unwrap_err();
    (error.kind.code(), error.data["stage"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_outside_of_the_policy_is_refused_before_anything_is_looked_up() {
    let server = Tripwire::plain();
    let port = server.port;
    for tool in ["web_fetch", "http_get"] {
        for (own, refused, passes) in [
            ("mode: allowlist, hosts: [127.0.0.1]", server.url("localhost"), true),
            (
                "mode: allowlist, hosts: [127.0.0.1, a.test]",
                "http://a.test@127.0.0.1/".to_owned(),
                true,
            ),
            (
                &format!("mode: allowlist, hosts: [127.0.0.1], ports: [{port}, 1]"),
                "http://127.0.0.1:2/".to_owned(),
                true,
            ),
            (
                "mode: allowlist, hosts: [127.0.0.1], schemes: [https]",
                server.url("127.0.0.1"),
                false,
            ),
            (
                "mode: allowlist, hosts: [127.0.0.1], block_private: true",
                server.url("127.0.0.1"),
                false,
            ),
            ("mode: none", server.url("127.0.0.1"), false),
        ] {
            let host = host(&format!("{port}, 1, 2"), &policy(tool, own)).await;
            let before = server.hits();
            let error = get(&host, tool, &refused).await;
            assert_eq!(stage(error), (-32010, json!("network")), "{tool}: {own}: {refused}");
            assert_eq!(server.hits(), before, "{tool}: {own}");
            let record = host.finished().remove(0);
            assert_eq!(
                (&record["outcome"], &record["data"]["stage"]),
                (&json!("sandbox"), &json!("network"))
            );
            if passes {
                assert!(
                    !get(&host, tool, &server.url("127.0.0.1")).await.unwrap().is_error,
                    "{own}"
                );
            }
            host.check_audit();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_out_of_the_policy_is_not_followed_where_the_profile_would() {
    let secret = Tripwire::plain();
    let location = format!("location: {}\r\n", secret.url("localhost"));
    let server = Tripwire::answering(move |_| reply("302 Found", &location, ""));
    let ports = format!("{}, {}", server.port, secret.port);
    let narrowed = policy("web_fetch", "mode: allowlist, hosts: [127.0.0.1]");
    let host = host(&ports, &narrowed).await;
    let outcome = get(&host, "web_fetch", &server.url("127.0.0.1")).await;
    assert!(outcome.is_err() || outcome.is_ok_and(|reply| reply.is_error));
    assert_eq!((server.hits(), secret.hits()), (1, 0));
    assert!(host.finished()[0]["violations"].to_string().contains("localhost"));
    // The same profile lets the other tool go there.
    get(&host, "http_get", &server.url("127.0.0.1")).await.unwrap();
    assert_eq!(secret.hits(), 1);
}

#[tokio::test]
async fn the_arguments_of_a_tool_that_nothing_contains_are_held_as_well() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let host = TestHost::builder()
        .definitions(&policy("send", "mode: allowlist, hosts: ['*.good.test']"))
        .extend(|host| {
            // Code of the embedding program, which nothing contains.
            host.tool(native("send", async || CALLS.fetch_add(1, Ordering::SeqCst).into()))
        })
        .build()
        .await;
    for arguments in [
        json!({"webhook_url": "https://evil.test/"}),
        json!({"to": [{"x": "https://a.good.test@evil.test/"}]}),
        json!({"host": "evil.test"}),
        json!({"hosts": ["a.good.test", "good.test"]}),
        json!({"https://evil.test/": 1}),
    ] {
        let outcome = host.call("send", arguments.clone()).await;
        assert_eq!(stage(outcome), (-32010, json!("network")), "{arguments}");
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
    host.ask("send", json!({"url": "a.good.test/x", "text": "https://evil.test/"})).await;
    host.ask("send", json!({})).await;
    assert_eq!(CALLS.load(Ordering::SeqCst), 2);
}

/// An MCP server of one tool, `look`, over HTTP.
fn mcp_server() -> u16 {
    listening(|mut stream| {
        let (_, body) = read_request(&mut stream);
        let request: Value = serde_json::from_str(&body).unwrap_or_default();
        let info = json!({"name": "far", "version": "1"});
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
            }
            Some("tools/list") => {
                json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") => json!({"content": [{"type": "text", "text": "seen"}]}),
            _ => Value::Null,
        };
        let answer = match result {
            Value::Null => {
                json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}})
            }
            result => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        };
        drop(stream.write_all(
            reply("200 OK", "content-type: application/json\r\n", &answer.to_string()).as_bytes(),
        ));
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_of_a_server_outside_of_its_policy_is_not_served() {
    for (hosts, serves) in [("far.test", false), ("127.0.0.1", true)] {
        let far = format!("{{ url: 'http://127.0.0.1:{}/', internal_only: false }}", mcp_server());
        let host = TestHost::builder()
            .runtime_file(&format!("version: 1\ntools: {{ mcp_servers: {{ far: {far} }} }}"))
            .definitions(&policy("far-look", &format!("mode: allowlist, hosts: [{hosts}]")))
            .build()
            .await;
        let settled = || {
            let served = host.names().contains(&"far__look".to_owned());
            (served || host.refused().contains("network_policy")).then_some(served)
        };
        assert_eq!(wait::until("the server", settled).await, serves, "{}", host.refused());
        if !serves {
            let outcome = host.call("far__look", json!({})).await;
            assert_eq!(stage(outcome), (-32010, json!("load")));
        }
    }
}

/// A profile that opens `hosts`, of this machine too.
fn opening(name: &str, hosts: &str) -> String {
    format!(
        "{{claw: '0.3.0', kind: Sandbox, metadata: {{name: {name}}}, spec: {{level: wasm, capabilities: {{network: \
         {{mode: allowlist, allowed_hosts: [{hosts}], ssrf_protection: {{enabled: false}}}}}}}}}}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_the_web_is_called_only_where_the_sandbox_that_its_document_states_opens_it() {
    let port = mcp_server();
    let document = |name: &str, more: &str| {
        format!(
            "{{claw: '0.3.0', kind: Tool, metadata: {{name: {name}}}, spec: {{mcp_source: {{uri: 'http://127.0.0.1:{port}/', tool_name: look}}{more}}}}}"
        )
    };
    let ports = format!("{{ports: [{port}]}}");
    let host = TestHost::builder()
        .runtime_file(&format!("version: 1\nprofiles: {{opens: {ports}, other: {ports}}}"))
        .document("opens.yaml", &opening("opens", "127.0.0.1"))
        .document("other.yaml", &opening("other", "far.test"))
        .document("plain.yaml", &document("plain", ""))
        .document("held.yaml", &document("held", ", sandbox_ref: opens"))
        .document("shut.yaml", &document("shut", ", sandbox_ref: other"))
        .document("closed.yaml", &document("closed", ", sandbox_ref: none"))
        .build()
        .await;
    let served = || {
        let names = host.names();
        ["plain", "held"].iter().all(|name| names.iter().any(|one| one == name)).then_some(())
    };
    wait::until("the server", served).await;
    for name in ["plain", "held"] {
        assert_eq!(text(&host.call(name, json!({})).await.unwrap()), "seen", "{name}");
        let catalog = host.host().catalog();
        let touches = catalog.find(name).unwrap().grants.touches(|_| String::new());
        assert!(touches.contains(&format!("the hosts 127.0.0.1 at port {port}")), "{touches}");
    }
    for name in ["shut", "closed"] {
        let refused = stage(host.call(name, json!({})).await);
        assert_eq!(refused, (-32010, json!("load")), "{}", host.refused());
    }
    assert!(host.refused().contains("does not open its MCP server's address"));
    // What a caller narrows a call to holds it as well, its own profile too: that contains nothing of it.
    for (sandbox, passes) in
        [("opens", true), ("other", false), ("none", false), ("sandbox-0", false)]
    {
        let sandbox = Some(sandbox.to_owned());
        let context = CallContext { sandbox, ..CallContext::default() };
        let narrowed = ToolCall { context, ..call("plain", json!({})) };
        let outcome = host.host().call(narrowed).await;
        assert_eq!(outcome.is_ok(), passes, "{outcome:?}");
    }
}

#[tokio::test]
async fn a_tool_that_may_call_others_is_not_served_with_a_policy_that_would_not_hold_for_these() {
    for calls in [0, 1] {
        let calls_max = format!("version: 1\nprofiles: {{sandbox-0: {{tool_calls_max: {calls}}}}}");
        let host = TestHost::builder()
            .guest(&Guest::read("answer"))
            .runtime_file(&calls_max)
            .definitions(&policy("answer", "mode: none"))
            .build()
            .await;
        let refused = host.refused();
        assert_eq!(host.names().contains(&"answer".to_owned()), calls == 0, "{refused}");
        assert_eq!(refused.contains("`network_policy` would not hold"), calls == 1, "{refused}");
    }
}
