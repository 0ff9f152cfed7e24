//! Catalogs that are searched rather than listed, and results that are read in pages.

use std::ffi::OsString;

use clawhost::approvals::Answer;
use clawhost::catalog::ToolDefinition;
use clawhost::host::{Principal, ToolCall, Turn};
use clawhost::secrets::Secrets;
use clawhost::{ToolError, ToolProvider, async_trait};
use clawhost_core::error::ErrorKind;
use clawhost_core::manifest::LimitSettings;
use clawhost_core::reply::ToolReply;
use clawhost_tests::TestHost;
use clawhost_tests::host::text;
use serde_json::{Value, json};

const SEARCH: &str = "version: 1\ntools: {catalog: search}";
const TOOLS: usize = 500;
/// About how many bytes of JSON a token of a model is.
const BYTES_PER_TOKEN: usize = 4;

/// Five hundred tools, as a large bridge has them.
struct Many;

#[async_trait]
impl ToolProvider for Many {
    fn namespace(&self) -> &str {
        "shop"
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        let things = ["order", "invoice", "customer", "parcel", "refund"];
        let verbs = ["create", "list", "update", "archive"];
        let tool = |at: usize| {
            let (verb, thing) = (verbs[at % 4], things[at / 4 % 5]);
            let description = format!(
                "Use this to {verb} one {thing} of the region number {} in the shop's own system.",
                at / 20
            );
            let schema = json!({"type": "object", "properties": {
                "id": {"type": "string", "description": format!("Which {thing}.")},
                "note": {"type": "string", "description": "What to remember of it."},
            }, "required": ["id"]});
            ToolDefinition::new(format!("{verb}_{thing}_{}", at / 20), description, schema)
        };
        (0..TOOLS).map(tool).collect()
    }

    async fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        Ok(json!({"did": name, "with": args}))
    }
}

/// Tools whose definitions are long.
struct Wordy;

#[async_trait]
impl ToolProvider for Wordy {
    fn namespace(&self) -> &str {
        "wordy"
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        let tool = |at: usize| {
            let description = "Handles an issue. ".repeat(200);
            ToolDefinition::new(format!("issue_{at}"), description, json!({"type": "object"}))
        };
        (0..30).map(tool).collect()
    }

    async fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        Ok(json!({"did": name, "with": args}))
    }
}

async fn shop(rules: &str) -> TestHost {
    let host = TestHost::builder().only(&[]).runtime_file(SEARCH).rules(rules);
    host.extend(|host| host.provider(Many)).build().await
}

const ALL: &str = "- {id: all, action: allow, scope: all}";

fn bytes(definitions: &[ToolDefinition]) -> usize {
    let shown = definitions.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema})
    });
    shown.map(|tool| tool.to_string().len()).sum()
}

#[tokio::test]
async fn five_hundred_tools_cost_a_few_hundred_tokens() {
    let host = shop(ALL).await;
    let catalog = host.host().catalog();
    let all: Vec<_> = catalog.tools().map(|tool| tool.definition.clone()).collect();
    let list = host.host().list(&Principal("test".to_owned()));
    let list: Vec<_> = list.iter().map(|tool| tool.definition.clone()).collect();
    let names: Vec<_> = list.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["call_tool", "find_tool"]);
    assert_eq!(all.len(), TOOLS + 2);
    let (few, many) = (bytes(&list) / BYTES_PER_TOKEN, bytes(&all) / BYTES_PER_TOKEN);
    println!("{TOOLS} tools: about {few} tokens instead of {many}");
    assert!(few < 300 && many > 20_000, "{few} of {many}");

    let found = host.ask("find_tool", json!({"query": "refund, region 7"})).await;
    assert_eq!(found["of"], TOOLS);
    let tools = found["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 5);
    let best = tools[0]["name"].as_str().unwrap();
    assert!(best.contains("refund") && best.ends_with("_7"), "{best}");
    assert_eq!(tools[0]["input_schema"]["required"], json!(["id"]));
    let answer = found.to_string().len() / BYTES_PER_TOKEN;
    println!("an answer of five: about {answer} tokens");
    assert!(answer < 800, "{answer}");
}

#[tokio::test]
async fn no_definition_of_an_answer_is_cut() {
    let host = TestHost::builder().only(&[]).runtime_file(SEARCH).rules(ALL);
    let host = host.extend(|host| host.provider(Wordy)).build().await;
    let query = json!({"query": "issue", "limit": 20});
    let reply = host.call("find_tool", query).await.unwrap();
    assert_eq!(reply.cut_from_bytes, None);
    let found = reply.structured.unwrap();
    let tools = found["tools"].as_array().unwrap();
    assert!((2..20).contains(&tools.len()), "{}", tools.len());
    assert_eq!(found["of"], 30);
}

#[tokio::test]
async fn what_is_found_is_what_may_be_called() {
    let rules = "\
- {id: no-refunds, action: deny, scope: tool, match: {name: shop-create-refund-*}}
- {id: rest, action: allow, scope: all}";
    let host = shop(rules).await;
    let off = Turn::Off { now: false };
    host.host().switch("shop__create_order_0", off, "operator", None).await.unwrap();
    let found = host.ask("find_tool", json!({"query": "create refund order", "limit": 20})).await;
    let names: Vec<_> = found["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|name| !name.contains("create_refund")), "{names:?}");
    assert!(!names.contains(&"shop__create_order_0"), "{names:?}");
    assert_eq!(found["of"], TOOLS - TOOLS / 20 - 1);
    for (tool, kind) in [
        ("shop__create_refund_0", ErrorKind::Policy),
        ("shop__create_order_0", ErrorKind::Disabled),
    ] {
        let given = json!({"name": tool, "arguments": {"id": "1"}});
        assert_eq!(host.call("call_tool", given).await.unwrap_err().kind, kind, "{tool}");
    }
}

#[tokio::test]
async fn a_call_by_call_tool_is_a_call_of_the_tool_itself() {
    let host = shop(ALL).await;
    let by = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let done = host.ask("call_tool", by("shop__list_parcel_3", json!({"id": "9"}))).await;
    assert_eq!(done, json!({"did": "list_parcel_3", "with": {"id": "9"}}));
    let wrong = host.call("call_tool", by("shop__list_parcel_3", json!({}))).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidArguments);
    assert!(wrong.message.contains("`shop__list_parcel_3`"), "{wrong}");
    let nobodys = host.call("call_tool", by("nothing", json!({}))).await.unwrap_err();
    assert_eq!(nobodys.kind, ErrorKind::UnknownTool);
    for bad in [json!({}), json!({"name": "x"}), json!({"name": 1, "arguments": {}}), json!([])] {
        let error = host.call("call_tool", bad.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArguments, "{bad}");
    }
    let inner = by("shop__list_parcel_3", json!({"id": "9"}));
    let once = by("call_tool", inner);
    assert_eq!(host.ask("call_tool", once.clone()).await["did"], "list_parcel_3");
    let twice = by("call_tool", by("call_tool", once));
    let cycle = host.call("call_tool", twice).await.unwrap_err();
    assert_eq!(cycle.data["limit"], "cycle", "{cycle:?}");
    host.check_audit();
    let records = host.records();
    let received = records.iter().filter(|record| record["event"] == "call.received");
    assert_eq!(received.clone().next().unwrap()["tool"], "shop__list_parcel_3");
}

#[tokio::test]
async fn what_is_wanted_of_call_tool_itself_is_not_passed_by() {
    let rules = format!(
        "- {{id: ask, action: require-approval, scope: tool, match: {{name: call-tool}}, approval: {{timeout_seconds: 1, default_if_timeout: deny}}}}\n{ALL}"
    );
    let host = shop(&rules).await;
    let given = json!({"name": "shop__list_parcel_3", "arguments": {"id": "9"}});
    let refused = host.call("call_tool", given).await.unwrap_err();
    let told = (&refused.data["stage"], &refused.data["tool"]);
    assert_eq!(told, (&json!("approval"), &json!("call-tool")), "{refused:?}");
}

#[tokio::test]
async fn a_rule_about_a_folder_sees_what_is_handed_on_by_call_tool() {
    let rules = "\
- {id: private, action: deny, scope: all, conditions: {path_within: /secret}}
- {id: rest, action: allow, scope: all}";
    let host = TestHost::builder().runtime_file(SEARCH).rules(rules);
    let host = host.file("a.txt", "a").file("secret/b.txt", "b").build().await;
    let read = |path: &str| json!({"name": "read_file", "arguments": {"path": path}});
    assert_eq!(host.ask("call_tool", read("a.txt")).await["content"], "a");
    let error = host.call("call_tool", read("secret/b.txt")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Policy);
}

#[tokio::test]
async fn a_supervised_identity_is_asked_about_the_tool_that_is_called_and_not_about_call_tool() {
    let host = TestHost::builder().autonomy("supervised").runtime_file(SEARCH).file("a.txt", "a");
    let host = host.build().await;
    let _reachable = host.host().approvals().reach().open();
    let by = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    host.ask("call_tool", by("read_file", json!({"path": "a.txt"}))).await;
    let given = json!({"path": "w.txt", "content": "w"});
    let begun = host.begin("call_tool", by("write_file", given.clone()));
    let asked = host.answer(Answer::Approve { lease: None }).await.asked;
    assert_eq!((asked.tool.as_str(), &asked.arguments), ("write-file", &given));
    assert!(!begun.await.unwrap().unwrap().is_error);
    assert!(host.workspace().join("w.txt").exists());
    host.check_audit();
}

/// Returns the tools that a person is asked about, one after the other, before a call by `call_tool` is done.
async fn asked_by(rules: &str) -> Vec<String> {
    let host = shop(rules).await;
    let _reachable = host.host().approvals().reach().open();
    let given = json!({"name": "shop__list_parcel_3", "arguments": {"id": "9"}});
    let mut begun = host.begin("call_tool", given);
    let mut asked = Vec::new();
    let done = loop {
        tokio::select! {
            done = &mut begun => break done.unwrap().unwrap(),
            // Not answered within the choice: the call may be done before it is known that it was answered.
            _ = host.asked(1) => {
                asked.push(host.answer(Answer::Approve { lease: None }).await.asked.tool.clone());
            }
        }
    };
    assert_eq!(done.structured.unwrap()["did"], "list_parcel_3");
    host.check_audit();
    asked
}

#[tokio::test]
async fn what_a_person_allows_call_tool_is_called() {
    let ask = |id: &str, of: &str| format!("- {{id: {id}, action: require-approval, {of}}}\n");
    let calls = ask("calls", "scope: tool, match: {name: call-tool}");
    let lists = ask("lists", "scope: tool, match: {name: 'shop-list-*'}");
    let all = ask("everything", "scope: all");
    let both = || vec!["call-tool", "shop-list-parcel-3"];
    for (rules, asked) in [
        (calls.clone() + ALL, vec!["call-tool"]),
        // One rule puts one question, about what is called.
        (all.clone(), vec!["shop-list-parcel-3"]),
        (calls.clone() + &lists + ALL, both()),
        (calls + &all, both()),
    ] {
        assert_eq!(asked_by(&rules).await, asked, "{rules}");
    }
}

#[tokio::test]
async fn where_the_search_is_off_its_tools_are_unknown() {
    let host = TestHost::builder().build().await;
    for tool in ["find_tool", "call_tool", "read_result"] {
        assert_eq!(host.call(tool, json!({})).await.unwrap_err().kind, ErrorKind::UnknownTool);
    }
}

const SECRET: &str = "value-of-the-test";

/// A host whose replies are small, with a long file that holds a secret in each line.
async fn long() -> TestHost {
    TestHost::builder()
        .file("long.txt", &(0..500).map(|at| format!("{at} \"{SECRET}\"\n")).collect::<String>())
        .capabilities("secrets: {injection: environment}")
        .runtime_file(
            "version: 1\nprofiles: {sandbox-0: {oversize: keep, secrets: [{name: TOKEN}]}}",
        )
        .secrets(Secrets::of_environment(|_| Some(OsString::from(SECRET))))
        .extend(|host| {
            let small = LimitSettings { reply_bytes_max: 4_096, ..LimitSettings::default() };
            host.limits(LimitSettings { calls_running_max: 8, ..small })
        })
        .build()
        .await
}

/// Returns the id under which the rest of a reply is kept.
fn kept(reply: &ToolReply) -> String {
    let said = text(reply);
    let kept = said.rsplit_once("read_result {\"id\": \"");
    let (_, id) = kept.unwrap_or_else(|| panic!("{said}"));
    id.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_cut_result_is_read_on_by_who_called_and_nobody_else() {
    let host = long().await;
    let reply = host.call("read_file", json!({"path": "long.txt"})).await.unwrap();
    assert!(reply.cut_from_bytes.is_some_and(|bytes| bytes > 10_000), "{reply:?}");
    let id = kept(&reply);
    let (mut offset, mut whole) = (0, String::new());
    loop {
        let page = host.call("read_result", json!({"id": id, "offset": offset})).await.unwrap();
        assert!(!page.is_error && page.cut_from_bytes.is_none(), "{page:?}");
        let said = text(&page);
        let (part, note) = said.rsplit_once('\n').unwrap();
        whole.push_str(part);
        let Some((_, next)) = note.split_once("read on at offset ") else { break };
        offset = next.trim_end_matches(']').parse().unwrap();
    }
    let from = async |offset: Value| {
        text(&host.call("read_result", json!({"id": id, "offset": offset})).await.unwrap())
    };
    assert_eq!(from(json!(4)).await, from(json!(4.0)).await);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let lines: Vec<_> = whole["content"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 500);
    // What is kept has no secret either.
    assert!(lines.iter().all(|line| line.ends_with("\"[redacted:TOKEN]\"")), "{lines:?}");

    let other = ToolCall::new(Principal("other".to_owned()), "read_result", json!({"id": id}));
    let other = host.host().call(other).await.unwrap();
    assert_eq!(other.error_kind, Some("not-found"));
    host.check_audit();
}
