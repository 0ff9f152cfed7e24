//! The corpus: every hostile guest, embedded in text form.

use std::sync::Arc;

use super::guest::{Case, Guest};

/// The component that every guest fills its own fragments into.
pub(super) const WORLD: &str = include_str!("../../../tests/guests/world.wat.in");

macro_rules! texts {
    ($folder:literal, $extension:literal, $($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../tests/guests/", $folder, $name, $extension)))),*]
    };
}

#[rustfmt::skip]
const GUESTS: &[(&str, &str)] = texts!("", ".wat",
        "aliases-by-the-hundred-thousand", "answer", "answers-control", "asks-for-the-network",
        "bad-name", "bad-schema", "blocks-by-the-million", "blocks-by-the-thousand-million",
        "breaks-a-header", "bulk-fill", "calls-by-name", "calls-without-end", "components-in-components", "core-module", "cut-by-one",
        "cut-short", "describes-nothing", "describes-too-many", "describes-twice",
        "dirties-memory", "divide-by-zero", "empty-file", "exit-one", "exit-zero",
        "fills-its-memory", "fills-the-disk", "functions-by-the-hundred-thousand", "grows-in-realloc",
        "handle-dropped-twice", "handle-forgery", "handle-leak", "handle-of-another-type",
        "handle-used-after-drop", "headers-by-the-thousand",
        "hides-in-its-description", "hides-in-its-schema", "host-call-loop",
        "instances-by-the-hundred-thousand", "keeps-a-secret", "keeps-under-a-path", "links-raw",
        "list-misaligned", "list-out-of-bounds", "locals-times-blocks", "log-flood",
        "lone-surrogate", "long-jump-table", "lying-schema", "many-memories", "memory-bomb",
        "memory-born-large", "memory-leap", "moves-raw", "native-program", "nested-blocks",
        "no-object-schema", "no-such-block", "no-such-character", "no-such-error", "no-such-flags", "no-such-level",
        "no-such-option", "no-such-result", "no-text-form", "one-byte-wrong", "open-leak",
        "output-avalanche", "output-flood", "output-long", "output-no-text",
        "output-out-of-bounds", "polls-a-million", "polls-nothing", "preview-one",
        "progress-flood", "random-flood", "reads-a-sparse-file", "reads-directories",
        "reads-environment", "reads-much-input", "reads-raw", "realloc-misaligned",
        "realloc-out-of-bounds", "remote-schema", "removes-raw", "result-out-of-place",
        "runs-a-command", "runs-another-program", "says-a-gigabyte", "says-much",
        "says-much-in-utf16", "searches-memory", "secret-reader", "secret-sender",
        "sends-by-another-scheme", "sends-raw", "sets-a-header", "sets-a-variable", "short-sleeps",
        "sleep", "sleep-for-ever", "spin", "spin-in-describe", "spin-in-post-return",
        "spin-in-realloc", "spin-in-start", "stack-of-large-frames", "stack-of-two",
        "stack-overflow", "stdout-flood", "stdout-line-without-end", "stream-leak", "table-bomb",
        "table-born-large", "table-fill", "tells-the-environment", "text-no-utf8", "trap",
        "trap-in-post-return", "types-by-the-hundred-thousand", "utf16-misaligned",
        "utf16-out-of-bounds", "waits-for-input", "wants-a-look-alike", "wants-channels",
        "wants-http", "wants-keys", "wants-models", "wants-names", "wants-process",
        "wants-reserved", "wants-sockets", "wants-the-unknown", "wants-to-serve", "wants-tools", "wants-udp",
        "writes-raw", "wrong-world"
);

#[rustfmt::skip]
const IMPORTS: &[(&str, &str)] = texts!("imports/", ".in",
        "clock", "environment", "exit", "files", "http-and-environment", "log", "memory",
        "process", "progress", "provider", "random", "secrets", "stdin", "stdout", "tools"
);

/// One attack: a guest, and what it is called with.
#[derive(Debug, Clone)]
pub struct Attack {
    /// The guest's name, with the number of the case where it has several.
    pub name: String,
    /// The rows of `tests/escape.md` that it tries.
    pub rows: Vec<String>,
    /// The guest.
    pub guest: Arc<Guest>,
    /// What it is called with; nothing where it is called once, with nothing.
    pub case: Option<Case>,
}

/// Returns every guest, by name.
pub fn all() -> Vec<Guest> {
    GUESTS.iter().map(|(name, text)| Guest::parse(name, text)).collect()
}

/// Returns every attack, in the order of the guests: one for each case of a guest, and one for a
/// guest without any.
pub fn attacks() -> Vec<Attack> {
    all().into_iter().flat_map(attacks_of).collect()
}

fn attacks_of(guest: Guest) -> Vec<Attack> {
    let guest = Arc::new(guest);
    if guest.cases().is_empty() {
        let rows = guest.rows().map(str::to_owned).collect();
        return vec![Attack { name: guest.name.clone(), rows, guest, case: None }];
    }
    let numbered = guest.cases().iter().zip(1..).map(|(case, number)| Attack {
        name: format!("{} {number}", guest.name),
        rows: vec![case.row.clone()],
        guest: Arc::clone(&guest),
        case: Some(case.clone()),
    });
    numbered.collect()
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    find(GUESTS, name)
}

pub(super) fn import(name: &str) -> Option<&'static str> {
    find(IMPORTS, name)
}

fn find(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::Expected;

    #[test]
    fn the_corpus_is_the_folder() {
        let folder = std::fs::read_dir("../tests/guests").unwrap();
        let mut files: Vec<String> = folder
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".wat").map(str::to_owned)
            })
            .collect();
        files.sort();
        assert_eq!(all().into_iter().map(|guest| guest.name).collect::<Vec<_>>(), files);
        assert!(attacks().len() > 120, "{}", attacks().len());
    }

    #[test]
    fn every_guest_names_its_rows_and_its_text_parses() {
        let mut wrong = Vec::new();
        for guest in all() {
            assert!(guest.rows().count() > 0, "{} names no row", guest.name);
            let text = text(&guest.name).unwrap();
            let cases = text.lines().filter(|line| line.starts_with(";; case: ")).count();
            assert_eq!(guest.cases().len(), cases, "a case of {} is wrong", guest.name);
            // What is refused at load may be refused for what its text is.
            if !matches!(guest.expected(), Expected::Refused(_)) {
                wrong.extend(
                    wat::parse_str(guest.wat()).err().map(|e| format!("{}: {e}", guest.name)),
                );
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
