//! What a profile blocks: regular expressions over texts, and wildcards over commands.
//!
//! Wildcards are looked for in a text that is made of a line: every program by its last name,
//! and [`MARK`] around every command and every character of an operator. So each command is
//! found, and commands in a row, wherever in a line they stand and however it is quoted.

use std::path::Path;

use regex::{Regex, RegexBuilder};

use super::parse::Word;
use super::rules::{Refusal, ShellRules};
use crate::limits::SHELL_PATTERN_BYTES_MAX;

/// Stands between commands and operators. No system takes it in a command line.
const MARK: char = '\0';
const OPERATORS: [char; 3] = ['|', '&', ';'];

/// The compiled lists of one profile.
#[derive(Debug)]
pub(super) struct Blocked {
    commands: Vec<Regex>,
    patterns: Vec<Regex>,
}

impl Blocked {
    /// Compiles what `rules` block.
    pub(super) fn new(rules: &ShellRules) -> Result<Self, String> {
        let commands = rules.blocked_commands.iter().map(|text| wildcard(text));
        let patterns = rules.blocked_patterns.iter().map(|text| pattern(text));
        Ok(Self {
            commands: commands.collect::<Result<_, _>>()?,
            patterns: patterns.collect::<Result<_, _>>()?,
        })
    }

    /// Looks for blocked patterns in `text`, until it `is_over`.
    pub(super) fn search(&self, text: &str, is_over: &dyn Fn() -> bool) -> Result<(), Refusal> {
        match first(&self.patterns, text, is_over)? {
            Some(found) => {
                Err(Refusal::new(format!("the blocked pattern `{found}` is found in it")))
            }
            None => Ok(()),
        }
    }

    /// Looks for blocked commands among several, each as [`marked`] writes it.
    pub(super) fn search_commands(
        &self,
        commands: &str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), Refusal> {
        match first(&self.commands, &format!("{MARK}{commands}"), is_over)? {
            Some(_) => Err(Refusal::new("it is one of the blocked commands")),
            None => Ok(()),
        }
    }
}

fn first<'r>(
    list: &'r [Regex],
    text: &str,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<&'r Regex>, Refusal> {
    for regex in list {
        if is_over() {
            return Err(Refusal::new("no time was left to look for what is blocked"));
        }
        if regex.is_match(text) {
            return Ok(Some(regex));
        }
    }
    Ok(None)
}

/// Returns the text of a command, whose program has the last name `name`, after `operator`.
pub(super) fn marked(operator: &str, name: &str, words: &[Word]) -> String {
    let mut text: String = operator.trim().chars().flat_map(|c| [c, MARK]).collect();
    text.push_str(name);
    for argument in words.iter().skip(1) {
        text.push(' ');
        text.push_str(&argument.text());
    }
    text.push(MARK);
    text
}

/// Compiles one of `blocked_patterns`.
///
/// # Errors
/// What is wrong with it.
pub fn pattern(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text)
        .size_limit(SHELL_PATTERN_BYTES_MAX)
        .dfa_size_limit(SHELL_PATTERN_BYTES_MAX)
        .build();
    built.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").to_owned()
    })
}

/// Compiles one of `blocked_commands`: one word is a program with any arguments.
///
/// # Errors
/// It is too large, or could never be found: it names nothing, has a redirection, which is no
/// part of a command here, or a wildcard in the path of a program.
pub fn wildcard(text: &str) -> Result<Regex, String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == ';');
    if text.is_empty() || text.contains(['<', '>', MARK]) {
        return Err("it takes commands without redirections (`blocked_patterns` sees them)".into());
    }
    let is_name = !text.contains(|c: char| c.is_whitespace() || OPERATORS.contains(&c));
    let (any, one, end) =
        if is_name { (r"[^ \x00]*", r"[^ \x00]", r"( [^\x00]*)?") } else { (".*", ".", "") };
    let commands: Vec<String> = tokens(text).map(token).collect::<Result<_, _>>()?;
    let commands = regex::escape(&commands.join("\0")).replace(r"\*", any).replace(r"\?", one);
    pattern(&format!("(?s){MARK}{commands}{end}{MARK}"))
}

/// Returns the commands of `text` and the characters of its operators, in their order.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split_inclusive(OPERATORS);
    let tokens = pieces.flat_map(|piece| {
        let (command, operator) = piece.split_at(piece.trim_end_matches(OPERATORS).len());
        [command.trim(), operator]
    });
    tokens.filter(|token| !token.is_empty())
}

/// Returns a token with one blank between its words and its program by its last name: a path
/// may be written in many ways.
fn token(text: &str) -> Result<String, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if let Some(program) = words.first_mut().filter(|word| word.contains('/')) {
        let name = Path::new(*program).file_name().and_then(|name| name.to_str());
        let is_plain = !program.contains(['*', '?']);
        *program = name.filter(|_| is_plain).ok_or("a program's path takes no `*` and no `?`")?;
    }
    Ok(words.join(" "))
}
