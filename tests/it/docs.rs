//! The README and the book show what the program prints and what it accepts: their examples are run here.

use std::path::{Path, PathBuf};

use clawhost_tests::{Cli, source_root};

use crate::cli::PROGRAM;

/// The reference of the command line, which is what the program says of itself.
const REFERENCE: &str = "host/docs/cli.md";
/// Fewer than this means that examples are no longer found.
const RUN_MIN: usize = 10;

fn pages() -> Vec<PathBuf> {
    let book = std::fs::read_dir(source_root().join("host/docs")).unwrap();
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.is_file() && !page.ends_with("cli.md"));
    pages.push(source_root().join("README.md"));
    pages.push(source_root().join("host/CONFIGURATION.md"));
    pages
}

/// Returns the blocks of one language.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    let of = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    of.map(str::to_owned).collect()
}

/// One command of a console block and the lines below it.
struct Example {
    command: String,
    shown: Vec<String>,
}

fn examples(page: &Path) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in blocks(page, "console") {
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    examples.push(Example { command: command.to_owned(), shown: Vec::new() })
                }
                None => examples.last_mut().unwrap().shown.push(line.to_owned()),
            }
        }
    }
    examples
}

/// Splits a command line at spaces outside single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// What an example prints, if it can be run here: a verb of ours that needs nothing that was built
/// or recorded before.
fn printed(cli: &Cli, example: &str) -> Option<String> {
    const ELSEWHERE: [&str; 2] = ["greet", "audit"];
    let (command, asks_code) = match example.split_once("; echo ") {
        Some((command, _)) => (command, true),
        None => (example, false),
    };
    let words = words(command);
    let ours = words[0] == "clawhost" && !command.contains(['|', '\\', '<']);
    if !ours || ELSEWHERE.iter().any(|word| command.contains(word)) {
        return None;
    }
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let output = cli.command(&arguments).current_dir(source_root()).output().unwrap();
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    if asks_code {
        printed.push_str(&format!("exit {}\n", output.status.code().unwrap()));
    }
    Some(printed)
}

#[test]
fn every_example_prints_what_it_says() {
    let cli = Cli::new(PROGRAM);
    let mut run = 0;
    for page in pages() {
        for example in examples(&page) {
            let shown = lines(&example.shown.join("\n"));
            let printed = (!shown.is_empty()).then(|| printed(&cli, &example.command)).flatten();
            let Some(printed) = printed else { continue };
            assert_eq!(shown, lines(&printed), "{}: $ {}", page.display(), example.command);
            run += 1;
        }
    }
    assert!(run >= RUN_MIN, "only {run} examples were run");
}

/// Documents are whole where their first line names their file.
#[test]
fn every_document_is_valid() {
    let mut checked = 0;
    for page in pages() {
        for block in blocks(&page, "yaml") {
            let first = block.lines().next().unwrap_or_default();
            let named = first.strip_prefix("# ").filter(|name| name.ends_with(".yaml"));
            let Some(name) = named.filter(|name| !name.contains(' ')) else { continue };
            let cli = Cli::new(PROGRAM);
            cli.write(name, &block);
            // A definition file is checked with the runtime file that names it.
            let is_definitions = name != "clawhost.yaml" && block.contains("\nversion: 1\n");
            if is_definitions {
                cli.write("clawhost.yaml", format!("version: 1\ndefinitions: [{name}]\n"));
            }
            let run = cli.run(&["validate", if is_definitions { "clawhost.yaml" } else { name }]);
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

#[test]
fn an_altered_log_is_told_as_the_book_shows_it() {
    let cli = Cli::new(PROGRAM);
    let manifest = source_root().join("host/examples/manifest.yaml");
    cli.run(&["call", manifest.to_str().unwrap(), "read_file", "path=absent"]);
    assert_eq!(cli.run(&["audit", "verify"]).code, Some(0));
    let log = &cli.logs()[0];
    let text = std::fs::read_to_string(log).unwrap();
    std::fs::write(log, text.replacen("call.received", "call.refused", 1)).unwrap();
    let told = cli.run(&["audit", "verify"]);
    assert_eq!(told.code, Some(7), "{}", told.stdout);
    let book = source_root().join("host/docs/account.md");
    let book = std::fs::read_to_string(book).unwrap();
    let shown = book.lines().find(|line| line.contains("does not follow")).unwrap();
    let (_, says) = shown.split_once("line 4: ").unwrap();
    // A table breaks the sentence.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in words(says).split(": ") {
        assert!(words(&told.stdout).contains(part), "{part}: {}", told.stdout);
    }
    assert!(told.stdout.contains("line 3"), "{}", told.stdout);
}
