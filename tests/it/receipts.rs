//! Receipts: what a record says of a call, and that a recorded call comes to the same again.

use clawhost::audit::SigningKey;
use clawhost_tests::{Cli, Guest};
use serde_json::Value;

use crate::cli::PROGRAM;
use crate::web::{LOCAL, Tripwire};

const MANIFEST: &str = clawhost_tests::claw!(
    "receipts",
    "autonomous",
    r#"  tools:
    - {name: read-file, sandbox: claw://sandbox/fs-readonly}
    - {name: write-file, sandbox: claw://sandbox/workspace}
    - {name: list-directory, sandbox: claw://sandbox/fs-readonly}
    - {name: dice, sandbox: claw://sandbox/none}
    - {name: tick, sandbox: claw://sandbox/none}
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#
);

const RECORDS: &str = "version: 1\ntools: {directory: ./tools}\nprofiles:\n  none: {record: true}\n  \
     fs-readonly: {record: true}\n  workspace: {record: true}\n";

/// Answers with digits made of random numbers.
const DICE: &str = ";; imports: random
;;; call
(local $at i32)
(call $random (i64.const 16) (i32.const 6144))
(loop $next
  (i32.store8 offset=6160 (local.get $at) (i32.add (i32.const 48) (i32.and (i32.const 7)
    (i32.load8_u (i32.add (local.get $at) (i32.load (i32.const 6144)))))))
  (local.set $at (i32.add (local.get $at) (i32.const 1)))
  (br_if $next (i32.lt_u (local.get $at) (i32.const 16))))
(return (call $answer (i32.const 6160) (i32.const 16)))";

/// Answers with the last digits of the time.
const TICK: &str = ";; imports: clock
;;; call
(i64.store (i32.const 6160) (i64.or (i64.const 0x3030303030303030)
  (i64.and (i64.const 0x0707070707070707) (call $now))))
(return (call $answer (i32.const 6160) (i32.const 8)))";

fn prepared(config: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("clawhost.yaml", config);
    cli.write("workspace/hello.txt", "hello\n");
    cli.write("tools/dice.wat", Guest::parse("dice", DICE).wat());
    cli.write("tools/tick.wat", Guest::parse("tick", TICK).wat());
    cli
}

/// Makes a call and returns its record and its name.
fn called(cli: &Cli, words: &[&str]) -> (Value, String) {
    let run = cli.run(&[&["call", "claw.yaml"], words].concat());
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
    let shown = cli.run(&["audit", "--json"]);
    let all: Value = serde_json::from_str(&shown.stdout).unwrap();
    let record = all["events"].as_array().unwrap().last().unwrap().clone();
    let name = record["call"].as_str().unwrap().to_owned();
    (record, name)
}

#[test]
fn a_recorded_call_comes_to_the_same_again_with_nothing_granted_and_nothing_there() {
    let cli = prepared(RECORDS);
    let calls = [
        &["read_file", "path=hello.txt"][..],
        &["write_file", "path=new.txt", "content=once"],
        &["list_directory", "path=."],
        &["dice"],
        &["tick"],
    ];
    let names: Vec<String> = calls.iter().map(|words| called(&cli, words).1).collect();
    std::fs::remove_dir_all(cli.here().join("workspace")).unwrap();
    for (name, words) in names.iter().zip(calls) {
        let run = cli.run(&["replay", name, "claw.yaml", "--json"]);
        assert_eq!(run.code, Some(0), "{words:?}: {}{}", run.stdout, run.stderr);
        let told: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&told["equal"], &told["recorded"]), (&Value::Bool(true), &told["replayed"]));
        assert!(told["recorded"]["fuel"].as_u64().unwrap() > 0, "{told}");
    }
    assert!(!cli.here().join("workspace/new.txt").exists(), "it was written again");
    let said = cli.run(&["replay", &names[3], "claw.yaml"]).stdout;
    assert!(said.contains("they are equal"), "{said}");
    let longest = said.split_whitespace().map(str::len).max();
    assert_eq!(longest, Some("sha256:".len() + 12), "digests are for programs: {said}");
}

#[test]
fn a_call_over_http_comes_to_the_same_again_and_asks_nobody() {
    let server = Tripwire::plain();
    let cli = prepared(&format!(
        "version: 1\nprofiles: {{sandbox-0: {{record: true, ports: [{}]}}}}\n",
        server.port
    ));
    let own = "  tools:\n    - claw://local/tool/web-fetch";
    let manifest = MANIFEST.replacen("  tools:", own, 1);
    let network = format!("        {LOCAL}\n        filesystem:");
    cli.write("claw.yaml", manifest.replacen("        filesystem:", &network, 1));
    let url = format!("url={}", server.url("127.0.0.1"));
    let (record, name) = called(&cli, &["web_fetch", &url]);
    assert_eq!(server.hits(), 1, "{record}");
    let run = cli.run(&["replay", &name, "claw.yaml"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("they are equal"), "{}", run.stdout);
    assert_eq!(server.hits(), 1);
}

#[test]
fn a_receipt_says_what_the_call_could_touch_and_is_enough_to_replay_it() {
    let cli = prepared(RECORDS);
    let (record, name) = called(&cli, &["read_file", "path=hello.txt"]);
    let folder = cli.here().join("workspace");
    assert_eq!(record["grants"], format!("reads {}", folder.display()));
    for key in [
        "digest", "schema_digest", "policy", "rule_id", "arguments_digest", "result_digest",
        "fuel", "prev",
    ] {
        assert!(!record[key].is_null(), "{key}: {record}");
    }
    let (_, dice) = called(&cli, &["dice"]);
    let receipt = cli.run(&["audit", "receipt", &dice]).stdout;
    cli.write("receipt.json", &receipt);
    let again = cli.run(&["replay", "receipt.json", "--component", "tools/dice.wat"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    cli.write("receipt.json", receipt.replace("dice", "mice"));
    let altered = cli.run(&["replay", "receipt.json", "--component", "tools/dice.wat"]);
    assert_eq!(altered.code, Some(7), "{}", altered.stdout);
    assert_ne!(name, dice);
    std::fs::rename(cli.here().join("claw.yaml"), cli.here().join("other.yaml")).unwrap();
    cli.write("clawhost.yaml", "version: 1\nprofiles: {own: {record: true}}\n");
    let unnamed = cli.run(&["replay", &name]);
    assert_eq!(unnamed.code, Some(3), "{}", unnamed.stderr);
    assert!(unnamed.stderr.contains("name the manifest"), "{}", unnamed.stderr);
}

#[test]
fn a_call_of_a_log_that_was_altered_or_that_another_key_signed_is_shown_to_nobody() {
    let cli = prepared(RECORDS);
    let (_, name) = called(&cli, &["dice"]);
    let ran = |words: &[&str]| {
        let run = cli.run(words);
        (run.code, run.stdout + &run.stderr)
    };
    let replay = ["replay", &name, "claw.yaml"];
    assert_eq!(ran(&replay).0, Some(0));
    let own = cli.run(&["audit", "key"]).stdout;
    let foreign = SigningKey::from_seed(&[8; 32]).unwrap().public().to_string();
    assert_eq!(ran(&[&replay[..], &["--key", own.trim()]].concat()).0, Some(0));
    let (code, said) = ran(&[&replay[..], &["--key", &foreign]].concat());
    assert!(code == Some(7) && said.contains("under this key"), "{said}");
    let (chain, _) = name.split_once('/').unwrap();
    let log = cli.state().join(format!("audit/{chain}.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace("\"outcome\":\"ok\"", "\"outcome\":\"no\"")).unwrap();
    for words in [&replay[..], &["audit", "receipt", &name]] {
        let (code, said) = ran(words);
        assert!(code == Some(7) && said.contains("not the one that was signed"), "{said}");
        assert!(!said.contains("they are equal"), "{said}");
    }
}

#[test]
fn what_was_not_recorded_is_another_component_or_was_altered_is_said() {
    let cli = prepared(RECORDS);
    let (record, name) = called(&cli, &["dice"]);
    let replay = |name: &str| {
        let run = cli.run(&["replay", name, "claw.yaml"]);
        (run.code.unwrap(), run.stderr)
    };
    let other = DICE.replace("(i32.const 7)", "(i32.const 3)");
    let dice = cli.here().join("tools/dice.wat");
    cli.write("tools/dice.wat", Guest::parse("dice", &other).wat());
    let (code, why) = replay(&name);
    assert!(code == 3 && why.contains("another component"), "{code} {why}");
    cli.write("tools/dice.wat", Guest::parse("dice", DICE).wat());
    assert_eq!(replay(&name).0, 0, "{}", dice.display());
    let digest = record["recording"].as_str().unwrap().replace(':', "");
    let file = cli.state().join(format!("audit/recordings/{digest}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + " ").unwrap();
    let (code, why) = replay(&name);
    assert!(code == 7 && why.contains("altered"), "{code} {why}");
    std::fs::remove_file(&file).unwrap();
    assert!(replay(&name).1.contains("is not there"));
    cli.write("clawhost.yaml", "version: 1\ntools: {directory: ./tools}\n");
    let (record, name) = called(&cli, &["dice"]);
    assert!(record["recording"].is_null());
    let (code, why) = replay(&name);
    assert!(code == 2 && why.contains("was not recorded"), "{code} {why}");
}
