//! Damaged components: whatever a file holds, loading it is an answer, not a crash.

use std::sync::Arc;

use clawhost::engine::Engine;
use clawhost_tests::{Guest, source_root, wait};
use proptest::prelude::*;

/// Damaged files in an ordinary test run; set `PROPTEST_CASES` to try more.
const FILES: u32 = 64;
/// Magic and version: without them every file would be "no component".
const MAGIC_BYTES: usize = 8;
/// One way to damage a file, at a place and with a value.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, u8),
    Repeat(usize, usize),
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        1 => (any::<usize>(), 0..64_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

/// Damages what comes behind the first `kept` bytes.
pub(crate) fn apply(bytes: &mut Vec<u8>, damage: &Damage, kept: usize) {
    let place = |at: usize, length: usize| kept + at % length.saturating_sub(kept).max(1);
    let length = bytes.len();
    match *damage {
        Damage::Set(at, byte) => {
            bytes.iter_mut().skip(place(at, length)).take(1).for_each(|it| *it = byte)
        }
        Damage::Cut(at) => bytes.truncate(place(at, length).max(kept + 1)),
        Damage::Insert(at, byte) => bytes.insert(place(at, length), byte),
        Damage::Repeat(at, count) => {
            let start = place(at, length);
            let piece = bytes[start..(start + count).min(length)].to_vec();
            bytes.splice(start..start, piece);
        }
    }
}

#[test]
fn a_damaged_component_is_refused_with_a_reason_or_loads() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = Arc::new(Engine::new(2, None).unwrap());
    let word_count = source_root().join("host/examples/tools/word-count.wat");
    let whole = [
        Guest::read("answer").wasm(),
        Guest::read("sleep").wasm(),
        wat::parse_file(word_count).unwrap(),
    ];
    let load = |bytes: Vec<u8>| {
        let work = async { wait::within("loading", engine.load(bytes)).await };
        runtime.block_on(work)
    };
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = FILES;
    }
    let damages = prop::collection::vec(damage(), 1..4);
    proptest!(config, |(which in 0..whole.len(), damages in damages)| {
        let mut bytes = whole[which].clone();
        damages.iter().for_each(|damage| apply(&mut bytes, damage, MAGIC_BYTES));
        if let Err(error) = load(bytes) {
            let text = error.to_string();
            prop_assert!(!text.is_empty() && text.len() < 4_096, "{}", text);
            // The compiler's thread died: a defect, even if the host went on.
            prop_assert!(!text.contains("the compiler failed"), "{}", text);
        }
    });
    for bytes in whole {
        load(bytes).unwrap();
    }
}
