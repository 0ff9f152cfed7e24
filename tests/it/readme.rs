//! The README shows what the program prints: its examples are run here.

use clawhost_tests::{Cli, source_root};

use crate::cli::PROGRAM;

/// One command of a console block and the lines below it.
struct Example {
    command: String,
    shown: Vec<String>,
}

fn examples() -> Vec<Example> {
    let readme = std::fs::read_to_string(source_root().join("README.md")).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let blocks = readme.split("```").skip(1).step_by(2);
    for block in blocks.filter_map(|block| block.strip_prefix("console\n")) {
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

#[test]
fn every_example_of_the_readme_prints_what_it_says() {
    let cli = Cli::new(PROGRAM);
    let mut run = 0;
    for example in examples() {
        let (command, asks_code) = match example.command.split_once("; echo ") {
            Some((command, _)) => (command, true),
            None => (example.command.as_str(), false),
        };
        let words = words(command);
        // Tools that have to be built first, and other programs, are shown as they were.
        let ours = words[0] == "clawhost" && !command.contains(['|', '\\']);
        let elsewhere = ["greet", "audit", "approvals", "secrets", "quarantine", "stats"];
        if !ours || elsewhere.iter().any(|word| command.contains(word)) {
            continue;
        }
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let output = cli.command(&arguments).current_dir(source_root()).output().unwrap();
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if asks_code {
            printed.push_str(&format!("exit {}\n", output.status.code().unwrap()));
        }
        let lines =
            |text: &str| text.lines().map(str::trim_end).map(str::to_owned).collect::<Vec<_>>();
        let mut shown: Vec<String> =
            example.shown.iter().map(|line| line.trim_end().to_owned()).collect();
        shown.retain(|line| !line.is_empty());
        let mut printed = lines(&printed);
        printed.retain(|line| !line.is_empty());
        assert_eq!(shown, printed, "$ {}", example.command);
        run += 1;
    }
    assert!(run >= 5, "only {run} examples were run");
}
