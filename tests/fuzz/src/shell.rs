//! Restricted command lines: what runs is only words that the shell has nothing left to do with.

use std::path::{Path, PathBuf};

use clawhost_core::grants::Shell;
use clawhost_core::shell::{Machine, ShellPolicy, ShellRules};

/// A word that the profile of this target blocks, wherever it stands.
const BLOCKED: &str = "forbidden";
const MOUNT: &str = "/work";
/// Programs that are installed beside those of the policy's own list.
const OTHERS: [&str; 4] = ["sh", "bash", "env", "mine"];

/// Reads `data` as a command line.
pub fn run(data: &[u8]) {
    let rules = ShellRules {
        blocked_commands: vec!["rm -rf *".to_owned()],
        blocked_patterns: vec![BLOCKED.to_owned()],
        programs: vec!["mine".to_owned()],
    };
    let policy = ShellPolicy::new(&Shell::Restricted, &rules).expect("the rules are fine");
    let line = String::from_utf8_lossy(data);
    let Ok(script) = admitted(&policy, &line) else { return };
    let commands = read(&script).unwrap_or_else(|why| panic!("{line:?} became {script:?}: {why}"));
    for words in &commands {
        let Some(program) = words.first() else { panic!("{script:?} has an empty command") };
        let is_listed = program.starts_with("/usr/bin/") && !OTHERS[..3].contains(&name(program));
        assert!(program == "cd" || is_listed, "{line:?} runs {program:?}");
        assert!(!words.join(" ").contains(BLOCKED), "{line:?} became {script:?}");
        let forces = words.iter().filter(|word| word.starts_with("-rf")).count();
        assert!(name(program) != "rm" || forces == 0 || words.len() < 3 || words[1] != "-rf");
        let given = words.iter().skip(1).cloned().collect::<Vec<_>>();
        check_first_argument(program, &given);
    }
    // Written anew it means the same; only how often nothing is quoted may differ.
    if !commands.iter().any(|words| words[0] == "cd" || name(&words[0]) == "sed") {
        let again = admitted(&policy, &script).map(|script| script.replace("''", ""));
        assert_eq!(again, Ok(script.replace("''", "")), "{line:?}");
    }
}

fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Checks what the policy puts before the arguments of others.
fn check_first_argument(program: &str, arguments: &[String]) {
    match name(program) {
        "sed" => assert_eq!(arguments.first().map(String::as_str), Some("--sandbox")),
        "cd" => {
            assert_eq!(arguments.first().map(String::as_str), Some("--"));
            let to = Path::new(&arguments[1]);
            assert!(to.is_relative() || to.starts_with(MOUNT), "cd {to:?}");
            assert!(!arguments[1].split('/').any(|step| step == ".."), "cd {to:?}");
        }
        _ => {}
    }
}

fn admitted(policy: &ShellPolicy, line: &str) -> Result<String, String> {
    let machine = Machine { find: &find, is_over: &|| false };
    policy.line(line, &[Path::new(MOUNT)], machine).map_err(|refusal| refusal.to_string())
}

/// Finds every program that has a plain name.
fn find(program: &str) -> Option<PathBuf> {
    let name = program.strip_prefix("/usr/bin/").unwrap_or(program);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '[';
    (!name.is_empty() && name.chars().all(plain)).then(|| Path::new("/usr/bin").join(name))
}

/// Reads a script that holds nothing but quoted words, bare patterns, assignments, redirections
/// and the joints of commands; returns the words of each command.
fn read(script: &str) -> Result<Vec<Vec<String>>, String> {
    let mut commands = vec![Vec::new()];
    let mut rest = script;
    while !rest.is_empty() {
        if let Some(next) = rest.strip_prefix(' ') {
            rest = next;
            continue;
        }
        let joint = ["&& ", "|| ", "| ", "; "].iter().find_map(|joint| rest.strip_prefix(joint));
        if let Some(next) = joint {
            commands.push(Vec::new());
            rest = next;
            continue;
        }
        let (word, next) = word(rest)?;
        rest = next;
        let words = commands.last_mut().ok_or("no command")?;
        let is_mark = word.text == "!" && word.bare == "!";
        let is_assignment = words.is_empty() && word.bare.ends_with('=');
        if word.bare.contains(['<', '>']) {
            check_redirect(&word)?;
        } else if !is_mark && !is_assignment {
            words.push(word.text);
        }
    }
    Ok(commands)
}

struct Word {
    text: String,
    /// What of it was not quoted.
    bare: String,
}

fn check_redirect(word: &Word) -> Result<(), String> {
    let operator = word.bare.trim_start_matches(|c: char| c.is_ascii_digit());
    let target = word.text.get(word.bare.len()..).unwrap_or_default();
    let is_stream = operator.len() == 3 && operator.starts_with(">&") && target.is_empty();
    let path = Path::new(target);
    let inside = path.is_relative() || path.starts_with(MOUNT) || target == "/dev/null";
    let climbs = target.split('/').any(|step| step == "..");
    let is_file = matches!(operator, "<" | ">" | ">>") && !target.is_empty() && inside && !climbs;
    if is_stream || is_file { Ok(()) } else { Err(format!("a redirection {:?}", word.text)) }
}

fn word(script: &str) -> Result<(Word, &str), String> {
    let (mut word, mut rest) = (Word { text: String::new(), bare: String::new() }, script);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            ' ' => return Ok((word, rest)),
            ';' if rest.starts_with(' ') => {
                return Ok((word, &script[script.len() - rest.len() - 1..]));
            }
            '\'' => {
                let (text, next) = rest.split_once('\'').ok_or("an open quote")?;
                word.text.push_str(text);
                rest = next;
            }
            '\\' if rest.starts_with('\'') => {
                word.text.push('\'');
                rest = &rest[1..];
            }
            c if c.is_ascii_alphanumeric() || "*?[]!^-_.=<>&".contains(c) => {
                word.text.push(c);
                word.bare.push(c);
            }
            other => return Err(format!("{other:?} stands bare")),
        }
    }
    Ok((word, rest))
}
