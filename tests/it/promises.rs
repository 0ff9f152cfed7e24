//! SECURITY.md is what it says it is: numbered promises, each held by tests that exist, with the
//! figures of the code.

use clawhost_core::limits::{Limit, TABLE};
use clawhost_tests::source_root;

use crate::attack::is_there;

/// One promise: its number, its sentence, its figures, and what holds it.
struct Promise {
    number: usize,
    figure: String,
    held_by: Vec<String>,
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn promises() -> Vec<Promise> {
    let page = std::fs::read_to_string(source_root().join("SECURITY.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = lines.map(|line| line.split(" | ").collect::<Vec<_>>());
    let rows = cells.filter_map(|cells| {
        let [number, promise, figure, held_by] = cells[..] else { return None };
        let number = number.parse().ok()?;
        assert!(promise.ends_with('.'), "{number}: {promise}");
        Some(Promise { number, figure: figure.to_owned(), held_by: quoted(held_by) })
    });
    rows.collect()
}

#[test]
fn every_promise_is_numbered_and_held_by_tests_that_exist() {
    let promises = promises();
    let numbers: Vec<usize> = promises.iter().map(|promise| promise.number).collect();
    assert_eq!(numbers, (1..=promises.len()).collect::<Vec<_>>());
    assert!(promises.len() > 50, "{}", promises.len());
    for Promise { number, held_by, .. } in promises {
        assert!(!held_by.is_empty(), "{number} is held by nothing");
        for name in held_by {
            assert!(is_there(&name), "{number}: there is no {name}");
        }
    }
}

/// Returns how people write a bound's value, in the unit that its name ends with.
fn written(limit: &Limit) -> Vec<String> {
    let Limit { name, value, .. } = *limit;
    let scaled = |factor: u64, unit: &str| {
        (value % factor == 0).then(|| format!("{} {unit}", value / factor))
    };
    let known = match name {
        name if name.ends_with("_MS") => {
            [scaled(3_600_000, "h"), scaled(60_000, "min"), scaled(1_000, "s"), scaled(1, "ms")]
        }
        name if name.ends_with("_MB") => [scaled(1 << 10, "GiB"), scaled(1, "MiB"), None, None],
        name if name.contains("_BYTES") => [
            scaled(1 << 30, "GiB"),
            scaled(1 << 20, "MiB"),
            scaled(1 << 10, "KiB"),
            scaled(1, "bytes"),
        ],
        _ => [None, None, None, None],
    };
    known.into_iter().flatten().chain([grouped(value)]).collect()
}

/// Returns a number with a comma before each three digits.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}

#[test]
fn every_figure_is_the_one_of_the_code() {
    let mut named = 0;
    for Promise { number, figure, .. } in promises() {
        // What stands before a bound's name is its value.
        for part in figure.split("`)").filter(|part| part.contains("(`")) {
            let (before, name) = part.rsplit_once("(`").unwrap();
            let Some(limit) = TABLE.iter().find(|limit| limit.name == name) else {
                panic!("{number}: there is no bound {name}");
            };
            let is_right = written(limit).iter().any(|value| says(before, value));
            assert!(is_right, "{number}: {before:?} is not {name} = {}", limit.value);
            named += 1;
        }
    }
    assert!(named > 30, "{named}");
}

/// Says whether `text` has `value` as a number of its own.
fn says(text: &str, value: &str) -> bool {
    text.match_indices(value).any(|(at, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == ',' || c == '.';
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + value.len()..].chars().next();
        !before && !after.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}
