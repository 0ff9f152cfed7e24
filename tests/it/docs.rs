//! The README and the book show what the program accepts: their documents, links and reference are held against it.

use std::path::{Path, PathBuf};

use clawhost_core::error::{ErrorKind, Limit};
use clawhost_tests::{Cli, source_root};

use crate::cli::PROGRAM;

/// The reference of the command line, which is what the program says of itself.
const REFERENCE: &str = "host/docs/cli.md";

/// Pages that lie neither in the book nor among the examples.
const OTHERS: [&str; 5] = [
    "README.md", "CONTRIBUTING.md", "host/CONFIGURATION.md", "host/REGISTRY.md",
    "tests/fuzz/README.md",
];

/// The README, the book, the pages of reference beside it, and what the examples say of themselves.
pub(crate) fn pages() -> Vec<PathBuf> {
    let book = std::fs::read_dir(source_root().join("host/docs")).unwrap();
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.is_file() && !page.ends_with("cli.md"));
    pages.extend(OTHERS.map(|page| source_root().join(page)));
    let examples = std::fs::read_dir(source_root().join("guest-tools/examples")).unwrap();
    let examples = examples.map(|entry| entry.unwrap().path().join("README.md"));
    pages.extend(examples.filter(|page| page.is_file()));
    pages
}

/// Returns the blocks of one language.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    let of = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    of.map(str::to_owned).collect()
}

/// The YAML documents of a page whose first line names their file, by that name.
pub(crate) fn documents(page: &Path) -> Vec<(String, String)> {
    let named = |block: String| {
        let name = block.strip_prefix("# ")?.split([':', '\n']).next()?;
        let whole = name.ends_with(".yaml") && !name.contains(' ');
        whole.then(|| (name.to_owned(), block.clone()))
    };
    blocks(page, "yaml").into_iter().filter_map(named).collect()
}

/// Documents are whole where their first line names their file.
#[test]
fn every_document_is_valid() {
    let mut checked = 0;
    for page in pages() {
        for (name, block) in documents(&page) {
            // What says more of itself is a document of somebody else's.
            if !block.starts_with(&format!("# {name}\n")) {
                continue;
            }
            let cli = Cli::new(PROGRAM);
            cli.write(&name, &block);
            // A definition file is checked with the runtime file that names it.
            let is_definitions = name != "clawhost.yaml" && block.contains("\nversion: 1\n");
            if is_definitions {
                cli.write("clawhost.yaml", format!("version: 1\ndefinitions: [{name}]\n"));
            }
            let run = cli.run(&["validate", if is_definitions { "clawhost.yaml" } else { &name }]);
            assert_eq!(
                run.code,
                Some(0),
                "{}: {name}: {}{}",
                page.display(),
                run.stdout,
                run.stderr
            );
            checked += 1;
        }
    }
    assert!(checked >= 3, "only {checked} documents were checked");
}

/// Links lead to files that are there.
#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.contains(':') || path.is_empty() || path.contains(' ') {
                continue;
            }
            assert!(page.parent().unwrap().join(path).exists(), "{}: {link}", page.display());
        }
    }
}

/// Both tables of the page are those of the program, row by row.
#[test]
fn the_page_of_refusals_has_every_kind_and_every_limit() {
    let page = std::fs::read_to_string(source_root().join("host/docs/errors.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| `") && !line.starts_with("| `data.");
    let mut rows = page.lines().filter(is_row);
    for kind in ErrorKind::ALL {
        let row = rows.next().unwrap();
        assert!(row.starts_with(&format!("| `{}` | {} | ", kind.name(), kind.code())), "{row}");
        assert!(row.ends_with(&format!(" | {} |", kind.exit_code())), "{row}");
    }
    for limit in Limit::ALL {
        assert_eq!(rows.next(), Some(&*format!("| `{}` | {} |", limit.name(), limit.what())));
    }
    assert_eq!(rows.next(), None);
}

/// What `--help` prints of a verb and of the verbs below it.
fn help(cli: &Cli, verb: &[String], page: &mut String) {
    let mut arguments: Vec<&str> = verb.iter().map(String::as_str).collect();
    arguments.push("--help");
    let text = cli.run(&arguments).stdout.replace("clawhost-under-test", "clawhost");
    let name = [&["clawhost".to_owned()], verb].concat().join(" ");
    let text: String =
        text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{text}```\n"));
    let (_, commands) = text.split_once("\nCommands:\n").unwrap_or_default();
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let below = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        let Some(below) = below.and_then(|line| line.split_whitespace().next()) else { continue };
        if below != "help" {
            help(cli, &[verb, &[below.to_owned()]].concat(), page);
        }
    }
}

/// `INSTA_UPDATE=always` writes it anew, as it does for snapshots.
#[test]
fn the_reference_of_the_command_line_is_what_help_prints() {
    let mut page =
        "# The command line\n\nThis is what `clawhost help` and each verb's `--help` print.\n"
            .to_owned();
    help(&Cli::new(PROGRAM), &[], &mut page);
    let path = source_root().join(REFERENCE);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{REFERENCE} is not what the program prints: run it with INSTA_UPDATE=always"
    );
}
