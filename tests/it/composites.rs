//! Composites: tools that are made of others, each step on the one path.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use clawhost::approvals::Answer;
use clawhost::catalog::Annotations;
use clawhost::host::ToolCall;
use clawhost::{Tool, ToolError, async_trait};
use clawhost_core::error::ErrorKind;
use clawhost_core::manifest::Governance;
use clawhost_tests::host::{TestHostBuilder, call, call_within, text};
use clawhost_tests::wait::within;
use clawhost_tests::{Cli, Guest, TestHost};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::cli::PROGRAM;

const MIB: usize = 1 << 20;

/// One composite of a definition file; `steps` in flow style, one after the other.
fn composite(name: &str, steps: &str) -> String {
    format!(
        "  {name}:\n    composite:\n      description: Made of others.\n      input_schema: {{ type: object }}\n      steps: [{steps}]\n"
    )
}

fn defining(composites: &[String]) -> TestHostBuilder {
    TestHost::builder().definitions(&format!("version: 1\ntools:\n{}", composites.concat()))
}

fn copy() -> String {
    composite(
        "copy",
        "{ tool_name: read_file, arg_mapping: { path: input.from }, output_key: page },
         { tool_name: write_file, arg_mapping: { path: input.to, content: page.content }, output_key: kept },
         { tool_name: read_file, arg_mapping: { path: input.to }, output_key: again }",
    )
}

fn copied() -> Value {
    json!({"from": "a.txt", "to": "b.txt"})
}

/// Answers, waits or meets, as it is called.
struct Native {
    name: &'static str,
    reads: bool,
}

static GO_ON: LazyLock<Notify> = LazyLock::new(Notify::new);
static MEETING: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

#[async_trait]
impl Tool for Native {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Does what it is called."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }

    fn annotations(&self) -> Annotations {
        Annotations { read_only: Some(self.reads), ..Annotations::default() }
    }

    async fn execute(&self, args: Value) -> Result<Value, ToolError> {
        match self.name {
            "long" => {
                let bytes = args["bytes"].as_u64().unwrap();
                return Ok(json!("x".repeat(usize::try_from(bytes).unwrap())));
            }
            "wait" => GO_ON.notified().await,
            "meet" => {
                MEETING.wait().await;
            }
            _ => {}
        }
        Ok(args)
    }
}

#[tokio::test]
async fn three_steps_over_built_in_tools_are_three_calls_with_one_parent() {
    let host = defining(&[copy()]).file("a.txt", "hello").build().await;
    assert!(host.refused().is_empty(), "{}", host.refused());
    let result = host.ask("copy", copied()).await;
    assert_eq!(result["result"]["content"], "hello");
    assert_eq!(result["steps"]["page"]["content"], "hello");
    assert_eq!(result["steps"].as_object().unwrap().keys().collect::<Vec<_>>(), ["kept", "page"]);
    let records = host.finished();
    let parent = &records[3]["call"];
    assert_eq!((&records[3]["tool"], &records[3]["parent"]), (&json!("copy"), &Value::Null));
    for (record, tool) in records.iter().zip(["read_file", "write_file", "read_file"]) {
        assert_eq!((&record["tool"], &record["outcome"]), (&json!(tool), &json!("ok")));
        assert_eq!((&record["parent"], &record["root"]), (parent, parent));
        assert_eq!(record["principal"], records[3]["principal"]);
    }
    assert!(records[3]["digest"].as_str().unwrap().starts_with("sha256:"));
    host.check_audit();
}

#[tokio::test]
async fn each_step_that_is_done_is_told_to_whoever_waits() {
    let host = defining(&[copy()]).file("a.txt", "hello").build().await;
    let told = Arc::<Mutex<Vec<_>>>::default();
    let all = Arc::clone(&told);
    let sink = move |done, of, what| all.lock().unwrap().push((done, of, what));
    let call = ToolCall { progress: Some(Arc::new(sink)), ..call("copy", copied()) };
    host.host().call(call).await.unwrap();
    let expected =
        [(1.0, "step 1, `read_file`"), (2.0, "step 2, `write_file`"), (3.0, "step 3, `read_file`")];
    let expected = expected.map(|(done, step)| (done, Some(3.0), Some(format!("{step}, is done"))));
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_value_that_is_missing_is_named_with_its_step_and_nothing_goes_on() {
    let host = defining(&[copy()]).file("a.txt", "hello").build().await;
    let reply = host.call("copy", json!({"from": "a.txt"})).await.unwrap();
    assert_eq!((reply.is_error, reply.error_kind), (true, Some("missing-value")));
    assert_eq!(text(&reply), "step 2, `write_file`: there is no `input.to`");
    assert_eq!(host.finished().len(), 2);
    let reply = host.call("copy", json!({"from": "gone.txt", "to": "b"})).await.unwrap();
    assert_eq!(reply.error_kind, Some("file-not-found"));
    assert!(text(&reply).starts_with("step 1, `read_file` failed"), "{}", text(&reply));
}

#[tokio::test]
async fn whole_values_pass_between_steps_and_only_the_outermost_reply_is_cut() {
    let keep = composite(
        "keep",
        "{ tool_name: long, arg_mapping: { bytes: input.bytes }, output_key: made },
         { tool_name: write_file, arg_mapping: { path: { literal: big.txt }, content: made.value }, output_key: kept },
         { tool_name: long, arg_mapping: { bytes: 3 }, output_key: short }",
    );
    let outer = composite(
        "outer",
        "{ tool_name: keep, arg_mapping: { bytes: input.bytes }, output_key: inner },
         { tool_name: write_file, arg_mapping: { path: { literal: again.txt }, content: inner.steps.made.value }, output_key: kept }",
    );
    let host = defining(&[keep, outer])
        .limits("timeout_ms: 20000")
        .extend(|host| host.tool(Native { name: "long", reads: true }))
        .build()
        .await;
    // More than the 4 MiB that arguments of callers may have.
    for bytes in [MIB, 5 * MIB] {
        let reply = host.call("outer", json!({"bytes": bytes})).await.unwrap();
        assert!(!reply.is_error, "{}", text(&reply));
        assert!(reply.cut_from_bytes.is_some_and(|cut| cut > bytes));
        for file in ["big.txt", "again.txt"] {
            assert_eq!(std::fs::metadata(host.workspace().join(file)).unwrap().len(), bytes as u64);
        }
    }
    let inner = host.finished().into_iter().find(|record| record["tool"] == "keep").unwrap();
    assert_eq!(inner["cut_from_bytes"], Value::Null);
}

#[tokio::test]
async fn known_secrets_reach_no_guest_and_masks_wait_for_the_outermost_reply() {
    let screens = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: screens}\nspec:\n  rules: [{id: x, action: allow, scope: all}]\n  secret_scanning: {enabled: true, scope: output, action: redact}\n  audit: {log_outputs: true}\n";
    let looks_like_one = "AKIAQ3EGRWZ7NMKVJ5XD";
    let host = defining(&[copy()])
        .file("a.txt", &format!("known: swordfish-1; looks: {looks_like_one}"))
        .document("screens.yaml", screens)
        .build()
        .await;
    host.host().secrets().hide("TOKEN", "swordfish-1").unwrap();
    let shown = host.ask("copy", copied()).await.to_string();
    assert!(!shown.contains("swordfish") && !shown.contains(looks_like_one), "{shown}");
    let written = std::fs::read_to_string(host.workspace().join("b.txt")).unwrap();
    assert_eq!(written, format!("known: [redacted:TOKEN]; looks: {looks_like_one}"));
    for record in host.finished() {
        let record = record.to_string();
        assert!(!record.contains("swordfish") && !record.contains(looks_like_one), "{record}");
    }
    assert!(host.finished()[0]["outputs"].is_object(), "{}", host.finished()[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_towers_of_four_pass_through_one_place() {
    let tower = [("c1", "c2"), ("c2", "c3"), ("c3", "c4"), ("c4", "read_file")];
    let tower = tower.map(|(name, tool)| {
        let arguments = "arg_mapping: { path: input.path }";
        composite(name, &format!("{{ tool_name: {tool}, {arguments}, output_key: k }}"))
    });
    let host = defining(&tower).file("a.txt", "deep").calls_running(1).build().await;
    let calls = (0..20).map(|_| host.begin("c1", json!({"path": "a.txt"})));
    for running in calls.collect::<Vec<_>>() {
        let reply = within("a tower", running).await.unwrap().unwrap();
        let inner = reply.structured.unwrap();
        assert_eq!(inner.pointer("/result/result/result/result/content"), Some(&json!("deep")));
    }
    let records = host.finished();
    assert_eq!(records.len(), 100);
    let roots = records.iter().filter(|record| record["root"].is_null()).count();
    assert_eq!(roots, 20);
    host.check_audit();
}

#[tokio::test]
async fn a_ring_that_a_reload_makes_under_a_running_call_is_found() {
    let first = [
        composite("a", "{ tool_name: wait, output_key: x }, { tool_name: b, output_key: y }"),
        composite(
            "b",
            "{ tool_name: list_directory, arg_mapping: { path: { literal: . } }, output_key: z }",
        ),
    ];
    let second = "version: 1\ntools:\n".to_owned()
        + &composite("a", "{ tool_name: wait, output_key: x }")
        + &composite("b", "{ tool_name: a, output_key: z }");
    let wait = |host: clawhost::HostBuilder| host.tool(Native { name: "wait", reads: false });
    let host = defining(&first).extend(wait).build().await;
    let running = host.begin("a", json!({}));
    // It, and its first step.
    host.arrived(2).await;
    let mut manifest = (*host.host().manifest()).clone();
    manifest.governance = Governance::default();
    manifest.governance.read("d.yaml".as_ref(), second.as_bytes()).unwrap();
    manifest.governance.settle(&[]).unwrap();
    host.host().reload(manifest).await.unwrap();
    GO_ON.notify_one();
    let error = within("the ring", running).await.unwrap().unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32011, &json!("cycle")), "{error}");
    assert!(error.message.starts_with("step 2, `b`: step 1, `a`: "), "{error}");
    host.check_audit();
}

#[tokio::test]
async fn a_denied_step_fails_the_whole_with_its_name_and_a_disabled_one_as_well() {
    let rules = "- {id: no-writing, action: deny, scope: tool, match: {name: write-file}}\n- {id: rest, action: allow, scope: all}";
    let host = defining(&[copy()]).rules(rules).file("a.txt", "a").build().await;
    let error = host.call("copy", copied()).await.unwrap_err();
    assert_eq!((error.kind, error.kind.code()), (ErrorKind::Policy, -32011));
    assert!(error.message.starts_with("step 2, `write_file`: "), "{error}");
    assert_eq!((&error.data["step"], &error.data["rule_id"]), (&json!(2), &json!("no-writing")));
    assert!(!host.workspace().join("b.txt").exists());
    let outcomes: Vec<Value> = host.finished().iter().map(|of| of["outcome"].clone()).collect();
    assert_eq!(outcomes, ["ok", "policy", "policy"]);
    // What is refused by its own name never begins.
    let rules = rules.replace("write-file", "copy");
    let host = defining(&[copy()]).rules(&rules).file("a.txt", "a").build().await;
    host.call("copy", copied()).await.unwrap_err();
    assert_eq!(host.finished().len(), 1);
}

#[tokio::test]
async fn a_person_is_asked_for_the_step_that_asks() {
    let rules = "- {id: ask, action: require-approval, scope: tool, match: {name: write-file}}\n- {id: rest, action: allow, scope: all}";
    let host = defining(&[copy()]).rules(rules).file("a.txt", "a").build().await;
    let _reachable = host.host().approvals().reach().open();
    for (answer, allowed) in
        [(Answer::Approve { lease: None }, true), (Answer::Deny { reason: None }, false)]
    {
        let (outcome, asked) = tokio::join!(host.call("copy", copied()), host.answer(answer));
        assert_eq!(asked.asked.tool, "write-file");
        match outcome {
            Ok(reply) => assert!(allowed && !reply.is_error),
            Err(error) => {
                assert!(!allowed && error.kind == ErrorKind::ApprovalDenied, "{error}");
                assert!(error.message.starts_with("step 2, "), "{error}");
            }
        }
    }
    host.check_audit();
}

#[tokio::test]
async fn who_drops_the_call_ends_its_steps_and_its_time_bounds_them_all() {
    let slow = |steps: &str| {
        defining(&[composite("slow", steps)])
            .guest(&Guest::read("sleep-for-ever"))
            .limits("timeout_ms: 600000")
    };
    let steps = "{ tool_name: sleep-for-ever, output_key: x }";
    let host = slow(steps).build().await;
    let hurried = call_within("slow", json!({}), Duration::from_secs(2));
    let error = within("its end", host.host().call(hurried)).await.unwrap_err();
    assert_eq!((error.kind, &error.data["limit"]), (ErrorKind::Timeout, &json!("timeout_ms")));
    let running = host.begin("slow", json!({}));
    host.arrived(4).await;
    running.abort();
    running.await.unwrap_err();
    let outcomes: Vec<Value> = host.finished().iter().map(|of| of["outcome"].clone()).collect();
    assert_eq!(outcomes, ["timeout", "timeout", "cancelled", "cancelled"]);
    host.check_audit();

    let host = slow("{ tool_name: sleep-for-ever, output_key: x, timeout_ms: 50 }").build().await;
    let error = within("its end", host.call("slow", json!({}))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "a step has its own time");
}

#[tokio::test]
async fn steps_that_only_read_run_beside_each_other_and_share_one_place_where_there_is_one() {
    // Each waits for the other one.
    let meet = "{ tool_name: meet, output_key: x }, { tool_name: meet, output_key: y }";
    let host = defining(&[composite("both", meet)]);
    let host = host.extend(|host| host.tool(Native { name: "meet", reads: true })).build().await;
    within("both", host.ask("both", json!({}))).await;
    let read = "{ tool_name: read_file, arg_mapping: { path: { literal: a.txt } }, output_key: x }, { tool_name: read_file, arg_mapping: { path: { literal: a.txt } }, output_key: y }";
    let host = defining(&[composite("reads", read)]).file("a.txt", "a").calls_running(1);
    let host = host.build().await;
    within("one after the other", host.ask("reads", json!({}))).await;
    host.check_audit();
}

#[tokio::test]
async fn what_it_calls_has_to_be_there_and_its_name_is_no_file_s_to_take() {
    let host = defining(&[
        composite("half", "{ tool_name: raed_file, output_key: x }"),
        composite(
            "word_count",
            "{ tool_name: copy, output_key: x, max_attempts: 2 }, { tool_name: read_file, output_key: y, max_attempts: 2 }",
        ),
        copy(),
    ]);
    let source =
        std::fs::read(clawhost_tests::source_root().join("host/examples/tools/word-count.wat"));
    let records = "version: 1\nprofiles: {none: {record: true}, sandbox-0: {record: true}}";
    let host = host.runtime_file(records).tool_file("word-count.wat", &source.unwrap());
    let host = host.build().await;
    let refused = host.refused();
    assert!(
        refused.contains("definitions.yaml:7:")
            && refused.contains("no tool is called `raed_file`"),
        "{refused}"
    );
    assert!(refused.contains("it is a composite of `definitions.yaml`"), "{refused}");
    assert!(!host.names().contains(&"half".to_owned()));
    let tool = host.host().catalog().find("word_count").cloned().unwrap();
    assert_eq!(
        (tool.origin.to_string().as_str(), tool.grants.profile.as_str()),
        ("the definition file `definitions.yaml`", "none")
    );
    let notes = &host.host().catalog().notes;
    let idle = "the `max_attempts` of step `x` of `word_count` does nothing";
    assert!(notes.iter().any(|note| note.starts_with(idle)), "{notes:?}");
    // Only components are recorded.
    let idle = ["copy", "word-count"]
        .map(|name| format!("`record: true` of the profile `none` does nothing for `{name}`"));
    let mut told: Vec<_> = notes.iter().filter(|note| note.starts_with("`record")).collect();
    told.sort();
    assert!(told.len() == 2 && told.iter().zip(&idle).all(|(a, b)| a.starts_with(b)), "{notes:?}");
    let error = host.call("half", json!({})).await.unwrap_err();
    assert_eq!(error.data["stage"], "load");
}

const CLAW: &str = clawhost_tests::claw!(
    "made",
    "autonomous",
    r#"  tools: [{name: read-file}, {name: write-file}]
  policies:
    - inline: {name: rules, rules: [{id: all, action: allow, scope: all}]}
"#
);

fn prepared(runtime_file: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", CLAW);
    cli.write("clawhost.yaml", runtime_file);
    cli.write("workspace/a.txt", "hello\n");
    cli.write("copy.yaml", format!("version: 1\ntools:\n{}", copy()));
    cli
}

#[test]
fn compose_refuses_arguments_that_a_tool_does_not_have() {
    let cli = prepared("version: 1\ndefinitions: ['made/*.yaml']\n");
    let text =
        format!("version: 1\ntools:\n{}", copy()).replace("path: input.from", "pat: input.from");
    cli.write("copy.yaml", &text);
    let run = cli.run(&["compose", "copy.yaml"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    for part in ["`read_file` has no argument `pat`", "did you mean `path`?", "copy.yaml:"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert!(!cli.here().join("made").exists());
}

#[test]
fn compose_checks_draws_and_registers_and_then_it_is_called() {
    let cli = prepared("version: 1\ndefinitions: ['made/*.yaml']\n");
    let run = cli.run(&["compose", "copy.yaml", "--dry-run"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let drawn = "copy\n  ├── 1 page: read_file, reads\n  ├── 2 kept: write_file ← page\n  ├── 3 again: read_file, reads\n  └─▶ the result of the last step\n\nsound; it would be registered as ./made/copy.yaml\n";
    assert_eq!(run.stdout, drawn);
    assert!(!cli.here().join("made").exists());
    let run = cli.run(&["compose", "copy.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.ends_with("registered as ./made/copy.yaml\n"), "{}", run.stdout);
    let again = cli.run(&["compose", "made/copy.yaml", "--json"]);
    let said: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(said["registered"], false);
    assert_eq!(said["composites"][0]["waves"], json!([["page"], ["kept"], ["again"]]));
    let run = cli.run(&["call", "claw.yaml", "copy", "from=a.txt", "to=b.txt"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = cli.run(&["tools", "claw.yaml", "--json"]);
    let tools: Value = serde_json::from_str(&run.stdout).unwrap();
    let tool =
        tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "copy").unwrap();
    assert_eq!(
        (&tool["kind"], &tool["may_touch"]),
        (&json!("composite"), &json!("calls read_file, write_file"))
    );
    let run = cli.run(&["explain", "claw.yaml", "copy", "from=a.txt", "to=/b.txt"]);
    assert!(run.code == Some(0) && run.stdout.contains("steps:"), "{}{}", run.stdout, run.stderr);
    assert!(!run.stdout.contains("refuse"), "{}", run.stdout);
    assert!(run.stdout.contains("their paths are those of its steps"), "{}", run.stdout);
}

#[test]
fn a_registered_composite_is_replaced_only_when_told_and_what_is_wrong_is_in_the_file_given() {
    let cli = prepared("version: 1\ndefinitions: ['made/*.yaml']\n");
    assert_eq!(cli.run(&["compose", "copy.yaml"]).code, Some(0));
    let other = cli.run(&["compose", "copy.yaml"]);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let named = |name: &str, text: String| {
        cli.write(name, format!("version: 1\ntools:\n{text}"));
        cli.run(&["compose", name])
    };
    let again = named("other.yaml", copy());
    assert!(again.stderr.contains("second time; first at ./made/copy.yaml:3"), "{again:?}");
    let wrong = named("copy.yaml", copy().replace("read_file", "raed_file"));
    assert_eq!(wrong.code, Some(3));
    assert!(wrong.stderr.contains("[copy.yaml:"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("made/"), "{}", wrong.stderr);
    let edited = named("copy.yaml", copy().replace("again", "twice"));
    assert_eq!(edited.code, Some(2));
    assert!(edited.stderr.contains("--replace"), "{}", edited.stderr);
    let run = cli.run(&["compose", "copy.yaml", "--replace"]);
    assert!(
        run.stdout.ends_with("registered as ./made/copy.yaml\n"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    let text = std::fs::read_to_string(cli.here().join("made/copy.yaml")).unwrap();
    assert!(text.contains("twice"), "{text}");
}

#[test]
fn compose_says_what_is_wrong_and_registers_nothing() {
    let cli = prepared("version: 1\ndefinitions: ['made/*.yaml']\n");
    for (text, expected) in [
        (copy().replace("read_file", "raed_file"), "no tool is called `raed_file`"),
        (copy().replace("page.content", "pages.content"), "`pages` is no source here"),
        (composite("copy", "{ tool_name: copy, output_key: x }"), "calls itself"),
    ] {
        cli.write("wrong.yaml", format!("version: 1\ntools:\n{text}"));
        let run = cli.run(&["compose", "wrong.yaml"]);
        assert_eq!(run.code, Some(3), "{expected}: {}{}", run.stdout, run.stderr);
        assert!(
            run.stderr.contains(expected) && run.stderr.contains("wrong.yaml"),
            "{}",
            run.stderr
        );
    }
    assert!(!cli.here().join("made").exists());
    let run = prepared("version: 1\n").run(&["compose", "copy.yaml"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("definitions: [\"definitions/*.yaml\"]"), "{}", run.stderr);
}

#[test]
fn a_step_that_names_another_version_or_registry_is_told_as_a_host_does() {
    let cli = prepared("version: 1\ndefinitions: [read.yaml]\n");
    cli.write("claw.yaml", CLAW.replace("{name: read-file}", "./tool.yaml"));
    cli.write(
        "tool.yaml",
        "claw: '0.3.0'\nkind: Tool\nmetadata: {name: read-file, version: 1.2.0}\nspec: {description: Reads., input_schema: {type: object}, sandbox_ref: claw://sandbox/fs-readonly}\n",
    );
    for (address, is_there) in [
        ("claw://local/tool/read-file@1.2.0", true),
        ("claw://registry/any/read-file@1.2.0", true),
        ("claw://local/tool/read-file@9.9.9", false),
        ("claw://registry/any/read-file@9.9.9", false),
        ("claw://registry/any/write-file@1.2.0", false),
        ("claw://registry/any/nothing@1.2.0", false),
    ] {
        let step = format!(
            "{{ tool_name: \"{address}\", arg_mapping: {{ path: {{ literal: a.txt }} }}, output_key: x }}"
        );
        cli.write("read.yaml", format!("version: 1\ntools:\n{}", composite("one", &step)));
        let told = format!("no tool is called `{address}`");
        for (words, code) in
            [(&["validate", "claw.yaml"][..], 3), (&["call", "claw.yaml", "one"], 4)]
        {
            let run = cli.run(words);
            assert_eq!(
                run.code,
                Some(if is_there { 0 } else { code }),
                "{words:?}: {}",
                run.stderr
            );
            assert_eq!(run.stderr.contains(&told), !is_there, "{words:?}: {}", run.stderr);
            assert_eq!(run.stderr.contains("read.yaml:7"), !is_there, "{words:?}: {}", run.stderr);
        }
    }
}

#[test]
fn a_tool_document_wraps_a_skill_whose_steps_a_definition_has() {
    let cli = prepared("version: 1\ndefinitions: [copy.yaml]\n");
    let claw = |permissions: &str, tools: &str| {
        let skill = format!(
            "  skills: [{{inline: {{name: copying, description: Copies., instruction: Copy., tools_required: [{tools}]{permissions}}}}}]\n"
        );
        let tool = "{name: read-file}, {inline: {name: copy, description: Copies a file., input_schema: {type: object, required: [to]}, composite: true, skill_ref: copying}}, ";
        CLAW.replace("{name: read-file}, ", tool) + &skill
    };
    cli.write("claw.yaml", claw("", "read-file, write-file"));
    let run = cli.run(&["call", "claw.yaml", "copy", "from=a.txt", "to=b.txt"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for (permissions, tools, expected) in [
        ("", "read-file", "the skill `copying` does not require `write_file`"),
        (
            ", permissions: {network: false}",
            "read-file, write-file",
            "nothing holds a composite to `permissions.network`",
        ),
    ] {
        cli.write("claw.yaml", claw(permissions, tools));
        let run = cli.run(&["validate", "claw.yaml"]);
        assert!(
            run.code == Some(3) && run.stderr.contains(expected),
            "{}{}",
            run.stdout,
            run.stderr
        );
    }
    cli.write(
        "claw.yaml",
        claw(", permissions: {approval_required: true}", "read-file, write-file"),
    );
    let run = cli.run(&["explain", "claw.yaml", "copy"]);
    assert!(run.stdout.contains("waits for a person"), "{}{}", run.stdout, run.stderr);
    cli.write("copy.yaml", "version: 1\ntools: {}\n");
    let run = cli.run(&["tools", "claw.yaml"]);
    assert!(run.code == Some(3) && run.stderr.contains("`tools.copy.composite`"), "{}", run.stderr);
}
