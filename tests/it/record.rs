//! The record: every call has one opening and one closing line, and the chain shows tampering.

use clawhost_tests::{Cli, Guest, Program, TestHost, wait};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// A manifest whose tool takes its time.
const SLEEPER: &str = clawhost_tests::claw!(
    "sleeper",
    "autonomous",
    r#"      resource_limits: {timeout_ms: 60000}
  tools: [{name: sleep}]
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#
);

fn facts<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_default()
}

#[tokio::test]
async fn every_call_has_one_pair_of_records_however_it_ends() {
    let rules = "\
- {id: no-writing, action: deny, scope: tool, match: {name: write-file}}
- {id: all, action: allow, scope: all}";
    let host = TestHost::builder()
        .file("a.txt", "a")
        .rules(rules)
        .limits("timeout_ms: 2000")
        .guest(&Guest::read("trap"))
        .guest(&Guest::read("spin"))
        .guest(&Guest::read("memory-bomb"))
        .build()
        .await;
    for (tool, arguments, outcome) in [
        ("read_file", json!({"path": "a.txt"}), "ok"),
        ("read_file", json!({"path": "absent"}), "tool-error"),
        ("read_file", json!({"path": 7}), "invalid-arguments"),
        ("no_such_tool", json!({}), "unknown-tool"),
        ("write_file", json!({"path": "a", "content": ""}), "policy"),
        ("trap", json!({}), "tool-error"),
        ("spin", json!({}), "timeout"),
        ("memory-bomb", json!({}), "sandbox"),
    ] {
        let before = host.finished().len();
        // Success or not does not matter here; the record does.
        drop(host.call(tool, arguments).await);
        let records = host.finished();
        assert_eq!(records.len(), before + 1, "{tool}");
        let last = records.last().unwrap();
        assert_eq!(facts(last, "outcome"), outcome, "{last}");
        assert_eq!(facts(last, "tool"), tool);
        assert_eq!(facts(last, "principal"), "test");
        assert!(facts(last, "arguments_digest").starts_with("sha256:"), "{last}");
    }
    host.check_audit();
}

#[tokio::test]
async fn a_cancelled_call_is_recorded_as_such() {
    let host =
        TestHost::builder().limits("timeout_ms: 60000").guest(&Guest::read("sleep")).build().await;
    let task = host.begin("sleep", json!({}));
    host.arrived(1).await;
    task.abort();
    let closed = || host.finished().pop();
    let record = wait::until("the call to be closed", closed).await;
    assert_eq!(facts(&record, "outcome"), "cancelled");
    host.check_audit();
}

#[test]
fn a_call_that_a_signal_stops_on_the_command_line_is_recorded_as_cancelled() {
    for (verb, signal) in [("call", "INT"), ("call", "TERM"), ("learn", "INT")] {
        let cli = Cli::new(PROGRAM);
        cli.write("claw.yaml", SLEEPER);
        cli.write("workspace/a.txt", "");
        cli.write("tools/sleep.wat", Guest::read("sleep").wat());
        let words = [verb, "claw.yaml", "sleep", "--tools", "tools"];
        let mut program = Program::other(&mut cli.command(&words));
        let begun = || cli.log().contains("\"call.received\"").then_some(());
        wait::block_until("the call to begin", begun);
        program.signal(signal);
        let ended = || program.try_wait().unwrap();
        assert_eq!(wait::block_until("the program to end", ended).code(), Some(5), "{verb}");
        assert!(cli.log().contains("\"outcome\":\"cancelled\""), "{verb}: {}", cli.log());
        let key = cli.run(&["audit", "key"]).stdout;
        let run = cli.run(&["audit", "verify", "--key", key.trim()]);
        assert_eq!(run.code, Some(0), "{verb}: {}", run.stdout);
    }
}

#[tokio::test]
async fn a_record_says_what_ran_and_why_it_was_allowed_and_holds_no_arguments() {
    let host = TestHost::builder().build().await;
    let secret = "correct-horse-battery";
    host.ask("write_file", json!({"path": "note.txt", "content": secret})).await;
    let record = host.finished().pop().unwrap();
    let tool = host.host().catalog().find("write_file").cloned().unwrap();
    assert_eq!(facts(&record, "digest"), tool.digest);
    assert_eq!(facts(&record, "policy"), "rules");
    assert_eq!(facts(&record, "rule_id"), "allow");
    assert!(record["fuel"].as_u64().unwrap() > 0);
    for record in host.records() {
        assert!(!record.to_string().contains(secret), "{record}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_leave_a_chain_that_holds() {
    let host = TestHost::builder().file("a.txt", "a").calls_running(4).build().await;
    let calls = (0..40).map(|_| host.begin("read_file", json!({"path": "a.txt"})));
    for task in calls.collect::<Vec<_>>() {
        assert!(!task.await.unwrap().unwrap().is_error);
    }
    assert_eq!(host.finished().len(), 40);
    host.check_audit();
}
