//! Words: quotes, `$…`, backticks.

use std::rc::Rc;

use super::parser::{Parsed, Parser};
use super::tree::{Operation, Part, Word};

/// Where a run of parts ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At a blank or an operator.
    Blank,
    /// At `"`.
    Quote,
    /// At `}`.
    Brace,
    /// At the parenthesis that closes `$((`.
    Parenthesis,
    /// Nowhere: a here-document.
    Text,
}

/// How characters are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) quoted: bool,
    pub(super) end: End,
}

impl Word {
    pub(super) fn quoted(text: String) -> Self {
        Self(vec![Part::Quoted(text)])
    }

    /// The text of a here-document's delimiter, and whether any of it is quoted.
    pub(super) fn as_delimiter(&self) -> (String, bool) {
        let (mut text, mut quoted) = (String::new(), false);
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Quoted(plain) => {
                    quoted = true;
                    text.push_str(plain);
                }
                _ => {}
            }
        }
        (text, quoted)
    }

    fn push(&mut self, c: char, quoted: bool) {
        match (self.0.last_mut(), quoted) {
            (Some(Part::Quoted(text)), true) | (Some(Part::Text(text)), false) => text.push(c),
            (_, true) => self.0.push(Part::Quoted(c.to_string())),
            (_, false) => self.0.push(Part::Text(c.to_string())),
        }
    }
}

impl Parser {
    /// One word, or `None` where none begins here.
    pub(super) fn word(&mut self) -> Parsed<Option<Word>> {
        let start = self.place();
        let word = self.parts(Mode { quoted: false, end: End::Blank })?;
        Ok((self.place() != start).then_some(word))
    }

    pub(super) fn parts(&mut self, mode: Mode) -> Parsed<Word> {
        self.deeper(|parser| parser.parts_here(mode))
    }

    fn parts_here(&mut self, mode: Mode) -> Parsed<Word> {
        let mut word = Word::default();
        let mut open = 0_usize;
        let tilde = mode.end == End::Blank && self.tilde();
        if tilde {
            word.0.push(value("HOME".to_owned(), true));
        }
        while let Some(c) = self.peek() {
            match c {
                ')' if mode.end == End::Parenthesis && open == 0 => break,
                '(' if mode.end == End::Parenthesis => open += 1,
                ')' if mode.end == End::Parenthesis => open -= 1,
                _ if mode.ends_at(c) => break,
                _ => {}
            }
            self.part(c, mode, &mut word)?;
        }
        match (self.peek(), mode.end) {
            (None, End::Quote) => Err(self.error("syntax error: a \" is not closed")),
            (None, End::Brace) => Err(self.error("syntax error: a ${ is not closed")),
            (None, End::Parenthesis) => Err(self.error("syntax error: a $(( is not closed")),
            _ => Ok(word),
        }
    }

    /// Eats a `~` that stands for the home folder.
    fn tilde(&mut self) -> bool {
        let place = self.place();
        if self.eat("~") && self.peek().is_none_or(|c| c == '/' || " \t\n;&|()<>".contains(c)) {
            return true;
        }
        self.back_to(place);
        false
    }

    fn part(&mut self, c: char, mode: Mode, word: &mut Word) -> Parsed<()> {
        match c {
            '\\' => self.escape(mode, word),
            '\'' if !mode.quoted => {
                let text = self.single_quoted()?;
                word.0.push(Part::Quoted(text));
            }
            '"' if !mode.quoted || mode.end == End::Brace => self.double_quoted(word)?,
            '$' => self.dollar(mode.quoted, word)?,
            '`' => word.0.push(self.backticks(mode.quoted)?),
            _ => {
                self.next();
                word.push(c, mode.quoted);
            }
        }
        Ok(())
    }

    fn escape(&mut self, mode: Mode, word: &mut Word) {
        self.next();
        let Some(c) = self.next() else {
            return word.push('\\', true);
        };
        let special = match mode.end {
            End::Text => "$`\\",
            End::Brace => "$`\"\\}",
            _ => "$`\"\\",
        };
        if c == '\n' {
            return;
        }
        if mode.quoted && !special.contains(c) {
            word.push('\\', true);
        }
        word.push(c, true);
    }

    fn single_quoted(&mut self) -> Parsed<String> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => return Ok(text),
                Some(c) => text.push(c),
                None => return Err(self.error("syntax error: a ' is not closed")),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.next();
        let inner = self.parts(Mode { quoted: true, end: End::Quote })?;
        self.expect("\"")?;
        if inner.0.is_empty() {
            word.0.push(Part::Quoted(String::new()));
        }
        word.0.extend(inner.0);
        Ok(())
    }

    fn dollar(&mut self, quoted: bool, word: &mut Word) -> Parsed<()> {
        self.next();
        if self.looking_at("((") {
            let place = self.place();
            if let Some(part) = self.arithmetic(quoted)? {
                word.0.push(part);
                return Ok(());
            }
            self.back_to(place);
        }
        if self.eat("(") {
            let list = self.deeper(Self::list)?;
            self.expect(")")?;
            word.0.push(Part::Command { list: Rc::new(list), quoted });
        } else if self.eat("{") {
            let part = self.braces(quoted)?;
            word.0.push(part);
        } else if let Some(name) = self.parameter(true) {
            word.0.push(value(name, quoted));
        } else {
            word.push('$', quoted);
        }
        Ok(())
    }

    /// `$((…))`; `None` where it is `$( (…) )` instead.
    fn arithmetic(&mut self, quoted: bool) -> Parsed<Option<Part>> {
        self.expect("((")?;
        let Ok(expression) = self.parts(Mode { quoted: true, end: End::Parenthesis }) else {
            return Ok(None);
        };
        Ok(self.eat("))").then_some(Part::Arithmetic { expression, quoted }))
    }

    /// A parameter's name; without braces only the first digit belongs to it.
    fn parameter(&mut self, bare: bool) -> Option<String> {
        let first = self.peek()?;
        if first == '_' || first.is_ascii_alphabetic() {
            return Some(self.bare_word());
        }
        if first.is_ascii_digit() && !bare {
            return Some(self.bare_word());
        }
        let special = first.is_ascii_digit() || "@*#?-$!".contains(first);
        special.then(|| {
            self.next();
            first.to_string()
        })
    }

    fn braces(&mut self, quoted: bool) -> Parsed<Part> {
        let place = self.place();
        if self.eat("#")
            && let Some(name) = self.parameter(false)
            && self.eat("}")
        {
            return Ok(Part::Parameter { name, operation: Operation::Length, quoted });
        }
        self.back_to(place);
        let Some(name) = self.parameter(false) else {
            return Err(self.error("bad substitution"));
        };
        let operation = self.operation(quoted)?;
        self.expect("}")?;
        Ok(Part::Parameter { name, operation, quoted })
    }

    fn operation(&mut self, quoted: bool) -> Parsed<Operation> {
        if self.peek() == Some('}') {
            return Ok(Operation::Value);
        }
        let place = self.place();
        let colon = self.eat(":");
        let kind = self.next();
        let longest = !colon && matches!(kind, Some('#' | '%')) && kind == self.peek();
        if longest {
            self.next();
        }
        let trims = matches!(kind, Some('#' | '%'));
        let word = self.parts(Mode { quoted: quoted && !trims, end: End::Brace })?;
        Ok(match kind {
            Some('-') => Operation::Default { colon, word },
            Some('=') => Operation::Assign { colon, word },
            Some('?') => Operation::Demand { colon, word },
            Some('+') => Operation::Alternative { colon, word },
            Some('#') if !colon => Operation::Trim { suffix: false, longest, pattern: word },
            Some('%') if !colon => Operation::Trim { suffix: true, longest, pattern: word },
            _ => {
                self.back_to(place);
                return Err(self.error("bad substitution"));
            }
        })
    }

    fn backticks(&mut self, quoted: bool) -> Parsed<Part> {
        self.next();
        let mut script = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c) if "$`\\".contains(c) || (quoted && c == '"') => script.push(c),
                    other => script.extend(['\\'].into_iter().chain(other)),
                },
                Some(c) => script.push(c),
                None => return Err(self.error("syntax error: a ` is not closed")),
            }
        }
        let depth = self.depth + 1;
        let list = self.deeper(|_| Self::new(&script, depth).script())?;
        Ok(Part::Command { list: Rc::new(list), quoted })
    }
}

impl Mode {
    fn ends_at(self, c: char) -> bool {
        match self.end {
            End::Blank => " \t\r\n;&|()<>".contains(c),
            End::Quote => c == '"',
            End::Brace => c == '}',
            End::Parenthesis | End::Text => false,
        }
    }
}

fn value(name: String, quoted: bool) -> Part {
    Part::Parameter { name, operation: Operation::Value, quoted }
}
