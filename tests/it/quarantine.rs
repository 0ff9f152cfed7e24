//! Quarantine: a tool that fails again and again is not run, and comes back.

use std::sync::LazyLock;
use std::time::Duration;

use clawhost::HostBuilder;
use clawhost::approvals::{Answer, Approver};
use clawhost::host::{MIGRATIONS, Principal, ToolCall, Turn};
use clawhost::state::Database;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_tests::host::call_within;
use clawhost_tests::wait::{until, within};
use clawhost_tests::{Cli, Guest, TestHost, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

async fn trapping(runtime_file: &str) -> TestHost {
    TestHost::builder().guest(&Guest::read("trap")).runtime_file(runtime_file).build().await
}

async fn crash(host: &TestHost) -> Result<Option<&'static str>, CallError> {
    host.call("trap", json!({})).await.map(|reply| reply.error_kind)
}

#[tokio::test]
async fn a_tool_that_crashes_three_times_is_refused_before_its_arguments_are_looked_at() {
    let host = trapping("version: 1").await;
    for _ in 0..3 {
        assert_eq!(crash(&host).await.unwrap(), Some("trap"));
    }
    for arguments in [json!({}), json!([])] {
        let error = host.call("trap", arguments).await.unwrap_err();
        assert_eq!((error.kind, error.kind.code()), (ErrorKind::Quarantined, -32011));
        assert_eq!(error.data["stage"], "quarantine");
        assert!(error.data["until"].is_string(), "{error:?}");
    }
    let listed = host.host().list(&Principal("test".to_owned()));
    assert!(listed.iter().any(|tool| tool.definition.name == "trap"), "it comes back by itself");
    host.ask("list_directory", json!({"path": "."})).await;
    let records = host.records();
    let told = records.iter().find(|record| record["event"] == "tool.quarantined").unwrap();
    assert_eq!(told["tool"], "trap");
    assert_eq!(told["signature"], host.finished()[2]["anomaly"]);
    host.check_audit();
}

#[tokio::test]
async fn who_looks_for_tools_finds_none_that_rests_for_them() {
    let runtime = "version: 1\ntools: { catalog: search }\nimmune: { quarantine_threshold: 1 }";
    let host = trapping(runtime).await;
    let is_found = |answer: Value| answer["tools"].to_string().contains("\"name\":\"trap\"");
    let query = json!({"query": "trap"});
    assert!(is_found(host.ask("find_tool", query.clone()).await));
    let crashed = host.call("call_tool", json!({"name": "trap", "arguments": {}})).await.unwrap();
    assert_eq!(crashed.error_kind, Some("trap"));
    assert!(!is_found(host.ask("find_tool", query).await));
}

#[tokio::test]
async fn a_person_releases_it_and_it_is_counted_anew() {
    let host = trapping("version: 1").await;
    for _ in 0..3 {
        crash(&host).await.unwrap();
    }
    assert!(crash(&host).await.is_err());
    assert!(host.host().quarantine().release("trap", "ada", Some("mended")).await.unwrap());
    for _ in 0..3 {
        assert_eq!(crash(&host).await.unwrap(), Some("trap"));
    }
    assert!(crash(&host).await.is_err());
}

#[tokio::test]
async fn what_callers_do_wrong_and_policy_refuses_never_counts() {
    let rules = "- {id: no, action: deny, scope: tool, match: {name: write-file}}\n- {id: rest, action: allow, scope: all}";
    let immune =
        "version: 1\nimmune: { tool_thresholds: { read_file: 1, write_file: 1, spin: 1 } }";
    let host = TestHost::builder()
        .guest(&Guest::read("spin"))
        .rules(rules)
        .runtime_file(immune)
        .file("a.txt", "a")
        .build()
        .await;
    for path in ["gone.txt", "../a.txt", "/etc/passwd", ""] {
        assert!(host.call("read_file", json!({"path": path})).await.unwrap().is_error, "{path}");
    }
    host.call("read_file", json!({"pfad": 1})).await.unwrap_err();
    host.call("write_file", json!({"path": "a", "content": "a"})).await.unwrap_err();
    let hurried = call_within("spin", json!({}), Duration::from_millis(50));
    assert_eq!(host.host().call(hurried).await.unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(host.host().quarantine().anomalies().await.unwrap(), []);
    host.ask("read_file", json!({"path": "a.txt"})).await;
}

/// A function has its error alone to refuse arguments by.
#[tokio::test]
async fn what_a_function_answers_never_counts() {
    let functions = source_root().join("guest-tools/examples/wat/functions.wat");
    let host = TestHost::builder().tool_file("functions.wat", &std::fs::read(functions).unwrap());
    let host = host.runtime_file("version: 1\nimmune: { quarantine_threshold: 1 }").build().await;
    for _ in 0..2 {
        let odd = host.call("text_half", json!({"of": 3})).await.unwrap();
        assert_eq!(odd.error_kind, Some("function-error"));
    }
    assert_eq!(host.host().quarantine().anomalies().await.unwrap(), []);
}

#[tokio::test]
async fn who_meets_a_known_failure_is_told_what_helps() {
    let host = trapping("version: 1").await;
    crash(&host).await.unwrap();
    let quarantine = host.host().quarantine();
    let seen = quarantine.anomalies().await.unwrap().remove(0);
    assert_eq!((seen.tool.as_str(), seen.code.as_str()), ("trap", "trap"));
    assert!(quarantine.vaccinate(&seen.signature, "Ask for less.", "ada").await.unwrap());
    for _ in 0..5 {
        let reply = host.call("trap", json!({})).await.unwrap();
        assert!(clawhost_tests::host::text(&reply).ends_with("[what helps: Ask for less.]"));
    }
}

#[tokio::test]
async fn it_can_be_switched_off_as_a_whole_and_for_a_tool() {
    for immune in ["enabled: false", "tool_no_auto: [trap]", "quarantine_threshold: 9"] {
        let host = trapping(&format!("version: 1\nimmune: {{ {immune} }}")).await;
        for _ in 0..5 {
            assert_eq!(crash(&host).await.unwrap(), Some("trap"), "{immune}");
        }
    }
}

#[tokio::test]
async fn one_that_begins_while_a_person_thinks_counts() {
    let asks = "- {id: asks, action: require-approval, scope: all}";
    let host = TestHost::builder().guest(&Guest::read("trap")).rules(asks);
    let host = host.runtime_file("version: 1").build().await;
    let approvals = host.host().approvals();
    let _reachable = approvals.reach().open();
    let calls: Vec<_> = (0..4).map(|_| host.begin("trap", json!({}))).collect();
    for answered in 0..4 {
        let question = host.asked(4 - answered).await.remove(0);
        let approved = Answer::Approve { lease: None };
        assert!(approvals.answer(&question.id, None, approved, &Approver::Operator).await);
        until("the call to end", || (host.finished().len() > answered).then_some(())).await;
    }
    let mut refused = Vec::new();
    for call in calls {
        refused.extend(call.await.unwrap().err().map(|error| error.kind));
    }
    assert_eq!(refused, [ErrorKind::Quarantined]);
}

#[tokio::test]
async fn many_failures_at_once_put_it_to_rest_once() {
    let host = trapping("version: 1").await;
    let calls: Vec<_> = (0..20).map(|_| host.begin("trap", json!({}))).collect();
    let mut ran = 0;
    for call in calls {
        ran += usize::from(call.await.unwrap().is_ok());
    }
    assert!(ran >= 3, "{ran}");
    let holds = host.host().quarantine().holds().await.unwrap();
    assert_eq!((holds.len(), holds[0].ttl_ms), (1, 3_600_000));
    let records = host.records();
    let told = records.iter().filter(|record| record["event"] == "tool.quarantined").count();
    assert_eq!(told, 1);
}

/// Each call is a host of its own, on one state folder.
#[test]
fn what_one_host_counts_the_next_one_knows_and_the_operator_releases() {
    let cli = Cli::new(PROGRAM);
    let claw = clawhost_tests::claw!(
        "test",
        "autonomous",
        "  tools: [{name: trap}]\n  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]\n"
    );
    cli.write("claw.yaml", claw);
    cli.write("clawhost.yaml", "version: 1\ntools: {directory: ./tools}\n");
    cli.write("tools/trap.wat", Guest::read("trap").wat());
    std::fs::create_dir_all(cli.here().join("workspace")).unwrap();
    let call = || cli.run(&["call", "claw.yaml", "trap"]);
    for _ in 0..3 {
        assert_eq!(call().code, Some(5));
    }
    let refused = call();
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("in quarantine"), "{}", refused.stderr);
    let holds: Value =
        serde_json::from_str(&cli.run(&["quarantine", "list", "--json"]).stdout).unwrap();
    assert_eq!(holds[0]["tool"], "trap");
    assert!(cli.run(&["quarantine", "list"]).stdout.contains("trap"));
    for looks in [&["tools", "claw.yaml"][..], &["explain", "claw.yaml", "trap"]] {
        let told = cli.run(looks).stdout;
        assert!(told.contains("rests until") && told.contains("for `cli`"), "{told}");
    }
    let dry = ["quarantine", "release", "trap", "--reason", "x", "--dry-run"];
    assert_eq!(cli.run(&dry).stdout, "would be released: trap\n");
    let dry = cli.run(&[&dry[..], &["--json"]].concat()).stdout;
    assert_eq!(serde_json::from_str::<Value>(&dry).unwrap(), json!({"would be released": "trap"}));

    let release = ["quarantine", "release", "trap", "--reason", "new build", "--by", "ada"];
    assert_eq!(cli.run(&release).code, Some(0));
    assert_eq!(call().code, Some(5));
    assert_eq!(cli.run(&release).code, Some(2), "it is not there any more");
    let log = cli.log();
    assert!(log.contains("\"event\":\"tool.released\"") && log.contains("new build"), "{log}");

    let seen = cli.run(&["quarantine", "anomalies", "--json"]).stdout;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let signature = seen[0]["signature"].as_str().unwrap().get(..12).unwrap().to_owned();
    let procedure = ["quarantine", "vaccinate", &signature, "--procedure", "Ask for less."];
    let done = cli.run(&[&procedure[..], &["--json"]].concat());
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(done["vaccinated"], seen[0]["signature"]);
    let run = call();
    assert!(run.stderr.contains("what helps: Ask for less."), "{}{}", run.stdout, run.stderr);
    assert_eq!(
        cli.run(&["quarantine", "vaccinate", "sha256:00", "--procedure", "x"]).code,
        Some(2)
    );
    assert_eq!(cli.run(&["audit", "verify"]).code, Some(0));
}

#[tokio::test]
async fn what_one_caller_crashes_the_others_go_on_calling() {
    let host = trapping("version: 1").await;
    for _ in 0..3 {
        crash(&host).await.unwrap();
    }
    assert_eq!(crash(&host).await.unwrap_err().kind, ErrorKind::Quarantined);
    let other = ToolCall::new(Principal("other".to_owned()), "trap", json!({}));
    assert_eq!(host.host().call(other).await.unwrap().error_kind, Some("trap"));
}

/// Two hosts that run, each with its own connection to one store.
#[tokio::test]
async fn hosts_on_one_store_learn_of_rest_release_and_switches_while_they_run() {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let start = || {
        let own = |host: HostBuilder| {
            let store = Database::open(&FOLDER.path().join("db"), MIGRATIONS).unwrap();
            host.database(Some(store))
        };
        let host = TestHost::builder().guest(&Guest::read("trap"));
        host.runtime_file("version: 1").extend(own).build()
    };
    let (one, other) = (start().await, start().await);
    for _ in 0..3 {
        crash(&one).await.unwrap();
    }
    let rests = || other.host().quarantine().resting("trap").len();
    until("it rests there too", || (rests() == 1).then_some(())).await;
    assert_eq!(crash(&other).await.unwrap_err().kind, ErrorKind::Quarantined);
    other.host().quarantine().release("trap", "ada", None).await.unwrap();
    let rests = || one.host().quarantine().resting("trap").len();
    until("it is released here too", || (rests() == 0).then_some(())).await;

    let mut changes = other.host().catalog_version();
    changes.mark_unchanged();
    one.host().switch("trap", Turn::Off { now: false }, "operator", None).await.unwrap();
    within("clients of the other one are told", changes.changed()).await.unwrap();
    assert_eq!(crash(&other).await.unwrap_err().kind, ErrorKind::Disabled);
}
