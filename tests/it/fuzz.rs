//! The fuzz targets of `tests/fuzz`, bounded and on every toolchain: each seed as it is, then damaged.
//!
//! Deliberately absent: `components`, as `damage` has it without wasm-smith, and `policy`, `redact`
//! and `uri`, whose own modules compare the same with more.

#![expect(
    clippy::expect_used,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "`tests/fuzz` is a library for tests"
)]

use std::path::Path;

use clawhost_tests::source_root;
use proptest::prelude::*;

use crate::damage::{apply, damage};

#[path = "../fuzz/src/egress.rs"]
mod egress;
#[path = "../fuzz/src/host_calls.rs"]
mod host_calls;
#[path = "../fuzz/src/input.rs"]
mod input;
#[path = "../fuzz/src/interpreter.rs"]
mod interpreter;
#[path = "../fuzz/src/json.rs"]
mod json;
#[path = "../fuzz/src/manifest.rs"]
mod manifest;
#[path = "../fuzz/src/messages.rs"]
mod messages;
#[path = "../fuzz/src/shell.rs"]
mod shell;
#[path = "../fuzz/src/upstream.rs"]
mod upstream;
#[path = "../fuzz/src/world.rs"]
mod world;

/// Inputs of one target in an ordinary test run; set `PROPTEST_CASES` to try more.
const INPUTS: u32 = 256;

fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs `target` with all of its seeds and the files of `others`, and with what damage makes of them.
fn try_all(target: &str, others: &[&str], run: fn(&[u8])) {
    let folders = [format!("tests/fuzz/seeds/{target}")];
    let folders = folders.iter().map(String::as_str).chain(others.iter().copied());
    let seeds: Vec<_> = folders.flat_map(|folder| seeds(&source_root().join(folder))).collect();
    seeds.iter().for_each(|seed| run(seed));
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = INPUTS;
    }
    let seed = prop_oneof![
        8 => prop::sample::select(seeds),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ];
    proptest!(config, |(seed in seed, damages in prop::collection::vec(damage(), 0..4))| {
        let mut bytes = seed;
        damages.iter().for_each(|damage| apply(&mut bytes, damage, 0));
        run(&bytes);
    });
}

#[test]
fn every_document_is_a_manifest_or_problems_with_places() {
    try_all("manifest", &["tests/manifests/valid", "tests/manifests/invalid"], manifest::run);
}

#[test]
fn every_client_gets_one_answer_to_each_request_and_the_host_goes_on() {
    try_all("messages", &[], messages::run);
}

#[test]
fn no_answer_of_a_server_hangs_or_stops_the_host() {
    try_all("upstream", &[], upstream::run);
}

#[test]
fn no_program_of_host_calls_gets_out() {
    try_all("host_calls", &[], host_calls::run);
}

#[test]
fn strict_json_has_the_meaning_that_others_see() {
    try_all("json", &[], json::run);
}

#[test]
fn an_admitted_line_holds_nothing_but_quoted_words() {
    try_all("shell", &[], shell::run);
}

#[test]
fn no_accepted_address_or_path_leads_elsewhere() {
    try_all("egress", &[], egress::run);
}
