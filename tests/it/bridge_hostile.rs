//! One server that tries what it can (`tests/servers/hostile.py`), as a real program under the command
//! line. It needs a python3.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use clawhost_tests::wait::block_until;
use clawhost_tests::{Cli, Client, source_root};
use serde_json::{Value, json};

use crate::bridge::{PYTHON, documents, skipped};
use crate::cli::PROGRAM;

const SECRET: &str = "correct-horse-battery";
const HIDES: [char; 4] = ['\u{1b}', '\u{200b}', '\u{202e}', '\u{e0041}'];

struct Hostile {
    cli: Cli,
    folder: PathBuf,
    work: PathBuf,
    tripwire: TcpListener,
}

impl Hostile {
    /// Returns a host's documents for that server, under `rules`.
    fn under(rules: &Value) -> Option<Self> {
        if !Path::new(PYTHON).exists() {
            skipped("there is no /usr/bin/python3");
            return None;
        }
        let cli = Cli::new(PROGRAM);
        let tripwire = TcpListener::bind("127.0.0.1:0").unwrap();
        tripwire.set_nonblocking(true).unwrap();
        let work = cli.here().canonicalize().unwrap().join("work");
        std::fs::create_dir(&work).unwrap();
        let script = work.join("server.py");
        std::fs::copy(source_root().join("tests/servers/hostile.py"), &script).unwrap();
        let address = tripwire.local_addr().unwrap().to_string();
        let entry = json!({
            "command": PYTHON, "args": [script, address], "internal_only": false, "sandbox": "servers",
            "secrets": [{"name": "KEY", "env": "KEY"}],
        });
        let folder = documents(&cli, &[(&work, "rw")], &json!({"s": entry}));
        let provider = json!({"protocol": "openai-compatible", "endpoint": "http://127.0.0.1:9/v1", "model": "none", "auth": {"type": "none"}});
        let claw = json!({"claw": "0.3.0", "kind": "Claw", "metadata": {"name": "hostile"}, "spec": {
            "identity": {"inline": {"personality": "Is tested.", "autonomy": "autonomous"}},
            "providers": [{"inline": provider}],
            "policies": [{"inline": {"name": "rules", "rules": rules}}],
            "tools": [],
        }});
        std::fs::write(folder.join("claw.json"), claw.to_string()).unwrap();
        assert_eq!(cli.run_with(&["secrets", "set", "KEY"], SECRET).code, Some(0));
        Some(Self { cli, folder, work, tripwire })
    }

    fn all() -> Option<Self> {
        Self::under(&json!([{"id": "all", "action": "allow", "scope": "all"}]))
    }

    /// Starts the host, and waits until it serves what it can of the server.
    fn start(&self, served: &str) -> Client {
        let path = self.folder.to_str().unwrap();
        let mut host = Client::start(&self.cli, &["run", path, "--stdio"]);
        block_until(served, || host.names().iter().any(|name| name == served).then_some(()));
        host
    }

    fn called(&self) -> String {
        std::fs::read_to_string(self.work.join("called")).unwrap_or_default()
    }
}

fn kind(result: &Value) -> &str {
    result["_meta"]["clawhost/kind"].as_str().unwrap_or_default()
}

#[test]
fn m4_m5_m6_what_it_says_of_its_tools_hides_nothing_and_has_an_end() {
    let Some(hostile) = Hostile::all() else { return };
    let mut host = hostile.start("s__strict");
    let list = host.tools().to_string();
    assert!(list.contains("s__poisoned") && list.len() < 200_000, "{}", list.len());
    // As JSON escapes them, too.
    for hidden in HIDES {
        assert!(!list.contains(hidden), "{hidden:?}");
    }
    assert!(!list.contains("\\u001b"), "{list}");
    for refused in ["hidden", "lines", "escape", "endless", "xxxx"] {
        assert!(!host.names().iter().any(|name| name.contains(refused)), "{refused}");
    }
    let told = hostile.cli.run(&["tools", hostile.folder.to_str().unwrap()]);
    assert!(!told.stdout.contains(HIDES) && !told.stderr.contains(HIDES), "{}", told.stderr);
}

#[test]
fn m7_its_hints_relax_nothing() {
    let reads = json!({"annotations": {"readOnlyHint": true}});
    let rules = json!([
        {"id": "safe", "action": "allow", "scope": "all", "match": reads},
        {"id": "strict", "action": "allow", "scope": "tool", "match": {"name": "s-strict"}},
    ]);
    let Some(hostile) = Hostile::under(&rules) else { return };
    let mut host = hostile.start("s__strict");
    assert_eq!(host.names(), ["s__strict"]);
    // What it takes is nothing for who may not call it.
    for (tool, wrong) in [("s__lies", json!({})), ("s__tells", json!([])), ("s__bomb", json!({}))] {
        let refused = host.call(tool, &wrong)["result"].clone();
        assert!(refused.is_null() || !kind(&refused).is_empty(), "{refused}");
    }
    assert_eq!(hostile.called(), "");
}

#[test]
fn m9_schemas_that_explode_or_lie_elsewhere_cost_nothing() {
    let Some(hostile) = Hostile::all() else { return };
    let mut host = hostile.start("s__strict");
    let slow = format!("{}!", "a".repeat(40));
    let refused = host.call("s__pattern", &json!({"a": slow}))["result"].clone();
    assert!(refused["isError"] == true || refused.is_null(), "{refused}");
    host.call("s__bomb", &json!({"a": [1]}));
    assert!(!host.names().contains(&"s__elsewhere".to_owned()));
    assert!(hostile.tripwire.accept().is_err(), "nobody was asked for a schema");
}

#[test]
fn m10_m11_what_does_not_fit_goes_in_neither_direction() {
    let Some(hostile) = Hostile::all() else { return };
    let mut host = hostile.start("s__strict");
    for wrong in [json!({}), json!({"n": "x"}), json!({"n": 1.5})] {
        let refused = host.call("s__strict", &wrong)["result"].clone();
        assert_eq!((kind(&refused), hostile.called().as_str()), ("invalid-arguments", ""));
    }
    let broken = host.call("s__breaks", &json!({}))["result"].clone();
    assert!(broken["isError"] == true && broken.get("structuredContent").is_none(), "{broken}");
    assert_eq!((kind(&broken), hostile.called().as_str()), ("invalid-result", "breaks\n"));
}

#[test]
fn m32_m33_the_record_holds_one_line_an_event_and_nobody_reads_a_secret() {
    let Some(hostile) = Hostile::all() else { return };
    let mut host = hostile.start("s__strict");
    let forged = format!("x\n{{\"event\":\"forged\"}}\u{202e}{SECRET}");
    for tool in ["s__tells", "s__fails", "mcp.s.tells", forged.as_str()] {
        let reply = host.call(tool, &json!({})).to_string();
        assert!(!reply.contains(SECRET) && !reply.contains('\u{1b}'), "{tool}: {reply}");
    }
    drop(host);
    let log = hostile.cli.log();
    assert!(!log.contains(SECRET) && !log.contains(HIDES), "{log}");
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.iter().all(|record| record["event"] != "forged"));
    let tools = records.iter().filter(|record| record["event"] == "call.received");
    let tools: Vec<&str> = tools.map(|record| record["tool"].as_str().unwrap()).collect();
    assert_eq!(tools[..3], ["s__tells", "s__fails", "s__tells"], "whatever it was called by");
    assert!(tools[3].starts_with("x\\u{a}"), "{tools:?}");
    assert_eq!(hostile.cli.run(&["audit", "verify"]).code, Some(0));
}

/// A caller who is not offered a tool learns nothing of what it takes.
#[test]
fn a_denied_tool_says_nothing_of_its_arguments() {
    let rules = json!([
        {"id": "no", "action": "deny", "scope": "tool", "match": {"name": "s-strict"}},
        {"id": "rest", "action": "allow", "scope": "all"},
    ]);
    let Some(hostile) = Hostile::under(&rules) else { return };
    let mut host = hostile.start("s__tells");
    let refused = host.call("s__strict", &json!({"n": "x"}))["result"].clone();
    assert_eq!(kind(&refused), "policy", "{refused}");
    assert!(!refused.to_string().contains("integer"), "{refused}");
}
