//! The examples a newcomer runs, and the hand-written component among them.

use std::process::Command;

use clawhost_tests::{Cli, TestHost, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

fn examples() -> String {
    source_root().join("host/examples").to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_hand_written_component_counts_words_and_characters() {
    let source = std::fs::read(source_root().join("host/examples/tools/word-count.wat")).unwrap();
    let host = TestHost::builder().tool_file("word-count.wat", &source).build().await;
    assert!(host.refused().is_empty(), "{}", host.refused());
    let tool = host.host().catalog().find("word_count").cloned().unwrap();
    assert_eq!(tool.grants.profile, "none");
    assert_eq!(tool.definition.annotations.read_only, Some(true));
    assert_eq!(tool.definition.annotations.open_world, Some(false));
    for (text, words, characters) in [
        ("", 0, 0),
        ("one", 1, 3),
        ("  two\twords\n", 2, 12),
        ("a \"quoted\" back\\slash", 3, 21),
        ("größer als Müll", 3, 15),
        ("line\r\nbreak\u{b}\u{c}", 2, 13),
        ("\u{1}control\u{1f}", 1, 9),
        ("日本語 🦀", 2, 5),
    ] {
        let counts = host.ask("word_count", json!({"text": text})).await;
        assert_eq!(counts, json!({"words": words, "characters": characters}), "{text:?}");
    }
    // More than the memory it starts with.
    let long = "word ".repeat(100_000);
    let counts = host.ask("word_count", json!({"text": long})).await;
    assert_eq!(counts, json!({"words": 100_000, "characters": 500_000}));
}

#[test]
fn the_first_command_of_the_readme_reads_a_file() {
    let run = Cli::new(PROGRAM).run(&[
        "call",
        &format!("{}/manifest.yaml", examples()),
        "read_file",
        "path=hello.txt",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let expected =
        std::fs::read_to_string(source_root().join("host/examples/workspace/hello.txt")).unwrap();
    let shown: Result<Value, _> = serde_json::from_str(&run.stdout);
    let shown = shown.map_or(run.stdout, |value| value["content"].as_str().unwrap().to_owned());
    assert_eq!(shown.trim_end(), expected.trim_end());
}

#[test]
fn every_tool_of_the_example_is_served() {
    let manifest = format!("{}/manifest.yaml", examples());
    let run = Cli::new(PROGRAM).run(&["tools", &manifest, "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let shown: Value = serde_json::from_str(&run.stdout).unwrap();
    let names: Vec<&str> = shown["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "edit_file", "list_directory", "memory_read", "memory_write", "read_file", "web_fetch",
            "word_count", "write_file"
        ]
    );
    assert_eq!(shown["refused"], json!([]));
}

#[test]
fn the_dropped_in_tool_of_the_example_answers_and_the_web_is_refused_by_policy() {
    let cli = Cli::new(PROGRAM);
    let manifest = format!("{}/manifest.yaml", examples());
    let run = cli.run(&["call", &manifest, "word_count", "text=one two three", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let shown: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(shown["structuredContent"]["words"], 3, "{shown}");
    let run = cli.run(&["call", &manifest, "web_fetch", "url=http://example.com/"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("no-web"), "{}", run.stderr);
}

#[test]
fn the_demo_stops_at_once_where_its_program_does_not_run() {
    let demo = source_root().join("host/examples/governed/demo.sh");
    let run = Command::new("sh").arg(demo).env("CLAWHOST", "false").output().unwrap();
    assert_eq!((run.status.code(), run.stdout), (Some(1), Vec::new()));
}

#[test]
fn the_demo_takes_the_program_that_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/false", folder.path().join("clawhost")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let demo = source_root().join("host/examples/governed/demo.sh");
    let run = Command::new("sh").arg(demo).env("PATH", path).env_remove("CLAWHOST").output();
    let run = run.unwrap();
    assert_eq!((run.status.code(), run.stdout), (Some(1), Vec::new()));
}
