//! What a caller says beside a call narrows it and never widens it; and what is looked at again
//! after a person has thought about it.

use std::sync::Arc;

use clawhost::approvals::Answer;
use clawhost::gate::{CallContext, SessionTerms};
use clawhost::host::ToolCall;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::SessionManifest;
use clawhost_core::reply::ToolReply;
use clawhost_tests::host::{Begun, call};
use clawhost_tests::{Guest, TestHost, guest, wait};
use serde_json::{Value, json};

const READER: &str = r#"claw: "0.3.0"
kind: Sandbox
metadata: {name: reader}
spec:
  level: wasm
  capabilities:
    filesystem: {mode: scoped, mount_paths: [{path: ./workspace, permissions: ro}]}
"#;

const READING: &str = r#"claw: "0.3.0"
kind: Policy
metadata: {name: reading}
spec:
  rules:
    - {id: read, action: allow, scope: tool, match: {name: read-file}}
"#;

const ASK: &str = "- {id: ask, action: require-approval, scope: all}";
async fn host() -> TestHost {
    let builder = TestHost::builder().file("a.txt", "a");
    builder.document("reader.yaml", READER).document("reading.yaml", READING).build().await
}

async fn within(
    host: &TestHost,
    tool: &str,
    arguments: Value,
    context: CallContext,
) -> Result<ToolReply, CallError> {
    host.host().call(ToolCall { context, ..call(tool, arguments) }).await
}

fn sandbox(name: &str) -> CallContext {
    CallContext { sandbox: Some(name.to_owned()), ..CallContext::default() }
}

fn policy(name: &str) -> CallContext {
    CallContext { policy: Some(name.to_owned()), ..CallContext::default() }
}

fn new_file() -> Value {
    json!({"path": "new.txt", "content": "new"})
}

#[tokio::test]
async fn a_call_under_a_second_profile_gets_what_both_grant() {
    let host = host().await;
    let path = json!({"path": "a.txt"});
    let read = within(&host, "read_file", path.clone(), sandbox("reader")).await.unwrap();
    assert_eq!(read.structured.unwrap()["content"], "a");
    let written = within(&host, "write_file", new_file(), sandbox("reader")).await;
    assert_eq!(written.unwrap_err().kind, ErrorKind::Sandbox);
    assert!(!host.workspace().join("new.txt").exists());
    // A profile with more than the tool's own gives nothing more, one with nothing leaves nothing.
    for (name, kind) in [("none", ErrorKind::Sandbox), ("no-such-one", ErrorKind::Sandbox)] {
        let refused = within(&host, "read_file", path.clone(), sandbox(name)).await;
        assert_eq!(refused.unwrap_err().kind, kind, "{name}");
    }
    host.check_audit();
}

#[tokio::test]
async fn a_tool_that_looks_for_no_folder_fails_by_itself_though_narrowing_took_them() {
    let host = TestHost::builder().guest(&Guest::read("trap")).build().await;
    let reply = within(&host, "trap", json!({}), sandbox("none")).await.unwrap();
    assert!(reply.is_error, "{reply:?}");
}

#[tokio::test]
async fn a_policy_the_caller_names_has_to_allow_too() {
    let host = host().await;
    assert!(within(&host, "write_file", new_file(), CallContext::default()).await.is_ok());
    let refused = within(&host, "write_file", new_file(), policy("reading")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Policy);
    let path = json!({"path": "a.txt"});
    assert!(within(&host, "read_file", path.clone(), policy("reading")).await.is_ok());
    let unknown = within(&host, "read_file", path, policy("nobody")).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::Policy);
}

/// The context of a call in a session whose manifest states this beside what every one has.
fn session(host: &TestHost, spec: &Value) -> CallContext {
    let mut manifest = json!({"kind": "Claw", "metadata": {"name": "session"}, "spec": {
        "identity": {"inline": {"personality": "Visits."}},
        "providers": [{"inline": {"protocol": "custom", "endpoint": "http://localhost:1",
            "model": "m", "auth": {"type": "none"}}}]}});
    for (key, value) in spec.as_object().unwrap() {
        manifest["spec"][key] = value.clone();
    }
    let manifest = SessionManifest::read(&manifest, "0.3.0", &host.host().manifest()).unwrap();
    let session = Some(Arc::new(SessionTerms::new(manifest)));
    CallContext { session, ..CallContext::default() }
}

/// A session that lists one tool and says this of it.
fn tool(name: &str, says: &[(&str, Value)]) -> Value {
    let mut spec = json!({"name": name, "description": "d", "input_schema": {}});
    for (key, value) in says {
        spec[key] = value.clone();
    }
    json!({"tools": [{"inline": spec}]})
}

/// A session with one policy of these rules.
fn policies(rules: &Value) -> Value {
    json!({"policies": [{"inline": {"name": "own", "rules": rules}}]})
}

fn both(mut one: Value, other: &Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}

/// Calls `tool` in a session that states `spec`; returns why it was refused, if it was. What a
/// rehearsal says is held against it.
async fn refused(host: &TestHost, tool: &str, arguments: Value, spec: &Value) -> Option<ErrorKind> {
    let context = session(host, spec);
    let rehearsal = host.host().rehearse(tool, Some(&arguments), None, &context).unwrap();
    let outcome = within(host, tool, arguments, context).await;
    let admitted = matches!(&rehearsal.ask, Ok(None));
    let stage = outcome.as_ref().err().and_then(|error| error.data.get("stage"));
    let ran = stage.is_none_or(|stage| stage == "run");
    assert_eq!(admitted, ran, "{tool} {spec}: {outcome:?}");
    outcome.err().map(|error| error.kind)
}

fn path() -> Value {
    json!({"path": "a.txt"})
}

fn observer(autonomy: &str) -> Value {
    json!({"identity": {"inline": {"personality": "Watches.", "autonomy": autonomy}}})
}

#[tokio::test]
async fn the_autonomy_and_the_list_of_tools_of_a_session_bind() {
    let host = host().await;
    let listed = json!({"tools": [{"name": "read-file"}]});
    for (spec, tool, arguments, kind) in [
        (json!({}), "write_file", new_file(), None),
        (listed.clone(), "read_file", path(), None),
        (listed, "write_file", new_file(), Some(ErrorKind::UnknownTool)),
        (json!({"tools": []}), "read_file", path(), Some(ErrorKind::UnknownTool)),
        (json!({"policies": []}), "read_file", path(), Some(ErrorKind::Policy)),
        (observer("observer"), "read_file", path(), Some(ErrorKind::Policy)),
        // Nobody can be asked here.
        (observer("supervised"), "write_file", new_file(), Some(ErrorKind::Policy)),
    ] {
        let context = session(&host, &spec);
        let outcome = within(&host, tool, arguments, context).await;
        assert_eq!(outcome.err().map(|error| error.kind), kind, "{tool} {spec}");
    }
}

#[tokio::test]
async fn a_tool_that_a_session_leaves_out_is_unknown_whatever_its_arguments_are() {
    let host = host().await;
    let listed = json!({"tools": [{"name": "read-file"}]});
    let unknown = refused(&host, "write_file", json!({"no": "such"}), &listed).await;
    assert_eq!(unknown, Some(ErrorKind::UnknownTool));
}

#[tokio::test]
async fn the_sandbox_of_a_session_binds_every_tool_that_names_none() {
    let host = host().await;
    let mount = |permissions: &str| json!([{"path": host.workspace(), "permissions": permissions}]);
    let sandbox = |files: Value| json!({"sandbox": {"inline": {"level": "wasm", "capabilities": {"filesystem": files}}}});
    let nothing = json!({"sandbox": {"inline": {"level": "wasm"}}});
    let reading = sandbox(json!({"mode": "scoped", "mount_paths": mount("ro")}));
    let without = sandbox(json!({"mode": "scoped", "mount_paths": mount("rw"),
        "denied_paths": [host.workspace().join("a.txt")]}));
    let listed = |entry: Value| json!({"tools": [entry]});
    for (spec, reads, writes) in [
        (json!({}), true, true),
        (nothing.clone(), false, false),
        (reading.clone(), true, false),
        (without, false, true),
        (both(nothing, &listed(json!({"name": "read-file", "sandbox": "reader"}))), true, false),
        (both(reading, &listed(json!({"name": "write-file", "sandbox": "none"}))), false, false),
        (
            listed(json!({"name": "write-file", "sandbox": "claw://local/sandbox/reader"})),
            false,
            false,
        ),
        (tool("write-file", &[("sandbox_ref", json!("reader"))]), false, false),
        (tool("read-file", &[("sandbox_ref", json!("reader"))]), true, false),
        (tool("read-file", &[("sandbox_ref", json!("none"))]), false, false),
    ] {
        let read = refused(&host, "read_file", path(), &spec).await;
        assert_eq!(read.is_none(), reads, "{spec}: {read:?}");
        let written = refused(&host, "write_file", new_file(), &spec).await;
        assert_eq!(written.is_none(), writes, "{spec}: {written:?}");
    }
    host.check_audit();
}

#[tokio::test]
async fn a_folder_of_a_session_is_told_by_where_its_name_leads() {
    let host = host().await;
    let folder = host.workspace();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let alias = folder.with_file_name("alias");
    std::os::unix::fs::symlink(&folder, &alias).unwrap();
    let states = |mounts: Value| {
        json!({"sandbox": {"inline": {"level": "wasm",
            "capabilities": {"filesystem": {"mode": "scoped", "mount_paths": mounts}}}}})
    };
    let write = json!({"path": "sub/new.txt", "content": "new"});
    let mount = |path: &std::path::Path, access: &str| json!({"path": path, "permissions": access});
    for (inner, access, denied) in [
        (folder.join("sub"), "ro", Some(ErrorKind::Sandbox)),
        (alias.join("sub"), "ro", Some(ErrorKind::Sandbox)),
        (alias.join("sub"), "rw", None),
    ] {
        let spec = states(json!([mount(&folder, "rw"), mount(&inner, access)]));
        assert_eq!(refused(&host, "write_file", write.clone(), &spec).await, denied, "{spec}");
    }
    let reading = states(json!([mount(&alias, "ro")]));
    assert_eq!(refused(&host, "read_file", path(), &reading).await, None);
    assert_eq!(refused(&host, "write_file", write, &reading).await, Some(ErrorKind::Sandbox));
}

#[tokio::test]
async fn a_guest_that_relinks_between_calls_does_not_move_what_its_session_closes() {
    let builder = TestHost::builder().guest(&Guest::read("removes-raw"));
    let builder = builder.file("vault/key", "kept").file("other/key", "open").build();
    let host = builder.await;
    let door = host.workspace().join("door");
    std::os::unix::fs::symlink("vault", &door).unwrap();
    let context = session(
        &host,
        &json!({"sandbox": {"inline": {"level": "wasm", "capabilities": {"filesystem": {
            "mode": "scoped", "mount_paths": [{"path": host.workspace(), "permissions": "rw"}],
            "denied_paths": [door.join("key")]}}}}}),
    );
    let read = async |path: &str| {
        let outcome = within(&host, "read_file", json!({"path": path}), context.clone()).await;
        outcome.err().map(|error| error.kind)
    };
    assert_eq!(read("vault/key").await, Some(ErrorKind::Sandbox));
    assert_eq!(read("other/key").await, None);
    let case = guest::Case { row: String::new(), payload: json!("door") };
    let arguments = case.arguments(str::to_owned);
    within(&host, "removes-raw", arguments, context.clone()).await.unwrap();
    assert!(door.is_dir() && !door.is_symlink(), "the guest put a folder in the link's place");
    assert_eq!(read("vault/key").await, Some(ErrorKind::Sandbox));
}

#[tokio::test]
async fn a_call_may_name_the_sandbox_of_its_session() {
    let host = host().await;
    // It has the name of one of the host's, and the tool names another: both of that name bind.
    let spec = json!({"sandbox": {"metadata": {"name": "reader"}, "inline": {"level": "wasm"}},
        "tools": [{"name": "read-file", "sandbox": "workspace"}]});
    let named = CallContext { sandbox: Some("reader".to_owned()), ..session(&host, &spec) };
    let refused = within(&host, "read_file", path(), named).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Sandbox);
}

#[tokio::test]
async fn the_policies_of_a_session_have_to_allow_too() {
    let host = host().await;
    let reading = json!([{"id": "read", "action": "allow", "scope": "tool",
        "match": {"name": "read-file"}}]);
    assert_eq!(refused(&host, "read_file", path(), &policies(&reading)).await, None);
    let written = refused(&host, "write_file", new_file(), &policies(&reading)).await;
    assert_eq!(written, Some(ErrorKind::Policy));
}

#[tokio::test]
async fn the_policy_that_a_session_gives_a_tool_has_to_allow_too() {
    let host = host().await;
    let rule = |action: &str| json!([{"id": "r", "action": action, "scope": "all"}]);
    let lists = json!({"policies": [{"inline": {"name": "open", "rules": rule("allow")}},
        {"inline": {"name": "closed", "rules": rule("deny")}}]});
    for (policy, kind) in [("open", None), ("closed", Some(ErrorKind::Policy))] {
        let inline = both(lists.clone(), &tool("read-file", &[("policy_ref", json!(policy))]));
        assert_eq!(refused(&host, "read_file", path(), &inline).await, kind, "{policy}");
        let short = json!({"tools": [{"name": "read-file", "policy": policy}]});
        let short = both(lists.clone(), &short);
        assert_eq!(refused(&host, "read_file", path(), &short).await, kind, "{policy}");
    }
}

#[tokio::test]
async fn a_policy_that_a_call_names_counts_in_the_host_and_in_the_session() {
    let host = host().await;
    let rule = |action: &str| json!([{"id": "r", "action": action, "scope": "all"}]);
    // The host's `reading` allows it, the session's of the same name does not.
    let lists = json!({"policies": [{"inline": {"name": "open", "rules": rule("allow")}},
        {"inline": {"name": "reading", "rules": rule("deny")}}]});
    let context = CallContext { policy: Some("reading".to_owned()), ..session(&host, &lists) };
    let refused = within(&host, "read_file", path(), context).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Policy);
}

#[tokio::test]
async fn the_time_that_a_session_gives_a_tool_binds() {
    let sleep = Guest::read("sleep");
    let host = TestHost::builder().limits("timeout_ms: 1000").guest(&sleep).build().await;
    let timeout = |ms: u64| tool("sleep", &[("timeout_ms", json!(ms))]);
    let sandbox = json!({"sandbox": {"inline": {"level": "wasm",
        "resource_limits": {"timeout_ms": 40}}}});
    for (spec, time) in [(timeout(50), 50), (timeout(2_000), 1_000), (sandbox, 40)] {
        let error = within(&host, "sleep", json!({}), session(&host, &spec)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{spec}");
        assert!(error.message.contains(&format!("within {time} ms")), "{spec}: {error}");
    }
    assert_eq!(refused(&host, "sleep", json!({}), &timeout(0)).await, Some(ErrorKind::Timeout));
}

#[tokio::test]
async fn the_schemas_of_a_session_hold_beside_the_tool_s_own() {
    let host = host().await;
    let only = |name: &str| {
        let schema = json!({"type": "object", "properties": {"path": {"const": name}}});
        tool("read-file", &[("input_schema", schema)])
    };
    assert_eq!(refused(&host, "read_file", path(), &only("a.txt")).await, None);
    let other = refused(&host, "read_file", path(), &only("b.txt")).await;
    assert_eq!(other, Some(ErrorKind::InvalidArguments));
    // What the session's schema allows and the tool's does not is no way round the tool's.
    let wrong = refused(&host, "read_file", json!({"path": 1}), &only("a.txt")).await;
    assert_eq!(wrong, Some(ErrorKind::InvalidArguments));
    for (content, fails) in [("a", false), ("b", true)] {
        let schema = json!({"type": "object", "properties": {"content": {"const": content}}});
        let context = session(&host, &tool("read-file", &[("output_schema", schema)]));
        let reply = within(&host, "read_file", path(), context).await.unwrap();
        // What a session wants of a result is no promise of the tool, which is not to blame.
        assert_eq!(reply.error_kind, fails.then_some("unwanted-result"), "{reply:?}");
    }
}

#[tokio::test]
async fn what_a_session_says_about_a_tool_counts_for_its_own_rules() {
    let host = host().await;
    let rule = |matches: Value| {
        policies(&json!([{"id": "no", "action": "deny", "scope": "tool", "match": matches},
            {"id": "yes", "action": "allow", "scope": "all"}]))
    };
    let category = json!({"tools": [{"metadata": {"labels": {"category": "risky"}},
        "inline": {"name": "read-file", "description": "d", "input_schema": {}}}]});
    let annotated = tool("read-file", &[("annotations", json!({"risk": "high"}))]);
    for (matches, says) in [
        (json!({"category": "risky"}), category),
        (json!({"annotations": {"risk": "high"}}), annotated),
    ] {
        let listed = json!({"tools": [{"name": "read-file"}]});
        let silent = both(rule(matches.clone()), &listed);
        assert_eq!(refused(&host, "read_file", path(), &silent).await, None, "{matches}");
        let spec = both(rule(matches), &says);
        let kind = refused(&host, "read_file", path(), &spec).await;
        assert_eq!(kind, Some(ErrorKind::Policy), "{spec}");
    }
}

#[tokio::test]
async fn an_argument_that_a_session_calls_a_path_is_one_to_its_own_rules() {
    let host = TestHost::builder().guest(&Guest::read("answer")).build().await;
    let rules = json!([{"id": "no", "action": "deny", "scope": "all",
        "conditions": {"path_within": "/secret"}}, {"id": "yes", "action": "allow", "scope": "all"}]);
    let schema = json!({"type": "object", "properties": {"what": {"format": "file-path"}}});
    let spec = both(policies(&rules), &tool("answer", &[("input_schema", schema)]));
    for (what, kind) in [("secret/a", Some(ErrorKind::Policy)), ("public/a", None)] {
        assert_eq!(refused(&host, "answer", json!({"what": what}), &spec).await, kind, "{what}");
    }
}

#[tokio::test]
async fn a_session_s_hint_asks_for_more_care_and_never_for_less() {
    let declared = "claw: \"0.3.0\"\nkind: Tool\nmetadata: {name: read-file}\nspec:\n  description: Reads.\n  input_schema: {type: object}\n  annotations: {readOnlyHint: true}\n";
    let rules =
        "- {id: safe, action: allow, scope: all, match: {annotations: {readOnlyHint: true}}}";
    for (autonomy, rules) in [
        // A person is asked about what may change something, and nobody can be asked here.
        ("supervised", "- {id: allow, action: allow, scope: all}"),
        ("autonomous", rules),
    ] {
        let builder = TestHost::builder().file("a.txt", "a").autonomy(autonomy).rules(rules);
        let builder =
            builder.only(&[]).guest(&Guest::read("answer")).document("read.yaml", declared);
        let host = builder.build().await;
        let hint =
            |name: &str, hint: bool| tool(name, &[("annotations", json!({"readOnlyHint": hint}))]);
        assert_eq!(refused(&host, "read_file", path(), &hint("read-file", true)).await, None);
        let careful = refused(&host, "read_file", path(), &hint("read-file", false)).await;
        assert_eq!(careful, Some(ErrorKind::Policy), "{autonomy}");
        // The operator has declared nothing about this one.
        let relaxed = refused(&host, "answer", json!({}), &hint("answer", true)).await;
        assert_eq!(relaxed, Some(ErrorKind::Policy), "{autonomy}");
    }
}

#[tokio::test]
async fn what_was_asked_and_answered_is_recorded_where_a_policy_wants_it() {
    let recorded = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: log}\nspec:\n  rules: [{id: x, action: deny, scope: all}]\n  audit: {log_approvals: true}\n";
    let host = TestHost::builder().rules(ASK).document("log.yaml", recorded).build().await;
    let _reachable = host.host().approvals().reach().open();
    for answer in [Answer::Approve { lease: None }, Answer::Deny { reason: Some("no".to_owned()) }]
    {
        let call = host.begin("write_file", new_file());
        host.answer(answer).await;
        let _ = call.await.unwrap();
    }
    let records = host.records();
    let said: Vec<_> = records
        .iter()
        .filter(|record| record["event"].as_str().unwrap().starts_with("approval."))
        .map(|record| (record["event"].as_str().unwrap(), record["approved"].as_bool()))
        .collect();
    let (asked, answered) = ("approval.asked", "approval.answered");
    assert_eq!(
        said,
        [(asked, None), (answered, Some(true)), (asked, None), (answered, Some(false))]
    );
    host.check_audit();
}

#[tokio::test]
async fn a_rule_that_only_audits_has_arguments_and_result_in_the_record_and_screens_come_first() {
    let rules = "- {id: see, action: audit-only, scope: all}";
    let screen = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: screen}\nspec:\n  rules: [{id: x, action: deny, scope: all}]\n  secret_scanning: {enabled: true, scope: both, action: redact}\n";
    let host = TestHost::builder().rules(rules).document("screen.yaml", screen).build().await;
    let key = format!("AKIA{}", "QWERTZUIOPASDFGH");
    let arguments = json!({"path": "a.txt", "content": format!("key {key}")});
    assert!(!host.call("write_file", arguments).await.unwrap().is_error);
    let record = host.finished().remove(0);
    assert_eq!(record["inputs"]["path"], "a.txt");
    assert!(record["outputs"].is_object(), "{record}");
    assert!(!record.to_string().contains(&key), "{record}");
    // What is recorded is masked; what the tool gets is what the caller sent.
    assert!(std::fs::read_to_string(host.workspace().join("a.txt")).unwrap().contains(&key));
}

#[tokio::test]
async fn nobody_can_have_a_supervised_call_asked_about_more_leniently() {
    let lenient = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: lenient}\nspec:\n  rules:\n    - {id: x, action: require-approval, scope: all, reason: harmless, approval: {timeout_seconds: 1, default_if_timeout: allow}}\n";
    let builder = TestHost::builder().autonomy("supervised").document("lenient.yaml", lenient);
    let host = builder.build().await;
    let _reachable = host.host().approvals().reach().open();
    let rules = json!([{"id": "x", "action": "require-approval", "scope": "all", "reason": "harmless",
        "approval": {"timeout_seconds": 1, "default_if_timeout": "allow"}}]);
    for context in [policy("lenient"), session(&host, &policies(&rules))] {
        let context_is_session = context.session.is_some();
        let call = host.begin_call(ToolCall { context, ..call("write_file", new_file()) });
        let pending = host.asked(1).await.remove(0);
        assert!(!pending.asked.terms.allow_on_timeout, "{pending:?}");
        assert!(!context_is_session || !pending.asked.reason.contains("harmless"), "{pending:?}");
        call.abort();
        host.asked(0).await;
    }
    assert!(!host.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn the_rates_of_a_session_bind() {
    let host = host().await;
    let rules = json!([{"id": "all", "action": "allow", "scope": "all"}]);
    let context = session(
        &host,
        &json!({"policies": [{"inline": {"rules": rules,
        "rate_limits": {"tool_calls_per_minute": 1}}}]}),
    );
    let path = path();
    assert!(within(&host, "read_file", path.clone(), context.clone()).await.is_ok());
    let refused = within(&host, "read_file", path, context).await.unwrap_err();
    assert_eq!(refused.data["limit"], "tool_calls_per_minute");
}

/// Begins so many calls, each of which writes a file of its own.
fn write_each(host: &TestHost, count: usize) -> Vec<Begun> {
    let write = |number| json!({"path": format!("{number}.txt"), "content": "x"});
    (0..count).map(|number| host.begin("write_file", write(number))).collect()
}

const SLOW: &str = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: slow}\nspec:\n  rules: [{id: x, action: deny, scope: all}]\n  rate_limits: {tool_calls_per_minute: 1}\n";

#[tokio::test]
async fn a_session_finds_the_tools_that_it_lists() {
    let search = "version: 1\ntools: { catalog: search }";
    let host = TestHost::builder().runtime_file(search).build().await;
    let spec = ["find-tool", "read-file"].map(|name| tool(name, &[])["tools"][0].clone());
    let context = session(&host, &json!({"tools": spec}));
    let found = within(&host, "find_tool", json!({"query": "file"}), context).await.unwrap();
    let found = found.into_value();
    assert_eq!((&found["of"], &found["tools"][0]["name"]), (&json!(1), &json!("read_file")));
}

#[tokio::test]
async fn a_call_holds_its_place_in_the_minute_while_a_person_is_asked() {
    let host = TestHost::builder().rules(ASK).document("slow.yaml", SLOW).build().await;
    let _reachable = host.host().approvals().reach().open();
    for (answer, is_denied) in
        [(Answer::Deny { reason: None }, true), (Answer::Approve { lease: None }, false)]
    {
        let asked = write_each(&host, 1).remove(0);
        host.asked(1).await;
        // Nobody is asked about a call that could not begin.
        let refused = write_each(&host, 1).remove(0).await.unwrap().unwrap_err();
        assert_eq!(refused.data["limit"], "tool_calls_per_minute", "{refused}");
        host.answer(answer).await;
        let ended = asked.await.unwrap();
        let kind = ended.as_ref().err().map(|error| error.kind);
        assert_eq!(kind, is_denied.then_some(ErrorKind::ApprovalDenied), "{ended:?}");
    }
    assert_eq!(std::fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn two_hundred_waiting_calls_are_all_answered_when_the_host_stops() {
    let host = TestHost::builder().rules(ASK).build().await;
    let _reachable = host.host().approvals().reach().open();
    let calls = write_each(&host, 200);
    host.asked(200).await;
    host.host().approvals().close();
    for call in calls {
        let error = wait::within("an answer", call).await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ApprovalDenied);
    }
    assert_eq!(std::fs::read_dir(host.workspace()).unwrap().count(), 0);
    host.check_audit();
}
