//! The operator's switches, and another manifest for a host that runs.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use clawhost::HostBuilder;
use clawhost::approvals::{Answer, Lease, Until};
use clawhost::host::{Principal, Turn};
use clawhost::quarantine::Failure;
use clawhost_core::error::ErrorKind;
use clawhost_core::lease::Covers;
use clawhost_core::quarantine::{Anomaly, ImmuneSettings};
use clawhost_tests::host::{Begun, TestHostBuilder, call_within};
use clawhost_tests::wait::within;
use clawhost_tests::{Cli, TestHost, native};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};

use crate::approvals::{pending, start};
use crate::cli::PROGRAM;
use crate::embedding::Odd;

fn listed(host: &TestHost) -> Vec<String> {
    let tools = host.host().list(&Principal("test".to_owned()));
    tools.iter().map(|tool| tool.definition.name.clone()).collect()
}

#[tokio::test]
async fn a_disabled_tool_is_neither_listed_nor_called_until_it_is_enabled() {
    let host = TestHost::builder().file("a.txt", "a").build().await;
    let mut changes = host.host().catalog_version();
    changes.mark_unchanged();
    let off = Turn::Off { now: false };
    let switched = host.host().switch("read_file", off, "operator", Some("leaks")).await.unwrap();
    assert_eq!((&*switched.tool, switched.is_known, switched.changed), ("read-file", true, true));
    within("clients are told", changes.changed()).await.unwrap();
    assert!(!listed(&host).contains(&"read_file".to_owned()));
    for name in ["read_file", "read-file", "claw://local/tool/read-file"] {
        let error = host.call(name, json!({"path": "a.txt"})).await.unwrap_err();
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Disabled, -32011));
        assert_eq!(error.data["stage"], "disabled");
        assert!(error.message.ends_with("`read-file`: leaks"), "{error}");
    }
    host.ask("list_directory", json!({"path": "."})).await;
    host.host().switch("read-file", Turn::On, "operator", None).await.unwrap();
    assert!(listed(&host).contains(&"read_file".to_owned()));
    host.ask("read_file", json!({"path": "a.txt"})).await;
    host.check_audit();
    let records = host.records();
    let told: Vec<_> = records.iter().filter(|record| record["tool"] == "read-file").collect();
    assert!(told.iter().any(|it| it["event"] == "tool.disabled" && it["reason"] == "leaks"));
    assert!(told.iter().any(|it| it["event"] == "tool.enabled" && it["by"] == "operator"));
}

#[tokio::test]
async fn running_calls_end_as_they_will_unless_they_are_to_end_now() {
    let host = TestHost::builder().limits("timeout_ms: 60000");
    let host = host.extend(|host| host.tool(Odd)).build().await;
    let running = host.begin("odd", json!({"do": "wait"}));
    let off = |now| Turn::Off { now };
    host.host().switch("odd", off(false), "operator", None).await.unwrap();
    assert!(host.call("odd", json!({"do": "this"})).await.is_err());
    host.host().switch("odd", off(true), "operator", Some("now")).await.unwrap();
    let ended = within("it ends", running).await.unwrap().unwrap_err();
    assert_eq!(ended.kind, ErrorKind::Disabled);
    host.check_audit();
}

const MANIFEST: &str = clawhost_tests::claw!(
    "switched",
    "autonomous",
    r#"  tools:
    - {name: read-file}
    - {name: write-file}
  policies:
    - inline: {name: rules, rules: [{id: all, action: allow, scope: all}]}
"#
);

fn prepared() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("workspace/hello.txt", "hello\n");
    cli
}

#[test]
fn the_command_line_turns_a_switch_of_a_running_host_and_of_the_next_one() {
    let cli = prepared();
    let mut client = start(&cli);
    let dry = cli.run(&["disable", "write_file", "--dry-run"]);
    assert_eq!(dry.stdout, "`write-file` would be disabled\n", "{}", dry.stderr);
    assert_eq!(client.names(), ["read_file", "write_file"]);

    let done = cli.run(&["disable", "write_file", "--reason", "not now"]);
    assert_eq!(done.stdout, "`write-file` is disabled\n", "{}", done.stderr);
    client.hear_of("notifications/tools/list_changed");
    assert_eq!(client.names(), ["read_file"]);
    let refused = client.call("write_file", &json!({"path": "a", "content": "b"}));
    assert_eq!(refused["result"]["_meta"]["clawhost/kind"], "disabled", "{refused}");
    let again = cli.run(&["disable", "write_file"]);
    assert_eq!(again.stdout, "`write-file` is disabled already\n");
    let unknown = cli.run(&["disable", "wirte_file"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stdout);
    assert!(unknown.stderr.contains("did you mean `write-file`?"), "{}", unknown.stderr);
    let nobodys = cli.run(&["disable", "mcp.git.push", "--force", "--json"]);
    let nobodys: Value = serde_json::from_str(&nobodys.stdout).unwrap();
    assert_eq!(nobodys, json!({"tool": "git-push", "known": false, "changed": true, "near": null}));
    for wrong in ["a b", "word__count"] {
        assert_eq!(cli.run(&["disable", wrong]).code, Some(2), "{wrong}");
    }
    drop(client);
    // Without a host nobody knows whether that is a server's.
    assert_eq!(cli.run(&["disable", "word__count"]).code, Some(2));

    let words = ["call", "claw.yaml", "write_file", "path=a", "content=b"];
    let refused = cli.run(&words);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("`write-file`: not now"), "{}", refused.stderr);
    let list = cli.run(&["disable", "--list"]).stdout;
    assert!(list.contains("git-push") && list.contains("not now"), "{list}");
    let again = cli.run(&["disable", "write_file", "--dry-run"]).stdout;
    assert!(again.starts_with("`write-file` is disabled already"), "{again}");
    let tools = cli.run(&["tools", "claw.yaml", "--json"]);
    assert!(tools.stdout.contains("\"disabled\""), "{}", tools.stdout);
    let done = cli.run(&["enable", "write_file"]);
    assert_eq!(done.stdout, "`write-file` is enabled; no host runs on this state folder\n");
    assert_eq!(cli.run(&words).code, Some(0));
    assert!(cli.log().contains("\"event\":\"tool.enabled\""));
}

#[test]
fn another_manifest_is_taken_whole_or_not_at_all() {
    let cli = prepared();
    let mut client = start(&cli);
    let mut errors = BufReader::new(client.child.stderr.take().unwrap());
    let mut said = |what: &str| {
        let mut all = String::new();
        while !all.contains(what) {
            assert!(errors.read_line(&mut all).unwrap() > 0, "{all}");
        }
        all
    };
    cli.write("claw.yaml", MANIFEST.replace("name: write-file", "name: list-directory"));
    client.child.signal("HUP");
    said("reloaded");
    client.hear_of("notifications/tools/list_changed");
    assert_eq!(client.names(), ["list_directory", "read_file"]);

    cli.write("claw.yaml", MANIFEST.replace("policies:", "polices:"));
    client.child.signal("HUP");
    let wrong = said("not reloaded, all goes on as it was: ");
    assert!(wrong.contains("polices"), "{wrong}");
    cli.write("claw.yaml", MANIFEST.replace("model: none", "model: other"));
    client.child.signal("HUP");
    said("start the host anew for a change of `providers`");
    assert_eq!(client.names(), ["list_directory", "read_file"]);

    cli.write("claw.yaml", MANIFEST.replace("action: allow", "action: deny"));
    client.child.signal("HUP");
    said("reloaded");
    assert_eq!(client.names(), Vec::<String>::new());
    let refused = client.call("read_file", &json!({"path": "hello.txt"}));
    assert_eq!(refused["result"]["_meta"]["clawhost/kind"], "policy", "{refused}");

    // A token that is no longer there opens this host until it starts anew, and that is said.
    std::fs::remove_file(cli.state().join("credentials.json")).unwrap();
    client.child.signal("HUP");
    said("start the host anew for a change of `credentials.json`");
}

#[test]
fn what_a_person_allows_after_a_reload_has_to_pass_the_new_documents() {
    let cli = prepared();
    cli.write("claw.yaml", MANIFEST.replace("action: allow", "action: require-approval"));
    let mut client = start(&cli);
    client.begin("write_file", &json!({"path": "a.txt", "content": "b"}));
    let waits = pending(&cli, 1);
    cli.write("claw.yaml", MANIFEST.replace("action: allow", "action: deny"));
    client.child.signal("HUP");
    client.hear_of("notifications/tools/list_changed");
    let done = cli.run(&["approvals", "approve", waits[0]["id"].as_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let ended = client.answer();
    assert_eq!(ended["result"]["_meta"]["clawhost/kind"], "policy", "{ended}");
    assert!(!cli.here().join("workspace/a.txt").exists());
}

#[tokio::test]
async fn a_tool_that_is_disabled_while_its_call_waits_for_a_place_does_not_run() {
    let host = TestHost::builder().calls_running(1).extend(|host| host.tool(Odd)).build().await;
    let waits = || call_within("odd", json!({"do": "wait"}), Duration::from_secs(3));
    let both = [host.begin_call(waits()), host.begin_call(waits())];
    host.arrived(2).await;
    host.host().switch("odd", Turn::Off { now: false }, "operator", None).await.unwrap();
    let mut kinds = Vec::new();
    for call in both {
        kinds.push(within("it ends", call).await.unwrap().unwrap_err().kind.name());
    }
    kinds.sort_unstable();
    assert_eq!(kinds, ["disabled", "timeout"]);
}

/// Three calls a minute: no test here makes more, however often one is admitted anew.
const RATES: &str = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: rates}\nspec:\n  rules: [{id: none, action: deny, scope: tool, match: {name: nothing}}]\n  rate_limits: {tool_calls_per_minute: 3}\n";

fn under(rules: &str) -> TestHostBuilder {
    TestHost::builder().rules(rules).document("rates.yaml", RATES)
}

/// Returns a host with one place under these rules.
async fn narrow(rules: &str) -> TestHost {
    narrowed(rules).build().await
}

fn narrowed(rules: &str) -> TestHostBuilder {
    let hold = |host: HostBuilder| {
        host.tool(native("hold", || async {
            HOLD.notified().await;
            json!({})
        }))
    };
    let host = under(rules).runtime_file("version: 1").calls_running(1);
    host.limits("timeout_ms: 60000").extend(hold)
}

/// What takes the place waits for it. A permit that one test leaves would be taken by another.
static HOLD: Notify = Notify::const_new();
static ALONE: Mutex<()> = Mutex::const_new(());

fn writes(host: &TestHost) -> Begun {
    host.begin("write_file", json!({"path": "a.txt", "content": "b"}))
}

/// Puts these rules in the place of the host's.
async fn reload(host: &TestHost, rules: &str) {
    let other = under(rules).build().await;
    let mut manifest = (*host.host().manifest()).clone();
    manifest.policies = other.host().manifest().policies.clone();
    host.host().reload(manifest).await.unwrap();
}

fn writing(action: &str) -> String {
    let rule = format!("action: {action}, scope: tool, match: {{name: write-file}}");
    format!("- {{id: new, {rule}}}\n{ALL}")
}

const ALL: &str = "- {id: all, action: allow, scope: all}";

#[tokio::test]
async fn a_call_that_waits_for_a_place_meanwhile_has_to_pass_the_new_documents() {
    let _alone = ALONE.lock().await;
    for (action, runs) in [("deny", false), ("require-approval", true)] {
        let host = narrow(ALL).await;
        let holds = host.begin("hold", json!({}));
        host.arrived(1).await;
        let waits = writes(&host);
        host.arrived(2).await;
        let _reachable = host.host().approvals().reach().open();
        reload(&host, &writing(action)).await;
        HOLD.notify_one();
        within("the place is free", holds).await.unwrap().unwrap();
        if runs {
            host.asked(1).await;
            // Whoever waits for a person keeps no place.
            host.ask("list_directory", json!({"path": "."})).await;
            host.answer(Answer::Approve { lease: None }).await;
        }
        let ended = within("it ends", waits).await.unwrap();
        let kind = ended.as_ref().err().map(|error| error.kind);
        assert_eq!(kind, (!runs).then_some(ErrorKind::Policy), "{ended:?}");
        assert_eq!(host.workspace().join("a.txt").exists(), runs);
        host.check_audit();
    }
}

#[tokio::test]
async fn a_call_that_is_turned_away_before_it_runs_is_none_of_its_minute() {
    let _alone = ALONE.lock().await;
    let host = narrowed(ALL).calls_waiting(0).build().await;
    let holds = host.begin("hold", json!({}));
    host.arrived(1).await;
    for _ in 0..3 {
        let turned_away = within("it ends", writes(&host)).await.unwrap().unwrap_err();
        assert_eq!(turned_away.data["stage"], "queue", "{turned_away:?}");
    }
    HOLD.notify_one();
    within("the place is free", holds).await.unwrap().unwrap();
    within("it ends", writes(&host)).await.unwrap().unwrap();
    assert!(host.workspace().join("a.txt").exists());
    host.check_audit();
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_for_a_place_is_none_of_its_minute() {
    let _alone = ALONE.lock().await;
    let host = narrow(ALL).await;
    let holds = host.begin("hold", json!({}));
    host.arrived(1).await;
    for arrived in 2..5 {
        let waits = writes(&host);
        host.arrived(arrived).await;
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
    }
    HOLD.notify_one();
    within("the place is free", holds).await.unwrap().unwrap();
    within("it ends", writes(&host)).await.unwrap().unwrap();
    assert!(host.workspace().join("a.txt").exists());
    host.check_audit();
}

#[tokio::test]
async fn a_tool_that_begins_to_rest_while_its_call_waits_for_a_place_does_not_run() {
    let _alone = ALONE.lock().await;
    let host = narrow(ALL).await;
    let holds = host.begin("hold", json!({}));
    host.arrived(1).await;
    let waits = writes(&host);
    host.arrived(2).await;
    let (anomaly, given) = (Anomaly { code: "trap", message: "it fell".to_owned() }, json!({}));
    let failure = Failure {
        tool: "write-file",
        principal: "test",
        threshold: Some(1),
        anomaly: &anomaly,
        arguments: &given,
        is_trial: false,
    };
    host.host().quarantine().learn(failure, &ImmuneSettings::default()).await.unwrap();
    HOLD.notify_one();
    within("the place is free", holds).await.unwrap().unwrap();
    let ended = within("it ends", waits).await.unwrap().unwrap_err();
    assert_eq!(ended.kind, ErrorKind::Quarantined);
    assert!(!host.workspace().join("a.txt").exists());
    host.check_audit();
}

/// Makes a call that is approved along with all later ones.
async fn lease_writes(host: &TestHost) {
    let first = writes(host);
    let lease = Lease { until: Until::Session, arguments: Covers::Any };
    host.answer(Answer::Approve { lease: Some(lease) }).await;
    first.await.unwrap().unwrap();
    std::fs::remove_file(host.workspace().join("a.txt")).unwrap();
}

#[tokio::test]
async fn a_lease_that_is_revoked_while_its_call_waits_for_a_place_allows_it_no_longer() {
    let _alone = ALONE.lock().await;
    for is_revoked in [false, true] {
        let host = narrow(&writing("require-approval")).await;
        let _reachable = host.host().approvals().reach().open();
        lease_writes(&host).await;
        let holds = host.begin("hold", json!({}));
        host.arrived(2).await;
        let waits = writes(&host);
        host.arrived(3).await;
        if is_revoked {
            let leases = host.host().approvals().leases().await.unwrap();
            assert!(host.host().approvals().revoke(&leases[0].id).await.unwrap());
        }
        HOLD.notify_one();
        within("the place is free", holds).await.unwrap().unwrap();
        if is_revoked {
            host.answer(Answer::Deny { reason: None }).await;
        }
        let ended = within("it ends", waits).await.unwrap();
        let kind = ended.as_ref().err().map(|error| error.kind);
        assert_eq!(kind, is_revoked.then_some(ErrorKind::ApprovalDenied), "{ended:?}");
        assert_eq!(host.workspace().join("a.txt").exists(), !is_revoked);
        host.check_audit();
    }
}

#[tokio::test]
async fn what_silence_or_a_lease_allowed_is_asked_about_where_they_allow_it_no_longer() {
    let _alone = ALONE.lock().await;
    let silent = "require-approval, approval: {timeout_seconds: 1, default_if_timeout: allow}";
    for (action, leased) in [(silent, false), ("require-approval", true)] {
        let host = narrow(&writing(action)).await;
        let _reachable = host.host().approvals().reach().open();
        if leased {
            lease_writes(&host).await;
        }
        let calls = host.finished().len();
        let mut questions = host.host().approvals().changes();
        let holds = host.begin("hold", json!({}));
        host.arrived(calls + 1).await;
        let waits = writes(&host);
        host.arrived(calls + 2).await;
        if leased {
            let leases = host.host().approvals().leases().await.unwrap();
            assert!(host.host().approvals().revoke(&leases[0].id).await.unwrap());
        } else {
            // A question came and went: silence has allowed the call, and it waits for its place.
            within("silence", questions.wait_for(|changes| *changes == 2)).await.unwrap();
        }
        reload(&host, &writing("require-approval")).await;
        HOLD.notify_one();
        within("the place is free", holds).await.unwrap().unwrap();
        host.answer(Answer::Deny { reason: None }).await;
        let ended = within("it ends", waits).await.unwrap().unwrap_err();
        assert_eq!(ended.kind, ErrorKind::ApprovalDenied);
        assert!(!host.workspace().join("a.txt").exists());
        host.check_audit();
    }
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let cli = prepared();
    let said = |words: &[&str]| {
        let run = cli.run(words);
        assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
        run.stdout
    };
    assert_eq!(said(&["secrets", "set", "TOKEN", "--dry-run"]), "TOKEN would be new\n");
    assert_eq!(said(&["secrets", "list"]), "");
    assert_eq!(cli.run_with(&["secrets", "set", "TOKEN"], "value-of-the-test").code, Some(0));
    assert_eq!(said(&["secrets", "set", "TOKEN", "--dry-run"]), "TOKEN would be replaced\n");
    assert_eq!(said(&["secrets", "remove", "TOKEN", "--dry-run"]), "TOKEN would be removed\n");
    assert_eq!(said(&["secrets", "list"]), "TOKEN\n");
    let files = said(&["new", "a-tool", "--lang", "c", "--dry-run"]);
    assert!(files.contains("a-tool/claw.yaml\n"), "{files}");
    assert!(!cli.here().join("a-tool").exists());
    let alone = said(&["disable", "write_file", "--dry-run"]);
    assert_eq!(alone, "`write-file` would be disabled; no host runs on this state folder\n");
    assert!(!said(&["call", "claw.yaml", "write_file", "path=a", "content=b"]).is_empty());
}
