//! The expression of `find`.

use super::{Comparison, Find, Test};
use crate::limits::FOLDER_DEPTH_MAX;
use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::stop::{Done, usage};
use crate::world::Kind;

/// Parentheses inside one another.
const DEPTH_MAX: usize = 50;

impl Find {
    pub(super) fn either(
        &mut self,
        shell: &Shell,
        rest: &mut &[String],
        depth: usize,
    ) -> Done<Test> {
        if depth > DEPTH_MAX {
            return usage("nested too deeply");
        }
        let mut tests = vec![self.both(shell, rest, depth)?];
        while eat(rest, &["-o", "-or"]) {
            tests.push(self.both(shell, rest, depth)?);
        }
        Ok(Test::Or(tests))
    }

    fn both(&mut self, shell: &Shell, rest: &mut &[String], depth: usize) -> Done<Test> {
        let mut tests = Vec::new();
        while rest.first().is_some_and(|word| !["-o", "-or", ")"].contains(&word.as_str())) {
            eat(rest, &["-a", "-and"]);
            let mut turn = false;
            while eat(rest, &["!", "-not"]) {
                turn = !turn;
            }
            let test = self.primary(shell, rest, depth)?;
            tests.push(if turn { Test::Not(Box::new(test)) } else { test });
        }
        Ok(Test::And(tests))
    }

    fn primary(&mut self, shell: &Shell, rest: &mut &[String], depth: usize) -> Done<Test> {
        let Some((word, after)) = rest.split_first() else { return usage("a test is missing") };
        *rest = after;
        match word.as_str() {
            "(" => {
                let test = self.either(shell, rest, depth + 1)?;
                return if eat(rest, &[")"]) { Ok(test) } else { usage(") is missing") };
            }
            "-empty" => return Ok(Test::Empty),
            "-true" => return Ok(Test::Always),
            "-prune" => return Ok(Test::Prune),
            "-depth" => {
                self.children_first = true;
                return Ok(Test::Always);
            }
            "-print" | "-print0" | "-delete" | "-quit" => return Ok(self.action(word)),
            "-exec" | "-execdir" => return self.exec(rest),
            _ => {}
        }
        let Some((value, after)) = rest.split_first() else {
            return usage(format!("{word} is unknown, or needs a value"));
        };
        *rest = after;
        self.valued(shell, word, value)
    }

    fn action(&mut self, word: &str) -> Test {
        self.acts |= word != "-quit";
        match word {
            "-print" => Test::Print("\n"),
            "-print0" => Test::Print("\0"),
            "-quit" => Test::Quit,
            _ => {
                self.children_first = true;
                Test::Delete
            }
        }
    }

    fn valued(&mut self, shell: &Shell, word: &str, value: &str) -> Done<Test> {
        let name = |ignore_case: bool, whole: bool| {
            let value = if ignore_case { value.to_lowercase() } else { value.to_owned() };
            Test::Name { pattern: Pattern::new(&value), ignore_case, whole }
        };
        Ok(match word {
            "-name" => name(false, false),
            "-iname" => name(true, false),
            "-path" | "-wholename" => name(false, true),
            "-ipath" => name(true, true),
            "-type" => Test::Type(value.split(',').filter_map(kind).collect()),
            "-maxdepth" => {
                self.depth_max = number(value)?.min(FOLDER_DEPTH_MAX);
                Test::Always
            }
            "-mindepth" => {
                self.depth_min = number(value)?;
                Test::Always
            }
            "-size" => size(value)?,
            "-mtime" => Test::Age(comparison(value)?, 86_400),
            "-mmin" => Test::Age(comparison(value)?, 60),
            "-newer" => Test::Newer(shell.files.stat(&shell.path(value)?, true)?.modified),
            _ => return usage(format!("{word} is unknown")),
        })
    }

    fn exec(&mut self, rest: &mut &[String]) -> Done<Test> {
        self.acts = true;
        let end = rest.iter().enumerate().position(|(at, word)| {
            word == ";" || word == "+" && at > 0 && rest.get(at - 1).is_some_and(|w| w == "{}")
        });
        let Some(end) = end else { return usage("-exec needs ; or + at its end") };
        let (command, after) = rest.split_at(end);
        let batch = after.first().is_some_and(|word| word == "+");
        *rest = after.get(1..).unwrap_or_default();
        if !batch {
            return Ok(Test::Each(command.to_vec()));
        }
        let fixed = command.split_last().map_or(&[][..], |(_, fixed)| fixed);
        self.batches.push((fixed.to_vec(), Vec::new()));
        Ok(Test::Batch(self.batches.len() - 1))
    }
}

fn eat(rest: &mut &[String], words: &[&str]) -> bool {
    match rest.split_first() {
        Some((first, after)) if words.contains(&first.as_str()) => {
            *rest = after;
            true
        }
        _ => false,
    }
}

fn kind(letter: &str) -> Option<Kind> {
    match letter {
        "f" => Some(Kind::File),
        "d" => Some(Kind::Folder),
        "l" => Some(Kind::Link),
        _ => None,
    }
}

fn number(text: &str) -> Done<usize> {
    text.parse().or_else(|_| usage(format!("{text:?} is no number")))
}

fn comparison(text: &str) -> Done<Comparison> {
    let digits = text.trim_start_matches(['+', '-']);
    let Ok(value) = digits.parse() else { return usage(format!("{text:?} is no number")) };
    Ok(match text.chars().next() {
        Some('+') => Comparison::More(value),
        Some('-') => Comparison::Less(value),
        _ => Comparison::Exactly(value),
    })
}

fn size(text: &str) -> Done<Test> {
    let units = [('c', 1), ('k', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];
    let (digits, unit) = match text.char_indices().last().filter(|(_, c)| c.is_ascii_alphabetic()) {
        Some((at, letter)) => {
            let unit = units.iter().find(|(own, _)| *own == letter).map_or(512, |(_, unit)| *unit);
            (text.get(..at).unwrap_or_default(), unit)
        }
        None => (text, 512),
    };
    Ok(Test::Size(comparison(digits)?, unit))
}
