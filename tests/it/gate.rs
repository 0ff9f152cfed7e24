//! The gate: what is refused, by which stage, in which order, and that listing decides alike.

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_tests::host::text;
use clawhost_tests::{Guest, TestHost, source_root};
use serde_json::{Value, json};

pub(crate) fn stage(error: &CallError) -> (i32, &str) {
    (error.kind.code(), error.data.get("stage").and_then(Value::as_str).unwrap_or_default())
}

#[tokio::test]
async fn what_no_rule_matches_is_denied_and_never_runs() {
    let rules = "- {id: reads, action: allow, scope: tool, match: {name: read-file}}";
    let host = TestHost::builder().file("a.txt", "a").rules(rules).build().await;
    let write = json!({"path": "b.txt", "content": "b"});
    let error = host.call("write_file", write).await.unwrap_err();
    assert_eq!(stage(&error), (-32011, "policy"));
    assert!(!host.workspace().join("b.txt").exists());
    assert_eq!(host.ask("read_file", json!({"path": "a.txt"})).await["content"], "a");
}

#[tokio::test]
async fn the_first_rule_that_matches_decides_and_is_named() {
    let rules = "\
- {id: no-writing, action: deny, scope: tool, match: {name: write-file}, reason: read only today}
- {id: all, action: allow, scope: all}
- {id: too-late, action: deny, scope: all}";
    let host = TestHost::builder().file("a.txt", "a").rules(rules).build().await;
    let error =
        host.call("write_file", json!({"path": "a.txt", "content": "b"})).await.unwrap_err();
    assert_eq!(stage(&error), (-32011, "policy"));
    assert_eq!(error.data["rule_id"], "no-writing");
    assert!(error.message.contains("read only today"), "{error}");
    host.ask("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(host.finished()[1]["rule_id"], "all");
}

#[tokio::test]
async fn arguments_are_checked_before_policy_and_policy_before_the_sandbox() {
    let some = "- {id: docs, action: allow, scope: all, conditions: {path_within: /docs}}";
    let host = TestHost::builder().rules(some).limits("timeout_ms: 0").build().await;
    let bad = host.call("read_file", json!({"path": 1})).await.unwrap_err();
    assert_eq!(stage(&bad), (-32602, "schema"));
    let refused = host.call("read_file", json!({"path": "a"})).await.unwrap_err();
    assert_eq!(stage(&refused), (-32011, "policy"));
    // Who could call it with no arguments reads nothing of what it takes.
    let denied = "- {id: none, action: deny, scope: all}";
    let host = TestHost::builder().rules(denied).build().await;
    let bad = host.call("read_file", json!({"path": 1})).await.unwrap_err();
    assert_eq!(stage(&bad), (-32011, "policy"));
    let host = TestHost::builder().limits("timeout_ms: 0").build().await;
    let no_time = host.call("read_file", json!({"path": "a"})).await.unwrap_err();
    assert_eq!(stage(&no_time), (-32014, "sandbox"));
    assert_eq!(no_time.data["limit"], "timeout_ms");
}

#[tokio::test]
async fn arguments_that_do_not_match_the_schema_are_refused_with_the_place() {
    let host = TestHost::builder().build().await;
    for arguments in [
        json!({}),
        json!({"path": null}),
        json!({"path": "a", "extra": 1}),
        json!([]),
        json!("a"),
        json!(null),
        json!({"PATH": "a"}),
    ] {
        let error = host.call("read_file", arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArguments, "{arguments}");
        assert_eq!(stage(&error), (-32602, "schema"), "{arguments}");
    }
}

/// A host with the tool `answer`, and this document beside it.
async fn answering(sidecar: &str) -> TestHost {
    let host = TestHost::builder()
        .tool_file("answer.wat", Guest::read("answer").wat().as_bytes())
        .tool_file("answer.yaml", sidecar.as_bytes())
        .build()
        .await;
    assert!(host.refused().is_empty(), "{}", host.refused());
    host
}

#[tokio::test]
async fn the_schema_of_the_document_holds_beside_the_components_own() {
    let sidecar = r#"{claw: "0.3.0", kind: Tool, metadata: {name: answer}, spec: {description: Answers., input_schema: {type: object, required: [please]}}}"#;
    let host = answering(sidecar).await;
    let error = host.call("answer", json!({})).await.unwrap_err();
    assert_eq!(stage(&error), (-32602, "schema"));
    assert_eq!(text(&host.call("answer", json!({"please": true})).await.unwrap()), "answer");
}

#[tokio::test]
async fn an_address_finds_a_tool_in_the_version_of_its_document() {
    let sidecar = r#"{claw: "0.3.0", kind: Tool, metadata: {name: answer, version: 1.2.0}, spec: {description: Answers., input_schema: {type: object}}}"#;
    let host = answering(sidecar).await;
    // What is local comes before every registry, as in a manifest.
    for name in ["local/tool/answer", "local/tool/answer@1.2.0", "registry/any/answer@1.2.0"] {
        let reply = host.call(&format!("claw://{name}"), json!({})).await.unwrap();
        assert_eq!(text(&reply), "answer", "{name}");
    }
    for name in [
        "claw://local/tool/answer@9.9.9",
        "claw://local/skill/answer@1.2.0",
        "claw://registry/any/answer@9.9.9",
        "claw://registry/any/answer",
    ] {
        let error = host.call(name, json!({})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownTool, "{name}");
    }
}

#[tokio::test]
async fn an_alias_is_answered_with_the_address_that_may_travel() {
    let host = TestHost::builder().build().await;
    let error = host.call("claw://tool/read-file", json!({"path": "a"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownTool);
    assert_eq!(error.data["tool"], "claw://local/tool/read-file");
    assert!(!error.message.contains("claw://tool/"), "{error}");
}

#[tokio::test]
async fn an_unknown_tool_is_unknown_under_every_name() {
    let host = TestHost::builder().build().await;
    for name in [
        "",
        "nope",
        "read_file ",
        "Read_File",
        "read_file\0",
        "claw://local/tool/nope",
        "claw://local/sandbox/read-file",
        "claw://registry/x/read-file@1.0.0",
        "../read_file",
        "exec_shell",
    ] {
        let error = host.call(name, json!({"path": "a"})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownTool, "{name:?}");
        assert_eq!(error.kind.code(), -32602);
    }
}

#[tokio::test]
async fn one_tool_answers_to_each_of_its_names() {
    let host = TestHost::builder().file("a.txt", "a").build().await;
    for name in ["read_file", "read-file", "claw://local/tool/read-file"] {
        assert_eq!(host.ask(name, json!({"path": "a.txt"})).await["content"], "a", "{name}");
    }
}

#[tokio::test]
async fn listing_and_calling_decide_alike() {
    let rules = "\
- {id: reads, action: allow, scope: tool, match: {name: read-file}}
- {id: asks, action: require-approval, scope: tool, match: {name: edit-file}}
- {id: memory, action: allow, scope: tool, match: {name: \"memory-*\"}}
- {id: late, action: require-approval, scope: tool, match: {name: write-file}, conditions: {path_within: /},
   approval: {timeout_seconds: 1, default_if_timeout: allow}}
- {id: audit, action: audit-only, scope: tool, match: {name: list-directory}}";
    for autonomy in ["autonomous", "supervised", "observer"] {
        let host =
            TestHost::builder().file("a.txt", "a").rules(rules).autonomy(autonomy).build().await;
        let listed = host.host().list(&clawhost::host::Principal("test".to_owned()));
        let listed: Vec<&str> = listed.iter().map(|tool| tool.definition.name.as_str()).collect();
        for tool in host.host().catalog().tools() {
            let name = tool.definition.name.as_str();
            let arguments = match name {
                "write_file" => json!({"path": "w.txt", "content": "w"}),
                "edit_file" => json!({"path": "a.txt", "old_text": "a", "new_text": "a"}),
                "memory_read" => json!({}),
                "memory_write" => json!({"content": "m"}),
                _ => json!({"path": "a.txt"}),
            };
            let refused = match host.call(name, arguments).await {
                Err(error) => [ErrorKind::Policy, ErrorKind::Sandbox].contains(&error.kind),
                Ok(_) => false,
            };
            assert_eq!(!refused, listed.contains(&name), "{name} under {autonomy}: {listed:?}");
        }
        assert_eq!(listed.is_empty(), autonomy == "observer", "{autonomy}: {listed:?}");
    }
}

/// Both tools describe themselves as read-only, and the operator has declared nothing.
#[tokio::test]
async fn what_a_component_says_about_itself_relaxes_nothing() {
    let reads =
        "- {id: safe, action: allow, scope: all, match: {annotations: {readOnlyHint: true}}}";
    let all = "- {id: all, action: allow, scope: all}";
    for (autonomy, rules, ends_at) in
        [("supervised", all, "approval"), ("autonomous", reads, "policy")]
    {
        let dropped_in = source_root().join("host/examples/tools/word-count.wat");
        let host = TestHost::builder()
            .file("a.txt", "a")
            .tool_file("word-count.wat", &std::fs::read(dropped_in).unwrap())
            .autonomy(autonomy)
            .rules(rules)
            .build()
            .await;
        let error = host.call("word_count", json!({"text": "a b"})).await.unwrap_err();
        assert_eq!(stage(&error), (-32011, ends_at), "{autonomy}");
        // What the host brings along, it answers for.
        let read = host.call("read_file", json!({"path": "a.txt"})).await;
        assert!(read.is_ok(), "{autonomy}: {read:?}");
        let write = json!({"path": "b.txt", "content": "b"});
        let error = host.call("write_file", write).await.unwrap_err();
        assert_eq!(stage(&error), (-32011, ends_at), "{autonomy}");
    }
}

#[tokio::test]
async fn a_read_only_profile_lets_nothing_be_written() {
    let host = TestHost::builder().file("a.txt", "a").read_only().build().await;
    assert_eq!(host.ask("read_file", json!({"path": "a.txt"})).await["content"], "a");
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "changed"})),
        ("write_file", json!({"path": "new.txt", "content": "new"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "a", "new_text": "b"})),
        ("memory_write", json!({"content": "new"})),
    ] {
        match host.call(tool, arguments.clone()).await {
            Err(error) => assert_eq!(error.kind, ErrorKind::Sandbox, "{tool} {arguments}"),
            Ok(reply) => assert!(reply.is_error, "{tool} {arguments}"),
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(host.workspace()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["a.txt"]);
    assert_eq!(std::fs::read_to_string(host.workspace().join("a.txt")).unwrap(), "a");
}

#[tokio::test]
async fn a_tool_that_was_refused_when_it_was_loaded_is_known_and_its_caller_learns_no_more() {
    let guest = Guest::read("asks-for-the-network");
    let host = TestHost::builder().guest(&guest).build().await;
    for name in [guest.tool().to_owned(), guest.tool().replace('_', "-")] {
        let error = host.call(&name, json!({})).await.unwrap_err();
        assert_eq!(stage(&error), (-32010, "load"), "{error}");
        let why = host.refused();
        assert!(why.contains("claw:host/process"), "{why}");
        assert!(!error.message.contains("claw:host"), "{error}");
    }
    let error = host.call("no-such-tool", json!({})).await.unwrap_err();
    assert_eq!(error.kind.code(), -32602);
}
