//! The command line, whole outputs at a time.

use clawhost_tests::{Cli, Guest, source_root};
use serde_json::{Value, json};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_clawhost-under-test");

const MANIFEST: &str = clawhost_tests::claw!(
    "snapshot",
    "autonomous",
    r#"      resource_limits: {timeout_ms: 2000}
  tools:
    - {name: read-file}
    - {name: write-file}
    - {name: answer}
    - {name: trap}
    - {name: spin}
    - {name: memory-bomb}
    - {name: wants-http}
  policies:
    - inline:
        name: rules
        rules:
          - {id: no-writing, action: deny, scope: tool, match: {name: write-file}, reason: read only today}
          - {id: rest, action: allow, scope: all}
"#
);

/// A folder with a manifest, a workspace, and good and hostile tools.
pub(crate) fn prepared() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("workspace/hello.txt", "hello\n");
    cli.write("clawhost.yaml", "version: 1\ntools: {directory: ./tools}\n");
    for name in ["answer", "trap", "spin", "memory-bomb", "wants-http"] {
        cli.write(&format!("tools/{name}.wat"), Guest::read(name).wat());
    }
    cli.write("tools/broken.wasm", b"\0asm");
    cli
}

/// Compares with a snapshot, without what differs from run to run.
fn compare(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"sha256:[0-9a-f]{64}", "sha256:[digest]");
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[digest]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[time]");
    settings.add_filter(r"\d{13}-\d+-\d+", "[chain]");
    // A table is as wide as its chains' names, which hold a process id.
    settings.add_filter(r"\[chain\] +", "[chain]  ");
    settings.add_filter(r"(?m)^ chain +", " chain    ");
    settings.add_filter(r"(?m)[ \t]+$", "");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn the_tools_of_a_manifest() {
    let cli = prepared();
    compare("tools__table", &cli.snapshot(&["tools"]));
    compare("tools__json", &cli.snapshot(&["tools", "--json"]));
    let empty = Cli::new(PROGRAM);
    compare("tools__embedded_default", &empty.snapshot(&["tools"]));
    assert!(!empty.here().join("workspace").exists(), "looking makes nothing");
}

#[test]
fn calls_and_their_exit_codes() {
    let cli = prepared();
    for (name, arguments, code) in [
        ("ok", &["read_file", "path=hello.txt"][..], 0),
        ("ok_json", &["read_file", r#"{"path": "hello.txt"}"#, "--json"], 0),
        ("ok_text", &["answer"], 0),
        ("bad_arguments", &["read_file", "path=hello.txt", "extra=1"], 2),
        ("no_pair", &["read_file", "hello.txt"], 2),
        ("unknown_tool", &["read_flie"], 2),
        ("denied_by_policy", &["write_file", "path=a", "content=b"], 4),
        ("denied_by_limit", &["memory-bomb"], 4),
        ("not_loaded", &["wants-http"], 4),
        ("tool_error", &["read_file", "path=absent.txt"], 5),
        ("outside", &["read_file", "path=../claw.yaml"], 5),
        ("crash", &["trap"], 5),
        ("timeout", &["spin"], 5),
    ] {
        let arguments = [&["call", "claw.yaml"], arguments].concat();
        let shown = cli.snapshot(&arguments);
        compare(&format!("call__{name}"), &shown);
        // What left the sandbox is refused by the host, by whichever of the two speaks.
        let codes = if name == "outside" { vec![4, 5] } else { vec![code] };
        assert!(codes.iter().any(|code| shown.contains(&format!("exit code {code}\n"))), "{shown}");
    }
}

#[test]
fn wrong_documents_and_command_lines() {
    let cli = prepared();
    cli.write("wrong.yaml", MANIFEST.replace("timeout_ms: 2000", "timeout_sm: 300"));
    compare(
        "call__wrong_document",
        &cli.snapshot(&["call", "wrong.yaml", "read_file", "path=hello.txt"]),
    );
    compare("validate__json", &cli.snapshot(&["validate", "wrong.yaml", "--json"]));
    std::fs::remove_file(cli.here().join("tools/broken.wasm")).unwrap();
    compare("validate__ok", &cli.snapshot(&["validate", "claw.yaml"]));
    compare("call__no_document", &cli.snapshot(&["call", "absent.yaml", "read_file"]));
    compare("usage__unknown_verb", &cli.snapshot(&["serve"]));
    compare("usage__nothing", &cli.snapshot(&[]));
    cli.write("clawhost.yaml", "version: 1\ntolls: {directory: ./tools}\n");
    compare("runtime_file__unknown_key", &cli.snapshot(&["tools", "claw.yaml"]));
}

#[test]
fn inspecting_a_component() {
    let cli = prepared();
    let word_count = source_root().join("host/examples/tools/word-count.wat");
    cli.write("word-count.wat", std::fs::read(word_count).unwrap());
    compare("inspect__table", &cli.snapshot(&["inspect", "word-count.wat"]));
    compare("inspect__json", &cli.snapshot(&["inspect", "word-count.wat", "--json"]));
    compare("inspect__manifest", &cli.snapshot(&["inspect", "word-count.wat", "--manifest"]));
    compare("inspect__wants_http", &cli.snapshot(&["inspect", "tools/wants-http.wat"]));
    compare("inspect__broken", &cli.snapshot(&["inspect", "tools/broken.wasm"]));
    for name in ["wrong-world", "wants-sockets"] {
        cli.write(&format!("{name}.wat"), Guest::read(name).wat());
        let shown = cli.snapshot(&["inspect", &format!("{name}.wat")]);
        compare(&format!("inspect__{}", name.replace('-', "_")), &shown);
    }
    let core = r#"(module (import "env" "log" (func)) (memory (export "memory") 1))"#;
    cli.write("core.wasm", wat::parse_str(core).unwrap());
    compare("inspect__core", &cli.snapshot(&["inspect", "core.wasm"]));
    compare("inspect__core_json", &cli.snapshot(&["inspect", "core.wasm", "--json"]));
    compare("inspect__core_manifest", &cli.snapshot(&["inspect", "core.wasm", "--manifest"]));
    compare("inspect__absent", &cli.snapshot(&["inspect", "absent.wasm"]));
}

#[test]
fn what_an_error_quotes_of_a_file_cannot_drive_a_terminal() {
    let cli = Cli::new(PROGRAM);
    cli.write("hostile.wat", "(component \u{1b}[2J\u{202e} (nonsense))");
    let run = cli.run(&["inspect", "hostile.wat"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(!run.stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", run.stderr);
    assert!(run.stderr.contains("does not parse"), "{:?}", run.stderr);
}

#[test]
fn what_an_error_quotes_of_the_command_line_is_one_line() {
    let cli = prepared();
    for arguments in [
        &["call", "--agent", "a\nB", "claw.yaml", "answer"][..],
        &["learn", "--agent", "a\nB", "claw.yaml", "answer"],
        &["call", "claw.yaml", "a\nB"],
        &["call", "claw.yaml", "answer", "a\nB"],
        &["call", "claw.yaml", "answer", "a\nB=1", "a\nB=1"],
        &["audit", "receipt", "a\nB"],
    ] {
        let run = cli.run(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.stderr);
        let first = run.stderr.lines().find(|line| line.starts_with("error")).unwrap();
        assert!(first.contains("a\\u{a}B"), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn what_an_error_quotes_of_a_files_name_is_one_line() {
    let cli = prepared();
    let name = "a\nerror: b\u{202e}\u{1b}[2J";
    let [json, wasm, yaml] = ["json", "wasm", "yaml"].map(|of| format!("{name}.{of}"));
    cli.write(name, "");
    cli.write(&yaml, "version: 1\n");
    cli.write(&format!("strange/{wasm}"), "no component");
    for words in [
        &["inspect", &json][..],
        &["inspect", &wasm],
        &["inspect", &yaml],
        &["import", name],
        &["compose", &wasm],
        &["compose", &yaml],
        &["compile", &json, "--out", "out"],
        &["validate", name],
        &["audit", "verify", "--log", name],
        &["secrets", "list", "--state", name],
        &["tools", "--state", name],
        &["tools", "--tools", "strange"],
        &["--directory", &json, "limits"],
    ] {
        let run = cli.run(words);
        assert_ne!(run.code, Some(0), "{words:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("a\\u{a}error: b\\u{202e}\\u{1b}[2J"),
            "{words:?}: {}",
            run.stderr
        );
        assert!(!run.stderr.contains("\nerror: b"), "{words:?}: {}", run.stderr);
        assert!(!run.stderr.contains(['\u{1b}', '\u{202e}']), "{words:?}: {:?}", run.stderr);
    }
}

#[test]
fn what_is_hidden_in_a_document_is_shown_and_the_caret_stays_where_it_belongs() {
    let cli = Cli::new(PROGRAM);
    let text = "claw: '0.3.0'\r\nkind: Sandbox\r\nmetadata: {name: x, annotations: {a: \"ä\u{202e}\u{ad}\"}, name: y}\r\n";
    cli.write("t.yaml", format!("{text}spec: {{level: wasm}} # \u{200b}"));
    let run = cli.run(&["validate", "t.yaml"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    let lines: Vec<&str> = run.stderr.lines().collect();
    let at = lines.iter().position(|line| line.contains("name: y")).unwrap();
    assert!(lines[at].contains("\"ä\\u{202e}\\u{ad}\"}"), "{}", run.stderr);
    assert!(lines[at + 3].ends_with("# \\u{200b}"), "{}", run.stderr);
    let column = |line: &str, of: &str| line.split_once(of).unwrap().0.chars().count();
    assert_eq!(column(lines[at], "name: y"), column(lines[at + 1], "^"), "{}", run.stderr);
    assert!(run.stderr.contains("t.yaml:3:46]"), "{}", run.stderr);
    assert!(!run.stderr.contains(['\r', '\u{ad}', '\u{202e}', '\u{200b}']), "{:?}", run.stderr);
}

#[test]
fn json_means_what_was_said_and_steers_no_terminal() {
    let cli = prepared();
    cli.write("workspace/hidden.txt", "a\u{202e}b\u{9b}2J\u{e0041}c");
    let run = cli.run(&["call", "claw.yaml", "read_file", "path=hidden.txt", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stdout.contains(['\u{202e}', '\u{9b}', '\u{e0041}']), "{:?}", run.stdout);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(told.to_string().contains("a\u{202e}b\u{9b}2J\u{e0041}c"), "{told}");
}

#[test]
fn what_the_command_line_has_wrong_is_quoted_visibly_and_in_colour() {
    let cli = Cli::new(PROGRAM);
    let hostile = "x\u{1b}[2J\nerror: y\u{202e}";
    for words in [
        &[hostile][..],
        &["limits", hostile],
        &["limits", &format!("--{hostile}")],
        &["stats", "--days", hostile],
        &["run", "--http", hostile],
    ] {
        let run = cli.command(words).env("CLICOLOR_FORCE", "1").output().unwrap();
        let text = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2), "{text}");
        assert!(text.contains("x\\u{1b}[2J\\u{a}error: y\\u{202e}"), "{words:?}: {text:?}");
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'), "{words:?}: {text:?}");
        assert!(text.starts_with("\u{1b}["), "{words:?}: {text:?}");
    }
    assert_eq!(cli.run(&["limits", "--help"]).code, Some(0));
}

#[test]
fn what_is_no_number_is_told_which_numbers_there_are() {
    let cli = Cli::new(PROGRAM);
    for (words, says) in [
        (&["stats", "--days", "x"][..], "a whole number from 1 to 366"),
        (&["stats", "--days", "0"], "a whole number from 1 to 366"),
        (&["registry", "show", "1.5"], "a whole number from 1 to"),
        (&["registry", "diff", "1", "99999999999999999999"], "a whole number from 1 to"),
        (&["registry", "pin", ""], "a whole number from 1 to"),
        (&["call", "m", "t", "--timeout-ms", "1s"], "a whole number from 1 to 3600000"),
    ] {
        let run = cli.run(words);
        assert_eq!(run.code, Some(2), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{words:?}: {}", run.stderr);
    }
    let mut wrap = cli.command(&["wrap", "--", "server"]);
    let run = wrap.env("CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS", "soon").output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(text.contains("a whole number from 1 to 3600000"), "{text}");
}

#[test]
fn what_inspect_prints_as_a_manifest_binds_the_component() {
    let cli = Cli::new(PROGRAM);
    let word_count = source_root().join("host/examples/tools/word-count.wat");
    cli.write("tools/word-count.wat", std::fs::read(word_count).unwrap());
    let sidecar = cli.run(&["inspect", "tools/word-count.wat", "--manifest"]);
    assert_eq!(sidecar.code, Some(0), "{}", sidecar.stderr);
    cli.write("tools/word-count.yaml", sidecar.stdout);
    let shown = cli.run(&["tools", "--tools", "tools", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["refused"], json!([]), "{shown}");
    assert!(shown["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "word_count"));
}

#[test]
fn what_is_done_with_a_secret_is_said_in_json() {
    let cli = prepared();
    let set = cli.run_with(&["secrets", "set", "API_TOKEN", "--json"], "a value of some length");
    assert_eq!(set.stdout.trim(), "{\n  \"set\": \"API_TOKEN\"\n}", "{}", set.stderr);
    let removed = cli.run(&["secrets", "remove", "API_TOKEN", "--json"]);
    assert_eq!(removed.stdout.trim(), "{\n  \"removed\": \"API_TOKEN\"\n}", "{}", removed.stderr);
}

#[test]
fn the_limits() {
    let cli = Cli::new(PROGRAM);
    let table = cli.run(&["limits"]).stdout;
    for limit in &*clawhost_core::limits::TABLE {
        assert!(table.contains(limit.name), "{} is missing", limit.name);
    }
    let json = cli.run(&["limits", "--json"]).stdout;
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), clawhost_core::limits::TABLE.len());
}

#[test]
fn the_audit_log_is_shown_verified_and_shows_tampering() {
    let cli = prepared();
    // Credentials, which every test starts with, are the trace of an earlier host.
    std::fs::remove_dir(cli.state().join("audit")).unwrap();
    compare("audit__gone", &cli.snapshot(&["audit", "verify"]));
    let unused = Cli::new(PROGRAM);
    std::fs::remove_dir_all(unused.state()).unwrap();
    compare("audit__empty", &unused.snapshot(&["audit", "verify"]));
    cli.run(&["call", "claw.yaml", "read_file", "path=hello.txt"]);
    cli.run(&["call", "claw.yaml", "write_file", "path=a", "content=b"]);
    compare("audit__verify", &cli.snapshot(&["audit", "verify"]));
    let shown: Value = serde_json::from_str(&cli.run(&["audit", "--json"]).stdout).unwrap();
    let outcomes: Vec<&str> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["ok", "policy"]);

    let logs = cli.logs();
    let text = std::fs::read_to_string(&logs[0]).unwrap();
    std::fs::write(&logs[0], text.replace("\"ok\"", "\"no\"")).unwrap();
    let run = cli.run(&["audit", "verify"]);
    assert_eq!(run.code, Some(7), "{}", run.stdout);
    compare("audit__tampered", &cli.snapshot(&["audit", "verify"]));
}

#[test]
fn what_only_looks_begins_no_log() {
    let cli = prepared();
    for (words, code) in [
        (&["tools", "claw.yaml"][..], 3),
        (&["explain", "claw.yaml", "answer"], 0),
        (&["explain", "claw.yaml", "no_such_tool"], 2),
        (&["doctor", "claw.yaml"], 6),
        (&["pins", "list"], 0),
        (&["pins", "diff"], 0),
        (&["pins", "accept", "nobody", "--dry-run"], 2),
        (&["quarantine", "list"], 0),
        (&["quarantine", "anomalies"], 0),
        (&["quarantine", "release", "read_file", "--reason", "x", "--dry-run"], 2),
    ] {
        let run = cli.run(words);
        assert_eq!(run.code, Some(code), "{words:?}: {}", run.stderr);
    }
    // The state folder is all the room that it takes, and it leaves nothing there.
    let mut look = cli.command(&["explain", "claw.yaml", "answer"]);
    let run = look.env("TMPDIR", "/no/such/folder").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut kept = std::fs::read_dir(cli.state()).unwrap().map(|one| one.unwrap().file_name());
    assert!(kept.all(|name| !name.to_string_lossy().starts_with('.')));
    assert!(cli.logs().is_empty(), "{:?}", cli.logs());
}

#[test]
fn a_call_that_is_never_made_leaves_a_log_that_holds_by_its_key() {
    let cli = prepared();
    cli.run(&["call", "claw.yaml", "read_file", "no_such_argument=1"]);
    let key = cli.run(&["audit", "key"]).stdout;
    let run = cli.run(&["audit", "verify", "--key", key.trim()]);
    assert_eq!((run.code, cli.logs().len()), (Some(0), 1), "{}", run.stdout);
}
