//! Every block of commands in the READMEs and the book is run here, or says why it is not.
//!
//! A block runs in a folder of its own, in which the examples and the documents of its page lie. Each of its commands
//! succeeds, and prints what is shown below it; a block that ends with `…` shows some of the lines, in their order. An
//! HTML comment right before a block is its mark: `<!-- not run: WHY -->`, or `<!-- run after: COMMANDS -->` for what
//! has to have happened. A name in capitals that these assign stands for its value in the block.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clawhost_tests::{Cli, source_root};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli::PROGRAM;
use crate::docs::{documents, pages};

/// Fewer than this means that blocks are no longer found.
const RUN_MIN: usize = 20;
/// A debug build on a busy machine, and the sleep of the demonstration, are within it.
const BLOCK_ENDS_WITHIN: Duration = Duration::from_secs(120);
/// A block is mostly one process that works.
const BLOCKS_AT_ONCE: usize = 3;
/// What ends each part of what a block prints, before the exit code.
const MARK: &str = "@@@@";
/// What a script says with its exit code where a program is missing.
const SKIPPED: i32 = 77;
/// The chain of records that the pages show.
const CHAIN: &str = "1795256914175-9124-0";
/// Blocks that are none of commands.
const OTHERS: [&str; 7] = ["", "ini", "json", "python", "rust", "text", "yaml"];

struct Example {
    command: String,
    shown: Vec<String>,
}

struct Block {
    place: String,
    after: String,
    examples: Vec<Example>,
}

/// What the comment before a block says: what has to be run before, or nothing where it is not run.
fn mark(place: &str, prose: &str) -> Option<String> {
    let Some((_, mark)) = prose.strip_suffix("-->").and_then(|prose| prose.rsplit_once("<!--"))
    else {
        return Some(String::new());
    };
    match mark.trim().split_once(':') {
        Some(("run after", commands)) => Some(commands.to_owned()),
        Some(("not run", why)) if !why.trim().is_empty() => None,
        _ => panic!("{place}: the mark is `not run: WHY` or `run after: COMMANDS`, not{mark}"),
    }
}

fn examples(block: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in block.lines() {
        let goes_on = examples.last_mut().filter(|last| last.command.ends_with('\\'));
        if let Some(last) = goes_on {
            write!(last.command, "\n{line}").unwrap();
        } else if let Some(command) = line.strip_prefix("$ ") {
            examples.push(Example { command: command.to_owned(), shown: Vec::new() });
        } else {
            examples.last_mut().unwrap().shown.push(line.to_owned());
        }
    }
    examples
}

/// The blocks of a page that are to be run.
fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut blocks, mut marked) = (Vec::new(), 0);
    for pair in text.split("\n```").collect::<Vec<_>>().chunks_exact(2) {
        let (language, block) = pair[1].split_once('\n').unwrap();
        let place = format!("{}: {}", page.display(), block.lines().next().unwrap_or_default());
        if language != "console" {
            let hidden = block.lines().any(|line| line.starts_with("$ "));
            assert!(OTHERS.contains(&language) && !hidden, "{place}: is it a console block?");
            continue;
        }
        marked += usize::from(pair[0].ends_with("-->"));
        if let Some(after) = mark(&place, pair[0]) {
            blocks.push(Block { place, after, examples: examples(block) });
        }
    }
    let marks = text.matches("<!-- not run").count() + text.matches("<!-- run after").count();
    assert_eq!(marks, marked, "{}: a mark that is not right before a block", page.display());
    blocks
}

impl Block {
    /// Returns the names that stand for values which differ from run to run.
    fn names(&self) -> impl Iterator<Item = &str> {
        let assigned = self.after.lines().filter_map(|line| line.split_once('='));
        assigned.map(|(name, _)| name).filter(|name| name.bytes().all(|b| b.is_ascii_uppercase()))
    }

    fn script(&self) -> String {
        let mut script = format!(
            "set -e\n. \"$SOURCE/tests/docs/before.sh\"\n{}\nset +e\necho '{MARK}0'\n",
            self.after
        );
        for example in &self.examples {
            let named = |command: String, name: &str| command.replace(name, &format!("${name}"));
            let command = self.names().fold(example.command.clone(), named);
            write!(script, "{command}\nprintf '\\n{MARK}%s\\n' $?\n").unwrap();
        }
        script
    }

    /// Runs it, and returns all that it printed.
    async fn printed(&self, cli: &Cli) -> (ExitStatus, String) {
        let out = cli.here().join(".printed");
        let file = File::create(&out).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let surroundings = cli.command(&[]);
        let mut child = Command::new("sh")
            .args(["-c", &self.script()])
            .current_dir(cli.here())
            .env_clear()
            .envs(surroundings.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("HOME", cli.here())
            .env("PATH", format!("{}:{path}", cli.here().join(".bin").display()))
            .env("SOURCE", source_root())
            .env("CLAWHOST", PROGRAM)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        let group = format!("-{}", child.id().unwrap());
        let ended = tokio::time::timeout(BLOCK_ENDS_WITHIN, child.wait()).await;
        // What it left running.
        let _ = std::process::Command::new("kill").args(["-s", "KILL", "--", &group]).output();
        let printed = String::from_utf8_lossy(&std::fs::read(out).unwrap()).into_owned();
        let ended = ended.unwrap_or_else(|_| panic!("{}: it does not end: {printed}", self.place));
        (ended.unwrap(), printed)
    }
}

/// The lines of a text, without what differs from run to run: the names of chains, and how wide tables are with them.
fn lines(cli: &Cli, text: &str) -> Vec<String> {
    let mut text = text.to_owned();
    for log in cli.logs() {
        text = text.replace(log.file_stem().unwrap().to_str().unwrap(), CHAIN);
    }
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    match text.contains(CHAIN) {
        true => lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect(),
        false => lines.map(str::to_owned).collect(),
    }
}

/// Whether what is shown of a command is what it printed; nothing shown is nothing said.
fn fits(shown: &[String], printed: &[String]) -> bool {
    match shown.split_last() {
        Some((last, some)) if last == "…" => {
            let mut rest = printed.iter();
            some.iter().all(|line| rest.any(|printed| printed == line))
        }
        Some(_) => shown == printed,
        None => true,
    }
}

/// Puts what the block finds into a folder of its own.
fn folder(page: &Path) -> Cli {
    let cli = Cli::new(PROGRAM);
    for (name, text) in documents(page) {
        cli.write(&name, text);
    }
    // The host's greeting has the agent's token.
    for (name, text) in
        [("host.log", ""), (".printed", ""), ("token.txt", "the value of a token\n")]
    {
        cli.write(name, text);
    }
    std::fs::create_dir(cli.here().join(".bin")).unwrap();
    std::os::unix::fs::symlink(PROGRAM, cli.here().join(".bin/clawhost")).unwrap();
    cli
}

/// Runs a block, and says whether it could be.
async fn run(page: &Path, block: &Block) -> bool {
    let cli = folder(page);
    let (status, printed) = block.printed(&cli).await;
    if status.code() == Some(SKIPPED) {
        eprintln!("skipped, as a program is missing: {}", block.place);
        return false;
    }
    let parts = printed.split(MARK).skip(1).filter_map(|part| part.split_once('\n'));
    let parts: Vec<_> = parts.collect();
    assert_eq!(parts.len(), block.examples.len() + 1, "{}: {printed}", block.place);
    for (example, part) in block.examples.iter().zip(parts.windows(2)) {
        let (said, code) = (lines(&cli, part[0].1), part[1].0);
        let place = format!("{}: $ {}", page.display(), example.command);
        assert_eq!(code, "0", "{place}: {said:#?}");
        let shown = lines(&cli, &example.shown.join("\n"));
        assert!(fits(&shown, &said), "{place}: shown {shown:#?} printed {said:#?}");
    }
    true
}

#[tokio::test]
async fn every_block_of_commands_does_what_it_says() {
    let mut at_work = JoinSet::new();
    let places = Arc::new(Semaphore::new(BLOCKS_AT_ONCE));
    for page in pages() {
        for block in blocks(&page) {
            let (page, places) = (page.clone(), places.clone());
            at_work.spawn(async move {
                let _place = places.acquire().await.unwrap();
                run(&page, &block).await
            });
        }
    }
    let mut done = Vec::new();
    while let Some(ended) = at_work.join_next().await {
        done.push(ended);
    }
    // All have ended first, so that each that is wrong has said so.
    let count = done.into_iter().filter(|ended| *ended.as_ref().unwrap()).count();
    assert!(count >= RUN_MIN, "only {count} blocks were run");
}
