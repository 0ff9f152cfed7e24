//! What MCP servers have beside tools, and what they ask of the clients that call them: the server of
//! the conformance suite's fixtures, bridged. Without a python3 the tests say so and pass.

use std::path::{Path, PathBuf};

use clawhost_tests::wait::block_until;
use clawhost_tests::{Cli, Client, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

const PYTHON: &str = "/usr/bin/python3";
/// A tool of the fixtures that asks for more.
const ASKS: &str = "test_input_required_result_request_state";
fn start(cli: &Cli, folder: &Path) -> Client {
    Client::new(cli.start(&["run", folder.to_str().unwrap(), "--stdio"]))
}

/// Asks as the stateless revision does, with a client that can do `capabilities`.
fn modern(client: &mut Client, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    client.ask(method, &params)
}

/// Asks until the tool `name` of the server is served.
fn until_served(client: &mut Client, name: &str) {
    let mut listed = || modern(client, "tools/list", json!({}), &json!({})).to_string();
    block_until(name, || listed().contains(name).then_some(()));
}

/// Begins a session of the older revisions, and waits for the tool `name`.
fn initialize(client: &mut Client, name: &str, capabilities: &Value) -> Value {
    let can = client.initialize(capabilities);
    block_until(name, || client.tools().to_string().contains(name).then_some(()));
    can
}

/// Returns a folder of documents that exposes `expose` of the fixtures under `rules`.
fn documents(cli: &Cli, expose: &Value, rules: &Value) -> Option<PathBuf> {
    if !Path::new(PYTHON).exists() {
        eprintln!("SKIPPED: there is no {PYTHON}");
        return None;
    }
    let folder = cli.here().canonicalize().unwrap().join("documents");
    std::fs::create_dir(&folder).unwrap();
    let fixtures = source_root().join("tests/conformance/mcp");
    std::fs::copy(fixtures.join("upstream.py"), folder.join("upstream.py")).unwrap();
    std::fs::copy(fixtures.join("servers.yaml"), folder.join("servers.yaml")).unwrap();
    let provider = json!({"protocol": "openai-compatible", "endpoint": "http://127.0.0.1:9/v1", "model": "none", "auth": {"type": "none"}});
    let tool = |name: &str| {
        let source = json!({"uri": format!("stdio://{PYTHON}"), "tool_name": name});
        json!({"inline": {"name": name.replace('_', "-"), "mcp_source": source}})
    };
    let claw = json!({"claw": "0.3.0", "kind": "Claw", "metadata": {"name": "exposes"}, "spec": {
        "identity": {"inline": {"personality": "Is tested.", "autonomy": "autonomous"}},
        "providers": [{"inline": provider}],
        "policies": [{"inline": {"name": "rules", "rules": rules}}],
        "tools": [tool("test_elicitation"), tool("test_missing_capability"), tool("test_input_required_result_request_state")],
    }});
    let server =
        json!({"command": PYTHON, "args": ["upstream.py"], "sandbox": "servers", "expose": expose});
    let runtime = json!({"version": 1, "tools": {"mcp_servers": {"fixtures": server}}});
    std::fs::write(folder.join("claw.json"), claw.to_string()).unwrap();
    std::fs::write(folder.join("clawhost.json"), runtime.to_string()).unwrap();
    Some(folder)
}

/// Returns a folder of documents with a server of the older revisions that asks, and may.
fn older(cli: &Cli) -> Option<PathBuf> {
    let folder = documents(cli, &json!([]), &everything())?;
    std::fs::copy(source_root().join("tests/servers/asks.py"), folder.join("asks.py")).unwrap();
    let server = json!({"command": PYTHON, "args": ["asks.py"], "sandbox": "servers", "expose": ["questions"], "internal_only": false, "secrets": [{"name": "HINT", "env": "HINT"}]});
    let runtime = json!({"version": 1, "tools": {"mcp_servers": {"older": server}}});
    std::fs::write(folder.join("clawhost.json"), runtime.to_string()).unwrap();
    let claw = std::fs::read_to_string(folder.join("claw.json")).unwrap();
    let mut claw: Value = serde_json::from_str(&claw).unwrap();
    claw["spec"]["tools"] = json!([]);
    std::fs::write(folder.join("claw.json"), claw.to_string()).unwrap();
    assert_eq!(cli.run_with(&["secrets", "set", "HINT"], "hunter2-hunter2").code, Some(0));
    Some(folder)
}

/// Has personal data refused at a boundary, by the runtime file of `folder`.
fn refuse_people(folder: &Path, boundary: &str) {
    let path = folder.join("clawhost.json");
    let mut runtime: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    runtime["filters"] =
        json!({"people": {"kinds": ["pii"], "boundaries": [boundary], "action": "block"}});
    std::fs::write(path, runtime.to_string()).unwrap();
}

fn everything() -> Value {
    json!([{"id": "everything", "action": "allow", "scope": "all"}])
}

fn named(list: &Value, key: &str) -> Vec<String> {
    let name = |item: &Value| item[key].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn resources_prompts_and_completions_of_a_server_are_served() {
    let cli = Cli::new(PROGRAM);
    let expose = json!(["resources", "prompts", "completions"]);
    let Some(folder) = documents(&cli, &expose, &everything()) else { return };
    let mut client = start(&cli, &folder);
    let hello = initialize(&mut client, ASKS, &json!({}));
    let listens = json!({"listChanged": true});
    assert_eq!(hello["capabilities"]["resources"], listens);
    assert_eq!(hello["capabilities"]["prompts"], listens);
    let resources = client.ask("resources/list", &json!({}))["result"]["resources"].clone();
    assert_eq!(named(&resources, "uri").len(), 3, "{resources}");
    let templates = client.ask("resources/templates/list", &json!({}))["result"].clone();
    assert_eq!(
        named(&templates["resourceTemplates"], "uriTemplate"),
        ["test://template/{id}/data"]
    );

    let read = |client: &mut Client, uri: &str| client.ask("resources/read", &json!({"uri": uri}));
    let text = read(&mut client, "test://static-text")["result"]["contents"].clone();
    let expected = json!([{"uri": "test://static-text", "mimeType": "text/plain", "text": "This is the content of test://static-text."}]);
    assert_eq!(text, expected);
    let image = read(&mut client, "test://static-binary")["result"]["contents"][0].clone();
    assert!(image["blob"].as_str().unwrap().starts_with("iVBOR"), "{image}");
    let one = read(&mut client, "test://template/7/data")["result"]["contents"][0].clone();
    assert!(one["text"].as_str().unwrap().contains("Data for ID: 7"), "{one}");
    let none = read(&mut client, "test://nowhere")["error"].clone();
    assert_eq!((&none["code"], &none["data"]["uri"]), (&json!(-32002), &json!("test://nowhere")));

    let prompts = client.ask("prompts/list", &json!({}))["result"]["prompts"].clone();
    assert!(named(&prompts, "name").contains(&"test_prompt_with_arguments".to_owned()));
    let get =
        json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}});
    let messages = client.ask("prompts/get", &get)["result"]["messages"].clone();
    let expected = json!([{"role": "user", "content": {"type": "text", "text": "Prompt with arguments: arg1='a', arg2='b'"}}]);
    assert_eq!(messages, expected);
    // What a server says of a request is said with its own code.
    let wrong = client.ask("prompts/get", &json!({"name": "test_prompt_with_arguments"}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert_eq!(wrong["error"]["data"]["server_error"], json!({"code": -32602}));
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let complete = json!({"ref": reference, "argument": {"name": "arg1", "value": "par"}});
    let values = client.ask("completion/complete", &complete)["result"]["completion"].clone();
    assert_eq!(values["values"], json!(["paris", "park", "party"]));

    drop(client);
    let log = cli.log();
    for tool in ["resources_read", "prompts_get", "completion_complete"] {
        assert!(log.contains(&format!("fixtures__{tool}")), "{tool} is not in the record");
    }
}

#[test]
fn what_policy_denies_is_neither_listed_nor_read() {
    let cli = Cli::new(PROGRAM);
    let rules = json!([
        {"id": "no", "action": "deny", "scope": "tool", "match": {"name": "fixtures-prompts-get"}},
        {"id": "everything", "action": "allow", "scope": "all"},
    ]);
    let Some(folder) = documents(&cli, &json!(["resources", "prompts"]), &rules) else { return };
    let mut client = start(&cli, &folder);
    initialize(&mut client, ASKS, &json!({}));
    let prompts = client.ask("prompts/list", &json!({}))["result"]["prompts"].clone();
    assert_eq!(prompts, json!([]));
    let refused = client.ask("prompts/get", &json!({"name": "test_simple_prompt"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let call =
        json!({"name": "fixtures__prompts_get", "arguments": {"name": "test_simple_prompt"}});
    assert_eq!(client.ask("tools/call", &call)["result"]["isError"], true);
    let resources = client.ask("resources/list", &json!({}))["result"]["resources"].clone();
    assert_eq!(named(&resources, "uri").len(), 3);
    // What nobody exposes completes nothing, and asks nothing.
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}});
    let values = client.ask("completion/complete", &complete)["result"]["completion"].clone();
    assert_eq!(values["values"], json!([]));
}

#[test]
fn what_another_command_line_exposes_waits_until_it_is_accepted() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = documents(&cli, &json!(["resources"]), &everything()) else { return };
    let path = folder.to_str().unwrap();
    let read = || cli.run(&["call", path, "fixtures__resources_read", "uri=test://static-text"]);
    let first = read();
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let runtime = folder.join("clawhost.json");
    let text = std::fs::read_to_string(&runtime).unwrap();
    std::fs::write(&runtime, text.replace("\"upstream.py\"", "\"upstream.py\",\"more\"")).unwrap();
    let changed = read();
    assert_ne!(changed.code, Some(0), "{}", changed.stdout);
    assert!(changed.stderr.contains("waits as well"), "{}", changed.stderr);
    assert_eq!(cli.run(&["pins", "accept", "fixtures"]).code, Some(0));
    assert_eq!(read().code, Some(0));
}

#[test]
fn a_server_asks_the_client_that_calls_it_where_that_is_granted() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = documents(&cli, &json!(["questions", "resources"]), &everything()) else {
        return;
    };
    let mut client = start(&cli, &folder);
    let (elicits, nothing) = (json!({"elicitation": {}}), json!({}));
    until_served(&mut client, ASKS);
    let call = |name: &str| json!({"name": name, "arguments": {}});
    let asked = modern(&mut client, "tools/call", call(ASKS), &elicits)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["confirm"]["params"]["message"], "Please confirm");
    let state = asked["requestState"].as_str().unwrap();
    let again = |state: &str| {
        let mut call = call(ASKS);
        call["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
        call["requestState"] = json!(state);
        call
    };
    let done = modern(&mut client, "tools/call", again(state), &elicits)["result"].clone();
    let text = done["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("state-ok"), "{done}");
    // The server refuses a state that is not its own, and the host one that is nobody's.
    for wrong in ["server:forged", "forged"] {
        let refused = modern(&mut client, "tools/call", again(wrong), &elicits);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let unable = modern(&mut client, "tools/call", call("test_missing_capability"), &nothing);
    assert_eq!(unable["error"]["code"], -32021, "{unable}");
}

#[test]
fn an_older_client_is_asked_while_its_call_waits() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = documents(&cli, &json!(["questions", "resources"]), &everything()) else {
        return;
    };
    let mut client = start(&cli, &folder);
    initialize(&mut client, ASKS, &json!({"elicitation": {}}));
    let call = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    client.request("tools/call", &call);
    let question = client.hear_of("elicitation/create");
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    let answer = json!({"action": "accept", "content": {"username": "a", "email": "b"}});
    client.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let done = client.answer()["result"].clone();
    assert!(done["content"][0]["text"].as_str().unwrap().contains("action=accept"), "{done}");
}

#[test]
fn an_older_server_asks_clients_of_both_eras_while_its_call_runs() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = older(&cli) else { return };
    let (tool, elicits) = ("older__ask_name", json!({"elicitation": {}}));
    let call = json!({"name": tool, "arguments": {}});
    let answer = |name: &str| json!({"action": "accept", "content": {"name": name}});
    // What a server knows of secrets, it tells no client.
    let asks = "What is your name? [redacted:HINT]";

    let mut older = start(&cli, &folder);
    initialize(&mut older, tool, &elicits);
    older.request("tools/call", &call);
    let question = older.hear_of("elicitation/create");
    assert_eq!(question["params"]["message"], asks, "{question}");
    older.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer("Ada")}));
    assert_eq!(older.answer()["result"]["content"][0]["text"], "Hello, Ada!");
    drop(older);

    let mut client = start(&cli, &folder);
    until_served(&mut client, tool);
    let asked = modern(&mut client, "tools/call", call.clone(), &elicits)["result"].clone();
    let question = &asked["inputRequests"]["question"];
    assert_eq!(question["params"]["message"], asks, "{asked}");
    let mut again = call.clone();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"question": answer("Grace")});
    let done = modern(&mut client, "tools/call", again.clone(), &elicits);
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Grace!", "{done}");
    let twice = modern(&mut client, "tools/call", again, &elicits);
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
    // A client that can be asked nothing is not asked.
    let done = modern(&mut client, "tools/call", call, &json!({}))["result"].clone();
    assert_eq!(done["content"][0]["text"], "Hello, nobody!", "{done}");
}

#[test]
fn what_a_client_answers_is_held_against_what_arguments_are() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = older(&cli) else { return };
    refuse_people(&folder, "arguments");
    let mut client = start(&cli, &folder);
    initialize(&mut client, "older__ask_name", &json!({"elicitation": {}}));
    for (name, greeted) in [("ann@corp.test", "Hello, nobody!"), ("Ada", "Hello, Ada!")] {
        client.begin("older__ask_name", &json!({}));
        let question = client.hear_of("elicitation/create");
        let answer = json!({"action": "accept", "content": {"name": name}});
        client.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        assert_eq!(client.answer()["result"]["content"][0]["text"], greeted);
    }
    drop(client);
    assert_eq!(cli.log().matches("personal-data").count(), 1, "{}", cli.log());
}

#[test]
fn what_a_client_brings_with_its_call_is_held_against_what_arguments_are() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = documents(&cli, &json!(["questions"]), &everything()) else { return };
    refuse_people(&folder, "arguments");
    let mut client = start(&cli, &folder);
    let elicits = json!({"elicitation": {}});
    until_served(&mut client, ASKS);
    let mut call = json!({"name": ASKS, "arguments": {}});
    let asked = modern(&mut client, "tools/call", call.clone(), &elicits)["result"].clone();
    call["requestState"] = asked["requestState"].clone();
    for (mail, is_error) in [("ann@corp.test", true), ("none", false)] {
        let content = json!({"ok": true, "mail": mail});
        call["inputResponses"] = json!({"confirm": {"action": "accept", "content": content}});
        let done = modern(&mut client, "tools/call", call.clone(), &elicits)["result"].clone();
        assert_eq!(done["isError"] == true, is_error, "{done}");
        assert_eq!(done["_meta"]["clawhost/code"] == -32011, is_error, "{done}");
    }
}

#[test]
fn progress_says_nothing_that_a_result_may_not() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = older(&cli) else { return };
    refuse_people(&folder, "result");
    let mut client = start(&cli, &folder);
    initialize(&mut client, "older__tell", &json!({}));
    for (message, told) in [("asks ann@corp.test", None), ("a\u{202e}b\u{1b}[2J", Some("ab[2J"))] {
        let call = json!({"name": "older__tell", "arguments": {"message": message}, "_meta": {"progressToken": "p"}});
        client.request("tools/call", &call);
        let progress = client.hear_of("notifications/progress")["params"].clone();
        assert_eq!(progress.get("message").and_then(Value::as_str), told, "{progress}");
        assert_eq!(client.answer()["result"]["content"][0]["text"], "told");
    }
    drop(client);
    assert_eq!(cli.log().matches("personal-data").count(), 1, "{}", cli.log());
}

#[test]
fn nobody_is_asked_anything_where_that_is_not_granted() {
    let cli = Cli::new(PROGRAM);
    let Some(folder) = documents(&cli, &json!([]), &everything()) else { return };
    let mut client = start(&cli, &folder);
    until_served(&mut client, ASKS);
    let call = json!({"name": ASKS, "arguments": {}});
    let refused =
        modern(&mut client, "tools/call", call, &json!({"elicitation": {}}))["result"].clone();
    assert_eq!(
        (&refused["isError"], &refused["_meta"]["clawhost/code"]),
        (&json!(true), &json!(-32010))
    );
    let read =
        modern(&mut client, "resources/read", json!({"uri": "test://static-text"}), &json!({}));
    assert_eq!(read["error"]["code"], -32602, "{read}");
}
