//! Rules of the house that no compiler checks.

use std::path::{Path, PathBuf};

use clawhost_tests::{guest, source_root};

use crate::attack::is_there;

/// A file longer than this holds a second concept.
const LINES_MAX: usize = 900;
const SOURCES: [&str; 5] = ["host/src", "host/core/src", "guest-tools", "tests", "wit"];
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let built = path.file_name().is_some_and(|name| name == "target" || name == "deps");
        if path.is_dir() && !built {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
}

fn sources(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in SOURCES {
        files(&source_root().join(folder), extension, &mut found);
    }
    assert!(!found.is_empty());
    found
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(source_root().join(path)).unwrap()
}

#[test]
fn no_source_file_is_too_long() {
    for path in sources("rs") {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}

/// What does more than name its parts is a file of its own name, beside their folder.
#[test]
fn a_mod_rs_only_declares() {
    let mut found = Vec::new();
    for folder in ["host/src", "host/core/src"] {
        files(&source_root().join(folder), "rs", &mut found);
    }
    let is_of_tests = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("tests"));
    for path in found.iter().filter(|path| path.ends_with("mod.rs") && !is_of_tests(path)) {
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines() {
            let item = line
                .strip_prefix("pub")
                .map_or(line, |rest| rest.trim_start_matches(|c: char| c != ' ').trim_start());
            let word = item.split(' ').next().unwrap();
            let does = ["async", "enum", "fn", "impl", "struct", "trait"].contains(&word);
            assert!(!does, "{}: {line}", path.display());
        }
    }
}

/// The modules of the host in their order.
fn modules() -> Vec<String> {
    let lib = read("host/src/lib.rs");
    let name = |line: &str| Some(line.split_once("mod ")?.1.strip_suffix(';')?.to_owned());
    lib.lines().filter(|line| !line.starts_with("//")).filter_map(name).collect()
}

/// Returns the names after each `crate::` of a source, but for those of its tests.
fn uses(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let word = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned()
    };
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group.split('}').next().unwrap().split(", ").map(word)),
            None => found.push(word(rest)),
        }
    }
    found
}

#[test]
fn a_module_of_the_host_uses_only_those_above_it() {
    let (modules, root) = (modules(), source_root().join("host/src"));
    let place = |name: &str| modules.iter().position(|module| module == name);
    let (mut sources, mut looked_at) = (Vec::new(), 0);
    files(&root, "rs", &mut sources);
    for path in sources {
        let within = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let own = within.split(['/', '.']).next().unwrap();
        let is_test = within.contains("/tests/") || within.ends_with("tests.rs");
        let Some(own) = place(own).filter(|_| !is_test) else { continue };
        let of_others = uses(&std::fs::read_to_string(&path).unwrap());
        for other in of_others.iter().filter_map(|name| place(name)) {
            assert!(other <= own, "{within} uses {}, which is below it", modules[other]);
            looked_at += usize::from(other < own);
        }
    }
    assert!(looked_at > 500, "{looked_at}");
}

/// Returns the first words in backticks of each row of the table that begins after `heading`.
fn rows(document: &str, heading: &str) -> Vec<String> {
    let table = document.split_once(heading).unwrap().1.trim_start();
    let cells = table.lines().take_while(|line| line.starts_with('|')).skip(2);
    let names =
        cells.flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn the_code_map_has_every_module_and_those_of_the_host_in_their_order() {
    let map = read("host/ARCHITECTURE.md");
    let host = rows(&map, "where each module may use only those above it, and core:");
    let mut core = rows(&map, "in which no module knows how anything is executed:");
    core.sort();
    let lib = read("host/core/src/lib.rs");
    let public = |line: &str| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned());
    let mut declared: Vec<String> = lib.lines().filter_map(public).collect();
    declared.push("tables".to_owned());
    declared.sort();
    assert_eq!((host, core), (modules(), declared));
}

/// What reaches out of a program, or hides that it does: core is handed the time, chance and files.
const OUTSIDE: [&str; 18] = [
    "Instant::now", "SystemTime", "TcpListener", "TcpStream", "ToSocketAddrs", "UdpSocket",
    "getrandom", "println!", "rand::", "std::env", "std::fs", "std::os", "std::process",
    "std::thread", "std::{", "stdin(", "stdout(", "tokio",
];

#[test]
fn core_names_nothing_that_reaches_out() {
    let (root, mut sources) = (source_root().join("host/core/src"), Vec::new());
    let mut looked_at = 0;
    files(&root, "rs", &mut sources);
    for path in sources {
        let within = path.strip_prefix(&root).unwrap().to_str().unwrap();
        if within.contains("/tests/") || within.ends_with("/tests.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let mut code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let outside = code.find(|line| OUTSIDE.iter().any(|name| line.contains(name)));
        assert_eq!(outside, None, "{within}");
        looked_at += 1;
    }
    assert!(looked_at > 100, "{looked_at}");
}

#[test]
fn every_test_file_is_declared() {
    let main = read("tests/it/main.rs");
    for entry in std::fs::read_dir(source_root().join("tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && stem != "main" {
            assert!(
                main.contains(&format!("mod {stem};")),
                "tests/it/{stem}.rs is not declared in main.rs"
            );
        }
    }
}

#[test]
fn every_guest_says_what_it_does_and_what_is_expected_of_it() {
    for guest in guest::all() {
        let text =
            std::fs::read_to_string(guest::folder().join(format!("{}.wat", guest.name))).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(";; ") && first.ends_with('.'), "{}", guest.name);
        // Panics where the file expects something that is no expectation.
        guest.expected();
    }
}

#[test]
fn no_component_is_committed_in_binary_form() {
    let mut found = Vec::new();
    for folder in ["host", "tests", "wit", "sandboxes"] {
        files(&source_root().join(folder), "wasm", &mut found);
    }
    assert_eq!(found, Vec::<PathBuf>::new());
}

/// The command line's verbs, as its reference has them, which `docs` holds against the program.
fn verbs() -> Vec<String> {
    let reference = read("host/docs/cli.md");
    let commands = reference.split_once("\nCommands:\n").unwrap().1;
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let verb = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        verb.split_whitespace().next().map(str::to_owned)
    });
    names.filter(|verb| verb != "help").collect()
}

#[test]
fn the_readme_mentions_every_verb_and_every_exit_code() {
    let readme = read("README.md");
    let verbs = verbs();
    assert!(verbs.len() > 25, "{verbs:?}");
    for verb in verbs {
        assert!(
            readme.contains(&format!("clawhost {verb}")),
            "README.md does not mention `clawhost {verb}`"
        );
    }
    for code in 0..=7 {
        assert!(
            readme.contains(&format!("| {code} |")),
            "README.md does not explain exit code {code}"
        );
    }
}

/// Documents that say which test holds a promise; `promises` looks at SECURITY.md.
const PROMISES: [&str; 1] = ["host/ARCHITECTURE.md"];

#[test]
fn every_test_and_file_that_holds_a_promise_exists() {
    for document in PROMISES {
        let text = read(document);
        let mut named = 0;
        for word in text.split('`').skip(1).step_by(2) {
            if let Some((module, test)) = word.split_once("::")
                && source_root().join(format!("tests/it/{module}.rs")).is_file()
                && test != "Admitted"
                && !word.contains('(')
            {
                named += 1;
                let source = read(format!("tests/it/{module}.rs"));
                assert!(source.contains(&format!("fn {test}(")), "{document}: there is no {word}");
            } else if word.starts_with("host/") {
                let is_file = source_root().join(word).exists();
                assert!(is_file || is_there(word), "{document}: there is no {word}");
            }
        }
        assert!(named > 3, "{document} names {named} tests");
    }
}

/// What no test holds: the compiler's example, and a lint.
const HELD_BY_THE_COMPILER: [&str; 2] = ["1", "4"];

#[test]
fn every_invariant_is_numbered_and_held_by_a_test_that_exists() {
    let map = read("host/ARCHITECTURE.md");
    let table = map.split_once("| # | Invariant | Held by |").unwrap().1.trim_start();
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(1);
    let mut numbers = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, _, held_by, _] = cells[..] else { panic!("{row}") };
        let tests: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        if !HELD_BY_THE_COMPILER.contains(&number) {
            assert!(!tests.is_empty(), "{number} is held by nothing");
            tests.iter().for_each(|test| assert!(is_there(test), "{number}: there is no {test}"));
        }
        numbers.push(number.parse::<usize>().unwrap());
    }
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    assert!(numbers.len() > 50, "{}", numbers.len());
}

#[test]
fn the_top_level_holds_what_it_should_and_nothing_else() {
    const EXPECTED: [&str; 19] = [
        ".ci", ".config", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock",
        "Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "SECURITY.md", "clippy.toml",
        "deny.toml", "guest-tools", "host", "rustfmt.toml", "sandboxes", "tests", "wit",
    ];
    let ignored = read(".gitignore");
    let is_ignored = |name: &str| ignored.lines().any(|line| line.trim_matches('/') == name);
    let entries = std::fs::read_dir(source_root()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| name != ".git" && !is_ignored(name)).collect();
    found.sort();
    assert_eq!(found, EXPECTED);
}

#[test]
fn tests_do_not_sleep_and_none_is_left_out() {
    // The needles are put together here so that this file does not hold them.
    let ignored = format!("#[{}", "ignore");
    let sleeps = ["thread::sleep", "park_timeout"].map(|name| format!("{name}("));
    // The one place that waits, in steps, for what it looks at.
    let waits = source_root().join("tests/src/wait.rs");
    for path in sources("rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&ignored), "{} leaves a test out", path.display());
        let sleeps = sleeps.iter().any(|sleep| text.contains(sleep));
        assert_eq!(sleeps, path == waits, "{} sleeps", path.display());
    }
}
