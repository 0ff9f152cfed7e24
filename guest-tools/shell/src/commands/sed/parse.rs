//! The script of `sed`.

use super::{Action, Address, Command, Part, Substitute};
use crate::commands::regex::{Flavour, Regex};
use crate::stop::{Done, usage};

struct Parser {
    text: Vec<char>,
    at: usize,
    flavour: Flavour,
}

/// Parses a script; every `{` knows its `}` and every label exists.
pub(super) fn parse(text: &str, flavour: Flavour) -> Done<Vec<Command>> {
    let mut parser = Parser { text: text.chars().collect(), at: 0, flavour };
    let mut commands: Vec<Command> = Vec::new();
    let mut open = Vec::new();
    while parser.skip_to_command() {
        let place = commands.len();
        let command = parser.command()?;
        match &command.action {
            Action::Open(_) => open.push(place),
            Action::Close => {
                let Some(start) = open.pop() else { return usage("} without {") };
                if let Some(Command { action, .. }) = commands.get_mut(start) {
                    *action = Action::Open(place);
                }
            }
            _ => {}
        }
        commands.push(command);
    }
    if !open.is_empty() {
        return usage("{ without }");
    }
    check_labels(&commands)?;
    Ok(commands)
}

fn check_labels(commands: &[Command]) -> Done<()> {
    for command in commands {
        if let Action::Branch { label, .. } = &command.action
            && !label.is_empty()
            && !commands.iter().any(|c| matches!(&c.action, Action::Label(own) if own == label))
        {
            return usage(format!("there is no label {label:?}"));
        }
    }
    Ok(())
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn eat(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
    }

    fn skip_to_command(&mut self) -> bool {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() || c == ';' => self.at += 1,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                other => return other.is_some(),
            }
        }
    }

    fn number(&mut self) -> Option<usize> {
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            digits.push(c);
            self.at += 1;
        }
        digits.parse().ok()
    }

    fn address(&mut self) -> Done<Option<Address>> {
        if let Some(line) = self.number() {
            if self.eat('~') {
                return Ok(Some(Address::Step(line, self.number().unwrap_or(0))));
            }
            return Ok(Some(Address::Line(line)));
        }
        Ok(match self.peek() {
            Some('$') => {
                self.at += 1;
                Some(Address::Last)
            }
            Some('+') => {
                self.at += 1;
                Some(Address::More(self.number().unwrap_or(0)))
            }
            Some(c @ ('/' | '\\')) => {
                self.at += 1;
                let end = if c == '\\' { self.next().unwrap_or('/') } else { '/' };
                let text = self.until(end, true)?;
                let ignore_case = self.eat('I');
                Some(Address::Matches(self.regex(&text, ignore_case)?))
            }
            _ => None,
        })
    }

    /// An empty expression is the one used last.
    fn regex(&self, text: &str, ignore_case: bool) -> Done<Option<Regex>> {
        match text {
            "" => Ok(None),
            text => Ok(Some(Regex::new(text, self.flavour, ignore_case)?)),
        }
    }

    /// The text up to `end`, which may stand in it after a backslash, or in brackets.
    fn until(&mut self, end: char, regex: bool) -> Done<String> {
        let mut text = String::new();
        let mut bracket = 0;
        loop {
            match self.next() {
                Some('\\') => match self.next() {
                    Some(c) if c == end && bracket == 0 => {
                        // In a pattern that character loses its meaning, if it had one.
                        if regex && "|+?(){}.*[]^$".contains(c) && c != '|' {
                            text.push('\\');
                        }
                        text.push(c);
                    }
                    Some('\n') if regex => text.push_str("\\n"),
                    Some(c) => text.extend(['\\', c]),
                    None => text.push('\\'),
                },
                Some(c) if c == end && bracket == 0 => return Ok(text),
                Some(c) => {
                    bracket = match (regex, bracket, c) {
                        (true, 0, '[') => 1,
                        (true, 1, '^') => 2,
                        (true, 1 | 2, _) => 3,
                        (true, 3, ']') => 0,
                        (_, state, _) => state,
                    };
                    text.push(c);
                }
                None => return usage(format!("{end:?} is missing")),
            }
        }
    }

    /// The rest of the line, for a file's name or a label.
    fn word(&mut self, ends: &str) -> String {
        self.blanks();
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| !ends.contains(*c)) {
            word.push(c);
            self.at += 1;
        }
        word.trim_end().to_owned()
    }

    fn command(&mut self) -> Done<Command> {
        let first = self.address()?;
        self.blanks();
        let mut second = None;
        if first.is_some() && self.eat(',') {
            self.blanks();
            second = self.address()?;
            if second.is_none() {
                return usage("an address is missing after ,");
            }
        }
        self.blanks();
        let mut negated = false;
        while self.eat('!') {
            negated = true;
            self.blanks();
        }
        Ok(Command { first, second, negated, action: self.action()? })
    }

    fn action(&mut self) -> Done<Action> {
        let Some(c) = self.next() else { return usage("a command is missing") };
        Ok(match c {
            '{' => Action::Open(0),
            '}' => Action::Close,
            's' => Action::Substitute(Box::new(self.substitute()?)),
            'y' => self.translate()?,
            'p' => Action::Print,
            'P' => Action::PrintFirst,
            'd' => Action::Delete,
            'D' => Action::DeleteFirst,
            'n' => Action::Next,
            'N' => Action::Join,
            '=' => Action::Number,
            'q' | 'Q' => {
                self.blanks();
                let status = self.number().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
                Action::Quit { print: c == 'q', status }
            }
            'a' => Action::Append(self.lines()),
            'i' => Action::Insert(self.lines()),
            'c' => Action::Change(self.lines()),
            'h' | 'H' => Action::Hold { append: c == 'H' },
            'g' | 'G' => Action::Get { append: c == 'G' },
            'x' => Action::Exchange,
            ':' => Action::Label(self.word("\n;")),
            'b' => Action::Branch { label: self.word("\n;}"), when: None },
            't' => Action::Branch { label: self.word("\n;}"), when: Some(true) },
            'T' => Action::Branch { label: self.word("\n;}"), when: Some(false) },
            'r' => Action::Read(self.word("\n")),
            'w' => Action::Write(self.word("\n")),
            other => return usage(format!("{other:?} is no command")),
        })
    }

    /// The text of `a`, `i` and `c`: to the end of the line, on with a backslash at its end.
    fn lines(&mut self) -> String {
        self.blanks();
        if self.eat('\\') {
            self.blanks();
            self.eat('\n');
        }
        let mut text = String::new();
        while let Some(c) = self.next().filter(|c| *c != '\n') {
            match c {
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        text.push('\n');
        text
    }

    fn translate(&mut self) -> Done<Action> {
        let end = self.next().unwrap_or('/');
        let letters = |text: &str| -> Vec<char> {
            let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\");
            text.chars().collect()
        };
        let (from, to) = (letters(&self.until(end, false)?), letters(&self.until(end, false)?));
        if from.len() != to.len() {
            return usage("y needs two texts of the same length");
        }
        Ok(Action::Translate(from.into_iter().zip(to).collect()))
    }

    fn substitute(&mut self) -> Done<Substitute> {
        let end = self.next().unwrap_or('/');
        let pattern = self.until(end, true)?;
        let replacement = self.until(end, false)?;
        let (mut global, mut print, mut nth, mut write, mut ignore_case) =
            (false, false, 1, None, false);
        loop {
            match self.peek() {
                Some('g') => global = true,
                Some('p') => print = true,
                Some('i' | 'I') => ignore_case = true,
                Some(c) if c.is_ascii_digit() => {
                    nth = self.number().unwrap_or(1).max(1);
                    continue;
                }
                Some('w') => {
                    self.at += 1;
                    write = Some(self.word("\n"));
                    break;
                }
                Some('e' | 'm' | 'M') => {
                    return usage("the flags of s are g, p, i, w and a number");
                }
                _ => break,
            }
            self.at += 1;
        }
        let regex = self.regex(&pattern, ignore_case)?;
        Ok(Substitute { regex, parts: parts(&replacement), global, nth, print, write })
    }
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let part = match c {
            '&' => Some(Part::Group(0)),
            '\\' => match rest.next() {
                Some(c @ '0'..='9') => {
                    c.to_digit(10).and_then(|n| usize::try_from(n).ok()).map(Part::Group)
                }
                Some(c @ ('U' | 'L' | 'u' | 'l' | 'E')) => Some(Part::Case(c)),
                Some('n') => {
                    plain.push('\n');
                    None
                }
                Some('t') => {
                    plain.push('\t');
                    None
                }
                other => {
                    plain.extend(other);
                    None
                }
            },
            c => {
                plain.push(c);
                None
            }
        };
        if let Some(part) = part {
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(part);
        }
    }
    parts.push(Part::Text(plain));
    parts
}
