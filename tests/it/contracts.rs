//! Definition files: contracts, and how often arguments may be wrong.

use clawhost_core::error::ErrorKind;
use clawhost_tests::host::text;
use clawhost_tests::{Cli, TestHost};
use serde_json::{Value, json};

use crate::cli::PROGRAM;
use crate::gate::stage;

const CONTRACTS: &str = r#"version: 1
tools:
  write_file:
    contract:
      preconditions:
        - { field: args.path, operator: contains, value: notes-hunter2 }
  read_file:
    contract:
      postconditions:
        - { field: result.content, operator: not_empty }
"#;

#[tokio::test]
async fn a_call_that_breaks_a_precondition_never_runs_and_says_which_and_no_value() {
    let host = TestHost::builder().definitions(CONTRACTS).build().await;
    let write = |path: &str| json!({"path": path, "content": "a"});
    let error = host.call("write_file", write("letters-swordfish.txt")).await.unwrap_err();
    assert_eq!(stage(&error), (-32602, "precondition"));
    assert_eq!(error.data["condition"], r#"args.path contains "notes-hunter2""#);
    assert!(!host.workspace().join("letters-swordfish.txt").exists());
    let record = host.finished().remove(0);
    assert_eq!(
        (&record["outcome"], &record["data"]["stage"]),
        (&json!("invalid-arguments"), &json!("precondition"))
    );
    for told in [format!("{error:?}"), record.to_string()] {
        assert!(told.contains("hunter2") && !told.contains("swordfish"), "{told}");
    }
    host.ask("write_file", write("notes-hunter2.txt")).await;
    host.check_audit();
}

#[tokio::test]
async fn the_schema_comes_before_the_precondition_and_policy_as_well() {
    let denied = "- {id: none, action: deny, scope: tool, match: {name: write-file}}";
    let host = TestHost::builder().definitions(CONTRACTS).rules(denied).build().await;
    for arguments in [json!({"path": 1}), json!({"path": "a", "content": "a"})] {
        let error = host.call("write_file", arguments).await.unwrap_err();
        assert_eq!(stage(&error), (-32011, "policy"));
    }
    let host = TestHost::builder().definitions(CONTRACTS).build().await;
    let error = host.call("write_file", json!({"path": 1})).await.unwrap_err();
    assert_eq!(stage(&error), (-32602, "schema"));
}

#[tokio::test]
async fn a_result_that_breaks_a_postcondition_is_a_failed_one() {
    let host = TestHost::builder().definitions(CONTRACTS).file("a.txt", "a").file("empty.txt", "");
    let host = host.build().await;
    host.ask("read_file", json!({"path": "a.txt"})).await;
    let reply = host.call("read_file", json!({"path": "empty.txt"})).await.unwrap();
    assert_eq!((reply.is_error, reply.error_kind), (true, Some("postcondition")));
    assert!(text(&reply).contains("`result.content not_empty`"), "{}", text(&reply));
    assert_eq!(reply.structured, None);
    assert_eq!(host.finished()[1]["postcondition"], "result.content not_empty");
    let gone = host.call("read_file", json!({"path": "gone.txt"})).await.unwrap();
    assert_eq!(gone.error_kind, Some("file-not-found"), "a failure promises nothing");
}

#[tokio::test]
async fn under_warn_a_broken_postcondition_is_only_recorded() {
    let host = TestHost::builder()
        .definitions(CONTRACTS)
        .runtime_file("version: 1\ncontracts: { postcondition_mode: warn }")
        .file("empty.txt", "")
        .build()
        .await;
    assert_eq!(host.ask("read_file", json!({"path": "empty.txt"})).await["content"], "");
    assert_eq!(host.finished()[0]["postcondition"], "result.content not_empty");
}

#[tokio::test]
async fn arguments_meet_the_schema_of_a_definition_as_well() {
    let said = "version: 1\ntools: { write_file: { schema: { properties: { path: { pattern: ^notes } } } } }";
    let host = TestHost::builder().definitions(said).build().await;
    let write = |path: &str| json!({"path": path, "content": "a"});
    let error = host.call("write_file", write("letters.txt")).await.unwrap_err();
    assert_eq!(stage(&error), (-32602, "schema"));
    assert!(!host.workspace().join("letters.txt").exists());
    host.ask("write_file", write("notes.txt")).await;
    let error = host.call("write_file", json!({"path": "notes.txt"})).await.unwrap_err();
    assert_eq!(stage(&error), (-32602, "schema"), "what the tool says itself holds still");
}

#[test]
fn what_is_wrong_in_the_schema_of_a_definition_is_said_with_its_line() {
    let cli = prepared("schema: { properties: { path: { maxlength: 9 } } }");
    let checked = cli.run(&["validate", "clawhost.yaml", "claw.yaml"]);
    let told = format!("{}{}", checked.stdout, checked.stderr);
    assert_eq!(checked.code, Some(0), "{told}");
    assert!(told.contains("definitions.yaml:3: `maxlength` is no keyword"), "{told}");
    let cli = prepared("schema: { properties: 3 }");
    let checked = cli.run(&["validate", "clawhost.yaml", "claw.yaml"]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.stderr.contains("definitions.yaml:3:"), "{checked:?}");
    assert!(checked.stderr.contains("`schema` cannot be used"), "{checked:?}");
}

#[tokio::test]
async fn after_so_many_refused_arguments_in_a_row_nothing_more_is_told() {
    let host = TestHost::builder()
        .definitions("version: 1\ntools: { read_file: { repair_policy: { max_attempts: 2 } } }")
        .file("a.txt", "a")
        .build()
        .await;
    let wrong = || host.call("read_file", json!({"pfad": "a.txt"}));
    for _ in 0..2 {
        assert_eq!(stage(&wrong().await.unwrap_err()), (-32602, "schema"));
    }
    let capped = wrong().await.unwrap_err();
    assert_eq!((capped.kind, stage(&capped)), (ErrorKind::Overloaded, (-32011, "repair")));
    assert!(!capped.message.contains("pfad"), "{capped}");
    host.ask("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(stage(&wrong().await.unwrap_err()), (-32602, "schema"));
    let other = host.call("list_directory", json!({"pfad": "a"})).await.unwrap_err();
    assert_eq!(stage(&other), (-32602, "schema"), "each tool by itself");
}

#[tokio::test]
async fn a_caller_makes_so_many_calls_of_a_tool_in_a_minute() {
    let host = TestHost::builder()
        .only(&["read-file", "list-directory"])
        .file("a.txt", "a")
        .definitions("version: 1\ntools: { read_file: { rate_policy: { calls_per_minute: 2 } } }")
        .build()
        .await;
    let read = || host.call("read_file", json!({"path": "a.txt"}));
    // What is refused before is none of them.
    host.call("read_file", json!({"pfad": "a.txt"})).await.unwrap_err();
    for _ in 0..2 {
        read().await.unwrap();
    }
    let refused = read().await.unwrap_err();
    assert_eq!((refused.kind, stage(&refused)), (ErrorKind::Overloaded, (-32011, "quota")));
    assert_eq!(refused.data["limit"], "rate_policy.calls_per_minute");
    host.ask("list_directory", json!({"path": "."})).await;
}

#[test]
fn what_a_definition_costs_is_shown_with_the_calls() {
    let cli = prepared("cost_hint: { usd_per_call: 0.25 }");
    for _ in 0..2 {
        assert_eq!(cli.run(&["call", "claw.yaml", "read_file", "path=a.txt"]).code, Some(0));
    }
    let run = cli.run(&["call", "claw.yaml", "read_file", "pfad=a.txt"]);
    assert_eq!(run.code, Some(2));
    let run = cli.run(&["stats", "--json"]);
    let stats: Value = serde_json::from_str(&run.stdout).unwrap();
    let of = &stats[0];
    assert_eq!((&of["tool"], &of["ran"]), (&json!("read_file"), &json!(2)));
    assert_eq!((&of["refused"], &of["failed"]), (&json!(1), &json!(0)));
    assert_eq!(of["cost_usd"], json!(0.5));
    assert!(of["p95_us"].as_u64().unwrap() >= of["p50_us"].as_u64().unwrap());
    let of_agent = |name: &str| cli.run(&["stats", "--json", "--agent", name]).stdout;
    assert_eq!((of_agent("cli"), of_agent("nobody").trim()), (run.stdout, "[]"));
    let table = cli.run(&["stats"]).stdout;
    assert!(table.contains("read_file") && table.contains("$0.5000"), "{table}");
}

#[test]
fn a_wrong_definition_is_refused_with_its_place_by_whoever_reads_it() {
    for (definition, expected) in [
        ("retry: {}", "definitions.yaml:3:16: unknown key `retry`"),
        ("contract: { preconditions: [{ field: args.a, operator: matches }] }", "`matches`"),
        ("composite: {}", "`tools.read_file.composite.steps` is missing"),
    ] {
        let cli = prepared(definition);
        for verb in ["validate", "tools"] {
            let run = cli.run(&[verb, "claw.yaml"]);
            assert_eq!(run.code, Some(3), "{verb} {definition}: {}", run.stderr);
            assert!(run.stderr.contains("definitions.yaml"), "{verb}: {}", run.stderr);
        }
        let run = cli.run(&["validate", "--json", "claw.yaml"]);
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        let one = &said["problems"][0];
        let place = ["file", "line", "column", "reason"].map(|key| match &one[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let [file, line, column, reason] = place;
        assert!(format!("{file}:{line}:{column}: {reason}").contains(expected), "{one}");
    }
}

#[test]
fn a_definition_of_a_tool_that_nobody_has_is_refused() {
    let cli = prepared("{}");
    cli.write("definitions.yaml", "version: 1\ntools: { raed_file: {} }\n");
    let call = ["call", "claw.yaml", "read_file", "path=a.txt"];
    let proxy = ["proxy", "claw.yaml", "--http", "127.0.0.1:0"];
    let others = ["validate", "tools", "run"].map(|verb| vec![verb, "claw.yaml"]);
    for words in others.into_iter().chain([call.to_vec(), proxy.to_vec()]) {
        let run = cli.run(&words);
        assert_eq!(run.code, Some(3), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains("no tool is called `raed-file`"), "{words:?}: {}", run.stderr);
    }
    let help = cli.run(&["validate", "claw.yaml", "--json"]).stdout;
    let help: Value = serde_json::from_str(&help).unwrap();
    let help = help["problems"][0]["help"].as_str().unwrap();
    assert!(help.starts_with("did you mean `read-file`? the nearest are: read-file, "), "{help}");
    assert!(help.len() < 150 && help.matches("read-file").count() == 2, "{help}");
}

#[test]
fn a_definition_of_a_tool_that_may_still_come_stops_nobody() {
    let cli = prepared("{}");
    cli.write("tools/README", "");
    let runs = |name: &str, may_come: bool| {
        cli.write("definitions.yaml", format!("version: 1\ntools: {{ {name}: {{}} }}\n"));
        let tools = if may_come { vec!["--tools", "tools"] } else { Vec::new() };
        let code = |verb: &[&str]| cli.run(&[verb, &["claw.yaml"], &tools].concat()).code.unwrap();
        (code(&["validate"]), code(&["run", "--stdio"]))
    };
    assert_eq!(runs("make_coffee", true), (0, 0));
    assert_eq!(runs("make_coffee", false), (3, 3), "nobody can bring it");
    assert_eq!(runs("raed_file", true), (3, 3), "it is a slip");
}

/// A folder whose runtime file names a definition of `read_file`.
fn prepared(definition: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    let claw = clawhost_tests::claw!(
        "test",
        "autonomous",
        "  tools: [{name: read-file}]\n  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]\n"
    );
    cli.write("claw.yaml", claw);
    cli.write("workspace/a.txt", "a");
    cli.write("clawhost.yaml", "version: 1\ndefinitions: ['*definitions.yaml']\n");
    let tool = definition.trim_start_matches('{').trim_end_matches('}');
    let tool = if definition.starts_with('{') { tool } else { definition };
    cli.write("definitions.yaml", format!("version: 1\ntools:\n  read_file: {{ {tool} }}\n"));
    cli
}
