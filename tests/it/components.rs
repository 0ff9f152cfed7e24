//! Any component is a tool: functions of a world of its own, WASI commands, programs for preview 1;
//! hostile ones end as tools of our own world do.
//!
//! The examples in other languages are tested where `guest-tools/examples/build.sh` has built them.

use std::path::PathBuf;

use clawhost_core::error::ErrorKind;
use clawhost_tests::host::text;
use clawhost_tests::{Cli, TestHost, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

fn example(path: &str) -> PathBuf {
    source_root().join("guest-tools/examples").join(path)
}

fn by_hand(name: &str) -> Vec<u8> {
    std::fs::read(example(&format!("wat/{name}.wat"))).unwrap()
}

async fn serving(files: &[(&str, &[u8])]) -> TestHost {
    let builder = TestHost::builder();
    files
        .iter()
        .fold(builder, |builder, (name, bytes)| builder.tool_file(name, bytes))
        .build()
        .await
}

#[tokio::test]
async fn each_exported_function_is_a_tool() {
    let host = serving(&[("functions.wat", &by_hand("functions"))]).await;
    assert_eq!(host.refused(), "");
    let served = |name: &str| host.host().catalog().find(name).cloned().unwrap();
    for name in ["add", "text_echo", "text_half"] {
        assert_eq!(served(name).grants.profile, "none", "{name}");
    }
    assert!(host.host().catalog().find("take").is_none(), "it takes a resource");
    assert_eq!(served("add").definition.description, "Adds two numbers.");
    assert_eq!(host.ask("add", json!({"a": 40, "b": 2})).await, json!({"result": 42}));
    let long = "ä🦀\u{0}".repeat(1_500);
    assert_eq!(host.ask("text-echo", json!({"text": long})).await["result"], long.as_str());
    assert_eq!(host.ask("text_half", json!({"of": 8})).await, json!({"result": 4}));
    let odd = host.call("text_half", json!({"of": 3})).await.unwrap();
    assert!(odd.is_error && text(&odd) == "odd" && odd.structured.is_none(), "{odd:?}");
    for wrong in [json!({"a": 1}), json!({"a": 1, "b": -1}), json!({"a": 1, "b": 2, "c": 3})] {
        let error = host.call("add", wrong).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArguments);
    }
    host.check_audit();
}

#[test]
fn the_program_compiles_in_a_process_of_its_own_what_it_then_runs() {
    let cli = Cli::new(PROGRAM);
    let file = example("wat/functions.wat");
    let inspected = cli.run(&["-vv", "inspect", file.to_str().unwrap()]);
    assert_eq!(inspected.code, Some(0), "{}", inspected.stderr);
    if clawhost::jail::support().available() {
        assert!(inspected.stderr.contains("the compiler has ended"), "{}", inspected.stderr);
    }
    assert_eq!(
        inspected.stderr.contains("compiles by itself"),
        !clawhost::jail::support().available()
    );
    // As whoever has a broken component and no host sees it.
    let refused = cli.run_with(&["compile-component"], "no component");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(3), ""), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}

#[tokio::test]
async fn programs_take_arguments_and_input_and_answer_with_output_and_exit_code() {
    let (program, command) = (by_hand("program"), by_hand("command"));
    let host = serving(&[("copy-it.wat", &program), ("hello.wat", &command)]).await;
    assert_eq!(host.refused(), "");
    let said = host.ask("hello", json!({})).await;
    assert_eq!(said, json!({"stdout": "hello\n", "stderr": "", "exit_code": 0}));
    let input = "line\n".repeat(4_000);
    let copied = host.ask("copy_it", json!({"stdin": input})).await;
    assert_eq!(copied["stdout"], input.as_str());
    let failed = host.call("copy_it", json!({"args": ["-x"], "stdin": "a"})).await.unwrap();
    assert_eq!((failed.is_error, failed.error_kind), (true, Some("exit")));
    let expected = json!({"stdout": "a", "stderr": "arguments\n", "exit_code": 1});
    assert_eq!(failed.structured, Some(expected));
    // Nothing of a call is left for the next one.
    assert_eq!(host.ask("copy_it", json!({})).await["stdout"], "");
    let error = host.call("copy_it", json!({"args": "-x"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn a_program_is_called_like_its_file_or_not_at_all() {
    let host = serving(&[("no tool name.wat", &by_hand("program"))]).await;
    assert!(host.refused().contains("tool name"), "{}", host.refused());
}

/// A component whose function `f` is `code`, with a memory and results of the type `result`.
fn lying(result: &str, code: &str) -> String {
    format!(
        r#"(component
        (core module $m (memory (export "memory") 2 1024) (data (i32.const 0) "\ff\fe")
          (func $fill (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
          (func (export "f") (result i32) {code} (i32.const 65536)))
        (core instance $i (instantiate $m))
        (alias core export $i "memory" (core memory $memory))
        (type $flags (flags {FLAGS})) (export $named "flags" (type $flags))
        (func $f (result {result}) (canon lift (core func $i "f") (memory $memory)))
        (export "f" (func $f) (func (result {result}))))"#
    )
}

/// As many flags as one word holds.
const FLAGS: &str = r#""a" "b" "c" "d" "e" "g" "h" "i" "j" "k" "l" "m" "n" "o" "p" "q"
    "r" "s" "t" "u" "v" "w" "x" "y" "z" "aa" "ab" "ac" "ad" "ae" "af""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_function_lies_about_is_bounded_and_harms_nobody() {
    let list = |at: u32, length: u32| {
        format!(
            "(i32.store (i32.const 65536) (i32.const {at})) (i32.store (i32.const 65540) (i32.const {length}))"
        )
    };
    let grown = "(drop (memory.grow (i32.const 512)))";
    let cases = [
        // More than there is of memory: a trap.
        ("(list u32)", list(0, u32::MAX), "trap"),
        ("string", list(0, u32::MAX), "trap"),
        // No UTF-8, no letter, no case, misaligned.
        ("string", list(0, 2), "trap"),
        ("char", "(return (i32.const 0xd800))".to_owned(), "trap"),
        ("(option u8)", "(i32.store (i32.const 65536) (i32.const 7))".to_owned(), "trap"),
        ("(list u32)", list(1, 1), "trap"),
        // There, and more than one call hands over, as it is or in the host's form.
        ("string", format!("{grown} {}", list(65_600, 30_000_000)), "max_output_bytes"),
        ("(list u8)", format!("{grown} {}", list(65_600, 30_000_000)), "max_output_bytes"),
        ("(list (list u8))", format!("{grown} {}", list(131_072, 3_000_000)), "max_output_bytes"),
        (
            "(list $named)",
            format!(
                "{grown} (call $fill (i32.const 131072) (i32.const 255) (i32.const 30000000)) {}",
                list(131_072, 200_000)
            ),
            "max_output_bytes",
        ),
        ("u8", "(loop (br 0))".to_owned(), "timeout_ms"),
        ("u8", "(drop (memory.grow (i32.const 1023)))".to_owned(), "memory_mb"),
        ("u8", "unreachable".to_owned(), "trap"),
    ];
    for (result, code, ends) in cases {
        let good = by_hand("functions");
        let builder = TestHost::builder().limits("timeout_ms: 2000").only(&["f", "add"]);
        let host = builder
            .tool_file("lying.wat", lying(result, &code).as_bytes())
            .tool_file("good.wat", &good)
            .build()
            .await;
        let ended = host.call("f", json!({})).await;
        let how = match &ended {
            Ok(reply) => reply.error_kind.unwrap_or("answered").to_owned(),
            Err(error) => error.data["limit"].as_str().unwrap_or_default().to_owned(),
        };
        assert_eq!(how, ends, "{result} {code}: {ended:?} {}", host.refused());
        assert_eq!(host.ask("add", json!({"a": 1, "b": 1})).await, json!({"result": 2}));
        host.check_audit();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_writes_without_end_is_stopped() {
    let flood = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 2)
      (func (export "_start")
        (i32.store (i32.const 4) (i32.const 65536))
        (loop (br_if 0 (i32.eqz (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))))"#;
    let host = serving(&[("flood.wat", flood.as_bytes())]).await;
    let error = host.call("flood", json!({})).await.unwrap_err();
    assert_eq!(error.data["limit"], "max_output_bytes", "{error:?}");
}

#[tokio::test]
async fn what_is_no_tool_is_refused_with_what_would_be_right() {
    let nested = |depth: usize| {
        let types: String =
            (1..=depth).map(|level| format!("(type $t{level} (list $t{}))", level - 1)).collect();
        format!(
            r#"(component (type $t0 (list u8)) {types} (core module $m (memory (export "memory") 1)
            (func (export "f") (result i32) (i32.const 0))) (core instance $i (instantiate $m))
            (alias core export $i "memory" (core memory $memory))
            (func $f (result $t{depth}) (canon lift (core func $i "f") (memory $memory)))
            (export "f" (func $f)))"#
        )
    };
    let files = [
        (
            "wasi4.wat",
            r#"(component (instance $i) (export "wasi:cli/run@0.4.0" (instance $i)))"#.to_owned(),
            "another world",
        ),
        (
            "later.wat",
            r#"(component (instance $i) (export "claw:tool/tool@0.2.0" (instance $i)))"#.to_owned(),
            "another world",
        ),
        (
            "no-run.wat",
            r#"(component (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#.to_owned(),
            "without its function `run`",
        ),
        (
            "empty.wat",
            r#"(component (instance $i) (export "a:b/c" (instance $i)))"#.to_owned(),
            "no function of it can be a tool",
        ),
        ("deep.wat", nested(30_000), "not compile"),
        ("core.wat", r#"(module (import "env" "log" (func)))"#.to_owned(), "imports from \"env\""),
    ];
    let all: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text, _)| (*name, text.as_bytes())).collect();
    let host = serving(&all).await;
    for (name, _, reason) in &files {
        let refused = host.refused();
        let line = refused.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains(reason), "{name}: {refused}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "wasi-p3", ignore = "built with the feature `wasi-p3`")]
async fn what_is_of_wasi_0_3_is_refused_with_the_feature_that_runs_it() {
    let program = br#"(component (instance $i) (export "wasi:cli/run@0.3.0" (instance $i)))"#;
    let refused = serving(&[("wasi3.wat", program)]).await.refused();
    assert!(
        refused.contains("wasi3.wat") && refused.contains("the feature `wasi-p3`"),
        "{refused}"
    );
}

#[test]
fn inspect_shows_what_kind_a_file_is_and_its_tools() {
    let cli = Cli::new(PROGRAM);
    for (name, shows) in [
        ("functions", &["each function that it exports", "tool text_half", "left out"][..]),
        ("program", &["a program", "tool program", "exit_code"]),
        ("command", &["a program", "tool command"]),
    ] {
        let path = example(&format!("wat/{name}.wat"));
        let run = cli.run(&["inspect", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        for text in shows {
            assert!(run.stdout.contains(text), "{name}: {}", run.stdout);
        }
        let run = cli.run(&["inspect", "--json", path.to_str().unwrap()]);
        let shown: Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(!shown["tools"].as_array().unwrap().is_empty(), "{name}");
    }
}

/// As componentize-py builds all of its components.
const PYTHON: &str = r#"(component
  (core module $code
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "init") (param i32 i32))
    (func (export "one") (result i32) (i32.const 1)))
  (core instance $code (instantiate $code))
  (func $init (param "app-name" string)
    (canon lift (core func $code "init") (memory (core memory $code "memory")) (realloc (core func $code "realloc"))))
  (instance $exports (export "init" (func $init)))
  (export "exports" (instance $exports))
  (func (export "one") (result u32) (canon lift (core func $code "one"))))"#;

#[test]
fn a_component_of_python_has_the_tools_of_its_author_alone() {
    let cli = Cli::new(PROGRAM);
    cli.write("python.wat", PYTHON);
    let run = cli.run(&["inspect", "--json", "python.wat"]);
    let shown: Value = serde_json::from_str(&run.stdout).unwrap();
    let tools = shown["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1, "{tools:?}");
    assert_eq!(tools[0]["name"], "one");
}

/// What each example is called with.
const LANGUAGES: [(&str, &str); 4] = [
    ("c", "stdin=one two three"),
    ("js", "text=one two three"),
    ("python", "text=one two three"),
    ("rust", "text=one two three"),
];

#[test]
fn a_new_tool_is_the_example_of_its_language_under_its_own_name() {
    let cli = Cli::new(PROGRAM);
    for (language, _) in LANGUAGES {
        let made = cli.run(&["new", "example-tool", "--lang", language]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let folder = cli.here().join("example-tool");
        for (name, whole) in [("claw.yaml", ""), ("clawhost.yaml", ""), ("README.md", language)] {
            let example = std::fs::read_to_string(example(whole).join(name)).unwrap();
            // Marks for the test of the pages are nothing to its reader.
            let lines = example.split_inclusive('\n').filter(|line| !line.starts_with("<!-- "));
            let expected: String = lines.collect();
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap(), expected);
        }
        let again = cli.run(&["new", "example-tool", "--lang", language]);
        assert_eq!(again.code, Some(2), "{}", again.stderr);
        std::fs::remove_dir_all(folder).unwrap();
    }
    let made = cli.run(&["new", "count-all", "--lang", "js"]);
    assert!(made.stdout.contains("clawhost call claw.yaml count_all"), "{}", made.stdout);
    let code = std::fs::read_to_string(cli.here().join("count-all/count-all.js")).unwrap();
    assert!(code.contains("function countAll("), "{code}");
    assert_eq!(cli.run(&["new", "../up", "--lang", "c"]).code, Some(2));
}

#[test]
fn examples_of_other_languages_count_words() {
    for (language, argument) in LANGUAGES {
        let built =
            source_root().join(format!("target/examples/{language}/tools/example-tool.wasm"));
        let Ok(bytes) = std::fs::read(&built) else {
            eprintln!(
                "SKIPPED {language}: not built; run guest-tools/examples/build.sh {language}"
            );
            continue;
        };
        let cli = Cli::new(PROGRAM);
        assert_eq!(cli.run(&["new", "example-tool", "--lang", language]).code, Some(0));
        cli.write("example-tool/tools/example-tool.wasm", bytes);
        let run = cli.run(&["call", "example-tool/claw.yaml", "example_tool", argument]);
        assert_eq!(run.code, Some(0), "{language}: {}", run.stderr);
        assert!(run.stdout.contains('3'), "{language}: {}", run.stdout);
    }
}
