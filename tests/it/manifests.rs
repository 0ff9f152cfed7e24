//! Every document in tests/manifests: the valid ones load, the invalid ones are refused with
//! the file, the line and what would be right.

use clawhost_tests::{Cli, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// Returns the documents of a folder that stand alone: files, not what they refer to.
fn documents(folder: &str) -> Vec<String> {
    let folder = source_root().join("tests/manifests").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = entries
        .filter(|path| path.is_file())
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn stem(file: &str) -> String {
    let name = std::path::Path::new(file).file_name().unwrap();
    name.to_str().unwrap().replace('.', "-")
}

#[test]
fn every_valid_document_is_valid() {
    let cli = Cli::new(PROGRAM);
    for file in documents("valid") {
        let run = cli.run(&["validate", &file]);
        assert_eq!(run.code, Some(0), "{file}: {}", run.stderr);
        assert!(run.stdout.trim_end().ends_with("valid"), "{file}: {}", run.stdout);
    }
}

#[test]
fn every_invalid_document_is_refused_with_its_place_and_what_would_be_right() {
    let cli = Cli::new(PROGRAM);
    for file in documents("invalid") {
        let run = cli.run(&["validate", &file]);
        assert_eq!(run.code, Some(3), "{file}: {}{}", run.stdout, run.stderr);
        insta::assert_snapshot!(format!("invalid__{}", stem(&file)), cli.tidy(&run.stderr));
    }
}

#[test]
fn validating_and_running_refuse_alike() {
    let cli = Cli::new(PROGRAM);
    for file in documents("invalid") {
        let run = cli.run(&["tools", &file]);
        assert_eq!(run.code, Some(3), "{file} is served: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn every_problem_of_every_file_is_reported_at_once() {
    let cli = Cli::new(PROGRAM);
    let folder = source_root().join("tests/manifests/invalid");
    // Two of them are called the same as well.
    let files = ["unknown-key.yaml", "bad-name.yaml", "composite.yaml"]
        .map(|name| folder.join(name).to_str().unwrap().to_owned());
    let run = cli.run(&["validate", &files[0], &files[1], &files[2]]);
    assert_eq!(run.code, Some(3));
    for file in &files {
        assert!(run.stderr.contains(file.as_str()), "{file}: {}", run.stderr);
    }
    assert!(run.stderr.ends_with("4 problem(s)\n"), "{}", run.stderr);
    let run = cli.run(&["validate", "--json", &files[0], &files[1], &files[2]]);
    let said: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, said["valid"].as_bool()), (Some(3), Some(false)));
    assert_eq!(said["problems"].as_array().unwrap().len(), 4);
    for problem in said["problems"].as_array().unwrap() {
        assert!(problem["line"].as_u64().unwrap() > 1 && problem["help"].is_string(), "{problem}");
    }
}

#[test]
fn the_runtime_file_is_checked_with_the_documents() {
    let cli = Cli::new(PROGRAM);
    cli.write("tool.yaml", TOOL);
    cli.write("clawhost.yaml", "version: 1\nprofiles: { gone: { env: {} } }\n");
    let run = cli.run(&["validate", "tool.yaml"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("there is no sandbox profile `gone`"), "{}", run.stderr);
    cli.write("clawhost.yaml", "version: 1\nregistres: []\n");
    let run = cli.run(&["validate", "tool.yaml"]);
    assert!(run.stderr.contains("did you mean `registries`?"), "{}", run.stderr);
}

#[test]
fn what_is_valid_and_does_nothing_is_noted() {
    let cli = Cli::new(PROGRAM);
    let rest = r#"  tools: ["claw://local/tool/read-file"]
  sandbox: { inline: { level: wasm, capabilities: { filesystem: { mode: scoped, mount_paths: [{ path: ./gone, permissions: ro }] } } } }
"#;
    let rules = "  policies: [{ inline: { rules: [{ id: r, action: allow, scope: tool, match: { name: raed-file } }] } }]\n";
    cli.write("claw.yaml", format!("{CLAW}{rest}"));
    let run = cli.run(&["validate", "claw.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("there is no policy, so every call is denied"), "{}", run.stdout);
    cli.write("claw.yaml", format!("{CLAW}{rest}{rules}"));
    let run = cli.run(&["validate", "claw.yaml"]);
    for note in [
        "gone`: make it, or tools under the profile `sandbox-0` cannot be served",
        "the rule `r` of the policy `policy-0` is for `raed-file`, and no tool is called that; did you mean `read-file`?",
    ] {
        assert!(run.stdout.contains(note), "{}", run.stdout);
    }
    assert!(run.stdout.lines().count() == 3 && run.stdout.ends_with("valid\n"), "{}", run.stdout);
}

#[test]
fn what_is_probably_a_slip_is_noted() {
    let cli = Cli::new(PROGRAM);
    let rest = r#"  tools: ["claw://local/tool/raed-file", "claw://local/tool/own-thing"]
  sandbox: { inline: { level: wasm, capabilities: { filesystem: { mode: scoped, mount_paths: [{ path: ./a.txt, permissions: ro }] } } } }
  policies: [{ inline: { rules: [{ id: r, action: allow, scope: tool, match: { annotations: { readOnlyHint: true } } }, { id: d, action: deny, scope: tool, match: { annotations: { destructiveHint: true } } }] } }]
"#;
    cli.write("a.txt", "a");
    cli.write("claw.yaml", format!("{CLAW}{rest}"));
    let run = cli.run(&["validate", "claw.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for note in [
        "no built-in tool is called `raed-file`; did you mean `read-file`? Otherwise a component",
        "no built-in tool is called `own-thing`; a component in the tools folder has to offer it",
        "a.txt` is a file: mount the folder that holds it",
        "no document of yours declares `readOnlyHint` for any tool: what a component says",
    ] {
        assert!(run.stdout.contains(note), "{note}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("destructiveHint"), "{}", run.stdout);
}

#[test]
fn a_runtime_file_is_checked_as_what_it_is() {
    let cli = Cli::new(PROGRAM);
    cli.write("clawhost.yaml", "version: 1\nlimits: { calls_running_max: 2 }\n");
    let run = cli.run(&["validate", "clawhost.yaml"]);
    assert!(run.code == Some(0) && run.stdout.ends_with("valid\n"), "{}{}", run.stdout, run.stderr);
    cli.write("tool.yaml", TOOL);
    cli.write("clawhost.yaml", "version: 1\nprofiles: { gone: { env: {} } }\n");
    let run = cli.run(&["validate", "tool.yaml", "clawhost.yaml"]);
    assert!(run.stderr.contains("there is no sandbox profile `gone`"), "{}", run.stderr);
    for (line, key) in [
        ("state: ~/state", "state"),
        ("tools: { directory: $HOME/tools }", "tools.directory"),
        ("channels: { a: { file: \"${HOME}/m.jsonl\" } }", "channels.a.file"),
        ("audit: { syslog: ~/log }", "audit.syslog"),
    ] {
        cli.write("clawhost.yaml", format!("version: 1\n{line}\n"));
        let run = cli.run(&["validate", "clawhost.yaml"]);
        assert_eq!(run.code, Some(3), "{line}: {}", run.stdout);
        assert!(run.stderr.contains(&format!("`{key}` is `")), "{line}: {}", run.stderr);
        assert!(run.stderr.contains("not expanded"), "{line}: {}", run.stderr);
    }
}

const COUNTS: &str = r#"claw: "0.3.0"
kind: Tool
metadata: { name: word-count }
spec: { description: Counts., input_schema: { type: object }, annotations: { custom: true } }
"#;

/// A Claw whose rules are about a tool of the tools folder and what its document declares.
fn with_a_dropped_in_tool(document: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    let component = source_root().join("host/examples/tools/word-count.wat");
    cli.write("tools/word-count.wat", std::fs::read(component).unwrap());
    cli.write("tools/word-count.yaml", document);
    let rules = "  policies: [{ inline: { rules: [{ id: w, action: allow, scope: tool, match: { name: word-count } }, { id: c, action: allow, scope: tool, match: { annotations: { custom: true } } }, { id: h, action: allow, scope: tool, match: { annotations: { readOnlyHint: true } } }] } }]\n";
    cli.write("claw.yaml", format!("{CLAW}  tools: [\"claw://local/tool/read-file\"]\n{rules}"));
    cli
}

#[test]
fn notes_know_what_the_tools_folder_and_the_host_itself_offer() {
    let cli = with_a_dropped_in_tool(COUNTS);
    let bare = cli.run(&["validate", "claw.yaml"]);
    assert!(bare.stdout.contains("no tool is called that"), "{}", bare.stdout);
    let run = cli.run(&["validate", "claw.yaml", "--tools", "tools"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "valid\n"), "{}", run.stderr);
    cli.write("clawhost.yaml", "version: 1\ntools: { directory: ./tools }\n");
    let run = cli.run(&["validate", "claw.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "valid\n"), "{}", run.stderr);
}

/// Nothing is started to validate documents, so nobody knows what a server has.
#[test]
fn a_rule_for_a_servers_tool_is_no_slip_of_the_pen() {
    let cli = Cli::new(PROGRAM);
    let servers = "{ files: { command: sh, sandbox: none, internal_only: false } }";
    cli.write("clawhost.yaml", format!("version: 1\ntools: {{ mcp_servers: {servers} }}\n"));
    let rules = |name: &str| {
        format!(
            "  policies: [{{ inline: {{ rules: [{{ id: w, action: deny, scope: tool, match: {{ name: {name} }} }}] }} }}]\n"
        )
    };
    for (name, is_noted) in [("files-write*", false), ("fil*", false), ("web-crawl", true)] {
        cli.write("claw.yaml", format!("{CLAW}{}", rules(name)));
        let run = cli.run(&["validate", "claw.yaml"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(run.stdout.contains("no tool is called that"), is_noted, "{}", run.stdout);
    }
}

#[test]
fn a_keyword_of_a_schema_that_is_nearly_another_is_noted_in_every_document() {
    let misspelt = COUNTS.replace("type: object", "type: object, require: [text]");
    let cli = with_a_dropped_in_tool(&misspelt);
    cli.write("tool.yaml", misspelt.replace("word-count", "read-file"));
    for args in [vec!["claw.yaml", "--tools", "tools"], vec!["tool.yaml"]] {
        let run = cli.run(&[vec!["validate"], args].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let note = ".yaml:4: `require` is no keyword of JSON Schema and restricts nothing; did you mean `required`?";
        assert!(run.stdout.contains(note), "{}", run.stdout);
    }
}

#[test]
fn an_argument_that_claude_does_not_take_is_noted() {
    let cli = Cli::new(PROGRAM);
    let argument = "  input_schema: {type: object, properties: {\"a b\": {type: string}}}\n";
    let tool =
        "claw: \"0.3.0\"\nkind: Tool\nmetadata: {name: read-file}\nspec:\n  description: Reads.\n";
    cli.write("tool.yaml", format!("{tool}{argument}"));
    let run = cli.run(&["validate", "tool.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("`read-file` has the argument \"a b\""), "{}", run.stdout);
}

#[test]
fn a_name_that_two_files_offer_is_a_problem_of_both() {
    let cli = with_a_dropped_in_tool(COUNTS);
    let first = std::fs::read(cli.here().join("tools/word-count.wat")).unwrap();
    cli.write("tools/words.wat", first);
    let run = cli.run(&["validate", "claw.yaml", "--tools", "tools"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    for part in ["tools/words.wat", "`word-count.wat` has it too", "`words.wat` has it too"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn a_name_that_is_a_built_in_tool_s_is_a_problem_of_its_file_unless_that_may_have_it() {
    let cli = with_a_dropped_in_tool(COUNTS);
    let component = r#"(component (core module $m (func (export "f") (param i32)))
        (core instance $i (instantiate $m))
        (func $f (param "a" u32) (canon lift (core func $i "f")))
        (export "calculator" (func $f)))"#;
    cli.write("tools/counts.wat", component);
    let validated = || cli.run(&["validate", "claw.yaml", "--tools", "tools"]);
    let run = validated();
    let told = run.stderr.contains("tools/counts.wat");
    assert_eq!((run.code, told), (Some(3), true), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("the name is a built-in tool's"), "{}", run.stderr);
    cli.write("clawhost.yaml", "version: 1\ntools: { replace_builtins: [calculator] }\n");
    assert_eq!(validated().code, Some(0));
}

#[test]
fn a_wrong_document_of_a_component_is_shown_in_its_lines_by_every_verb() {
    let cli =
        with_a_dropped_in_tool(&COUNTS.replace("annotations: {", "sandbox: none, anotations: {"));
    cli.write("tools/stray.yaml", COUNTS);
    for (verb, code) in [("validate", 3), ("tools", 3)] {
        let run = cli.run(&[verb, "claw.yaml", "--tools", "tools"]);
        assert_eq!(run.code, Some(code), "{verb}: {}{}", run.stdout, run.stderr);
        for part in [
            "tools/word-count.yaml:4:", "did you mean `annotations`?", "unknown key `sandbox`",
            "no component here",
        ] {
            assert!(run.stderr.contains(part), "{verb}: {part}: {}", run.stderr);
        }
        assert!(!run.stdout.contains("refused:"), "{verb}: {}", run.stdout);
    }
    let run = cli.run(&["doctor", "claw.yaml", "--tools", "tools", "--json"]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let refused: Vec<_> = findings.iter().filter(|finding| finding["about"] == "tool").collect();
    assert_eq!(refused.len(), 2, "{report}");
    assert!(refused.iter().all(|finding| finding["standing"] == "missing"), "{report}");
}

#[test]
fn what_the_runtime_file_names_has_to_be_there() {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", CLAW);
    for (line, parts) in [
        ("directory: ./gone", ["clawhost.yaml:2:21", "there is no folder `gone`"]),
        ("replace_builtins: [raed_file]", ["clawhost.yaml:2:28", "did you mean `read_file`?"]),
    ] {
        cli.write("clawhost.yaml", format!("version: 1\ntools: {{ {line} }}\n"));
        for verb in ["validate", "tools", "doctor"] {
            let run = cli.run(&[verb, "claw.yaml"]);
            assert_eq!(run.code, Some(3), "{verb} {line}: {}", run.stdout);
            assert!(parts.iter().all(|part| run.stderr.contains(part)), "{verb}: {}", run.stderr);
        }
    }
}

#[test]
fn the_runtime_file_beside_the_manifest_is_found_under_each_of_its_names() {
    for (name, text) in [
        ("clawhost.yml", "version: 1\nprofiles: { gone: {} }\n"),
        ("clawhost.json", "{\"version\": 1, \"profiles\": {\"gone\": {}}}"),
    ] {
        let cli = Cli::new(PROGRAM);
        cli.write("claw.yaml", CLAW);
        cli.write(name, text);
        let run = cli.run(&["validate", "claw.yaml"]);
        assert_eq!(run.code, Some(3), "{name}: {}", run.stdout);
        assert!(run.stderr.contains("there is no sandbox profile `gone`"), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("{name}:")), "{}", run.stderr);
    }
}

#[test]
fn standard_input_is_no_document() {
    let cli = Cli::new(PROGRAM);
    let run = cli.run(&["validate", "-"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("write the document into a file, and name that"), "{}", run.stderr);
}

const TOOL: &str = r#"claw: "0.3.0"
kind: Tool
metadata: { name: a-tool }
spec: { description: Does something., input_schema: { type: object } }
"#;

const CLAW: &str = r#"claw: "0.3.0"
kind: Claw
metadata: { name: test-agent }
spec:
  identity: { inline: { personality: Tests., autonomy: autonomous } }
  providers:
    - inline: { protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: { type: none } }
"#;

#[test]
fn several_claws_are_checked_one_by_one() {
    let cli = Cli::new(PROGRAM);
    cli.write("a/claw.yaml", CLAW);
    cli.write("b/claw.yaml", CLAW);
    cli.write("tool.yaml", TOOL);
    let files = ["validate", "a/claw.yaml", "tool.yaml", "b/claw.yaml"];
    let run = cli.run(&files);
    assert!(
        run.code == Some(0) && run.stdout.ends_with("\nvalid\n"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    cli.write("b/claw.yaml", format!("{CLAW}  toools: []\n"));
    cli.write("tool.yaml", format!("{TOOL}more: 1\n"));
    let run = cli.run(&files);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.ends_with("2 problem(s)\n"), "{}", run.stderr);
}

/// A pattern reads nothing outside the manifest's directory, through files that are links or
/// through directories that are; a file that is named by itself is the operator's own choice.
#[test]
fn a_pattern_follows_no_link_out_of_the_manifests_directory() {
    let cli = Cli::new(PROGRAM);
    cli.write("elsewhere/tool.yaml", TOOL);
    cli.write("m/inside/tool.yaml", TOOL);
    let here = cli.here();
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(here.join(to), here.join(at)).unwrap();
    };
    std::fs::create_dir_all(here.join("m/files")).unwrap();
    link("elsewhere/tool.yaml", "m/files/linked.yaml");
    link("elsewhere", "m/folder");
    link("m/inside/tool.yaml", "m/inner.yaml");
    for (tools, code, says) in [
        ("files/*.yaml", 3, "leads out of the manifest's directory"),
        ("folder/*.yaml", 3, "matches no file"),
        ("**/tool.yaml", 0, "valid"),
        ("inner*.yaml", 0, "valid"),
        ("./files/linked.yaml", 0, "valid"),
    ] {
        cli.write("m/claw.yaml", format!("{CLAW}  tools: [\"{tools}\"]\n"));
        let run = cli.run(&["validate", "m/claw.yaml"]);
        assert_eq!(run.code, Some(code), "{tools}: {}{}", run.stdout, run.stderr);
        assert!(format!("{}{}", run.stdout, run.stderr).contains(says), "{tools}: {}", run.stderr);
    }
}

/// Aliases are for manifests: whatever a host says on a wire, in logs of calls or in lists is
/// canonical.
#[test]
fn no_alias_leaves_the_host() {
    let cli = Cli::new(PROGRAM);
    cli.write("workspace/hello.txt", "hello");
    let rest = r#"  tools:
    - { name: read-file, sandbox: "claw://sandbox/fs-readonly", policy: "claw://policy/policy-0" }
    - "claw://tool/list-directory"
    - inline: { name: absent, description: d, input_schema: {}, sandbox_ref: "claw://sandbox/none" }
  sandbox: "claw://sandbox/workspace"
  policies:
    - inline: { rules: [{ id: reads, action: allow, scope: tool, match: { name: read-file } }] }
"#;
    cli.write("claw.yaml", format!("{CLAW}{rest}"));
    let context =
        json!({"request_id": "00000000-0000-0000-0000-000000000001", "identity": "test-agent"});
    let claw_call = |id: i64, name: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "claw.tool.call", "params":
            {"name": name, "arguments": {"path": "hello.txt"}, "context": context}})
    };
    let call = |id: i64, name: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params":
            {"name": name, "arguments": {"path": "hello.txt"}}})
    };
    let claw = json!({"kind": "Claw", "metadata": {"name": "test-agent"}, "spec": {
        "identity": {"inline": {"personality": "Tests."}},
        "providers": [{"inline": {"protocol": "custom", "endpoint": "http://localhost:1", "model": "m", "auth": {"type": "none"}}}]}});
    let input: String = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "claw.initialize", "params": {
            "protocolVersion": "0.3.0", "clientInfo": {"name": "t", "version": "0"}, "manifest": claw, "capabilities": {}}}),
        json!({"jsonrpc": "2.0", "method": "claw.initialized"}),
        claw_call(2, "read-file"),
        claw_call(3, "list-directory"),
        claw_call(4, "claw://local/tool/read-file"),
        json!({"jsonrpc": "2.0", "id": 5, "method": "claw.swarm.discover", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}),
        call(8, "read_file"),
        call(9, "list_directory"),
        call(10, "nobody"),
    ]
    .iter()
    .map(|message| format!("{message}\n"))
    .collect();
    let run = cli.run_with(&["run", "claw.yaml", "--stdio"], &input);
    assert!(run.stdout.lines().count() >= 10, "{}{}", run.stdout, run.stderr);
    let listed = cli.run(&["tools", "claw.yaml", "--json"]);
    assert!(listed.stdout.contains("claw://local/tool/read-file"), "{}", listed.stdout);
    for text in [&run.stdout, &listed.stdout, &cli.log()] {
        for address in text.split("claw://").skip(1) {
            let canonical = address.starts_with("local/") || address.starts_with("registry/");
            assert!(canonical, "claw://{address}");
        }
    }
}
