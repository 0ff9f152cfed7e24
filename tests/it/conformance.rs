//! The MCP conformance suite, the Inspector and `mcp-ssrf-check` against the built program, where
//! `tests/conformance/install.sh` has installed them; without them the test says so and passes.

use std::process::Command;

use clawhost_tests::source_root;

use crate::cli::PROGRAM;

#[test]
fn the_official_suite_finds_nothing_but_what_is_listed() {
    let root = source_root();
    if !root.join("target/conformance/python/bin/mcp-ssrf-check").exists() {
        return eprintln!("skipped: run tests/conformance/install.sh");
    }
    let run = Command::new(root.join("tests/conformance/run.sh")).arg(PROGRAM).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
}
