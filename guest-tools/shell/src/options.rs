//! Options of commands.

use crate::stop::{Done, usage};

/// Options as they were given.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<(char, String)>);

impl Options {
    /// Takes options wherever they stand, as GNU commands do. `known` lists letters, each with
    /// `:` after it where it has a value; `long` gives long names their letter.
    pub(crate) fn all(
        known: &str,
        long: &[(&str, char)],
        arguments: &[String],
    ) -> Done<(Self, Vec<String>)> {
        let (mut options, mut operands) = (Self::default(), Vec::new());
        let mut rest = arguments;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if first == "--" {
                operands.extend_from_slice(rest);
                break;
            }
            if first == "-" || !first.starts_with('-') {
                operands.push(first.clone());
            } else {
                rest = options.take(known, long, first, rest)?;
            }
        }
        Ok((options, operands))
    }

    /// Takes options up to the first operand.
    pub(crate) fn leading<'a>(
        known: &str,
        long: &[(&str, char)],
        arguments: &'a [String],
    ) -> Done<(Self, &'a [String])> {
        let mut options = Self::default();
        let mut rest = arguments;
        while let Some((first, after)) = rest.split_first() {
            if first == "--" {
                return Ok((options, after));
            }
            if first == "-" || !first.starts_with('-') {
                break;
            }
            rest = options.take(known, long, first, after)?;
        }
        Ok((options, rest))
    }

    fn take<'a>(
        &mut self,
        known: &str,
        long: &[(&str, char)],
        group: &str,
        mut rest: &'a [String],
    ) -> Done<&'a [String]> {
        if let Some(name) = group.strip_prefix("--") {
            return self.take_long(known, long, name, rest);
        }
        let mut letters = group.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            if letter == ':' || !known.contains(letter) {
                return usage(format!("unknown option -{letter}; it knows {}", listed(known)));
            }
            if !takes_value(known, letter) {
                self.0.push((letter, String::new()));
                continue;
            }
            let glued = letters.as_str();
            let value = match rest.split_first() {
                _ if !glued.is_empty() => glued.to_owned(),
                Some((value, after)) => {
                    rest = after;
                    value.clone()
                }
                None => return usage(format!("option -{letter} needs a value")),
            };
            self.0.push((letter, value));
            break;
        }
        Ok(rest)
    }

    fn take_long<'a>(
        &mut self,
        known: &str,
        long: &[(&str, char)],
        text: &str,
        rest: &'a [String],
    ) -> Done<&'a [String]> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let Some((_, letter)) = long.iter().find(|(own, _)| *own == name) else {
            return usage(format!("unknown option --{name}; it knows {}", listed(known)));
        };
        if value.is_some() || !takes_value(known, *letter) {
            self.0.push((*letter, value.unwrap_or_default()));
            return Ok(rest);
        }
        match rest.split_first() {
            Some((value, after)) => {
                self.0.push((*letter, value.clone()));
                Ok(after)
            }
            None => usage(format!("option --{name} needs a value")),
        }
    }

    pub(crate) fn has(&self, letter: char) -> bool {
        self.0.iter().any(|(own, _)| *own == letter)
    }

    /// The value given last.
    pub(crate) fn value(&self, letter: char) -> Option<&str> {
        self.values(letter).last()
    }

    pub(crate) fn values(&self, letter: char) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| *own == letter).map(|(_, value)| value.as_str())
    }

    /// Which of `letters` was given last.
    pub(crate) fn last_of(&self, letters: &str) -> Option<char> {
        self.0.iter().rev().map(|(own, _)| *own).find(|own| letters.contains(*own))
    }

    /// The number given with `letter`, which is not 0.
    pub(crate) fn at_least_one(&self, letter: char) -> Done<Option<usize>> {
        match self.number(letter)? {
            Some(0) => usage(format!("-{letter}: it has to be 1 at least")),
            number => Ok(number),
        }
    }

    /// The number given with `letter`.
    pub(crate) fn number(&self, letter: char) -> Done<Option<usize>> {
        match self.value(letter) {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => usage(format!("-{letter}: {text:?} is no number")),
            },
        }
    }
}

fn takes_value(known: &str, letter: char) -> bool {
    known
        .find(letter)
        .is_some_and(|at| known.get(at + 1..).is_some_and(|after| after.starts_with(':')))
}

fn listed(known: &str) -> String {
    let letters = known.chars().filter(|c| *c != ':').map(|c| format!("-{c}"));
    let listed: Vec<String> = letters.collect();
    if listed.is_empty() { "none".to_owned() } else { listed.join(" ") }
}
