//! POSIX regular expressions, translated for an engine that takes time in proportion to the
//! text, whatever the expression.
//!
//! Two things follow from that engine: there are no back-references in patterns, and of several
//! alternatives the first that fits is taken, not the longest.

use regex_bites::bytes::{Captures, Regex as Engine, RegexBuilder};

use crate::stop::{Done, usage};

/// Which characters are special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Basic,
    Extended,
    /// No character is.
    Fixed,
}

/// A compiled expression.
pub(super) struct Regex(Engine);

/// What the translation may grow to, in bytes of the engine's program.
const PROGRAM_BYTES_MAX: usize = 4_194_304;

impl Regex {
    pub(super) fn new(text: &str, flavour: Flavour, ignore_case: bool) -> Done<Self> {
        let translated = match flavour {
            Flavour::Fixed => regex_bites::escape(text),
            _ => Translation::new(text, flavour == Flavour::Extended).run()?,
        };
        Self::translated(&translated, ignore_case, text)
    }

    /// Any of several expressions, perhaps only as whole lines or words.
    pub(super) fn any(
        texts: &[String],
        flavour: Flavour,
        ignore_case: bool,
        around: (&str, &str),
    ) -> Done<Self> {
        let mut all = Vec::new();
        for text in texts {
            all.push(match flavour {
                Flavour::Fixed => regex_bites::escape(text),
                _ => Translation::new(text, flavour == Flavour::Extended).run()?,
            });
        }
        let translated = format!("{}(?:{}){}", around.0, all.join("|"), around.1);
        Self::translated(&translated, ignore_case, &texts.join(" "))
    }

    fn translated(translated: &str, ignore_case: bool, shown: &str) -> Done<Self> {
        let engine = RegexBuilder::new(translated)
            .case_insensitive(ignore_case)
            .dot_matches_new_line(true)
            .size_limit(PROGRAM_BYTES_MAX)
            .build();
        match engine {
            Ok(engine) => Ok(Self(engine)),
            Err(error) => usage(format!("{shown:?} is no regular expression: {error}")),
        }
    }

    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// The first match at or after `start`.
    pub(super) fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        self.0.find_at(text, start).map(|found| (found.start(), found.end()))
    }

    pub(super) fn captures<'t>(&self, text: &'t [u8], start: usize) -> Option<Captures<'t>> {
        self.0.captures_at(text, start)
    }

    /// All matches from left to right, an empty one not right after another.
    pub(super) fn all(&self, text: &[u8]) -> Vec<(usize, usize)> {
        self.0.find_iter(text).map(|found| (found.start(), found.end())).collect()
    }
}

struct Translation<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    extended: bool,
    out: String,
    /// Whether a branch begins here, so that `*` and `^` mean something else.
    at_start: bool,
    open: usize,
}

impl<'a> Translation<'a> {
    fn new(text: &'a str, extended: bool) -> Self {
        Self {
            rest: text.chars().peekable(),
            extended,
            out: String::new(),
            at_start: true,
            open: 0,
        }
    }

    fn run(mut self) -> Done<String> {
        while let Some(c) = self.rest.next() {
            let was_start = std::mem::take(&mut self.at_start);
            match c {
                '[' => self.bracket()?,
                '\\' => self.escape()?,
                '.' => self.out.push('.'),
                '*' if was_start => self.plain('*'),
                '*' => self.repeat('*'),
                '^' if self.extended || was_start => {
                    self.out.push('^');
                    self.at_start = true;
                }
                '$' if self.extended || self.ends() => self.out.push('$'),
                '+' | '?' if self.extended && was_start => self.plain(c),
                '+' | '?' if self.extended => self.repeat(c),
                '{' if self.extended && self.counts() => self.count("}"),
                '(' if self.extended => self.group(),
                ')' if self.extended && self.open > 0 => self.close(),
                '|' if self.extended => self.branch(),
                c => self.plain(c),
            }
        }
        Ok(self.out)
    }

    /// Whether `$` stands at the end of a branch.
    fn ends(&self) -> bool {
        let rest: String = self.rest.clone().take(2).collect();
        rest.is_empty() || rest == "\\)" || rest == "\\|"
    }

    fn plain(&mut self, c: char) {
        self.out.push_str(&regex_bites::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// A second sign of repetition changes nothing; in the engine it would make it lazy.
    fn repeat(&mut self, sign: char) {
        if !self.out.ends_with(['*', '+', '?'])
            || self.out.ends_with("\\*")
            || self.out.ends_with("\\+")
            || self.out.ends_with("\\?")
        {
            self.out.push(sign);
        }
    }

    fn group(&mut self) {
        self.out.push('(');
        self.open += 1;
        self.at_start = true;
    }

    fn close(&mut self) {
        self.out.push(')');
        self.open -= 1;
    }

    fn branch(&mut self) {
        self.out.push('|');
        self.at_start = true;
    }

    fn counts(&self) -> bool {
        self.rest.clone().next().is_some_and(|c| c.is_ascii_digit() || c == ',')
    }

    /// `{2,3}`; `{,3}` counts from 0.
    fn count(&mut self, end: &str) {
        let text: String = self.rest.clone().collect();
        let Some((count, _)) = text.split_once(end) else { return self.plain('{') };
        for _ in 0..count.chars().count() + end.chars().count() {
            self.rest.next();
        }
        let zero = if count.starts_with(',') { "0" } else { "" };
        self.out.push_str(&format!("{{{zero}{count}}}"));
    }

    fn escape(&mut self) -> Done<()> {
        let Some(c) = self.rest.next() else { return usage("a regular expression ends with \\") };
        match c {
            '(' if !self.extended => self.group(),
            ')' if !self.extended && self.open > 0 => self.close(),
            '|' if !self.extended => self.branch(),
            '{' if !self.extended => self.count("\\}"),
            '+' | '?' if !self.extended => self.repeat(c),
            'n' => self.out.push_str("\\n"),
            't' => self.out.push_str("\\t"),
            'r' => self.out.push_str("\\r"),
            'f' => self.out.push_str("\\f"),
            'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'd' | 'D' => self.out.extend(['\\', c]),
            '<' => self.out.push_str("\\b{start}"),
            '>' => self.out.push_str("\\b{end}"),
            '`' => self.out.push_str("\\A"),
            '\'' => self.out.push_str("\\z"),
            '1'..='9' => {
                return usage("back-references are not there: they can take endless time");
            }
            c => self.plain(c),
        }
        Ok(())
    }

    fn bracket(&mut self) -> Done<()> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.rest.next() else { return usage("a [ is not closed") };
            match c {
                ']' if !first => break,
                '[' if self.rest.peek() == Some(&':') => self.class()?,
                '\\' => self.bracket_escape(),
                '[' | ']' | '&' | '~' | '^' => self.out.extend(['\\', c]),
                c => self.out.push(c),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    fn class(&mut self) -> Done<()> {
        let mut name = String::from("[");
        loop {
            match self.rest.next() {
                Some(']') => break,
                Some(c) => name.push(c),
                None => return usage("a [: is not closed"),
            }
        }
        self.out.push_str(&name);
        self.out.push(']');
        Ok(())
    }

    /// A backslash is plain in POSIX brackets; the sequences that everybody uses are read.
    fn bracket_escape(&mut self) {
        match self.rest.peek() {
            Some(
                c @ ('n' | 't' | 'r' | 'f' | '\\' | ']' | '[' | '/' | '"' | '-' | '.' | 'w' | 's'
                | 'd'),
            ) => {
                let c = *c;
                if c == ']' && self.extended && self.rest.clone().all(|c| c != ']') {
                    self.out.push_str("\\\\");
                    return;
                }
                self.rest.next();
                match c {
                    '/' | '"' => self.out.push(c),
                    c => self.out.extend(['\\', c]),
                }
            }
            _ => self.out.push_str("\\\\"),
        }
    }
}
