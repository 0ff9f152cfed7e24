//! What a caller says beside a call narrows it and never widens it; and what is looked at again
//! after a person has thought about it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clawhost::approvals::{Answer, Approver, Pending};
use clawhost::gate::CallContext;
use clawhost::host::ToolCall;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::{Autonomy, SessionManifest};
use clawhost_core::policy::PolicySet;
use clawhost_core::reply::ToolReply;
use clawhost_tests::host::call;
use clawhost_tests::{Guest, TestHost, wait};
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
const LONGEST: Duration = Duration::from_secs(10);

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

fn plain() -> SessionManifest {
    let (name, identity) = ("session".to_owned(), "session".to_owned());
    SessionManifest { name, identity, autonomy: None, policies: None, tools: None }
}

fn session(manifest: SessionManifest) -> CallContext {
    CallContext { session: Some(Arc::new(manifest)), ..CallContext::default() }
}

#[tokio::test]
async fn the_autonomy_and_the_list_of_tools_of_a_session_bind() {
    let host = host().await;
    let path = json!({"path": "a.txt"});
    let listed = Some(BTreeSet::from(["read-file".to_owned()]));
    for (manifest, tool, arguments, kind) in [
        (plain(), "write_file", new_file(), None),
        (SessionManifest { tools: listed.clone(), ..plain() }, "read_file", path.clone(), None),
        (
            SessionManifest { tools: listed, ..plain() },
            "write_file",
            new_file(),
            Some(ErrorKind::UnknownTool),
        ),
        (
            SessionManifest { autonomy: Some(Autonomy::Observer), ..plain() },
            "read_file",
            path.clone(),
            Some(ErrorKind::Policy),
        ),
        // Nobody can be asked here.
        (
            SessionManifest { autonomy: Some(Autonomy::Supervised), ..plain() },
            "write_file",
            new_file(),
            Some(ErrorKind::Policy),
        ),
    ] {
        let outcome = within(&host, tool, arguments, session(manifest.clone())).await;
        assert_eq!(outcome.err().map(|error| error.kind), kind, "{tool} {manifest:?}");
    }
}

#[tokio::test]
async fn the_policies_of_a_session_have_to_allow_too() {
    let host = host().await;
    let all = host.host().manifest().policies.policies();
    let reading = all.iter().find(|policy| policy.name == "reading").unwrap().clone();
    let context =
        session(SessionManifest { policies: Some(PolicySet::new(vec![reading])), ..plain() });
    let path = json!({"path": "a.txt"});
    assert!(within(&host, "read_file", path, context.clone()).await.is_ok());
    let refused = within(&host, "write_file", new_file(), context).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Policy);
}

#[tokio::test]
async fn what_was_asked_and_answered_is_recorded_where_a_policy_wants_it() {
    let recorded = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: log}\nspec:\n  rules: [{id: x, action: deny, scope: all}]\n  audit: {log_approvals: true}\n";
    let host = TestHost::builder().rules(ASK).document("log.yaml", recorded).build().await;
    let _reachable = host.host().approvals().reach().open();
    for answer in [Answer::Approve { lease: None }, Answer::Deny { reason: Some("no".to_owned()) }]
    {
        let caller = host.host().clone();
        let call = tokio::spawn(async move { caller.call(call("write_file", new_file())).await });
        let pending = waiting(&host, 1).await.remove(0);
        assert!(
            host.host().approvals().answer(&pending.id, None, answer, &Approver::Operator).await
        );
        let _ = call.await.unwrap();
    }
    let records = clawhost::audit::records(&host.audit()).unwrap();
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
    assert!(!std::fs::read_to_string(host.workspace().join("a.txt")).unwrap().contains(&key));
}

#[tokio::test]
async fn nobody_can_have_a_supervised_call_asked_about_more_leniently() {
    let lenient = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: lenient}\nspec:\n  rules:\n    - {id: x, action: require-approval, scope: all, reason: harmless, approval: {timeout_seconds: 1, default_if_timeout: allow}}\n";
    let builder = TestHost::builder().autonomy("supervised").document("lenient.yaml", lenient);
    let host = builder.build().await;
    let _reachable = host.host().approvals().reach().open();
    let all = host.host().manifest().policies.policies();
    let lenient = all.iter().find(|policy| policy.name == "lenient").unwrap().clone();
    let policies = Some(PolicySet::new(vec![lenient]));
    for context in [policy("lenient"), session(SessionManifest { policies, ..plain() })] {
        let context_is_session = context.session.is_some();
        let caller = host.host().clone();
        let call = ToolCall { context, ..call("write_file", new_file()) };
        let call = tokio::spawn(async move { caller.call(call).await });
        let pending = waiting(&host, 1).await.remove(0);
        assert!(!pending.asked.terms.allow_on_timeout, "{pending:?}");
        assert!(!context_is_session || !pending.asked.reason.contains("harmless"), "{pending:?}");
        call.abort();
        waiting(&host, 0).await;
    }
    assert!(!host.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn the_rates_of_a_session_bind() {
    let host = host().await;
    let all = host.host().manifest().policies.policies();
    let mut reading = all.iter().find(|policy| policy.name == "reading").unwrap().clone();
    reading.rates.tool_calls_per_minute = Some(1);
    let policies = Some(PolicySet::new(vec![reading]));
    let context = session(SessionManifest { policies, ..plain() });
    let path = json!({"path": "a.txt"});
    assert!(within(&host, "read_file", path.clone(), context.clone()).await.is_ok());
    let refused = within(&host, "read_file", path, context).await.unwrap_err();
    assert_eq!(refused.data["limit"], "tool_calls_per_minute");
}

async fn waiting(host: &TestHost, count: usize) -> Vec<Pending> {
    let look = || Some(host.host().approvals().pending()).filter(|found| found.len() == count);
    wait::until("the questions", LONGEST, look).await.0
}

#[tokio::test]
async fn what_a_person_allowed_is_held_against_the_limits_of_the_moment() {
    let limited = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: slow}\nspec:\n  rules: [{id: x, action: deny, scope: all}]\n  rate_limits: {tool_calls_per_minute: 1}\n";
    let host = TestHost::builder().rules(ASK).document("slow.yaml", limited).build().await;
    let _reachable = host.host().approvals().reach().open();
    let calls: Vec<_> = (0..2)
        .map(|number| {
            let host = host.host().clone();
            let arguments = json!({"path": format!("{number}.txt"), "content": "x"});
            tokio::spawn(async move { host.call(call("write_file", arguments)).await })
        })
        .collect();
    for pending in waiting(&host, 2).await {
        let yes = Answer::Approve { lease: None };
        assert!(host.host().approvals().answer(&pending.id, None, yes, &Approver::Operator).await);
    }
    let mut refused = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(reply) => assert!(!reply.is_error),
            Err(error) => {
                assert_eq!(error.data["limit"], "tool_calls_per_minute", "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(std::fs::read_dir(host.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn two_hundred_waiting_calls_are_all_answered_when_the_host_stops() {
    let host = TestHost::builder().rules(ASK).build().await;
    let _reachable = host.host().approvals().reach().open();
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let host = host.host().clone();
            let arguments = json!({"path": format!("{number}.txt"), "content": "x"});
            tokio::spawn(async move { host.call(call("write_file", arguments)).await })
        })
        .collect();
    waiting(&host, 200).await;
    host.host().approvals().close();
    for call in calls {
        let error = wait::within("an answer", LONGEST, call).await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ApprovalDenied);
    }
    assert_eq!(std::fs::read_dir(host.workspace()).unwrap().count(), 0);
    host.check_audit();
}
