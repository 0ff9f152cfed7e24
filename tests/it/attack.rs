//! The escape lab from outside: `clawhost attack`, and the page of what it and the tests hold.

use std::collections::{BTreeMap, BTreeSet};

use clawhost_core::error::exit;
use clawhost_core::visible;
use clawhost_tests::host::text;
use clawhost_tests::{Cli, Guest, TestHost, guest, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// The profiles that a host comes with, and one with folders in folders.
const MANIFEST: &str = r#"claw: "0.3.0"
kind: Claw
metadata: {name: attacked}
spec:
  identity: {inline: {personality: Is attacked., autonomy: autonomous}}
  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  tools:
    - {name: read-file, sandbox: claw://sandbox/layers}
    - {name: web-fetch, sandbox: claw://sandbox/network}
    - {name: exec-shell, sandbox: claw://sandbox/process}
    - {name: key-value-store, sandbox: claw://sandbox/memory}
"#;
const LAYERS: &str = r#"claw: "0.3.0"
kind: Sandbox
metadata: {name: layers}
spec:
  level: wasm
  capabilities:
    filesystem:
      mode: scoped
      mount_paths: [{path: ./w, permissions: rw}, {path: ./w/kept, permissions: ro}]
      denied_paths: [./w/closed]
"#;

#[test]
fn every_attack_is_held_under_every_profile() {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("layers.yaml", LAYERS);
    cli.write("w/mine.txt", "stays as it is");
    let mut command = cli.command(&["attack", "claw.yaml", "layers.yaml", "--json"]);
    // Nobody may see it: it is in the environment of the host.
    let output = command.env("CANARY", "a-variable-of-the-host-itself").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().unwrap();
    let has_jail = clawhost::jail::support().available();
    let is_wrong = |finding: &&Value| match finding["result"].as_str().unwrap() {
        "held" => false,
        "cannot be tried" => has_jail || finding["profile"] != "process",
        _ => true,
    };
    let wrong: Vec<&Value> = findings.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected = if has_jail { exit::OK } else { exit::UPSTREAM };
    assert_eq!(output.status.code(), Some(i32::from(expected)));
    let profiles: BTreeSet<&str> =
        findings.iter().map(|finding| finding["profile"].as_str().unwrap()).collect();
    assert_eq!(profiles, BTreeSet::from(["layers", "memory", "network", "none", "process"]));
    // Each attack, and the record.
    assert_eq!(findings.len(), profiles.len() * (guest::attacks().len() + 1));
    // What is the user's is as it was, and nothing was put beside it.
    let mine: Vec<_> = std::fs::read_dir(cli.here().join("w")).unwrap().collect();
    assert_eq!(mine.len(), 1);
}

#[tokio::test]
async fn what_attacks_try_works_where_it_is_granted() {
    let workspace =
        |name: &str| TestHost::builder().guest(&Guest::read(name)).file("it", "granted");
    let ask = async |host: &TestHost, tool: &str, payload: &str| {
        let case = guest::Case { row: String::new(), payload: json!(payload) };
        host.call(tool, case.arguments(str::to_owned)).await.unwrap()
    };
    let host = workspace("reads-raw").build().await;
    assert_eq!(text(&ask(&host, "reads-raw", "it").await), "granted");
    let host = workspace("links-raw").build().await;
    assert_eq!(text(&ask(&host, "links-raw", "it").await), "granted");
    let host = workspace("writes-raw").build().await;
    ask(&host, "writes-raw", "new").await;
    assert!(host.workspace().join("new").is_file());
    let host = workspace("moves-raw").build().await;
    ask(&host, "moves-raw", "it").await;
    assert_eq!(std::fs::read_to_string(host.workspace().join("taken.txt")).unwrap(), "taken.txt");
    let host = workspace("removes-raw").build().await;
    ask(&host, "removes-raw", "it").await;
    assert!(host.workspace().join("it").is_dir());
    if clawhost::jail::support().available() {
        let host = workspace("runs-a-command").level("process").capabilities("shell: {mode: full}");
        let host = host.build().await;
        assert_eq!(text(&ask(&host, "runs-a-command", "cat it").await), "granted");
    }
    let host = workspace("keeps-under-a-path")
        .runtime_file("version: 1\nprofiles: {sandbox-0: {memory: true}}");
    let host = host.build().await;
    for said in ["keeps-under-a-path", "keep"] {
        assert_eq!(text(&ask(&host, "keeps-under-a-path", "a key").await), said);
    }
}

#[tokio::test]
async fn a_raw_request_reaches_this_machine_where_that_is_granted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = TestHost::builder().guest(&Guest::read("sends-raw"));
    let host = host
        .capabilities(
            "network: {mode: allowlist, allowed_hosts: [127.0.0.1], ssrf_protection: {block_private_ips: false}}",
        )
        .runtime_file(&format!("version: 1\nprofiles: {{sandbox-0: {{ports: [{port}]}}}}"))
        .build()
        .await;
    let case = guest::Case { row: String::new(), payload: json!(format!("127.0.0.1:{port}")) };
    drop(host.call("sends-raw", case.arguments(str::to_owned)).await);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok(), "nobody connected: {}", host.refused());
}

#[tokio::test]
async fn what_a_component_says_of_itself_hides_nothing() {
    let guest = Guest::read("hides-in-its-description");
    assert!(guest.wat().contains("\\e2\\80\\ae"), "it hides nothing");
    let host = TestHost::builder().guest(&guest).build().await;
    let tool = host.host().catalog().find(guest.tool()).cloned().unwrap();
    let said = &tool.definition.description;
    assert_eq!(visible::block(said), *said);
    assert!(said.starts_with("Answers. it "), "{said}");
}

#[tokio::test]
async fn the_same_call_uses_the_same_fuel() {
    let host = TestHost::builder()
        .guest(&Guest::read("searches-memory"))
        .guest(&Guest::read("answer"))
        .build()
        .await;
    for tool in ["searches-memory", "answer", "searches-memory", "answer"] {
        assert!(!host.call(tool, json!({})).await.unwrap().is_error);
    }
    let fuel: Vec<u64> =
        host.finished().iter().map(|record| record["fuel"].as_u64().unwrap()).collect();
    assert_eq!((fuel[0], fuel[1]), (fuel[2], fuel[3]));
    assert!(fuel[0] > fuel[1] && fuel[1] > 0, "{fuel:?}");
}

/// How many rows there are of each kind.
const ROWS: [(char, usize); 7] =
    [('C', 9), ('F', 32), ('W', 27), ('X', 20), ('N', 24), ('M', 33), ('D', 12)];

#[test]
fn every_row_is_held_or_says_why_not() {
    let page = std::fs::read_to_string(source_root().join("tests/escape.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = lines.map(|line| line.split(" | ").collect::<Vec<_>>());
    let rows: BTreeMap<&str, Vec<&str>> =
        cells.filter(|cells| cells[0] != "Row").map(|cells| (cells[0], cells)).collect();
    let ids = ROWS.iter().flat_map(|(kind, last)| (1..=*last).map(move |n| format!("{kind}{n}")));
    let ids: BTreeSet<String> = ids.collect();
    assert_eq!(rows.keys().map(|row| (*row).to_owned()).collect::<BTreeSet<_>>(), ids);
    for (row, cells) in &rows {
        let held_by = cells[2];
        if held_by.starts_with("no surface: ") || held_by.starts_with("not shown: ") {
            assert!(held_by.len() > 20, "{row} says nothing");
            continue;
        }
        let names: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row} is held by nothing");
        for name in names {
            assert!(is_there(name), "{row}: there is no {name}");
        }
    }
    for attack in guest::attacks() {
        for row in attack.rows {
            assert!(ids.contains(&row), "{}: there is no row {row}", attack.name);
        }
    }
}

/// Says whether there is what a page names: a guest, a test of `tests/it`, or a test of a file.
pub(crate) fn is_there(name: &str) -> bool {
    if let Some(guest) = name.strip_prefix("guests/") {
        return source_root().join(format!("tests/guests/{guest}.wat")).is_file();
    }
    let Some((place, test)) = name.split_once("::") else { return false };
    let file = match place.ends_with(".rs") {
        true => place.to_owned(),
        false => format!("tests/it/{place}.rs"),
    };
    let source = std::fs::read_to_string(source_root().join(file)).unwrap_or_default();
    source.contains(&format!("fn {test}("))
}
