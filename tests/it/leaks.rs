//! Every run of the suite is searched for tokens when it ends: these show that the search finds one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine as _;
use clawhost_tests::Cli;
use clawhost_tests::leaks::Known;
use serde_json::Value;

use crate::cli::{PROGRAM, prepared};

fn operator(cli: &Cli) -> String {
    let bytes = std::fs::read(cli.state().join("credentials.json")).unwrap();
    let stored: Value = serde_json::from_slice(&bytes).unwrap();
    stored["operator"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_in_a_file_that_a_run_left_behind_is_found_in_every_spelling() {
    let spellings: [fn(&str) -> String; 3] = [
        str::to_owned,
        |token| base64::engine::general_purpose::STANDARD.encode(token),
        |token| token.bytes().map(|byte| format!("%{byte:02X}")).collect(),
    ];
    for spelling in spellings {
        let cli = Cli::new(PROGRAM);
        let text = format!("x\ntoken={}\n", spelling(&operator(&cli)));
        let folder = cli.state().join("proxy/ada");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("history.jsonl"), text).unwrap();
        let found = catch_unwind(AssertUnwindSafe(|| drop(cli))).unwrap_err();
        let said = found.downcast_ref::<String>().unwrap();
        assert!(said.contains("a token is in") && said.contains("history.jsonl"), "{said}");
    }
}

#[test]
fn a_token_in_what_a_program_says_is_found() {
    let mut known = Known::default();
    known.add("KEY", "sk-0123456789abcdef");
    known.check("what is clean", b"sk-0123456789abcdee");
    let found = catch_unwind(|| known.check("its log", b"with sk-0123456789abcdef, and more"));
    let found = *found.unwrap_err().downcast::<String>().unwrap();
    assert!(found.contains("its log: with [redacted:KEY], and more"), "{found}");
}

#[test]
fn a_host_shows_no_token_even_where_a_tool_reads_one() {
    let cli = prepared();
    cli.write("workspace/hello.txt", operator(&cli));
    let run = cli.run(&["call", "claw.yaml", "read_file", "path=hello.txt"]);
    assert!(run.stdout.contains("[redacted"), "{run:?}");
}
