//! Code mode: `run_code` and any component that calls other tools, each call through the one gate.
//!
//! Without the feature `interpreters` there is no `run_code`: its tests are counted as ignored then, and
//! hostile guests show what holds of every caller.

use std::sync::Arc;

use clawhost::Tool;
use clawhost::approvals::Answer;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{NESTED_CALLS_MAX, TOOL_CALLS_REFUSED_MAX};
use clawhost_core::reply::ToolReply;
use clawhost_tests::host::{TestHostBuilder, call, secrets, text};
use clawhost_tests::wait::within;
use clawhost_tests::{Guest, TestHost, native};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const BY_NAME: &str = "calls-by-name";
/// Calls that one call may make here, where a test does not say otherwise.
const GRANTED: usize = 8;

/// A host of these guests, any of which may call others.
fn guests(names: &[&str]) -> TestHostBuilder {
    let builder = TestHost::builder().runtime_file(&granting(GRANTED));
    names.iter().fold(builder, |builder, name| builder.guest(&Guest::read(name)))
}

fn granting(calls: usize) -> String {
    format!(
        "version: 1\nimmune: {{enabled: false}}\nprofiles: {{sandbox-0: {{tool_calls_max: {calls}}}}}"
    )
}

/// Has a guest call the tool of a name, with `{}`.
async fn by_name(host: &TestHost, name: &str) -> Result<ToolReply, CallError> {
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    within(name, host.call(BY_NAME, json!({ "case": hex }))).await
}

/// Returns the closing records of the calls that calls made, and checks that they are whole.
fn inner(host: &TestHost) -> Vec<Value> {
    host.check_audit();
    let mut records = host.finished();
    records.retain(|record| record.get("parent").is_some_and(|parent| !parent.is_null()));
    records
}

fn is_trap(outcome: Result<ToolReply, CallError>) -> bool {
    outcome.is_ok_and(|reply| reply.error_kind == Some("trap"))
}

#[tokio::test]
async fn a_guest_calls_another_tool_and_has_its_result() {
    let host = guests(&[BY_NAME, "answer"]).build().await;
    assert_eq!(text(&by_name(&host, "answer").await.unwrap()), "\"answer\"");
    let [inner, outer] = &host.finished()[..] else { panic!("{:?}", host.finished()) };
    assert_eq!((&inner["parent"], &inner["root"]), (&outer["call"], &outer["call"]));
    assert_eq!((&inner["principal"], &outer["parent"]), (&outer["principal"], &Value::Null));
    host.check_audit();
}

#[tokio::test]
async fn a_tool_that_calls_itself_is_refused_under_every_name() {
    let host = guests(&[BY_NAME]).build().await;
    for name in [BY_NAME, "claw://local/tool/calls-by-name"] {
        assert!(is_trap(by_name(&host, name).await), "{name}");
        let inner = inner(&host).pop().unwrap();
        let told = (&inner["outcome"], &inner["data"]["stage"], &inner["data"]["limit"]);
        assert_eq!(told, (&json!("overloaded"), &json!("nesting"), &json!("cycle")), "{name}");
    }
}

#[tokio::test]
async fn names_that_are_none_are_recorded_as_one_line_each() {
    let host = guests(&[BY_NAME, "answer"]).build().await;
    let names = ["", "\n{\"event\":\"call.finished\"}", "\u{1b}[2J", "answer\0", "../answer", "é"];
    for name in names {
        assert!(is_trap(by_name(&host, name).await), "{name:?}");
    }
    let inner = inner(&host);
    assert_eq!(inner.len(), names.len());
    assert!(inner.iter().all(|record| record["outcome"] == "unknown-tool"), "{inner:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_end_end_soon_after_the_bound_of_the_profile_and_each_is_recorded() {
    for granted in [GRANTED, NESTED_CALLS_MAX] {
        let host = guests(&["calls-without-end", "answer"])
            .runtime_file(&granting(granted))
            .limits("timeout_ms: 60000")
            .build()
            .await;
        let ended = within("the end", host.call("calls-without-end", json!({}))).await;
        let error = ended.unwrap_err();
        let told = (error.kind, &error.data["limit"]);
        assert_eq!(told, (ErrorKind::Sandbox, &json!("tool_calls_max")));
        let inner = inner(&host);
        assert_eq!(inner.len(), granted + TOOL_CALLS_REFUSED_MAX);
        let refused = inner.iter().filter(|one| one["data"]["limit"] == "tool_calls_max");
        assert_eq!(refused.count(), TOOL_CALLS_REFUSED_MAX);
        let record = host.finished().pop().unwrap();
        assert!(
            record["violations"][0].as_str().unwrap().contains("one call may make"),
            "{record}"
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_a_call_that_is_refused() {
    let garbled = Guest::parse(
        "garbled",
        ";; imports: tools\n;;; fields\n(data (i32.const 3072) \"answer{\")\n;;; call\n(call $tool (i32.const 3072) (i32.const 6) (i32.const 3078) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 6144))\n(return (call $answer (i32.const 3072) (i32.const 6)))",
    );
    let host = guests(&["answer"]).guest(&garbled).build().await;
    host.call("garbled", json!({})).await.unwrap();
    let [refused] = &inner(&host)[..] else { panic!("{:?}", host.finished()) };
    assert_eq!(
        (&refused["tool"], &refused["outcome"]),
        (&json!("answer"), &json!("invalid-arguments"))
    );
    assert_eq!(refused["arguments_digest"], clawhost_core::digest::of_json(&json!("{")));
}

#[tokio::test]
async fn a_guest_calls_only_what_its_agent_may() {
    let denied = "- {id: no, action: deny, scope: tool, match: {name: write-file}}\n- {id: allow, action: allow, scope: all}";
    let host = guests(&[BY_NAME, "answer", "trap"])
        .runtime_file("version: 1\nprofiles: {sandbox-0: {tool_calls_max: 8}}")
        .rules(denied)
        .build()
        .await;
    assert!(is_trap(by_name(&host, "write_file").await));
    assert_eq!(inner(&host).pop().unwrap()["outcome"], "policy");
    // What it makes of a refusal of its own is its own failure; what it calls fails for itself.
    for _ in 0..3 {
        host.call("trap", json!({})).await.unwrap();
    }
    assert!(is_trap(by_name(&host, "trap").await));
    assert_eq!(inner(&host).pop().unwrap()["outcome"], "quarantined");
}

#[tokio::test]
async fn without_the_grant_nothing_is_called() {
    let host = guests(&[BY_NAME, "wants-tools"]).runtime_file(&granting(0)).build().await;
    for name in [BY_NAME, "wants-tools"] {
        assert!(host.call(name, json!({})).await.is_err());
    }
    assert!(host.refused().contains("`tool_calls_max`"), "{}", host.refused());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_is_asked_about_each_call_and_the_program_is_not_that_person() {
    let asks = "- {id: ask, action: require-approval, scope: tool, match: {name: answer}}\n- {id: allow, action: allow, scope: all}";
    let host = guests(&[BY_NAME, "answer"]).rules(asks).limits("timeout_ms: 60000").build().await;
    let _reachable = host.host().approvals().reach().open();
    for (answer, expected) in [
        (Answer::Deny { reason: None }, None),
        (Answer::Approve { lease: None }, Some("\"answer\"")),
    ] {
        let (outcome, _) = tokio::join!(by_name(&host, "answer"), host.answer(answer));
        let outcome = outcome.unwrap();
        assert_eq!(Some(text(&outcome)).filter(|_| !outcome.is_error).as_deref(), expected);
    }
    let outcomes: Vec<Value> = inner(&host).iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, [json!("approval-denied"), json!("ok")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_outlives_the_one_that_made_it() {
    let host =
        guests(&[BY_NAME, "sleep-for-ever", "spin"]).limits("timeout_ms: 2000").build().await;
    for name in ["sleep-for-ever", "spin"] {
        let outcome = by_name(&host, name).await;
        assert!(outcome.is_err() || is_trap(outcome), "{name}");
    }
    assert_eq!(inner(&host).len(), 2);
}

/// What a long result holds.
const LONG_BYTES: usize = 1 << 20;

/// Answers with a long text.
fn long() -> impl Tool {
    native("long", async || Value::from("x".repeat(LONG_BYTES)))
}

/// Answers once two of its calls run.
fn pair() -> impl Tool {
    let two = Arc::new(Barrier::new(2));
    native("pair", move || {
        let two = Arc::clone(&two);
        async move {
            two.wait().await;
            Value::from("both")
        }
    })
}

/// A host whose `run_code` may call what else is bound.
fn coding(tools: &[&str]) -> TestHostBuilder {
    let tools: Vec<&str> = [&["run-code"], tools].concat();
    let limits = "memory_mb: 256, timeout_ms: 30000";
    TestHost::builder().only(&tools).limits(limits).runtime_file(&granting(NESTED_CALLS_MAX))
}

/// Returns what a program leaves.
async fn program(host: &TestHost, language: &str, code: &str) -> Value {
    let arguments = json!({"code": code, "language": language});
    within(code, host.ask("run_code", arguments)).await["result"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn ten_calls_in_one_give_what_ten_calls_give() {
    let files = (0..10).map(|n| (format!("{n}.txt"), format!("text {n}")));
    let builder = coding(&["read-file"]);
    let host = files.fold(builder, |host, (name, text)| host.file(&name, &text)).build().await;
    let mut each = Vec::new();
    for n in 0..10 {
        each.push(host.ask("read_file", json!({"path": format!("{n}.txt")})).await);
    }
    for (language, code) in [
        ("javascript", "[...Array(10).keys()].map(n => tools.read_file({path: `${n}.txt`}))"),
        (
            "javascript",
            "const all = [];\nfor (let n = 0; n < 10; n++) all.push(await tools.call('read_file', {path: n + '.txt'}));\nreturn all",
        ),
        ("python", "[tools.call('read_file', {'path': f'{n}.txt'}) for n in range(10)]"),
        (
            "python",
            "result = []\nfor n in range(10):\n    result.append(tools.call('read_file', path=f'{n}.txt'))",
        ),
    ] {
        let before = inner(&host).len();
        assert_eq!(program(&host, language, code).await, json!(each), "{code}");
        let (outer, inner) = (host.finished().pop().unwrap(), inner(&host).split_off(before));
        assert_eq!(inner.len(), 10);
        for record in &inner {
            assert_eq!((&record["parent"], &record["root"]), (&outer["call"], &outer["call"]));
            assert_eq!(record["outcome"], "ok");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn what_is_started_together_runs_side_by_side_and_answers_in_its_order() {
    let builder = coding(&["read-file"]).file("a", "text");
    let host = builder.extend(|host| host.tool(pair())).build().await;
    for (language, code) in [
        (
            "javascript",
            "const all = ['pair', 'pair', 'no_such'].map(name => tools.start(name, {}));\nconst [a, b, c] = await Promise.allSettled([...all]);\nreturn [a.value, b.value, c.reason.kind]",
        ),
        (
            "python",
            "import asyncio\nresult = await asyncio.gather(tools.start('pair'), tools.start('pair', {}))\ntry:\n    await tools.start('no_such')\nexcept RuntimeError:\n    result.append(tools.error['kind'])",
        ),
    ] {
        let told = program(&host, language, code).await;
        assert_eq!(told, json!(["both", "both", "unknown-tool"]), "{language}");
    }
    let later = "await Promise.all([1, 2, 3].map(async n => (await tools.start('read_file', {path: 'a'})).content + n)).then(all => all.join())";
    assert_eq!(program(&host, "javascript", &format!("return {later}")).await, "text1,text2,text3");
    assert!(inner(&host).iter().all(|record| !record["parent"].is_null()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn what_is_wrong_with_one_call_costs_no_other_its_answer() {
    let host = coding(&["read-file"]).file("a", "text").build().await;
    for (language, code) in [
        (
            "javascript",
            r"const all = ['', 'read_file', '\ud800'].map(name => tools.start(name, {path: 'a'}));
            all.push(tools.start('read_file', () => 1), tools.start('read_file', {path: '\ud800'}));
            const told = await Promise.allSettled(all);
            return told.map(({value, reason}) => value?.content ?? reason.kind)",
        ),
        (
            "python",
            "import asyncio
async def told(*call):
    try:
        return (await tools.start(*call))['content']
    except RuntimeError:
        return tools.error['kind']
result = await asyncio.gather(told('', {}), told('read_file', {'path': 'a'}), told('\u{fffd}'), told('read_file', 1), told('read_file', []))",
        ),
    ] {
        let invalid = "invalid-arguments";
        let expected = json!(["unknown-tool", "text", "unknown-tool", invalid, invalid]);
        assert_eq!(program(&host, language, code).await, expected, "{language}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn what_is_listed_is_what_may_be_called() {
    let denied = "- {id: no, action: deny, scope: tool, match: {name: write-file}}\n- {id: allow, action: allow, scope: all}";
    let host = coding(&["read-file", "write-file"]).rules(denied).build().await;
    for (language, code) in [
        ("javascript", "tools.list().map(tool => [tool.name, tool.input_schema.type])"),
        ("python", "[[tool['name'], tool['input_schema']['type']] for tool in tools.list()]"),
    ] {
        assert_eq!(program(&host, language, code).await, json!([["read_file", "object"]]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_call_that_fails_raises_an_error_that_can_be_caught() {
    let denied = "- {id: no, action: deny, scope: tool, match: {name: write-file}}\n- {id: allow, action: allow, scope: all}";
    let host = coding(&["read-file", "write-file"]).rules(denied).build().await;
    for (call, code, kind) in [
        ("read_file, {path: 'gone'}", Value::Null, "file-not-found"),
        ("read_file, {pfad: 'gone'}", json!(-32602), "invalid-arguments"),
        ("write_file, {path: 'a', content: 'b'}", json!(-32011), "policy"),
        ("no_such, {}", json!(-32602), "unknown-tool"),
        ("run_code, {code: '1'}", json!(-32011), "overloaded"),
    ] {
        let (name, arguments) = call.split_once(", ").unwrap();
        let caught = format!(
            "try {{ tools.{name}({arguments}) }} catch (e) {{ [e.name, e.code, e.kind, e instanceof tools.ToolError && e instanceof Error] }}"
        );
        let expected = json!(["ToolError", code, kind, true]);
        assert_eq!(program(&host, "javascript", &caught).await, expected, "{call}");
    }
    let caught = "try:\n    tools.call('write_file', path='a', content='b')\nexcept RuntimeError as e:\n    result = [str(e), tools.error]";
    let told = program(&host, "python", caught).await;
    let (said, error) = (told[0].as_str().unwrap(), &told[1]);
    assert_eq!((&error["code"], &error["kind"]), (&json!(-32011), &json!("policy")));
    assert_eq!(said, format!("policy (-32011): {}", error["message"].as_str().unwrap()));
    for code in ["tools.no_such({})", "tools.start('no_such', {}); 5"] {
        let reply = host.call("run_code", json!({ "code": code })).await.unwrap();
        assert!(reply.is_error && text(&reply).contains("ToolError"), "{code}: {}", text(&reply));
    }
    let no_text = "try:\n    tools.call(5)\nexcept RuntimeError:\n    result = tools.error['kind']";
    assert_eq!(program(&host, "python", no_text).await, "unknown-tool");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_program_ends_at_its_own_time_with_all_that_it_called() {
    let host = coding(&[]).guest(&Guest::read("sleep-for-ever")).build().await;
    for (language, code) in [
        ("javascript", "try { tools['sleep-for-ever']({}) } catch (e) { e.kind }"),
        (
            "python",
            "try:\n    tools.call('sleep-for-ever')\nexcept RuntimeError as e:\n    result = 'timeout'",
        ),
    ] {
        let arguments = json!({"code": code, "language": language, "timeout_ms": 400});
        let outcome = within(code, host.call("run_code", arguments)).await.unwrap();
        assert_eq!(outcome.error_kind, Some("timeout"), "{language}: {outcome:?}");
    }
    assert!(inner(&host).iter().all(|record| record["outcome"] == "timeout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn long_arguments_are_refused_and_long_results_passed_on() {
    let builder = coding(&["write-file"]).extend(|host| host.tool(long()));
    let host = builder.build().await;
    assert_eq!(program(&host, "javascript", "tools.long({}).length").await, json!(LONG_BYTES));
    assert_eq!(program(&host, "python", "len(tools.call('long'))").await, json!(LONG_BYTES));
    let refused =
        "try { tools.write_file({path: 'a', content: 'x'.repeat(11 << 20)}) } catch (e) { e.kind }";
    assert_eq!(program(&host, "javascript", refused).await, "invalid-arguments");
    assert!(!host.workspace().join("a").exists());
    let whole = host.call("run_code", json!({"code": "tools.long({})"})).await.unwrap();
    assert!(whole.bytes() < LONG_BYTES / 8, "the outermost reply is cut: {}", whole.bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn programs_beside_each_other_wait_for_nobody_and_end() {
    let host = coding(&[]).guest(&Guest::read("answer")).calls_running(1).build().await;
    let many = |count: usize| {
        let all = format!(
            "await Promise.all(Array.from({{length: {count}}}, async () => tools.answer({{}})))"
        );
        json!({"code": format!("try {{ {all} }} catch (e) {{ return e.code }}")})
    };
    let ended = within("many", host.ask("run_code", many(NESTED_CALLS_MAX + 9))).await;
    assert_eq!(ended["result"], -32010);
    assert_eq!(inner(&host).len(), NESTED_CALLS_MAX + 9, "each leaves its record");
    let ended = within("too many", host.call("run_code", many(1_000))).await;
    assert_eq!(ended.unwrap_err().data["limit"], "tool_calls_max");
    let mut all = JoinSet::new();
    for _ in 0..20 {
        let host = host.host().clone();
        let one = call("run_code", json!({"code": "tools.answer({})"}));
        all.spawn(async move { host.call(one).await });
    }
    let all = within("all", all.join_all()).await;
    assert!(all.iter().all(|one| one.as_ref().is_ok_and(|reply| !reply.is_error)), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_secret_in_a_result_never_reaches_the_program() {
    const VALUE: &str = "the-value-of-the-secret";
    let host = coding(&["secret-reader"])
        .tool_file("secret-reader.wat", Guest::read("secret-reader").wat().as_bytes())
        .capabilities("secrets: {injection: environment}")
        .runtime_file(
            "version: 1\nprofiles: {sandbox-0: {tool_calls_max: 8, secrets: [{name: TOKEN}]}}",
        )
        .secrets(secrets(&[("TOKEN", VALUE)]))
        .build()
        .await;
    // Letter by letter, so that nothing that looks for it on the way out would find it.
    let told = program(&host, "javascript", "[...tools['secret-reader']({})].join(' ')").await;
    let spaced: Vec<String> = "[redacted:TOKEN]".chars().map(String::from).collect();
    assert_eq!(told, spaced.join(" "));
}
